// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "device.h"
#include "pool.h"

int kvslab_stat(struct kvslab_pool *pool, struct kvslab_stat *stat)
{
	struct kvc_stat s;
	double bytes, waste;

	if (!pool || !stat)
		return -EINVAL;
	if (pool->device)
		return device_stat(pool->device, stat);
	kvc_stat(pool->shared->core, &s);
	bytes = (double)s.slabs * KVSLAB_EXTENT_SIZE;
	/* Other clients go on while it counts: a slab may have left after its free pages were
	 * counted. */
	waste = (double)(s.free_bytes + s.tail_bytes + s.quarantined_bytes);
	if (bytes < waste)
		bytes = waste;
	*stat = (struct kvslab_stat){
		.free = s.free,
		.private_pages = s.private_pages,
		.moving = s.moving,
		.sealed = s.sealed,
		.cached = s.cached,
		.quarantined = s.quarantined,
		.slabs = s.slabs,
		.extents = s.slabs,
		.held = s.held,
		.min = s.min,
		.max = s.max,
		.arena_extents = s.arena_extents,
		.arena_free = s.arena_free,
		.clients = s.clients,
		.frag_partial = bytes > 0 ? (double)s.free_bytes / bytes : 0,
		.frag_tail = bytes > 0 ? (double)s.tail_bytes / bytes : 0,
		.frag_quarantine = bytes > 0 ? (double)s.quarantined_bytes / bytes : 0,
		.allocs = s.allocs,
		.frees = s.frees,
		.seals = s.seals,
		.seal_duplicates = s.seal_duplicates,
		.lookups = s.lookups,
		.lookup_hits = s.lookup_hits,
		.evictions = s.evictions,
		.takeovers = s.takeovers,
		.lookup_asked = s.lookup_asked,
		.failed = s.failed,
		.pressure = s.pressure,
	};
	return 0;
}

#define SLABS_STEP 32

int kvslab_slabs(struct kvslab_pool *pool, uint32_t *from, struct kvslab_slab *slabs, uint32_t n)
{
	struct kvc_slab_stat got[SLABS_STEP];
	uint32_t done = 0, want, i, k;

	if (!pool || !from || !slabs || !n || n > INT32_MAX)
		return -EINVAL;
	if (pool->device)
		return device_slabs(pool->device, from, slabs, n);
	do {
		want = n - done < SLABS_STEP ? n - done : SLABS_STEP;
		k = kvc_slabs(pool->shared->core, from, got, want);
		for (i = 0; i < k; i++)
			slabs[done + i] = (struct kvslab_slab){
				.extent = got[i].extent,
				.pages = got[i].pages,
				.free = got[i].free,
				.private_pages = got[i].private_pages,
				.moving = got[i].moving,
				.sealed = got[i].sealed,
				.cached = got[i].cached,
				.quarantined = got[i].quarantined,
			};
		done += k;
	} while (*from && done < n);
	return (int)done;
}

int kvslab_pool_check(struct kvslab_pool *pool, char *why, size_t n)
{
	char unread[256];

	if (!pool)
		return -EINVAL;
	if (!why || !n) {
		why = unread;
		n = sizeof(unread);
	}
	if (pool->device)
		return device_check(pool->device, why, n);
	return kvc_check(pool->shared->arena->core, why, n);
}
