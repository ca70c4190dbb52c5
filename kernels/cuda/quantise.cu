// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Activations as products with quantised weights want them: a warp a block of 32 columns. */
#include "numerics.cuh"

#define THREADS 128

DEV float warp_max(float v)
{
	UNROLL
	for (uint32_t m = 16; m; m /= 2) {
		float o = shfl_xor(v, m);

		v = o > v ? o : v;
	}
	return v;
}

DEV uint32_t warp_sum(uint32_t v)
{
	UNROLL
	for (uint32_t m = 16; m; m /= 2)
		v += shfl_xor(v, m);
	return v;
}

/* grid: x = blocks of a row / 4, rounded up; y = rows */
KERNEL(quantise, cu_quantise, THREADS)
{
	uint32_t b = block_x() * (THREADS / WARP) + warp_id(), r = block_y();
	size_t at = ((size_t)r * a.ld + b * 32) / 32;
	float x, amax, levels = (float)a.levels, d, scale, v;
	int32_t q = 0, sum;
	bool good;

	if (r >= *a.count || b >= a.cols / 32)
		return;
	x = a.x[at * 32 + lane_id()];
	good = vote(!finite(x)) == 0;
	amax = warp_max(x < 0 ? -x : x);
	scale = amax > 0 ? levels / amax : 0;
	if (!finite(scale))
		scale = 0;
	d = scale > 0 ? amax / levels : 0;
	if (good) {
		v = rint32(x * scale);
		q = (int32_t)(v > levels ? levels : v < -levels ? -levels : v);
	} else {
		d = float_of(0x7fc00000u); /* not a number, and so is every product with it */
	}
	a.q[at * 32 + lane_id()] = (int16_t)q;
	sum = (int32_t)warp_sum((uint32_t)q);
	if (lane_id())
		return;
	a.d[at] = d;
	a.s[at] = d * (float)sum;
}
