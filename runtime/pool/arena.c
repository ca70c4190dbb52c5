// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include <sodium.h>

#include "pool.h"

void *pool_table(size_t size)
{
	void *table = aligned_alloc(KVC_ALIGN, (size + KVC_ALIGN - 1) & ~(size_t)(KVC_ALIGN - 1));

	if (table)
		memset(table, 0, size);
	return table;
}

int kvslab_arena_open(struct kvslab_arena **arena, uint64_t size)
{
	uint64_t extents = size / KVSLAB_EXTENT_SIZE;
	struct kvslab_arena *a;
	void *mem;
	int rc;

	if (!arena || !extents || extents > KVC_EXTENTS_MAX)
		return -EINVAL;
	if (sodium_init() < 0)
		return -EIO;
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	rc = pool_memory_open(&a->memory, (uint32_t)extents);
	if (rc)
		goto no_memory;
	mem = pool_table(kvc_arena_size((uint32_t)extents));
	if (!mem) {
		rc = -ENOMEM;
		goto no_core;
	}
	atomic_init(&a->holders, 1);
	pthread_mutex_init(&a->watch_lock, NULL);
	a->extents = (uint32_t)extents;
	/* A handle of another arena of the process shall not pass for one of this. */
	a->core = kvc_arena_init(mem, randombytes_uniform(KVC_ARENAS_MAX), (uint32_t)extents);
	*arena = a;
	return 0;

no_core:
	pool_memory_close(&a->memory);
no_memory:
	free(a);
	return rc;
}

void pool_arena_put(struct kvslab_arena *arena)
{
	if (atomic_fetch_sub_explicit(&arena->holders, 1, memory_order_acq_rel) != 1)
		return;
	kvc_arena_exit(arena->core); /* its pools held it: there are none */
	free(arena->core);
	pool_memory_close(&arena->memory);
	pthread_mutex_destroy(&arena->watch_lock);
	free(arena);
}

void kvslab_arena_close(struct kvslab_arena *arena)
{
	if (arena)
		pool_arena_put(arena);
}
