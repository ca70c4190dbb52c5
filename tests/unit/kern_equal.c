// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Every implementation gives plain C's bits, on every shape and every kind of value. */
#include "kern_test.h"

static const struct kern_ops *c, *fast;

static uint32_t odd_length(void)
{
	return below(3) ? between(1, 40) : between(1, 2000);
}

static int vectors(enum kind kind)
{
	uint32_t n = odd_length();
	float *x = values_of(kind, n), *g = values_of(kind, n), *w = values_of(PLAIN, n), *a = floats(n), *b = floats(n);
	float eps = below(2) ? 1e-5f : 1e-6f, sub = value(kind), m, k;
	bool fin_a, fin_b;
	int good = 1;

	c->rmsnorm(a, x, w, n, eps);
	fast->rmsnorm(b, x, w, n, eps);
	good &= same(a, b, n);
	memcpy(b, x, n * 4);
	fast->rmsnorm(b, b, w, n, eps);
	good &= same(a, b, n);
	c->swiglu(a, g, x, n);
	fast->swiglu(b, g, x, n);
	good &= same(a, b, n);
	c->geglu(a, g, x, n);
	fast->geglu(b, g, x, n);
	good &= same(a, b, n);
	memcpy(a, x, n * 4);
	memcpy(b, x, n * 4);
	c->softcap(a, n, eps * 1e5f);
	fast->softcap(b, n, eps * 1e5f);
	good &= same(a, b, n);
	memcpy(a, x, n * 4);
	memcpy(b, x, n * 4);
	c->add(a, g, n);
	fast->add(b, g, n);
	good &= same(a, b, n);
	memcpy(a, x, n * 4);
	if (kind != TINY)
		for (k = 0; k < n; k++)
			a[(int)k] *= 100; /* so that exp meets its ends */
	memcpy(b, a, n * 4);
	c->exp(a, n);
	fast->exp(b, n);
	good &= same(a, b, n);
	m = c->max(x, n, &fin_a);
	k = fast->max(x, n, &fin_b);
	good &= same(&m, &k, 1) && fin_a == fin_b;
	m = c->expsum(x, n, sub);
	k = fast->expsum(x, n, sub);
	good &= same(&m, &k, 1);
	if (!good)
		printf("# n %u kind %s\n", n, kind_names[kind]);
	free(x), free(g), free(w), free(a), free(b);
	return good;
}

/* Where the definitions change from one case to the next, in a vector and in a tail. */
static int edges(void)
{
	const float at[] = { -87.0f, nextafterf(-87.0f, -INFINITY), nextafterf(-87.0f, 0), 88.0f,
			     nextafterf(88.0f, INFINITY), nextafterf(88.0f, 0), 0.0f, -0.0f, 0x1.62e43p-2f,
			     -0x1.62e43p-2f, 3.4028235e38f, -3.4028235e38f, INFINITY, -INFINITY, NAN, 1e-45f };
	uint32_t n = sizeof(at) / sizeof(*at), i, m;
	bool fin_a, fin_b;
	float a[16], b[16];
	int good = 1;

	for (i = 0; i < n; i++) {
		for (m = 1; m <= 16; m++) {
			for (uint32_t j = 0; j < m; j++)
				a[j] = b[j] = at[i];
			good &= c->max(a, m, &fin_a) == fast->max(b, m, &fin_b) || isnan(at[i]);
			good &= fin_a == fin_b && fin_a == !!isfinite(at[i]);
			c->exp(a, m);
			fast->exp(b, m);
			good &= same(a, b, m);
		}
	}
	return good;
}

static int rope(enum kind kind)
{
	uint32_t heads = between(1, 4), dim = 8 * between(1, 32), rope_dim = 2 * between(0, dim / 2);
	float *x = values_of(kind, heads * dim), *y = floats(heads * dim), *table = floats(rope_dim * 3);
	int good;

	kern_rope_table(table, 3, rope_dim, 10000);
	memcpy(y, x, heads * dim * 4);
	c->rope(x, heads, dim, rope_dim, table + 2 * rope_dim);
	fast->rope(y, heads, dim, rope_dim, table + 2 * rope_dim);
	good = same(x, y, heads * dim);
	free(x), free(y), free(table);
	return good;
}

