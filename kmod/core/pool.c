// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Pools and their caches: beginning, end, and what they give back on request. */
#include "state.h"

size_t kvc_pool_size(void)
{
	return sizeof(struct kvc_pool);
}

int kvc_pool_init(void *mem, struct kvc_arena *arena, const struct kvc_pool_params *params,
		  struct kvc_pool **out)
{
	struct kvc_pool *pool = mem;
	struct kvc_index *index = &pool->index;
	u32 i;
	int r = 0;

	if (params->min > params->max || params->max > arena->nr || !params->max)
		return -EINVAL;
	kvc_lock_init(&pool->lock);
	kvc_list_init(&pool->clients);
	kvc_list_init(&pool->quarantine);
	pool->arena = arena;
	pool->min = params->min;
	pool->max = params->max;
	for (i = 0; i <= KVC_PAGES_MAX; i++)
		kvc_list_init(&pool->idle[i]);
	kvc_lock_init(&index->lock);
	index->secret[0] = params->secret[0];
	index->secret[1] = params->secret[1];
	index->table = index->first;
	index->mask = KVC_BUCKETS - 1;

	kvc_lock_take(&arena->pools);
	kvc_lock_take(&arena->lock);
	if (params->min > arena->nr - arena->committed)
		r = -ENOSPC;
	else
		arena->committed += params->min;
	kvc_lock_drop(&arena->lock);
	if (!r)
		kvc_list_add_tail(&pool->node, &arena->list);
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
		kvc_strip(slab, op);
	}
	return kvc_more(op);
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
	if (!busy)
		arena->committed -= pool->min;
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

int kvc_cache_add(struct kvc_pool *pool, void *mem, u32 page_size)
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
	for (i = 0; i <= cache->pages; i++)
		kvc_list_init(&cache->bin[i]);
	for (i = 0; i < KVC_CLASSES; i++)
		kvc_list_init(&cache->evict[i]);

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
		client->share[id].spares_max = KVC_SPARE_PAGES / cache->pages + 1;
		client->share[id].pages = cache->pages;
		kvc_lock_drop(&client->lock);
	}
	kvc_lock_drop(&pool->lock);
	return id;
}

int kvc_cache_pages(struct kvc_pool *pool, u32 id, u32 *page_size)
{
	struct kvc_cache *cache = NULL;

	if (id >= KVC_CACHES_MAX)
		return -EINVAL;
	kvc_lock_take(&pool->lock);
	cache = pool->cache[id];
	kvc_lock_drop(&pool->lock);
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
		kvc_strip(slab, op);
		op->done++;
	}
	return kvc_more(op) ? KVC_MORE : (int)op->done;
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

static void stat_clients(struct kvc_pool *pool, u64 *free_pages, struct kvc_stat *stat)
{
	struct kvc_client *client;
	struct kvc_list *l;
	u32 i;

	kvc_lock_take(&pool->lock);
	stat->clients = pool->nr_clients;
	stat->allocs = pool->allocs;
	stat->frees = pool->frees;
	kvc_list_for(l, &pool->clients) {
		client = container_of(l, struct kvc_client, node);
		kvc_lock_take(&client->lock);
		for (i = 0; i < KVC_CACHES_MAX; i++) {
			free_pages[i] += client->share[i].nr_free;
			stat->private_pages += client->share[i].nr_private;
			stat->allocs += client->share[i].allocs;
			stat->frees += client->share[i].frees;
		}
		kvc_lock_drop(&client->lock);
	}
	kvc_lock_drop(&pool->lock);
}

static void stat_cache(struct kvc_arena *arena, struct kvc_cache *cache, u64 free_pages,
		       struct kvc_stat *stat)
{
	kvc_lock_take(&cache->lock);
	free_pages += cache->nr_free;
	stat->takeovers += cache->takeovers;
	kvc_lock_drop(&cache->lock);
	stat->free += free_pages;
	stat->free_bytes += free_pages * cache->page_size;
	kvc_lock_take(&arena->lock);
	stat->tail_bytes +=
		(u64)cache->nr_slabs * (KVC_EXTENT_SIZE - cache->pages * cache->page_size);
	stat->quarantined_bytes += cache->nr_quarantined * cache->page_size;
	kvc_lock_drop(&arena->lock);
}

void kvc_stat(struct kvc_pool *pool, struct kvc_stat *stat)
{
	u64 free_pages[KVC_CACHES_MAX] = { 0 };
	struct kvc_arena *arena = pool->arena;
	struct kvc_index *index = &pool->index;
	struct kvc_cache *cache[KVC_CACHES_MAX];
	u32 i;

	memset(stat, 0, sizeof(*stat));
	kvc_lock_take(&pool->lock);
	memcpy(cache, pool->cache, sizeof(cache));
	kvc_lock_drop(&pool->lock);
	stat_clients(pool, free_pages, stat);
	for (i = 0; i < KVC_CACHES_MAX && cache[i]; i++)
		stat_cache(arena, cache[i], free_pages[i], stat);
	kvc_lock_take(&index->lock);
	for (i = 0; i < KVC_CACHES_MAX && cache[i]; i++)
		stat->cached += cache[i]->nr_cached;
	stat->sealed = index->nr - stat->cached;
	stat->seals = index->seals;
	stat->seal_duplicates = index->duplicates;
	stat->lookups = index->lookups;
	stat->lookup_asked = index->asked;
	stat->lookup_hits = index->hits;
	stat->evictions = index->evictions;
	kvc_lock_drop(&index->lock);
	kvc_lock_take(&arena->lock);
	stat->moving = pool->nr_moving;
	stat->quarantined = pool->nr_quarantined;
	stat->slabs = pool->slabs;
	stat->held = pool->held;
	stat->min = pool->min;
	stat->max = pool->max;
	stat->adrift = pool->adrift;
	stat->arena_extents = arena->nr;
	stat->arena_free = arena->nr_free;
	stat->arena_backing = arena->nr_backing;
	kvc_lock_drop(&arena->lock);
}
