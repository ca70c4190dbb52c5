/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* The core's hooks in a test: they count, as a tracing tool would. */
#ifndef CORE_HOOKS_H
#define CORE_HOOKS_H

#define SEEN_POOLS 4 /* ids below that; others are not seen */
#define SEEN_EXTENTS 64

struct seen {
	/* now, as the events add up */
	s64 privates, indexed, slabs, idle, held, clients, quarantined;
	u64 looked_up, got, gets; /* references that LOOKUP and GET took; those that GET says */
	u64 run_allocs, run_frees; /* as told in runs of one slab */
	u64 allocs, frees, references, lookups, asked, found, seals, evictions, refused;
	bool is_idle[SEEN_EXTENTS];
	bool wrong; /* an event that cannot be */
};

extern struct seen core_seen[SEEN_POOLS];

#define kvc_hook_page_alloc(pool, client, cache, size, handle) \
	(core_seen[pool].privates++, core_seen[pool].allocs++, \
	 core_seen[pool].wrong |= !(client) || !(size) || !(handle) || (cache) >= KVC_CACHES_MAX)
#define kvc_hook_page_free(pool, client, cache, size, handle, left, left_refs) \
	(core_seen[pool].privates -= (left) != KVC_LEFT_REFERENCE, core_seen[pool].frees++, \
	 core_seen[pool].references += (left) == KVC_LEFT_REFERENCE, \
	 core_seen[pool].wrong |= !(client) || !(size) || !(handle) || (cache) >= KVC_CACHES_MAX || \
			     ((left) != KVC_LEFT_REFERENCE && (left_refs)))
/* The same again, in runs: they must come to the same. */
#define kvc_hook_pages_alloc(pool, client, cache, size, handles, n) \
	core_seen_run(pool, client, size, handles, n, &core_seen[pool].run_allocs)
#define kvc_hook_pages_free(pool, client, cache, size, handles, n, left) \
	core_seen_run(pool, client, size, handles, n, &core_seen[pool].run_frees)
/* A duplicate is private until it is freed. */
#define kvc_hook_page_seal(pool, client, cache, size, handle, sealed, tag, depth, class) \
	(core_seen[pool].privates -= (handle) == (sealed), core_seen[pool].indexed += (handle) == (sealed), \
	 core_seen[pool].seals++, core_seen[pool].wrong |= !(client) || !(size) || !(tag))
#define kvc_hook_lookup(pool, client, cache, n, hits, tag)                                    \
	(core_seen[pool].lookups++, core_seen[pool].asked += (n), core_seen[pool].found += (u32)(hits), \
	 core_seen[pool].wrong |= !(client) || !(tag) != ((n) == (u32)(hits)))
#define kvc_hooked_page_ref() true
#define kvc_hook_page_ref(pool, client, cache, size, handle, why, now_refs)                      \
	(core_seen[pool].looked_up += (why) == KVC_REF_LOOKUP, core_seen[pool].got += (why) == KVC_REF_GET, \
	 core_seen[pool].wrong |= !(client) || !(size) || !(handle) || (cache) >= KVC_CACHES_MAX || !(now_refs))
#define kvc_hook_get(pool, client, count, error) \
	(core_seen[pool].gets += (error) ? 0 : (count), core_seen[pool].wrong |= !(client) || (error) > 0)
#define kvc_hook_quarantine(pool, cache, size, handle, enters) \
	(core_seen[pool].quarantined += (enters) ? 1 : -1, core_seen[pool].wrong |= !(size) || !(handle))
#define kvc_hook_evict(pool, cache, size, handle, why, tag, depth, class, age) \
	(core_seen[pool].indexed--, core_seen[pool].evictions++, \
	 core_seen[pool].wrong |= !(size) || !(handle) || !(tag) || (why) > KVC_EVICT_END)
#define kvc_hook_slab_new(pool, client, cache, size, extent) \
	(core_seen[pool].slabs++, core_seen[pool].wrong |= !(size) || (extent) >= SEEN_EXTENTS)
#define kvc_hook_slab_free(pool, cache, size, extent, cached, lost) \
	(core_seen[pool].slabs--, core_seen[pool].quarantined -= (lost), core_seen[pool].wrong |= !(size) || (extent) >= SEEN_EXTENTS)
#define kvc_hook_slab_take(pool, from, to, cache, size, extent, free) \
	(core_seen[pool].wrong |= !(from) || !(to) || (from) == (to) || !(free))
#define kvc_hook_quota(pool, client, cache, count, error, now_held, max) \
	(core_seen[pool].refused++, core_seen[pool].wrong |= (error) >= 0 || !(count))
#define kvc_hook_client(pool, client, begins, n, references) \
	(core_seen[pool].clients += (begins) ? 1 : -1, core_seen[pool].wrong |= !(client))
#define kvc_hook_held(data, now_held, min, max, low, high, pressure, rises) \
	(((struct seen *)(data))->held = (now_held))
#define kvc_hook_idle(data, extent, now_idle) core_seen_idle(data, extent, now_idle)

static inline void core_seen_run(u32 pool, u32 client, u32 size, const u64 *handles, u32 n, u64 *sum)
{
	u32 i;

	*sum += n;
	core_seen[pool].wrong |= !client || !size || !n;
	for (i = 0; i < n; i++)
		core_seen[pool].wrong |= !handles[i] || handles[i] >> 38 != handles[0] >> 38;
}

static inline void core_seen_idle(void *data, u32 extent, bool idle)
{
	struct seen *s = data;

	s->wrong |= extent >= SEEN_EXTENTS || s->is_idle[extent % SEEN_EXTENTS] == idle;
	s->is_idle[extent % SEEN_EXTENTS] = idle;
	s->idle += idle ? 1 : -1;
}

#endif
