/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * The rules of the core in the simplest form: a table of pages, looked through from end to end for
 * every question. It knows nothing of lists, locks, owners, bins, needs or spares. Handles tell it
 * where pages are; zaps and releases tell it what was evicted, quarantined or given back.
 */
#ifndef CORE_MODEL_H
#define CORE_MODEL_H

#include "core.h"

#define MODEL_EXTENTS 16
#define MODEL_PAGES 32 /* a slab, at most */
#define MODEL_POOLS 3
#define MODEL_CLIENTS 9 /* in all pools */

enum model_state {
	MODEL_FREE,
	MODEL_PRIVATE,
	MODEL_SEALING,
	MODEL_SEALED, /* or cached */
	MODEL_QUARANTINED,
};

struct model_page {
	enum model_state state;
	u32 generation, life; /* last one handed out, and its extent's life then; 0: none yet */
	int holder;
	u64 writer; /* number of the client that may have it mapped writable; 0: none */
	u32 refs[MODEL_CLIENTS], all_refs;
	u32 hash, depth, class;
	u64 stamp;
	bool loose; /* cached together with others in an order that is not told */
};

struct model_extent {
	int pool, cache; /* -1: not known to be a slab */
	u32 life; /* counts releases */
	u32 pages;
	struct model_page page[MODEL_PAGES];
};

struct model_pool {
	bool there;
	u32 min, max;
	u32 pages[KVC_CACHES_MAX]; /* a slab of each cache; 0: none */
};

struct model {
	u32 nr;
	u64 stamp;
	struct model_pool pool[MODEL_POOLS];
	struct model_extent extent[MODEL_EXTENTS];
};

struct model_count {
	u64 private_pages, sealed, cached, quarantined;
};

struct model_page *model_page(struct model *m, u64 handle);
/* The page of that generation, if it is neither free nor quarantined. */
struct model_page *model_live(struct model *m, u64 handle);
struct model_page *model_find(struct model *m, int pool, int cache, u32 hash, u64 *handle);
bool model_holds(const struct model_page *page, int client);
bool model_has_record(struct model *m, u32 extent,
		      int client); /* of what it holds; not of spares */
bool model_is_held(const struct model_extent *extent);
u64 model_references(struct model *m, int client);
void model_count(struct model *m, int pool, struct model_count *count);
bool model_any_quarantined(struct model *m);

/* Pages that ALLOC could get; @max: the pool's max limits, @quarantine: what is quarantined stays
 * so. */
u64 model_obtainable(struct model *m, int pool, int cache, bool max, bool quarantine);
/* Whether the pool may hold one extent more: 0, -EDQUOT, -ENOSPC. */
int model_may_hold(struct model *m, int pool);
/* The slab of @pool that costs fewest cached pages of those that nobody holds; -1: none. */
int model_fewest(struct model *m, int pool);
u32 model_idle(struct model *m, int pool);

/* Whether @page was rightly evicted before all that is still cached in its cache. NULL, or why not.
 */
const char *model_evict_order(struct model *m, int pool, int cache, const struct model_page *page);

/* What a FREE, GET or SEAL says of a handle that the client may not use. @maybe: another errno that
 * is right too. */
int model_wrong(struct model *m, u64 handle, int client, u32 life, int *maybe);

#endif
