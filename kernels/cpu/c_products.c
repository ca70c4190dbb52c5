// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Quantising activations, and products with every type of weights. */
#include <assert.h>

#include "../unpack.h"
#include "c.h"
#include "impl.h"

static void quantise_block(const float *x, float levels, int16_t *q, float *d, float *s)
{
	float amax = 0, r;
	int32_t sum = 0;
	uint32_t i;

	for (i = 0; i < KERN_BLOCK; i++) {
		if (!isfinite(x[i])) {
			memset(q, 0, KERN_BLOCK * sizeof(*q));
			*d = *s = NAN;
			return;
		}
		amax = fmaxf(amax, fabsf(x[i]));
	}
	r = amax > 0 ? levels / amax : 0;
	if (!isfinite(r))
		r = 0;
	*d = r > 0 ? amax / levels : 0;
	for (i = 0; i < KERN_BLOCK; i++) {
		float v = rintf(x[i] * r);

		q[i] = (int16_t)(v > levels ? levels : v < -levels ? -levels : v);
		sum += q[i];
	}
	*s = *d * (float)sum;
}

void c_quantise(const struct kern_act *a, const float *x, uint32_t n)
{
	size_t ld = a->ld, t;
	uint32_t b;

	assert(a->cols % KERN_BLOCK == 0 && ld % KERN_BLOCK == 0 && a->levels && a->levels <= INT16_MAX);
	for (t = 0; t < n; t++) {
		for (b = 0; b < a->cols / KERN_BLOCK; b++) {
			size_t at = t * ld / KERN_BLOCK + b;

			quantise_block(x + at * KERN_BLOCK, (float)a->levels, a->q + at * KERN_BLOCK, a->d + at, a->s + at);
		}
	}
}

/* One tile of rows for n tokens; y at the tile's first row is the chain over the blocks. */
static void product_tile(const struct kern_weight *w, uint32_t row, uint32_t rows, const struct kern_act *x,
			 uint32_t n, float *y, size_t ldy)
{
	uint32_t scales = (uint32_t)type_scales(w->type), part = KERN_BLOCK / scales, b, k, r, i, h;
	int32_t ints[KERN_TILE_ROWS][KERN_BLOCK], sum;
	float dw[KERN_TILE_ROWS][2], mw[KERN_TILE_ROWS];
	size_t t;

	for (t = 0; t < n; t++)
		memset(y + t * ldy, 0, rows * sizeof(*y));
	for (b = 0; b < w->cols / KERN_BLOCK; b++) {
		const uint8_t *tile = weight_tile(w, row, b);

		k = b % tile_blocks(w->type);
		for (r = 0; r < rows; r++) {
			for (i = 0; i < KERN_BLOCK; i++)
				ints[r][i] = tile_int(w->type, tile, r, k, i);
			for (h = 0; h < scales; h++)
				dw[r][h] = tile_scale(w->type, tile, r, k, h);
			mw[r] = type_min(w->type) ? tile_min(w->type, tile, r, k) : 0;
		}
		for (t = 0; t < n; t++) {
			const int16_t *q = x->q + t * x->ld + b * KERN_BLOCK;
			float d = x->d[t * x->ld / KERN_BLOCK + b];

			for (r = 0; r < rows; r++) {
				float *acc = y + t * ldy + r;

				for (h = 0; h < scales; h++) {
					for (sum = 0, i = h * part; i < (h + 1) * part; i++)
						sum += q[i] * ints[r][i];
					*acc = fmaf((float)sum, dw[r][h] * d, *acc);
				}
				if (type_min(w->type))
					*acc = fmaf(mw[r], x->s[t * x->ld / KERN_BLOCK + b], *acc);
			}
		}
	}
}

static float dot_half(enum kern_type type, const uint16_t *w, const float *x, uint32_t n)
{
	float acc[8] = { 0 };
	uint32_t i;

	for (i = 0; i < n; i++)
		acc[i & 7] = fmaf(type == KERN_F16 ? kern_f16_to_f32(w[i]) : bf16_to_f32(w[i]), x[i], acc[i & 7]);
	return tree(acc);
}

void c_product(const struct kern_weight *w, uint32_t r0, uint32_t r1, const struct kern_act *x, uint32_t n,
	       float *y, size_t ldy)
{
	size_t stride = row_stride(w->cols), t;
	uint32_t r, rows;

	assert(r0 % KERN_TILE_ROWS == 0 && r1 <= w->rows && x->cols == w->cols);
	assert(r1 % KERN_TILE_ROWS == 0 || r1 == w->rows);
	if (kern_type_quantised(w->type)) {
		for (r = r0; r < r1; r += KERN_TILE_ROWS) {
			rows = r1 - r < KERN_TILE_ROWS ? r1 - r : KERN_TILE_ROWS;
			product_tile(w, r, rows, x, n, y + r, ldy);
		}
		return;
	}
	for (t = 0; t < n; t++) {
		const float *f = x->f + t * x->ld;

		for (r = r0; r < r1; r++) {
			if (w->type == KERN_F32)
				y[t * ldy + r] = dot((const float *)w->data + r * stride, f, stride);
			else
				y[t * ldy + r] =
					dot_half(w->type, (const uint16_t *)w->data + r * stride, f, stride);
		}
	}
}
