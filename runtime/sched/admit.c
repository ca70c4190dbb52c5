// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * Who has pages. Cached pages are evicted by the pool itself; what happens here begins when there
 * are none left.
 *
 * Running requests come first, in their order: one that needs a page takes it, if need be from the
 * last of the list, and from itself only when it is the last. A preempted request keeps its tokens
 * and its place in the order, loses its pages and computes them again later; its sampling is keyed
 * by position, so its answer does not change.
 *
 * Waiting requests are admitted strictly in order, each with pages for all its tokens or not at
 * all, and only take pages from requests of lower priority. After a shortage admission rests until
 * a request ends, or for a number of ticks that doubles, so that a request is not admitted,
 * computed and preempted over and over for nothing.
 * One that outranks a running request does not rest: it would wait for those that should make room.
 *
 * The pool's events: under pressure (PRESSURE until RELIEF) a request is admitted beside others only
 * where that leaves each of those a block to grow into, so that it is not preempted for them at
 * once; pack.c makes chunks smaller. Where other clients hold all the memory even the last request
 * gives its pages back, and ROOM says that it is this client's turn.
 */
#include <errno.h>
#include <stdio.h>

#include <sodium.h>

#include "sched.h"

#define BACKOFF_MIN 2
#define BACKOFF_MAX 64

static bool shortage(int err)
{
	return err == -ENOSPC || err == -EDQUOT || err == -ENOMEM;
}

uint32_t sched_capacity(const struct kvslab_sched *s)
{
	const struct kvslab_kv *kv = s->kv;
	struct kvslab_stat stat;
	uint64_t extents, tokens;

	if (kvslab_stat(kv->pool, &stat) < 0)
		return 0;
	extents = stat.max && stat.max < stat.arena_extents ? stat.max : stat.arena_extents;
	tokens = extents * kv->cache.pages_per_slab / kv->geo.groups * kv->geo.page_tokens;
	return tokens < UINT32_MAX - 1 ? (uint32_t)tokens : UINT32_MAX - 1;
}

struct kvslab_request *sched_next_waiting(const struct kvslab_sched *s)
{
	uint32_t p = KVSLAB_PRIORITIES;

	while (p--)
		if (s->waiting[p].first)
			return s->waiting[p].first;
	return NULL;
}

static void preempt(struct kvslab_sched *s, struct kvslab_request *r)
{
	queue_remove(&s->running, r);
	kvslab_seq_release(r->seq);
	kv_flush(s->kv); /* somebody wants them now */
	kv_collect(s->kv);
	r->state = REQUEST_WAITING;
	r->asked = 0;
	r->info.preemptions++;
	s->stat.preemptions++;
	queue_insert(&s->waiting[r->priority], r);
}

/* The windows of a dead pool are empty: nothing may touch them again. */
static void fail_all(struct kvslab_sched *s, int err)
{
	struct kvslab_request *r;

	while ((r = s->running.first) || (r = sched_next_waiting(s)))
		request_finish(r, KVSLAB_FINISH_ERROR, err);
}

void sched_take_events(struct kvslab_sched *s, int events)
{
	if (events > 0) {
		if (events & (int)(KVSLAB_EVENT_PRESSURE | KVSLAB_EVENT_RELIEF))
			s->pressure = events & (int)KVSLAB_EVENT_PRESSURE;
		/* With requests running it may be their own pages that came back. */
		if ((events & (int)KVSLAB_EVENT_ROOM) && !s->running.n)
			s->admit_at = 0;
		s->dead |= (events & (int)KVSLAB_EVENT_DEAD) != 0;
	}
	if (s->dead || events == -ENODEV)
		fail_all(s, -ENODEV);
}

static void rest(struct kvslab_sched *s)
{
	s->backoff = s->backoff ? s->backoff * 2 : BACKOFF_MIN;
	if (s->backoff > BACKOFF_MAX)
		s->backoff = BACKOFF_MAX;
	s->admit_at = s->tick + s->backoff;
}

static void explain(struct kvslab_sched *s, const struct kvslab_request *r, int err)
{
	uint32_t pt = s->kv->geo.page_tokens;
	struct kvslab_stat stat = { 0 };

	kvslab_stat(s->kv->pool, &stat);
	snprintf(s->reason, sizeof(s->reason),
		 "a request of %u tokens needs %u pages, the pool has no room (%s): "
		 "%llu pages private and %llu sealed are held by its %llu clients",
		 r->seq->length, (r->seq->length + pt - 1) / pt * s->kv->geo.groups,
		 kvslab_strerror(err), (unsigned long long)stat.private_pages,
		 (unsigned long long)stat.sealed, (unsigned long long)stat.clients);
}

