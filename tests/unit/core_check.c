// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* The debug walk itself: each kind of damage must be found, or the walk after every call proves
 * nothing. */
#include <stdlib.h>

#include "tests/lib/core_case.h"
#include "tests/lib/tap.h"
#include "state.h"

static struct core_case c;

/* The walk says so, and no more once it is mended. */
static void found(const char *what, bool mended)
{
	static bool broken;
	char why[200] = "";

	if (!mended) {
		broken = kvc_check(c.env.arena, why, sizeof(why)) == -EUCLEAN && why[0];
		printf("# %s: %s\n", what, why);
		return;
	}
	ok(broken && !kvc_check(c.env.arena, why, sizeof(why)), "%s is found", what);
}

#define DAMAGE(what, lvalue, wrong)       \
	do {                              \
		__typeof__(lvalue) right; \
                                          \
		right = (lvalue);         \
		(lvalue) = (wrong);       \
		found(what, false);       \
		(lvalue) = right;         \
		found(what, true);        \
	} while (0)

int main(void)
{
	struct kvc_arena *arena;
	struct kvc_pool *pool;
	struct kvc_client *a, *b;
	struct kvc_slab *own, *cached;
	struct kvc_record *record;
	struct kvc_entry *entry;
	struct kvc_list *list;
	u64 page[12];
	u32 i, x;

	case_open(&c, 4);
	arena = c.env.arena;
	pool = case_pool(&c, 1, 3, SIX);
	a = core_client(pool);
	b = core_client(pool);
	/* A slab of b's with a sealed page, four private, one free; one with three cached and three
	 * free, nobody's. */
	core_alloc(&c.env, b, 0, page + 3, 6, 0);
	case_seal(&c, b, &page[3], 1000, 0);
	core_free(&c.env, b, &page[8], 1);
	core_alloc(&c.env, a, 0, page, 3, 0);
	for (i = 0; i < 3; i++)
		case_seal(&c, a, &page[i], 100 * i, 0);
	core_free(&c.env, a, page, 3);
	cached = arena->extent[kvc_handle_extent(page[0])].slab;
	x = kvc_handle_extent(page[3]);
	own = arena->extent[x].slab;
	record = own->owner;
	entry = &own->entry[kvc_handle_index(page[3])];
	ok(own && record && own != cached && own->nr_free && !cached->owner == !cached->holds &&
		   case_holds(&c),
	   "a pool of two slabs, undamaged");

	DAMAGE("a free extent too many", arena->nr_free, arena->nr_free + 1);
	DAMAGE("a lost free list", arena->free, KVC_NONE);
	DAMAGE("an extent in the wrong state", arena->extent[x].state, KVC_EXTENT_FREE);
	DAMAGE("a backing extent too many", arena->nr_backing, 1);
	DAMAGE("a committed extent too few", arena->committed, arena->committed - 1);
	DAMAGE("a held extent too many", pool->held, pool->held + 1);
	DAMAGE("a slab too few", pool->slabs, pool->slabs - 1);
	DAMAGE("a pool beyond its max", pool->max, 0);
	DAMAGE("a moving page too many", pool->nr_moving, 1);
	DAMAGE("a quarantined page too many", pool->nr_quarantined, 1);
	DAMAGE("an index entry too few", pool->index.nr, pool->index.nr - 1);
	DAMAGE("a wrong bit of idle slabs", pool->idles[0], pool->idles[0] ^ 1ull << 9);
	DAMAGE("a slab of a cache too many", pool->cache[0]->nr_slabs, 9);
	DAMAGE("an idle slab too many", pool->cache[0]->nr_idle, 9);
	DAMAGE("a cached page too few", pool->cache[0]->nr_cached, 9);
	DAMAGE("a free page in bins too many", pool->cache[0]->nr_free, 9);
	DAMAGE("a wrong bit of bins", pool->cache[0]->bins[0], pool->cache[0]->bins[0] ^ 1ull << 6);
	DAMAGE("a reason to be held too many", own->holds, own->holds + 1);
	DAMAGE("a free page in a slab too few", own->nr_free, own->nr_free - 1);
	DAMAGE("a private page in a ring", own->page[own->head].ring, kvc_handle_index(page[4]));
	DAMAGE("a sealed page of a slab too many", own->nr_indexed, own->nr_indexed + 1);
	DAMAGE("a referenced page too many", own->nr_ref, own->nr_ref + 1);
	DAMAGE("a quarantined page of a slab too many", own->nr_quarantined, 1);
	DAMAGE("a private page that is free", own->page[kvc_handle_index(page[4])].state, KVC_FREE);
	DAMAGE("a page in no state", own->page[kvc_handle_index(page[4])].state, KVC_STATES);
	DAMAGE("a sealed page that is private", own->page[entry->index].state, KVC_PRIVATE);
	DAMAGE("a reference too many", entry->refs, entry->refs + 1);
	DAMAGE("a hash that is another's", entry->hash[5], entry->hash[5] ^ 1);
	DAMAGE("a slab without its owner", own->owner, NULL);
	DAMAGE("an owner who does not know", record->owner, false);
	DAMAGE("a private page that its record does not count", record->nr_private, 0);
	DAMAGE("a private page that nobody holds", record->refs[kvc_handle_index(page[4])], 0);
	DAMAGE("a record that is not in the map", b->map[x], NULL);
	DAMAGE("a private page of a client too many", b->share[0].nr_private, 99);
	DAMAGE("a free page of a client too few", b->share[0].nr_free, 0);
	DAMAGE("a spare too many", b->share[0].nr_spares, 1);
	DAMAGE("an own slab too few", b->share[0].nr_own, 0);
	DAMAGE("a reference of a client too many", b->share[0].nr_refs, 2);
	DAMAGE("an owner's id that is another's", own->owner_id, own->owner_id + 1);
	DAMAGE("a moving page of a cache too many", pool->cache[0]->nr_moving, 1);
	DAMAGE("an index entry of a cache too few", pool->cache[0]->nr_indexed, 1);
	DAMAGE("a page that is being sealed by nobody", own->page[kvc_handle_index(page[4])].state,
	       KVC_SEALING);
	DAMAGE("a slab that is not pinned", pool->cache[0]->pinned, true);
	DAMAGE("a client that waits nowhere", a->waits, true);
	DAMAGE("a waiter to be told who is none", pool->untold, true);
	DAMAGE("a pool untold too many", arena->untold, 1);
	DAMAGE("pressure that nobody is told of", pool->pressure, true);
	list = pool->cache[0]->evict[0].next;
	entry = container_of(list, struct kvc_entry, node);
	DAMAGE("a page out of the order of eviction", entry->stamp, entry->stamp + 1000);
	DAMAGE("a page in another class's list", entry->class, 3);
	DAMAGE("a quarantined page in no list", cached->page[5].state, KVC_QUARANTINED);
	DAMAGE("a slab on its way that is not", cached->nr_indexed, 0);
	DAMAGE("a slab reserved that is not", pool->backing, 1);
	core_client_exit(&c.env, a);
	core_client_exit(&c.env, b);
	case_pool_close(&c, pool);
	case_close(&c);
	return done();
}
