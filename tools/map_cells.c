// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "map_cells.h"

#include <string.h>

const char *const map_kind_names[MAP_KINDS] = { "private", "sealed", "cached", "quarantined" };

unsigned int map_level(const struct map_cell *c)
{
	uint64_t used = c->pages > c->free ? c->pages - c->free : 0;

	if (!used)
		return 0;
	return used == c->pages ? 4 : 1 + (unsigned int)(3 * used / c->pages);
}

enum map_kind map_kind(const struct map_cell *c)
{
	const uint64_t n[MAP_KINDS] = { c->private_pages + c->moving, c->sealed, c->cached, c->quarantined };
	enum map_kind kind = MAP_PRIVATE, i;

	for (i = MAP_SEALED; i < MAP_KINDS; i++)
		if (n[i] > n[kind])
			kind = i;
	return kind;
}

static void add(struct map_cell *c, const struct kvslab_stat_slab *s)
{
	if (!c->slabs)
		c->first = s->extent;
	c->last = s->extent;
	c->slabs++;
	c->pages += s->pages;
	c->free += s->free;
	c->private_pages += s->private_pages;
	c->moving += s->moving;
	c->sealed += s->sealed;
	c->cached += s->cached;
	c->quarantined += s->quarantined;
}

static bool in_tier(const struct snap_pool *p, uint32_t cache, uint32_t tier)
{
	uint32_t i;

	if (tier == MAP_ANY_TIER)
		return true;
	for (i = 0; i < p->v.nr_caches; i++)
		if (p->v.caches[i].id == cache)
			return p->tiers[i] == tier;
	return false;
}

uint32_t map_slabs(const struct snap_pool *p, uint32_t tier, struct kvslab_stat_slab *out)
{
	uint32_t i, n = 0;

	for (i = 0; i < p->v.nr_slabs; i++)
		if (in_tier(p, p->v.slabs[i].cache, tier))
			out[n++] = p->v.slabs[i];
	return n;
}

uint32_t map_per_cell(uint32_t n, uint32_t room)
{
	if (!room)
		room = 1;
	return n <= room ? 1 : (n + room - 1) / room;
}

uint32_t map_cells(const struct kvslab_stat_slab *s, uint32_t n, uint32_t per, struct map_cell *out)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (i % per == 0)
			memset(&out[i / per], 0, sizeof(*out));
		add(&out[i / per], &s[i]);
	}
	return (n + per - 1) / per;
}

void map_cells_at(const struct kvslab_stat_slab *s, uint32_t n, uint32_t from, uint32_t per,
		  struct map_cell *out, uint32_t room)
{
	uint32_t i;

	memset(out, 0, room * sizeof(*out));
	for (i = 0; i < n; i++)
		if (s[i].extent >= from && (s[i].extent - from) / per < room)
			add(&out[(s[i].extent - from) / per], &s[i]);
}
