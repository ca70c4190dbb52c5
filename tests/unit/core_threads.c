// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * Clients on threads of their own, two threads on one client, pools that come and go beside them,
 * all in one arena that is too small: take-over, eviction and reclaim meet ALLOC, FREE, SEAL and
 * LOOKUP in every order. Each page that a thread holds privately is written with the thread's mark
 * and read back, in memory that stands for the arena, so that a page with two writers is seen (and
 * a thread sanitizer sees it too). The debug walk runs beside them, and at stop points, where
 * counts must be exact too. argv: seed, rounds.
 */
#include <pthread.h>
#include <stdlib.h>

#include "tests/lib/core_env.h"
#include "tests/lib/tap.h"

#define EXTENTS 10
#define THREADS 5
#define HELD 48
#define HASHES 64

static const u32 sizes[2] = { 340 << 10, 1 << 20 };

struct shared {
	struct core_env env;
	pthread_barrier_t stop;
	struct kvc_pool *pool; /* of the clients that stay */
	u64 mark[EXTENTS][8]; /* one word for each page */
	bool broken;
	u32 rounds;
};

struct worker {
	struct shared *s;
	pthread_t thread;
	struct kvc_pool *pool;
	struct kvc_client *client; /* of it */
	bool lends; /* another thread uses the client too */
	u64 seed, id;
	u32 nr_private, nr_sealed;
	u64 private[HELD], sealed[HELD];
	u64 calls, refused, seals, hits;
};

static void broken(struct worker *w, const char *what)
{
	if (!__atomic_exchange_n(&w->s->broken, true, __ATOMIC_RELAXED))
		printf("# thread %llu: %s\n", (unsigned long long)w->id, what);
}

static u64 *mark(struct worker *w, u64 page)
{
	return &w->s->mark[kvc_handle_extent(page)][kvc_handle_index(page)];
}

static u64 mark_of(struct worker *w, u64 page)
{
	return w->id << 56 ^ page;
}

static void do_alloc(struct worker *w)
{
	u32 n = 1 + rnd(&w->seed) % 6, i;
	int r;

	if (w->nr_private + n > HELD)
		return;
	r = core_alloc(&w->s->env, w->client, rnd(&w->seed) % 8 == 0, w->private + w->nr_private, n,
		       rnd(&w->seed) % 2 ? KVC_PARTIAL : 0);
	if (r < 0) {
		w->refused++;
		if (r != -ENOSPC && r != -EDQUOT)
			broken(w, "ALLOC fails in a strange way");
		return;
	}
	for (i = w->nr_private; i < w->nr_private + r; i++)
		*mark(w, w->private[i]) = mark_of(w, w->private[i]);
	w->nr_private += r;
}

static void do_free(struct worker *w)
{
	u64 *from = w->nr_private && rnd(&w->seed) % 2 ? w->private : w->sealed;
	u32 *nr = from == w->private ? &w->nr_private : &w->nr_sealed;
	u32 n = *nr ? 1 + rnd(&w->seed) % *nr : 0, i;

	if (!n)
		return;
	for (i = 0; from == w->private && i < n; i++)
		if (*mark(w, from[i]) != mark_of(w, from[i]))
			broken(w, "somebody wrote into a private page");
	if (core_free(&w->s->env, w->client, from, n))
		broken(w, "FREE fails");
	memmove(from, from + n, (*nr - n) * sizeof(*from));
	*nr -= n;
	if (core_free(&w->s->env, w->client, (u64[]){ kvc_handle(0, 3, 2, 77777777) }, 1) != -EBADF)
		broken(w, "FREE of a forged handle does not fail");
}

static void do_seal(struct worker *w)
{
	struct kvc_seal seals[4] = { 0 };
	u32 n = 1 + rnd(&w->seed) % 4, i, first = rnd(&w->seed) % HASHES;
	int r;

	if (w->nr_private < n || w->nr_sealed + n > HELD)
		return;
	for (i = 0; i < n; i++) {
		seals[i].page = w->private[w->nr_private - n + i];
		core_hash(seals[i].hash, (first + i) % HASHES);
		if (i)
			core_hash(seals[i].parent, (first + i - 1) % HASHES);
		seals[i].flags = i ? 0 : KVC_SEAL_ROOT;
		seals[i].depth = i;
		seals[i].class = rnd(&w->seed) % 2;
	}
	r = core_seal(&w->s->env, w->client, seals, n);
	if (r) {
		/* Two caches, or a limit on the way to a duplicate. */
		if (r != -EINVAL && r != -ENOSPC && r != -EDQUOT)
			broken(w, "SEAL fails in a strange way");
		return;
	}
	w->nr_private -= n;
	for (i = 0; i < n; i++)
		w->sealed[w->nr_sealed++] = seals[i].page;
	w->seals += n;
}

