/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * The scheduler inside. A request is in exactly one list: waiting (no pages), running (pages, and
 * rows in each step), or done (on_done still to be called). A step goes through the files in this
 * order:
 *
 *   ask.c    one question to the pool for all that the step wants of it
 *   admit.c  pages for what runs, by preemption if need be; then waiting requests while there is
 * room pack.c   rows: one for each sequence that decodes, then chunks of prompts (the executor)
 *   apply.c  what came out: commit, next token, end
 *
 * Rules that hold between steps:
 *   - a waiting request holds no page, so the first of the running can always be given what it
 * needs;
 *   - running is ordered by priority, then arrival; a victim is taken from its end, so the first
 * always advances;
 *   - while a batch is in flight (in_flight) nothing that it points to changes: no table, no page,
 * no request in it.
 */
#ifndef SCHED_SCHED_H
#define SCHED_SCHED_H

#include "seq.h"

enum request_state {
	REQUEST_WAITING,
	REQUEST_RUNNING,
	REQUEST_DONE,
};

struct kvslab_request {
	struct kvslab_request *prev, *next; /* in the list of its state */
	struct kvslab_sched *sched;
	struct kvslab_seq *seq;
	enum request_state state;
	uint64_t arrival; /* order among equals; kept over preemptions */
	uint8_t priority;
	bool in_batch; /* from pack until its results are applied */
	bool cancelled; /* while in_batch: ends as soon as that is over */
	uint32_t lacked; /* pages beyond its prefix that there were not when it was last to be admitted; 0: not tried */
	uint64_t asked; /* tick of the step in which its prefix was looked up */
	bool counted; /* its prefix lookup is in the figures */
	uint32_t limit; /* length of the sequence at which it ends */
	uint32_t *stop; /* [n_stop]; owned */
	uint32_t n_stop;
	struct kvslab_sampling sampling; /* its lists are in bias */
	void *bias; /* owned */
	uint32_t min_tokens, n_banned; /* the first biases keep the stop ids away until min_tokens are there */
	uint32_t n_top;
	const struct kvslab_row *row; /* in a callback: where kvslab_request_top() looks */
	bool score; /* the prompt */
	uint32_t scored; /* tokens of the prompt that on_score was told, with the first */
	void (*on_score)(struct kvslab_request *request, uint32_t pos, float logprob, void *data);
	void (*on_token)(struct kvslab_request *request, uint32_t token, float logprob, void *data);
	void (*on_done)(struct kvslab_request *request, void *data);
	void *data;
	struct kvslab_request_info info;
};

/* ---- queue.c: lists by priority (descending), then arrival ---- */

struct queue {
	struct kvslab_request *first, *last;
	uint32_t n;
};

void queue_insert(struct queue *q, struct kvslab_request *r);
void queue_append(struct queue *q, struct kvslab_request *r); /* in no order: for done */
void queue_remove(struct queue *q, struct kvslab_request *r);

struct kvslab_sched {
	struct kvslab_kv *kv;
	struct kvslab_executor *executor;
	uint32_t max_batch, step_tokens, chunk_tokens;
	bool no_prefix;

	struct queue waiting[KVSLAB_PRIORITIES];
	struct queue running, done;
	uint64_t arrivals;

	/* The batch: run i belongs to batch_request[i]. Rows lie one after the other in rows[]. */
	struct kvslab_batch batch;
	struct kvslab_run *runs; /* [max_batch] */
	struct kvslab_request **batch_request; /* [max_batch] */
	struct kvslab_row *rows; /* [step_tokens] */
	struct kvslab_top *tops; /* [step_tokens][KVSLAB_TOP_MAX]; NULL: nobody asked yet */
	uint32_t n_rows;
	bool in_flight;

	bool busy; /* inside step, close or reap: on_done is called there, not by cancel */
	bool closing;

	/* Admission rests until tick admit_at, unless something ends before; see admit.c. */
	uint64_t tick, admit_at;
	uint32_t backoff; /* ticks */

	struct kvslab_seq **seal_seq; /* [max_batch]; in sched_apply */
	uint32_t *seal_tokens; /* [max_batch] */

	bool ahead; /* waiting requests hold what was found of their prefixes; within a step alone */
	bool pressure; /* the pool's */
	bool dead; /* the pool was destroyed */

	struct kvslab_sched_stat stat;
	char reason[256];
};

/* ---- request.c ---- */

/* The request leaves its list, gives its pages back and waits for reap() in done. It must not be in
 * flight. */
void request_finish(struct kvslab_request *r, enum kvslab_finish finish, int error);
/* Call on_done of what is done, and free it. */
void sched_reap(struct kvslab_sched *s);

/* The first token without a result yet. When all are computed (a prefix hit of the whole prompt),
 * the last is computed once more, since its logits are wanted. */
static inline uint32_t request_start(const struct kvslab_request *r)
{
	uint32_t committed = r->seq->committed, length = r->seq->length;

	return committed < length ? committed : length - 1;
}

static inline uint32_t request_rows_left(const struct kvslab_request *r)
{
	return r->seq->length - request_start(r);
}

/* Between blocks, with a whole one to come. */
static inline bool request_at_full_block(const struct kvslab_request *r)
{
	const struct kvslab_seq *seq = r->seq;
	uint32_t pt = seq->kv->geo.page_tokens;

	return seq->committed == seq->sealed * pt && seq->length / pt > seq->sealed;
}

/* A prompt that is scored is computed whole, so that each of its rows gives logits. */
static inline bool request_scores(const struct kvslab_request *r)
{
	return r->score && r->scored < r->info.prompt_tokens;
}

/* @found tokens more of the prefix of a request that runs were in the pool. */
void request_found(struct kvslab_request *r, uint32_t found);

/* ---- ask.c ---- */

void sched_ask(struct kvslab_sched *s);
void sched_ask_admission(struct kvslab_sched *s);
/* What waiting requests but @but hold goes back. False: there was nothing. */
bool sched_drop_ahead(struct kvslab_sched *s, const struct kvslab_request *but);
uint32_t request_lacks(const struct kvslab_request *r); /* pages beyond the blocks that it has */

/* ---- admit.c ---- */

uint32_t
sched_capacity(const struct kvslab_sched *s); /* tokens that the pool can hold at its max */
/* What the pool has to tell: what kvslab_pool_events() returned. */
void sched_take_events(struct kvslab_sched *s, int events);
void sched_grow(struct kvslab_sched *s);
void sched_admit(struct kvslab_sched *s);
struct kvslab_request *sched_next_waiting(const struct kvslab_sched *s);

/* ---- pack.c ---- */

void sched_pack(struct kvslab_sched *s);

/* ---- apply.c ---- */

void sched_apply(struct kvslab_sched *s);

/* ---- sched.c: kvslab_sched_step in two halves, for loops that do other things meanwhile ---- */

/* Returns rows submitted (then sched_end must follow), 0 or a negative errno, as kvslab_sched_step.
 */
int sched_begin(struct kvslab_sched *s);
/* -EAGAIN: not ready yet (with @wait false). */
int sched_end(struct kvslab_sched *s, bool wait);

#endif
