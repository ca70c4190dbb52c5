/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * What the views draw: all pools at one moment, as the module told them or as a recording has them. Nothing here asks
 * the module (snap_take.c does), draws, or prints.
 */
#ifndef TOOLS_SNAP_H
#define TOOLS_SNAP_H

#include "pool.h"

#define SNAP_CLASSES 8

/* What the BPF programs have counted of a cache since they were attached: pages, slabs, lookups. */
struct snap_trace {
	/* frag */
	uint64_t allocs, frees, releases, seals, duplicates, evictions, refused, slabs_new, slabs_freed,
		slabs_taken;
	/* prefix */
	uint64_t lookups, asked, found, regret, evicted[SNAP_CLASSES];
};

#define SNAP_FRAG (1u << 0)
#define SNAP_PREFIX (1u << 1)

struct snap_pool {
	struct pool_view v;
	uint32_t *tiers; /* of each cache, KVSLAB_TIER_* */
	struct snap_trace *traces; /* of each cache; zeros where nothing was counted */
};

struct snap {
	uint64_t time; /* ns since 1970 */
	uint64_t mono; /* ns of a clock that is never set */
	uint32_t traced; /* SNAP_FRAG, SNAP_PREFIX: what is counted */
	uint32_t n;
	uint64_t lost_full, lost_unknown; /* of what is counted, as bpf/maps.h says it */
	struct snap_pool *pools;
	char missing[240]; /* what is not in it, and why; or empty */
};

void snap_free(struct snap *s);
/* Pools, sorted: as @by says, what is most first, names A to Z; @back: the other way round. */
enum snap_sort { SNAP_NAME, SNAP_HELD, SNAP_CACHED, SNAP_PRIVATE, SNAP_SORTS };
extern const char *const snap_sort_names[SNAP_SORTS + 1];
void snap_sort(struct snap *s, enum snap_sort by, bool back);
/* The pool of that name, NULL if there is none. */
const struct snap_pool *snap_find(const struct snap *s, const char *name);
/* The same pool in @before, NULL if it was not there or was another one of that name. */
const struct snap_pool *snap_same(const struct snap *before, const struct snap_pool *p);
/* The counts of cache number @i, of this id in @before; NULL if they cannot be compared. */
const struct snap_trace *snap_trace_of(const struct snap_pool *before, uint32_t cache);

/* Bytes in a pool's slabs, and of these the bytes that hold nothing: free pages, tails, quarantine. */
uint64_t snap_slab_bytes(const struct kvslab_stat_pool *p);
double snap_fragmentation(const struct kvslab_stat_pool *p);
double snap_cache_fragmentation(const struct kvslab_stat_cache *c);
/* Extents that hold nothing but what is cached, or nothing: occupied, and not held. */
uint64_t snap_cached_extents(const struct kvslab_stat_pool *p);

/* @from of a count that only grows; a smaller one now means that it began anew. */
uint64_t snap_delta(uint64_t now, uint64_t from);

#endif
