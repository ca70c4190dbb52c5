/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The core: the allocator of KV-cache pages, as a pure state machine. The kernel module and the
 * embedded pool of the library are its two callers. It never sleeps, allocates, copies from user
 * memory or touches the contents of a page; it has no global state.
 *
 * Objects. The caller supplies the memory of each: kvc_X_size() bytes, zeroed, aligned to
 * KVC_ALIGN, and frees it after the object's end.
 *
 *   arena   an array of extents (free, backing, slab), each with an epoch for its next slab's
 * generations. The memory of extent x is the caller's affair; the core only says when it is needed
 * and when not; that of a device arena is always there. pool    a trust domain in one arena, with min and max extents. Holds caches,
 * clients, the index. cache   the slabs of one page size in a pool; the ownerless ones by the
 * number of free pages. slab    an extent cut into pages: a ring of free pages, per page a state, a
 * generation, an index entry. Its owner is the client that may allocate from it. A slab in which
 * its owner has no private page has no owner, but a few wholly free ones are kept by the client
 * that freed them (spares). client  an opener of a pool. For each slab that it owns, or holds
 * something of, it has a record: per page "private", or a count of references. What is not in a
 * record is not the client's. index   hash -> sealed or cached page, for the whole pool; per cache
 * and class a list of cached pages.
 *
 * Locks, in the order in which they are taken; at most one of each kind, all of them spinlocks that
 * are held for a bounded time and never when a call returns:
 *
 *   1. arena->pools   the list of pools
 *   2. pool->lock     the list of clients (so: that another client does not vanish), the list of
 * slabs with quarantined pages
 *   3. client->lock   its records, counts and lists of own slabs; of its own slabs the ring, and
 * the state and generation of every page that is free; the state of pages that are private to it
 *   4. cache->lock    the ownerless slabs: ring, state and generation of free pages, lists. A
 * slab's owner changes under 3 (of the owner) and 4
 *   5. pool->index    index, references, state of sealed and cached pages, eviction lists; before it,
 * in the second half of SEAL alone, pool->sealing: one batch enters the index at a time
 *   6. arena->lock    state and epoch of extents; what is held; quotas; slabs that nobody holds
 *
 * There is no lock of a slab: a slab's ring is guarded by its owner's lock, or by its cache's if it
 * has no owner, so that the common ALLOC and FREE take one lock that nobody else wants. A page on
 * its way between two states is *moving*: it is in no ring and not in the index, and belongs to the
 * call that moves it; no lock is needed for that. The debug walk alone takes several locks of one
 * kind.
 *
 * Calls that may need something have a struct kvc_op and this form:
 *
 *   struct kvc_op op;
 *
 *   kvc_op_init(&op);
 *   while ((r = kvc_alloc(client, cache, pages, n, flags, &op)) == KVC_MORE)
 *           ... supply or decline op.need[0 .. op.nr_needs)
 *           ... execute op.zap[0 .. op.nr_zaps), setting pinned
 *           ... execute op.release[0 .. op.nr_releases)
 *   while ((table = kvc_op_table(&op)))     (also sooner)
 *           free(table);
 *
 * with the same arguments each time and no lock held. Whatever KVC_MORE asked for must be done (or
 * declined), and the call made again until it returns something else: between the calls pages are
 * moving and quota is reserved. So each call that has two halves is *begun* by the first and
 * *finished* by a later one. Arrays of handles, hashes and seals are the caller's own memory,
 * unchanged by others until the end. An op is used by one call.
 *
 * Unless a call says otherwise, any thread may make any call at any time; a client or pool may not
 * be ended while a call on it is running. All return 0 or a count, KVC_MORE, or a negative errno.
 * Errors that many calls share:
 *
 *   -EINVAL   n of 0 or above KVC_BATCH_MAX, an unknown flag, a cache that is not there; nothing
 * changed -ESTALE   a generation that the page had once, in a slab that the client has a record of
 *   -EBADF    any other handle that is not the client's (so that it learns nothing about others)
 */
#ifndef KVC_CORE_H
#define KVC_CORE_H

#include "port.h"

