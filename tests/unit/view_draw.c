// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* What the views draw, from snapshots made here: cells, pages of text of any size, figures. */
#include <string.h>

#include "tests/lib/tap.h"
#include "tools/map_cells.h"
#include "tools/top_view.h"

#define MIB (1u << 20)

static struct kvslab_stat_slab slab(uint32_t extent, uint16_t pages, uint16_t private, uint16_t sealed, uint16_t cached)
{
	return (struct kvslab_stat_slab){ .extent = extent, .pages = pages, .private_pages = private, .sealed = sealed,
					  .cached = cached, .free = (uint16_t)(pages - private - sealed - cached) };
}

static void test_cells(uint64_t *seed)
{
	static struct kvslab_stat_slab s[5000];
	static struct map_cell cells[5000], at[64];
	uint32_t n = 1 + (uint32_t)(rnd(seed) % 4999), i, per, room = 1 + (uint32_t)(rnd(seed) % 900), m, k, extent = 0;
	uint64_t pages = 0, used = 0, sum = 0, sum_used = 0, slabs = 0;
	bool order = true;

	for (i = 0; i < n; i++) {
		uint16_t p = (uint16_t)(1 + rnd(seed) % 512), a = (uint16_t)(rnd(seed) % (p + 1u)),
			 b = (uint16_t)(rnd(seed) % (p + 1u - a));

		extent += 1 + (uint32_t)(rnd(seed) % 5);
		s[i] = slab(extent, p, a, b, 0);
		pages += p;
		used += a + b;
	}
	per = map_per_cell(n, room);
	m = map_cells(s, n, per, cells);
	ok(m <= room && (per == 1 || (n + per - 2) / (per - 1) > room), "%u slabs in %u cells of %u: %u, and no fewer to a cell",
	   n, room, per, m);
	for (i = 0; i < m; i++) {
		sum += cells[i].pages;
		sum_used += cells[i].pages - cells[i].free;
		slabs += cells[i].slabs;
		order &= cells[i].first == s[i * per].extent &&
			 cells[i].last == s[(i + 1) * per < n ? (i + 1) * per - 1 : n - 1].extent;
	}
	ok(sum == pages && sum_used == used && slabs == n && order, "they hold each slab once, in order");
	k = map_per_cell(extent + 1, 64);
	map_cells_at(s, n, 0, k, at, 64);
	for (sum = slabs = 0, i = 0; i < 64; i++) {
		sum += at[i].pages;
		slabs += at[i].slabs;
		order &= !at[i].slabs || (at[i].first >= i * k && at[i].last < (i + 1) * k);
	}
	ok(sum == pages && slabs == n && order, "so do cells at places");
	map_cells_at(s, n, s[0].extent + 1, 1, at, 1);
	ok(at[0].slabs == (n > 1 && s[1].extent == s[0].extent + 1), "what lies outside is left out");
}

static void test_levels(void)
{
	static const struct {
		uint64_t pages, free;
		unsigned int level;
	} of[] = { { 32, 32, 0 }, { 32, 31, 1 }, { 3, 2, 2 }, { 3, 1, 3 }, { 3, 0, 4 }, { 1, 0, 4 }, { 1, 1, 0 },
		   { 300, 201, 1 }, { 300, 200, 2 }, { 300, 101, 2 }, { 300, 100, 3 }, { 300, 1, 3 }, { 300, 0, 4 }, { 0, 0, 0 } };
	struct map_cell c = { 0 };
	size_t i;

	for (i = 0; i < sizeof(of) / sizeof(*of); i++) {
		c.pages = of[i].pages;
		c.free = of[i].free;
		ok(map_level(&c) == of[i].level, "%d of %d free is level %u", (int)c.free, (int)c.pages, of[i].level);
	}
	c = (struct map_cell){ .private_pages = 2, .moving = 2, .sealed = 3 };
	ok(map_kind(&c) == MAP_PRIVATE, "what moves is somebody's");
	c.cached = 5;
	ok(map_kind(&c) == MAP_CACHED, "most are cached");
	c.quarantined = 6;
	ok(map_kind(&c) == MAP_QUARANTINED, "most are in quarantine");
}

/* Two pools whose figures can be told by looking. */
struct canned {
	struct snap s;
	struct snap_pool pools[2];
	struct kvslab_stat_cache caches[2];
	struct snap_trace traces[2];
	uint32_t tiers[2];
	struct kvslab_stat_client clients[2];
	struct kvslab_stat_slab slabs[6];
};

