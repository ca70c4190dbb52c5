// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * The rows of a step. Every running sequence that decodes has its one row; what is left of the
 * budget goes to prompts, in chunks, in the order of the running list. So a long prompt never stops
 * the answers of others, and answers never stop a prompt: the scheme of Sarathi-Serve (Agrawal et
 * al., OSDI'24).
 *
 * max_batch is at most the budget (sched.c), so that where a prompt waits at least one row is left
 * for it.
 */
#include <string.h>

#include "sched.h"

static void add_run(struct kvslab_sched *s, struct kvslab_request *r, uint32_t n)
{
	struct kvslab_run *run = &s->runs[s->batch.n_runs];
	struct kvslab_seq *seq = r->seq;
	uint32_t start = request_start(r), stored = kvslab_seq_sealed(seq), g, i;

	run->rows = s->rows + s->n_rows;
	run->n_rows = n;
	run->sampling = r->sampling;
	if (r->n_banned && r->info.completion_tokens >= r->min_tokens) {
		run->sampling.bias_tokens += r->n_banned;
		run->sampling.bias += r->n_banned;
		run->sampling.n_bias -= r->n_banned;
	}
	run->tokens = seq->tokens;
	run->n_prompt = r->info.prompt_tokens;
	for (g = 0; g < s->kv->geo.groups; g++) {
		run->pages_ro[g] = kvslab_seq_pages_ro(seq, g);
		run->pages_rw[g] = kvslab_seq_pages_rw(seq, g);
	}
	for (i = 0; i < n; i++) {
		struct kvslab_row *row = &run->rows[i];

		*row = (struct kvslab_row){ .token = seq->tokens[start + i],
					    .pos = start + i,
					    .target = -1 };
		if (start + i + 1 == seq->length) {
			row->flags |= KVSLAB_ROW_LOGITS;
		} else if (request_scores(r)) {
			row->flags |= KVSLAB_ROW_LOGITS;
			row->target = (int32_t)seq->tokens[start + i + 1];
		}
		if (r->n_top && (row->flags & KVSLAB_ROW_LOGITS)) {
			row->top = s->tops + (size_t)(s->n_rows + i) * KVSLAB_TOP_MAX;
			row->n_top = r->n_top;
		}
		if (start + i < stored)
			row->flags |= KVSLAB_ROW_STORED;
	}
	s->batch_request[s->batch.n_runs++] = r;
	s->n_rows += n;
	r->in_batch = true;
}

void request_found(struct kvslab_request *r, uint32_t found)
{
	if (!found || r->info.completion_tokens || r->info.preemptions)
		return;
	r->sched->stat.prefix_hits += found;
	r->info.cached_tokens += found;
	if (r->info.cached_tokens > request_start(r))
		r->info.cached_tokens = request_start(r);
}

/* Between blocks: another sequence may have sealed what comes next since this one was admitted. */
static void match_again(struct kvslab_sched *s, struct kvslab_request *r)
{
	int found = r->asked == s->tick ? 0 : seq_match_more(r->seq);

	if (found > 0)
		request_found(r, (uint32_t)found);
}

/* A run of this batch computes the very block that @r comes to. Next step it is sealed, and @r
 * finds it. */
static bool computed_by_other(const struct kvslab_sched *s, struct kvslab_request *r)
{
	uint32_t pt = s->kv->geo.page_tokens, block = r->seq->sealed, i;
	const struct kvslab_hash *want = seq_hashes(r->seq, block);

	for (i = 0; i < s->batch.n_runs; i++) {
		struct kvslab_seq *other = s->batch_request[i]->seq;
		const struct kvslab_run *run = &s->runs[i];
		uint32_t first = run->rows[0].pos / pt, last = run->rows[run->n_rows - 1].pos / pt;

		if (first <= block && block <= last && other->length / pt > block &&
		    !memcmp(seq_hashes(other, block), want, sizeof(*want)))
			return true;
	}
	return false;
}

/* Under pressure those that answer come to their ends sooner, and give pages back. */
static uint32_t chunk_now(const struct kvslab_sched *s)
{
	uint32_t chunk = s->chunk_tokens / 4;

	if (!s->pressure || !s->n_rows)
		return s->chunk_tokens;
	if (chunk < s->kv->geo.page_tokens)
		chunk = s->kv->geo.page_tokens;
	return chunk < s->chunk_tokens ? chunk : s->chunk_tokens;
}

void sched_pack(struct kvslab_sched *s)
{
	struct kvslab_request *r;
	uint32_t n, chunk;

	s->batch.n_runs = 0;
	s->batch.error = 0;
	s->n_rows = 0;

	for (r = s->running.first; r; r = r->next)
		if (request_rows_left(r) == 1)
			add_run(s, r, 1);
	s->stat.decode_rows += s->n_rows;
	chunk = chunk_now(s);

	for (r = s->running.first; r && s->n_rows < s->step_tokens; r = r->next) {
		if (r->in_batch)
			continue;
		if (!s->no_prefix && !request_scores(r) && request_at_full_block(r)) {
			match_again(s, r);
			if (request_at_full_block(r) && computed_by_other(s, r))
				continue;
		}
		n = request_rows_left(r);
		if (n > chunk)
			n = chunk;
		if (n > s->step_tokens - s->n_rows)
			n = s->step_tokens - s->n_rows;
		add_run(s, r, n);
		s->stat.prefill_rows += n;
	}
}
