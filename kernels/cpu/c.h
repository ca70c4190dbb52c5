/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* The words of docs/numerics.md in plain C. */
#ifndef KERNELS_CPU_C_H
#define KERNELS_CPU_C_H

#include <math.h>

#include "../layout.h"

static inline float tree(const float a[8])
{
	return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

/* Terms that are missing in the last group of eight are products of zeros: they turn a -0 into +0. */
static inline float dot(const float *x, const float *y, uint32_t n)
{
	float acc[8] = { 0 };
	uint32_t i;

	for (i = 0; i < n; i++)
		acc[i & 7] = fmaf(x[i], y[i], acc[i & 7]);
	for (; i & 7; i++)
		acc[i & 7] += 0.0f;
	return tree(acc);
}

static inline float exp_one(float x)
{
	float n, t, p;

	if (x < -87.0f)
		return 0.0f;
	if (x > 88.0f)
		x = 88.0f;
	if (x != x)
		return x;
	n = rintf(x * 0x1.715476p+0f);
	t = fmaf(n, -0x1.62e400p-1f, x);
	t = fmaf(n, -0x1.7f7d1cp-20f, t);
	p = fmaf(0x1.6a241ap-10f, t, 0x1.1239f2p-7f);
	p = fmaf(p, t, 0x1.5558f2p-5f);
	p = fmaf(p, t, 0x1.555492p-3f);
	p = fmaf(p, t, 0x1.fffffcp-2f);
	p = fmaf(p, t, 1.0f);
	p = fmaf(p, t, 1.0f);
	return p * float_of((uint32_t)((int32_t)n + 127) << 23);
}

static inline float tanh_one(float x)
{
	float z = x * x, p;

	if (!(fabsf(x) < 0.25f))
		return 1.0f - 2.0f / (1.0f + exp_one(x + x));
	p = fmaf(z, 0x1.664f48p-6f, -0x1.ba1ba2p-5f);
	p = fmaf(z, p, 0x1.111112p-3f);
	p = fmaf(z, p, -0x1.555556p-2f);
	return fmaf(x * z, p, x);
}

static inline float gelu_one(float g)
{
	float z = fmaf(g * (g * g), 0x1.6e4e26p-5f, g);

	return g / (1.0f + exp_one(z * -0x1.988454p+0f));
}

#endif
