/* SPDX-License-Identifier: GPL-2.0 */
/* What the module wants to see of the core (core/hooks.h): tracepoints, the counters page, and the
 * list of slabs that may go back to the system. */
#ifndef _KVSLAB_CORE_HOOKS_H
#define _KVSLAB_CORE_HOOKS_H

#include "policy.h"
#include "trace.h"

/* event.c. Under the arena's lock. data: struct kvslab_pool. Counts in extents. */
void kvslab_hook_held(void *data, u32 held, u32 min, u32 max, u32 low, u32 high, bool pressure,
		      u64 rises);
/* tracerun.c. Handles of one slab, told as masks of 64. */
void kvslab_hook_pages_alloc(u32 pool, u32 client, u32 cache, u32 size, const u64 *pages, u32 n);
void kvslab_hook_pages_free(u32 pool, u32 client, u32 cache, u32 size, const u64 *pages, u32 n,
			    u32 left);
/* reclaim.c. Under the arena's lock: nobody holds the slab on @extent any more, or it is held again
 * or on its way out. */
void kvslab_hook_idle(void *data, u32 extent, bool idle);

#define kvc_hook_page_alloc(...) trace_kvslab_page_alloc(__VA_ARGS__)
#define kvc_hook_page_free(...) trace_kvslab_page_free(__VA_ARGS__)
#define kvc_hook_pages_alloc(...)                                \
	do {                                                     \
		if (trace_kvslab_pages_alloc_enabled())          \
			kvslab_hook_pages_alloc(__VA_ARGS__);    \
	} while (0)
#define kvc_hook_pages_free(...)                                 \
	do {                                                     \
		if (trace_kvslab_pages_free_enabled())           \
			kvslab_hook_pages_free(__VA_ARGS__);     \
	} while (0)
#define kvc_hook_page_seal(...) trace_kvslab_page_seal(__VA_ARGS__)
#define kvc_hook_lookup(...) trace_kvslab_lookup(__VA_ARGS__)
#define kvc_hook_page_ref(...) trace_kvslab_page_ref(__VA_ARGS__)
#define kvc_hooked_page_ref() trace_kvslab_page_ref_enabled()
#define kvc_hook_get(...) trace_kvslab_get(__VA_ARGS__)
#define kvc_hook_quarantine(...) trace_kvslab_quarantine(__VA_ARGS__)
#define kvc_hook_evict(...) trace_kvslab_evict(__VA_ARGS__)
#define kvc_hook_slab_new(...) trace_kvslab_slab_new(__VA_ARGS__)
#define kvc_hook_slab_free(...) trace_kvslab_slab_free(__VA_ARGS__)
#define kvc_hook_slab_take(...) trace_kvslab_slab_take(__VA_ARGS__)
#define kvc_hook_quota(...) trace_kvslab_quota(__VA_ARGS__)
#define kvc_hook_pressure(...) trace_kvslab_pressure(__VA_ARGS__)
#define kvc_hook_client(...) trace_kvslab_client(__VA_ARGS__)
#define kvc_hook_held(...) kvslab_hook_held(__VA_ARGS__)
#define kvc_hook_idle(...) kvslab_hook_idle(__VA_ARGS__)

#endif
