// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "tests/lib/model_sched.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/tap.h"

#define CANCELLED_MAX 4
#define STEPS_MAX 1000000

static void on_token(struct kvslab_request *request, uint32_t token, float logprob, void *data)
{
	struct ms_request *r = data;

	(void)request;
	if (r->n_tokens >= r->max_tokens)
		mu_die("a request that wanted %u tokens got another", r->max_tokens);
	r->tokens[r->n_tokens] = token;
	r->logprob[r->n_tokens++] = logprob;
}

static void on_done(struct kvslab_request *request, void *data)
{
	struct ms_request *r = data;
	struct kvslab_request_info info;

	if (r->done)
		mu_die("a request ended twice");
	kvslab_request_info(request, &info);
	r->done = true;
	r->finish = info.finish;
	r->error = info.error;
}

static struct kvslab_request *add(struct kvslab_sched *s, struct ms_request *r)
{
	struct kvslab_request_opts o = {
		.tokens = r->prompt,
		.n_tokens = r->n_prompt,
		.max_tokens = r->max_tokens,
		.priority = r->priority,
		.sampling = r->sampling,
		.on_token = on_token,
		.on_done = on_done,
		.data = r,
	};
	struct kvslab_request *q;
	int err;

	r->tokens = mu_alloc(r->max_tokens, sizeof(*r->tokens));
	r->logprob = mu_alloc(r->max_tokens, sizeof(*r->logprob));
	r->n_tokens = 0;
	r->done = false;
	err = kvslab_sched_add(s, &o, &q);
	if (err)
		mu_die("add a request of %u + %u tokens: %s", r->n_prompt, r->max_tokens, kvslab_strerror(err));
	return q;
}

/* Those that are there to be cancelled. */
struct doomed {
	struct ms_request r[CANCELLED_MAX];
	struct kvslab_request *q[CANCELLED_MAX];
	uint32_t n;
	uint64_t *seed;
};

static void doomed_add(struct doomed *d, struct kvslab_sched *s, uint32_t vocab)
{
	for (uint32_t i = 0; i < d->n; i++) {
		uint32_t len = 1 + (uint32_t)(rnd(d->seed) % 50), *ids = mu_alloc(len, sizeof(*ids));

		mu_random_ids(ids, len, vocab, d->seed);
		d->r[i] = (struct ms_request){ .prompt = ids, .n_prompt = len, .max_tokens = 60 };
		d->q[i] = add(s, &d->r[i]);
	}
}

static void doomed_cancel(struct doomed *d, struct kvslab_sched *s)
{
	for (uint32_t i = 0; i < d->n; i++)
		if (!d->r[i].done && rnd(d->seed) % 8 == 0)
			kvslab_sched_cancel(s, d->q[i]);
}

static void doomed_free(struct doomed *d)
{
	ms_free_answers(d->r, d->n);
	for (uint32_t i = 0; i < d->n; i++)
		free((void *)d->r[i].prompt);
}

static bool all_ended(const struct ms_request *rs, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (!rs[i].done || rs[i].finish != KVSLAB_FINISH_LENGTH || rs[i].n_tokens != rs[i].max_tokens) {
			printf("# request %u: %s, finish %d, error %d, %u of %u tokens\n", i, rs[i].done ? "done" : "not done",
			       rs[i].finish, rs[i].error, rs[i].n_tokens, rs[i].max_tokens);
			return false;
		}
	}
	return true;
}

bool ms_run(struct mu_engine *e, struct ms_opts *o, struct ms_request *rs, uint32_t n)
{
	const struct kvslab_sched_opts so = {
		.kv = e->kv,
		.executor = e->ex,
		.max_batch = o->max_batch,
		.step_tokens = o->step_tokens,
		.chunk_tokens = o->chunk_tokens,
		.no_prefix = o->no_prefix,
	};
	struct doomed d = { .n = o->cancelled < CANCELLED_MAX ? o->cancelled : CANCELLED_MAX, .seed = o->seed };
	struct kvslab_sched_stat stat;
	struct kvslab_sched *s;
	uint32_t steps = 0;
	bool good;
	int r;

	r = kvslab_sched_open(&s, &so);
	if (r)
		mu_die("scheduler: %s", kvslab_strerror(r));
	for (uint32_t i = 0; i < n; i++)
		add(s, &rs[i]);
	doomed_add(&d, s, e->m->vocab);
	while ((r = kvslab_sched_step(s)) > 0 && ++steps < STEPS_MAX)
		doomed_cancel(&d, s);
	if (r)
		printf("# a step gave %d: %s\n", r, r == -EAGAIN ? kvslab_sched_reason(s) : kvslab_strerror(r));
	kvslab_sched_stat(s, &stat);
	o->preemptions = stat.preemptions;
	good = !r && all_ended(rs, n);
	kvslab_sched_close(s);
	doomed_free(&d);
	return good;
}

void ms_copy(struct ms_request *to, const struct ms_request *from, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		to[i] = (struct ms_request){
			.prompt = from[i].prompt,
			.n_prompt = from[i].n_prompt,
			.max_tokens = from[i].max_tokens,
			.sampling = from[i].sampling,
			.priority = from[i].priority,
		};
}

bool ms_same(const struct ms_request *a, const struct ms_request *b, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t k;

		for (k = 0; k < a[i].n_tokens && k < b[i].n_tokens; k++)
			if (a[i].tokens[k] != b[i].tokens[k] || memcmp(&a[i].logprob[k], &b[i].logprob[k], sizeof(float)))
				break;
		if (k < a[i].max_tokens) {
			printf("# request %u differs at token %u of %u (prompt %u)\n", i, k, a[i].max_tokens, a[i].n_prompt);
			return false;
		}
	}
	return true;
}

void ms_free_answers(struct ms_request *rs, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		free(rs[i].tokens);
		free(rs[i].logprob);
		rs[i].tokens = NULL;
		rs[i].logprob = NULL;
	}
}
