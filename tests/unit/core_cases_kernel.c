// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* One case for each rule of the core that a kernel module leans on most: faults, pinned caches,
 * extents that go back one by one. */
#include <stdlib.h>

#include "tests/lib/core_case.h"
#include "tests/lib/tap.h"
#include "state.h"

static struct core_case c;

static int get(struct kvc_client *client, u32 id, u64 *pages, u32 n)
{
	return core_alloc(&c.env, client, id, pages, n, 0);
}

static int put(struct kvc_client *client, const u64 *pages, u32 n)
{
	return core_free(&c.env, client, pages, n);
}

static struct kvc_stat now(struct kvc_pool *pool)
{
	struct kvc_stat stat;

	kvc_stat(pool, &stat);
	return stat;
}

static struct kvc_at at(struct kvc_pool *pool, struct kvc_client *client, u64 page, int *r)
{
	struct kvc_at at = { 0 };

	*r = kvc_page_at(pool, client, kvc_handle_extent(page), kvc_handle_index(page) * SIX + 7,
			 &at);
	return at;
}

static void faults(void)
{
	struct kvc_pool *pool, *other;
	struct kvc_client *a, *b;
	struct kvc_seal seal = { .flags = KVC_SEAL_ROOT };
	struct kvc_at w, r;
	struct kvc_op op;
	u64 page[9], theirs;
	int e, f;

	case_open(&c, 2);
	pool = case_pool(&c, 0, 2, SIX);
	other = case_pool(&c, 0, 1, SIX);
	a = core_client(pool);
	b = core_client(pool);
	ok(kvc_page_at(pool, a, 0, 0, &w) == -ENXIO && kvc_page_at(pool, a, 2, 0, &w) == -ENXIO &&
		   kvc_page_at(pool, a, ~0u, 0, &w) == -ENXIO,
	   "no slab, no extent: ENXIO");
	get(a, 0, page, 3);
	w = at(pool, a, page[0], &e);
	r = at(pool, b, page[0], &f);
	ok(!e && !f && w.writable && w.readable && !r.writable && r.readable && w.size == SIX &&
		   w.offset == kvc_handle_index(page[0]) * SIX,
	   "a private page: its holder may write it, others may read it");
	at(other, NULL, page[0], &e);
	ok(e == -ENXIO && kvc_page_at(pool, a, kvc_handle_extent(page[0]), 6 * SIX, &w) == -ENXIO &&
		   kvc_page_at(pool, a, kvc_handle_extent(page[0]), KVC_EXTENT_SIZE, &w) == -ENXIO,
	   "for another pool it is nothing, nor is the slab's tail");
	theirs = page[0] + (4ull << 28);
	w = at(pool, a, theirs, &e);
	ok(!e && !w.writable && w.readable, "a free page may be read");

	seal.page = page[1];
	core_hash(seal.hash, 1);
	kvc_op_init(&op);
	ok(kvc_seal(a, &seal, 1, &op) == KVC_MORE, "a seal has begun");
	w = at(pool, a, page[1], &e);
	r = at(pool, NULL, page[1], &f);
	ok(!e && !f && !w.writable && !w.readable && w.sealing && !r.readable && r.sealing,
	   "its page is moving, because it is being sealed");
	ok(kvc_seal(a, &seal, 1, &op) == 0, "the seal ends");
	core_tables(&op);
	w = at(pool, a, page[1], &e);
	ok(!e && !w.writable && w.readable && !w.sealing, "a sealed page: nobody writes it");

	put(a, page, 1);
	w = at(pool, a, page[0], &e);
	ok(!e && !w.writable && w.readable, "a page freed in an own slab is its last holder's no more");
	get(b, 0, page + 4, 2);
	put(b, page + 4, 2);
	core_client_exit(&c.env, b);
	b = core_client(pool);
	get(a, 0, page, 1);
	kvc_op_init(&op);
	get(a, 0, page + 3, 3);
	put(a, page + 3, 3);
	ok(get(b, 0, page + 3, 6) == 6, "the other extent is used up");
	ok(kvc_alloc(b, 0, page + 3, 1, 0, &op) == KVC_MORE, "a slab is wanted");
	while (!op.nr_zaps && op.nr_needs) {
		core_serve(&c.env, &op);
		ok(kvc_alloc(b, 0, page + 3, 1, 0, &op) == KVC_MORE, "with a record");
	}
	w = at(pool, a, theirs, &e);
	ok(op.nr_zaps == 1 && op.zap[0].why == KVC_ZAP_TAKE && !e && !w.readable && !w.sealing,
	   "free pages of a slab that is taken over are moving, and not because of a seal");
	core_serve(&c.env, &op);
	ok(kvc_alloc(b, 0, page + 3, 1, 0, &op) == 1, "it is taken");
	core_tables(&op);
	core_client_exit(&c.env, a);
	core_client_exit(&c.env, b);
	case_pool_close(&c, pool);
	case_pool_close(&c, other);
	case_close(&c);
}

