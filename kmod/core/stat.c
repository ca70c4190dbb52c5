// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Counts: of a pool, its caches, clients and slabs. */
#include "state.h"

static void stat_clients(struct kvc_pool *pool, u64 *free_pages, struct kvc_stat *stat)
{
	struct kvc_client *client;
	struct kvc_list *l;
	u32 i;

	kvc_lock_take(&pool->lock);
	stat->clients = pool->nr_clients;
	stat->allocs = pool->allocs;
	stat->frees = pool->frees;
	stat->failed = pool->failed;
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
	stat->low = pool->low;
	stat->high = pool->high;
	stat->rises = pool->rises;
	stat->pressure = pool->pressure;
	stat->arena_extents = arena->nr;
	stat->arena_free = arena->nr_free;
	stat->arena_backing = arena->nr_backing;
	kvc_lock_drop(&arena->lock);
}

int kvc_cache_stat(struct kvc_pool *pool, u32 id, struct kvc_cache_stat *stat)
{
	struct kvc_cache *cache = kvc_cache_of(pool, id);
	struct kvc_arena *arena = pool->arena;
	struct kvc_client *client;
	struct kvc_list *l;

	if (!cache)
		return -EINVAL;
	memset(stat, 0, sizeof(*stat));
	stat->page_size = cache->page_size;
	stat->pages = cache->pages;
	stat->pinned = cache->pinned;
	kvc_lock_take(&pool->lock);
	kvc_list_for(l, &pool->clients) {
		client = container_of(l, struct kvc_client, node);
		kvc_lock_take(&client->lock);
		stat->free += client->share[id].nr_free;
		stat->private_pages += client->share[id].nr_private;
		kvc_lock_drop(&client->lock);
	}
	kvc_lock_drop(&pool->lock);
	kvc_lock_take(&cache->lock);
	stat->free += cache->nr_free;
	kvc_lock_drop(&cache->lock);
	kvc_lock_take(&pool->index.lock);
	stat->cached = cache->nr_cached;
	stat->sealed = cache->nr_indexed - cache->nr_cached;
	kvc_lock_drop(&pool->index.lock);
	kvc_lock_take(&arena->lock);
	stat->slabs = cache->nr_slabs;
	stat->moving = cache->nr_moving;
	stat->quarantined = cache->nr_quarantined;
	kvc_lock_drop(&arena->lock);
	return 0;
}

u32 kvc_client_id(const struct kvc_client *client)
{
	return (u32)client->serial;
}

/* [2] or a call on the client keeps it. */
void kvc_client_stat(struct kvc_client *client, struct kvc_client_stat *stat)
{
	struct kvc_share *share;
	u32 i;

	memset(stat, 0, sizeof(*stat));
	stat->id = kvc_client_id(client);
	kvc_lock_take(&client->lock);
	for (i = 0; i < KVC_CACHES_MAX; i++) {
		share = &client->share[i];
		stat->private_pages += share->nr_private;
		stat->held_bytes += (u64)share->nr_private * share->page_size;
		stat->references += share->nr_refs;
		stat->slabs += share->nr_own;
	}
	kvc_lock_drop(&client->lock);
}

u32 kvc_clients(struct kvc_pool *pool, struct kvc_client_stat *stats, u32 n)
{
	struct kvc_list *l;
	u32 k = 0;

	kvc_lock_take(&pool->lock);
	kvc_list_for(l, &pool->clients) {
		if (k < n)
			kvc_client_stat(container_of(l, struct kvc_client, node), &stats[k]);
		k++;
	}
	kvc_lock_drop(&pool->lock);
	return k;
}

/* [5], [6] held. Private and free pages may change state meanwhile. */
static void slab_stat(struct kvc_slab *slab, struct kvc_slab_stat *stat)
{
	u32 i, states[KVC_STATES] = { 0 };

	memset(stat, 0, sizeof(*stat));
	for (i = 0; i < slab->pages; i++)
		states[kvc_read(slab->page[i].state)]++;
	stat->extent = slab->extent;
	stat->owner = kvc_read(slab->owner_id);
	stat->cache = slab->cache->id;
	stat->pages = slab->pages;
	stat->free = states[KVC_FREE];
	stat->private_pages = states[KVC_PRIVATE];
	stat->moving = states[KVC_MOVING] + states[KVC_SEALING];
	stat->sealed = slab->nr_ref < states[KVC_INDEXED] ? slab->nr_ref : states[KVC_INDEXED];
	stat->cached = states[KVC_INDEXED] - stat->sealed;
	stat->quarantined = states[KVC_QUARANTINED];
}

#define SLABS_STEP 64 /* extents under one hold of the locks */

u32 kvc_slabs(struct kvc_pool *pool, u32 *from, struct kvc_slab_stat *slabs, u32 n)
{
	struct kvc_arena *arena = pool->arena;
	struct kvc_slab *slab;
	u32 x = *from, k = 0, i, written;

	while (x < arena->nr && k < n) {
		kvc_lock_take(&pool->index.lock);
		kvc_lock_take(&arena->lock);
		for (i = 0, written = 0; i < SLABS_STEP && written < 4 && x < arena->nr && k < n;
		     i++, x++) {
			slab = arena->extent[x].slab;
			if (!slab || slab->pool != pool)
				continue;
			slab_stat(slab, &slabs[k++]);
			written++;
		}
		kvc_lock_drop(&arena->lock);
		kvc_lock_drop(&pool->index.lock);
	}
	*from = x < arena->nr ? x : 0;
	return k;
}
