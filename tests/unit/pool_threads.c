// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Clients of one pool, and of another in the same arena, each on a thread of its own. Also for
 * TSan. */
#include <pthread.h>

#include "pool_actor.h"
#include "tests/lib/test_pool.h"

#define EXTENTS 10
#define THREADS 4
#define STEPS 20000
#define STEPS_MODULE 1000 /* in the guest, which may be emulated */

struct job {
	struct actor actor;
	pthread_t thread;
	struct kvslab_pool *parent; /* shares it, for a client that comes and goes */
	int steps, reopen;
	uint64_t reopened;
};

static void lookup(struct actor *a)
{
	uint64_t chains[ACTOR_CHAIN];
	uint32_t cache, n;
	int got;

	actor_lookup(a, &cache, chains, &n, &got);
}

static void *work(void *arg)
{
	struct job *job = arg;
	struct actor *a = &job->actor;
	struct kvslab_stat stat;
	char why[256] = "";
	int i, rc;

	for (i = 0; i < job->steps && !a->bad; i++) {
		if (below(a, 5) == 0)
			lookup(a);
		else
			actor_step(a);
		if (below(a, 500) == 0) {
			rc = kvslab_pool_check(a->client, why, sizeof(why));
			if (rc)
				wrong(a, "check: %d %s", rc, why);
			rc = kvslab_stat(a->client, &stat);
			if (rc || stat.frag_partial < 0 || stat.frag_tail < 0 ||
			    stat.frag_partial + stat.frag_tail + stat.frag_quarantine > 1 + 1e-9)
				wrong(a, "stat: %d, fragmentation %f + %f + %f", rc,
				      stat.frag_partial, stat.frag_tail, stat.frag_quarantine);
		}
		if (job->reopen && below(a, 300) == 0) {
			struct kvslab_pool *again;

			/* The new one first: at no time may the pool be without a client. */
			if (kvslab_pool_share(a->client, &again)) {
				wrong(a, "no other client");
				break;
			}
			kvslab_pool_close(a->client);
			a->client = again;
			a->n = 0;
			job->reopened++;
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(argc, argv), reopened = 0, held = 0;
	struct kvslab_pool_opts opts = { 0 };
	struct kvslab_pool *client = NULL;
	struct kvslab_stat stat;
	static struct job job[THREADS];
	char why[256] = "";
	int i, rc, bad = 0;

	if (!ok(kvslab_arena_open(&opts.arena, EXTENTS * (uint64_t)KVSLAB_EXTENT_SIZE) == 0, "an "
											     "aren"
											     "a"))
		return done();
	for (i = 0; i < THREADS; i++) {
		if (i == 0 || i == THREADS - 1)
			rc = test_pool_open(&client, "embedded", &opts);
		else
			rc = kvslab_pool_share(job[0].actor.client, &client);
		if (!ok(!rc, "client %d", i))
			return done();
		actor_open(&job[i].actor, client,
			   0xabcd0000u + ((uint64_t)(i == THREADS - 1) << 60), rnd(&seed));
		job[i].steps = argc > 2 ? atoi(argv[2]) :
				 test_pool_kind() == TEST_POOL_DEVICE ? STEPS_MODULE : STEPS;
		job[i].reopen = i == 1;
	}
	for (i = 0; i < THREADS; i++)
		pthread_create(&job[i].thread, NULL, work, &job[i]);
	for (i = 0; i < THREADS; i++)
		pthread_join(job[i].thread, NULL);
	for (i = 0; i < THREADS; i++) {
		struct actor *a = &job[i].actor;

		actor_free_all(a);
		ok(!a->bad, "thread %d: %llu calls, %llu sealed, %llu found, %llu refused %s", i,
		   (unsigned long long)a->calls, (unsigned long long)a->shared,
		   (unsigned long long)a->found, (unsigned long long)a->refused, a->first);
		reopened += job[i].reopened;
	}
	ok(reopened > 0, "%llu clients came and went", (unsigned long long)reopened);
	for (i = 0; i < THREADS; i++) {
		rc = kvslab_pool_check(job[i].actor.client, why, sizeof(why));
		bad += rc != 0;
		rc = kvslab_stat(job[i].actor.client, &stat);
		bad += rc != 0;
		held += stat.private_pages + stat.sealed + stat.moving;
	}
	ok(!bad && !held, "nothing is held at the end %s", why);
	kvslab_arena_close(opts.arena);
	for (i = 0; i < THREADS; i++)
		kvslab_pool_close(job[i].actor.client);
	return done();
}
