/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* What the kernel tests share: random values of every kind, buffers of the exact size, comparison by bits. */
#ifndef KERN_TEST_H
#define KERN_TEST_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/tap.h"
#include "kvslab_kernels.h"

#define EPS 0x1p-24 /* relative error of one f32 rounding */

static uint64_t seed;

__attribute__((unused)) static uint32_t below(uint32_t n)
{
	return (uint32_t)(rnd(&seed) % n);
}

__attribute__((unused)) static uint32_t between(uint32_t a, uint32_t b)
{
	return a + below(b - a + 1);
}

/* Exact size, so that a sanitizer sees the first byte beyond. */
__attribute__((unused)) static void *buffer(size_t bytes)
{
	void *p;

	if (posix_memalign(&p, KERN_ALIGN, bytes ? bytes : 1))
		abort();
	memset(p, 0xa5, bytes);
	return p;
}

__attribute__((unused)) static float *floats(size_t n)
{
	return buffer(n * sizeof(float));
}

/* Kinds of random values. */
enum kind {
	PLAIN, /* -1 .. 1 */
	WIDE, /* any exponent that lets products stay finite */
	TINY, /* subnormals, zeros of both signs */
	HUGE_VALUES, /* products overflow */
	BAD, /* NaN and infinities among plain ones */
	KINDS,
};

__attribute__((unused)) static const char *const kind_names[KINDS] = { "plain", "wide", "tiny", "huge", "bad" };

__attribute__((unused)) static float value(enum kind kind)
{
	double u = (double)(rnd(&seed) >> 11) * 0x1p-52 - 1;
	uint32_t bits;
	float x;

	switch (kind) {
	case WIDE:
		return (float)ldexp(u, (int)below(60) - 40);
	case TINY:
		bits = (uint32_t)rnd(&seed) & (below(4) ? 0x807fffff : 0x80000000);
		memcpy(&x, &bits, 4);
		return x;
	case HUGE_VALUES:
		return (float)ldexp(u, 100 + (int)below(28));
	case BAD:
		switch (below(40)) {
		case 0:
			return NAN;
		case 1:
			return INFINITY;
		case 2:
			return -INFINITY;
		}
		return (float)u;
	default:
		return (float)u;
	}
}

__attribute__((unused)) static float *values_of(enum kind kind, size_t n)
{
	float *x = floats(n);
	size_t i;

	for (i = 0; i < n; i++)
		x[i] = value(kind);
	return x;
}

/* Equal bits; a NaN equals any NaN. */
__attribute__((unused)) static int same(const float *a, const float *b, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (memcmp(a + i, b + i, 4) && !(isnan(a[i]) && isnan(b[i]))) {
			printf("# at %zu of %zu: %a and %a\n", i, n, a[i], b[i]);
			return 0;
		}
	}
	return 1;
}

__attribute__((unused)) static const enum kern_type all_types[] = {
	KERN_F32,  KERN_F16,  KERN_BF16, KERN_Q8_0, KERN_Q4_0, KERN_Q4_1,
	KERN_Q5_0, KERN_Q5_1, KERN_IQ4_NL, KERN_Q4_K, KERN_Q5_K, KERN_Q6_K,
};
#define N_TYPES 12

/* Bytes of a block, and where in it f16 scales lie (a second one where it is not 0). */
struct block_form {
	uint32_t bytes, cols, scale, second;
};

static struct block_form form_of(enum kern_type type)
{
	switch ((uint32_t)type) {
	case KERN_Q8_0:
		return (struct block_form){ 34, 32, 0, 0 };
	case KERN_Q4_1:
		return (struct block_form){ 20, 32, 0, 2 };
	case KERN_Q5_0:
		return (struct block_form){ 22, 32, 0, 0 };
	case KERN_Q5_1:
		return (struct block_form){ 24, 32, 0, 2 };
	case KERN_Q4_K:
		return (struct block_form){ 144, 256, 0, 2 };
	case KERN_Q5_K:
		return (struct block_form){ 176, 256, 0, 2 };
	case KERN_Q6_K:
		return (struct block_form){ 210, 256, 208, 0 };
	default: /* Q4_0, IQ4_NL */
		return (struct block_form){ 18, 32, 0, 0 };
	}
}

/* A number of columns that the type permits, about @most32 blocks of 32 at most; @most others where not quantised. */
__attribute__((unused)) static uint32_t some_cols(enum kern_type type, uint32_t least32, uint32_t most32, uint32_t most)
{
	uint32_t step;

	if (!kern_type_quantised(type))
		return between(1, most);
	step = form_of(type).cols / 32;
	return form_of(type).cols * between((least32 + step - 1) / step, (most32 + step - 1) / step);
}

