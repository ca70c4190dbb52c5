// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Pools and their caches: beginning, end, and what they give back on request. */
#include "state.h"

size_t kvc_pool_size(void)
{
	return sizeof(struct kvc_pool);
}

static bool good_limits(const struct kvc_arena *arena, const struct kvc_pool_params *params)
{
	return params->min <= params->max && params->max <= arena->nr && params->max &&
	       params->low <= params->high;
}

int kvc_pool_init(void *mem, struct kvc_arena *arena, const struct kvc_pool_params *params,
		  struct kvc_pool **out)
{
	struct kvc_pool *pool = mem;
	struct kvc_index *index = &pool->index;
	u32 i;
	int r = 0;

	if (!good_limits(arena, params))
		return -EINVAL;
	kvc_lock_init(&pool->lock);
	kvc_lock_init(&pool->sealing);
	kvc_list_init(&pool->clients);
	kvc_list_init(&pool->quarantine);
	kvc_list_init(&pool->waiters);
	pool->arena = arena;
	pool->id = params->id;
	pool->data = params->data;
	pool->min = params->min;
	pool->max = params->max;
	pool->low = params->low;
	pool->high = params->high;
	for (i = 0; i <= KVC_PAGES_MAX; i++)
		kvc_list_init(&pool->idle[i]);
	kvc_lock_init(&index->lock);
	index->secret[0] = params->secret[0];
	index->secret[1] = params->secret[1];
	index->table = index->first;
	index->mask = KVC_BUCKETS - 1;

	kvc_lock_take(&arena->pools);
	kvc_lock_take(&arena->lock);
	if (arena->device && arena->had)
		r = -EBUSY;
	else if (params->min > arena->nr - arena->committed)
		r = -ENOSPC;
	else
		arena->committed += params->min;
	if (!r)
		kvc_held_changed(pool);
	kvc_lock_drop(&arena->lock);
	if (!r) {
		kvc_list_add_tail(&pool->node, &arena->list);
		arena->had = true;
	}
	kvc_lock_drop(&arena->pools);
	if (!r)
		*out = pool;
	return r;
}

/* Slabs leave, a few at a time. */
static bool exit_slabs(struct kvc_pool *pool, struct kvc_op *op)
{
	struct kvc_slab *slab;
	u32 i;

	for (i = 0; i < KVC_RELEASES; i++) {
		slab = kvc_pick_any(pool, &op->cursor);
		if (!slab)
			break;
		kvc_strip(slab, KVC_EVICT_END, op);
	}
	return kvc_more(op);
}

int kvc_pool_set(struct kvc_pool *pool, const struct kvc_pool_params *params, struct kvc_op *op)
{
	int r;

	if (!good_limits(pool->arena, params))
		return -EINVAL;
	r = kvc_limit(pool, params->min, params->max);
	if (r)
		return r;
	kvc_lock_take(&pool->arena->lock);
	pool->low = params->low;
	pool->high = params->high;
	kvc_held_changed(pool);
	kvc_lock_drop(&pool->arena->lock);
	kvc_tell(pool, op);
	return 0;
}

int kvc_pool_exit(struct kvc_pool *pool, struct kvc_op *op)
{
	struct kvc_arena *arena = pool->arena;
	struct kvc_index *index = &pool->index;
	u32 i;
	bool busy;

	if (op->phase) {
		kvc_collect(pool, NULL, NULL, op);
	} else {
		kvc_lock_take(&pool->lock);
		busy = pool->nr_clients;
		if (!busy)
			pool->ending = true;
		kvc_lock_drop(&pool->lock);
		if (busy)
			return -EBUSY;
		op->phase = KVC_PHASE_WORK;
	}
	if (exit_slabs(pool, op))
		return KVC_MORE;
	kvc_lock_take(&arena->pools);
	kvc_lock_take(&arena->lock);
	busy = pool->busy || pool->slabs;
	if (!busy) {
		arena->committed -= pool->min;
		kvc_freed(arena);
	}
	kvc_lock_drop(&arena->lock);
	if (!busy)
		kvc_list_unlink(&pool->node);
	kvc_lock_drop(&arena->pools);
	if (busy)
		return -EBUSY;
	for (i = 0; i < KVC_CACHES_MAX && pool->cache[i]; i++)
		kvc_table_free(op, pool->cache[i]);
	kvc_retire(index, op);
	if (index->old && index->old != index->first)
		kvc_table_free(op, index->old);
	if (index->table != index->first)
		kvc_table_free(op, index->table);
	kvc_tell(pool, op);
	return 0;
}

int kvc_cache_find(struct kvc_pool *pool, u32 page_size)
{
	u32 i;
	int id = -ENOENT;

	kvc_lock_take(&pool->lock);
	for (i = 0; i < KVC_CACHES_MAX && pool->cache[i]; i++)
		if (pool->cache[i]->page_size == page_size)
			id = i;
	kvc_lock_drop(&pool->lock);
	return id;
}

size_t kvc_cache_size(u32 page_size)
{
	if (!page_size || page_size % KVC_FRAME_SIZE || page_size > KVC_EXTENT_SIZE)
		return 0;
	return sizeof(struct kvc_cache) +
	       (KVC_EXTENT_SIZE / page_size + 1) * sizeof(struct kvc_list);
}