#define KVC_EXTENT_SHIFT 21
#define KVC_EXTENT_SIZE (1u << KVC_EXTENT_SHIFT) /* bytes */
#define KVC_FRAME_SIZE 4096u /* bytes; the smallest page */
#define KVC_PAGES_MAX (KVC_EXTENT_SIZE / KVC_FRAME_SIZE) /* pages in a slab */
#define KVC_EXTENTS_MAX (1u << 20) /* extents in an arena */
#define KVC_ARENAS_MAX (1u << 6)
#define KVC_BATCH_MAX 1024u /* handles or hashes in a call */
#define KVC_CACHES_MAX 16u /* page sizes in a pool */
#define KVC_CLASSES 8u /* of eviction; a higher one stays longer */
#define KVC_HASH_SIZE 32u /* bytes */
#define KVC_ALIGN 64u /* bytes, of all memory given to the core */
#define KVC_WAKES 8 /* in an op */
#define KVC_SPARE_PAGES \
	16u /* a client keeps empty slabs for so many pages of a cache, and one more; in a large pool
	     * for KVC_SPARE_BATCH, as long as these are not too many */
#define KVC_SPARE_BATCH 64u /* pages */
#define KVC_SPARES_MAX 8u /* slabs, and a 1/KVC_SPARES_SHARE of what the pool may hold */
#define KVC_SPARES_SHARE 16u

#define KVC_MORE 0x7fffffff /* do what op asks for, then call again */

struct kvc_arena;
struct kvc_pool;
struct kvc_client;
struct kvc_slab;
struct kvc_record;

/* ---- handles: arena 6 bits, extent 20, index in the slab 10, generation 28 (never 0) ---- */

#define KVC_GENERATION_BITS 28
#define KVC_GENERATION_MASK ((1u << KVC_GENERATION_BITS) - 1)

static inline u64 kvc_handle(u32 arena, u32 extent, u32 index, u32 generation)
{
	return (u64)arena << 58 | (u64)extent << 38 | (u64)index << 28 | generation;
}

static inline u32 kvc_handle_arena(u64 handle)
{
	return (u32)(handle >> 58);
}

static inline u32 kvc_handle_extent(u64 handle)
{
	return (u32)(handle >> 38) & (KVC_EXTENTS_MAX - 1);
}

static inline u32 kvc_handle_index(u64 handle)
{
	return (u32)(handle >> 28) & 1023;
}

static inline u32 kvc_handle_generation(u64 handle)
{
	return (u32)handle & KVC_GENERATION_MASK;
}

/* ---- needs and effects ---- */

enum kvc_need_kind {
	KVC_NEED_TABLE, /* memory for a table: size[0] bytes to mem[0] */
	KVC_NEED_SLAB, /* memory behind an extent, and tables: size[i] bytes to mem[i] */
};

/*
 * To supply: set mem[0] (and mem[1] where size[1] is not 0) to zeroed memory aligned to KVC_ALIGN;
 * for NEED_SLAB, put memory without old bytes behind the extent first. To decline: leave mem[0]
 * NULL, and nothing behind the extent. A need reserves slot and quota. After a decline the call
 * makes do with what the pool has, or fails with -ENOMEM.
 */
struct kvc_need {
	u8 kind;
	u8 use; /* the core's */
	bool there; /* NEED_SLAB: the memory is (a device arena's), tables alone are wanted */
	u32 extent;
	size_t size[2];
	void *mem[2]; /* NULL when the call returns */
};

enum kvc_why {
	KVC_ZAP_SEAL, /* private pages become read-only */
	KVC_ZAP_FREE, /* pages freed outside their holder's own slabs */
	KVC_ZAP_TAKE, /* free pages of a slab that comes to another owner */
	KVC_ZAP_EVICT, /* cached pages that go to the caller */
	KVC_ZAP_QUARANTINE, /* quarantined pages are looked at again */
};

/*
 * Unmap these pages, wherever in the pool they are mapped, then set in @pinned the bit of each page
 * of which some frame is still in use by a device or an I/O. Bit i of word w is the page with index
 * 64 w + i. The pages are moving: a fault on them must fail.
 */
