// SPDX-License-Identifier: GPL-2.0
/* What the core's calls ask for, done with none of its locks held. */
#include <linux/delay.h>
#include <linux/sched/signal.h>

#include "kmod.h"

/* A frame is in use where somebody beside us has a reference: a device, an I/O, a pipe. A poisoned
 * one never serves again. */
static bool in_use(u32 extent, u32 offset, u32 size)
{
	const struct kvslab_extent *x = &kvslab_extents[extent];
	u32 i;

	for (i = offset / PAGE_SIZE; i < (offset + size) / PAGE_SIZE; i++)
		if (page_ref_count(kvslab_frame(x, i)) != 1 || PageHWPoison(kvslab_frame(x, i)))
			return true;
	return false;
}

static bool marked(const u64 *bits, u32 i)
{
	return bits[i / 64] >> (i % 64) & 1;
}

static bool look(struct kvc_zap *zap)
{
	u32 pages = KVC_EXTENT_SIZE / zap->page_size, i;
	bool pinned = false;

	memset(zap->pinned, 0, sizeof(zap->pinned));
	for (i = 0; i < pages; i++) {
		if (!marked(zap->pages, i) || !in_use(zap->extent, i * zap->page_size, zap->page_size))
			continue;
		zap->pinned[i / 64] |= 1ull << (i % 64);
		pinned = true;
	}
	return pinned;
}

#define PATIENCE_FIRST 100 /* us, then twice as long, up to */
#define PATIENCE_STEP 12800
#define PATIENCE 2000000 /* us in all */

/*
 * After an unmapping; nobody can map the pages from here on. A seal does not fail for somebody who is
 * just letting go of them; it waits for that, as long as it is bearable. What is left is pinned.
 */
static bool still_pinned(struct kvslab_pool *pool, struct kvc_zap *zap)
{
	u32 us = PATIENCE_FIRST, all = 0;
	bool pinned, unmapping;

	for (;;) {
		unmapping = kvslab_window_unmapping(pool);
		smp_rmb(); /* references go before it says that it is done */
		pinned = look(zap);
		/* Once more in any case: get_user_pages() has a frame for a moment before it sees
		 * that it came too late. */
		if (!pinned || zap->why != KVC_ZAP_SEAL || (all && !unmapping) || all >= PATIENCE ||
		    fatal_signal_pending(current))
			return pinned;
		usleep_range(us, 2 * us);
		all += us;
		us = min(2 * us, (u32)PATIENCE_STEP);
	}
}

/* Unmaps runs of neighbours at once, then looks who still has them. */
static void zap(struct kvslab_pool *pool, struct kvc_zap *zap)
{
	struct kvslab_extent *x = &kvslab_extents[zap->extent];
	u32 pages = KVC_EXTENT_SIZE / zap->page_size, i, first;
	bool pinned;

	down_write(&x->map_sem);
	for (i = 0; i < pages; i++) {
		if (!marked(zap->pages, i))
			continue;
		for (first = i; i + 1 < pages && marked(zap->pages, i + 1);)
			i++;
		kvslab_unmap(pool, zap->extent, first * zap->page_size,
			     (i + 1 - first) * zap->page_size);
	}
	up_write(&x->map_sem);
	if (zap->waived)
		return;
	pinned = still_pinned(pool, zap);
	if (pinned && zap->why != KVC_ZAP_SEAL)
		kvslab_quarantine_kick();
}

static void take_back(struct kvc_need *need)
{
	kvfree(need->mem[0]);
	kvfree(need->mem[1]);
	need->mem[0] = need->mem[1] = NULL;
}

static bool supply_tables(struct kvc_need *need)
{
	need->mem[0] = kvslab_table_alloc(need->size[0]);
	if (need->size[1])
		need->mem[1] = kvslab_table_alloc(need->size[1]);
	if (need->mem[0] && (need->mem[1] || !need->size[1]))
		return true;
	take_back(need);
	return false;
}

static void supply(struct kvslab_pool *pool, struct kvc_need *need)
{
	if (supply_tables(need) && need->kind == KVC_NEED_SLAB && kvslab_extent_back(pool, need->extent))
		take_back(need);
}

/* A call of one pool may release extents of another one, which is kept by its slab until then. */
static void release(struct kvc_release *release)
{
	struct kvslab_extent *x = &kvslab_extents[release->extent];

	down_write(&x->map_sem);
	kvslab_extent_drop(x->pool, release->extent);
	up_write(&x->map_sem);
}

static void free_tables(struct kvc_op *op)
{
	void *table;

	while ((table = kvc_op_table(op)))
		kvfree(table);
}

/* Device memory is there, and nobody has it by us: there is nothing but tables to be had. */
static void serve_device(struct kvc_op *op)
{
	u32 i;

	for (i = 0; i < op->nr_needs; i++)
		supply_tables(&op->need[i]);
	free_tables(op);
	cond_resched();
}

void kvslab_serve(struct kvslab_pool *pool, struct kvc_op *op)
{
	u32 i;

	if (!pool) {
		serve_device(op);
		return;
	}
	for (i = 0; i < op->nr_releases; i++)
		release(&op->release[i]);
	for (i = 0; i < op->nr_zaps; i++)
		zap(pool, &op->zap[i]);
	for (i = 0; i < op->nr_needs; i++)
		supply(pool, &op->need[i]);
	free_tables(op);
	cond_resched();
}

void kvslab_serve_end(struct kvslab_pool *pool, struct kvc_op *op)
{
	free_tables(op);
	kvslab_wake(op);
}
