// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* A request's life: added or forked, cancelled, ended, gone. */
#include <errno.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sched.h"

#define BANNED (-1e30f) /* added to a logit: finite, and beyond all others */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void request_free(struct kvslab_request *r)
{
	kvslab_seq_close(r->seq);
	free(r->stop);
	free(r->bias);
	free(r);
}

static bool within(float v, float min, float max)
{
	return v >= min && v <= max; /* false for a NaN */
}

static int check_sampling(const struct kvslab_sched *s, const struct kvslab_sampling *p)
{
	uint32_t i;

	if (!within(p->temperature, 0, FLT_MAX) || !within(p->top_p, 0, FLT_MAX) || !within(p->min_p, 0, 1) ||
	    !within(p->repetition_penalty, 0, FLT_MAX) || !within(p->presence_penalty, -FLT_MAX, FLT_MAX) ||
	    !within(p->frequency_penalty, -FLT_MAX, FLT_MAX) ||
	    (p->n_bias && (!p->bias_tokens || !p->bias)))
		return -EINVAL;
	for (i = 0; i < p->n_bias; i++)
		if (p->bias_tokens[i] >= s->executor->vocab || !within(p->bias[i], -FLT_MAX, FLT_MAX))
			return -EINVAL;
	return 0;
}

static int check_opts(const struct kvslab_sched *s, const struct kvslab_request_opts *o)
{
	uint32_t i;

	if (s->closing)
		return -ESHUTDOWN;
	if (s->dead)
		return -ENODEV;
	if (!o || (!o->max_tokens && !o->score_prompt) || o->n_top > KVSLAB_TOP_MAX ||
	    o->priority >= KVSLAB_PRIORITIES || (o->n_stop && !o->stop) || (o->salt_size && !o->salt))
		return -EINVAL;
	for (i = 0; o->min_tokens && i < o->n_stop; i++)
		if (o->stop[i] >= s->executor->vocab)
			return -EINVAL;
	return check_sampling(s, &o->sampling);
}

/* The caller's biases, behind those that ban the stop ids. */
static int copy_bias(struct kvslab_request *r, const struct kvslab_request_opts *o)
{
	const struct kvslab_sampling *p = &o->sampling;
	uint32_t banned = o->min_tokens ? o->n_stop : 0, i;
	size_t n = (size_t)banned + p->n_bias;
	uint32_t *tokens;
	float *bias;

	r->sampling = *p;
	if (!n)
		return 0;
	r->bias = malloc(n * (sizeof(*tokens) + sizeof(*bias)));
	if (!r->bias)
		return -ENOMEM;
	tokens = r->bias;
	bias = (float *)(tokens + n);
	for (i = 0; i < banned; i++) {
		tokens[i] = o->stop[i];
		bias[i] = BANNED;
	}
	if (p->n_bias) {
		memcpy(tokens + banned, p->bias_tokens, p->n_bias * sizeof(*tokens));
		memcpy(bias + banned, p->bias, p->n_bias * sizeof(*bias));
	}
	r->sampling.bias_tokens = tokens;
	r->sampling.bias = bias;
	r->sampling.n_bias = (uint32_t)n;
	r->min_tokens = o->min_tokens;
	r->n_banned = banned;
	return 0;
}

