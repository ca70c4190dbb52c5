// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* One case for each rule of the core about pages and slabs. Those about sealed pages are in
 * core_cases_seal.c. */
#include <stdlib.h>

#include "tests/lib/core_case.h"
#include "tests/lib/tap.h"

static struct core_case c;

static int get(struct kvc_client *client, u64 *pages, u32 n)
{
	return core_alloc(&c.env, client, 0, pages, n, 0);
}

static int put(struct kvc_client *client, const u64 *pages, u32 n)
{
	return core_free(&c.env, client, pages, n);
}

static u32 private_pages(struct kvc_pool *pool)
{
	struct kvc_stat stat;

	kvc_stat(pool, &stat);
	return stat.private_pages;
}

static void handles(void)
{
	struct kvc_pool *pool;
	struct kvc_client *a;
	struct kvc_where where;
	u64 page[6];
	u32 i, good = 1;

	case_open(&c, 4);
	pool = case_pool(&c, 0, 4, SIX);
	a = core_client(pool);
	ok(get(a, page, 6) == 6, "six pages");
	for (i = 0; i < 6; i++) {
		good &= kvc_handle_arena(page[i]) == 5 && kvc_handle_extent(page[i]) < 4 &&
			kvc_handle_index(page[i]) < 6 && kvc_handle_generation(page[i]) != 0;
		good &= !kvc_where(a, page[i], &where) && where.writable && where.size == SIX &&
			where.offset == kvc_handle_index(page[i]) * SIX &&
			where.extent == kvc_handle_extent(page[i]);
	}
	ok(good, "a handle says arena, extent, index and a generation that is not 0");
	ok(put(a, (u64[]){ 0 }, 1) == -EBADF && put(a, (u64[]){ ~0ull }, 1) == -EBADF &&
		   put(a, (u64[]){ page[0] ^ 1ull << 58 }, 1) == -EBADF &&
		   put(a, (u64[]){ page[0] | 1023ull << 28 }, 1) == -EBADF,
	   "0, all ones, another arena, an index beyond the slab: EBADF");
	ok(put(a, page, 0) == -EINVAL && put(a, page, KVC_BATCH_MAX + 1) == -EINVAL &&
		   get(a, page, 0) == -EINVAL && get(a, page, KVC_BATCH_MAX + 1) == -EINVAL &&
		   core_alloc(&c.env, a, 1, page, 1, 0) == -EINVAL &&
		   core_alloc(&c.env, a, 99, page, 1, 0) == -EINVAL &&
		   core_alloc(&c.env, a, 0, page, 1, 2) == -EINVAL,
	   "batches of 0 and 1025, a cache that is not there, an unknown flag: EINVAL");
	core_client_exit(&c.env, a);
	case_pool_close(&c, pool);
	case_close(&c);
}

static void stale(void)
{
	struct kvc_pool *pool;
	struct kvc_client *a, *b;
	u64 mine[6], old, theirs[6];

	case_open(&c, 4);
	pool = case_pool(&c, 0, 4, SIX);
	a = core_client(pool);
	b = core_client(pool);
	get(a, mine, 6);
	get(b, theirs, 6);
	old = mine[0];
	ok(!put(a, mine, 1) && put(a, mine, 1) == -ESTALE, "freed twice: ESTALE");
	ok(get(a, mine, 1) == 1 && mine[0] != old, "the page comes back under another handle");
	ok(put(a, &old, 1) == -ESTALE, "the old handle is stale while the page is private again");
	ok(put(b, &old, 1) == -EBADF && put(b, mine, 1) == -EBADF && kvc_get(b, mine, 1) == -EBADF,
	   "another client learns nothing: EBADF for the old handle as for the new one");
	ok(put(a, theirs, 1) == -EBADF, "a page of another client: EBADF");
	ok(put(a, (u64[]){ mine[0] + 1 }, 1) == -EBADF, "a generation still to come: EBADF");
	ok(private_pages(pool) == 12 && case_holds(&c), "and nothing changed");
	core_client_exit(&c.env, a);
	core_client_exit(&c.env, b);
	case_pool_close(&c, pool);
	case_close(&c);
}