static int quantise(enum kind kind)
{
	uint32_t n = between(1, 5), cols = KERN_BLOCK * between(1, 20), ld = cols + KERN_BLOCK * below(3), t;
	float *x = values_of(kind, (size_t)n * cols);
	uint32_t levels = below(3) ? below(2) ? 4095 : 16383 : 32767;
	struct act a = act_new(c, levels, n, cols, ld, x), b = act_new(fast, levels, n, cols, ld, x);
	int good = 1;

	for (t = 0; t < n; t++) {
		size_t at = (size_t)t * ld;

		good &= !memcmp(a.a.q + at, b.a.q + at, cols * 2);
		good &= same(a.a.d + at / KERN_BLOCK, b.a.d + at / KERN_BLOCK, cols / KERN_BLOCK);
		good &= same(a.a.s + at / KERN_BLOCK, b.a.s + at / KERN_BLOCK, cols / KERN_BLOCK);
	}
	act_free(&a), act_free(&b), free(x);
	return good;
}

static int product(enum kern_type type, enum kind kind)
{
	/* Now and then so wide that columns or tokens are cut into several passes. */
	uint32_t rows = between(1, 70), n = below(3) ? between(1, 9) : between(1, 40), cols, ld, ldy, r0, r1;
	uint8_t *file;
	struct kern_weight w;
	struct act x;
	float *in, *a, *b;
	int good;

	cols = some_cols(type, 1, below(4) ? 8 : 80, 200);
	if (!below(40)) {
		cols = kern_type_quantised(type) ? some_cols(type, 500, 1100, 0) : between(8000, 70000);
		n = between(1, 17);
		rows = between(1, 33);
	}
	ld = (cols + KERN_BLOCK - 1) / KERN_BLOCK * KERN_BLOCK + KERN_BLOCK * below(2);
	ldy = rows + below(5);
	r0 = below((rows + 15) / 16) * 16;
	r1 = below(2) ? rows : r0 + 16 < rows ? r0 + 16 : rows;
	file = file_matrix(type, rows, cols, below(2) ? kind : PLAIN);
	w = weight_from(type, rows, cols, file);
	in = values_of(below(2) ? kind : PLAIN, (size_t)n * cols);
	/* 4-bit weights may share their activations with Q8_0. */
	x = act_new(c, kern_type_quantised(type) && below(2) ? 4095 : kern_type_levels(type), n, cols, ld, in);
	a = floats((size_t)(n - 1) * ldy + rows);
	b = floats((size_t)(n - 1) * ldy + rows);
	c->product(&w, r0, r1, &x.a, n, a, ldy);
	fast->product(&w, r0, r1, &x.a, n, b, ldy);
	/* The whole of both: what is outside [r0, r1) must be as it was. */
	good = same(a, b, (size_t)(n - 1) * ldy + rows);
	if (!good)
		printf("# %s %u x %u, rows %u .. %u, %u tokens, kind %s\n", kern_type_name(type), rows, cols, r0, r1, n,
		       kind_names[kind]);
	act_free(&x), free(w.data), free(file), free(in), free(a), free(b);
	return good;
}

