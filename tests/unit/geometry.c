// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* The choice of page geometry: the three models it was designed on, and random shapes against a
 * restatement. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "kvslab.h"
#include "tests/lib/tap.h"

#define EXTENT 2097152.0L

struct candidate {
	uint32_t groups, tokens;
	long double waste; /* exact: multiples of 2^-21 */
};

static uint32_t frame;

static struct kvslab_geometry shape(uint32_t layers, uint32_t kv_heads, uint32_t head_dim,
				    enum kvslab_kv_type type)
{
	return (struct kvslab_geometry){
		.layers = layers, .kv_heads = kv_heads, .head_dim = head_dim, .kv_type = type
	};
}

/* Bytes of a page, from the words of the design: values in order, heads aligned to 16, pages to
 * frames. */
static uint64_t page_bytes(const struct kvslab_geometry *g, uint32_t groups, uint32_t tokens)
{
	uint64_t head = (uint64_t)tokens * g->head_dim * (g->kv_type == KVSLAB_KV_F32 ? 4 : 2);
	uint64_t page;

	while (head % 16)
		head++;
	page = head * g->kv_heads * 2 * (g->layers / groups);
	if (page % frame)
		page += frame - page % frame;
	return page;
}

static int better(const struct candidate *a, const struct candidate *b, int qualified)
{
	long double wa = a->waste, wb = b->waste;
	int da = abs((int)a->tokens - 16), db = abs((int)b->tokens - 16);

	if (qualified && a->groups != b->groups)
		return a->groups < b->groups;
	if (!qualified) {
		wa = wa * 100 + a->groups;
		wb = wb * 100 + b->groups;
	}
	if (wa != wb)
		return wa < wb;
	if (a->groups != b->groups)
		return a->groups < b->groups;
	if (da != db)
		return da < db;
	return a->tokens < b->tokens;
}

static int restated(const struct kvslab_geometry *g, uint32_t lo, uint32_t hi,
		    struct candidate *best)
{
	struct candidate c;
	int pass, found = 0;

	for (pass = 0; pass < 2 && !found; pass++) {
		for (c.groups = 1; c.groups <= 64; c.groups++) {
			for (c.tokens = hi; c.tokens >= lo; c.tokens--) {
				uint64_t page, values;

				if (g->layers % c.groups)
					continue;
				page = page_bytes(g, c.groups, c.tokens);
				if (page > KVSLAB_EXTENT_SIZE)
					continue;
				values = 2ull * (g->layers / c.groups) * g->kv_heads * g->head_dim *
					 (g->kv_type == KVSLAB_KV_F32 ? 4 : 2) * c.tokens;
				c.waste = 1 - (long double)(KVSLAB_EXTENT_SIZE / page * values) /
						      EXTENT;
				if (pass == 0 && c.waste * 20 > 1)
					continue;
				if (!found || better(&c, best, pass == 0))
					*best = c;
				found = 1;
			}
		}
	}
	return found;
}

/* What must hold of any answer. */
static int consistent(const struct kvslab_geometry *g)
{
	uint64_t size = g->kv_type == KVSLAB_KV_F32 ? 4 : 2;
	long double waste;

	waste = 1 - (long double)g->pages_per_slab * g->page_tokens * g->token_bytes / g->groups /
			    EXTENT;
	return g->groups >= 1 && g->groups <= KVSLAB_GROUPS_MAX && g->layers % g->groups == 0 &&
	       g->layers_per_group == g->layers / g->groups && g->head_stride % 16 == 0 &&
	       g->head_stride >= g->page_tokens * g->head_dim * size &&
	       g->head_stride < g->page_tokens * g->head_dim * size + 16 &&
	       g->v_offset == (uint64_t)g->kv_heads * g->head_stride &&
	       g->layer_stride == 2 * g->v_offset &&
	       (uint64_t)g->layer_stride * g->layers_per_group <= g->page_size &&
	       g->page_size % frame == 0 &&
	       g->page_size == page_bytes(g, g->groups, g->page_tokens) &&
	       g->pages_per_slab == KVSLAB_EXTENT_SIZE / g->page_size && g->pages_per_slab >= 1 &&
	       g->token_bytes == 2 * size * g->layers * g->kv_heads * g->head_dim &&
	       waste - (long double)g->waste < 1e-9L && (long double)g->waste - waste < 1e-9L;
}

