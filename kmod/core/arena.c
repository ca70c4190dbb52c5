// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Extents and quotas: who holds how many, which are free, and which slab may be taken from a pool
 * that only caches in it. Everything here is under the arena's lock, the innermost.
 *
 * A pool's held extents count against its max. The arena's committed extents, the sum over the
 * pools of max(held, min), never exceed what there is; so a pool can always hold its min, and
 * whoever passes the check finds an extent that is free or that nobody holds.
 */
#include "state.h"

size_t kvc_arena_size(u32 extents)
{
	return sizeof(struct kvc_arena) + extents * sizeof(struct kvc_extent);
}

static struct kvc_arena *arena_init(void *mem, u32 id, u32 extents, u32 epoch, bool device)
{
	struct kvc_arena *arena = mem;
	u32 i;

	kvc_lock_init(&arena->pools);
	kvc_lock_init(&arena->lock);
	kvc_list_init(&arena->list);
	arena->id = id;
	arena->nr = extents;
	arena->epoch = epoch;
	arena->device = device;
	arena->had = false;
	arena->nr_free = extents;
	arena->nr_backing = 0;
	arena->committed = 0;
	arena->attention = arena->untold = 0;
	arena->freed = 0;
	for (i = 0; i < extents; i++) {
		arena->extent[i].slab = NULL;
		arena->extent[i].epoch = epoch;
		arena->extent[i].state = KVC_EXTENT_FREE;
		arena->extent[i].next = i + 1 < extents ? i + 1 : KVC_NONE;
	}
	arena->free = 0;
	return arena;
}

struct kvc_arena *kvc_arena_init(void *mem, u32 id, u32 extents)
{
	return arena_init(mem, id, extents, 1, false);
}

struct kvc_arena *kvc_arena_init_device(void *mem, u32 id, u32 extents, u32 epoch)
{
	return arena_init(mem, id, extents, epoch ? epoch : 1, true);
}

u32 kvc_arena_epoch(struct kvc_arena *arena)
{
	u32 i, used, most = 0;

	kvc_lock_take(&arena->lock);
	for (i = 0; i < arena->nr; i++) {
		used = (arena->extent[i].epoch - arena->epoch) & KVC_GENERATION_MASK;
		if (used > most)
			most = used;
	}
	kvc_lock_drop(&arena->lock);
	most = (arena->epoch + most) & KVC_GENERATION_MASK;
	return most ? most : 1;
}

int kvc_arena_exit(struct kvc_arena *arena)
{
	int r;

	kvc_lock_take(&arena->pools);
	r = kvc_list_empty(&arena->list) ? 0 : -EBUSY;
	kvc_lock_drop(&arena->pools);
	return r;
}

/* [6] held. What a waiter may have now. */
void kvc_freed(struct kvc_arena *arena)
{
	arena->freed++;
	if (arena->untold)
		kvc_write(arena->attention, 1);
}

void kvc_spare_freed(struct kvc_arena *arena)
{
	kvc_lock_take(&arena->lock);
	kvc_freed(arena);
	kvc_lock_drop(&arena->lock);
}

/* [6] held. The pool holds more or less than before, or its watermarks moved. */
void kvc_held_changed(struct kvc_pool *pool)
{
	bool on = pool->high && pool->held > (pool->pressure ? pool->low : pool->high);

	if (on != pool->pressure) {
		pool->pressure = on;
		pool->rises += on;
		kvc_write(pool->arena->attention, 1);
		kvc_hook_pressure(pool->id, on, pool->held, pool->max);
	}
	kvc_hook_held(pool->data, pool->held, pool->min, pool->max, pool->low, pool->high,
		      pool->pressure, pool->rises);
}

