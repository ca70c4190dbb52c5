// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* One case for each rule of the core about events, limits that change, and calls that may not wait.
 */
#include <stdlib.h>

#include "tests/lib/core_case.h"
#include "state.h"
#include "tests/lib/tap.h"

static struct core_case c;
static struct kvc_op op; /* of the last call, for its wakes */

static int get(struct kvc_client *client, u64 *pages, u32 n)
{
	return CORE_RUN(&c.env, &op, kvc_alloc(client, 0, pages, n, 0, &op));
}

static int put(struct kvc_client *client, const u64 *pages, u32 n)
{
	return CORE_RUN(&c.env, &op, kvc_free(client, pages, n, &op));
}

static bool woke(u32 id)
{
	u32 i;

	for (i = 0; i < op.nr_wakes; i++)
		if (op.wake[i] == id)
			return true;
	return false;
}

static struct kvc_pool *pool_with(u32 min, u32 max, u32 low, u32 high, u32 id, u32 page_size)
{
	struct kvc_pool_params params = { min, max, { 1, 2 }, low, high, id, NULL };
	struct kvc_pool *pool;

	if (kvc_pool_init(core_mem(kvc_pool_size()), c.env.arena, &params, &pool) ||
	    core_cache(pool, page_size))
		exit(1);
	return pool;
}

static void one_waiter_at_a_time(void)
{
	struct kvc_client *a, *b, *d;
	struct kvc_pool *pool;
	u64 held[6], one[3];

	case_open(&c, 1);
	pool = pool_with(0, 1, 0, 0, 77, SIX);
	a = core_client(pool);
	b = core_client(pool);
	d = core_client(pool);
	get(a, held, 6);
	ok(!put(a, held, 1) && !op.nr_wakes && get(a, held, 1) == 1,
	   "where nobody waits, nobody is woken");
	ok(get(b, one, 1) == -ENOSPC && get(d, one, 1) == -ENOSPC && !kvc_events(b, false) &&
		   !kvc_events(d, false),
	   "two clients wait; neither has an event");
	ok(!put(a, held, 1) && woke(77) && kvc_events(b, false) == KVC_EVENT_ROOM &&
		   !kvc_events(d, false),
	   "a page becomes free: the first is told, and the pool named to be woken");
	ok(!put(a, held + 1, 1) && !op.nr_wakes && !kvc_events(d, false),
	   "another page: the first has not allocated yet, the second is not told");
	ok(kvc_events(b, true) == KVC_EVENT_ROOM && !kvc_events(b, true), "an event is read once");
	ok(get(b, one, 3) == -ENOSPC && !kvc_events(b, false),
	   "the first wants three and fails: it is told nothing of its own two");
	ok(!put(a, held + 2, 1) && woke(77) && kvc_events(b, true) == KVC_EVENT_ROOM &&
		   get(b, one, 3) == 3 && woke(77) && kvc_events(d, true) == KVC_EVENT_ROOM,
	   "a third page: it is told again, has its three, and the second is told");
	ok(get(d, one, 1) == -ENOSPC && !kvc_events(d, false), "too late: the second waits on");
	core_client_exit(&c.env, b);
	ok(kvc_events(d, true) == KVC_EVENT_ROOM && get(d, one, 1) == 1 && case_holds(&c),
	   "a client that ends makes room");
	core_client_exit(&c.env, d);
	core_client_exit(&c.env, a);
	case_pool_close(&c, pool);
	case_close(&c);
}

/* What ALLOC had when it failed it gives back, and that is no news. */
static void own_pages(void)
{
	struct kvc_client *a, *b;
	struct kvc_pool *pool;
	u64 held[6], mine[6];

	case_open(&c, 2);
	pool = pool_with(0, 2, 0, 0, 9, SIX);
	a = core_client(pool);
	b = core_client(pool);
	get(a, held, 6);
	get(b, mine, 6);
	put(b, mine, 2);
	ok(get(b, mine, 3) == -ENOSPC && !op.nr_wakes && !kvc_events(b, false),
	   "three are wanted, two are there: the two are no event for who failed");
	ok(!put(a, held, 1) && woke(9) && kvc_events(b, true) == KVC_EVENT_ROOM &&
		   get(b, mine, 3) == 3 && case_holds(&c),
	   "a third one, of another's, is");
	core_client_exit(&c.env, a);
	core_client_exit(&c.env, b);
	case_pool_close(&c, pool);
	case_close(&c);
}

