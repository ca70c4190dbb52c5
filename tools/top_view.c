// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "top_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "map_cells.h"

#define NAME_W 12
#define MAP_LABEL 8 /* columns before a row of the map */
#define MAP_ROWS 16 /* of a text */
#define NUMBERS_W 28 /* four of them */
#define RATES_W 22
#define RATES_FROM 72 /* columns from which there are rates in the lines of pools */

static const uint32_t shades[2][MAP_LEVELS] = { { 0xb7, 0x2591, 0x2592, 0x2593, 0x2588 },
						{ '.', '-', '+', '*', '#' } };

/* What is drawn, with where it is drawn from. */
struct page {
	struct screen *s;
	const struct snap *now, *before;
	const struct snap_pool *chosen;
	const struct top_view *v;
	double seconds; /* since before; 0: no rates */
};

/* Rows of each part, with its heading; 0: left out. */
struct rows {
	int pools, caches, clients, map;
};

static const struct snap_pool *chosen_of(const struct snap *s, const struct top_view *v)
{
	const struct snap_pool *p = v->pool[0] ? snap_find(s, v->pool) : NULL;

	return p ? p : s->n ? &s->pools[0] : NULL;
}

void top_choose(struct top_view *v, const struct snap *s, int step)
{
	const struct snap_pool *p = chosen_of(s, v);
	long at;

	if (!p)
		return;
	at = p - s->pools + step;
	if (at < 0)
		at = 0;
	if (at >= (long)s->n)
		at = (long)s->n - 1;
	memcpy(v->pool, s->pools[at].v.pool.name, sizeof(v->pool));
}

/* Bytes in at most six columns. */
static const char *size_text(char out[16], uint64_t bytes)
{
	static const char units[] = "KMGTP";
	double x = (double)bytes / 1024;
	int unit = 0;

	while (x >= 1024 && units[unit + 1]) {
		x /= 1024;
		unit++;
	}
	snprintf(out, 16, x < 100 && x != (double)(long)x ? "%.1f%c" : "%.0f%c", x, units[unit]);
	return out;
}

static const char *extents_text(char out[16], uint64_t extents)
{
	return size_text(out, extents * KVSLAB_CMD_EXTENT);
}

/* A count in at most seven columns. */
static const char *count_text(char out[16], double x)
{
	static const char units[] = "kMGTP";
	int unit = -1;

	while (x >= 100000 && units[unit + 1]) {
		x /= 1000;
		unit++;
	}
	snprintf(out, 16, x > 0 && x < 10 && x != (double)(long)x ? "%.1f" : "%.0f", x);
	if (unit >= 0)
		snprintf(out + strlen(out), 3, "%c", units[unit]);
	return out;
}

/* What happened in a second, or "-" where that is not known. */
static const char *rate_text(char out[16], const struct page *p, bool known, uint64_t now, uint64_t from)
{
	if (!known || !(p->seconds > 0)) {
		strcpy(out, "-");
		return out;
	}
	return count_text(out, (double)snap_delta(now, from) / p->seconds);
}

static const char *hits_text(char out[16], bool known, uint64_t found, uint64_t asked)
{
	if (known && asked)
		snprintf(out, 16, "%.1f", 100.0 * (double)found / (double)asked);
	else
		strcpy(out, "-");
	return out;
}

static void bar(const struct page *p, int y, int x, int w, const struct kvslab_stat_pool *q)
{
	uint64_t limit = q->max ? q->max : 1, held, cached, guaranteed;
	int i, inside = w - 2;
	uint32_t ch;
	enum screen_attr attr;

	if (inside < 1)
		return;
	/* What is there at all has a column. */
	held = (q->held * (uint64_t)inside + limit - 1) / limit;
	cached = ((q->held + snap_cached_extents(q)) * (uint64_t)inside + limit - 1) / limit;
	guaranteed = q->min * (uint64_t)inside / limit;
	screen_char(p->s, y, x, '[', SCREEN_PLAIN);
	screen_char(p->s, y, x + w - 1, ']', SCREEN_PLAIN);
	for (i = 0; i < inside; i++) {
		ch = p->v->ascii ? '.' : 0xb7;
		attr = SCREEN_DIM;
		if ((uint64_t)i < held) {
			ch = p->v->ascii ? '#' : 0x2588;
			attr = SCREEN_SEALED;
		} else if ((uint64_t)i < cached) {
			ch = p->v->ascii ? '=' : 0x2592;
			attr = SCREEN_CACHED;
		}
		if (q->min && (uint64_t)i + 1 == guaranteed) {
			ch = '|';
			attr = SCREEN_TITLE;
		}
		screen_char(p->s, y, x + 1 + i, ch, attr);
	}
}

