/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the core remembers. Only its own files include this; the lock order is at the head of
 * core.h. A comment
 * "[3]" names the lock of that list which guards a member; without one it never changes. */
#ifndef KVC_STATE_H
#define KVC_STATE_H

#include "core.h"
#include "hooks.h"
#include "list.h"

enum kvc_page_state {
	KVC_FREE,
	KVC_PRIVATE,
	KVC_MOVING,
	KVC_SEALING, /* moving, too: a SEAL is between its two halves */
	KVC_INDEXED, /* sealed with references, cached without */
	KVC_QUARANTINED,
	KVC_STATES,
};

enum kvc_extent_state {
	KVC_EXTENT_FREE,
	KVC_EXTENT_BACKING, /* reserved by a call: memory comes or goes */
	KVC_EXTENT_SLAB,
};

/* ---- arena ---- */

struct kvc_extent {
	struct kvc_slab *slab; /* [6] */
	u32 epoch; /* [6] first generation of the next slab's pages */
	u32 next; /* [6] in the list of free extents */
	u8 state; /* [6] */
};

struct kvc_arena {
	u32 id;
	u32 nr; /* extents */
	u32 epoch; /* at its beginning */
	bool device; /* its memory is there, and for one pool alone */
	u32 attention; /* [6] something is to be told to clients of some pool: see event.c */
	u32 untold; /* [6] pools with a waiter to be told of free extents */
	/* Not on the line that every FREE reads. */
	kvc_lock pools ____cacheline_aligned; /* 1 */
	kvc_lock lock; /* 6 */
	struct kvc_list list; /* [1] of pools */
	bool had; /* [1] a pool */
	u32 free; /* [6] head of the list of free extents, or NONE */
	u32 nr_free, nr_backing; /* [6] */
	u64 freed; /* [6] times that an extent became free, or a slab unheld or spare */
	u32 committed; /* [6] sum over the pools of max(held, min); at most nr */
	struct kvc_extent extent[];
};

#define KVC_NONE 0xffffffffu

/* ---- slab ---- */

/* An entry of the index. It exists for each page, and is in the index while the page is sealed or
 * cached. */
struct kvc_entry {
	struct kvc_list node; /* [5] in its cache's list of cached pages, while refs is 0 */
	struct kvc_entry *next; /* [5] in its bucket */
	struct kvc_slab *slab;
	u8 hash[KVC_HASH_SIZE]; /* [5] */
	u64 stamp; /* [5] of the call that used it last */
	u32 refs; /* [5] of all clients */
	u32 depth; /* [5] pages before it in its chain */
	u32 hits; /* [5] times that a LOOKUP found it; stays at the highest number */
	u16 index;
	u8 class; /* [5] changes only while there are references */
};

struct kvc_page {
	u32 generation; /* changes when the page leaves private or sealed; [3] or [4] as said in
			   core.h, [5] */
	u16 ring; /* the slab's ring of free pages: not of this page, of the ring's slot with its
		     number */
	u8 state; /* enum kvc_page_state; written as kvc_page_at() reads it, without a lock */
};

struct kvc_slab {
	struct kvc_pool *pool;
	struct kvc_cache *cache;
	struct kvc_entry *entry; /* [pages] */
	u32 extent;
	u32 epoch; /* generation at which its pages began */
	struct kvc_list bin; /* [4] in its cache, by nr_free, while ownerless; else in op->dead */
	struct kvc_list idle; /* [6] in its pool, by nr_indexed, while nobody holds it */
	struct kvc_list quarantine; /* [2] in its pool, while it has quarantined pages */
	u32 nr_quarantined; /* [2] */
	struct kvc_list parked; /* [5] cached pages that ALLOC cannot have now: see evict.c */
	struct kvc_list park; /* [5] in its cache, while there are any */
	u32 nr_ref; /* [5] pages with references */
	/*
	 * [6] Reasons for being held: 1 if it has an owner; 1 for each page that is private to
	 * another than the owner; 1 for each moving or quarantined page; 1 if a page is referenced.
	 */
	u32 holds;
	u32 nr_indexed; /* [6] pages sealed or cached */
	bool going; /* [6] on its way out: nobody may hold it any more */
	bool transit; /* [4] ownerless, on its way to a new owner: in no bin */
	struct kvc_slab *dead; /* next in op->dead */
	bool reuse; /* in op->dead: the extent is for this call */