static int cache_add(struct kvc_pool *pool, void *mem, u32 page_size, bool pinned)
{
	struct kvc_cache *cache = mem;
	struct kvc_client *client;
	struct kvc_list *l;
	u32 i, id;

	if (!kvc_cache_size(page_size))
		return -EINVAL;
	kvc_lock_init(&cache->lock);
	cache->page_size = page_size;
	cache->pages = KVC_EXTENT_SIZE / page_size;
	cache->pinned = pinned;
	for (i = 0; i <= cache->pages; i++)
		kvc_list_init(&cache->bin[i]);
	for (i = 0; i < KVC_CLASSES; i++)
		kvc_list_init(&cache->evict[i]);
	kvc_list_init(&cache->parked);

	kvc_lock_take(&pool->lock);
	for (id = 0; id < KVC_CACHES_MAX && pool->cache[id]; id++) {
		if (pool->cache[id]->page_size == page_size) {
			kvc_lock_drop(&pool->lock);
			return -EEXIST;
		}
	}
	if (id == KVC_CACHES_MAX) {
		kvc_lock_drop(&pool->lock);
		return -ENOSPC;
	}
	cache->id = id;
	pool->cache[id] = cache;
	kvc_list_for(l, &pool->clients) {
		client = container_of(l, struct kvc_client, node);
		kvc_lock_take(&client->lock);
		client->share[id].spares_max = kvc_spares_max(pool, cache->pages);
		client->share[id].page_size = page_size;
		client->share[id].pinned = pinned;
		client->share[id].pages = cache->pages;
		kvc_lock_drop(&client->lock);
	}
	kvc_lock_drop(&pool->lock);
	return id;
}

int kvc_cache_add(struct kvc_pool *pool, void *mem, u32 page_size)
{
	return cache_add(pool, mem, page_size, false);
}

int kvc_cache_add_pinned(struct kvc_pool *pool, void *mem, u32 page_size)
{
	return cache_add(pool, mem, page_size, true);
}

struct kvc_cache *kvc_cache_of(struct kvc_pool *pool, u32 id)
{
	struct kvc_cache *cache = NULL;

	if (id >= KVC_CACHES_MAX)
		return NULL;
	kvc_lock_take(&pool->lock);
	cache = pool->cache[id];
	kvc_lock_drop(&pool->lock);
	return cache;
}

int kvc_cache_pages(struct kvc_pool *pool, u32 id, u32 *page_size)
{
	struct kvc_cache *cache = kvc_cache_of(pool, id);

	if (!cache)
		return -EINVAL;
	if (page_size)
		*page_size = cache->page_size;
	return cache->pages;
}

int kvc_reclaim(struct kvc_pool *pool, u32 n, struct kvc_op *op)
{
	struct kvc_slab *slab;
	u32 i;

	if (op->phase)
		kvc_collect(pool, NULL, NULL, op);
	op->phase = KVC_PHASE_WORK;
	for (i = 0; i < KVC_RELEASES && op->done < n; i++) {
		slab = kvc_pick_idle(pool);
		if (!slab)
			break;
		kvc_strip(slab, KVC_EVICT_RECLAIM, op);
		op->done++;
	}
	if (kvc_more(op))
		return KVC_MORE;
	kvc_tell(pool, op);
	return op->done;
}

/* Whether a client keeps the slab on @extent as a spare; then it goes. */
static bool dissolve(struct kvc_pool *pool, u32 extent, struct kvc_op *op)
{
	struct kvc_client *client;
	struct kvc_record *record;
	struct kvc_list *l;
	bool found = false;

	kvc_lock_take(&pool->lock);
	kvc_list_for(l, &pool->clients) {
		client = container_of(l, struct kvc_client, node);
		kvc_lock_take(&client->lock);
		record = client->map[extent];
		if (record && record->owner && !client->share[record->cache].pinned &&
		    record->slab->nr_free == record->pages) {
			kvc_spare_dead(client, record, NULL, op);
			found = true;
		}
		kvc_lock_drop(&client->lock);
		if (found)
			break;
	}
	kvc_lock_drop(&pool->lock);
	return found;
}

int kvc_reclaim_extent(struct kvc_pool *pool, u32 extent, struct kvc_op *op)
{
	struct kvc_slab *slab;

	if (op->phase) {
		kvc_collect(pool, NULL, NULL, op);
		return kvc_op_end(pool, op, op->result);
	}
	if (extent >= pool->arena->nr)
		return -EBUSY;
	slab = kvc_pick_extent(pool, extent);
	if (slab)
		kvc_strip(slab, KVC_EVICT_RECLAIM, op);
	else if (!dissolve(pool, extent, op))
		return -EBUSY;
	return kvc_op_end(pool, op, 0);
}

u32 kvc_spares(struct kvc_pool *pool, u32 *extents, u32 n)
{
	struct kvc_client *client;
	struct kvc_share *share;
	struct kvc_record *record;
	struct kvc_list *l, *r;
	u32 i, k = 0;

	kvc_lock_take(&pool->lock);
	kvc_list_for(l, &pool->clients) {
		client = container_of(l, struct kvc_client, node);
		kvc_lock_take(&client->lock);
		for (i = 0; i < KVC_CACHES_MAX && k < n; i++) {
			share = &client->share[i];
			if (share->pinned)
				continue;
			/* They are the last in the list. */
			for (r = share->room.prev; r != &share->room && k < n; r = r->prev) {
				record = container_of(r, struct kvc_record, node);
				if (record->slab->nr_free != record->pages)
					break;
				extents[k++] = record->extent;
			}
		}
		kvc_lock_drop(&client->lock);
	}
	kvc_lock_drop(&pool->lock);
	return k;
}

int kvc_unquarantine(struct kvc_pool *pool, struct kvc_op *op)
{
	if (op->phase)
		kvc_collect(pool, NULL, NULL, op);
	if (op->phase == KVC_PHASE_END)
		return kvc_op_end(pool, op, op->result);
	op->phase = KVC_PHASE_WORK;
	if (kvc_scan_quarantine(pool, op))
		return KVC_MORE;
	return kvc_op_end(pool, op, op->back);
}