static int fill(struct kvc_pool *pool, u32 id, u32 slabs)
{
	struct kvc_op op;

	return CORE_RUN(&c.env, &op, kvc_cache_fill(pool, id, slabs, &op));
}

static int pinned_cache(struct kvc_pool *pool, u32 page_size)
{
	return kvc_cache_add_pinned(pool, core_mem(kvc_cache_size(page_size)), page_size);
}

static void pinned(void)
{
	struct kvc_pool *pool;
	struct kvc_client *a, *b;
	struct kvc_cache_stat stat;
	u64 page[16], other[8];
	int id;

	case_open(&c, 5);
	pool = case_pool(&c, 0, 4, SIX);
	a = core_client(pool);
	b = core_client(pool);
	id = pinned_cache(pool, MIB);
	ok(id == 1 && get(a, id, page, 1) == -ENOSPC, "a pinned cache without slabs: ENOSPC");
	ok(fill(pool, 0, 1) == -EINVAL && fill(pool, 7, 1) == -EINVAL,
	   "a cache that is not pinned, or not there: EINVAL");
	ok(fill(pool, id, 5) == -EDQUOT && !now(pool).slabs && case_holds(&c),
	   "more than the pool's max: EDQUOT, and none is kept");
	c.decline_slabs = true;
	ok(fill(pool, id, 2) == -ENOMEM && !now(pool).slabs && case_holds(&c),
	   "no memory: ENOMEM, and none is kept");
	c.decline_slabs = false;
	ok(!fill(pool, id, 2) && now(pool).slabs == 2 && now(pool).held == 2 && case_holds(&c) &&
		   !fill(pool, id, 2) && now(pool).slabs == 2,
	   "two slabs, held though empty; filled again to two: nothing");
	kvc_cache_stat(pool, id, &stat);
	ok(stat.pinned && stat.slabs == 2 && stat.free == 4 && stat.page_size == MIB, "and counted");
	ok(core_reclaim(&c.env, pool, 9) == 0 && get(a, 0, other, 8) == 8 &&
		   get(a, 0, page, 5) == -EDQUOT,
	   "reclaim does not find them, nor does another page size");
	ok(get(a, id, page, 5) == -ENOSPC && get(a, id, page, 4) == 4 && case_holds(&c),
	   "all four pages and no more");
	c.pin[kvc_handle_extent(page[0])] = c.pin[kvc_handle_extent(page[2])] = ~0ull;
	ok(!case_seal(&c, a, &page[0], 0, 0) && !put(a, page, 1) && now(pool).cached == 1,
	   "a seal does not ask who uses the frames");
	ok(!put(a, page + 1, 3) && get(b, id, page, 4) == 4 && !now(pool).quarantined &&
		   case_holds(&c),
	   "nor does ALLOC, which takes spares over and evicts");
	put(b, page, 4);
	core_client_exit(&c.env, b);
	ok(now(pool).slabs == 4 && case_holds(&c), "the slabs stay when their client ends");
	put(a, other, 8);
	ok(fill(pool, id, 4) == 0 && now(pool).slabs == 4 && case_holds(&c),
	   "more slabs come from another cache's spares");
	core_client_exit(&c.env, a);
	case_pool_close(&c, pool);
	ok(case_holds(&c), "and end with the pool");
	case_close(&c);
}

