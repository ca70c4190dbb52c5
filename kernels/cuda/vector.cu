// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Operations on rows: embedding, norm, gate, sum, soft cap. A block a row; the norm a warp a vector. */
#include "layout.cuh"
#include "numerics.cuh"

#define THREADS 128

DEV float embed_value(const struct cu_embed &a, uint32_t token, uint32_t c)
{
	size_t at = (size_t)token * ((a.dim + 7) / 8 * 8) + c;

	switch (a.type) {
	case CU_F32:
		return ((const float *)a.w)[at];
	case CU_F16:
		return f16_to_f32(((const uint16_t *)a.w)[at]);
	case CU_BF16:
		return float_of((uint32_t)((const uint16_t *)a.w)[at] << 16);
#define X(t) \
	case t: \
		return weight_value<t>(a.w, a.dim, token, c);
	CU_QUANTISED(X)
#undef X
	}
	return 0;
}

/* grid: x = rows */
KERNEL(embed, cu_embed, THREADS)
{
	uint32_t r = block_x(), c;

	if (r >= *a.count)
		return;
	for (c = thread_id(); c < a.dim; c += THREADS) {
		float v = embed_value(a, a.rows[r].token, c);

		a.x[(size_t)r * a.dim + c] = a.scale == 1 ? v : v * a.scale;
	}
}

/* grid: x = rows * heads / 4, rounded up: a warp a vector. Lanes 0..7 hold the sums; the others help to load and to store. */
KERNEL(norm, cu_norm, THREADS)
{
	uint32_t v = block_x() * (THREADS / WARP) + warp_id(), r = v / a.heads, i;
	const float *x;
	float *y, sum = 0, scale;

	if (r >= *a.count)
		return;
	x = a.x + (size_t)(a.index ? a.index[r] : r) * a.ldx + (size_t)(v % a.heads) * a.n;
	y = a.y + (size_t)r * a.ldy + (size_t)(v % a.heads) * a.n;
	/* 32 values a step, one a lane; lane j < 8 takes terms j, j + 8, j + 16, j + 24 of them in order. */
	for (i = 0; i < a.n; i += WARP) {
		float t = i + lane_id() < a.n ? x[i + lane_id()] : 0.0f;

		UNROLL
		for (uint32_t k = 0; k < 4; k++) {
			float u = shfl(t, lane_id() % 8 + 8 * k);

			sum = fma32(u, u, sum);
		}
	}
	scale = 1.0f / sqrt32(tree8(sum) / (float)a.n + a.eps);
	for (i = lane_id(); i < a.n; i += WARP)
		y[i] = (x[i] * scale) * a.w[i];
}

/* grid: x = rows */
KERNEL(gate, cu_gate, THREADS)
{
	size_t r = block_x();
	uint32_t i;

	if (r >= *a.count)
		return;
	for (i = thread_id(); i < a.n; i += THREADS) {
		float g = a.g[r * a.n + i];

		a.y[r * a.ldy + i] = (a.gelu ? gelu_one(g) : silu_one(g)) * a.u[r * a.n + i];
	}
}

/* grid: x = rows */
KERNEL(add, cu_add, THREADS)
{
	size_t r = block_x();
	uint32_t i;

	if (r >= *a.count)
		return;
	for (i = thread_id(); i < a.n; i += THREADS)
		a.x[r * a.ldx + i] += a.y[r * a.ldy + i];
}

/* grid: x = rows */
KERNEL(softcap, cu_softcap, THREADS)
{
	size_t r = block_x();
	uint32_t i;

	if (r >= *a.count)
		return;
	for (i = thread_id(); i < a.n; i += THREADS)
		a.x[r * a.n + i] = tanh_one(a.x[r * a.n + i] / a.cap) * a.cap;
}