static void can(struct canned *c)
{
	struct kvslab_stat_pool *p;
	int i;

	memset(c, 0, sizeof(*c));
	c->s = (struct snap){ .n = 2, .pools = c->pools, .mono = 1000000000, .traced = SNAP_FRAG | SNAP_PREFIX };
	p = &c->pools[0].v.pool;
	*p = (struct kvslab_stat_pool){ .name = "chat", .id = 3, .clients = 2, .min = 8, .max = 32, .held = 4, .slabs = 6,
					.allocs = 1000, .lookup_asked = 100, .lookup_hits = 50, .failed = 7, .evictions = 12 };
	c->pools[1].v.pool = (struct kvslab_stat_pool){ .name = "batch", .id = 4, .max = 1024, .held = 1000, .slabs = 1000,
							.dead = 1 };
	c->pools[1].tiers = c->tiers;
	c->pools[1].traces = c->traces;
	c->caches[0] = (struct kvslab_stat_cache){ .id = 0, .page_size = 64 << 10, .pages_per_slab = 32, .slabs = 5, .free = 40,
						   .private_pages = 60, .sealed = 50, .cached = 10 };
	c->caches[1] = (struct kvslab_stat_cache){ .id = 1, .page_size = 340 << 10, .pages_per_slab = 6, .slabs = 1,
						   .free = 6, .flags = KVSLAB_CACHE_PINNED };
	c->tiers[1] = KVSLAB_TIER_DEVICE;
	c->clients[0] = (struct kvslab_stat_client){ .id = 11, .pid = 4242, .comm = "kvslab", .private_pages = 60,
						     .references = 70, .slabs = 3, .held_bytes = 60 * (64 << 10) };
	c->clients[1] = (struct kvslab_stat_client){ .id = 12, .pid = 0, .comm = "odd\x1b\n\xff name" };
	for (i = 0; i < 5; i++)
		c->slabs[i] = slab((uint32_t)(100 + i), 32, (uint16_t)(i == 0 ? 32 : i == 1 ? 28 : 0), (uint16_t)(i == 2 ? 31 : 0),
				   (uint16_t)(i == 3 ? 11 : i == 4 ? 10 : 0));
	c->slabs[5] = slab(200, 6, 0, 0, 0);
	c->slabs[5].cache = 1;
	c->pools[0].v.caches = c->caches;
	c->pools[0].v.clients = c->clients;
	c->pools[0].v.slabs = c->slabs;
	c->pools[0].v.nr_caches = c->pools[0].v.nr_clients = 2;
	c->pools[0].v.nr_slabs = 6;
	c->pools[0].v.details = c->pools[1].v.details = true;
	c->pools[0].tiers = c->tiers;
	c->pools[0].traces = c->traces;
}

static char page[200 * 400];

static const char *drawn(int w, int h, const struct snap *now, const struct snap *before, const struct top_view *v)
{
	struct screen s;
	char row[1000];
	int y;

	page[0] = 0;
	if (screen_init(&s, w, h))
		return page;
	top_draw(&s, now, before, v);
	for (y = 0; y < s.h; y++) {
		screen_row(&s, y, row);
		strcat(strcat(page, row), "\n");
	}
	screen_free(&s);
	return page;
}

static bool has(const char *text, const char *what)
{
	if (strstr(text, what))
		return true;
	printf("# \"%s\" is not in\n%s", what, text);
	return false;
}

static void test_page(void)
{
	struct top_view v = { .tier = MAP_ANY_TIER, .interval = 2, .ascii = true, .pool = "chat" };
	struct canned a, b;
	const char *p;

	can(&a);
	can(&b);
	b.s.mono += 2000000000;
	b.pools[0].v.pool.allocs += 500;
	b.pools[0].v.pool.evictions += 3;
	b.pools[0].v.pool.lookup_asked += 8;
	b.pools[0].v.pool.lookup_hits += 6;
	b.traces[0].allocs = 400;
	b.traces[0].asked = 4;
	b.traces[0].found = 1;
	p = drawn(80, 24, &b.s, &a.s, &v);
	ok(has(p, "POOL           GUAR   HELD CACHED  LIMIT") && has(p, "chat            16M     8M     4M    64M  [##|...........]") &&
		   has(p, "     250     1.5  75.0\n"), "a pool: sizes, bar, rates");
	ok(has(p, "batch       !    0K   2.0G     0K     2G  [##############]"), "one that was destroyed");
	ok(has(p, "64K          5      60      50      10      40     0  25.0     200       0  25.0\n"), "a cache, with rates");
	ok(has(p, "340K*        1       0       0       0       6     0 100.0"), "a pinned one, all of it free");
	ok(has(p, "11            4242  kvslab                 60       70       3     3.8M\n"), "a client");
	ok(has(p, "12       elsewhere  odd??? name"), "a client of another pid namespace, with a name that could harm");
	ok(has(p, "MAP: a cell is 1 slab, 2M; free .-+*# full #private #sealed #cached #quarantine\n") && has(p, "\n    100 #**+-.\n"), "the map");
	ok(has(p, "2 pools, 2 clients  all tiers by name  every 2 s\n") && has(p, "q quit  h help"), "title and keys");
	p = drawn(80, 24, &b.s, NULL, &v);
	ok(has(p, "       -       -     -\n"), "without a look before there are no rates");
	b.pools[0].v.pool.id = 9;
	p = drawn(80, 24, &b.s, &a.s, &v);
	ok(has(p, "       -       -     -\n"), "nor of another pool of the same name");
	v.tier = KVSLAB_TIER_DEVICE;
	p = drawn(80, 24, &b.s, NULL, &v);
	ok(has(p, "tier device") && has(p, "340K*") && !strstr(p, "\n64K ") && has(p, "\n    200 .\n"), "the other tier alone");
	v.tier = KVSLAB_TIER_HOST;
	ok(has(drawn(80, 24, &b.s, NULL, &v), "\n    100 #**+-\n"), "this tier alone");
	v.ascii = false;
	ok(has(drawn(80, 24, &b.s, NULL, &v), "\n    100 █▓▓▒░\n"), "shades");
	strcpy(b.s.missing, "no rates of caches: that needs CAP_BPF");
	ok(has(drawn(80, 24, &b.s, NULL, &v), "that needs CAP_BPF\nq quit"), "what is missing is said");
	strcpy(v.pool, "batch");
	p = drawn(80, 24, &b.s, NULL, &v);
	ok(has(p, "batch: frag 0.0%") && has(p, "  no cache") && has(p, "  no clients") && has(p, "  no slabs"),
	   "a pool with nothing in it");
	strcpy(v.pool, "gone");
	ok(has(drawn(80, 24, &b.s, NULL, &v), "chat: frag"), "a pool that went: the first is shown");
	v.help = true;
	ok(has(drawn(80, 24, &b.s, NULL, &v), "space, p"), "help");
	v.help = false;
	b.s.n = 0;
	ok(has(drawn(80, 24, &b.s, NULL, &v), "no pools; make one with kvslab pool create"), "no pools");
}

