// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * What a step asks the pool for, gathered, so that it waits for the pool twice at most: first for events, for the pages
 * that running requests grow into, and for what the pool has of prompts; then, if requests are to be admitted, for the pages
 * that those still lack. admit.c and pack.c find the answers in the sequences and in the kv's stock. What was not asked for
 * here, or refused, they ask for themselves, one by one.
 *
 * A waiting request that was asked for holds the pages found, until sched_admit() is through. They are references like any
 * other, so where somebody is short they go back first (sched_drop_ahead).
 */
#include "sched.h"

#define CALLS_MAX 48
#define EVENTS 0
#define STOCK 1
#define FIXED 2

struct ask {
	struct pool_call call[CALLS_MAX];
	struct kvslab_request *request[CALLS_MAX]; /* of a lookup */
	uint32_t n;
	uint32_t found; /* places of kv->found that are given out */
};

static uint32_t blocks_of(const struct kvslab_request *r)
{
	uint32_t pt = r->seq->kv->geo.page_tokens;

	return (r->seq->length + pt - 1) / pt;
}

uint32_t request_lacks(const struct kvslab_request *r)
{
	uint32_t want = blocks_of(r);

	return want > r->seq->blocks ? (want - r->seq->blocks) * r->seq->kv->geo.groups : 0;
}

/* Where several need pages they take what there is, in their order; one alone takes all or nothing. */
static void ask_growth(struct kvslab_sched *s, struct ask *a)
{
	const struct kvslab_request *r;
	uint32_t asking = 0;
	size_t pages = 0;

	for (r = s->running.first; r; r = r->next) {
		pages += request_lacks(r);
		asking += request_lacks(r) != 0;
	}
	if (!pages)
		return;
	kv_stock_prepare(s->kv, &a->call[a->n++], pages, asking > 1 ? KVSLAB_PARTIAL : 0);
}

static void ask_prefix(struct kvslab_sched *s, struct ask *a, struct kvslab_request *r)
{
	struct pool_call *call = &a->call[a->n];

	if (a->n == CALLS_MAX ||
	    !seq_match_prepare(r->seq, call, s->kv->found + a->found, KVSLAB_BATCH_MAX - a->found))
		return;
	a->found += call->n;
	a->request[a->n++] = r;
}

static bool looks_up(const struct kvslab_sched *s, const struct kvslab_request *r)
{
	return !s->no_prefix && !request_scores(r);
}

/* Those whose prompts this step goes on with, as sched_pack() will choose them. */
static void ask_running(struct kvslab_sched *s, struct ask *a)
{
	uint32_t left = s->step_tokens, n;
	struct kvslab_request *r;

	for (r = s->running.first; r; r = r->next)
		left -= left && request_rows_left(r) == 1;
	for (r = s->running.first; r && left; r = r->next) {
		n = request_rows_left(r);
		if (n == 1)
			continue;
		if (looks_up(s, r) && request_at_full_block(r))
			ask_prefix(s, a, r);
		n = n < s->chunk_tokens ? n : s->chunk_tokens;
		left -= n < left ? n : left;
	}
}

/*
 * The next that may be admitted, in their order: NULL first, then the one before. One that was short before is asked for
 * when its turn comes, by itself: what it would give back again is room, and the pool might tell this very client of it.
 */
static struct kvslab_request *next_ahead(const struct kvslab_sched *s, const struct kvslab_request *before)
{
	struct kvslab_request *r = before ? before->next : sched_next_waiting(s);
	uint32_t p = before ? before->priority : 0;

	while (!r && p--)
		r = s->waiting[p].first;
	return r && !r->lacked ? r : NULL;
}

static bool admits(const struct kvslab_sched *s)
{
	return !s->pressure && s->tick >= s->admit_at && s->running.n < s->max_batch;
}

static void ask_waiting(struct kvslab_sched *s, struct ask *a)
{
	uint32_t places = s->max_batch - s->running.n;
	struct kvslab_request *r;

	for (r = next_ahead(s, NULL); r && places--; r = next_ahead(s, r))
		if (looks_up(s, r))
			ask_prefix(s, a, r);
}

static void take_prefix(struct kvslab_sched *s, struct kvslab_request *r, const struct pool_call *call)
{
	int found = seq_match_take(r->seq, call);

	if (found < 0)
		return;
	r->asked = s->tick;
	if (r->state == REQUEST_WAITING)
		s->ahead |= found > 0;
	else
		request_found(r, (uint32_t)found);
}

void sched_ask(struct kvslab_sched *s)
{
	struct ask a;
	uint32_t i;

	a.n = 0;
	a.found = 0;
	a.call[a.n++] = (struct pool_call){ POOL_EVENTS };
	ask_growth(s, &a);
	i = a.n;
	ask_running(s, &a);
	if (admits(s))
		ask_waiting(s, &a);
	pool_calls(s->kv->pool, a.call, a.n);
	if (i == FIXED)
		kv_stock_take(s->kv, &a.call[STOCK]);
	for (; i < a.n; i++)
		take_prefix(s, a.request[i], &a.call[i]);
	sched_take_events(s, a.call[EVENTS].result);
}

void sched_ask_admission(struct kvslab_sched *s)
{
	uint32_t places = s->max_batch - s->running.n, n = 0, pages = 0;
	struct kvslab_request *r;
	struct pool_call call;

	if (!admits(s))
		return;
	for (r = next_ahead(s, NULL); r && places--; r = next_ahead(s, r), n++) {
		if ((looks_up(s, r) && r->asked != s->tick) ||
		    request_lacks(r) > KVSLAB_BATCH_MAX - pages)
			break;
		pages += request_lacks(r);
	}
	if (n < 2 || !pages)
		return;
	kv_stock_prepare(s->kv, &call, pages, 0);
	pool_calls(s->kv->pool, &call, 1);
	kv_stock_take(s->kv, &call);
}

bool sched_drop_ahead(struct kvslab_sched *s, const struct kvslab_request *but)
{
	struct kvslab_request *r;
	bool any = false;
	uint32_t p;

	for (p = 0; s->ahead && p < KVSLAB_PRIORITIES; p++)
		for (r = s->waiting[p].first; r; r = r->next) {
			if (r == but || !r->seq->blocks)
				continue;
			kvslab_seq_release(r->seq);
			r->asked = 0;
			any = true;
		}
	s->ahead = false;
	if (any && s->kv->collecting) {
		kv_flush(s->kv); /* somebody wants them now */
		kv_collect(s->kv);
	}
	return any;
}