	/* [3] of the owner, else [4]; on cache lines of their own */
	struct kvc_record *owner ____cacheline_aligned; /* changes under [3] of the owner and [4] */
	u32 owner_id; /* of that client, or 0 */
	u64 base; /* of handles: arena and extent */
	u64 last; /* serial of the client that last freed pages in it unzapped; 0: all free pages
		     are zapped */
	u16 pages;
	u16 nr_free;
	u16 head; /* of the ring: slot of the page that was freed first */
	struct kvc_page page[];
};

/* ---- client ---- */

/* In record->refs, beside counts of references to sealed pages. */
#define KVC_REFS_MAX 0x7fffffffu
#define KVC_HELD_PRIVATE 0x80000000u
#define KVC_HELD_LEAVING 0x80000001u /* private, in a batch that is being freed */
#define KVC_HELD_SEALING 0x80000002u /* moving, in a SEAL of this client */

/* What a client holds in a slab, or that it owns it. All [3] of the client. */
struct kvc_record {
	struct kvc_list node; /* in the client's room, full or guest */
	struct kvc_slab *slab; /* which stays while this record says that the client holds or owns
				  something */
	struct kvc_client *client;
	u32 extent;
	u16 pages;
	u16 nr_private; /* HELD_PRIVATE and HELD_LEAVING */
	u16 nr_sealing;
	u16 nr_leaving; /* of a batch, while FREE counts */
	u16 nr_refd; /* pages with a count */
	u8 cache;
	bool owner;
	u32 refs[];
};

/* A client's side of a cache. All [3]. */
struct kvc_share {
	struct kvc_list room; /* own slabs with free pages; the wholly free ones (spares) last */
	struct kvc_list full; /* own slabs without */
	struct kvc_list guest; /* records of slabs that it does not own */
	u32 nr_free; /* pages in room */
	u32 nr_spares;
	u32 spares_max;
	u32 nr_private; /* pages */
	u32 pages; /* a slab; 0: no such cache */
	u64 allocs, frees;
	u64 nr_refs; /* references to sealed pages */
	u32 nr_own; /* slabs */
	u32 page_size; /* bytes */
	bool pinned; /* spares are not for other caches */
} ____cacheline_aligned;

struct kvc_client {
	kvc_lock lock; /* 3 */
	bool waits; /* [2] it is in its pool's list of waiters */
	bool tell; /* [2] a waiter is to be told of pages that FREE gives back */
	u8 events; /* [2] KVC_EVENT_* */
	struct kvc_pool *pool;
	struct kvc_arena *arena;
	u64 serial; /* never used twice in a pool; not 0 */
	struct kvc_list node; /* [2] in its pool */
	struct kvc_share share[KVC_CACHES_MAX];
	struct kvc_list waiter; /* [2] in its pool */
	u64 seen; /* [2] arena->freed when it began to wait */
	struct kvc_record *map[] ____cacheline_aligned; /* by extent */
};

/* ---- cache, pool ---- */

struct kvc_cache {
	kvc_lock lock; /* 4 */
	u32 id;
	u32 page_size; /* bytes */
	u32 pages; /* a slab */
	bool pinned;
	u32 nr_free; /* [4] pages in bins */
	u64 bins[KVC_PAGES_MAX / 64 + 1]; /* [4] bit b: bin[b] is not empty */
	u32 nr_cached, nr_indexed; /* [5] pages */
	struct kvc_list evict[KVC_CLASSES]; /* [5] cached pages: least recent stamp first, then
					       deepest first */
	struct kvc_list parked; /* [5] slabs, by the first of their parked pages */
	u32 nr_idle; /* [6] slabs that nobody holds */
	u32 nr_slabs; /* [6] */
	u64 nr_quarantined, nr_moving; /* [6] pages */
	u64 takeovers; /* [4] */
	struct kvc_list bin[]; /* [4] ownerless slabs by number of free pages, 0 .. pages */
};

#define KVC_BUCKETS 64 /* to begin with */