static int reclaim(struct kvc_pool *pool, u32 extent)
{
	struct kvc_op op;

	return CORE_RUN(&c.env, &op, kvc_reclaim_extent(pool, extent, &op));
}

static void extents_go_back(void)
{
	struct kvc_pool *pool;
	struct kvc_client *a;
	u64 page[12];
	u32 spare[8];

	case_open(&c, 4);
	pool = case_pool(&c, 0, 4, SIX);
	a = core_client(pool);
	get(a, 0, page, 7);
	ok(reclaim(pool, kvc_handle_extent(page[0])) == -EBUSY && reclaim(pool, 3) == -EBUSY &&
		   reclaim(pool, 99) == -EBUSY && !kvc_spares(pool, spare, 8),
	   "a slab in use, an extent without one, no extent: EBUSY");
	put(a, page + 6, 1);
	ok(kvc_spares(pool, spare, 8) == 1 && spare[0] == kvc_handle_extent(page[6]),
	   "an empty slab is a spare");
	case_reset(&c);
	ok(!reclaim(pool, spare[0]) && c.released == 1 && now(pool).slabs == 1 && case_holds(&c),
	   "and goes back");
	case_seal(&c, a, &page[0], 0, 0);
	put(a, page + 1, 5);
	ok(reclaim(pool, kvc_handle_extent(page[0])) == -EBUSY, "a page is referenced: EBUSY");
	put(a, page, 1);
	ok(!reclaim(pool, kvc_handle_extent(page[0])) && !now(pool).slabs && !now(pool).cached &&
		   case_holds(&c),
	   "a slab that nobody holds goes with its cached page");
	core_client_exit(&c.env, a);
	case_pool_close(&c, pool);
	case_close(&c);
}

static void spares_before_cached(void)
{
	struct kvc_pool *pool;
	struct kvc_client *a;
	u64 page[6], big[1];
	int id;

	case_open(&c, 2);
	pool = case_pool(&c, 0, 2, SIX);
	id = core_cache(pool, KVC_EXTENT_SIZE);
	a = core_client(pool);
	get(a, id, big, 1);
	put(a, big, 1);
	get(a, 0, page, 1);
	case_seal(&c, a, &page[0], 0, 0);
	put(a, page, 1);
	get(a, 0, page, 5);
	case_reset(&c);
	ok(get(a, 0, page, 1) == 1 && !c.zapped[KVC_ZAP_EVICT] && now(pool).cached == 1 &&
		   case_holds(&c),
	   "an empty slab of another page size is taken before a cached page");
	ok(get(a, 0, page, 5) == 5 && get(a, 0, page, 1) == 1 && c.zapped[KVC_ZAP_EVICT] == 1,
	   "then the cached page is");
	core_client_exit(&c.env, a);
	case_pool_close(&c, pool);
	case_close(&c);
}