static void waiter_ends(void)
{
	struct kvc_client *a, *b, *d;
	struct kvc_pool *pool;
	u64 held[6], one;

	case_open(&c, 1);
	pool = pool_with(0, 1, 0, 0, 3, SIX);
	a = core_client(pool);
	b = core_client(pool);
	d = core_client(pool);
	get(a, held, 6);
	get(b, &one, 1);
	get(d, &one, 1);
	put(a, held, 1);
	CORE_RUN(&c.env, &op, kvc_client_exit(b, &op));
	free(b);
	ok(woke(3) && kvc_events(d, true) == KVC_EVENT_ROOM && get(d, &one, 1) == 1 &&
		   case_holds(&c),
	   "who was told ends without having allocated: the next is told");
	ok(get(d, &one, 1) == -ENOSPC && case_holds(&c), "it waits again");
	core_client_exit(&c.env, d);
	ok(!put(a, held + 1, 1) && !op.nr_wakes && case_holds(&c), "and nobody is left to be told");
	core_client_exit(&c.env, a);
	case_pool_close(&c, pool);
	case_close(&c);
}

static void other_pools(void)
{
	struct kvc_client *a, *b;
	struct kvc_pool *p, *q;
	u64 held[4], one;

	case_open(&c, 2);
	p = pool_with(0, 2, 0, 0, 10, MIB);
	q = pool_with(0, 2, 0, 0, 11, MIB);
	a = core_client(p);
	b = core_client(q);
	get(a, held, 4);
	ok(get(b, &one, 1) == -ENOSPC, "another pool holds all extents");
	ok(!put(a, held, 1) && !op.nr_wakes && !kvc_events(b, false),
	   "a page there is of no use to this one");
	case_seal(&c, a, &held[2], 0, 0);
	case_seal(&c, a, &held[3], 100, 0);
	ok(!put(a, held + 2, 2) && woke(11) && kvc_events(b, true) == KVC_EVENT_ROOM &&
		   get(b, &one, 1) == 1,
	   "an extent that nobody holds any more is: ROOM across pools");
	ok(get(a, held + 2, 2) == -ENOSPC, "now the first pool waits");
	core_client_exit(&c.env, b);
	ok(kvc_events(a, true) == KVC_EVENT_ROOM && case_holds(&c), "until the other's client ends");
	core_client_exit(&c.env, a);
	case_pool_close(&c, p);
	case_pool_close(&c, q);
	case_close(&c);
}

static void watermarks(void)
{
	struct kvc_client *a, *b;
	struct kvc_pool *pool;
	struct kvc_stat stat;
	u64 held[5];

	case_open(&c, 5);
	pool = pool_with(0, 5, 1, 3, 5, KVC_EXTENT_SIZE);
	a = core_client(pool);
	b = core_client(pool);
	b->share[0].spares_max = a->share[0].spares_max = 0;
	ok(get(a, held, 3) == 3 && !op.nr_wakes && !kvc_events(b, false), "at the high mark: nothing");
	ok(get(a, held + 3, 1) == 1 && woke(5) && kvc_events(a, true) == KVC_EVENT_PRESSURE &&
		   kvc_events(b, true) == KVC_EVENT_PRESSURE,
	   "above it: PRESSURE for every client");
	kvc_stat(pool, &stat);
	ok(stat.pressure && stat.rises == 1 && stat.low == 1 && stat.high == 3, "and counted");
	ok(get(a, held + 4, 1) == 1 && !op.nr_wakes && !put(a, held + 2, 3) && !op.nr_wakes,
	   "between the marks: nothing");
	ok(!put(a, held + 1, 1) && woke(5) && kvc_events(b, false) == KVC_EVENT_RELIEF,
	   "at the low mark: RELIEF");
	ok(get(a, held + 1, 3) == 3 && kvc_events(b, false) == KVC_EVENT_PRESSURE,
	   "of the two only the later one stands");
	kvc_stat(pool, &stat);
	ok(stat.rises == 2 && case_holds(&c), "two rises");
	core_client_exit(&c.env, a);
	ok(kvc_events(b, true) == KVC_EVENT_RELIEF, "a client's end relieves");
	core_client_exit(&c.env, b);
	case_pool_close(&c, pool);
	case_close(&c);
}

static int set(struct kvc_pool *pool, u32 min, u32 max, u32 low, u32 high)
{
	struct kvc_pool_params params = { .min = min, .max = max, .low = low, .high = high };

	kvc_op_init(&op);
	return kvc_pool_set(pool, &params, &op);
}