struct kvc_index {
	kvc_lock lock; /* 5 */
	u64 secret[2];
	u64 stamp;
	u64 nr; /* entries */
	/* While the index grows, buckets below @moved have moved from old to table. */
	struct kvc_entry **table, **old, **retired;
	u64 mask, old_mask, moved;
	u64 seals, duplicates, lookups, asked, hits, evictions; /* pages */
	struct kvc_entry *first[KVC_BUCKETS];
};

struct kvc_pool {
	kvc_lock lock; /* 2 */
	struct kvc_arena *arena;
	struct kvc_list node; /* [1] in the arena */
	struct kvc_list clients; /* [2] */
	struct kvc_list quarantine; /* [2] slabs */
	struct kvc_list waiters; /* [2] clients, the one that has waited longest first */
	bool told; /* [2] the first of them was, of what became free */
	bool told_pressure; /* [2] what clients know of pressure */
	bool untold; /* [2] there is a waiter and it was not told; counted in arena->untold */
	u32 nr_clients; /* [2] */
	u64 serial; /* [2] of the last client */
	bool ending; /* [2] */
	u64 allocs, frees; /* [2] of clients that ended */
	u64 failed; /* [2] ALLOCs */
	u32 id;
	void *data;
	struct kvc_cache *cache[KVC_CACHES_MAX]; /* set once, under [2] */
	kvc_lock sealing; /* before 5 */
	struct kvc_index index; /* 5 */
	/* [6] */
	u32 min, max; /* extents */
	u32 low, high;
	bool pressure;
	u64 rises;
	u32 held; /* extents: held slabs and backing */
	u32 backing; /* extents reserved for slabs to come */
	u32 slabs;
	u32 busy; /* slabs that a call is taking out */
	u64 nr_moving, nr_quarantined; /* pages */
	u64 adrift;
	struct kvc_list idle[KVC_PAGES_MAX +
			     1]; /* slabs that nobody holds, by cached pages; longest idle first */
	u64 idles[KVC_PAGES_MAX / 64 + 1]; /* bit b: idle[b] is not empty */
};

/* ---- op ---- */

#define KVC_OP_NOMEM (1u << 0) /* a need was declined */
#define KVC_OP_NOTABLE (1u << 1) /* it was a table */
#define KVC_OP_PINNED (1u << 2) /* SEAL: a page is */
#define KVC_OP_SCANNED (1u << 3) /* quarantine was looked through */
#define KVC_OP_GROW (1u << 4) /* a bigger index was asked for */
#define KVC_OP_FREED (1u << 5) /* pages came back that another ALLOC may be waiting for */
#define KVC_OP_WAITS (1u << 6) /* ALLOC: the client waits; what failed is tried once more */

enum kvc_use { /* of a need's table */
	       KVC_USE_RECORD,
	       KVC_USE_INDEX,
};

/* The phases of an op; each call uses what it needs of them. */
enum kvc_phase {
	KVC_PHASE_NEW,
	KVC_PHASE_WORK,
	KVC_PHASE_UNDO,
	KVC_PHASE_END,
};

/* What a step of ALLOC says. */
#define KVC_STEP_NONE 0 /* nothing to be had here */
#define KVC_STEP_DONE 1 /* pages came, or may come now */
#define KVC_STEP_RECORD 2 /* a record is wanted first */

/* ---- arena.c: extents and quotas; all take [6] ---- */

int kvc_account(struct kvc_slab *slab, int holds, int moving, int quarantined, int indexed);
int kvc_charge(struct kvc_pool *pool, u32 *extent);
void kvc_uncharge(struct kvc_pool *pool, u32 extent);
void kvc_slab_enter(struct kvc_slab *slab);
bool kvc_slab_dead(struct kvc_slab *slab, struct kvc_pool *to, struct kvc_op *op);
struct kvc_slab *kvc_pick_idle(struct kvc_pool *pool);
struct kvc_slab *kvc_pick_extent(struct kvc_pool *pool, u32 extent);
void kvc_freed(struct kvc_arena *arena);
void kvc_spare_freed(struct kvc_arena *arena);
void kvc_held_changed(struct kvc_pool *pool);
int kvc_limit(struct kvc_pool *pool, u32 min, u32 max);
struct kvc_slab *kvc_pick_any(struct kvc_pool *pool, u32 *cursor);
struct kvc_slab *kvc_pick_for(struct kvc_pool *pool, bool others_only);
void kvc_leave(struct kvc_slab *slab, u32 moving, u32 quarantined, struct kvc_op *op);
void kvc_released(struct kvc_release *release, struct kvc_op *op);

