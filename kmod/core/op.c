// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Ops: what a call asks of its caller, and what is done with the answers. */
#include "state.h"

void kvc_table_free(struct kvc_op *op, void *mem)
{
	struct kvc_table *table = mem;

	table->next = op->tables;
	op->tables = table;
}

/* NULL: op has as many needs as it can carry. */
struct kvc_need *kvc_need_table(struct kvc_op *op, enum kvc_use use, size_t size)
{
	struct kvc_need *need;

	if (op->nr_needs == KVC_NEEDS)
		return NULL;
	need = &op->need[op->nr_needs++];
	need->kind = KVC_NEED_TABLE;
	need->use = use;
	need->there = false;
	need->extent = KVC_NONE;
	need->size[0] = size;
	need->size[1] = 0;
	need->mem[0] = need->mem[1] = NULL;
	return need;
}

/* Ask for records until the stash holds @n. True: needs were added. */
bool kvc_stash_fill(struct kvc_op *op, u32 pages, u32 n)
{
	u32 have = op->nr_stash;

	while (have < n && kvc_need_table(op, KVC_USE_RECORD, kvc_record_size(pages)))
		have++;
	return op->nr_needs;
}

/* Add a moving page to op's zaps. NULL: it is in none of them, and op has @max already. */
struct kvc_zap *kvc_zap_page(struct kvc_op *op, struct kvc_slab *slab, u32 index, enum kvc_why why,
			     u32 max)
{
	struct kvc_zap *zap;
	u32 i;

	for (i = op->nr_zaps; i > 0 && op->zap[i - 1].slab != slab;)
		i--;
	if (i) {
		zap = &op->zap[i - 1];
	} else {
		if (op->nr_zaps >= max)
			return NULL;
		zap = &op->zap[op->nr_zaps++];
		zap->pool = slab->pool;
		zap->slab = slab;
		zap->extent = slab->extent;
		zap->page_size = slab->cache->page_size;
		zap->why = why;
		zap->waived = slab->cache->pinned || slab->pool->arena->device;
		memset(zap->pages, 0, sizeof(zap->pages));
		memset(zap->pinned, 0, sizeof(zap->pinned));
	}
	zap->pages[index / 64] |= 1ull << (index % 64);
	return zap;
}

/* Move slabs on their way out to op's releases. True: there is something for the caller to do. */
bool kvc_more(struct kvc_op *op)
{
	struct kvc_release *release;
	struct kvc_slab *slab;

	while (op->dead && op->nr_releases < KVC_RELEASES) {
		slab = op->dead;
		op->dead = slab->dead;
		release = &op->release[op->nr_releases++];
		release->pool = slab->pool;
		release->extent = slab->extent;
		release->reuse = slab->reuse;
		kvc_table_free(op, slab);
	}
	return op->nr_needs || op->nr_zaps || op->nr_releases;
}

static void collect_slab(struct kvc_pool *pool, struct kvc_client *client, struct kvc_need *need,
			 struct kvc_op *op)
{
	struct kvc_record *record;
	struct kvc_slab *slab;
	u32 i;

	if (!need->mem[0] || (need->size[1] && !need->mem[1])) {
		for (i = 0; i < 2; i++)
			if (need->mem[i])
				kvc_table_free(op, need->mem[i]);
		op->flags |= KVC_OP_NOMEM;
		kvc_uncharge(pool, need->extent);
		return;
	}
	slab = kvc_slab_init(need->mem[0], pool, pool->cache[need->use], need->extent);
	if (!client) { /* a pinned cache's */
		slab->dead = op->made;
		op->made = slab;
		op->done++;
		return;
	}
	kvc_table_stash(op, need->mem[1]);
	kvc_lock_take(&client->lock);
	record = kvc_record_get(client, slab, op);
	kvc_lock_take(&slab->cache->lock);
	kvc_own(client, record);
	kvc_slab_enter(slab);
	kvc_lock_drop(&slab->cache->lock);
	kvc_list_unlink(&record->node);
	kvc_list_add_tail(&record->node, &client->share[need->use].room);
	kvc_lock_drop(&client->lock);
}

static void collect_table(struct kvc_pool *pool, struct kvc_need *need, struct kvc_op *op)
{
	if (need->use == KVC_USE_RECORD) {
		if (need->mem[0])
			kvc_table_stash(op, need->mem[0]);
		else
			op->flags |= KVC_OP_NOTABLE;
	} else if (need->mem[0]) {
		kvc_lock_take(&pool->index.lock);
		kvc_grow(&pool->index, need->mem[0], need->size[0], op);
		kvc_lock_drop(&pool->index.lock);
	}
}

static void collect_pages_back(struct kvc_zap *zap, struct kvc_op *op)
{
	struct kvc_pool *pool = zap->pool;
	u32 w;
	u64 bits;

	kvc_lock_take(&pool->lock);
	for (w = 0; w < KVC_PAGES_MAX / 64; w++) {
		for (bits = zap->pages[w]; bits; bits &= bits - 1) {
			if (!(zap->pinned[w] >> kvc_ffs64(bits) & 1)) {
				op->back++;
				op->flags |= KVC_OP_FREED;
			}
			kvc_page_back(zap->slab, w * 64 + kvc_ffs64(bits),
				      zap->pinned[w] >> kvc_ffs64(bits) & 1, zap->why, op);
		}
	}
	kvc_lock_drop(&pool->lock);
}

static void collect_zap(struct kvc_client *client, u64 *pages, struct kvc_zap *zap,
			struct kvc_op *op)
{
	u32 w;

	if (zap->waived)
		memset(zap->pinned, 0, sizeof(zap->pinned));
	switch (zap->why) {
	case KVC_ZAP_SEAL:
		for (w = 0; w < KVC_PAGES_MAX / 64; w++)
			if (zap->pages[w] & zap->pinned[w])
				op->flags |= KVC_OP_PINNED;
		break;
	case KVC_ZAP_TAKE:
	case KVC_ZAP_EVICT:
		kvc_taken(client, pages, zap, op);
		break;
	default:
		collect_pages_back(zap, op);
	}
}

/* The caller has done what op asked for. @client and @pages: those of the call, where it has them.
 */
void kvc_collect(struct kvc_pool *pool, struct kvc_client *client, u64 *pages, struct kvc_op *op)
{
	u32 i;

	for (i = 0; i < op->nr_releases; i++)
		kvc_released(&op->release[i], op);
	op->nr_releases = 0;
	for (i = 0; i < op->nr_needs; i++) {
		if (op->need[i].kind == KVC_NEED_SLAB)
			collect_slab(pool, client, &op->need[i], op);
		else
			collect_table(pool, &op->need[i], op);
	}
	op->nr_needs = 0;
	for (i = 0; i < op->nr_zaps; i++)
		collect_zap(client, pages, &op->zap[i], op);
	op->nr_zaps = 0;
}

/* The call's result is known; what is left is to give things back. */
int kvc_op_end(struct kvc_pool *pool, struct kvc_op *op, int result)
{
	struct kvc_table *table;

	while (op->nr_slots)
		kvc_uncharge(pool, op->slots[--op->nr_slots]);
	while ((table = op->stash)) {
		op->stash = table->next;
		kvc_table_free(op, table);
	}
	op->nr_stash = 0;
	op->result = result;
	op->phase = KVC_PHASE_END;
	if (kvc_more(op))
		return KVC_MORE;
	kvc_tell(pool, op);
	return result;
}