static void pool_head(const struct page *p, int y)
{
	int w = p->s->w, x = NAME_W + NUMBERS_W + 2;

	screen_text(p->s, y, 0, SCREEN_HEAD, "%-*s %6s %6s %6s %6s", NAME_W, "POOL", "GUAR", "HELD", "CACHED", "LIMIT");
	screen_text(p->s, y, x, SCREEN_HEAD, "HELD, CACHED");
	if (w >= RATES_FROM)
		screen_text(p->s, y, w - RATES_W, SCREEN_HEAD, "%8s %7s %5s", "ALLOC/s", "EVICT/s", "HIT%");
	screen_attr_line(p->s, y, SCREEN_HEAD);
}

static void pool_line(const struct page *p, int y, const struct snap_pool *q)
{
	const struct kvslab_stat_pool *n = &q->v.pool;
	const struct snap_pool *was = snap_same(p->before, q);
	const struct kvslab_stat_pool none = { 0 }, *o = was ? &was->v.pool : &none;
	char a[16], b[16], c[16], d[16];
	enum screen_attr attr = q == p->chosen && p->now->n > 1 && !p->v->text ? SCREEN_CHOSEN : SCREEN_PLAIN;
	int w = p->s->w, x = NAME_W + NUMBERS_W + 2;

	screen_text(p->s, y, 0, attr, "%-*.*s%c%6s %6s %6s %6s", NAME_W, NAME_W, n->name, n->dead ? '!' : ' ',
		    extents_text(a, n->min), extents_text(b, n->held), extents_text(c, snap_cached_extents(n)),
		    extents_text(d, n->max));
	bar(p, y, x, w - x - (w >= RATES_FROM ? RATES_W : 0), n);
	if (w < RATES_FROM)
		return;
	screen_text(p->s, y, w - RATES_W, attr, " %7s %7s %5s", rate_text(a, p, was, n->allocs, o->allocs),
		    rate_text(b, p, was, n->evictions, o->evictions),
		    hits_text(c, was && p->seconds > 0, snap_delta(n->lookup_hits, o->lookup_hits),
			      snap_delta(n->lookup_asked, o->lookup_asked)));
}

/* "and N more" where @n rows do not fit into @room; how many are shown. */
static int fit(const struct page *p, int y, int n, int room, const char *what)
{
	if (n <= room)
		return n;
	if (room > 0)
		screen_text(p->s, y + room - 1, 0, SCREEN_DIM, "  and %d more %s", n - room + 1, what);
	return room - 1;
}

static void draw_pools(const struct page *p, int y, int rows)
{
	int n = (int)p->now->n, i, first = 0, shown;

	pool_head(p, y++);
	if (!n) {
		screen_text(p->s, y, 0, SCREEN_WARN, "no pools; make one with kvslab pool create NAME --max SIZE");
		return;
	}
	shown = fit(p, y, n, rows - 1, "pools");
	if (shown < 1) { /* one line: the chosen one */
		screen_text(p->s, y, 0, SCREEN_PLAIN, "%*s", p->s->w < 500 ? p->s->w : 500, "");
		shown = 1;
	}
	if (p->chosen - p->now->pools >= shown)
		first = (int)(p->chosen - p->now->pools) - shown + 1;
	for (i = 0; i < shown; i++)
		pool_line(p, y + i, &p->now->pools[first + i]);
}

static bool shown_in(const struct page *p, uint32_t tier)
{
	return p->v->tier == MAP_ANY_TIER || p->v->tier == tier;
}

static int caches_shown(const struct snap_pool *q, const struct top_view *v)
{
	uint32_t i;
	int n = 0;

	for (i = 0; q && i < q->v.nr_caches; i++)
		n += v->tier == MAP_ANY_TIER || v->tier == q->tiers[i];
	return n;
}