static uint16_t random_half(enum kind kind)
{
	switch (kind) {
	case WIDE:
		return kern_f16_from_f32((float)ldexp(value(PLAIN), -(int)below(14)));
	case TINY:
		return (uint16_t)(rnd(&seed) & (below(3) ? 0x83ff : 0x8000));
	case HUGE_VALUES:
		return (uint16_t)((rnd(&seed) & 0x83ff) | 30 << 10);
	case BAD:
		return below(30) ? kern_f16_from_f32(value(PLAIN)) : (uint16_t)rnd(&seed) | 0x7c00;
	default:
		return kern_f16_from_f32(value(PLAIN));
	}
}

/* A matrix as a GGUF file holds it. */
__attribute__((unused)) static uint8_t *file_matrix(enum kern_type type, uint32_t rows, uint32_t cols, enum kind kind)
{
	size_t row_bytes = kern_row_bytes(type, cols), size = rows * row_bytes, i;
	struct block_form form = form_of(type);
	uint8_t *m = buffer(size);
	float x;
	uint16_t h;

	if (type == KERN_F32 || type == KERN_BF16) {
		for (i = 0; i < size; i += type == KERN_F32 ? 4 : 2) {
			x = value(kind);
			if (type == KERN_F32)
				memcpy(m + i, &x, 4);
			else
				memcpy(m + i, (char *)&x + 2, 2);
		}
	} else if (type == KERN_F16) {
		for (i = 0; i < size; i += 2) {
			h = random_half(kind);
			memcpy(m + i, &h, 2);
		}
	} else {
		for (i = 0; i < size; i++)
			m[i] = (uint8_t)rnd(&seed);
		for (i = 0; i < size; i += form.bytes) {
			h = random_half(kind);
			memcpy(m + i + form.scale, &h, 2);
			h = random_half(kind);
			if (form.second)
				memcpy(m + i + form.second, &h, 2);
		}
	}
	return m;
}

/*
 * Column @c of a row of a quantised type, as the file format says, written apart from the library: the integer, the scale
 * @d that it is multiplied with and the minimum @m that is added, these as products of two factors of which f64 loses
 * nothing. @half is what turns 16 bits into a number.
 */
__attribute__((unused)) static void format_read(enum kern_type type, const uint8_t *row, uint32_t c, double (*half)(uint16_t),
						int *q, double *d, double *m)
{
	static const int nl[16] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 };
	struct block_form form = form_of(type);
	const uint8_t *b = row + c / form.cols * form.bytes, *f = b + 4;
	uint32_t i = c % 32, j = c % 256 / 32, high;
	uint16_t h[2] = { 0, 0 };
	int scale, min;

	memcpy(h, b + form.scale, 2);
	memcpy(h + 1, b + form.second, 2);
	*d = half(h[0]);
	*m = form.second ? half(h[1]) : 0;
	if (form.cols == 256 && type != KERN_Q6_K) {
		scale = j < 4 ? f[j] % 64 : f[j + 4] % 16 + f[j - 4] / 64 * 16;
		min = j < 4 ? f[j + 4] % 64 : f[j + 4] / 16 + f[j] / 64 * 16;
		*d *= scale;
		*m = -(*m * min);
	}
	switch ((uint32_t)type) {
	case KERN_Q8_0:
		*q = (int8_t)b[2 + i];
		break;
	case KERN_Q4_0:
		*q = (i < 16 ? b[2 + i] % 16 : b[2 + i - 16] / 16) - 8;
		break;
	case KERN_IQ4_NL:
		*q = nl[i < 16 ? b[2 + i] % 16 : b[2 + i - 16] / 16];
		break;
	case KERN_Q4_1:
		*q = i < 16 ? b[4 + i] % 16 : b[4 + i - 16] / 16;
		break;
	case KERN_Q5_0:
	case KERN_Q5_1:
		b += type == KERN_Q5_0 ? 2 : 4;
		high = (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
		*q = (i < 16 ? b[4 + i] % 16 : b[4 + i - 16] / 16) + (int)(high >> i & 1) * 16 - (type == KERN_Q5_0 ? 16 : 0);
		break;
	case KERN_Q4_K:
		*q = j % 2 ? b[16 + j / 2 * 32 + i] / 16 : b[16 + j / 2 * 32 + i] % 16;
		break;
	case KERN_Q5_K:
		*q = j % 2 ? b[48 + j / 2 * 32 + i] / 16 : b[48 + j / 2 * 32 + i] % 16;
		*q += (b[16 + i] >> j & 1) * 16;
		break;
	case KERN_Q6_K:
		*q = (j % 4 < 2 ? b[j / 4 * 64 + j % 2 * 32 + i] % 16 : b[j / 4 * 64 + j % 2 * 32 + i] / 16);
		*q += (b[128 + j / 4 * 32 + i] >> j % 4 * 2 & 3) * 16 - 32;
		*d *= (int8_t)b[192 + c % 256 / 16];
	}
}

