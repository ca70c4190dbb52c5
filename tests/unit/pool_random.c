// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Random calls by several clients of two pools in one arena; the counts must be what the clients
 * together hold. */
#include "pool_actor.h"
#include "tests/lib/test_pool.h"

#define EXTENTS 12
#define POOLS 2
#define ACTORS 5
#define STEPS 30000

static struct actor actor[ACTORS];
static uint64_t reopened;

static int pool_of(int i)
{
	return i >= 3;
}

static int others_hold(int me, uint32_t cache, uint64_t chain)
{
	uint64_t content = chain_content(&actor[me], cache, chain);
	uint32_t k;
	int i;

	for (i = 0; i < ACTORS; i++)
		for (k = 0; pool_of(i) == pool_of(me) && k < actor[i].n; k++)
			if (actor[i].held[k].refs && actor[i].held[k].cache == cache &&
			    actor[i].held[k].content == content)
				return 1;
	return 0;
}

static void lookup(int me)
{
	uint64_t chains[ACTOR_CHAIN];
	uint32_t cache, n, known = 0;
	struct actor before = actor[me];
	int got;

	/* What is held must be found: ask what that is with the same random numbers before the
	 * call. */
	actor_lookup(&actor[me], &cache, chains, &n, &got);
	if (got < 0)
		return;
	{
		struct actor after = actor[me];

		actor[me] = before;
		while (known < n && others_hold(me, cache, chains[known]))
			known++;
		actor[me] = after;
	}
	if ((uint32_t)got < known)
		wrong(&actor[me], "lookup found %d of %u pages that are held", got, known);
}

static int check(int p, const char *when)
{
	struct kvslab_stat stat;
	uint64_t sealed[ACTORS * ACTOR_HELD], private_pages = 0, n = 0, clients = 0, k;
	struct actor *any = NULL;
	char why[256] = "";
	int i, rc;

	for (i = 0; i < ACTORS; i++) {
		if (pool_of(i) != p)
			continue;
		any = &actor[i];
		clients++;
		for (uint32_t j = 0; j < actor[i].n; j++) {
			if (!actor[i].held[j].refs) {
				private_pages++;
				continue;
			}
			for (k = 0; k < n && sealed[k] != actor[i].held[j].page; k++)
				;
			if (k == n)
				sealed[n++] = actor[i].held[j].page;
		}
	}
	rc = kvslab_pool_check(any->client, why, sizeof(why));
	if (rc)
		wrong(any, "check %s: %d %s", when, rc, why);
	rc = kvslab_stat(any->client, &stat);
	if (rc || stat.private_pages != private_pages || stat.sealed != n || stat.moving ||
	    stat.quarantined || stat.clients != clients)
		wrong(any,
		      "%s: %d, %llu private, %llu sealed, %llu moving, %llu clients; not %llu, "
		      "%llu, 0, %llu",
		      when, rc, (unsigned long long)stat.private_pages,
		      (unsigned long long)stat.sealed, (unsigned long long)stat.moving,
		      (unsigned long long)stat.clients, (unsigned long long)private_pages,
		      (unsigned long long)n, (unsigned long long)clients);
	return !any->bad;
}

/* Closes a client with all that it holds and opens another in its place. */
static void reopen(int me)
{
	int i, other = -1;
	struct kvslab_pool *client;

	for (i = 0; i < ACTORS; i++)
		if (i != me && pool_of(i) == pool_of(me))
			other = i;
	kvslab_pool_close(actor[me].client);
	actor[me].client = NULL;
	actor[me].n = 0;
	if (kvslab_pool_share(actor[other].client, &client)) {
		wrong(&actor[me], "no second client");
		return;
	}
	actor[me].client = client;
	reopened++;
}

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(argc, argv), bad = 0, shared = 0, found = 0, refused = 0,
		 calls = 0;
	struct kvslab_pool_opts opts = { 0 };
	struct kvslab_pool *client = NULL;
	struct kvslab_stat stat;
	uint64_t evictions = 0, takeovers = 0, duplicates = 0;
	int i, step, steps = argc > 2 ? atoi(argv[2]) : STEPS;
	char why[256] = "";

	if (!ok(kvslab_arena_open(&opts.arena, EXTENTS * (uint64_t)KVSLAB_EXTENT_SIZE) == 0, "an "
											     "aren"
											     "a"))
		return done();
	for (i = 0; i < ACTORS; i++) {
		int rc;

		if (i == 0 || pool_of(i) != pool_of(i - 1)) {
			opts.min = i ? 0 : 3 * KVSLAB_EXTENT_SIZE;
			opts.max = i ? 7 * KVSLAB_EXTENT_SIZE : 0;
			rc = test_pool_open(&client, "embedded", &opts);
		} else {
			rc = kvslab_pool_share(actor[i - 1].client, &client);
		}
		if (!ok(!rc, "client %d of pool %d", i, pool_of(i)))
			return done();
		actor_open(&actor[i], client, 0xabcd0000u + ((uint64_t)pool_of(i) << 60),
			   rnd(&seed));
	}
	for (step = 0; step < steps && !bad; step++) {
		i = (int)(rnd(&seed) % ACTORS);
		if (rnd(&seed) % 7 == 0)
			lookup(i);
		else if (rnd(&seed) % 200 == 0)
			reopen(i);
		else
			actor_step(&actor[i]);
		if (step % 8 == 0)
			check(pool_of(i), "after a step");
		for (i = 0; i < ACTORS; i++)
			bad += actor[i].bad;
	}
	for (i = 0; i < ACTORS; i++) {
		if (actor[i].bad)
			printf("# client %d, step %d: %s\n", i, step, actor[i].first);
		shared += actor[i].shared;
		found += actor[i].found;
		refused += actor[i].refused;
		calls += actor[i].calls;
	}
	ok(!bad, "%llu calls: %llu sealed, %llu found, %llu refused, %llu clients reopened",
	   (unsigned long long)calls, (unsigned long long)shared, (unsigned long long)found,
	   (unsigned long long)refused, (unsigned long long)reopened);
	for (i = 0; i < ACTORS; i++)
		actor_free_all(&actor[i]);
	for (i = 0; i < POOLS; i++) {
		ok(check(i, "at the end"), "pool %d: nothing is held at the end", i);
		kvslab_stat(actor[i * 3].client, &stat);
		evictions += stat.evictions;
		takeovers += stat.takeovers;
		duplicates += stat.seal_duplicates;
	}
	ok(shared && found && refused && evictions && takeovers && duplicates && reopened,
	   "%llu evictions, %llu take-overs, %llu duplicates", (unsigned long long)evictions,
	   (unsigned long long)takeovers, (unsigned long long)duplicates);
	kvslab_arena_close(opts.arena);
	for (i = 0; i < ACTORS; i++) {
		if (i == 2)
			ok(!kvslab_pool_check(actor[i].client, why, sizeof(why)),
			   "the last client's check %s", why);
		kvslab_pool_close(actor[i].client);
	}
	return done();
}