/* Change what a pool may hold, and is guaranteed. */
int kvc_limit(struct kvc_pool *pool, u32 min, u32 max)
{
	struct kvc_arena *arena = pool->arena;
	u32 before, after;
	int r = 0;

	kvc_lock_take(&arena->lock);
	before = pool->held > pool->min ? pool->held : pool->min;
	after = pool->held > min ? pool->held : min;
	if (pool->held > max) {
		r = -EBUSY;
	} else if (after > before && after - before > arena->nr - arena->committed) {
		r = -ENOSPC;
	} else {
		arena->committed += after - before;
		pool->min = min;
		pool->max = max;
		kvc_freed(arena);
	}
	kvc_lock_drop(&arena->lock);
	return r;
}

static int hold(struct kvc_pool *pool)
{
	struct kvc_arena *arena = pool->arena;

	if (pool->held >= pool->max)
		return -EDQUOT;
	if (pool->held >= pool->min) {
		if (arena->committed >= arena->nr)
			return -ENOSPC;
		arena->committed++;
	}
	pool->held++;
	kvc_held_changed(pool);
	return 0;
}

static void unhold(struct kvc_pool *pool)
{
	if (pool->held-- > pool->min)
		pool->arena->committed--;
	kvc_freed(pool->arena);
	kvc_held_changed(pool);
}

static void idle_add(struct kvc_slab *slab)
{
	struct kvc_pool *pool = slab->pool;

	kvc_list_add_tail(&slab->idle, &pool->idle[slab->nr_indexed]);
	pool->idles[slab->nr_indexed / 64] |= 1ull << (slab->nr_indexed % 64);
	slab->cache->nr_idle++;
	kvc_hook_idle(pool->data, slab->extent, true);
}

static void idle_del(struct kvc_slab *slab)
{
	struct kvc_pool *pool = slab->pool;

	kvc_list_del(&slab->idle);
	if (kvc_list_empty(&pool->idle[slab->nr_indexed]))
		pool->idles[slab->nr_indexed / 64] &= ~(1ull << (slab->nr_indexed % 64));
	slab->cache->nr_idle--;
	kvc_hook_idle(pool->data, slab->extent, false);
}

/*
 * Change a slab's reasons for being held, and counts of its pages, all at once. Fails, and changes
 * nothing, where nobody held the slab before and its pool may hold no more (-EDQUOT, -ENOSPC), or
 * it is on its way out (-EBUSY).
 */
int kvc_account(struct kvc_slab *slab, int holds, int moving, int quarantined, int indexed)
{
	struct kvc_pool *pool = slab->pool;
	struct kvc_arena *arena = pool->arena;
	u32 before;
	int r = 0;

	kvc_lock_take(&arena->lock);
	before = slab->holds;
	if (!before && holds) {
		r = slab->going ? -EBUSY : hold(pool);
		if (r)
			goto out;
		idle_del(slab);
	}
	slab->holds += holds;
	slab->nr_indexed += indexed;
	slab->cache->nr_quarantined += quarantined;
	pool->nr_quarantined += quarantined;
	slab->cache->nr_moving += moving;
	pool->nr_moving += moving;
	if (before && !slab->holds) {
		unhold(pool);
		idle_add(slab);
	}
out:
	kvc_lock_drop(&arena->lock);
	return r;
}

/* Reserve a free extent for @pool. -EDQUOT, -ENOSPC; -EAGAIN: it may hold one more, but none is
 * free. */
int kvc_charge(struct kvc_pool *pool, u32 *extent)
{
	struct kvc_arena *arena = pool->arena;
	int r;

	kvc_lock_take(&arena->lock);
	r = hold(pool);
	if (r)
		goto out;
	if (arena->free == KVC_NONE) {
		unhold(pool);
		r = -EAGAIN;
		goto out;
	}
	*extent = arena->free;
	arena->free = arena->extent[*extent].next;
	arena->extent[*extent].state = KVC_EXTENT_BACKING;
	arena->nr_free--;
	arena->nr_backing++;
	pool->backing++;
out:
	kvc_lock_drop(&arena->lock);
	return r;
}

static void extent_free(struct kvc_arena *arena, u32 extent)
{
	arena->extent[extent].state = KVC_EXTENT_FREE;
	arena->extent[extent].next = arena->free;
	arena->free = extent;
	arena->nr_free++;
	arena->nr_backing--;
	kvc_freed(arena);
}

