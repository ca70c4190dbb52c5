/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Hooks: events of the core, for tracing and for what its caller keeps beside it. A caller that
 * wants some names a header in KVC_HOOKS that defines them, as macros or functions with these
 * arguments; the others are nothing, and their arguments are not evaluated. They run under locks of
 * the core: they may not sleep, nor call it.
 *
 * pool, client: ids. cache: its id, size: bytes of its pages. tag: the first eight bytes of a hash.
 * data: the pool's kvc_pool_params.data.
 */
#ifndef KVC_HOOKS_H
#define KVC_HOOKS_H

enum kvc_left { /* what a page_free gave back */
		     KVC_LEFT_PRIVATE, /* a private page, which is free now */
		     KVC_LEFT_REFERENCE, /* one reference, or more */
		     KVC_LEFT_DUPLICATE, /* a private page whose seal found its hash there */
};

enum kvc_evict {
	KVC_EVICT_PAGE, /* for ALLOC, this page */
	KVC_EVICT_SLAB, /* for ALLOC, its whole slab */
	KVC_EVICT_RECLAIM, /* the caller wanted memory back */
	KVC_EVICT_END, /* of the pool */
};

enum kvc_reference { /* where a page_ref came from */
	KVC_REF_LOOKUP,
	KVC_REF_GET,
};

#ifdef KVC_HOOKS
#include KVC_HOOKS
#endif

#define KVC_NO_HOOK \
	do {        \
	} while (0)

#ifndef kvc_hook_page_alloc /* private to the client from here on */
#define kvc_hook_page_alloc(pool, client, cache, size, handle) KVC_NO_HOOK
#endif
#ifndef kvc_hook_page_free /* refs: references of all clients that remain */
#define kvc_hook_page_free(pool, client, cache, size, handle, left, refs) KVC_NO_HOOK
#endif
/* The same for n handles, all in one slab, at the call's end with them; one that stands in an array
 * of references is told as often as it stands there. */
#ifndef kvc_hook_pages_alloc
#define kvc_hook_pages_alloc(pool, client, cache, size, handles, n) KVC_NO_HOOK
#endif
#ifndef kvc_hook_pages_free
#define kvc_hook_pages_free(pool, client, cache, size, handles, n, left) KVC_NO_HOOK
#endif
#ifndef kvc_hook_page_seal /* handle: as it was private; sealed: what the client has now */
#define kvc_hook_page_seal(pool, client, cache, size, handle, sealed, tag, depth, class) KVC_NO_HOOK
#endif
/*
 * Two that answer: the class of a page that enters the index, and of one that a LOOKUP finds, for the
 * hits'th time since then. class: what the SEAL said; what it has. An answer above the highest class
 * is that class.
 */
#ifndef kvc_hook_class_sealed
#define kvc_hook_class_sealed(pool, cache, tag, depth, class) (class)
#endif
#ifndef kvc_hook_class_hit
#define kvc_hook_class_hit(pool, cache, tag, depth, hits, class) (class)
#endif
#ifndef kvc_hook_lookup /* tag: of the first hash that was not found; 0 if all were */
#define kvc_hook_lookup(pool, client, cache, asked, found, tag) KVC_NO_HOOK
#endif
#ifndef kvc_hook_page_ref /* a reference more; refs: of all clients, about; why: kvc_reference */
#define kvc_hook_page_ref(pool, client, cache, size, handle, why, refs) KVC_NO_HOOK
#define kvc_hooked_page_ref() false /* whether it is worth going through a batch */
#endif
#ifndef kvc_hook_get /* of count pages; error: 0, or negative and no reference was taken */
#define kvc_hook_get(pool, client, count, error) KVC_NO_HOOK
#endif
#ifndef kvc_hook_quarantine /* handle: of the page's next life, the same when it enters and leaves */
#define kvc_hook_quarantine(pool, cache, size, handle, enters) KVC_NO_HOOK
#endif
#ifndef kvc_hook_evict /* age: calls that touched the index since the page was used last */
#define kvc_hook_evict(pool, cache, size, handle, why, tag, depth, class, age) KVC_NO_HOOK
#endif
#ifndef kvc_hook_slab_new /* client: its owner, 0 in a pinned cache */
#define kvc_hook_slab_new(pool, client, cache, size, extent) KVC_NO_HOOK
#endif
#ifndef kvc_hook_slab_free /* cached, quarantined: pages that went with it */
#define kvc_hook_slab_free(pool, cache, size, extent, cached, quarantined) KVC_NO_HOOK
#endif
#ifndef kvc_hook_slab_take /* the owner changes from one client to another */
#define kvc_hook_slab_take(pool, from, to, cache, size, extent, free) KVC_NO_HOOK
#endif
#ifndef kvc_hook_quota /* an ALLOC is refused; error: EDQUOT, ENOSPC, ENOMEM, negative */
#define kvc_hook_quota(pool, client, cache, count, error, held, max) KVC_NO_HOOK
#endif
#ifndef kvc_hook_pressure
#define kvc_hook_pressure(pool, on, held, max) KVC_NO_HOOK
#endif
#ifndef kvc_hook_client /* it begins or ends; then: what it still held */
#define kvc_hook_client(pool, client, begins, privates, references) KVC_NO_HOOK
#endif
#ifndef kvc_hook_held /* the pool holds another number of extents, or its limits changed */
#define kvc_hook_held(data, held, min, max, low, high, pressure, rises) KVC_NO_HOOK
#endif
#ifndef kvc_hook_idle /* nobody holds the slab any more, or somebody does, or it goes */
#define kvc_hook_idle(data, extent, idle) KVC_NO_HOOK
#endif

#endif
