// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Device arenas: what is asked of the caller, one pool alone, and that no handle outlives its arena. */
#include <stdlib.h>

#include "tests/lib/core_case.h"
#include "tests/lib/tap.h"
#include "state.h"

#define EXTENTS 3u
#define ARENAS 40 /* one after the other, under one id */
#define SEEN 4096

static struct core_env env; /* core_serve() ends the test if memory, or a look at it, is asked for */
static u32 released;
static u64 seen[SEEN];
static u32 nr_seen;

static bool never(struct core_env *e, const struct kvc_zap *zap, u32 index)
{
	(void)e, (void)zap, (void)index;
	ok(false, "whether a device page is in use is asked");
	return true;
}

static void release(struct core_env *e, const struct kvc_release *r)
{
	(void)e, (void)r;
	released++;
}

static struct kvc_client *client_as(struct kvc_pool *pool, struct kvc_client *twin)
{
	struct kvc_client *client = NULL;
	void *mem = core_mem(kvc_client_size(pool));

	if (kvc_client_init_as(mem, pool, twin, &client))
		free(mem);
	return client;
}

static bool holds(void)
{
	char why[200];

	if (!kvc_check(env.arena, why, sizeof(why)))
		return true;
	printf("# %s\n", why);
	return false;
}

static int seal(struct kvc_client *client, u64 *page, u32 n)
{
	struct kvc_seal s = { .page = *page, .flags = KVC_SEAL_ROOT };
	int r;

	core_hash(s.hash, n);
	r = core_seal(&env, client, &s, 1);
	*page = s.page;
	return r;
}

/* Old handles: FREE and GET of them fail, and no page gets one of them again. */
static u32 confused(struct kvc_client *client, const u64 *pages, u32 n)
{
	u32 i, k, bad = 0;
	int r, g;

	for (i = 0; i < nr_seen && i < SEEN; i++) {
		r = core_free(&env, client, &seen[i], 1);
		g = kvc_get(client, &seen[i], 1);
		bad += (r != -EBADF && r != -ESTALE) || (g != -EBADF && g != -ESTALE);
		for (k = 0; k < n; k++)
			bad += pages[k] == seen[i];
	}
	return bad;
}

/* One life of the id: pages come and go, so that extents get new slabs of other sizes. */
static u32 life(u64 *seed, u32 *epoch)
{
	static const u32 sizes[] = { KVC_EXTENT_SIZE, SIX, 64 << 10 };
	struct kvc_pool *pool;
	struct kvc_client *client;
	u32 i, n, k, nr_mine = 0, bad = 0, most = rnd(seed) % 60;
	u64 pages[64], mine[256];
	int err;

	core_arena_device(&env, 9, EXTENTS, *epoch);
	pool = core_pool(&env, EXTENTS, EXTENTS, &err);
	for (i = 0; i < 3; i++)
		core_cache(pool, sizes[i]);
	client = core_client(pool);
	for (i = 0; i < most && !bad; i++) {
		err = core_alloc(&env, client, rnd(seed) % 3, pages, 1 + rnd(seed) % 3, KVC_PARTIAL);
		n = err > 0 ? err : 0;
		bad += confused(client, pages, n) + !n;
		for (k = 0; k < n; k++)
			mine[nr_mine++] = pages[k];
		if (rnd(seed) % 3 == 0)
			seal(client, &pages[0], rnd(seed) % 50);
		bad += core_free(&env, client, pages, n) != 0;
	}
	/* The last ones are still held when the arena ends. */
	err = core_alloc(&env, client, 2, pages, 64, KVC_PARTIAL);
	bad += err <= 0 || confused(client, pages, err);
	for (k = 0; err > 0 && k < (u32)err; k++)
		mine[nr_mine++] = pages[k];
	for (i = 0; i < 64; i++)
		seen[nr_seen++ % SEEN] = mine[rnd(seed) % nr_mine];
	bad += !holds();
	core_client_exit(&env, client);
	bad += core_pool_exit(&env, pool) != 0;
	*epoch = kvc_arena_epoch(env.arena);
	core_arena_free(&env);
	return bad;
}

int main(int argc, char **argv)
{
	u64 seed = tap_seed(argc, argv), pages[12], again[12];
	struct core_env host = { 0 };
	struct kvc_pool *pool, *home;
	struct kvc_client *a, *b, *twin;
	u32 i, epoch = 0, bad = 0;
	int err, r;

	env.pinned = never;
	env.release = release;
	core_arena_device(&env, 9, EXTENTS, 0);
	core_arena(&host, 0, EXTENTS);
	home = core_pool(&host, 0, EXTENTS, NULL);
	for (i = 0; i < 5; i++)
		twin = core_client(home), i < 4 ? core_client_exit(&host, twin) : (void)0;
	pool = core_pool(&env, EXTENTS, EXTENTS, &err);
	ok(pool && !err && holds(), "a pool on a device arena");
	ok(!core_pool(&env, 0, 1, &err) && err == -EBUSY, "a second one is refused");
	ok(!core_cache(pool, SIX) && core_cache(pool, KVC_EXTENT_SIZE) == 1, "two caches");
	a = client_as(pool, twin);
	b = core_client(pool);
	ok(a && kvc_client_id(a) == kvc_client_id(twin), "a client with the id of its twin");

	r = core_alloc(&env, a, 0, pages, 12, 0);
	ok(r == 12 && kvc_handle_arena(pages[0]) == 9 && holds(), "pages, without memory being asked for");
	ok(!seal(a, &pages[0], 1) && !seal(a, &pages[1], 2) && holds(), "sealed, without a look at who has them");
	r = core_lookup(&env, b, 0, (const u8(*)[KVC_HASH_SIZE])(u8[KVC_HASH_SIZE]){ 0 }, 1, again);
	ok(r == 0, "a hash that is not there");
	ok(!core_free(&env, a, pages, 12) && holds(), "all of them back");
	ok(core_alloc(&env, b, 1, again, EXTENTS, 0) == EXTENTS && holds() && released >= 2,
	   "as pages of another size: what was cached is evicted");
	ok(core_free(&env, a, pages, 1) == -EBADF && kvc_get(b, pages, 1) == -EBADF, "the old handles name nothing");
	core_client_exit(&env, a);
	core_client_exit(&env, b);
	ok(!core_pool_exit(&env, pool), "the pool ends");
	ok(!core_pool(&env, 0, 1, &err) && err == -EBUSY, "and the arena never gets another");
	core_arena_free(&env);
	core_client_exit(&host, twin);
	core_pool_exit(&host, home);
	core_arena_free(&host);

	/* The walk finds what may not be. */
	core_arena_device(&env, 9, EXTENTS, 0);
	pool = core_pool(&env, EXTENTS, EXTENTS, &err);
	env.arena->device = false;
	home = core_pool(&env, 0, 1, &err);
	env.arena->device = true;
	ok(home && kvc_check(env.arena, (char[200]){ 0 }, 200) == -EUCLEAN, "the walk finds a second pool");
	core_pool_exit(&env, home);
	ok(holds(), "and nothing when it is gone");
	core_pool_exit(&env, pool);
	core_arena_free(&env);

	for (i = 0; i < ARENAS && !bad; i++)
		bad = life(&seed, &epoch);
	ok(!bad, "%u arenas under one id, one after the other: no handle means a page of a later one", i);
	ok(epoch > ARENAS, "the last begins at generation %u", epoch);
	return done();
}
