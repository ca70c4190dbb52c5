// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* What a batch brought: pages committed, tokens given out, requests ended. */
#include <errno.h>
#include <time.h>

#include "sched.h"

static bool is_stop(const struct kvslab_request *r, uint32_t token)
{
	uint32_t i;

	for (i = 0; i < r->n_stop; i++)
		if (r->stop[i] == token)
			return true;
	return false;
}

static int run_error(const struct kvslab_sched *s, const struct kvslab_run *run)
{
	uint32_t i;

	if (s->batch.error < 0)
		return s->batch.error;
	for (i = 0; i < run->n_rows; i++)
		if (run->rows[i].result < 0)
			return run->rows[i].result;
	return 0;
}

static int take_token(struct kvslab_request *r, const struct kvslab_row *row)
{
	uint32_t token = (uint32_t)row->result;
	struct timespec t;
	int rc;

	rc = kvslab_seq_append(r->seq, &token, 1);
	if (rc < 0)
		return rc;
	clock_gettime(CLOCK_MONOTONIC, &t);
	r->info.t_last = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	if (!r->info.completion_tokens++)
		r->info.t_first = r->info.t_last;
	r->row = row;
	if (r->on_token)
		r->on_token(r, token, row->logprob, r->data);
	r->row = NULL;
	return 0;
}

/* After a preemption some rows are computed again; they are told once. */
static void tell_scores(struct kvslab_request *r, const struct kvslab_run *run)
{
	uint32_t i;

	for (i = 0; i < run->n_rows && !r->cancelled; i++) {
		const struct kvslab_row *row = &run->rows[i];

		if (row->target < 0 || row->pos + 1 < r->scored || !request_scores(r))
			continue;
		r->scored = row->pos + 2;
		r->row = row;
		if (r->on_score)
			r->on_score(r, row->pos + 1, row->logprob, r->data);
		r->row = NULL;
	}
}

static void apply_run(struct kvslab_sched *s, struct kvslab_request *r,
		      const struct kvslab_run *run)
{
	const struct kvslab_row *last = &run->rows[run->n_rows - 1];
	int rc = 0;

	if (r->cancelled)
		goto cancel;
	rc = run_error(s, run);
	if (!rc)
		rc = kvslab_seq_commit(r->seq, last->pos + 1);
	if (rc < 0)
		goto fail;
	if (r->score)
		tell_scores(r, run);
	if (r->cancelled)
		goto cancel;
	if (last->pos + 1 < r->seq->length)
		return;
	if (r->seq->length >= r->limit) { /* it was to be scored alone */
		request_finish(r, KVSLAB_FINISH_LENGTH, 0);
		return;
	}
	if ((uint32_t)last->result >= s->executor->vocab) {
		rc = -EPROTO;
		goto fail;
	}
	if (is_stop(r, (uint32_t)last->result)) {
		request_finish(r, KVSLAB_FINISH_STOP, 0);
		return;
	}
	rc = take_token(r, last);
	if (rc < 0)
		goto fail;
	if (r->cancelled)
		goto cancel;
	if (r->seq->length >= r->limit)
		request_finish(r, KVSLAB_FINISH_LENGTH, 0);
	return;
cancel:
	request_finish(r, KVSLAB_FINISH_CANCEL, 0);
	return;
fail:
	request_finish(r, KVSLAB_FINISH_ERROR, rc);
}

/* All that became full is sealed at once. kvslab_seq_commit() then finds it done, or does it. */
static void seal_runs(struct kvslab_sched *s)
{
	const struct kvslab_run *run;
	uint32_t i, n = 0;

	for (i = 0; i < s->batch.n_runs; i++) {
		run = &s->runs[i];
		if (s->batch_request[i]->cancelled || run_error(s, run))
			continue;
		s->seal_seq[n] = s->batch_request[i]->seq;
		s->seal_tokens[n++] = run->rows[run->n_rows - 1].pos + 1;
	}
	seq_seal_all(s->seal_seq, s->seal_tokens, n);
}

/* Callbacks may cancel requests whose runs come later here; in_batch keeps those alive until their
 * turn. */
void sched_apply(struct kvslab_sched *s)
{
	uint32_t i;

	seal_runs(s);
	for (i = 0; i < s->batch.n_runs; i++) {
		struct kvslab_request *r = s->batch_request[i];

		apply_run(s, r, &s->runs[i]);
		r->in_batch = false;
	}
	s->batch.n_runs = 0;
}
