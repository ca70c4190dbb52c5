// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Slabs: their tables, the bins of the ownerless ones, and pages that come back to a slab after a
 * move. */
#include "state.h"

static size_t hot_size(u32 pages)
{
	size_t size = sizeof(struct kvc_slab) + pages * sizeof(struct kvc_page);

	return (size + KVC_ALIGN - 1) & ~(size_t)(KVC_ALIGN - 1);
}

size_t kvc_slab_size(u32 pages)
{
	return hot_size(pages) + pages * sizeof(struct kvc_entry);
}

/* All pages free and zapped; ownerless, in no bin, not yet in the arena. */
struct kvc_slab *kvc_slab_init(void *mem, struct kvc_pool *pool, struct kvc_cache *cache,
			       u32 extent)
{
	struct kvc_slab *slab = mem;
	u32 i;

	slab->pool = pool;
	slab->cache = cache;
	slab->extent = extent;
	slab->entry = (struct kvc_entry *)((char *)mem + hot_size(cache->pages));
	slab->base = kvc_handle(pool->arena->id, extent, 0, 0);
	slab->pages = cache->pages;
	kvc_list_init(&slab->bin);
	kvc_list_init(&slab->idle);
	kvc_list_init(&slab->quarantine);
	kvc_list_init(&slab->parked);
	kvc_list_init(&slab->park);
	/* The extent is reserved by this call, so its epoch stands still. */
	slab->epoch = pool->arena->extent[extent].epoch;
	for (i = 0; i < slab->pages; i++) {
		slab->page[i].generation = slab->epoch;
		kvc_ring_put(slab, i);
		slab->entry[i].slab = slab;
		slab->entry[i].index = i;
		kvc_list_init(&slab->entry[i].node);
	}
	return slab;
}

/* [4] held. */
void kvc_bin_add(struct kvc_slab *slab)
{
	struct kvc_cache *cache = slab->cache;

	kvc_list_add(&slab->bin, &cache->bin[slab->nr_free]);
	cache->bins[slab->nr_free / 64] |= 1ull << (slab->nr_free % 64);
	cache->nr_free += slab->nr_free;
}

/* [4] held. */
void kvc_bin_del(struct kvc_slab *slab)
{
	struct kvc_cache *cache = slab->cache;

	kvc_list_del(&slab->bin);
	if (kvc_list_empty(&cache->bin[slab->nr_free]))
		cache->bins[slab->nr_free / 64] &= ~(1ull << (slab->nr_free % 64));
	cache->nr_free -= slab->nr_free;
}

/* [4] held. A slab without an owner goes into its bin, or, if all of it is free, away. */
void kvc_ownerless(struct kvc_slab *slab, struct kvc_op *op)
{
	if (slab->nr_free < slab->pages || slab->cache->pinned || !kvc_slab_dead(slab, NULL, op))
		kvc_bin_add(slab);
}

/* [2] held. A moving page of which a frame is pinned; the caller accounts for it. @why it was
 * zapped. */
void kvc_quarantine(struct kvc_slab *slab, u32 index, enum kvc_why why)
{
	if (why != KVC_ZAP_QUARANTINE)
		kvc_hook_quarantine(slab->pool->id, slab->cache->id, slab->cache->page_size,
				    kvc_page_handle(slab, index), true);
	kvc_write(slab->page[index].state, KVC_QUARANTINED);
	if (!slab->nr_quarantined++)
		kvc_list_add_tail(&slab->quarantine, &slab->pool->quarantine);
}

/*
 * [2] held, no other lock. A moving page, zapped, comes back to its slab: free, or quarantined if
 * it is @pinned. The slab's owner cannot vanish meanwhile, but may change until its lock is held.
 */
void kvc_page_back(struct kvc_slab *slab, u32 index, bool pinned, enum kvc_why why,
		   struct kvc_op *op)
{
	struct kvc_cache *cache = slab->cache;
	struct kvc_record *owner;
	struct kvc_client *client;
	struct kvc_share *share;