/* Repacked in pieces, as threads would. */
__attribute__((unused)) static struct kern_weight weight_from(enum kern_type type, uint32_t rows, uint32_t cols,
							      const void *file)
{
	struct kern_weight w = { .type = type, .rows = rows, .cols = cols };
	uint32_t r, m;

	w.data = buffer(kern_weight_bytes(type, rows, cols));
	for (r = 0; r < rows; r += m) {
		m = KERN_TILE_ROWS * between(1, 3);
		kern_repack(&w, file, NULL, r, r + m < rows ? r + m : rows);
	}
	return w;
}

/* Activations of @n rows, for quantised weights where @levels is not 0. */
struct act {
	struct kern_act a;
	float *x;
};

__attribute__((unused)) static struct act act_new(const struct kern_ops *ops, uint32_t levels, uint32_t n, uint32_t cols,
						  uint32_t ld, const float *x)
{
	struct act act = { .a = { .cols = cols, .ld = ld, .levels = levels } };
	uint32_t t, c, pad = (cols + 7) / 8 * 8;
	/* The last row ends where its columns do. */
	size_t all = n ? (size_t)(n - 1) * ld + cols : 0, padded = n ? (size_t)(n - 1) * ld + pad : 0;

	act.x = floats(padded);
	for (t = 0; t < n; t++)
		for (c = 0; c < pad; c++)
			act.x[(size_t)t * ld + c] = c < cols ? x[(size_t)t * cols + c] : 0;
	act.a.f = act.x;
	if (levels && cols % KERN_BLOCK == 0) {
		act.a.q = buffer(all * 2);
		act.a.d = floats(all / KERN_BLOCK);
		act.a.s = floats(all / KERN_BLOCK);
		ops->quantise(&act.a, act.x, n);
	}
	return act;
}

__attribute__((unused)) static void act_free(struct act *act)
{
	free(act->x);
	free(act->a.q);
	free(act->a.d);
	free(act->a.s);
}

/* Keys and values of one sequence in pages, written by append. */
struct kv {
	struct kern_attn attn;
	struct kern_append append;
	void **pages;
	uint32_t n_pages, keys;
	float *rope;
};

/* k and v are [keys][n_kv_heads * head_dim]. @scatter: the layer lies at a random place in the page. */
__attribute__((unused)) static struct kv kv_new(const struct kern_ops *ops, uint32_t keys, uint32_t kv_heads,
						uint32_t ratio, uint32_t head_dim, uint32_t rope_dim, bool f32,
						uint32_t page_tokens, const float *k, const float *v)
{
	size_t row = (size_t)head_dim * (f32 ? 4 : 2), layer = 16 * between(0, 20);
	size_t stride = (page_tokens * row + 15) / 16 * 16 + 16 * below(3), v_offset = kv_heads * stride;
	struct kv kv = { .keys = keys, .n_pages = (keys + page_tokens - 1) / page_tokens };
	uint32_t i, m;

	kv.pages = buffer(kv.n_pages * sizeof(*kv.pages));
	for (i = 0; i < kv.n_pages; i++)
		kv.pages[i] = buffer(layer + v_offset + (kv_heads - 1) * stride + page_tokens * row);
	kv.rope = floats((size_t)keys * rope_dim);
	kern_rope_table(kv.rope, keys, rope_dim, 10000);
	kv.append = (struct kern_append){
		.k = k, .v = v, .k_ld = kv_heads * head_dim, .v_ld = kv_heads * head_dim,
		.n_kv_heads = kv_heads, .head_dim = head_dim, .rope_dim = rope_dim, .rope = kv.rope, .kv_f32 = f32,
		.pages = kv.pages, .page_tokens = page_tokens,
		.layer_offset = layer, .v_offset = v_offset, .head_stride = stride,
	};
	for (i = 0; i < keys; i += m) {
		m = between(1, keys - i);
		kv.append.k = k + (size_t)i * kv.append.k_ld;
		kv.append.v = v + (size_t)i * kv.append.v_ld;
		kv.append.pos0 = i;
		kv.append.n = m;
		ops->append(&kv.append, 0, m);
	}
	kv.attn = (struct kern_attn){
		.n_heads = kv_heads * ratio, .n_kv_heads = kv_heads, .head_dim = head_dim,
		.scale = 1.0f / sqrtf((float)head_dim), .kv_f32 = f32,
		.pages = (const void *const *)kv.pages, .page_tokens = page_tokens,
		.layer_offset = layer, .v_offset = v_offset, .head_stride = stride,
		.q_ld = kv_heads * ratio * head_dim,
	};
	return kv;
}

__attribute__((unused)) static void kv_free(struct kv *kv)
{
	uint32_t i;

	for (i = 0; i < kv->n_pages; i++)
		free(kv->pages[i]);
	free(kv->pages);
	free(kv->rope);
}

#endif
