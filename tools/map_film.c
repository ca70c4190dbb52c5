// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* The picture over time: a panel for each pool, extents upwards, time to the right. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "map_svg.h"
#include "svg.h"

#define ROWS 64 /* of a panel at most */
#define COLUMNS 400
#define PLOT_H 256.0

struct column {
	uint32_t frame; /* which of the moments kept */
	struct kvslab_stat_pool pool;
	struct map_cell *cells; /* [rows] */
};

struct film_pool {
	char name[KVSLAB_NAME_SIZE];
	uint32_t low, high; /* extents, from the first on and below the second */
	uint32_t per, rows; /* extents to a row */
	struct column *columns;
	uint32_t n, room;
};

struct map_film {
	struct film_pool *pools;
	uint32_t n, frames, room;
	uint64_t first, last; /* ns since 1970 */
	uint64_t *times; /* of the frames */
	uint64_t spacing; /* ns between two frames at least */
	bool measured;
};

struct map_film *map_film_new(void)
{
	return calloc(1, sizeof(struct map_film));
}

void map_film_free(struct map_film *m)
{
	uint32_t i, j;

	if (!m)
		return;
	for (i = 0; i < m->n; i++) {
		for (j = 0; j < m->pools[i].n; j++)
			free(m->pools[i].columns[j].cells);
		free(m->pools[i].columns);
	}
	free(m->pools);
	free(m->times);
	free(m);
}

static struct film_pool *pool_of(struct map_film *m, const char *name)
{
	struct film_pool *more;
	uint32_t i;

	for (i = 0; i < m->n; i++)
		if (!strncmp(m->pools[i].name, name, KVSLAB_NAME_SIZE))
			return &m->pools[i];
	more = realloc(m->pools, (m->n + 1) * sizeof(*more));
	if (!more)
		return NULL;
	m->pools = more;
	memset(&more[m->n], 0, sizeof(*more));
	memcpy(more[m->n].name, name, KVSLAB_NAME_SIZE);
	more[m->n].low = UINT32_MAX;
	return &more[m->n++];
}

int map_film_measure(struct map_film *m, const struct snap *s)
{
	const struct kvslab_stat_slab *slabs;
	struct film_pool *p;
	uint32_t i, n;

	if (!m->last || s->time < m->first)
		m->first = s->time;
	if (s->time > m->last)
		m->last = s->time;
	for (i = 0; i < s->n; i++) {
		p = pool_of(m, s->pools[i].v.pool.name);
		if (!p)
			return -ENOMEM;
		slabs = s->pools[i].v.slabs;
		n = s->pools[i].v.nr_slabs;
		if (n && slabs[0].extent < p->low)
			p->low = slabs[0].extent;
		if (n && slabs[n - 1].extent >= p->high)
			p->high = slabs[n - 1].extent + 1;
	}
	return 0;
}

uint32_t map_film_pools(const struct map_film *m)
{
	return m->n;
}

static void plan(struct map_film *m)
{
	struct film_pool *p;
	uint32_t i;

	for (i = 0; i < m->n; i++) {
		p = &m->pools[i];
		if (p->low >= p->high)
			p->low = 0, p->high = 1;
		p->per = map_per_cell(p->high - p->low, ROWS);
		p->rows = (p->high - p->low + p->per - 1) / p->per;
	}
	m->spacing = (m->last - m->first) / COLUMNS;
	m->measured = true;
}

static int add_column(struct map_film *m, const struct snap_pool *q)
{
	struct film_pool *p = pool_of(m, q->v.pool.name);
	struct column *c;

	if (!p || !p->rows)
		return p ? 0 : -ENOMEM; /* no pool that was not measured */
	if (p->n && p->columns[p->n - 1].frame == m->frames)
		return 0; /* one name twice in one sample */
	if (p->n == p->room) {
		c = realloc(p->columns, (p->room * 2 + 64) * sizeof(*c));
		if (!c)
			return -ENOMEM;
		p->columns = c;
		p->room = p->room * 2 + 64;
	}
	c = &p->columns[p->n];
	c->frame = m->frames;
	c->pool = q->v.pool;
	c->cells = calloc(p->rows, sizeof(*c->cells));
	if (!c->cells)
		return -ENOMEM;
	p->n++;
	map_cells_at(q->v.slabs, q->v.nr_slabs, p->low, p->per, c->cells, p->rows);
	return 0;
}