	if (pinned) {
		kvc_quarantine(slab, index, why);
		kvc_account(slab, 0, -1, 1, 0);
		return;
	}
	if (why == KVC_ZAP_QUARANTINE)
		kvc_hook_quarantine(slab->pool->id, slab->cache->id, slab->cache->page_size,
				    kvc_page_handle(slab, index), false);
again:
	kvc_lock_take(&cache->lock);
	owner = slab->owner;
	if (!owner) {
		if (!slab->transit)
			kvc_bin_del(slab);
		kvc_ring_put(slab, index);
		kvc_account(slab, -1, -1, 0, 0);
		if (!slab->transit)
			kvc_ownerless(slab, op);
		kvc_lock_drop(&cache->lock);
		return;
	}
	client = owner->client;
	kvc_lock_drop(&cache->lock);
	kvc_lock_take(&client->lock);
	kvc_lock_take(&cache->lock);
	if (slab->owner != owner) {
		kvc_lock_drop(&cache->lock);
		kvc_lock_drop(&client->lock);
		goto again;
	}
	kvc_lock_drop(&cache->lock);
	share = &client->share[cache->id];
	if (!slab->nr_free) {
		kvc_list_unlink(&owner->node);
		kvc_list_add(&owner->node, &share->room);
	}
	kvc_ring_put(slab, index);
	share->nr_free++;
	kvc_account(slab, -1, -1, 0, 0);
	kvc_lock_drop(&client->lock);
}

/* A slab that was picked: nobody holds or finds its pages any more. It leaves its pool for
 * op->dead. */
void kvc_strip(struct kvc_slab *slab, enum kvc_evict why, struct kvc_op *op)
{
	struct kvc_pool *pool = slab->pool;
	u32 i, moving = 0, quarantined;

	kvc_lock_take(&pool->lock);
	quarantined = slab->nr_quarantined;
	if (quarantined) {
		kvc_list_del(&slab->quarantine);
		slab->nr_quarantined = 0;
	}
	kvc_lock_drop(&pool->lock);

	kvc_lock_take(&pool->index.lock);
	kvc_list_del(&slab->park);
	for (i = 0; i < slab->pages; i++) {
		if (slab->page[i].state != KVC_INDEXED)
			continue;
		kvc_evict_entry(&slab->entry[i], why);
		moving++;
	}
	kvc_account(slab, 0, moving, 0, -(int)moving);
	kvc_lock_drop(&pool->index.lock);

	kvc_lock_take(&slab->cache->lock);
	kvc_bin_del(slab);
	kvc_leave(slab, moving, quarantined, op);
	kvc_lock_drop(&slab->cache->lock);
}

/*
 * Begin to look at the pool's quarantined pages again, KVC_ZAPS slabs at a time; each slab once in
 * an op. False: they have all been looked at.
 */
bool kvc_scan_quarantine(struct kvc_pool *pool, struct kvc_op *op)
{
	struct kvc_slab *slab;
	struct kvc_list *l;
	u32 i, n;

	kvc_lock_take(&pool->lock);
	if (!(op->flags & KVC_OP_SCANNED)) {
		op->flags |= KVC_OP_SCANNED;
		op->cursor = 0;
		kvc_list_for(l, &pool->quarantine)
			op->cursor++;
	}
	for (; op->cursor && op->nr_zaps < KVC_ZAPS; op->cursor--) {
		if (kvc_list_empty(&pool->quarantine)) {
			op->cursor = 0;
			break;
		}
		slab = container_of(pool->quarantine.next, struct kvc_slab, quarantine);
		kvc_list_del(&slab->quarantine);
		for (i = 0, n = 0; n < slab->nr_quarantined; i++) {
			if (slab->page[i].state != KVC_QUARANTINED)
				continue;
			kvc_write(slab->page[i].state, KVC_MOVING);
			kvc_zap_page(op, slab, i, KVC_ZAP_QUARANTINE, KVC_ZAPS);
			n++;
		}
		slab->nr_quarantined = 0;
		kvc_account(slab, 0, n, -(int)n, 0);
	}
	kvc_lock_drop(&pool->lock);
	return op->nr_zaps;
}
