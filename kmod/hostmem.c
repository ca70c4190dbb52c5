// SPDX-License-Identifier: GPL-2.0
/*
 * The host's arena, and memory behind its extents. An extent is one block of order 9 where there is
 * one, split, so that each frame has a count of its own; else smaller blocks. Frames are zero when
 * they come and are charged to the pool's memory cgroup.
 */
#include <linux/log2.h>
#include <linux/sched/mm.h>
#include <linux/vmalloc.h>

#include "kmod.h"

struct kvc_arena *kvslab_arena;
struct kvslab_extent *kvslab_extents;
u32 kvslab_nr_extents;

#define EXTENT_ORDER (KVC_EXTENT_SHIFT - PAGE_SHIFT)
/* Without __GFP_RETRY_MAYFAIL the last try would kill somebody at a memory cgroup's limit. */
#define FRAMES_GFP (GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN)

int kvslab_host_init(u32 extents)
{
	void *mem;
	u32 i;

	mem = kvzalloc(kvc_arena_size(extents), GFP_KERNEL);
	kvslab_extents = kvcalloc(extents, sizeof(*kvslab_extents), GFP_KERNEL);
	if (!mem || !kvslab_extents) {
		kvfree(mem);
		kvfree(kvslab_extents);
		return -ENOMEM;
	}
	for (i = 0; i < extents; i++)
		init_rwsem(&kvslab_extents[i].map_sem);
	kvslab_nr_extents = extents;
	kvslab_arena = kvc_arena_init(mem, 0, extents);
	return 0;
}

void kvslab_host_exit(void)
{
	WARN_ON(kvc_arena_exit(kvslab_arena));
	kvfree(kvslab_arena);
	kvfree(kvslab_extents);
}

static void put_frames(struct kvslab_extent *x, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++)
		put_page(kvslab_frame(x, i));
	kvfree(x->frames);
	x->frames = NULL;
	x->base = NULL;
}

/* Smaller blocks, down to single frames, as large as they come. */
static int back_in_pieces(struct kvslab_extent *x, int node)
{
	u32 i = 0, k, order = EXTENT_ORDER - 1;
	struct page *block;

	x->frames = kvmalloc_array(KVSLAB_FRAMES, sizeof(*x->frames),
				   GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN);
	if (!x->frames)
		return -ENOMEM;
	while (i < KVSLAB_FRAMES) {
		block = alloc_pages_node(node,
					 FRAMES_GFP | (order ? __GFP_NORETRY : __GFP_RETRY_MAYFAIL),
					 order);
		if (!block && !order) {
			put_frames(x, i);
			return -ENOMEM;
		}
		if (!block) {
			order = order > 3 ? order - 3 : 0;
			continue;
		}
		split_page(block, order);
		for (k = 0; k < 1u << order; k++)
			x->frames[i++] = block + k;
		while (KVSLAB_FRAMES - i && KVSLAB_FRAMES - i < 1u << order)
			order--;
	}
	return 0;
}

int kvslab_extent_back(struct kvslab_pool *pool, u32 extent)
{
	struct kvslab_extent *x = &kvslab_extents[extent];
	struct mem_cgroup *old = set_active_memcg(pool->memcg);
	int r = 0;

	x->token = kvslab_token_alloc(pool, extent);
	if (!x->token) {
		r = -ENOMEM;
		goto out;
	}
	x->base = alloc_pages_node(pool->numa, FRAMES_GFP | __GFP_NORETRY, EXTENT_ORDER);
	if (x->base)
		split_page(x->base, EXTENT_ORDER);
	else
		r = back_in_pieces(x, pool->numa);
	if (r) {
		kvslab_token_free(x->token);
		x->token = NULL;
	} else {
		x->pool = pool;
	}
out:
	set_active_memcg(old);
	return r;
}

/* Frames that are still pinned live on by their pinner's reference. */
void kvslab_extent_drop(struct kvslab_pool *pool, u32 extent)
{
	struct kvslab_extent *x = &kvslab_extents[extent];

	kvslab_unmap(pool, extent, 0, KVC_EXTENT_SIZE);
	put_frames(x, KVSLAB_FRAMES);
	kvslab_token_free(x->token);
	x->token = NULL;
	x->pool = NULL;
}

void *kvslab_table_alloc(size_t size)
{
	/* Small sizes that are no power of two have no alignment to speak of. */
	if (size < PAGE_SIZE)
		size = roundup_pow_of_two(size);
	return kvzalloc(size, GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN);
}