int map_film_add(struct map_film *m, const struct snap *s)
{
	uint64_t *more;
	uint32_t i;
	int err = 0;

	if (!m->measured)
		plan(m);
	/* A clock that was set back leaves samples that lie beside those before: they are left out. */
	if (m->frames && (s->time <= m->times[m->frames - 1] || s->time - m->times[m->frames - 1] < m->spacing))
		return 0;
	if (m->frames == m->room) {
		more = realloc(m->times, (m->room * 2 + 64) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		m->times = more;
		m->room = m->room * 2 + 64;
	}
	for (i = 0; i < s->n && !err; i++)
		err = add_column(m, &s->pools[i]);
	m->times[m->frames++] = s->time;
	return err;
}

struct frame {
	const struct map_film *m;
	uint64_t step; /* ns that a column lasts when the next is far */
	double left, top, w, h; /* of the plot */
	double span; /* ns */
};

static double x_of(const struct frame *fr, uint64_t time)
{
	return fr->left + fr->w * (double)(time - fr->m->first) / fr->span;
}

/* Where what frame @i shows ends. */
static uint64_t until(const struct frame *fr, uint32_t i)
{
	const struct map_film *m = fr->m;
	uint64_t t = m->times[i];

	if (i + 1 < m->frames && m->times[i + 1] - t <= 3 * fr->step)
		return m->times[i + 1];
	return t + fr->step;
}

static bool same_look(const struct map_cell *a, const struct map_cell *b)
{
	return (a->slabs != 0) == (b->slabs != 0) && map_level(a) == map_level(b) &&
	       (!map_level(a) || map_kind(a) == map_kind(b));
}

static void draw_row(FILE *f, const struct frame *fr, const struct film_pool *p, uint32_t row)
{
	double h = fr->h / p->rows, y = fr->top + fr->h - h * (row + 1), x;
	const struct map_cell *c;
	uint32_t i, j;

	for (i = 0; i < p->n; i = j) {
		c = &p->columns[i].cells[row];
		for (j = i + 1; j < p->n; j++)
			if (!same_look(c, &p->columns[j].cells[row]) ||
			    p->columns[j].frame != p->columns[j - 1].frame + 1 ||
			    until(fr, p->columns[j - 1].frame) != fr->m->times[p->columns[j].frame])
				break;
		if (!c->slabs)
			continue;
		x = x_of(fr, fr->m->times[p->columns[i].frame]);
		svg_cell(f, x, y, x_of(fr, until(fr, p->columns[j - 1].frame)) - x, h > 3 ? h - .5 : h, c, 0);
	}
}

static void line(FILE *f, double x, double y, double u, double v)
{
	fprintf(f, "<line class=\"axis\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", x, y, u, v);
}

static void time_axis(FILE *f, const struct frame *fr)
{
	static const double steps[] = { .1, .2, .5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400,
					43200, 86400, 172800, 604800, 2592000, 31536000, 315360000 };
	double span = fr->span * 1e-9, step, unit, t, x, y = fr->top + fr->h;
	size_t i = 0;
	char when[40];
	const char *name;

	while (i + 1 < sizeof(steps) / sizeof(*steps) && span / steps[i] > 10)
		i++;
	step = steps[i];
	if (span / step > 1000) /* no clock ran for so long: a damaged one did */
		step = span / 10;
	unit = step < 60 ? 1 : step < 3600 ? 60 : step < 86400 ? 3600 : 86400;
	name = unit == 1 ? "seconds" : unit == 60 ? "minutes" : unit == 3600 ? "hours" : "days";
	for (t = 0; t <= span; t += step) {
		x = fr->left + fr->w * t / span;
		line(f, x, y, x, y + 5);
		svg_text(f, x, y + 18, "middle", "a", "%g", t / unit);
	}
	svg_text(f, fr->left + fr->w / 2, y + 36, "middle", "a", "%s since %s", name, svg_time(when, fr->m->first));
}

static void extent_axis(FILE *f, const struct frame *fr, const struct film_pool *p)
{
	double h = fr->h / p->rows;
	uint32_t row, step = (p->rows + 7) / 8;

	for (row = 0; row < p->rows; row += step) {
		line(f, fr->left - 5, fr->top + fr->h - h * row, fr->left, fr->top + fr->h - h * row);
		svg_text(f, fr->left - 9, fr->top + fr->h - h * row - h / 2 + 4, "end", "a", "%u", p->low + row * p->per);
	}
	svg_text_up(f, 20, fr->top + fr->h / 2, "extent");
}

static void panel(FILE *f, struct frame *fr, const struct film_pool *p)
{
	const struct kvslab_stat_pool *q = &p->columns[p->n - 1].pool;
	uint32_t row;

	svg_text(f, fr->left, fr->top - 12, "start", "h",
		 "%.31s: at the end %llu of %llu MiB held, %llu MiB more occupied, fragmentation %.1f%%; a row is %u MiB",
		 p->name, (unsigned long long)q->held * POOL_EXTENT_MIB, (unsigned long long)q->max * POOL_EXTENT_MIB,
		 (unsigned long long)snap_cached_extents(q) * POOL_EXTENT_MIB, 100 * snap_fragmentation(q),
		 p->per * POOL_EXTENT_MIB);
	fprintf(f, "<rect class=\"plot\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", fr->left, fr->top, fr->w,
		fr->h);
	for (row = 0; row < p->rows; row++)
		draw_row(f, fr, p, row);
	line(f, fr->left, fr->top, fr->left, fr->top + fr->h);
	line(f, fr->left, fr->top + fr->h, fr->left + fr->w, fr->top + fr->h);
	time_axis(f, fr);
	extent_axis(f, fr, p);
}

int map_film_svg(FILE *f, const struct map_film *m, const char *source, uint64_t step)
{
	struct frame fr = { .m = m, .left = SVG_LEFT, .w = SVG_PLOT_W, .h = PLOT_H };
	char sub[300], from[40], to[40];
	uint32_t i, shown = 0;
	double y = SVG_TOP;

	fr.step = step > m->spacing ? step : m->spacing;
	if (!fr.step)
		fr.step = 1000000000;
	fr.span = (double)(m->last - m->first) + (double)fr.step;
	for (i = 0; i < m->n; i++)
		shown += m->pools[i].n != 0;
	snprintf(sub, sizeof(sub), "%u %s, %s to %s, %s", shown, shown == 1 ? "pool" : "pools", svg_time(from, m->first),
		 svg_time(to, m->last), source);
	svg_begin(f, (int)(SVG_TOP + shown * (PLOT_H + 84)) + 8, "Slabs of KV-cache pages over time", sub,
		  "Grey: no slab of the pool");
	for (i = 0; i < m->n; i++) {
		if (!m->pools[i].n)
			continue;
		fr.top = y + 26;
		panel(f, &fr, &m->pools[i]);
		y += PLOT_H + 84;
	}
	svg_end(f);
	return 0;
}