/* The text says all at any width that it is given. */
static void test_rows(void)
{
	struct top_view v = { .tier = MAP_ANY_TIER, .interval = 2, .ascii = true, .text = true };
	struct canned a;
	const char *p;

	can(&a);
	p = drawn(100, top_rows(&a.s, &v, 100), &a.s, NULL, &v);
	ok(has(p, "chat") && has(p, "batch") && has(p, "340K*") && has(p, "odd??? name") && has(p, "#**+-.") && !strstr(p, " more ") &&
		   !strstr(p, "quit"), "a text leaves nothing out, and names no keys");
}

static void test_sizes(uint64_t *seed)
{
	struct top_view v = { .tier = MAP_ANY_TIER, .interval = 2, .pool = "batch" };
	struct canned a, b;
	int w, h, n = 0, bad = 0;
	const char *p;

	can(&a);
	can(&b);
	b.s.mono += 1;
	strcpy(b.s.missing, "something");
	for (w = 1; w <= 90; w++)
		for (h = 1; h <= 30; h++, n++) {
			v.text = rnd(seed) % 2;
			v.ascii = rnd(seed) % 2;
			v.help = rnd(seed) % 8 == 0;
			strcpy(v.pool, rnd(seed) % 2 ? "batch" : "chat");
			p = drawn(w, h, &b.s, &a.s, &v);
			bad += !v.help && h >= 3 && w >= 5 && !strstr(p, strcmp(v.pool, "chat") ? "\nbatch" : "\nchat");
			bad += strncmp(p, "kvslab top", w == 7 ? 6 : w < 10 ? (size_t)w : 10) != 0;
		}
	ok(!bad, "%d sizes from 1x1 to 90x30: title, and from 3 rows on the chosen pool (%d without)", n, bad);
}

static void test_sort(void)
{
	struct top_view v = { .tier = MAP_ANY_TIER };
	struct canned a;

	can(&a);
	snap_sort(&a.s, SNAP_NAME, false);
	ok(!strcmp(a.s.pools[0].v.pool.name, "batch") && !strcmp(a.s.pools[1].v.clients[0].comm, "kvslab"), "by name");
	top_choose(&v, &a.s, 1);
	ok(!strcmp(v.pool, "chat"), "the next pool");
	top_choose(&v, &a.s, 1);
	ok(!strcmp(v.pool, "chat"), "there is none behind the last");
	snap_sort(&a.s, SNAP_CACHED, false);
	ok(!strcmp(a.s.pools[0].v.pool.name, "chat"), "by what is cached");
	snap_sort(&a.s, SNAP_HELD, false);
	ok(!strcmp(a.s.pools[0].v.pool.name, "batch") && a.s.pools[1].v.clients[0].id == 11, "by what is held");
	snap_sort(&a.s, SNAP_HELD, true);
	ok(!strcmp(a.s.pools[0].v.pool.name, "chat") && a.s.pools[0].v.clients[0].id == 12, "the other way round");
	top_choose(&v, &a.s, -1);
	top_choose(&v, &a.s, -1);
	ok(!strcmp(v.pool, "chat"), "there is none before the first");
	ok(snap_delta(5, 3) == 2 && snap_delta(3, 5) == 3, "a count that began anew");
}

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(argc, argv);
	int i;

	for (i = 0; i < 20; i++)
		test_cells(&seed);
	test_levels();
	test_page();
	test_rows();
	test_sizes(&seed);
	test_sort();
	return done();
}
