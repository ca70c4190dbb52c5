// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* The pool's map: cells, their sums, pools that are larger than the map, how often slabs are looked at. */
#include <jansson.h>
#include <string.h>

#include "runtime/serve/overview.h"
#include "runtime/serve/page.h"
#include "tests/lib/tap.h"

#define SECOND 1000000000ull

static uint64_t seed;
static struct map m;

static uint64_t slabs_in_map(void)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < m.n; i++)
		sum += m.cells[i].slabs;
	return sum;
}

/* A pool of @extents, some of them with slabs of one page; the map against the pool's own counts. */
static void test_pool(uint32_t extents, uint32_t pages)
{
	kvslab_handle held[64];
	struct kvslab_cache cache;
	struct kvslab_pool *pool;
	struct kvslab_stat stat;
	struct buf b = { .n = 0 };
	uint64_t now = SECOND, in_use = 0, count = 0;
	uint32_t i, k, looks = 0;
	char spec[32];
	json_t *j;

	memset(&m, 0, sizeof(m));
	snprintf(spec, sizeof(spec), "embedded:%uM", 2 * extents);
	if (kvslab_pool_open(&pool, spec, NULL) || kvslab_cache_open(pool, KVSLAB_EXTENT_SIZE, &cache)) {
		ok(0, "a pool of %u extents", extents);
		return;
	}
	for (i = 0; i < pages; i += k) {
		k = pages - i < 64 ? pages - i : 64;
		if (kvslab_alloc(pool, cache.id, held, k, 0) != (int)k)
			break;
	}
	do {
		map_look(&m, pool, extents, now);
		now += SECOND;
	} while (m.from && ++looks < 100);
	kvslab_stat(pool, &stat);
	for (i = 0; i < m.n; i++)
		in_use += m.cells[i].in_use;
	ok(m.n <= MAP_CELLS && (uint64_t)m.n * m.extents >= extents && (uint64_t)(m.n - 1) * m.extents < extents,
	   "%u extents: %u cells of %u", extents, m.n, m.extents);
	ok(slabs_in_map() == stat.slabs && stat.slabs == pages && in_use == stat.private_pages,
	   "%u slabs are in it, after %u looks", pages, looks + 1);
	ok(pages > 4096 ? looks > 0 : !looks, "as many at once as the loop bears");

	map_json(&b, &m);
	j = b.failed ? NULL : json_loadb(b.b, b.n, 0, NULL);
	for (i = 0; i < json_array_size(json_object_get(j, "cells")); i++)
		count += (uint64_t)json_integer_value(
			json_array_get(json_array_get(json_object_get(j, "cells"), i), 0));
	ok(i == m.n && count == stat.slabs, "its JSON has them: %zu bytes", b.n);
	json_decref(j);
	buf_free(&b);

	kvslab_pool_close(pool);
}

static void test_time(void)
{
	kvslab_handle page[2];
	struct kvslab_cache cache;
	struct kvslab_pool *pool;

	memset(&m, 0, sizeof(m));
	if (kvslab_pool_open(&pool, "embedded:8M", NULL) || kvslab_cache_open(pool, KVSLAB_EXTENT_SIZE, &cache) ||
	    kvslab_alloc(pool, cache.id, page, 1, 0) != 1) {
		ok(0, "a pool of 4 extents");
		return;
	}
	map_look(&m, pool, 4, SECOND);
	kvslab_alloc(pool, cache.id, page + 1, 1, 0);
	map_look(&m, pool, 4, SECOND + SECOND / 100);
	ok(slabs_in_map() == 1, "who asks again at once gets the same");
	map_look(&m, pool, 4, 2 * SECOND);
	ok(slabs_in_map() == 2, "a second later, what is then");
	kvslab_pool_close(pool);
}

/* The page may have one script and one style, or its header lines would not allow them. */
static void test_page(void)
{
	const char *script = strstr(page_html, "<script"), *style = strstr(page_html, "<style");
	char fields[PAGE_FIELDS];

	page_fields(fields);
	ok(strlen(page_html) == page_html_size && script && !strstr(script + 1, "<script") && style &&
	   !strstr(style + 1, "<style"), "the page has one script and one style");
	ok(strlen(fields) < PAGE_FIELDS - 1 && !strcmp(fields + strlen(fields) - 2, "\r\n") &&
	   strstr(fields, "default-src 'none'") && !strstr(fields, "unsafe"), "its header lines are whole: %zu bytes",
	   strlen(fields));
}

int main(int argc, char **argv)
{
	seed = tap_seed(argc, argv);
	test_pool(1 + (uint32_t)(rnd(&seed) % 20), 1);
	test_pool(MAP_CELLS, (uint32_t)(rnd(&seed) % 300));
	test_pool(MAP_CELLS + 1, 1 + (uint32_t)(rnd(&seed) % 300));
	test_pool(6000 + (uint32_t)(rnd(&seed) % 5000), 4097 + (uint32_t)(rnd(&seed) % 1000));
	test_time();
	test_page();
	return done();
}