/* Everything but the sequence. */
static struct kvslab_request *request_new(struct kvslab_sched *s,
					  const struct kvslab_request_opts *o)
{
	struct kvslab_request *r;

	if (o->n_top && !s->tops) {
		s->tops = calloc((size_t)s->step_tokens * KVSLAB_TOP_MAX, sizeof(*s->tops));
		if (!s->tops)
			return NULL;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	if (copy_bias(r, o)) {
		free(r);
		return NULL;
	}
	if (o->n_stop) {
		r->stop = malloc(o->n_stop * sizeof(*r->stop));
		if (!r->stop) {
			free(r->bias);
			free(r);
			return NULL;
		}
		memcpy(r->stop, o->stop, o->n_stop * sizeof(*r->stop));
		r->n_stop = o->n_stop;
	}
	r->sched = s;
	r->arrival = s->arrivals++;
	r->priority = o->priority;
	r->n_top = o->n_top;
	r->score = o->score_prompt;
	r->scored = 1;
	r->on_score = o->on_score;
	r->on_token = o->on_token;
	r->on_done = o->on_done;
	r->data = o->data;
	r->info.t_added = now_ns();
	return r;
}

/* Every token but the last drawn one needs a place: in the context, and in the pool when it is
 * alone there. */
static void set_limit(struct kvslab_request *r, uint32_t max_tokens, uint32_t capacity)
{
	uint64_t limit = (uint64_t)r->seq->length + max_tokens;
	uint32_t most = r->sched->executor->context;

	if (most > capacity)
		most = capacity;
	r->info.prompt_tokens = r->seq->length;
	r->limit = limit <= most ? (uint32_t)limit : most + 1;
}

int kvslab_sched_add(struct kvslab_sched *s, const struct kvslab_request_opts *o,
		     struct kvslab_request **out)
{
	struct kvslab_request *r;
	uint32_t capacity, i;
	int rc;

	if (!s)
		return -EINVAL;
	rc = check_opts(s, o);
	if (rc < 0)
		return rc;
	if (!o->n_tokens || !o->tokens)
		return -EINVAL;
	for (i = 0; i < o->n_tokens; i++)
		if (o->tokens[i] >= s->executor->vocab)
			return -EINVAL;
	if (o->n_tokens > s->executor->context)
		return -EMSGSIZE;
	capacity = sched_capacity(s);
	if (o->n_tokens > capacity)
		return -EFBIG;
	r = request_new(s, o);
	if (!r)
		return -ENOMEM;
	rc = kvslab_seq_open(&r->seq, s->kv, o->salt, o->salt_size);
	if (rc < 0)
		goto fail;
	rc = kvslab_seq_append(r->seq, o->tokens, o->n_tokens);
	if (rc < 0)
		goto fail;
	r->seq->priority = r->priority;
	r->seq->keep_private = s->no_prefix;
	set_limit(r, o->max_tokens, capacity);
	queue_insert(&s->waiting[r->priority], r);
	if (out)
		*out = r;
	return 0;
fail:
	request_free(r);
	return rc;
}

/* It may run at once only if nobody who waits is before it: else forks could keep others out for
 * ever. */
static bool may_run_now(const struct kvslab_sched *s, const struct kvslab_request *r)
{
	const struct kvslab_request *first = sched_next_waiting(s);

	return s->running.n < s->max_batch && (!first || first->priority < r->priority);
}

int kvslab_sched_fork(struct kvslab_sched *s, struct kvslab_request *parent,
		      const struct kvslab_request_opts *o, struct kvslab_request **out)
{
	struct kvslab_request *r;
	uint32_t capacity;
	int rc;

	if (!s || !parent || parent->sched != s)
		return -EINVAL;
	rc = check_opts(s, o);
	if (rc < 0)
		return rc;
	capacity = sched_capacity(s);
	if (parent->seq->length > s->executor->context)
		return -EMSGSIZE;
	if (parent->seq->length > capacity)
		return -EFBIG;
	r = request_new(s, o);
	if (!r)
		return -ENOMEM;
	rc = seq_fork(parent->seq, &r->seq, s->in_flight);
	if (rc < 0 && !s->in_flight)
		rc = seq_fork(parent->seq, &r->seq, true); /* no room for copies */
	if (rc < 0)
		goto fail;
	r->seq->priority = r->priority;
	r->score = false;
	set_limit(r, o->max_tokens, capacity);
	if (parent->state == REQUEST_RUNNING && may_run_now(s, r)) {
		r->info.cached_tokens = request_start(r);
		r->counted = true;
		r->state = REQUEST_RUNNING;
		queue_insert(&s->running, r);
	} else {
		kvslab_seq_release(r->seq);
		queue_insert(&s->waiting[r->priority], r);
	}
	if (out)
		*out = r;
	return 0;
fail:
	request_free(r);
	return rc;
}

void request_finish(struct kvslab_request *r, enum kvslab_finish finish, int error)
{
	struct kvslab_sched *s = r->sched;

	queue_remove(r->state == REQUEST_RUNNING ? &s->running : &s->waiting[r->priority], r);
	kvslab_seq_release(r->seq);
	r->state = REQUEST_DONE;
	r->info.finish = finish;
	r->info.error = error;
	if (finish == KVSLAB_FINISH_CANCEL)
		s->stat.cancelled++;
	else if (finish == KVSLAB_FINISH_ERROR)
		s->stat.failed++;
	else
		s->stat.finished++;
	queue_append(&s->done, r);
	/* Its pages may be what the next one waits for. */
	s->admit_at = 0;
	s->backoff = 0;
}

void sched_reap(struct kvslab_sched *s)
{
	struct kvslab_request *r;

	while ((r = s->done.first)) {
		queue_remove(&s->done, r);
		if (r->on_done)
			r->on_done(r, r->data);
		request_free(r);
	}
}

void kvslab_sched_cancel(struct kvslab_sched *s, struct kvslab_request *r)
{
	if (!s || !r || r->sched != s || r->state == REQUEST_DONE)
		return;
	if (r->in_batch) {
		r->cancelled = true;
		return;
	}
	request_finish(r, KVSLAB_FINISH_CANCEL, 0);
	if (s->busy || s->in_flight)
		return;
	s->busy = true;
	sched_reap(s);
	s->busy = false;
}

void kvslab_request_info(const struct kvslab_request *r, struct kvslab_request_info *info)
{
	*info = r->info;
}

const uint32_t *kvslab_request_tokens(const struct kvslab_request *r, uint32_t *n)
{
	*n = r->seq->length;
	return r->seq->tokens;
}

const struct kvslab_top *kvslab_request_top(const struct kvslab_request *r, uint32_t *n)
{
	*n = r->row ? r->row->n_top : 0;
	return r->row ? r->row->top : NULL;
}