/* ---- slab.c ---- */

size_t kvc_slab_size(u32 pages);
struct kvc_slab *kvc_slab_init(void *mem, struct kvc_pool *pool, struct kvc_cache *cache,
			       u32 extent);
void kvc_bin_add(struct kvc_slab *slab);
void kvc_bin_del(struct kvc_slab *slab);
void kvc_ownerless(struct kvc_slab *slab, struct kvc_op *op);
void kvc_quarantine(struct kvc_slab *slab, u32 index, enum kvc_why why);
void kvc_page_back(struct kvc_slab *slab, u32 index, bool pinned, enum kvc_why why,
		   struct kvc_op *op);
void kvc_strip(struct kvc_slab *slab, enum kvc_evict why, struct kvc_op *op);
bool kvc_scan_quarantine(struct kvc_pool *pool, struct kvc_op *op);

static inline u32 kvc_next_generation(u32 generation)
{
	generation = (generation + 1) & KVC_GENERATION_MASK;
	return generation ? generation : 1;
}

/* The page leaves those who knew its handle. */
static inline void kvc_page_leave(struct kvc_slab *slab, u32 index)
{
	kvc_write(slab->page[index].generation, kvc_next_generation(slab->page[index].generation));
}

/* Put a page at the ring's end. The caller holds the slab's guard and keeps the counts outside the
 * slab. */
static inline void kvc_ring_put(struct kvc_slab *slab, u32 index)
{
	u32 slot = slab->head + slab->nr_free;

	if (slot >= slab->pages)
		slot -= slab->pages;
	slab->page[slot].ring = index;
	kvc_write(slab->page[index].state, KVC_FREE);
	slab->nr_free++;
}

static inline u64 kvc_page_handle(const struct kvc_slab *slab, u32 index)
{
	return slab->base | (u64)index << 28 | slab->page[index].generation;
}

/* ---- pool.c ---- */

struct kvc_cache *kvc_cache_of(struct kvc_pool *pool, u32 id);

/* ---- client.c: records; the caller holds [3] ---- */

size_t kvc_record_size(u32 pages);
struct kvc_record *kvc_record_get(struct kvc_client *client, struct kvc_slab *slab,
				  struct kvc_op *op);
void kvc_settle(struct kvc_client *client, struct kvc_record *record, struct kvc_op *op);
void kvc_own(struct kvc_client *client, struct kvc_record *record);
void kvc_guest(struct kvc_client *client, struct kvc_record *record, struct kvc_op *op);
int kvc_not_held(const struct kvc_record *record, u64 handle);

/*
 * How many empty slabs a client keeps: each that is released and made again costs the clearing of an
 * extent, so that a batch should not run out of them, but a small pool should not seem full of them.
 */
static inline u32 kvc_spares_max(const struct kvc_pool *pool, u32 pages)
{
	u32 least = KVC_SPARE_PAGES / pages + 1, most = KVC_SPARE_BATCH / pages + 1;
	u32 share = kvc_read(pool->max) / KVC_SPARES_SHARE;

	if (most > KVC_SPARES_MAX)
		most = KVC_SPARES_MAX;
	if (most > share)
		most = share;
	return most > least ? most : least;
}

/* The owner has no private page in it left: if the slab is wholly free, and not one too many, it
 * stays as a spare. */
static inline bool kvc_keep_spare(struct kvc_share *share, struct kvc_record *record)
{
	const struct kvc_slab *slab = record->slab;

	if (slab->nr_free != slab->pages || share->nr_spares >= share->spares_max)
		return false;
	share->nr_spares++;
	kvc_list_unlink(&record->node);
	kvc_list_add_tail(&record->node, &share->room);
	/* Spares yield to whoever waits, in any pool. */
	if (unlikely(kvc_read(record->client->arena->untold)))
		kvc_spare_freed(record->client->arena);
	return true;
}

/* The record of @handle's slab, or NULL. */
static inline struct kvc_record *kvc_record_of(const struct kvc_client *client, u64 handle)
{
	const struct kvc_arena *arena = client->arena;
	u32 extent = kvc_handle_extent(handle);

	if (unlikely(extent >= arena->nr || kvc_handle_arena(handle) != arena->id))
		return NULL;
	return client->map[extent];
}