static int same(const struct kvslab_geometry *g, const struct candidate *c)
{
	if (g->groups == c->groups && g->page_tokens == c->tokens)
		return 1;
	printf("# %u layers, %u heads of %u, type %d: %u groups of %u, not %u of %u (waste "
	       "%.6Lf)\n",
	       g->layers, g->kv_heads, g->head_dim, g->kv_type, g->groups, g->page_tokens,
	       c->groups, c->tokens, c->waste);
	return 0;
}

static void test_models(void)
{
	struct kvslab_geometry g = shape(30, 3, 64, KVSLAB_KV_F16);
	int rc;

	rc = kvslab_geometry_init(&g);
	ok(!rc && g.groups == 1 && g.page_tokens == 15 && g.page_size == 340 * 1024 &&
		   g.pages_per_slab == 6 && g.token_bytes == 23040 && consistent(&g),
	   "SmolLM2-135M: %u groups, %u tokens, %u bytes, %u pages, waste %.4f", g.groups,
	   g.page_tokens, g.page_size, g.pages_per_slab, g.waste);
	g = shape(32, 8, 128, KVSLAB_KV_F16);
	rc = kvslab_geometry_init(&g);
	ok(!rc && g.groups == 1 && g.page_tokens == 16 && g.page_size == KVSLAB_EXTENT_SIZE &&
		   g.pages_per_slab == 1 && g.waste == 0 && consistent(&g),
	   "Llama-3-8B: %u groups, %u tokens, %u bytes, %u pages, waste %.4f", g.groups,
	   g.page_tokens, g.page_size, g.pages_per_slab, g.waste);
	g = shape(80, 8, 128, KVSLAB_KV_F16);
	rc = kvslab_geometry_init(&g);
	ok(!rc && g.groups == 4 && g.page_tokens == 25 && g.pages_per_slab == 1 &&
		   g.layers_per_group == 20 && consistent(&g),
	   "Llama-3-70B: %u groups, %u tokens, %u bytes, %u pages, waste %.4f", g.groups,
	   g.page_tokens, g.page_size, g.pages_per_slab, g.waste);
}

static void test_random(uint64_t *seed)
{
	static const uint32_t dims[] = { 1, 2, 3, 8, 24, 64, 80, 96, 100, 128, 192, 256, 512, 576 };
	int i, bad = 0, fewer = 0, fallback = 0, split = 0, big = 0;

	for (i = 0; i < 3000; i++) {
		uint32_t layers = 1 + (uint32_t)(rnd(seed) % (rnd(seed) % 4 ? 130 : 300));
		uint32_t heads = 1 + (uint32_t)(rnd(seed) % (rnd(seed) % 4 ? 16 : 200));
		uint32_t dim =
			rnd(seed) % 4 ? dims[rnd(seed) % 14] : 1 + (uint32_t)(rnd(seed) % 700);
		struct kvslab_geometry g = shape(layers, heads, dim, 1 + (int)(rnd(seed) % 2));
		struct candidate c;
		int rc = kvslab_geometry_init(&g);

		if (restated(&g, 8, 32, &c)) {
			bad += rc || !consistent(&g) || !same(&g, &c);
			fallback += c.waste * 20 > 1;
			split += c.groups > 1;
		} else if (restated(&g, 1, 7, &c)) {
			bad += rc || !consistent(&g) || !same(&g, &c);
			fewer++;
		} else {
			bad += rc != -E2BIG || g.page_tokens;
			big++;
		}
	}
	ok(!bad,
	   "3000 random shapes as restated (%d in groups, %d fallbacks, %d below 8 tokens, %d too "
	   "big)",
	   split, fallback, fewer, big);
}

static void test_small(void)
{
	uint32_t layers, heads, dim;
	int bad = 0, n = 0;

	for (layers = 1; layers <= 12; layers++)
		for (heads = 1; heads <= 9; heads++)
			for (dim = 8; dim <= 128; dim += 40) {
				struct kvslab_geometry g = shape(layers, heads, dim, KVSLAB_KV_F32);
				struct candidate c;

				n++;
				bad += kvslab_geometry_init(&g) || !restated(&g, 8, 32, &c) ||
				       !consistent(&g) || !same(&g, &c);
			}
	ok(!bad, "all %d small shapes as restated", n);
}

