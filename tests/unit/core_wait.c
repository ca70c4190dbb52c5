// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * Threads that want more than there is, each a client, in two pools of one arena: who is refused
 * waits for ROOM and for nothing else. None may wait for ever, that is: no event gets lost. Beside
 * them one looks at pages as faults do. argv: seed, rounds.
 */
#include <pthread.h>
#include <time.h>

#include "tests/lib/core_env.h"
#include "tests/lib/tap.h"

#define EXTENTS 2
#define THREADS 4
#define SIX (340u << 10)

struct worker {
	pthread_t thread;
	struct core_env *env;
	struct kvc_client *client;
	u64 seed;
	u32 rounds, waited;
	bool *stuck, *stop;
};

static bool wait_for_room(struct worker *w)
{
	time_t end = time(NULL) + 20;

	while (!(kvc_events(w->client, true) & KVC_EVENT_ROOM)) {
		sched_yield();
		if (__atomic_load_n(w->stuck, __ATOMIC_RELAXED) || time(NULL) > end)
			return false;
	}
	return true;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	u64 page[12];
	u32 i, n;
	int r;

	for (i = 0; i < w->rounds; i++) {
		n = 1 + rnd(&w->seed) % 12;
		while ((r = core_alloc(w->env, w->client, 0, page, n, 0)) < 0) {
			w->waited++;
			if (!wait_for_room(w)) {
				__atomic_store_n(w->stuck, true, __ATOMIC_RELAXED);
				return NULL;
			}
		}
		if (rnd(&w->seed) % 2)
			sched_yield();
		core_free(w->env, w->client, page, n);
	}
	return NULL;
}

static void *look(void *arg)
{
	struct worker *w = arg;
	struct kvc_slab_stat slabs[4];
	struct kvc_at at;
	u32 from = 0;

	while (!__atomic_load_n(w->stop, __ATOMIC_RELAXED)) {
		kvc_page_at(w->env->data, w->client, rnd(&w->seed) % EXTENTS,
			    rnd(&w->seed) % KVC_EXTENT_SIZE, &at);
		kvc_slabs(w->env->data, &from, slabs, 4);
		w->waited++;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	u64 seed = tap_seed(argc, argv), waited = 0;
	struct worker w[THREADS + 1] = { { 0 } };
	bool stuck = false, stop = false;
	struct core_env env = { 0 };
	struct kvc_pool *pool[2];
	u32 i, rounds = argc > 2 ? strtoul(argv[2], NULL, 0) : 3000;
	char why[200] = "";

	core_arena(&env, 0, EXTENTS);
	for (i = 0; i < 2; i++) {
		pool[i] = core_pool(&env, 0, EXTENTS, NULL);
		core_cache(pool[i], SIX);
	}
	env.data = pool[0];
	for (i = 0; i <= THREADS; i++) {
		w[i] = (struct worker){ .env = &env, .seed = seed + i, .rounds = rounds,
					.client = core_client(pool[i / 2 % 2]), .stuck = &stuck,
					.stop = &stop };
		pthread_create(&w[i].thread, NULL, i < THREADS ? work : look, &w[i]);
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(w[i].thread, NULL);
		waited += w[i].waited;
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(w[THREADS].thread, NULL);
	ok(!stuck, "nobody waits for ever");
	ok(waited > rounds / 10, "%llu ALLOCs waited, while a thread looked %u times",
	   (unsigned long long)waited, w[THREADS].waited);
	ok(!kvc_check(env.arena, why, sizeof(why)), "the rules hold%s%s", why[0] ? ": " : "", why);
	for (i = 0; i <= THREADS; i++)
		core_client_exit(&env, w[i].client);
	ok(!core_pool_exit(&env, pool[0]) && !core_pool_exit(&env, pool[1]), "the pools end");
	core_arena_free(&env);
	return done();
}
