// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* ALLOC: from the client's own slabs under its own lock; else, step by step, from elsewhere
 * (take.c). */
#include "state.h"

/* [3] held. Up to @n pages from the client's own slabs; how many. */
u32 kvc_take_own(struct kvc_share *share, u64 *pages, u32 n)
{
	struct kvc_record *record;
	struct kvc_slab *slab;
	u32 k = 0, end, head, index, from;
	u64 base;

	while (k < n && !kvc_list_empty(&share->room)) {
		record = container_of(share->room.next, struct kvc_record, node);
		slab = record->slab;
		if (slab->nr_free == slab->pages)
			share->nr_spares--;
		end = n - k < slab->nr_free ? n : k + slab->nr_free;
		slab->nr_free -= end - k;
		record->nr_private += end - k;
		head = slab->head;
		base = slab->base;
		for (from = k; k < end; k++) {
			index = slab->page[head].ring;
			if (++head == slab->pages)
				head = 0;
			kvc_write(slab->page[index].state, KVC_PRIVATE);
			record->refs[index] = KVC_HELD_PRIVATE;
			pages[k] = base | (u64)index << 28 | slab->page[index].generation;
			kvc_hook_page_alloc(slab->pool->id, (u32)slab->owner_id, slab->cache->id,
					    slab->cache->page_size, pages[k]);
		}
		slab->head = head;
		(void)from; /* where there is no hook */
		kvc_hook_pages_alloc(slab->pool->id, (u32)slab->owner_id, slab->cache->id,
				     slab->cache->page_size, pages + from, k - from);
		if (!slab->nr_free) {
			kvc_list_unlink(&record->node);
			kvc_list_add(&record->node, &share->full);
		}
	}
	share->nr_free -= k;
	share->nr_private += k;
	share->allocs += k;
	return k;
}

/* What ALLOC could get for a client, in slabs of one cache. */
struct supply {
	u64 pages; /* free or cached */
	u32 pages_a_slab;
	bool pinned; /* no slab comes to it */
	u32 idle; /* slabs that nobody holds: they count only as far as the pool may hold more */
	u32 slots; /* extents that the call has reserved */
	u32 spares; /* of this pool's other caches */
	u32 others; /* of other pools, beyond their min */
	/* extents that the pool may hold in addition: as its max, and as the arena allows */
	u32 below_max, below_all;
};

/* Free pages of cache @id, and spares of all others. */
static void count_clients(struct kvc_pool *pool, u32 id, u64 *pages, u32 *spares)
{
	struct kvc_client *client;
	struct kvc_list *l;
	u32 i;

	kvc_lock_take(&pool->lock);
	kvc_list_for(l, &pool->clients) {
		client = container_of(l, struct kvc_client, node);
		kvc_lock_take(&client->lock);
		for (i = 0; i < KVC_CACHES_MAX; i++) {
			if (i == id)
				*pages += client->share[i].nr_free;
			else if (!client->share[i].pinned)
				*spares += client->share[i].nr_spares;
		}
		kvc_lock_drop(&client->lock);
	}
	kvc_lock_drop(&pool->lock);
}

/* Spares of other pools that would make the sum of committed extents smaller. */
static u32 count_others(struct kvc_pool *pool)
{
	struct kvc_arena *arena = pool->arena;
	struct kvc_pool *other;
	struct kvc_list *l;
	u32 n = 0, spares, beyond;
	u64 pages;

	kvc_lock_take(&arena->pools);
	kvc_list_for(l, &arena->list) {
		other = container_of(l, struct kvc_pool, node);
		if (other == pool)
			continue;
		spares = 0;
		count_clients(other, KVC_NONE, &pages, &spares);
		kvc_lock_take(&arena->lock);
		beyond = other->held > other->min ? other->held - other->min : 0;
		kvc_lock_drop(&arena->lock);
		n += spares < beyond ? spares : beyond;
	}
	kvc_lock_drop(&arena->pools);
	return n;
}

static u32 max32(u32 a, u32 b)
{
	return a > b ? a : b;
}

static void count_limits(struct kvc_pool *pool, struct kvc_cache *cache, struct supply *s)
{
	struct kvc_arena *arena = pool->arena;
	u32 held, committed;

	kvc_lock_take(&arena->lock);
	s->idle = cache->nr_idle;
	held = pool->held - (s->spares < pool->held ? s->spares : pool->held);
	committed = arena->committed - max32(pool->held, pool->min) + max32(held, pool->min);
	committed -= s->others < committed ? s->others : committed;
	s->below_max = pool->max - held;
	s->below_all = arena->nr - committed + (held < pool->min ? pool->min - held : 0);
	kvc_lock_drop(&arena->lock);
}

static void count(struct kvc_client *client, u32 id, bool memory, bool others, struct kvc_op *op,
		  struct supply *s)
{
	struct kvc_pool *pool = client->pool;
	struct kvc_cache *cache = pool->cache[id];