/* Give back what kvc_charge() reserved. */
void kvc_uncharge(struct kvc_pool *pool, u32 extent)
{
	struct kvc_arena *arena = pool->arena;

	kvc_lock_take(&arena->lock);
	extent_free(arena, extent);
	pool->backing--;
	unhold(pool);
	kvc_lock_drop(&arena->lock);
}

/* The reserved extent becomes @slab, held because it has an owner. */
void kvc_slab_enter(struct kvc_slab *slab)
{
	struct kvc_pool *pool = slab->pool;
	struct kvc_arena *arena = pool->arena;
	struct kvc_extent *extent = &arena->extent[slab->extent];

	kvc_lock_take(&arena->lock);
	extent->slab = slab;
	extent->state = KVC_EXTENT_SLAB;
	arena->nr_backing--;
	pool->backing--;
	pool->slabs++;
	slab->cache->nr_slabs++;
	slab->holds = 1; /* its owner; of a pinned cache's slab, that it is one */
	kvc_lock_drop(&arena->lock);
	kvc_hook_slab_new(pool->id, slab->owner_id, slab->cache->id, slab->cache->page_size,
			  slab->extent);
}

/* The epoch moves past every generation that this slab's pages had. */
static void detach(struct kvc_slab *slab, struct kvc_op *op)
{
	struct kvc_pool *pool = slab->pool;
	struct kvc_extent *extent = &pool->arena->extent[slab->extent];
	u32 i, used, most = 0;

	for (i = 0; i < slab->pages; i++) {
		used = (slab->page[i].generation - slab->epoch) & KVC_GENERATION_MASK;
		if (used > most)
			most = used;
	}
	extent->epoch = kvc_next_generation((slab->epoch + most) & KVC_GENERATION_MASK);
	extent->slab = NULL;
	extent->state = KVC_EXTENT_BACKING;
	pool->arena->nr_backing++;
	pool->slabs--;
	pool->busy++;
	slab->cache->nr_slabs--;
	slab->dead = op->dead;
	op->dead = slab;
}

/*
 * A slab whose pages are all free, and which is in no bin and no client's list, goes. The caller
 * holds its guard. Its extent is reserved for @to, if that is not NULL and may hold it. False:
 * another call is taking it already.
 */
bool kvc_slab_dead(struct kvc_slab *slab, struct kvc_pool *to, struct kvc_op *op)
{
	struct kvc_arena *arena = slab->pool->arena;
	bool going;

	kvc_lock_take(&arena->lock);
	going = slab->going;
	if (!going) {
		if (slab->holds)
			unhold(slab->pool);
		else
			idle_del(slab);
		slab->holds = 0;
		slab->going = true;
		if (to && !hold(to)) {
			to->backing++;
			slab->reuse = true;
		}
		kvc_hook_slab_free(slab->pool->id, slab->cache->id, slab->cache->page_size,
				   slab->extent, 0, 0);
		detach(slab, op);
	}
	kvc_lock_drop(&arena->lock);
	return !going;
}

/* [6] held. The slab of @pool that nobody holds and that costs the fewest cached pages; NULL if
 * there is none. */
static struct kvc_slab *pick(struct kvc_pool *pool)
{
	struct kvc_slab *slab;
	u32 i;

	for (i = 0; i <= KVC_PAGES_MAX / 64; i++) {
		if (!pool->idles[i])
			continue;
		i = i * 64 + kvc_ffs64(pool->idles[i]);
		slab = container_of(pool->idle[i].next, struct kvc_slab, idle);
		idle_del(slab);
		slab->going = true;
		pool->busy++;
		return slab;
	}
	return NULL;
}

struct kvc_slab *kvc_pick_idle(struct kvc_pool *pool)
{
	struct kvc_slab *slab;

	kvc_lock_take(&pool->arena->lock);
	slab = pick(pool);
	kvc_lock_drop(&pool->arena->lock);
	return slab;
}