static void cache_line(const struct page *p, int y, uint32_t i)
{
	const struct kvslab_stat_cache *c = &p->chosen->v.caches[i];
	const struct snap_trace *t = &p->chosen->traces[i];
	const struct snap_trace *was = snap_trace_of(snap_same(p->before, p->chosen), c->id);
	const struct snap_trace none = { 0 }, *o = was ? was : &none;
	bool both = was && p->before->traced == p->now->traced;
	bool frag = both && p->now->traced & SNAP_FRAG, prefix = both && p->now->traced & SNAP_PREFIX;
	char size[24], n[6][16], a[16], b[16], d[16];

	snprintf(size, sizeof(size), "%uK%s", c->page_size >> 10, c->flags & KVSLAB_CACHE_PINNED ? "*" : "");
	screen_text(p->s, y, 0, SCREEN_PLAIN, "%-7.7s %6s %7s %7s %7s %7s %5s %5.1f %7s %7s %5s", size,
		    count_text(n[0], (double)c->slabs), count_text(n[1], (double)(c->private_pages + c->moving)),
		    count_text(n[2], (double)c->sealed), count_text(n[3], (double)c->cached),
		    count_text(n[4], (double)c->free), count_text(n[5], (double)c->quarantined),
		    100 * snap_cache_fragmentation(c), rate_text(a, p, frag, t->allocs, o->allocs),
		    rate_text(b, p, frag, t->evictions, o->evictions),
		    hits_text(d, prefix && p->seconds > 0, snap_delta(t->found, o->found),
			      snap_delta(t->asked, o->asked)));
}

static void draw_caches(const struct page *p, int y, int rows)
{
	uint32_t i;
	int n = caches_shown(p->chosen, p->v), shown, k = 0;

	screen_text(p->s, y, 0, SCREEN_HEAD, "%-7s %6s %7s %7s %7s %7s %5s %5s %7s %7s %5s", "PAGE", "SLABS", "PRIVATE",
		    "SEALED", "CACHED", "FREE", "QUAR", "FRAG%", "ALLOC/s", "EVICT/s", "HIT%");
	screen_attr_line(p->s, y++, SCREEN_HEAD);
	if (!n) {
		screen_text(p->s, y, 0, SCREEN_DIM, "  no cache%s", p->v->tier == MAP_ANY_TIER ? "" : " in this tier");
		return;
	}
	shown = fit(p, y, n, rows - 1, "caches");
	for (i = 0; i < p->chosen->v.nr_caches && k < shown; i++)
		if (shown_in(p, p->chosen->tiers[i]))
			cache_line(p, y + k++, i);
}

static void draw_clients(const struct page *p, int y, int rows)
{
	const struct pool_view *q = &p->chosen->v;
	const struct kvslab_stat_client *c;
	char pid[16], a[16], b[16], d[16], e[16];
	int i, shown;

	screen_text(p->s, y, 0, SCREEN_HEAD, "%-8s %9s  %-16s %8s %8s %7s %8s", "CLIENT", "PID", "COMMAND", "PRIVATE",
		    "REFS", "SLABS", "SIZE");
	screen_attr_line(p->s, y++, SCREEN_HEAD);
	if (!q->nr_clients) {
		screen_text(p->s, y, 0, SCREEN_DIM, "  no clients");
		return;
	}
	shown = fit(p, y, (int)q->nr_clients, rows - 1, "clients");
	for (i = 0; i < shown; i++) {
		c = &q->clients[i];
		snprintf(pid, sizeof(pid), "%d", c->pid);
		screen_text(p->s, y + i, 0, SCREEN_PLAIN, "%-8u %9s  %-16.16s %8s %8s %7s %8s", c->id,
			    c->pid ? pid : "elsewhere", c->comm, count_text(a, (double)c->private_pages),
			    count_text(b, (double)c->references), count_text(d, (double)c->slabs),
			    size_text(e, c->held_bytes));
	}
}

static void legend(const struct page *p, int y, int x)
{
	static const char *const words[MAP_KINDS] = { "private", "sealed", "cached", "quarantine" };
	uint32_t i;

	x = screen_text(p->s, y, x, SCREEN_HEAD, " free ");
	for (i = 0; i < MAP_LEVELS; i++)
		screen_char(p->s, y, x++, shades[p->v->ascii][i], SCREEN_HEAD);
	x = screen_text(p->s, y, x, SCREEN_HEAD, " full");
	/* The kinds differ in colour alone, which a text has none of. */
	for (i = 0; !p->v->text && i < MAP_KINDS; i++) {
		screen_char(p->s, y, x + 1, shades[p->v->ascii][4], SCREEN_PRIVATE + i);
		x = screen_text(p->s, y, x + 2, SCREEN_HEAD, "%s", words[i]);
	}
}

