// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* The scheduler: opened, stepped, asked, closed. */
#include <errno.h>
#include <stdlib.h>

#include "sched.h"

#define DEFAULT_BATCH 32
#define DEFAULT_STEP_TOKENS 512

static uint32_t at_most(uint32_t v, uint32_t limit)
{
	return v < limit ? v : limit;
}

/* The executor's pages must be those of the kv. */
static bool same_model(struct kvslab_executor *ex, const struct kvslab_geometry *geo)
{
	struct kvslab_geometry g = *geo;

	ex->ops->geometry(ex, &g);
	return g.layers == geo->layers && g.kv_heads == geo->kv_heads &&
	       g.head_dim == geo->head_dim;
}

static void sched_free(struct kvslab_sched *s)
{
	free(s->runs);
	free(s->batch_request);
	free(s->rows);
	free(s->seal_seq);
	free(s->seal_tokens);
	free(s->tops);
	free(s);
}

int kvslab_sched_open(struct kvslab_sched **out, const struct kvslab_sched_opts *o)
{
	struct kvslab_executor *ex;
	struct kvslab_sched *s;
	struct kvslab_stat stat;

	if (!out || !o || !o->kv || !o->executor)
		return -EINVAL;
	ex = o->executor;
	if (!ex->max_rows || !ex->max_runs || !ex->context || !ex->vocab ||
	    !same_model(ex, &o->kv->geo))
		return -EINVAL;
	if (o->kv->executor)
		return -EBUSY;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->kv = o->kv;
	s->executor = ex;
	s->no_prefix = o->no_prefix;
	s->step_tokens =
		at_most(o->step_tokens ? o->step_tokens : DEFAULT_STEP_TOKENS, ex->max_rows);
	s->chunk_tokens =
		at_most(o->chunk_tokens ? o->chunk_tokens : s->step_tokens, s->step_tokens);
	/* Each running sequence must have its row in each step. */
	s->max_batch = at_most(o->max_batch ? o->max_batch : DEFAULT_BATCH,
			       at_most(ex->max_runs, s->step_tokens));
	s->runs = calloc(s->max_batch, sizeof(*s->runs));
	s->batch_request = calloc(s->max_batch, sizeof(*s->batch_request));
	s->rows = calloc(s->step_tokens, sizeof(*s->rows));
	s->seal_seq = calloc(s->max_batch, sizeof(*s->seal_seq));
	s->seal_tokens = calloc(s->max_batch, sizeof(*s->seal_tokens));
	if (!s->runs || !s->batch_request || !s->rows || !s->seal_seq || !s->seal_tokens) {
		sched_free(s);
		return -ENOMEM;
	}
	s->batch.runs = s->runs;
	s->pressure = !kvslab_stat(s->kv->pool, &stat) && stat.pressure;
	s->kv->executor = ex;
	*out = s;
	return 0;
}

void kvslab_sched_close(struct kvslab_sched *s)
{
	struct kvslab_request *r;

	if (!s)
		return;
	s->closing = true;
	s->busy = true;
	if (s->in_flight)
		s->executor->ops->complete(s->executor, true);
	while ((r = s->running.first) || (r = sched_next_waiting(s)))
		request_finish(r, KVSLAB_FINISH_CANCEL, 0);
	sched_reap(s);
	kv_pass_turn(s->kv);
	s->kv->executor = NULL;
	sched_free(s);
}

/* The executor took nothing: as if the step had not been packed. */
static void unpack(struct kvslab_sched *s)
{
	uint32_t i;

	for (i = 0; i < s->batch.n_runs; i++)
		s->batch_request[i]->in_batch = false;
	s->batch.n_runs = 0;
	s->n_rows = 0;
}

int sched_begin(struct kvslab_sched *s)
{
	int rc = 0;

	if (s->busy || s->in_flight)
		return -EBUSY;
	s->busy = true;
	s->tick++;
	kv_collect(s->kv);
	sched_ask(s);
	sched_grow(s);
	sched_admit(s);
	sched_pack(s);
	if (s->n_rows) {
		rc = s->executor->ops->submit(s->executor, &s->batch);
		if (rc == -EBUSY)
			unpack(s);
		else if (rc < 0)
			s->batch.error = rc; /* sched_end tells the requests */
		else
			s->in_flight = true;
	}
	sched_reap(s);
	s->busy = false;
	kv_flush(s->kv);
	if (rc == -EBUSY)
		return rc;
	if (!s->n_rows && (s->running.n || sched_next_waiting(s)))
		return -EAGAIN;
	if (!s->n_rows) {
		kv_pass_turn(s->kv);
		return 0;
	}
	s->stat.steps++;
	s->stat.rows += s->n_rows;
	return (int)s->n_rows;
}

int sched_end(struct kvslab_sched *s, bool wait)
{
	if (s->busy)
		return -EBUSY;
	if (s->in_flight && !s->executor->ops->complete(s->executor, wait)) {
		if (!wait)
			return -EAGAIN;
		s->batch.error = -EIO; /* it lost the batch */
	}
	s->in_flight = false;
	s->busy = true;
	kv_collect(s->kv);
	sched_apply(s);
	sched_reap(s);
	kv_flush(s->kv);
	s->busy = false;
	return 0;
}

int kvslab_sched_step(struct kvslab_sched *s)
{
	int rows;

	if (!s)
		return -EINVAL;
	rows = sched_begin(s);
	if (rows > 0)
		sched_end(s, true);
	return rows;
}

const char *kvslab_sched_reason(const struct kvslab_sched *s)
{
	return s->reason;
}

void kvslab_sched_stat(const struct kvslab_sched *s, struct kvslab_sched_stat *stat)
{
	const struct kvslab_request *r;
	uint32_t p;

	*stat = s->stat;
	stat->running = s->running.n;
	stat->pressure = s->pressure;
	for (p = 0; p < KVSLAB_PRIORITIES; p++)
		stat->waiting += s->waiting[p].n;
	for (r = s->running.first; r; r = r->next) {
		stat->allocated_tokens += kvslab_seq_allocated(r->seq);
		stat->unused_tokens += kvslab_seq_allocated(r->seq) - r->seq->committed;
	}
}