static void limits_change(void)
{
	struct kvc_client *a;
	struct kvc_pool *p, *q;
	struct kvc_stat stat;
	u64 held[8];

	case_open(&c, 8);
	p = pool_with(1, 4, 0, 0, 1, KVC_EXTENT_SIZE);
	q = pool_with(2, 8, 0, 0, 2, KVC_EXTENT_SIZE);
	a = core_client(p);
	a->share[0].spares_max = 0;
	get(a, held, 4);
	ok(set(p, 0, 3, 0, 0) == -EBUSY && set(p, 5, 4, 0, 0) == -EINVAL &&
		   set(p, 0, 9, 0, 0) == -EINVAL && set(p, 0, 0, 0, 0) == -EINVAL &&
		   set(p, 0, 4, 3, 2) == -EINVAL && set(p, 7, 8, 0, 0) == -ENOSPC,
	   "max below what is held, min above max, max beyond the arena, no max, low above high, more than is left");
	kvc_stat(p, &stat);
	ok(stat.min == 1 && stat.max == 4, "none of these changed anything");
	ok(get(a, held + 4, 1) == -EDQUOT && !set(p, 1, 5, 2, 4) && woke(1) &&
		   kvc_events(a, true) == KVC_EVENT_ROOM,
	   "who waits at max is told when max rises");
	ok(get(a, held + 4, 1) == 1 && kvc_events(a, true) == KVC_EVENT_PRESSURE, "and has a page");
	ok(!set(p, 6, 6, 5, 6) && woke(1) && kvc_events(a, true) == KVC_EVENT_RELIEF,
	   "marks that move relieve; six are guaranteed");
	ok(set(q, 3, 8, 0, 0) == -ENOSPC && !set(p, 0, 6, 5, 6) && !set(q, 3, 8, 0, 0),
	   "another pool's min has to wait for them");
	ok(!put(a, held, 5) && !set(p, 0, 1, 0, 1) && get(a, held, 2) == -EDQUOT && case_holds(&c),
	   "a smaller max");
	core_client_exit(&c.env, a);
	case_pool_close(&c, p);
	case_pool_close(&c, q);
	case_close(&c);
}

#define NOWAIT(call)               \
	({                         \
		kvc_op_init_nowait(&op); \
		(call);            \
	})

static void may_not_wait(void)
{
	const u8(*hashes)[KVC_HASH_SIZE];
	struct kvc_client *a, *b;
	struct kvc_pool *pool;
	u8 hash[2][KVC_HASH_SIZE];
	u64 page[8], found[2];

	case_open(&c, 2);
	pool = pool_with(0, 2, 0, 0, 1, SIX);
	a = core_client(pool);
	b = core_client(pool);
	ok(NOWAIT(kvc_alloc(a, 0, page, 1, 0, &op)) == -EAGAIN && get(a, page, 2) == 2 &&
		   NOWAIT(kvc_alloc(a, 0, page + 2, 4, 0, &op)) == 4 &&
		   NOWAIT(kvc_alloc(a, 0, page + 6, 1, 0, &op)) == -EAGAIN &&
		   NOWAIT(kvc_alloc(a, 7, page + 6, 1, 0, &op)) == -EINVAL,
	   "ALLOC: from the own slabs or not at all");
	ok(NOWAIT(kvc_free(a, page + 4, 2, &op)) == 0 && get(b, page + 4, 2) == 2 &&
		   NOWAIT(kvc_free(a, page, 1, &op)) == 0,
	   "FREE into an own slab");
	get(b, page + 6, 2);
	case_seal(&c, b, &page[4], 0, 0);
	case_seal(&c, b, &page[5], 1, 0);
	core_hash(hash[0], 0);
	core_hash(hash[1], 1);
	hashes = (const u8(*)[KVC_HASH_SIZE])hash;
	ok(NOWAIT(kvc_lookup(a, 0, hashes, 2, found, &op)) == -EAGAIN &&
		   core_lookup(&c.env, a, 0, hashes, 1, found) == 1 &&
		   NOWAIT(kvc_lookup(a, 0, hashes, 2, found, &op)) == 2 && found[1] == page[5],
	   "LOOKUP: not where a record is wanted first");
	ok(NOWAIT(kvc_free(a, found, 2, &op)) == 0, "FREE of references");
	core_client_exit(&c.env, a);
	core_client_exit(&c.env, b);
	case_pool_close(&c, pool);
	case_close(&c);

	case_open(&c, 24);
	pool = pool_with(0, 24, 0, 0, 1, KVC_EXTENT_SIZE);
	a = core_client(pool);
	b = core_client(pool);
	{
		u64 many[20];

		get(a, many, 20);
		ok(NOWAIT(kvc_free(a, many, 20, &op)) == -EAGAIN &&
			   NOWAIT(kvc_free(a, many, KVC_SPARE_PAGES + 1, &op)) == 0 &&
			   NOWAIT(kvc_free(a, many + KVC_SPARE_PAGES + 1, 1, &op)) == -EAGAIN &&
			   !put(a, many + KVC_SPARE_PAGES + 1, 3) && case_holds(&c),
		   "FREE: not where a slab would go");
	}
	core_client_exit(&c.env, a);
	core_client_exit(&c.env, b);
	case_pool_close(&c, pool);
	case_close(&c);
}

int main(void)
{
	one_waiter_at_a_time();
	own_pages();
	waiter_ends();
	other_pools();
	watermarks();
	limits_change();
	may_not_wait();
	return done();
}