/* The slab on @extent, if it is one of @pool that nobody holds. */
struct kvc_slab *kvc_pick_extent(struct kvc_pool *pool, u32 extent)
{
	struct kvc_arena *arena = pool->arena;
	struct kvc_slab *slab;

	kvc_lock_take(&arena->lock);
	slab = arena->extent[extent].slab;
	if (slab && slab->pool == pool && !slab->going && !slab->holds) {
		idle_del(slab);
		slab->going = true;
		pool->busy++;
	} else {
		slab = NULL;
	}
	kvc_lock_drop(&arena->lock);
	return slab;
}

/* For the end of a pool: its next slab from *@cursor, whatever holds it. */
struct kvc_slab *kvc_pick_any(struct kvc_pool *pool, u32 *cursor)
{
	struct kvc_arena *arena = pool->arena;
	struct kvc_slab *slab = NULL;

	kvc_lock_take(&arena->lock);
	for (; *cursor < arena->nr; ++*cursor) {
		slab = arena->extent[*cursor].slab;
		if (slab && slab->pool == pool && !slab->going)
			break;
		slab = NULL;
	}
	if (slab) {
		if (slab->holds)
			unhold(pool);
		else
			idle_del(slab);
		slab->holds = 0;
		slab->going = true;
		pool->busy++;
	}
	kvc_lock_drop(&arena->lock);
	return slab;
}

/*
 * No extent is free, but @pool may hold one more: a slab that nobody holds, from the pool that has
 * most beyond its min; @pool's own only unless @others_only, which also asks that @pool has less
 * than its min. The extent is reserved for @pool. The caller strips the slab.
 */
struct kvc_slab *kvc_pick_for(struct kvc_pool *pool, bool others_only)
{
	struct kvc_arena *arena = pool->arena;
	struct kvc_pool *other, *from = NULL;
	struct kvc_slab *slab = NULL;
	struct kvc_list *l;
	s64 excess, most = 0;
	u32 i;

	kvc_lock_take(&arena->pools);
	kvc_lock_take(&arena->lock);
	if (others_only && pool->slabs + pool->backing >= pool->min)
		goto out;
	kvc_list_for(l, &arena->list) {
		other = container_of(l, struct kvc_pool, node);
		for (i = 0; i <= KVC_PAGES_MAX / 64 && !other->idles[i];)
			i++;
		if (i > KVC_PAGES_MAX / 64)
			continue;
		excess = (s64)other->slabs - other->min;
		if (other == pool ? others_only : excess <= 0)
			continue;
		if (!from || excess > most) {
			from = other;
			most = excess;
		}
	}
	if (!from || hold(pool))
		goto out;
	pool->backing++;
	slab = pick(from);
	slab->reuse = true;
out:
	kvc_lock_drop(&arena->lock);
	kvc_lock_drop(&arena->pools);
	return slab;
}

/* A slab that was picked and stripped leaves its pool. @moving, @quarantined: pages of it still
 * counted so. */
void kvc_leave(struct kvc_slab *slab, u32 moving, u32 quarantined, struct kvc_op *op)
{
	struct kvc_pool *pool = slab->pool;

	kvc_lock_take(&pool->arena->lock);
	pool->nr_moving -= moving;
	slab->cache->nr_moving -= moving;
	pool->nr_quarantined -= quarantined;
	slab->cache->nr_quarantined -= quarantined;
	pool->adrift += quarantined;
	pool->busy--;
	kvc_hook_slab_free(pool->id, slab->cache->id, slab->cache->page_size, slab->extent, moving,
			   quarantined);
	detach(slab, op);
	kvc_lock_drop(&pool->arena->lock);
}

/* The caller has taken the memory from behind the extent of a slab that left. */
void kvc_released(struct kvc_release *release, struct kvc_op *op)
{
	struct kvc_pool *pool = release->pool;
	struct kvc_arena *arena = pool->arena;

	kvc_lock_take(&arena->lock);
	if (release->reuse)
		op->slots[op->nr_slots++] = release->extent;
	else
		extent_free(arena, release->extent);
	pool->busy--;
	kvc_lock_drop(&arena->lock);
}