	memset(s, 0, sizeof(*s));
	s->pages_a_slab = cache->pages;
	s->pinned = cache->pinned;
	s->slots = op->nr_slots;
	count_clients(pool, id, &s->pages, &s->spares);
	if (!memory)
		s->spares = 0; /* an extent from another cache needs memory anew */
	if (others && memory)
		s->others = count_others(pool);
	kvc_lock_take(&cache->lock);
	s->pages += cache->nr_free;
	kvc_lock_drop(&cache->lock);
	kvc_lock_take(&pool->index.lock);
	s->pages += cache->nr_cached;
	kvc_lock_drop(&pool->index.lock);
	count_limits(pool, cache, s);
}

/*
 * An extent more to hold is a slab's worth of pages: a new one, or one of this cache that nobody
 * holds. @max, @memory: whether these limit.
 */
static u64 supply_pages(const struct supply *s, bool max, bool memory)
{
	u64 idle = (u64)s->idle * s->pages_a_slab;
	u32 more = s->below_all;

	if (s->pinned)
		return s->pages;
	if (max && more > s->below_max)
		more = s->below_max;
	if (!memory && more > s->idle)
		more = s->idle;
	return (s->pages > idle ? s->pages - idle : 0) + (u64)(more + s->slots) * s->pages_a_slab;
}

/*
 * Whether the call can have what it still wants; with KVC_PARTIAL it then wants less. 0, KVC_MORE
 * (to look at quarantined pages first), -EDQUOT, -ENOSPC, -ENOMEM.
 */
static int feasible(struct kvc_client *client, u32 id, u32 flags, struct kvc_op *op)
{
	bool memory = !(op->flags & KVC_OP_NOMEM);
	u32 missing = op->wanted - op->done;
	struct supply s;
	u64 pages;

	count(client, id, memory, false, op, &s);
	if (supply_pages(&s, true, memory) >= missing)
		return 0;
	count(client, id, memory, true, op, &s);
	pages = supply_pages(&s, true, memory);
	if (pages >= missing)
		return 0;
	if (kvc_scan_quarantine(client->pool, op))
		return KVC_MORE;
	if (flags & KVC_PARTIAL && op->done + pages) {
		op->wanted = op->done + pages;
		return 0;
	}
	if (!memory && supply_pages(&s, true, true) >= missing)
		return -ENOMEM;
	return supply_pages(&s, false, memory) >= missing ? -EDQUOT : -ENOSPC;
}

static u32 slabs_missing(const struct kvc_client *client, u32 id, const struct kvc_op *op)
{
	u32 pages = client->pool->cache[id]->pages;

	return (op->wanted - op->done + pages - 1) / pages;
}

/* Free extents, as needs; below the pool's min also extents that other pools only cache in. */
static int take_extents(struct kvc_client *client, u32 id, struct kvc_op *op)
{
	struct kvc_pool *pool = client->pool;
	u32 n = slabs_missing(client, id, op), extent, pages = pool->cache[id]->pages;
	struct kvc_need *need;
	struct kvc_slab *slab;
	int r = 0;

	if (pool->cache[id]->pinned)
		return KVC_STEP_NONE;
	while (n-- && op->nr_needs < KVC_NEEDS) {
		if (op->nr_slots)
			extent = op->slots[--op->nr_slots];
		else
			r = kvc_charge(pool, &extent);
		if (r)
			break;
		need = &op->need[op->nr_needs++];
		need->kind = KVC_NEED_SLAB;
		need->there = pool->arena->device;
		need->use = id;
		need->extent = extent;
		need->size[0] = kvc_slab_size(pages);
		need->size[1] = kvc_record_size(pages);
		need->mem[0] = need->mem[1] = NULL;
	}
	if (op->nr_needs)
		return KVC_MORE;
	if (r == -EAGAIN) {
		slab = kvc_pick_for(pool, true);
		if (slab)
			kvc_strip(slab, KVC_EVICT_SLAB, op);
	}
	return kvc_more(op) ? KVC_MORE : KVC_STEP_NONE;
}

/* What the client itself keeps as spares for other page sizes. */
static int take_spares(struct kvc_client *client, u32 id, struct kvc_op *op)
{
	if (!kvc_take_own_spares(client, id, slabs_missing(client, id, op), op))
		return KVC_STEP_NONE;
	return kvc_more(op) ? KVC_MORE : KVC_STEP_NONE;
}

/* Extents that other caches or pools only cache in; then spares. */
static int take_distant(struct kvc_client *client, u32 id, struct kvc_op *op)
{
	u32 n = slabs_missing(client, id, op), i;
	struct kvc_slab *slab;

	if (client->pool->cache[id]->pinned)
		return KVC_STEP_NONE;
	for (i = 0; i < n && i < KVC_RELEASES; i++) {
		slab = kvc_pick_for(client->pool, false);
		if (!slab)
			break;
		kvc_strip(slab, KVC_EVICT_SLAB, op);
	}
	if (!i)
		kvc_take_spare(client->pool, id, true, true, op);
	return kvc_more(op) ? KVC_MORE : KVC_STEP_NONE;
}