struct kvc_zap {
	struct kvc_pool *pool;
	struct kvc_slab *slab; /* the core's */
	u32 extent;
	u32 page_size; /* bytes */
	u8 why;
	bool waived; /* a pinned cache's, or of device memory: whether frames are in use does not
			matter, don't look */
	u64 pages[KVC_PAGES_MAX / 64];
	u64 pinned[KVC_PAGES_MAX / 64]; /* 0 when the call returns */
};

/* Unmap this extent and take the memory from behind it. The slab is gone already; frames that are
 * still pinned live on by their pinner's reference. */
struct kvc_release {
	struct kvc_pool *pool;
	u32 extent;
	bool reuse; /* the core's: the extent stays reserved for this call */
};

#define KVC_NEEDS 8
#define KVC_ZAPS 6
#define KVC_RELEASES 8

struct kvc_table {
	struct kvc_table *next;
};

struct kvc_op {
	/* for the caller, after KVC_MORE */
	u32 nr_needs, nr_zaps, nr_releases;
	/* for the caller, when the call has ended: entries of wake */
	u32 nr_wakes;
	/* the core's */
	u32 phase;
	u32 done; /* of a batch */
	u32 wanted; /* of a batch: what is still tried for */
	u32 flags; /* KVC_OP_* of state.h */
	u32 nr_slots;
	int result;
	u64 stamp;
	struct kvc_slab *dead; /* slabs on their way out */
	struct kvc_table *tables; /* for the caller to free */
	struct kvc_table *stash; /* records supplied and not used yet */
	struct kvc_slab *made; /* for a pinned cache, until all are there */
	struct kvc_client *waiter; /* whose ALLOC failed */
	u32 cursor;
	u32 nr_stash;
	u32 back; /* pages that came back to their slabs */
	/* not initialised */
	u32 wake[KVC_WAKES]; /* ids of pools in which some client has a new event: wake who polls */
	u32 slots[KVC_RELEASES]; /* extents reserved for this call, without memory */
	struct kvc_need need[KVC_NEEDS];
	struct kvc_release release[KVC_RELEASES];
	struct kvc_zap zap[KVC_ZAPS];
};

static inline void kvc_op_init(struct kvc_op *op)
{
	/* In two, for plain stores: for the whole, compilers take a string instruction that costs 7
	 * ns. */
	memset(op, 0, offsetof(struct kvc_op, dead));
	memset((char *)op + offsetof(struct kvc_op, dead), 0,
	       offsetof(struct kvc_op, wake) - offsetof(struct kvc_op, dead));
}

/*
 * For who may not sleep: ALLOC, FREE and LOOKUP then end at their first call, or give -EAGAIN and
 * have changed nothing (but the order of eviction, where LOOKUP had found pages already). The other
 * calls have no use for it; GET never needs anything, SEAL always does.
 */
#define KVC_OP_NOWAIT (1u << 31)

static inline void kvc_op_init_nowait(struct kvc_op *op)
{
	kvc_op_init(op);
	op->flags = KVC_OP_NOWAIT;
}

/* The next table that the caller is to free, or NULL. Its memory is as it came through a need (or
 * kvc_cache_add()). */
static inline void *kvc_op_table(struct kvc_op *op)
{
	struct kvc_table *table = op->tables;

	if (table)
		op->tables = table->next;
	return table;
}

/* ---- objects ---- */

/* @id: the arena's part of handles. @extents: 1 .. KVC_EXTENTS_MAX. */
size_t kvc_arena_size(u32 extents);
struct kvc_arena *kvc_arena_init(void *mem, u32 id, u32 extents);
/*
 * A *device* arena: memory that is there and stays, and that the caller cannot unmap or look at. So
 * its slabs need tables alone, a release has nothing to do, a zap finds no page in use, and none is
 * ever quarantined. It belongs to one pool from that one's beginning on, and never to a second.
 * @epoch: 0, or what kvc_arena_epoch() said at the end of the arena that had this id before: then no
 * handle of that one names a page of this one.
 */