static int attention(enum kind kind)
{
	uint32_t dims[] = { 8, 16, 40, 64, 64, 80, 96, 128, 256 }, dim = dims[below(9)], kv_heads = between(1, 3);
	uint32_t ratio = between(1, below(3) ? 4 : 16), keys = between(1, below(3) ? 50 : 300);
	uint32_t rope_dim = below(3) ? dim : 2 * between(0, dim / 2), page_tokens = between(1, 40);
	uint32_t n_q = between(1, below(2) ? 3 : keys), h, i;
	bool f32 = below(2);
	size_t row = (size_t)kv_heads * dim, n;
	float *k, *v, *q, *a, *b;
	struct kv x, y;
	int good = 1;

	n_q = n_q < keys ? n_q : keys;
	n = (size_t)n_q * row * ratio;
	k = values_of(kind, keys * row);
	v = values_of(below(2) ? kind : PLAIN, keys * row);
	q = values_of(below(2) ? kind : PLAIN, n);
	if (kind == PLAIN)
		for (i = 0; i < n; i++)
			q[i] *= 30; /* so that the maximum moves */
	a = floats(n);
	b = floats(n);
	x = kv_new(c, keys, kv_heads, ratio, dim, rope_dim, f32, page_tokens, k, v);
	y = kv_new(fast, keys, kv_heads, ratio, dim, rope_dim, f32, page_tokens, k, v);
	x.attn.n_q = y.attn.n_q = n_q;
	x.attn.pos0 = y.attn.pos0 = keys - n_q;
	x.attn.q = y.attn.q = q;
	if (below(2))
		x.attn.window = y.attn.window = between(1, keys + 5);
	if (below(2))
		x.attn.softcap = y.attn.softcap = 0.5f + (float)below(20);
	x.attn.out = a;
	y.attn.out = b;
	for (h = 0; h < kv_heads; h++) {
		c->attention(&x.attn, h, 0, n_q);
		fast->attention(&y.attn, h, 0, n_q);
	}
	good &= same(a, b, n);
	if (!good)
		printf("# dim %u kv heads %u ratio %u keys %u queries %u page %u window %u cap %g %s kind %s\n", dim,
		       kv_heads, ratio, keys, n_q, page_tokens, x.attn.window, x.attn.softcap, f32 ? "f32" : "f16",
		       kind_names[kind]);
	kv_free(&x), kv_free(&y), free(k), free(v), free(q), free(a), free(b);
	return good;
}

/* ASan makes the vector code some forty times slower; the plain run has the numbers. */
#ifdef __SANITIZE_ADDRESS__
#define LESS 10
#else
#define LESS 1
#endif
#define REPEAT(n, call) ({ int i_, good_ = 1; for (i_ = 0; i_ < (n) / LESS && good_; i_++) good_ = (call); good_; })

int main(int argc, char **argv)
{
	static const char *const impl[] = { "avx2", "avxvnni", "avx512" };
	const struct kern_ops *best;
	unsigned int k;
	int kind, i;

	seed = tap_seed(argc, argv);
	c = best = kern_ops_get("c");
	ok(c && !strcmp(c->name, "c"), "plain C");
	ok(!kern_ops_get("avx1024") && !kern_ops_get(""), "no implementation of an unknown name");
	for (k = 0; k < sizeof(impl) / sizeof(*impl); k++) {
		fast = kern_ops_get(impl[k]);
		if (!fast) {
			printf("# no %s on this CPU\n", impl[k]);
			continue;
		}
		best = fast;
		ok(fast != c && !strcmp(fast->name, impl[k]), "%s", impl[k]);
		ok(edges(), "%s: edges of exp and max", impl[k]);
		for (kind = 0; kind < KINDS; kind++) {
			ok(REPEAT(150, vectors(kind)), "%s: norm, gate, sums, exp, max: %s", impl[k], kind_names[kind]);
			ok(REPEAT(50, rope(kind)), "%s: rope: %s", impl[k], kind_names[kind]);
			ok(REPEAT(50, quantise(kind)), "%s: quantise: %s", impl[k], kind_names[kind]);
			for (i = 0; i < N_TYPES; i++)
				ok(REPEAT(40, product(all_types[i], kind)), "%s: product %s: %s", impl[k],
				   kern_type_name(all_types[i]), kind_names[kind]);
			ok(REPEAT(40, attention(kind)), "%s: attention: %s", impl[k], kind_names[kind]);
		}
	}
	ok(kern_ops_get("auto") == best, "auto is the last of those that this CPU has: %s", best->name);
	return done();
}