/* At max: pages of slabs that nobody holds are out of reach, and come back in their order. */
static void out_of_reach(void)
{
	struct kvc_pool *pool;
	struct kvc_client *a;
	struct kvc_pool_params params = { 0 };
	u64 page[18], one, again;
	u32 i, parked = 0;
	struct kvc_op op;

	case_open(&c, 4);
	pool = case_pool(&c, 0, 3, SIX);
	a = core_client(pool);
	/* Three slabs are cached, each a chain, one after the other, and none of them is held. */
	get(a, 0, page, 18);
	for (i = 0; i < 18; i++)
		if (i != 11)
			case_seal(&c, a, &page[i], i / 6 * 100 + i % 6, 0);
	for (i = 0; i < 18; i += 6)
		put(a, page + i, 6);
	params.max = 1;
	kvc_op_init(&op);
	ok(!kvc_pool_set(pool, &params, &op) && now(pool).cached == 17 && now(pool).slabs == 3 &&
		   !now(pool).held,
	   "three slabs of cached pages at a max of one");
	ok(case_lookup(&c, a, 0, 202, &again) == 1, "a page of the last one is referenced");
	case_reset(&c);
	ok(get(a, 0, &one, 1) == 1 && c.nr_evicted == 1 &&
		   c.evicted[0] == (kvc_handle_extent(page[17]) << 6 | kvc_handle_index(page[17])) &&
		   case_holds(&c),
	   "only that slab's pages can be had: its deepest goes");
	for (i = 0; i < 18; i += 6)
		parked += !kvc_list_empty(
			&c.env.arena->extent[kvc_handle_extent(page[i])].slab->parked);
	ok(parked == 2, "the others are parked");
	put(a, &again, 1);
	put(a, &one, 1);
	ok(case_holds(&c), "nothing is held");
	ok(case_lookup(&c, a, 0, 3, &again) == 1 && case_holds(&c) && !put(a, &again, 1) &&
		   case_holds(&c),
	   "a parked page is found, and those beside it come back");
	case_reset(&c);
	c.decline_slabs = true;
	kvc_op_init(&op);
	params.max = 3;
	ok(!kvc_pool_set(pool, &params, &op) && get(a, 0, page + 12, 3) == 3 && case_holds(&c),
	   "max rises; without new memory three pages come from two slabs that have room, and");
	ok(c.nr_evicted == 1 &&
		   c.evicted[0] == (kvc_handle_extent(page[5]) << 6 | kvc_handle_index(page[5])),
	   "the oldest page of all, which is evicted");
	c.decline_slabs = false;
	kvc_op_init(&op);
	params.max = 1;
	ok(kvc_pool_set(pool, &params, &op) == -EBUSY && !put(a, page + 12, 3) &&
		   !kvc_pool_set(pool, &params, &op) && get(a, 0, page + 12, 6) == 6 &&
		   case_holds(&c) && get(a, 0, page, 1) == -EDQUOT && case_holds(&c),
	   "at max again: a slab's worth and no more");
	c.decline_slabs = false;
	core_client_exit(&c.env, a);
	case_pool_close(&c, pool);
	case_close(&c);
}

/* A batch enters in parts; what it brings twice, or was there, is found in each of them. */
static void long_batch(void)
{
	struct kvc_seal *seal = calloc(300, sizeof(*seal));
	struct kvc_pool *pool;
	struct kvc_client *a, *b;
	u64 page[300], found;
	u32 i, good = 0;

	case_open(&c, 4);
	pool = case_pool(&c, 0, 4, KVC_FRAME_SIZE);
	a = core_client(pool);
	b = core_client(pool);
	get(b, 0, page, 1);
	case_seal(&c, b, &page[0], 70 * 100, 0);
	get(a, 0, page, 300);
	for (i = 0; i < 300; i++) {
		seal[i].page = page[i];
		seal[i].flags = KVC_SEAL_ROOT;
		core_hash(seal[i].hash, (i < 200 ? i : i - 200) * 100);
	}
	ok(!core_seal(&c.env, a, seal, 300), "300 pages, 100 of them twice, one is there already");
	for (i = 0; i < 100; i++)
		good += seal[200 + i].page == seal[i].page;
	ok(good == 100 && seal[70].page != page[70] && now(pool).sealed == 200 &&
		   now(pool).seal_duplicates == 101 && !now(pool).private_pages && case_holds(&c),
	   "each hash is there once");
	ok(case_lookup(&c, b, 0, 19900, &found) == 1 && found == page[199], "and is found");
	core_client_exit(&c.env, a);
	core_client_exit(&c.env, b);
	case_pool_close(&c, pool);
	case_close(&c);
	free(seal);
}

int main(void)
{
	faults();
	pinned();
	extents_go_back();
	spares_before_cached();
	out_of_reach();
	long_batch();
	return done();
}