/* ---- index.c: the caller holds [5] ---- */

struct kvc_entry *kvc_find(struct kvc_index *index, u32 cache, const u8 *hash);
void kvc_insert(struct kvc_index *index, struct kvc_entry *entry);
void kvc_remove(struct kvc_index *index, struct kvc_entry *entry);
int kvc_ref(struct kvc_entry *entry);
void kvc_unref(struct kvc_entry *entry, u32 refs, struct kvc_list *cached);
void kvc_cache_entries(struct kvc_list *cached, u64 stamp);
void kvc_evict_entry(struct kvc_entry *entry, enum kvc_evict why);
bool kvc_grow_need(struct kvc_index *index, u32 n, struct kvc_op *op);
void kvc_grow(struct kvc_index *index, void *table, size_t size, struct kvc_op *op);
void kvc_retire(struct kvc_index *index, struct kvc_op *op);

/* ---- op.c ---- */

void kvc_table_free(struct kvc_op *op, void *table);

static inline void kvc_table_stash(struct kvc_op *op, void *mem)
{
	struct kvc_table *table = mem;

	table->next = op->stash;
	op->stash = table;
	op->nr_stash++;
}

struct kvc_need *kvc_need_table(struct kvc_op *op, enum kvc_use use, size_t size);
bool kvc_stash_fill(struct kvc_op *op, u32 pages, u32 n);
struct kvc_zap *kvc_zap_page(struct kvc_op *op, struct kvc_slab *slab, u32 index, enum kvc_why why,
			     u32 max);
bool kvc_more(struct kvc_op *op);
void kvc_collect(struct kvc_pool *pool, struct kvc_client *client, u64 *pages, struct kvc_op *op);
int kvc_op_end(struct kvc_pool *pool, struct kvc_op *op, int result);

/* ---- event.c ---- */

void kvc_tell(struct kvc_pool *pool, struct kvc_op *op);
void kvc_tell_freed(struct kvc_client *client, struct kvc_op *op);
void kvc_wait(struct kvc_client *client);
void kvc_wait_end(struct kvc_client *client, struct kvc_op *op);

static inline u8 kvc_class(u32 class)
{
	return class < KVC_CLASSES ? class : KVC_CLASSES - 1;
}

static inline u64 kvc_tag(const u8 *hash)
{
	u64 tag;

	memcpy(&tag, hash, sizeof(tag));
	return tag;
}

static inline bool kvc_hash_equal(const u8 *a, const u8 *b)
{
	return !memcmp(a, b, KVC_HASH_SIZE);
}

static inline bool kvc_bit(const u64 *bits, u32 i)
{
	return bits[i / 64] >> (i % 64) & 1;
}

/* ---- alloc.c, take.c, evict.c: how ALLOC gets pages ---- */

u32 kvc_take_own(struct kvc_share *share, u64 *pages, u32 n);
int kvc_take_ownerless(struct kvc_client *client, u32 id, u64 *pages, struct kvc_op *op);
int kvc_take_over(struct kvc_client *client, u32 id, struct kvc_op *op);
int kvc_take_cached(struct kvc_client *client, u32 id, struct kvc_op *op);
bool kvc_take_own_spares(struct kvc_client *client, u32 id, u32 n, struct kvc_op *op);
bool kvc_take_spare(struct kvc_pool *pool, u32 id, bool others, bool keep, struct kvc_op *op);
void kvc_spare_dead(struct kvc_client *client, struct kvc_record *record, struct kvc_pool *to,
		    struct kvc_op *op);
void kvc_unpark(struct kvc_slab *slab);
void kvc_taken(struct kvc_client *client, u64 *pages, struct kvc_zap *zap, struct kvc_op *op);

/* An owner's slab has it no more. The record's guard and [4] are held; lists are the caller's. */
static inline void kvc_disown(struct kvc_share *share, struct kvc_record *record)
{
	record->owner = false;
	record->slab->owner = NULL;
	kvc_write(record->slab->owner_id, 0);
	share->nr_own--;
}

/* ---- free.c ---- */

int kvc_undo(struct kvc_client *client, u64 *pages, struct kvc_op *op);

#endif