static void epochs(void)
{
	struct kvc_pool *pool;
	struct kvc_client *a;
	u64 page[2], first[8], again;
	u32 i, k, good = 1;

	case_open(&c, 1);
	pool = case_pool(&c, 0, 1, MIB);
	a = core_client(pool);
	for (i = 0; i < 8; i++) {
		get(a, page, 2);
		first[i] = page[0];
		put(a, page, 2);
		/* The spare goes with its client, and the slab with the spare. */
		core_client_exit(&c.env, a);
		a = core_client(pool);
	}
	ok(c.released == 8, "eight slabs were made of one extent");
	get(a, page, 2);
	for (i = 0; i < 8; i++) {
		good &= put(a, &first[i], 1) == -EBADF;
		for (k = 0; k < i; k++)
			good &= first[i] != first[k];
	}
	ok(good, "no handle of an earlier slab is that of a later one");
	again = page[0];
	ok(!put(a, &again, 1), "the last one's are good");
	core_client_exit(&c.env, a);
	case_pool_close(&c, pool);
	case_close(&c);
}

static void whole_batches(void)
{
	struct kvc_pool *pool;
	struct kvc_client *a;
	u64 page[64], twice[3];

	case_open(&c, 4);
	pool = case_pool(&c, 0, 4, SIX);
	a = core_client(pool);
	ok(get(a, page, 20) == 20, "20 of 24 pages");
	ok(get(a, page + 20, 5) == -ENOSPC && private_pages(pool) == 20,
	   "5 more: ENOSPC, and none is kept");
	ok(core_alloc(&c.env, a, 0, page + 20, 5, KVC_PARTIAL) == 4,
	   "PARTIAL gives the 4 that there are");
	ok(core_alloc(&c.env, a, 0, page + 24, 5, KVC_PARTIAL) == -ENOSPC,
	   "PARTIAL without any: ENOSPC");
	memcpy(twice, page, 16);
	twice[2] = page[0];
	ok(put(a, twice, 3) == -EBADF && private_pages(pool) == 24,
	   "a handle twice in a FREE: EBADF, none is freed");
	twice[2] = page[2] + 7;
	ok(put(a, twice, 3) == -EBADF && private_pages(pool) == 24,
	   "a wrong one behind good ones: none is freed");
	ok(!put(a, page, 24) && !private_pages(pool) && case_holds(&c), "24 at once");
	core_client_exit(&c.env, a);
	case_pool_close(&c, pool);
	case_close(&c);
}

static void spares(void)
{
	struct kvc_pool *pool;
	struct kvc_client *a;
	struct kvc_stat stat;
	u64 page[64];
	u32 i;

	case_open(&c, 10);
	pool = case_pool(&c, 0, 10, SIX);
	a = core_client(pool);
	get(a, page, 60);
	put(a, page, 60);
	kvc_stat(pool, &stat);
	ok(stat.slabs == KVC_SPARE_PAGES / 6 + 1 && c.released == 10 - stat.slabs &&
		   stat.held == stat.slabs,
	   "of 10 empty slabs a client keeps %u", KVC_SPARE_PAGES / 6 + 1);
	case_reset(&c);
	for (i = 0; i < 100; i++) {
		get(a, page, 7);
		put(a, page, 7);
	}
	ok(!c.needs && !c.released,
	   "back and forth over a slab's border asks for nothing and releases nothing");
	core_client_exit(&c.env, a);
	case_pool_close(&c, pool);
	case_close(&c);
}

