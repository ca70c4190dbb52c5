// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include <string.h>

#include "overview.h"

#define LOOK_NS 200000000ull /* between two looks, and as much again for each LOOK_EXTENTS */
#define LOOK_EXTENTS 65536 /* half a millisecond, if there are few slabs in them */
#define LOOK_SLABS 4096 /* at most in one; a millisecond */
#define STEP 64

static void add(struct map *m, const struct kvslab_slab *s)
{
	struct map_cell *c = &m->next[s->extent / m->extents];

	c->slabs++;
	c->pages += s->pages;
	c->in_use += s->private_pages + s->moving;
	c->sealed += s->sealed + s->quarantined;
	c->cached += s->cached;
}

void map_look(struct map *m, struct kvslab_pool *pool, uint64_t extents, uint64_t now)
{
	struct kvslab_slab slabs[STEP];
	uint32_t seen = 0;
	int i, n;

	if (m->looked && now - m->looked < LOOK_NS * (1 + extents / LOOK_EXTENTS))
		return;
	m->looked = now;
	m->extents = extents > MAP_CELLS ? (uint32_t)((extents + MAP_CELLS - 1) / MAP_CELLS) : 1;
	m->n = (uint32_t)((extents + m->extents - 1) / m->extents);
	do {
		n = kvslab_slabs(pool, &m->from, slabs, STEP);
		for (i = 0; i < n; i++)
			add(m, &slabs[i]);
		seen += n > 0 ? (uint32_t)n : 0;
	} while (n > 0 && m->from && seen < LOOK_SLABS);
	if (n < 0)
		m->n = 0; /* a pool that does not tell */
	if (m->from)
		return;
	memcpy(m->cells, m->next, sizeof(m->cells));
	memset(m->next, 0, sizeof(m->next));
}

void map_json(struct buf *b, const struct map *m)
{
	const struct map_cell *c;
	uint32_t i;

	buf_print(b, "{\"extents_a_cell\":%u,\"cells\":[", m->extents);
	for (i = 0; i < m->n; i++) {
		c = &m->cells[i];
		if (i)
			buf_text(b, ",");
		if (c->slabs)
			buf_print(b, "[%u,%u,%u,%u,%u]", c->slabs, c->pages, c->in_use, c->sealed, c->cached);
		else
			buf_text(b, "0");
	}
	buf_text(b, "]}");
}
