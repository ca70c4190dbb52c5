// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* The picture of one moment: a panel for each pool, a square for each cell. */
#include "map_svg.h"

#include <errno.h>
#include <stdlib.h>

#include "svg.h"

#define COLUMNS 64
#define PITCH 13.5
#define SQUARE 12.5
#define ROOM (COLUMNS * 48) /* cells of a panel at most */

static int cells_of(const struct snap_pool *p)
{
	uint32_t n = p->v.nr_slabs, per = map_per_cell(n, ROOM);

	return (int)((n + per - 1) / per);
}

static double panel_height(const struct snap_pool *p)
{
	int rows = (cells_of(p) + COLUMNS - 1) / COLUMNS;

	return 74 + PITCH * (rows < 1 ? 1 : rows);
}

static void panel_cells(FILE *f, double y, const struct map_cell *cells, int n)
{
	const struct map_cell *c;
	int i;

	for (i = 0; i < n; i++) {
		c = &cells[i];
		if (i % COLUMNS == 0)
			svg_text(f, SVG_LEFT - 8, y + PITCH * (i / COLUMNS) + 10, "end", "a", "%u", c->first);
		svg_cell(f, SVG_LEFT + PITCH * (i % COLUMNS), y + PITCH * (i / COLUMNS), SQUARE, SQUARE, c, 1);
		fprintf(f,
			"<title>extents %u to %u, %u slabs: %llu of %llu pages in use; %llu private, %llu sealed, "
			"%llu cached, %llu quarantined</title></rect>\n",
			c->first, c->last, c->slabs, (unsigned long long)(c->pages - c->free),
			(unsigned long long)c->pages, (unsigned long long)(c->private_pages + c->moving),
			(unsigned long long)c->sealed, (unsigned long long)c->cached,
			(unsigned long long)c->quarantined);
	}
}

static int panel(FILE *f, double y, const struct snap_pool *p)
{
	const struct kvslab_stat_pool *q = &p->v.pool;
	uint32_t per = map_per_cell(p->v.nr_slabs, ROOM);
	struct map_cell *cells = calloc((size_t)cells_of(p) + 1, sizeof(*cells));
	int n;

	if (!cells)
		return -ENOMEM;
	svg_text(f, SVG_LEFT, y + 14, "start", "h",
		 "%.31s: %llu of %llu MiB held, %llu MiB more occupied, fragmentation %.1f%%", q->name,
		 (unsigned long long)q->held * POOL_EXTENT_MIB, (unsigned long long)q->max * POOL_EXTENT_MIB,
		 (unsigned long long)snap_cached_extents(q) * POOL_EXTENT_MIB, 100 * snap_fragmentation(q));
	n = (int)map_cells(p->v.slabs, p->v.nr_slabs, per, cells);
	if (n)
		panel_cells(f, y + 26, cells, n);
	else
		svg_text(f, SVG_LEFT, y + 38, "start", "t", "no slabs");
	svg_text(f, SVG_LEFT, y + panel_height(p) - 30, "start", "a",
		 "slabs in the order of their extents, %d cells to a row; at the left a row's first extent; a cell is %u MiB",
		 COLUMNS, per * POOL_EXTENT_MIB);
	if (n > COLUMNS * 3)
		svg_text_up(f, 16, y + 26 + PITCH * n / COLUMNS / 2, "extent");
	else
		svg_text(f, 8, y + 36, "start", "a", "extent");
	free(cells);
	return 0;
}

int map_svg(FILE *f, const struct snap *s, const char *source)
{
	double height = SVG_TOP, y = SVG_TOP;
	char when[40], sub[200];
	uint32_t i;
	int err = 0;

	for (i = 0; i < s->n; i++)
		height += panel_height(&s->pools[i]);
	snprintf(sub, sizeof(sub), "%u %s, %s, %s", s->n, s->n == 1 ? "pool" : "pools", svg_time(when, s->time), source);
	svg_begin(f, (int)height + 16, "Slabs of KV-cache pages", sub, "A square: slabs of a pool");
	for (i = 0; i < s->n && !err; i++) {
		err = panel(f, y, &s->pools[i]);
		y += panel_height(&s->pools[i]);
	}
	svg_end(f);
	return err;
}