struct kvc_arena *kvc_arena_init_device(void *mem, u32 id, u32 extents, u32 epoch);
/* Where the generations of an arena that takes over the id may begin. Its pool has ended. */
u32 kvc_arena_epoch(struct kvc_arena *arena);
/* -EBUSY: a pool is left. Otherwise the memory may be freed. */
int kvc_arena_exit(struct kvc_arena *arena);

struct kvc_pool_params {
	u32 min; /* extents, set aside now */
	u32 max; /* extents; at most what the arena has */
	u64 secret[2]; /* random: places hashes in the index */
	/* watermarks, extents held: pressure begins above high and ends at low; high 0: never */
	u32 low, high;
	u32 id; /* as wakes and hooks say it */
	void *data; /* the caller's, for hooks */
};

size_t kvc_pool_size(void);
/* -EINVAL: min > max, or max beyond the arena; -ENOSPC: the arena cannot guarantee min; -EBUSY: a
 * device arena that has, or had, its pool. */
int kvc_pool_init(void *mem, struct kvc_arena *arena, const struct kvc_pool_params *params,
		  struct kvc_pool **pool);
/* Gives everything back. -EBUSY: it has clients, or a call of another pool is taking a slab from it
 * just now (try again). When it returns 0, op's tables include the memory of the caches, and the
 * pool's own may be freed. */
int kvc_pool_exit(struct kvc_pool *pool, struct kvc_op *op);

/* Change min, max, low and high; the rest of @params is not looked at. -EINVAL as above, or low >
 * high; -EBUSY: more than max is held; -ENOSPC: the arena cannot guarantee min. */
int kvc_pool_set(struct kvc_pool *pool, const struct kvc_pool_params *params, struct kvc_op *op);

/* The cache's id, or -ENOENT. */
int kvc_cache_find(struct kvc_pool *pool, u32 page_size);
/* 0 for a page_size that is not a multiple of the frame or exceeds the extent. */
size_t kvc_cache_size(u32 page_size);
/* The new cache's id; @mem then belongs to the pool. -EEXIST: somebody was faster; -ENOSPC:
 * KVC_CACHES_MAX reached; -EINVAL. */
int kvc_cache_add(struct kvc_pool *pool, void *mem, u32 page_size);
/*
 * The same for a *pinned* cache: memory that a device registers. Its slabs are made by
 * kvc_cache_fill() and by nothing else, and stay until the pool ends. Frames in use are expected
 * there: pages are never quarantined, seals never -EBUSY.
 */
int kvc_cache_add_pinned(struct kvc_pool *pool, void *mem, u32 page_size);
/* Make slabs until pinned cache @id has @slabs; 0. All or none. -EINVAL: no such cache, or not
 * pinned; -EDQUOT, -ENOSPC, -ENOMEM. */
int kvc_cache_fill(struct kvc_pool *pool, u32 id, u32 slabs, struct kvc_op *op);
/* Pages a slab of cache @id, or -EINVAL; @page_size may be NULL. */
int kvc_cache_pages(struct kvc_pool *pool, u32 id, u32 *page_size);

size_t kvc_client_size(struct kvc_pool *pool);
/* -EINVAL: the pool is ending. */
int kvc_client_init(void *mem, struct kvc_pool *pool, struct kvc_client **client);
/* The same with the id of @twin, a client of another pool: the same user, as hooks and figures say it.
 * In one pool all clients are made this way, or none. */
int kvc_client_init_as(void *mem, struct kvc_pool *pool, const struct kvc_client *twin,
		       struct kvc_client **client);
/* Frees the client's private pages, drops its references. Then its memory may be freed. Never
 * fails. */
int kvc_client_exit(struct kvc_client *client, struct kvc_op *op);

/* ---- calls ---- */

#define KVC_PARTIAL (1u << 0)

/*
 * ALLOC: @n private pages of cache @id; the count (n without KVC_PARTIAL, 1 .. n with it). In this
 * order: the client's own slabs; an ownerless slab, the fullest with room; a free extent (or, below
 * the pool's min, one that another pool only caches in); another client's slab with room, taken
 * over; a cached page of this cache in the pool, evicted; an extent that other caches or pools only
 * cache in, or keep as spare. What could be had is counted before anything is evicted. -EDQUOT: the
 * pool's max is in the way; -ENOSPC: everything is held; -ENOMEM: a need was declined.
 */
