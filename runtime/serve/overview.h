/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* What the page at / shows: figures of now, and the pool as a map. The loop's thread. */
#ifndef SERVE_OVERVIEW_H
#define SERVE_OVERVIEW_H

#include "buf.h"
#include "kvslab.h"

#define MAP_CELLS 2048 /* most; in a larger pool a cell stands for several extents */

struct map_cell {
	uint32_t slabs; /* 0: nothing is here */
	uint32_t pages, in_use, sealed, cached; /* in_use: private and moving; quarantined counts as sealed */
};

/*
 * Zeroed is empty. However many clients ask, slabs are looked at a few times a second, less often in a huge arena, and so
 * many at once that the loop does not feel it; of a pool with more slabs the map is as old as a pass over them takes.
 */
struct map {
	struct map_cell cells[MAP_CELLS], next[MAP_CELLS]; /* the last whole pass; the one that goes on */
	uint32_t n; /* cells */
	uint32_t extents; /* a cell */
	uint32_t from; /* where the pass goes on */
	uint64_t looked; /* ns */
};

/* @now: ns. @extents: of the arena. */
void map_look(struct map *m, struct kvslab_pool *pool, uint64_t extents, uint64_t now);
/* {"extents_a_cell":1,"cells":[0,[slabs,pages,in_use,sealed,cached],...]} */
void map_json(struct buf *b, const struct map *m);

struct app;
/* The answer of /pool. */
void overview_json(struct buf *b, struct app *a);

#endif
