// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * Products with F32, F16 and BF16 weights: eight lanes a row by column, so a row and a token are one chain of
 * fma. One token: eight rows at once. More: four rows and three tokens at once.
 */
#include "avx2.h"

#define TOKENS_BYTES (1u << 20)

INLINE __m256 load_weights(enum kern_type type, const char *row, size_t col)
{
	if (type == KERN_F32)
		return _mm256_loadu_ps((const float *)row + col);
	if (type == KERN_F16)
		return load_f16((const uint16_t *)row + col);
	return load_bf16((const uint16_t *)row + col);
}

/* Rows [r, r + rows) for one token, rows 1 .. 8. */
INLINE void one(enum kern_type type, const char *w, size_t row_bytes, uint32_t rows, const float *x, size_t cols,
		float *y)
{
	__m256 acc[8], v;
	const char *row[8];
	size_t c;
	int i;

#pragma GCC unroll 8
	for (i = 0; i < 8; i++) {
		/* Rows beyond the last are the last again, and thrown away. */
		row[i] = w + (i < (int)rows ? (uint32_t)i : rows - 1) * row_bytes;
		acc[i] = _mm256_setzero_ps();
	}
	for (c = 0; c < cols; c += 8) {
		v = _mm256_loadu_ps(x + c);
#pragma GCC unroll 8
		for (i = 0; i < 8; i++)
			acc[i] = _mm256_fmadd_ps(load_weights(type, row[i], c), v, acc[i]);
	}
	if (rows == 8)
		_mm256_storeu_ps(y, tree8x8(acc));
	else
		_mm256_maskstore_ps(y, lanes_below(rows), tree8x8(acc));
}

/* Rows [r, r + rows), rows 1 .. 4, for @n tokens, a constant. */
INLINE void block(enum kern_type type, const uint32_t n, const char *w, size_t row_bytes, uint32_t rows, const float *x,
		  size_t ld, size_t cols, float *y, size_t ldy)
{
	const char *row[4];
	__m256 acc[3][4], v, wt[4];
	uint32_t t;
	size_t c;
	int i;

#pragma GCC unroll 4
	for (i = 0; i < 4; i++)
		row[i] = w + (i < (int)rows ? (uint32_t)i : rows - 1) * row_bytes;
#pragma GCC unroll 3
	for (t = 0; t < n; t++)
		acc[t][0] = acc[t][1] = acc[t][2] = acc[t][3] = _mm256_setzero_ps();
	for (c = 0; c < cols; c += 8) {
#pragma GCC unroll 4
		for (i = 0; i < 4; i++)
			wt[i] = load_weights(type, row[i], c);
#pragma GCC unroll 3
		for (t = 0; t < n; t++) {
			v = _mm256_loadu_ps(x + t * ld + c);
#pragma GCC unroll 4
			for (i = 0; i < 4; i++)
				acc[t][i] = _mm256_fmadd_ps(wt[i], v, acc[t][i]);
		}
	}
#pragma GCC unroll 3
	for (t = 0; t < n; t++) {
		__m128 r = tree8x4(acc[t]);

		if (rows == 4)
			_mm_storeu_ps(y + t * ldy, r);
		else
			_mm_maskstore_ps(y + t * ldy, _mm256_castsi256_si128(lanes_below(rows)), r);
	}
}

INLINE void product(enum kern_type type, const struct kern_weight *w, uint32_t r0, uint32_t r1,
		    const struct kern_act *x, uint32_t n, float *y, size_t ldy)
{
	size_t cols = row_stride(w->cols), row_bytes = cols * (type == KERN_F32 ? 4 : 2), ld = x->ld;
	uint32_t tokens = (uint32_t)(TOKENS_BYTES / (cols * 4) / 3 * 3), t0, t, t1, r;
	const char *data = w->data;

	if (n == 1) {
		for (r = r0; r < r1; r += 8)
			one(type, data + r * row_bytes, row_bytes, r1 - r < 8 ? r1 - r : 8, x->f, cols, y + r);
		return;
	}
	if (!tokens)
		tokens = 3;
	for (t0 = 0; t0 < n; t0 = t1) {
		t1 = n - t0 < tokens ? n : t0 + tokens;
		for (r = r0; r < r1; r += 4) {
			const char *row = data + r * row_bytes;
			uint32_t rows = r1 - r < 4 ? r1 - r : 4;

			for (t = t0; t + 3 <= t1; t += 3)
				block(type, 3, row, row_bytes, rows, x->f + t * ld, ld, cols, y + t * ldy + r, ldy);
			if (t1 - t == 2)
				block(type, 2, row, row_bytes, rows, x->f + t * ld, ld, cols, y + t * ldy + r, ldy);
			else if (t1 - t == 1)
				block(type, 1, row, row_bytes, rows, x->f + t * ld, ld, cols, y + t * ldy + r, ldy);
		}
	}
}

void avx2_product_float(const struct kern_weight *w, uint32_t r0, uint32_t r1, const struct kern_act *x, uint32_t n,
			float *y, size_t ldy)
{
	switch (w->type) {
	case KERN_F32:
		product(KERN_F32, w, r0, r1, x, n, y, ldy);
		break;
	case KERN_F16:
		product(KERN_F16, w, r0, r1, x, n, y, ldy);
		break;
	default:
		product(KERN_BF16, w, r0, r1, x, n, y, ldy);
	}
}