/* A count that is asked for is kept, with the fewest groups that make it fit. */
static void test_explicit(uint64_t *seed)
{
	int i, bad = 0, big = 0, split = 0;

	for (i = 0; i < 20000; i++) {
		struct kvslab_geometry g =
			shape(1 + (uint32_t)(rnd(seed) % 100), 1 + (uint32_t)(rnd(seed) % 12),
			      1 + (uint32_t)(rnd(seed) % 160), 1 + (int)(rnd(seed) % 2));
		uint32_t tokens = rnd(seed) % 2 ? 1 + (uint32_t)(rnd(seed) % 64)
						: 1 + (uint32_t)(rnd(seed) % 3000);
		uint32_t groups;
		int rc;

		g.page_tokens = tokens;
		rc = kvslab_geometry_init(&g);
		for (groups = 1; groups <= 64; groups++)
			if (g.layers % groups == 0 &&
			    page_bytes(&g, groups, tokens) <= KVSLAB_EXTENT_SIZE)
				break;
		if (groups > 64) {
			big++;
			bad += rc != -E2BIG || g.page_tokens != tokens || g.groups;
		} else {
			split += groups > 1;
			bad += rc || g.groups != groups || g.page_tokens != tokens ||
			       !consistent(&g);
		}
	}
	ok(!bad, "20000 given counts are kept (%d in groups, %d too big)", split, big);
	ok(big && split, "some are split and some too big");
}

static int rejects(struct kvslab_geometry g, int want)
{
	struct kvslab_geometry before = g;

	return kvslab_geometry_init(&g) == want && !memcmp(&before, &g, sizeof(g));
}

static void test_errors(void)
{
	struct kvslab_geometry g;

	ok(kvslab_geometry_init(NULL) == -EINVAL, "no structure");
	ok(rejects(shape(0, 3, 64, 1), -EINVAL), "no layers");
	ok(rejects(shape(30, 0, 64, 1), -EINVAL), "no heads");
	ok(rejects(shape(30, 3, 0, 1), -EINVAL), "no head_dim");
	ok(rejects(shape(30, 3, 64, 0), -EINVAL) && rejects(shape(30, 3, 64, 3), -EINVAL), "no "
											   "such "
											   "type");
	ok(rejects(shape(UINT32_MAX, 3, 64, 1), -EINVAL) &&
		   rejects(shape(30, UINT32_MAX, 64, 1), -EINVAL) &&
		   rejects(shape(30, 3, UINT32_MAX, 1), -EINVAL),
	   "absurd counts");
	ok(rejects(shape(65536, 65536, 65536, 2), -E2BIG), "the largest shape that is taken does "
							   "not fit");
	ok(rejects(shape(1, 4096, 65536, 2), -E2BIG), "one token of one layer is more than an "
						      "extent");
	g = shape(1, 8, 65536, KVSLAB_KV_F16);
	ok(kvslab_geometry_init(&g) == 0 && g.page_tokens == 1 && g.pages_per_slab == 1, "exactly "
											 "one "
											 "fits");
	g = shape(1, 8, 65536 / 2 + 1, KVSLAB_KV_F16);
	ok(kvslab_geometry_init(&g) == 0 && g.page_tokens == 1 && consistent(&g), "a little more "
										  "than half fits "
										  "once");
	g = shape(30, 3, 64, KVSLAB_KV_F16);
	g.page_tokens = UINT32_MAX;
	ok(rejects(g, -E2BIG), "a count of 2^32 - 1");
	g.page_tokens = 2731;
	ok(rejects(g, -E2BIG), "a count just too big for one layer");
	g.page_tokens = 2730;
	ok(kvslab_geometry_init(&g) == 0 && g.groups == 30, "and the largest that fits, in a group "
							    "a layer");
	g = shape(127, 8, 4096, KVSLAB_KV_F32);
	ok(rejects(g, -E2BIG), "a prime number of layers has one group");
}

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(argc, argv);

	frame = (uint32_t)sysconf(_SC_PAGESIZE);
	test_models();
	test_small();
	test_random(&seed);
	test_explicit(&seed);
	test_errors();
	return done();
}