int kvc_alloc(struct kvc_client *client, u32 id, u64 *pages, u32 n, u32 flags, struct kvc_op *op);

/* FREE: private pages become free, of sealed ones a reference goes; a page without references is
 * cached. All or nothing. A handle may stand in the batch as often as the client has references to
 * it. -ESTALE, -EBADF. */
int kvc_free(struct kvc_client *client, const u64 *pages, u32 n, struct kvc_op *op);

/* GET: one more reference to each of @n sealed pages that the client has one to. All or nothing.
 * -ESTALE; -EBADF, also for private pages; -EOVERFLOW: 2^31 references to a page. */
int kvc_get(struct kvc_client *client, const u64 *pages, u32 n);

#define KVC_SEAL_ROOT (1u << 0)

struct kvc_seal {
	u64 page; /* in: private; out: the sealed page with this hash */
	u8 hash[KVC_HASH_SIZE];
	u8 parent[KVC_HASH_SIZE]; /* hash of the page before it, in the same cache */
	u32 depth; /* pages before it */
	u8 class; /* 0 .. KVC_CLASSES - 1 */
	u8 flags; /* KVC_SEAL_ROOT: no parent is looked for */
	u16 state; /* the core's; 0 on entry */
	u64 was; /* the core's: the page as it was handed in */
};

/*
 * SEAL: private pages of one cache become read-only and enter the index. All or nothing. *Begin*
 * marks them moving and asks for zaps; *finish* enters them, or restores private if one was pinned
 * (-EBUSY). A hash that is there wins: the seal's page is replaced by that one, to which the client
 * gets a reference, and the duplicate goes back to its slab as by FREE. -ENOENT: the client does
 * not hold the parent, nor does it stand earlier in this call; -EINVAL: class, flags, pages of two
 * caches; -EDQUOT, -ENOSPC: a limit forbids the reference to a cached duplicate; -ENOMEM, -ESTALE,
 * -EBADF.
 */
int kvc_seal(struct kvc_client *client, struct kvc_seal *seals, u32 n, struct kvc_op *op);

/* LOOKUP: references the longest run of hashes[0 .. n) that cache @id has, and returns its length.
 * A limit or a declined need makes it shorter. */
int kvc_lookup(struct kvc_client *client, u32 id, const u8 (*hashes)[KVC_HASH_SIZE], u32 n,
	       u64 *pages, struct kvc_op *op);

/* Release up to @n slabs that nobody holds, those that cost the fewest cached pages first; how
 * many. */
int kvc_reclaim(struct kvc_pool *pool, u32 n, struct kvc_op *op);
/* Release the slab on @extent, if nobody holds it, or a client only keeps it as a spare: 0, or
 * -EBUSY. No needs, no zaps, one release at most. */
int kvc_reclaim_extent(struct kvc_pool *pool, u32 extent, struct kvc_op *op);
/* Extents that clients only keep as spares, up to @n of them; how many are in @extents. They may be
 * in use again by the time that the caller looks. */
u32 kvc_spares(struct kvc_pool *pool, u32 *extents, u32 n);
/* Look at all quarantined pages of the pool again; how many became free. ALLOC does so itself
 * before it fails. */
int kvc_unquarantine(struct kvc_pool *pool, struct kvc_op *op);

struct kvc_where {
	u32 extent;
	u32 offset; /* bytes in the extent */
	u32 size; /* bytes */
	bool writable; /* private to the client */
};

/* Where a page is that the client holds. -ESTALE, -EBADF; also -EBADF while the page is moving. */
int kvc_where(struct kvc_client *client, u64 page, struct kvc_where *where);

struct kvc_at {
	u32 offset; /* bytes in the extent */
	u32 size; /* bytes */
	u32 index; /* in the slab */
	bool writable; /* private to the client */
	bool readable; /* not moving: whatever it is, its bytes are this pool's */
	bool sealing; /* moving because it is being sealed: a reader may wait for that */
};