static void take_over(void)
{
	struct kvc_pool *pool;
	struct kvc_client *a, *b;
	struct kvc_stat stat;
	u64 mine[8], theirs[8], more[8];

	case_open(&c, 1);
	pool = case_pool(&c, 0, 1, SIX);
	a = core_client(pool);
	b = core_client(pool);
	get(a, mine, 2);
	case_reset(&c);
	ok(get(b, theirs, 3) == 3, "the only slab is another's: it is taken over");
	ok(c.zapped[KVC_ZAP_TAKE] == 4 && !c.zapped[KVC_ZAP_EVICT],
	   "its four free pages were zapped first");
	ok(private_pages(pool) == 5 && case_holds(&c), "private pages keep their holders");
	case_reset(&c);
	ok(!put(a, mine, 1) && c.zapped[KVC_ZAP_FREE] == 1,
	   "a page freed outside the own slabs is zapped");
	ok(!put(b, theirs, 1) && !c.zapped[KVC_ZAP_TAKE] && c.zapped[KVC_ZAP_FREE] == 1,
	   "in an own slab it is not");
	ok(get(b, theirs, 1) == 1 && get(b, more, 2) == 2,
	   "what came back is the new owner's to allocate");
	ok(get(a, more + 2, 1) == -ENOSPC, "then all is private");
	put(b, more, 2);
	ok(get(a, more + 2, 2) == 2, "and the slab can be taken back");
	kvc_stat(pool, &stat);
	ok(stat.takeovers == 2 && case_holds(&c), "two slabs taken over were counted");
	core_client_exit(&c.env, b);
	core_client_exit(&c.env, a);
	case_pool_close(&c, pool);
	case_close(&c);
}

/* A slab that nobody owns: its free pages may still be mapped by who freed them last. */
static void last_writer(void)
{
	struct kvc_pool *pool;
	struct kvc_client *a, *b;
	u64 page[6], one;

	case_open(&c, 1);
	pool = case_pool(&c, 0, 1, SIX);
	a = core_client(pool);
	b = core_client(pool);
	get(a, page, 6);
	case_seal(&c, a, &page[0], 0, 0);
	put(a, page + 1, 5);
	case_reset(&c);
	ok(get(a, &one, 1) == 1 && !c.zapped[KVC_ZAP_TAKE] && !put(a, &one, 1),
	   "who freed them last has them again as they are");
	ok(get(b, &one, 1) == 1 && c.zapped[KVC_ZAP_TAKE] == 5 && case_holds(&c),
	   "for another client they are zapped");
	core_client_exit(&c.env, a);
	core_client_exit(&c.env, b);
	case_pool_close(&c, pool);
	case_close(&c);
}

/* Two pools only cache; a third wants an extent. */
static void most_beyond_min(void)
{
	struct kvc_pool *p, *q, *r;
	struct kvc_client *client;
	struct kvc_stat stat;
	u64 page[4];
	u32 i, n;

	case_open(&c, 6);
	p = case_pool(&c, 0, 6, KVC_EXTENT_SIZE);
	q = case_pool(&c, 3, 6, KVC_EXTENT_SIZE);
	r = case_pool(&c, 0, 6, KVC_EXTENT_SIZE);
	for (n = 4; n >= 2; n -= 2) {
		client = core_client(n == 4 ? q : r);
		get(client, page, n);
		for (i = 0; i < n; i++)
			case_seal(&c, client, &page[i], 100 * i, 0);
		core_client_exit(&c.env, client);
	}
	client = core_client(p);
	get(client, page, 1);
	kvc_stat(q, &stat);
	ok(stat.slabs == 4,
	   "of pools that only cache, the one that is most beyond its min gives way");
	get(client, page + 1, 1);
	get(client, page + 2, 1);
	kvc_stat(q, &stat);
	ok(stat.slabs == 3 && get(client, page + 3, 1) == -ENOSPC && case_holds(&c),
	   "none gives what it is guaranteed");
	core_client_exit(&c.env, client);
	case_pool_close(&c, p);
	case_pool_close(&c, q);
	case_pool_close(&c, r);
	case_close(&c);
}