/* One step towards what is missing, the least costly that there is. */
static int step(struct kvc_client *client, u32 id, u64 *pages, struct kvc_op *op)
{
	bool memory = !(op->flags & KVC_OP_NOMEM);
	int r, i;

	if (!memory)
		while (op->nr_slots)
			kvc_uncharge(client->pool, op->slots[--op->nr_slots]);
	for (i = 0; i < 6; i++) {
		r = KVC_STEP_NONE;
		if (i == 0)
			r = kvc_take_ownerless(client, id, pages, op);
		else if (i == 1 && memory)
			r = take_extents(client, id, op);
		else if (i == 2)
			r = kvc_take_over(client, id, op);
		else if (i == 3 && memory)
			r = take_spares(client, id, op);
		else if (i == 4)
			r = kvc_take_cached(client, id, op);
		else if (i == 5 && memory)
			r = take_distant(client, id, op);
		if (r == KVC_STEP_RECORD) {
			if (!(op->flags & KVC_OP_NOTABLE)) {
				kvc_stash_fill(op, client->pool->cache[id]->pages,
					       op->wanted - op->done);
				return KVC_MORE;
			}
			r = KVC_STEP_NONE;
		}
		if (r != KVC_STEP_NONE)
			return r;
	}
	return op->flags & (KVC_OP_NOMEM | KVC_OP_NOTABLE) ? -ENOMEM : -ENOSPC;
}

/* The call has pages. */
static int alloc_end(struct kvc_client *client, struct kvc_op *op)
{
	if (unlikely(kvc_read(client->waits)))
		kvc_wait_end(client, op);
	return kvc_op_end(client->pool, op, op->done);
}

static int alloc_fail(struct kvc_client *client, u32 id, u64 *pages, int r, struct kvc_op *op)
{
	struct kvc_pool *pool = client->pool;

	kvc_hook_quota(pool->id, kvc_client_id(client), id, op->wanted, r,
			kvc_read(pool->held), kvc_read(pool->max));
	(void)id;
	kvc_lock_take(&pool->lock);
	pool->failed++;
	kvc_lock_drop(&pool->lock);
	op->waiter = client;
	op->result = r;
	return kvc_undo(client, pages, op);
}

static int alloc_slow(struct kvc_client *client, u32 id, u64 *pages, u32 flags, struct kvc_op *op)
{
	struct kvc_share *share = &client->share[id];
	int r;

	for (;;) {
		kvc_lock_take(&client->lock);
		op->done += kvc_take_own(share, pages + op->done, op->wanted - op->done);
		kvc_lock_drop(&client->lock);
		if (op->done == op->wanted)
			return alloc_end(client, op);
		r = feasible(client, id, flags, op);
		if (!r && op->done < op->wanted)
			r = step(client, id, pages, op);
		if (r == KVC_MORE)
			return r;
		if (r < 0 && flags & KVC_PARTIAL && op->done)
			return alloc_end(client, op);
		if (r < 0 && (op->flags & KVC_OP_WAITS || r == -ENOMEM))
			return alloc_fail(client, id, pages, r, op);
		if (r < 0) {
			/* Once more: what came back before the client was known to wait. */
			op->flags |= KVC_OP_WAITS;
			kvc_wait(client);
		}
	}
}

int kvc_alloc(struct kvc_client *client, u32 id, u64 *pages, u32 n, u32 flags, struct kvc_op *op)
{
	struct kvc_share *share;

	if (likely(op->phase == KVC_PHASE_NEW)) {
		if (unlikely(n - 1 >= KVC_BATCH_MAX || flags & ~KVC_PARTIAL ||
			     id >= KVC_CACHES_MAX))
			return -EINVAL;
		share = &client->share[id];
		kvc_lock_take(&client->lock);
		if (unlikely(share->nr_free < n) && (op->flags & KVC_OP_NOWAIT || !share->pages)) {
			n = share->pages;
			kvc_lock_drop(&client->lock);
			return n ? -EAGAIN : -EINVAL;
		}
		op->done = kvc_take_own(share, pages, n);
		kvc_lock_drop(&client->lock);
		if (likely(op->done == n)) {
			if (unlikely(kvc_read(client->waits)))
				kvc_wait_end(client, op);
			return n;
		}
		op->wanted = n;
		op->phase = KVC_PHASE_WORK;
		return alloc_slow(client, id, pages, flags, op);
	}
	kvc_collect(client->pool, client, pages, op);
	if (op->phase == KVC_PHASE_END)
		return kvc_op_end(client->pool, op, op->result);
	if (op->phase == KVC_PHASE_UNDO)
		return kvc_undo(client, pages, op);
	return alloc_slow(client, id, pages, flags, op);
}