/*
 * For a fault: what is at byte @offset of @extent, as @client (or, where that is NULL, anyone) sees
 * it. -ENXIO: no page of this pool. The answer is that of a moment. To make it last, the caller has
 * a lock for each extent, takes it shared around this call and what it does with the answer, and
 * exclusive around each zap and release of that extent, and around putting memory behind it. Pages
 * are moving before the first half of a call returns and until its second begins. So what a fault
 * maps because it came before, the zap takes away; what comes after the zap finds the page moving,
 * until it is decided who may see it.
 */
int kvc_page_at(struct kvc_pool *pool, struct kvc_client *client, u32 extent, u32 offset,
		struct kvc_at *at);

/* ---- events ---- */

/*
 * A client whose ALLOC failed with -ENOSPC or -EDQUOT waits, until it allocates or ends. When pages
 * or extents become free, the pool's first waiter is told: ROOM. The next one is told when that one
 * has allocated, or ended. Whoever makes a call that brings events finds the pools in op.wake.
 */
#define KVC_EVENT_ROOM (1u << 0)
#define KVC_EVENT_PRESSURE (1u << 1) /* held rose above the high watermark */
#define KVC_EVENT_RELIEF (1u << 2) /* and came back to the low one; of these two, the later one */

/* The client's events; @clear: and forget them. */
u32 kvc_events(struct kvc_client *client, bool clear);

/* ---- counts ---- */

struct kvc_stat {
	/* pages by state */
	u64 free, private_pages, moving, sealed, cached, quarantined;
	u64 slabs; /* = extents that this pool occupies */
	u64 held, min, max; /* extents */
	u64 arena_extents, arena_free, arena_backing;
	u64 clients;
	u64 free_bytes, tail_bytes, quarantined_bytes; /* of the slabs' slabs * KVC_EXTENT_SIZE */
	/* since the pool began, in pages; takeovers in slabs */
	u64 allocs, frees, seals, seal_duplicates, lookups, lookup_asked, lookup_hits, evictions,
		takeovers;
	u64 adrift; /* quarantined pages whose extent left the pool */
	u64 failed; /* ALLOCs that ended with -ENOSPC, -EDQUOT or -ENOMEM */
	u64 low, high; /* extents */
	u64 rises; /* times that pressure began */
	bool pressure;
};

/* Each part is exact at some moment of the call. */
void kvc_stat(struct kvc_pool *pool, struct kvc_stat *stat);

struct kvc_cache_stat {
	u32 page_size; /* bytes */
	u32 pages; /* a slab */
	bool pinned;
	u64 slabs;
	u64 free, private_pages, moving, sealed, cached, quarantined; /* pages */
};

/* -EINVAL: no such cache. Ids run from 0 without a gap. */
int kvc_cache_stat(struct kvc_pool *pool, u32 id, struct kvc_cache_stat *stat);

struct kvc_client_stat {
	u32 id; /* of the clients of a pool that are open, no two have the same; not 0 */
	u64 private_pages;
	u64 references; /* to sealed pages */
	u64 slabs; /* that it owns */
	u64 held_bytes; /* of its private pages */
};

u32 kvc_client_id(const struct kvc_client *client);
void kvc_client_stat(struct kvc_client *client, struct kvc_client_stat *stat);
/* All clients of a pool; returns how many there are, writes as many as fit. */
u32 kvc_clients(struct kvc_pool *pool, struct kvc_client_stat *stats, u32 n);

struct kvc_slab_stat {
	u32 extent;
	u32 owner; /* id of the client that allocates from it; 0: nobody */
	u32 cache, pages;
	u32 free, private_pages, moving, sealed, cached, quarantined;
};

/* Slabs of the pool, in the order of their extents, from extent *@from on; how many were written,
 * at most @n. *@from becomes where to go on; 0: that was all. */
u32 kvc_slabs(struct kvc_pool *pool, u32 *from, struct kvc_slab_stat *slabs, u32 n);

/*
 * The debug walk: checks the rules over all pools of the arena, all locks held (so every other call
 * waits). 0, or -EUCLEAN with the broken rule in @why. For tests, and for whoever doubts.
 */
int kvc_check(struct kvc_arena *arena, char *why, size_t n);

#endif