static void two_sizes(void)
{
	struct kvc_pool *pool;
	struct kvc_client *a, *b;
	u64 page[16], other[16];
	int id;

	case_open(&c, 2);
	pool = case_pool(&c, 0, 2, SIX);
	ok(kvc_cache_find(pool, SIX) == 0 && kvc_cache_find(pool, MIB) == -ENOENT,
	   "a cache is found by page size");
	id = core_cache(pool, MIB);
	ok(id == 1 && core_cache(pool, MIB) == -EEXIST && core_cache(pool, 5000) == -EINVAL &&
		   core_cache(pool, 2 * KVC_EXTENT_SIZE) == -EINVAL &&
		   core_cache(pool, 0) == -EINVAL,
	   "a second one is made once, of a multiple of the frame, at most an extent");
	a = core_client(pool);
	b = core_client(pool);
	get(a, page, 12);
	ok(core_alloc(&c.env, b, id, other, 1, 0) == -ENOSPC,
	   "all is taken by the other page size");
	put(a, page, 12);
	case_reset(&c);
	ok(core_alloc(&c.env, b, id, other, 4, 0) == 4 && c.released == 2,
	   "empty slabs that another client keeps for another page size are given up");
	ok(get(a, page, 1) == -ENOSPC && case_holds(&c),
	   "and then it is the other one's turn to want");
	core_client_exit(&c.env, a);
	core_client_exit(&c.env, b);
	case_pool_close(&c, pool);
	case_close(&c);
}

static void caches_max(void)
{
	struct kvc_pool *pool;
	u32 i, good = 1;

	case_open(&c, 1);
	pool = core_pool(&c.env, 0, 1, NULL);
	for (i = 1; i <= KVC_CACHES_MAX; i++)
		good &= core_cache(pool, i * KVC_FRAME_SIZE) == (int)i - 1;
	ok(good && core_cache(pool, MIB) == -ENOSPC, "%u page sizes in a pool, not one more",
	   KVC_CACHES_MAX);
	case_pool_close(&c, pool);
	case_close(&c);
}

static void limits(void)
{
	struct kvc_pool *p, *q;
	struct kvc_client *a, *b;
	u64 page[64], other[64];
	int err;

	case_open(&c, 6);
	p = case_pool(&c, 0, 2, SIX);
	a = core_client(p);
	ok(get(a, page, 12) == 12 && get(a, page + 12, 1) == -EDQUOT, "EDQUOT at the pool's max");
	q = case_pool(&c, 1, 6, SIX);
	ok(!core_pool(&c.env, 4, 6, &err) && err == -ENOSPC,
	   "a min that is not there cannot be guaranteed: ENOSPC");
	ok(!core_pool(&c.env, 3, 2, &err) && err == -EINVAL && !core_pool(&c.env, 0, 7, &err) &&
		   err == -EINVAL,
	   "min above max, max above the arena: EINVAL");
	b = core_client(q);
	ok(get(b, other, 24) == 24 && get(b, other + 24, 1) == -ENOSPC,
	   "ENOSPC where the arena is full");
	put(b, other, 24);
	core_client_exit(&c.env, a);
	a = core_client(p);
	ok(core_pool_exit(&c.env, p) == -EBUSY, "a pool with a client does not end: EBUSY");
	ok(kvc_arena_exit(c.env.arena) == -EBUSY, "nor an arena with a pool");
	core_client_exit(&c.env, a);
	core_client_exit(&c.env, b);
	case_pool_close(&c, p);
	case_pool_close(&c, q);
	case_close(&c);
}

/* Another pool fills the rest with what may go, and with what may not. */
static void guaranteed(const char *with, bool seal, bool drop)
{
	struct kvc_pool *p, *q;
	struct kvc_client *a, *b;
	struct kvc_stat stat;
	u64 page[64], other[64];
	int i, n;

	case_open(&c, 6);
	p = case_pool(&c, 2, 6, SIX);
	q = case_pool(&c, 0, 6, SIX);
	a = core_client(p);
	b = core_client(q);
	n = core_alloc(&c.env, b, 0, other, 64, KVC_PARTIAL);
	ok(n == 24, "%s: of 6 extents the other pool holds 4", with);
	for (i = 0; seal && i < n; i++)
		case_seal(&c, b, &other[i], 100 * i, 0);
	if (drop) {
		put(b, other, n);
		/* Cached pages may lie in what is set aside. */
		n = core_alloc(&c.env, b, 0, other, 64, KVC_PARTIAL);
		for (i = 0; i < n; i++)
			case_seal(&c, b, &other[i], 100 * (i + 50), 0);
		put(b, other, n);
		kvc_stat(q, &stat);
		ok(stat.slabs == 6 && !stat.held, "%s: the other pool caches in all 6", with);
	}
	ok(get(a, page, 12) == 12 && case_holds(&c), "%s: the min of 2 is there all the same",
	   with);
	core_client_exit(&c.env, a);
	core_client_exit(&c.env, b);
	case_pool_close(&c, p);
	case_pool_close(&c, q);
	case_close(&c);
}

