// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* What may happen between the halves of a call, and what a call does when it cannot go on. */
#include <stdlib.h>

#include "tests/lib/core_case.h"
#include "tests/lib/tap.h"
#include "state.h"

static struct core_case c;

static int get(struct kvc_client *client, u64 *pages, u32 n)
{
	return core_alloc(&c.env, client, 0, pages, n, 0);
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

/* A page an extent, pool and spares at their limit: what is empty yields to what is cached. */
static void spares_yield(void)
{
	struct kvc_pool *pool, *q;
	struct kvc_client *a, *b, *d;
	u64 page[4], other[4], found;

	case_open(&c, 4);
	pool = case_pool(&c, 0, 2, KVC_EXTENT_SIZE);
	q = case_pool(&c, 0, 4, KVC_EXTENT_SIZE);
	a = core_client(pool);
	b = core_client(pool);
	d = core_client(q);
	get(a, page, 2);
	case_seal(&c, a, &page[0], 0, 0);
	put(a, &page[0], 1);
	get(a, &page[0], 1);
	put(a, &page[0], 1);
	ok(now(pool).held == 2 && now(pool).cached == 1,
	   "a pool at its max, one extent of it a spare");
	case_reset(&c);
	ok(case_lookup(&c, b, 0, 0, &found) == 1 && c.released == 1 && now(pool).sealed == 1 &&
		   case_holds(&c),
	   "LOOKUP has the spare dissolved and holds the cached page");
	ok(get(b, &page[2], 1) == -EDQUOT, "then the pool is full");
	put(b, &found, 1);
	ok(get(d, other, 2) == 2 && get(b, &page[2], 1) == 1 && !put(b, &page[2], 1) &&
		   now(pool).held == 2,
	   "a spare again, in a full arena");
	ok(now(pool).cached == 0 || get(d, other + 2, 1) == 1,
	   "another pool may evict what is cached");
	ok(get(d, other + 3, 1) == 1 && case_holds(&c), "and take the spare");
	core_client_exit(&c.env, a);
	core_client_exit(&c.env, b);
	core_client_exit(&c.env, d);
	case_pool_close(&c, pool);
	case_pool_close(&c, q);
	case_close(&c);
}

/* Two duplicates of cached pages, and room to hold one of them. */
static void duplicates_at_limit(void)
{
	struct kvc_seal seals[2] = { 0 };
	struct kvc_pool *pool;
	struct kvc_client *a;
	u64 page[4], found;
	u32 i;

	case_open(&c, 6);
	pool = case_pool(&c, 0, 3, KVC_EXTENT_SIZE);
	a = core_client(pool);
	get(a, page, 2);
	for (i = 0; i < 2; i++)
		case_seal(&c, a, &page[i], 100 * i, 0);
	put(a, page, 2);
	get(a, page, 3);
	put(a, page + 2, 1); /* a spare */
	for (i = 0; i < 2; i++) {
		seals[i].page = page[i];
		seals[i].flags = KVC_SEAL_ROOT;
		core_hash(seals[i].hash, 100 * i);
	}
	case_reset(&c);
	ok(core_seal(&c.env, a, seals, 2) == -EDQUOT && c.released == 1,
	   "the second may not be held, without the spare");
	ok(now(pool).private_pages == 2 && now(pool).cached == 2 && !now(pool).moving &&
		   seals[0].page == page[0] && case_holds(&c),
	   "so the first is given back, and both pages are private again");
	ok(!core_seal(&c.env, a, seals, 1) && now(pool).sealed == 1 && case_holds(&c),
	   "alone it would do");
	ok(case_lookup(&c, a, 0, 100, &found) == 1 && !core_seal(&c.env, a, seals + 1, 1) &&
		   found == seals[1].page && case_holds(&c),
	   "a duplicate of a page that is held needs no more");
	core_client_exit(&c.env, a);
	case_pool_close(&c, pool);
	case_close(&c);
}

/* Of what ALLOC got in another's slab, and cannot keep. */
static void undone(void)
{
	struct kvc_pool *pool;
	struct kvc_client *a, *b;
	u64 page[6], more[2];
	u32 i;

	case_open(&c, 1);
	pool = case_pool(&c, 0, 1, SIX);
	a = core_client(pool);
	b = core_client(pool);
	get(b, page, 6);
	for (i = 0; i < 2; i++) {
		case_seal(&c, b, &page[i], 100 * i, 0);
		put(b, &page[i], 1);
	}
	c.pin[0] = 1ull << kvc_handle_index(page[1]);
	case_reset(&c);
	ok(get(a, more, 2) == -ENOSPC && c.zapped[KVC_ZAP_EVICT] == 2 &&
		   c.zapped[KVC_ZAP_FREE] == 1,
	   "two cached pages, one pinned: the other goes back, zapped");
	ok(now(pool).private_pages == 4 && now(pool).free == 1 && now(pool).quarantined == 1 &&
		   case_holds(&c),
	   "free for its slab's owner");
	ok(get(b, more, 1) == 1, "which can have it");
	core_client_exit(&c.env, a);
	core_client_exit(&c.env, b);
	case_pool_close(&c, pool);
	case_close(&c);
}

/* A thread of the client guesses what another's ALLOC has so far, and frees it. */
static void guessed(void)
{
	struct kvc_pool *pool;
	struct kvc_client *a;
	struct kvc_op op;
	u64 page[6], got[2];
	int r;

	case_open(&c, 2);
	pool = case_pool(&c, 0, 2, SIX);
	a = core_client(pool);
	get(a, page, 5);
	kvc_op_init(&op);
	ok(kvc_alloc(a, 0, got, 2, 0, &op) == KVC_MORE && op.nr_needs == 1 &&
		   op.need[0].kind == KVC_NEED_SLAB,
	   "one page is had, for another an extent is asked");
	ok(!put(a, got, 1) && get(a, page + 5, 1) == 1,
	   "the first is freed meanwhile, and had again");
	c.decline_slabs = true;
	do
		core_serve(&c.env, &op);
	while ((r = kvc_alloc(a, 0, got, 2, 0, &op)) == KVC_MORE);
	core_tables(&op);
	ok(r == -ENOMEM && now(pool).private_pages == 6 && case_holds(&c),
	   "ALLOC fails and frees it no second time");
	put(a, page + 5, 1);
	kvc_op_init(&op);
	c.decline_slabs = false;
	ok(kvc_alloc(a, 0, got, 2, 0, &op) == KVC_MORE, "the same again");
	op.need[0].mem[0] = core_mem(op.need[0].size[0]); /* half of it */
	while ((r = kvc_alloc(a, 0, got, 2, 0, &op)) == KVC_MORE)
		core_serve(&c.env, &op);
	core_tables(&op);
	ok(r == -ENOMEM && now(pool).slabs == 1 && now(pool).arena_free == 1 && case_holds(&c),
	   "half of what a need asks for is none");
	core_client_exit(&c.env, a);
	case_pool_close(&c, pool);
	case_close(&c);
}

/* A pool ends while another takes a slab that it only cached in. */
static void busy_pool(void)
{
	struct kvc_pool *p, *q;
	struct kvc_client *a, *b, *late;
	struct kvc_op op;
	u64 page[2], got[1];
	void *mem;
	int r;

	case_open(&c, 1);
	p = case_pool(&c, 0, 1, SIX);
	q = case_pool(&c, 0, 1, SIX);
	a = core_client(p);
	b = core_client(q);
	get(a, page, 1);
	case_seal(&c, a, page, 0, 0);
	core_client_exit(&c.env, a);
	kvc_op_init(&op);
	ok(kvc_alloc(b, 0, got, 1, 0, &op) == KVC_MORE && op.nr_releases == 1 &&
		   op.release[0].pool == p,
	   "the other pool's slab is to be released");
	ok(core_pool_exit(&c.env, p) == -EBUSY && case_holds(&c),
	   "until then its pool cannot end: EBUSY");
	mem = core_mem(kvc_client_size(p));
	ok(kvc_client_init(mem, p, &late) == -EINVAL, "but takes no client any more: EINVAL");
	free(mem);
	do
		core_serve(&c.env, &op);
	while ((r = kvc_alloc(b, 0, got, 1, 0, &op)) == KVC_MORE);
	core_tables(&op);
	ok(r == 1 && now(q).slabs == 1 && case_holds(&c), "the page is had");
	case_pool_close(&c, p);
	ok(1, "and the pool ends");
	core_client_exit(&c.env, b);
	case_pool_close(&c, q);
	case_close(&c);
}

/* Two calls want a bigger index at once; and a pool ends while the index grows. */
static void index_grows(void)
{
	struct kvc_seal seal = { .flags = KVC_SEAL_ROOT };
	struct kvc_pool *pool;
	struct kvc_client *a;
	struct kvc_op op;
	u64 page[512];
	u32 i = 0;
	int r = 0;

	case_open(&c, 1);
	pool = case_pool(&c, 0, 1, 4096);
	a = core_client(pool);
	get(a, page, 512);
	kvc_op_init(&op);
	for (; i < 500; i++) {
		seal.page = page[i];
		core_hash(seal.hash, i);
		kvc_op_init(&op);
		while ((r = kvc_seal(a, &seal, 1, &op)) == KVC_MORE && !op.nr_needs)
			core_serve(&c.env, &op);
		if (r)
			break;
		core_tables(&op);
	}
	ok(r == KVC_MORE && i == 2 * KVC_BUCKETS &&
		   op.need[0].size[0] == 4 * KVC_BUCKETS * sizeof(void *),
	   "after %u entries a bigger index is asked for", 2 * KVC_BUCKETS);
	ok(!case_seal(&c, a, &page[511], 999900, 0) && pool->index.mask == 4 * KVC_BUCKETS - 1,
	   "another call asks too, and is first");
	while (r == KVC_MORE) {
		core_serve(&c.env, &op);
		r = kvc_seal(a, &seal, 1, &op);
	}
	core_tables(&op);
	ok(!r && pool->index.mask == 4 * KVC_BUCKETS - 1 && case_holds(&c),
	   "what came second is given back");
	for (i++; pool->index.mask < 16 * KVC_BUCKETS - 1 && i < 511; i++)
		case_seal(&c, a, &page[i], 100 * i, 0);
	c.decline_tables = true;
	for (; !pool->index.old && i < 511; i++) {
		c.decline_tables = false;
		case_seal(&c, a, &page[i], 100 * i, 0);
	}
	core_client_exit(&c.env, a);
	ok(case_holds(&c), "clients come and go while it grows");
	case_pool_close(&c, pool);
	case_close(&c);
}

/* A cache that is made while there are clients, and what is said of it. */
static void late_cache(void)
{
	struct kvc_pool *pool;
	struct kvc_client *a;
	u64 page[2];
	u32 size = 0;

	case_open(&c, 2);
	pool = core_pool(&c.env, 0, 2, NULL);
	a = core_client(pool);
	ok(get(a, page, 1) == -EINVAL && kvc_cache_pages(pool, 0, &size) == -EINVAL,
	   "no cache yet: EINVAL");
	ok(core_cache(pool, SIX) == 0 && get(a, page, 2) == 2,
	   "a client can use a cache that is made after it");
	ok(kvc_cache_pages(pool, 0, &size) == 6 && size == SIX &&
		   kvc_cache_pages(pool, 99, NULL) == -EINVAL,
	   "pages a slab and bytes a page");
	core_client_exit(&c.env, a);
	ok(kvc_cache_add(pool, NULL, 5) == -EINVAL, "no cache of 5 bytes: EINVAL");
	case_pool_close(&c, pool);
	case_close(&c);
}

/* A page is in no pair of hands while it moves. */
static void moving(void)
{
	struct kvc_seal seal = { .flags = KVC_SEAL_ROOT };
	struct kvc_where where;
	struct kvc_pool *pool;
	struct kvc_client *a;
	struct kvc_op op;
	u64 page[1], more[5];

	case_open(&c, 1);
	pool = case_pool(&c, 0, 1, SIX);
	a = core_client(pool);
	get(a, page, 1);
	seal.page = page[0];
	kvc_op_init(&op);
	ok(kvc_seal(a, &seal, 1, &op) == KVC_MORE, "a SEAL has begun");
	ok(kvc_where(a, page[0], &where) == -EBADF && put(a, page, 1) == -EBADF &&
		   kvc_get(a, page, 1) == -EBADF &&
		   core_seal(&c.env, a,
			     &(struct kvc_seal){ .page = page[0], .flags = KVC_SEAL_ROOT },
			     1) == -EBADF,
	   "its page can be neither seen nor freed nor sealed again");
	ok(get(a, more, 5) == 5 && get(a, more, 1) == -ENOSPC && now(pool).moving == 1 &&
		   case_holds(&c),
	   "the rest of the slab can be used");
	do
		core_serve(&c.env, &op);
	while (kvc_seal(a, &seal, 1, &op) == KVC_MORE);
	core_tables(&op);
	ok(!kvc_where(a, page[0], &where) && !where.writable && case_holds(&c),
	   "then it is sealed");
	core_client_exit(&c.env, a);
	case_pool_close(&c, pool);
	case_close(&c);
}

int main(void)
{
	spares_yield();
	duplicates_at_limit();
	undone();
	guessed();
	busy_pool();
	index_grows();
	late_cache();
	moving();
	return done();
}
