// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Pinned caches: their slabs are made here, all at once, and are held for ever, because there is a
 * device that knows their memory. So nobody takes them for another cache or pool, and quarantine
 * has no meaning.
 */
#include "state.h"

/* A slab that none of the rest was there for. It goes the way of all slabs. */
static void give_up(struct kvc_op *op)
{
	struct kvc_slab *slab;

	while ((slab = op->made)) {
		op->made = slab->dead;
		kvc_lock_take(&slab->cache->lock);
		kvc_slab_enter(slab);
		kvc_slab_dead(slab, NULL, op);
		kvc_lock_drop(&slab->cache->lock);
	}
}

static void enter(struct kvc_op *op)
{
	struct kvc_slab *slab;

	while ((slab = op->made)) {
		op->made = slab->dead;
		slab->dead = NULL;
		kvc_lock_take(&slab->cache->lock);
		kvc_slab_enter(slab);
		kvc_bin_add(slab);
		kvc_lock_drop(&slab->cache->lock);
	}
}

/* Reserve the next extents. 0: needs or releases were added; else why there is none. */
static int want(struct kvc_pool *pool, u32 id, u32 n, struct kvc_op *op)
{
	struct kvc_need *need;
	struct kvc_slab *slab;
	u32 extent;
	int r = 0;

	while (n && op->nr_needs < KVC_NEEDS) {
		if (op->nr_slots) {
			extent = op->slots[--op->nr_slots];
			r = 0;
		} else {
			r = kvc_charge(pool, &extent);
		}
		if (r)
			break;
		need = &op->need[op->nr_needs++];
		need->kind = KVC_NEED_SLAB;
		need->there = pool->arena->device;
		need->use = id;
		need->extent = extent;
		need->size[0] = kvc_slab_size(pool->cache[id]->pages);
		need->size[1] = 0;
		need->mem[0] = need->mem[1] = NULL;
		n--;
	}
	if (op->nr_needs)
		return 0;
	if (r == -EAGAIN) {
		slab = kvc_pick_for(pool, false);
		if (slab)
			kvc_strip(slab, KVC_EVICT_SLAB, op);
		else
			kvc_take_spare(pool, KVC_NONE, true, true, op);
		r = -ENOSPC;
	} else {
		kvc_take_spare(pool, KVC_NONE, r == -ENOSPC, true, op);
	}
	return kvc_more(op) ? 0 : r;
}

int kvc_cache_fill(struct kvc_pool *pool, u32 id, u32 slabs, struct kvc_op *op)
{
	struct kvc_cache *cache;
	u32 have;
	int r;

	if (op->phase) {
		kvc_collect(pool, NULL, NULL, op);
		if (op->phase == KVC_PHASE_END)
			return kvc_op_end(pool, op, op->result);
	}
	cache = kvc_cache_of(pool, id);
	if (!cache || !cache->pinned)
		return -EINVAL;
	op->phase = KVC_PHASE_WORK;
	kvc_lock_take(&pool->arena->lock);
	have = cache->nr_slabs + op->done;
	kvc_lock_drop(&pool->arena->lock);
	r = op->flags & KVC_OP_NOMEM ? -ENOMEM : 0;
	if (!r && have < slabs) {
		r = want(pool, id, slabs - have, op);
		if (!r)
			return KVC_MORE;
	}
	if (r)
		give_up(op);
	else
		enter(op);
	op->flags |= KVC_OP_FREED;
	return kvc_op_end(pool, op, r);
}