static void declined(void)
{
	struct kvc_pool *pool;
	struct kvc_client *a, *b;
	struct kvc_stat stat;
	u64 page[16], other[8];
	u32 i;

	case_open(&c, 4);
	pool = case_pool(&c, 0, 4, SIX);
	a = core_client(pool);
	b = core_client(pool);
	c.decline_slabs = true;
	ok(get(a, page, 1) == -ENOMEM, "no memory for the first slab: ENOMEM");
	kvc_stat(pool, &stat);
	ok(!stat.held && stat.arena_free == 4 && case_holds(&c),
	   "what the need had reserved is given back");
	c.decline_slabs = false;
	get(a, page, 6);
	for (i = 0; i < 6; i++)
		case_seal(&c, a, &page[i], 100 * i, 0);
	put(a, page, 6);
	c.decline_slabs = true;
	case_reset(&c);
	ok(get(b, other, 4) == 4 && c.zapped[KVC_ZAP_EVICT] == 4,
	   "with a cache to evict from it does without");
	case_reset(&c);
	ok(get(b, other + 4, 4) == -ENOMEM && !c.nr_evicted && private_pages(pool) == 4,
	   "more than that: ENOMEM, and nothing was evicted for it");
	c.decline_tables = true;
	ok(case_lookup(&c, a, 0, 500, page) == 0, "no memory for a record: LOOKUP finds nothing");
	ok(core_alloc(&c.env, a, 0, page, 1, 0) == -ENOMEM && case_holds(&c),
	   "and ALLOC fails with ENOMEM");
	core_client_exit(&c.env, a);
	core_client_exit(&c.env, b);
	case_pool_close(&c, pool);
	case_close(&c);
}

static void quarantine(void)
{
	struct kvc_pool *pool;
	struct kvc_client *a, *b;
	struct kvc_stat stat;
	u64 page[6], other[6];
	u32 x;

	case_open(&c, 1);
	pool = case_pool(&c, 0, 1, SIX);
	a = core_client(pool);
	b = core_client(pool);
	get(a, page, 1);
	x = kvc_handle_extent(page[0]);
	c.pin[x] = 0x3e; /* all but the page that is private */
	ok(get(b, other, 1) == -ENOSPC,
	   "every free page is still pinned by its last writer: none changes hands");
	kvc_stat(pool, &stat);
	ok(stat.quarantined == 5 && stat.quarantined_bytes == 5 * SIX && case_holds(&c),
	   "they are quarantined");
	c.pin[x] = 0x38;
	ok(core_unquarantine(&c.env, pool) == 2, "two were let go: they come back when asked for");
	ok(get(b, other, 2) == 2, "and can be allocated");
	c.pin[x] = 0;
	ok(get(b, other + 2, 3) == 3, "ALLOC looks itself before it refuses");
	c.pin[x] = 1 << kvc_handle_index(page[0]);
	ok(!put(a, page, 1) && get(a, page, 1) == -ENOSPC,
	   "freed with an I/O under way: quarantined as well");
	core_client_exit(&c.env, a);
	core_client_exit(&c.env, b);
	ok(core_reclaim(&c.env, pool, 1) == 0, "a slab with a quarantined page is held");
	kvc_stat(pool, &stat);
	ok(stat.quarantined == 1 && stat.held == 1, "and stays when all clients are gone");
	case_pool_close(&c, pool);
	ok(c.released == 1, "it goes with the pool");
	case_close(&c);
}