static void draw_map(const struct page *p, int y, int rows)
{
	struct kvslab_stat_slab *slabs = calloc(p->chosen->v.nr_slabs + 1, sizeof(*slabs));
	struct map_cell *cells = NULL;
	int w = p->s->w - MAP_LABEL, x;
	uint32_t n, per, i;
	char size[16];

	screen_attr_line(p->s, y, SCREEN_HEAD);
	if (!slabs || w < 1)
		goto out;
	n = map_slabs(p->chosen, p->v->tier, slabs);
	per = map_per_cell(n, (uint32_t)(w * (rows - 1)));
	x = screen_text(p->s, y, 0, SCREEN_HEAD, "MAP: a cell is %u %s, %s;", per, per == 1 ? "slab" : "slabs",
			extents_text(size, per));
	legend(p, y, x);
	cells = calloc(n / per + 1, sizeof(*cells));
	if (!cells)
		goto out;
	if (!n)
		screen_text(p->s, y + 1, 0, SCREEN_DIM, "  no slabs%s",
			    p->v->tier == MAP_ANY_TIER ? "" : " in this tier");
	n = map_cells(slabs, n, per, cells);
	for (i = 0; i < n; i++) {
		if (i % (uint32_t)w == 0)
			screen_text(p->s, y + 1 + (int)i / w, 0, SCREEN_DIM, "%*u", MAP_LABEL - 1, cells[i].first);
		screen_char(p->s, y + 1 + (int)i / w, MAP_LABEL + (int)i % w,
			    shades[p->v->ascii][map_level(&cells[i])],
			    map_level(&cells[i]) ? SCREEN_PRIVATE + map_kind(&cells[i]) : SCREEN_DIM);
	}
out:
	free(cells);
	free(slabs);
}

static const char *tier_name(uint32_t tier)
{
	return tier == MAP_ANY_TIER ? "all tiers" : tier == KVSLAB_TIER_HOST ? "tier host" : "tier device";
}

static void draw_title(const struct page *p)
{
	const struct top_view *v = p->v;
	time_t t = (time_t)(p->now->time / 1000000000);
	char clock[16] = "--:--:--";
	uint64_t clients = 0;
	struct tm tm;
	uint32_t i;
	int x;

	if (localtime_r(&t, &tm))
		strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
	for (i = 0; i < p->now->n; i++)
		clients += p->now->pools[i].v.pool.clients;
	x = screen_text(p->s, 0, 0, SCREEN_TITLE, "kvslab top %s  %u %s, %llu %s  %s by %s%s", clock, p->now->n,
			p->now->n == 1 ? "pool" : "pools", (unsigned long long)clients,
			clients == 1 ? "client" : "clients", tier_name(v->tier), snap_sort_names[v->sort],
			v->back ? " reversed" : "");
	if (v->paused)
		x = screen_text(p->s, 0, x, SCREEN_WARN, "  paused");
	if (v->recording)
		screen_text(p->s, 0, x, SCREEN_WARN, v->ended ? "  recording, its end" : "  recording");
	else if (!v->text && !v->paused)
		screen_text(p->s, 0, x, SCREEN_TITLE, "  every %g s", v->interval);
}