void sched_grow(struct kvslab_sched *s)
{
	struct kvslab_request *r, *next, *victim;
	bool enough = true;
	int rc;

	for (r = s->running.first; r; r = next) {
		do {
			rc = kvslab_seq_reserve(r->seq, r->seq->length);
			if (shortage(rc) && sched_drop_ahead(s, NULL))
				rc = kvslab_seq_reserve(r->seq, r->seq->length);
			if (!shortage(rc))
				break;
			enough = false;
			victim = s->running.last;
			if (victim == r)
				explain(s, r, rc);
			preempt(s, victim);
		} while (victim != r);
		if (r->state != REQUEST_RUNNING)
			break; /* it was the last */
		next = r->next;
		if (rc < 0)
			request_finish(r, KVSLAB_FINISH_ERROR, rc);
	}
	kv_unstock(s->kv);
	if (!enough) {
		rest(s);
		/* All is given back, so another client holds the memory. It may be in the same
		 * place: the first one to come back must not always be met by the other. */
		if (!s->running.n)
			s->admit_at = s->tick + 1 + randombytes_uniform(8);
	}
}

/*
 * Prefix from the pool, the rest new. On failure it holds nothing, as before.
 *
 * A prefix that was found in vain is given back, and that is room: the pool tells its first waiter, which may be
 * this client. So that a client with nothing to do does not wake itself for ever, a request that was short first takes
 * the pages that it lacked then, and looks for its prefix only when it has them.
 */
static int take_pages(struct kvslab_sched *s, struct kvslab_request *r)
{
	bool stocks = r->lacked && !s->running.n, asked = r->asked == s->tick;
	int found = asked ? (int)r->seq->committed : 0, rc = 0;

	if (stocks) {
		kv_unstock(s->kv);
		rc = kv_stock_all(s->kv, r->lacked);
	}
	if (rc < 0)
		return rc;
	if (!asked && !s->no_prefix && !request_scores(r)) {
		found = kvslab_seq_match(r->seq);
		if (found >= 0)
			r->asked = s->tick;
	}
	rc = found;
	if (found >= 0) {
		r->lacked = request_lacks(r);
		rc = kvslab_seq_reserve(r->seq, r->seq->length);
		if (shortage(rc) && sched_drop_ahead(s, r))
			rc = kvslab_seq_reserve(r->seq, r->seq->length);
	}
	if (stocks)
		kv_unstock(s->kv);
	if (rc < 0) {
		kvslab_seq_release(r->seq);
		r->asked = 0;
		return rc;
	}
	r->lacked = 0;
	if (!r->counted && !s->no_prefix) {
		s->stat.prefix_queries += r->seq->length;
		s->stat.prefix_hits += (uint32_t)found;
		r->info.cached_tokens = request_start(r);
		r->counted = true;
	}
	return 0;
}

static bool preempt_below(struct kvslab_sched *s, uint8_t priority)
{
	struct kvslab_request *victim = s->running.last;

	if (!victim || victim->priority >= priority)
		return false;
	preempt(s, victim);
	return true;
}

/* @r fits, and a block for each that runs. What other page sizes have free counts as well: this is
 * a guess, and preemption mends a wrong one. */
static bool leaves_room(const struct kvslab_sched *s, const struct kvslab_request *r)
{
	uint32_t pt = s->kv->geo.page_tokens;
	uint64_t blocks = (r->seq->length + pt - 1) / pt + s->running.n, room, extents = 0;
	struct kvslab_stat stat;

	if (kvslab_stat(s->kv->pool, &stat))
		return true;
	if (stat.max > stat.slabs)
		extents = stat.max - stat.slabs;
	if (extents > stat.arena_free)
		extents = stat.arena_free;
	room = stat.free + stat.cached + extents * s->kv->cache.pages_per_slab;
	return blocks * s->kv->geo.groups <= room;
}

static void admit_all(struct kvslab_sched *s)
{
	struct kvslab_request *r;
	int rc;

	while ((r = sched_next_waiting(s))) {
		bool outranks = s->running.last && s->running.last->priority < r->priority;

		if (s->tick < s->admit_at && !outranks)
			return;
		if (s->running.n == s->max_batch && !preempt_below(s, r->priority))
			return;
		if (s->pressure && s->running.n && !outranks && !leaves_room(s, r)) {
			explain(s, r, -ENOSPC);
			return;
		}
		do
			rc = take_pages(s, r);
		while (shortage(rc) && preempt_below(s, r->priority));
		if (shortage(rc)) {
			explain(s, r, rc);
			if (s->running.n)
				rest(s);
			return;
		}
		if (rc < 0) {
			request_finish(r, KVSLAB_FINISH_ERROR, rc);
			continue;
		}
		queue_remove(&s->waiting[r->priority], r);
		r->state = REQUEST_RUNNING;
		queue_insert(&s->running, r);
	}
}

void sched_admit(struct kvslab_sched *s)
{
	sched_ask_admission(s);
	admit_all(s);
	kv_unstock(s->kv);
	sched_drop_ahead(s, NULL);
}