static void death(void)
{
	struct kvc_pool *pool;
	struct kvc_client *a, *b;
	struct kvc_stat stat;
	u64 page[12], other[12];
	u32 i;

	case_open(&c, 4);
	pool = case_pool(&c, 0, 4, SIX);
	a = core_client(pool);
	b = core_client(pool);
	get(a, page, 12);
	for (i = 0; i < 3; i++)
		case_seal(&c, a, &page[i], i, 0);
	case_lookup(&c, b, 0, 1, other);
	get(b, other + 1, 7);
	core_client_exit(&c.env, a);
	kvc_stat(pool, &stat);
	ok(stat.private_pages == 7 && stat.sealed == 1 && stat.cached == 2 && case_holds(&c),
	   "a dead client's private pages are free, its references gone, the others' untouched");
	ok(case_lookup(&c, b, 0, 0, page) == 1 && case_lookup(&c, b, 0, 2, page) == 1,
	   "what it sealed is still found");
	core_client_exit(&c.env, b);
	kvc_stat(pool, &stat);
	ok(!stat.private_pages && !stat.sealed && stat.cached == 3 && !stat.held,
	   "nobody holds anything");
	case_pool_close(&c, pool);
	case_close(&c);
}

static void figures(void)
{
	struct kvc_pool *pool;
	struct kvc_client *a;
	struct kvc_stat stat;
	u64 page[8];

	case_open(&c, 4);
	pool = case_pool(&c, 1, 3, SIX);
	a = core_client(pool);
	get(a, page, 8);
	put(a, page, 1);
	kvc_stat(pool, &stat);
	ok(stat.slabs == 2 && stat.held == 2 && stat.min == 1 && stat.max == 3 &&
		   stat.arena_extents == 4 && stat.arena_free == 2 && stat.clients == 1,
	   "extents");
	ok(stat.free == 5 && stat.private_pages == 7 && stat.free_bytes == 5 * SIX &&
		   stat.tail_bytes == 2 * (KVC_EXTENT_SIZE - 6 * SIX) && stat.allocs == 8 &&
		   stat.frees == 1,
	   "pages, bytes and counts");
	core_client_exit(&c.env, a);
	kvc_stat(pool, &stat);
	ok(stat.allocs == 8 && stat.frees == 8 && !stat.slabs && !stat.tail_bytes,
	   "counts outlive their client");
	case_pool_close(&c, pool);
	case_close(&c);
}

/* Of two slabs without an owner the fuller one serves first. */
static void fullest_first(void)
{
	struct kvc_pool *pool;
	struct kvc_client *a, *b;
	u64 page[12], one;
	u32 i, full = 0;

	case_open(&c, 4);
	pool = case_pool(&c, 0, 4, SIX);
	a = core_client(pool);
	b = core_client(pool);
	get(a, page, 12);
	/* Slab 0 keeps two sealed pages, slab 1 keeps four; then neither has an owner. */
	for (i = 0; i < 12; i++) {
		if (i % 6 >= (i < 6 ? 2 : 4))
			put(a, &page[i], 1);
		else
			case_seal(&c, a, &page[i], 100 * i, 0);
		full = kvc_handle_extent(page[i]);
	}
	ok(get(b, &one, 1) == 1 && kvc_handle_extent(one) == full,
	   "the fullest ownerless slab with room serves first");
	core_client_exit(&c.env, a);
	core_client_exit(&c.env, b);
	case_pool_close(&c, pool);
	case_close(&c);
}

int main(void)
{
	handles();
	stale();
	epochs();
	whole_batches();
	spares();
	fullest_first();
	take_over();
	last_writer();
	most_beyond_min();
	two_sizes();
	caches_max();
	limits();
	guaranteed("private", false, false);
	guaranteed("referenced", true, false);
	guaranteed("cached", true, true);
	declined();
	quarantine();
	death();
	figures();
	return done();
}