static void draw_help(const struct page *p)
{
	static const char *const lines[] = {
		"",
		"  up, down, k, j  choose a pool; what stands below the pools is of the chosen one",
		"  s, r            sort by the next of name, held, cached, private; the other way round",
		"  t               tier: all, host, device",
		"  space, p        pause, and go on",
		"  + -             a longer time from one look to the next, a shorter one",
		"  h, ?            this; any key leaves it",
		"  q               end",
		"",
		"  GUAR     what the pool is guaranteed, | in the bar; HELD counts against its LIMIT",
		"  CACHED   of a pool: what it occupies beside that; it goes when its memory is wanted",
		"  FRAG%    of the bytes in slabs: free pages, tails of slabs, quarantine",
		"  SIZE     of a client's private pages; REFS: its references to sealed pages",
		"  HIT%     pages found of those that were looked for since the look before",
		"  a cell of the map: some slabs, by extent; shade: how much is in use; colour: what most is",
		"  - stands for what is not known; ! behind a name: destroyed, but held; * a pinned cache",
	};
	size_t i;

	for (i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		screen_text(p->s, 1 + (int)i, 0, SCREEN_PLAIN, "%s", lines[i]);
}

static int need_map(const struct snap_pool *q, int w)
{
	int n = (int)q->v.nr_slabs, cells = w > MAP_LABEL ? w - MAP_LABEL : 1;
	int rows = (n + cells - 1) / cells;

	return 1 + (rows < 1 ? 1 : rows > MAP_ROWS ? MAP_ROWS : rows);
}

static struct rows need(const struct snap *now, const struct snap_pool *q, const struct top_view *v, int w)
{
	struct rows r = { .pools = 1 + (now->n ? (int)now->n : 1) };
	int caches = caches_shown(q, v);

	if (!q)
		return r;
	r.caches = 1 + (caches ? caches : 1);
	r.clients = 1 + (q->v.nr_clients ? (int)q->v.nr_clients : 1);
	r.map = need_map(q, w);
	return r;
}

static int smaller(int a, int b)
{
	return a < b ? a : b;
}

/* First a little for each part, from the top as far as there is room, then a row at a time for those that need more. */
static struct rows divide(struct rows want, int room)
{
	struct rows r = { 0 };
	int *const have[] = { &r.pools, &r.caches, &r.clients, &r.map };
	const int need_of[] = { want.pools, want.caches, want.clients, want.map };
	bool grown = true;
	int i, least;

	for (i = 0; i < 4; i++) {
		least = smaller(need_of[i], 2);
		if (room < least)
			break;
		*have[i] = least;
		room -= least;
	}
	while (room > 0 && grown) {
		grown = false;
		for (i = 0; i < 4 && room > 0; i++) {
			if (!*have[i] || *have[i] >= need_of[i])
				continue;
			++*have[i];
			room--;
			grown = true;
		}
	}
	return r;
}

int top_rows(const struct snap *now, const struct top_view *v, int w)
{
	struct rows r = need(now, chosen_of(now, v), v, w);

	return 1 + r.pools + r.caches + r.clients + r.map + (r.caches ? 1 : 0) + (now->missing[0] != 0);
}

/* Which pool the rest is about, where there are several. */
static void draw_of(const struct page *p, int y)
{
	const struct kvslab_stat_pool *q = &p->chosen->v.pool;

	char a[16], b[16], c[16], d[16];

	screen_text(p->s, y, 0, SCREEN_PLAIN, "%.31s: frag %.1f%%; of %s pages looked for %s found; %s evicted, %s refused%s",
		    q->name, 100 * snap_fragmentation(q), count_text(a, (double)q->lookup_asked),
		    count_text(b, (double)q->lookup_hits), count_text(c, (double)q->evictions),
		    count_text(d, (double)q->failed), q->dead ? "; destroyed" : "");
}

void top_draw(struct screen *s, const struct snap *now, const struct snap *before, const struct top_view *v)
{
	struct page p = { s, now, before, chosen_of(now, v), v, 0 };
	bool missing = now->missing[0], keys = !v->text && s->h >= 4, of;
	struct rows r;
	int y = 1, end = s->h - keys;

	if (before && now->mono > before->mono)
		p.seconds = (double)(now->mono - before->mono) * 1e-9;
	draw_title(&p);
	if (v->help) {
		draw_help(&p);
		return;
	}
	if (keys)
		screen_text(s, s->h - 1, 0, SCREEN_DIM,
			    "q quit  h help  up/down pool  s sort  r reverse  t tier  p pause  +/- interval");
	if (missing && end > 5)
		screen_text(s, --end, 0, SCREEN_WARN, "%s", now->missing);
	of = p.chosen && end - y > 8;
	r = divide(need(now, p.chosen, v, s->w), end - y - of);
	if (r.pools)
		draw_pools(&p, y, r.pools);
	y += r.pools;
	if (of)
		draw_of(&p, y++);
	if (r.caches)
		draw_caches(&p, y, r.caches);
	y += r.caches;
	if (r.clients)
		draw_clients(&p, y, r.clients);
	y += r.clients;
	if (r.map)
		draw_map(&p, y, r.map);
}
