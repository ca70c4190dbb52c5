/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* The map of a pool: cells of some slabs each, in the order of their extents. */
#ifndef TOOLS_MAP_CELLS_H
#define TOOLS_MAP_CELLS_H

#include "snap.h"

#define MAP_ANY_TIER UINT32_MAX

struct map_cell {
	uint32_t first, last; /* extents */
	uint32_t slabs; /* 0: nothing of the pool lies there */
	uint64_t pages, free, private_pages, moving, sealed, cached, quarantined;
};

/* How full: 0 nothing, 1 less than a third, 2 less than two thirds, 3 not quite, 4 full. */
#define MAP_LEVELS 5
unsigned int map_level(const struct map_cell *c);

/* What most of its pages that are not free are. */
enum map_kind { MAP_PRIVATE, MAP_SEALED, MAP_CACHED, MAP_QUARANTINED, MAP_KINDS };
extern const char *const map_kind_names[MAP_KINDS];
enum map_kind map_kind(const struct map_cell *c);

/* The slabs whose cache lies in @tier: fills @out, which has room for all; how many. */
uint32_t map_slabs(const struct snap_pool *p, uint32_t tier, struct kvslab_stat_slab *out);
/* Slabs to a cell, so that @n slabs take at most @room cells. */
uint32_t map_per_cell(uint32_t n, uint32_t room);
/* @per slabs to a cell; how many cells. @out has room for them. */
uint32_t map_cells(const struct kvslab_stat_slab *s, uint32_t n, uint32_t per, struct map_cell *out);
/* Cells of @per extents each from extent @from on, as many as @room; those outside are left out. */
void map_cells_at(const struct kvslab_stat_slab *s, uint32_t n, uint32_t from, uint32_t per,
		  struct map_cell *out, uint32_t room);

#endif