static void do_lookup(struct worker *w)
{
	u8 hashes[4][KVC_HASH_SIZE];
	u32 i, first = rnd(&w->seed) % HASHES;
	struct kvc_where where;
	int r;

	if (w->nr_sealed + 8 > HELD)
		return;
	for (i = 0; i < 4; i++)
		core_hash(hashes[i], (first + i) % HASHES);
	r = core_lookup(&w->s->env, w->client, 0, (const u8(*)[KVC_HASH_SIZE])hashes, 4,
			w->sealed + w->nr_sealed);
	if (r < 0) {
		broken(w, "LOOKUP fails");
		return;
	}
	for (i = w->nr_sealed; i < w->nr_sealed + r; i++)
		if (kvc_where(w->client, w->sealed[i], &where) || where.writable)
			broken(w, "a page that was found is not there, or writable");
	w->nr_sealed += r;
	w->hits += r;
	if (r && core_seal(&w->s->env, w->client,
			   &(struct kvc_seal){ .page = w->sealed[w->nr_sealed - 1] }, 1) != -EBADF)
		broken(w, "SEAL of a sealed page does not fail");
	if (r && kvc_get(w->client, w->sealed + w->nr_sealed - 1, 1))
		broken(w, "GET fails");
	else if (r)
		w->sealed[w->nr_sealed] = w->sealed[w->nr_sealed - 1], w->nr_sealed++;
}

static void one_call(struct worker *w)
{
	u32 what = rnd(&w->seed) % 16;

	w->calls++;
	if (what < 6)
		do_alloc(w);
	else if (what < 10)
		do_free(w);
	else if (what < 13)
		do_seal(w);
	else
		do_lookup(w);
	if (!w->lends && rnd(&w->seed) % 200 == 0) {
		core_client_exit(&w->s->env, w->client);
		w->client = core_client(w->pool);
		w->nr_private = w->nr_sealed = 0;
	}
}

/* A pool of its own, with a guaranteed extent that the others' caches must yield. */
static void pool_life(struct worker *w)
{
	u32 min = rnd(&w->seed) % 3, i;
	struct kvc_pool *pool = core_pool(&w->s->env, min, 4, NULL);
	struct kvc_client *client = w->client;
	int r;

	if (!pool)
		return;
	core_cache(pool, sizes[0]);
	core_cache(pool, sizes[1]);
	w->pool = pool;
	w->client = core_client(pool);
	w->nr_private = w->nr_sealed = 0;
	for (i = 0; i < 40; i++)
		one_call(w);
	core_client_exit(&w->s->env, w->client);
	while ((r = core_pool_exit(&w->s->env, pool)) == -EBUSY)
		sched_yield();
	if (r)
		broken(w, "a pool does not end");
	w->pool = w->s->pool;
	w->client = client;
	w->nr_private = w->nr_sealed = 0;
}

static void walk(struct worker *w)
{
	char why[200];

	if (kvc_check(w->s->env.arena, why, sizeof(why)))
		broken(w, why);
}

/* Nobody else runs: everything that moves has arrived. */
static void stop_point(struct worker *w)
{
	struct kvc_stat stat;

	pthread_barrier_wait(&w->s->stop);
	if (!w->id) {
		walk(w);
		kvc_stat(w->s->pool, &stat);
		if (stat.moving || stat.arena_backing)
			broken(w, "something still moves");
	}
	pthread_barrier_wait(&w->s->stop);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	u32 round, i;

	for (round = 0; round < w->s->rounds; round++) {
		for (i = 0; i < 400; i++) {
			if (w->id == THREADS - 1 && i % 40 == 0)
				pool_life(w);
			else if (w->id != THREADS - 1)
				one_call(w);
			if (rnd(&w->seed) % 100 == 0)
				walk(w);
			if (rnd(&w->seed) % 50 == 0)
				core_reclaim(&w->s->env, w->s->pool, 1);
		}
		stop_point(w);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static struct shared s;
	static struct worker workers[THREADS];
	u64 seed = tap_seed(argc, argv), calls = 0, refused = 0, seals = 0, hits = 0;
	struct kvc_stat stat;
	struct worker *w;
	u32 i;

	s.rounds = argc > 2 ? atoi(argv[2]) : getenv("KVSLAB_LONG") ? 6000 : 60;
	core_arena(&s.env, 0, EXTENTS);
	s.pool = core_pool(&s.env, 2, EXTENTS, NULL);
	core_cache(s.pool, sizes[0]);
	core_cache(s.pool, sizes[1]);
	pthread_barrier_init(&s.stop, NULL, THREADS);
	for (i = 0; i < THREADS; i++) {
		w = &workers[i];
		w->s = &s;
		w->id = i;
		w->pool = s.pool;
		w->seed = rnd(&seed);
		/* Threads 0 and 1 are two on one client; the last makes pools. */
		w->client = i == 1 ? workers[0].client : core_client(s.pool);
		w->lends = i < 2;
	}
	for (i = 0; i < THREADS; i++)
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	for (i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		calls += workers[i].calls;
		refused += workers[i].refused;
		seals += workers[i].seals;
		hits += workers[i].hits;
	}
	ok(!s.broken, "%llu calls of %u threads break no rule", (unsigned long long)calls, THREADS);
	kvc_stat(s.pool, &stat);
	ok(refused && seals && hits && stat.evictions && stat.takeovers,
	   "%llu refused, %llu sealed, %llu found, %llu evicted, %llu slabs taken over",
	   (unsigned long long)refused, (unsigned long long)seals, (unsigned long long)hits,
	   (unsigned long long)stat.evictions, (unsigned long long)stat.takeovers);
	for (i = 0; i < THREADS; i++)
		if (i != 1)
			core_client_exit(&s.env, workers[i].client);
	kvc_stat(s.pool, &stat);
	ok(!stat.private_pages && !stat.sealed && !stat.held,
	   "no page is held when the clients are gone");
	ok(!core_pool_exit(&s.env, s.pool), "the pool ends");
	core_arena_free(&s.env);
	return done();
}
