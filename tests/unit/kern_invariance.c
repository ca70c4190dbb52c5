// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * A row's bits depend on that row alone: not on how many tokens a product takes at once or how its rows are split,
 * not on the page size, the chunks a run is cut into, or the order of the heads.
 */
#include "kern_test.h"

static const struct kern_ops *ops;

/* A batch, in random pieces of rows, against one token at a time over all rows. */
static int product(enum kern_type type)
{
	uint32_t rows = between(1, 100), n = between(1, 33), r, r1, t;
	uint32_t cols = some_cols(type, 1, 40, 300);
	uint32_t ld = (cols + KERN_BLOCK - 1) / KERN_BLOCK * KERN_BLOCK + KERN_BLOCK * below(3);
	uint8_t *file = file_matrix(type, rows, cols, PLAIN);
	struct kern_weight w = weight_from(type, rows, cols, file);
	float *in = values_of(PLAIN, (size_t)n * cols), *all = floats((size_t)n * rows), *one = floats(rows);
	struct act x = act_new(ops, kern_type_levels(type), n, cols, ld, in), alone;
	int good = 1;

	for (r = 0; r < rows; r = r1) {
		r1 = r + 16 * between(1, 4);
		r1 = r1 < rows ? r1 : rows;
		ops->product(&w, r, r1, &x.a, n, all, rows);
	}
	for (t = 0; t < n && good; t++) {
		alone = act_new(ops, kern_type_levels(type), 1, cols, (cols + 31) & ~31u, in + (size_t)t * cols);
		ops->product(&w, 0, rows, &alone.a, 1, one, rows);
		good = same(one, all + (size_t)t * rows, rows);
		act_free(&alone);
	}
	act_free(&x), free(w.data), free(file), free(in), free(all), free(one);
	return good;
}

static uint32_t window; /* of all attention in a round */

static void attend(struct kv *kv, const float *q, float *out, uint32_t n_q, bool pieces)
{
	uint32_t heads = kv->attn.n_kv_heads, h, i, m;

	kv->attn.q = q;
	kv->attn.out = out;
	kv->attn.n_q = n_q;
	kv->attn.pos0 = kv->keys - n_q;
	kv->attn.window = window;
	for (h = 0; h < heads; h++)
		for (i = 0; i < n_q; i += m) {
			m = pieces ? between(1, n_q - i) : n_q;
			/* the other way round where pieces are asked for */
			ops->attention(&kv->attn, pieces ? heads - 1 - h : h, i, i + m);
		}
}

static int attention(void)
{
	uint32_t dims[] = { 8, 64, 64, 72, 128 }, dim = dims[below(5)], kv_heads = between(1, 3), ratio = between(1, 9);
	uint32_t keys = between(1, 200), n_q = between(1, keys), h, i;
	bool f32 = below(2);
	size_t row = (size_t)kv_heads * dim, n = (size_t)n_q * row * ratio;
	float *k = values_of(PLAIN, keys * row), *v = values_of(PLAIN, keys * row), *q = values_of(PLAIN, n);
	float *a = floats(n), *b = floats(n), *k2 = floats(keys * row), *v2 = floats(keys * row), *q2 = floats(n);
	struct kv x = kv_new(ops, keys, kv_heads, ratio, dim, dim, f32, between(1, 64), k, v), y;
	int good = 1;

	window = below(2) ? between(1, keys + 9) : 0;
	attend(&x, q, a, n_q, false);
	attend(&x, q, b, n_q, true);
	good &= ok(same(a, b, n), "%s: %u queries in any pieces", ops->name, n_q);
	y = kv_new(ops, keys, kv_heads, ratio, dim, dim, f32, between(1, 64), k, v);
	attend(&y, q, b, n_q, false);
	good &= ok(same(a, b, n), "%s: pages of %u and %u tokens", ops->name, x.attn.page_tokens, y.attn.page_tokens);
	kv_free(&y);

	/* a run that starts later, as the rest of a prompt whose beginning is cached */
	if (n_q > 1) {
		uint32_t skip = between(1, n_q - 1);

		attend(&x, q + skip * row * ratio, b, n_q - skip, false);
		good &= ok(same(a + skip * row * ratio, b, n - skip * row * ratio), "%s: the last %u of them alone",
			   ops->name, n_q - skip);
	}

	/* kv heads in reverse order, each with its query heads */
	for (h = 0; h < kv_heads; h++) {
		uint32_t g = kv_heads - 1 - h;

		for (i = 0; i < keys; i++) {
			memcpy(k2 + i * row + g * dim, k + i * row + h * dim, dim * 4);
			memcpy(v2 + i * row + g * dim, v + i * row + h * dim, dim * 4);
		}
		for (i = 0; i < n_q; i++)
			memcpy(q2 + (i * kv_heads + g) * ratio * dim, q + (i * kv_heads + h) * ratio * dim, ratio * dim * 4);
	}
	y = kv_new(ops, keys, kv_heads, ratio, dim, dim, f32, between(1, 64), k2, v2);
	attend(&y, q2, b, n_q, false);
	for (h = 0; h < kv_heads; h++)
		for (i = 0; i < n_q; i++)
			good &= same(a + (i * kv_heads + h) * ratio * dim,
				     b + (i * kv_heads + kv_heads - 1 - h) * ratio * dim, ratio * dim);
	ok(good, "%s: heads in another order", ops->name);
	kv_free(&x), kv_free(&y);
	free(k), free(v), free(q), free(a), free(b), free(k2), free(v2), free(q2);
	return good;
}

int main(int argc, char **argv)
{
	static const char *const impl[] = { "c", "avx2", "avxvnni", "avx512" };
	unsigned int k, i;
	int times, good;

	seed = tap_seed(argc, argv);
	for (k = 0; k < sizeof(impl) / sizeof(*impl); k++) {
		ops = kern_ops_get(impl[k]);
		if (!ops) {
			printf("# no %s on this CPU\n", impl[k]);
			continue;
		}
		for (i = 0; i < N_TYPES; i++) {
			for (good = 1, times = 20; times-- && good;)
				good = product(all_types[i]);
			ok(good, "%s: product %s one by one and in a batch", impl[k], kern_type_name(all_types[i]));
		}
		for (times = 15; times-- && attention();)
			;
	}
	return done();
}
