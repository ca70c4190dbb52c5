/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* The words of docs/numerics.md for kernels: the same operations in the same order as cpu/c.h. */
#ifndef KERNELS_CUDA_NUMERICS_H
#define KERNELS_CUDA_NUMERICS_H

#include "device.h"

DEV bool finite(float x)
{
	return (bits_of(x) & 0x7f800000u) != 0x7f800000u;
}

DEV float exp_one(float x)
{
	float n, t, p;

	if (x < -87.0f)
		return 0.0f;
	if (x > 88.0f)
		x = 88.0f;
	if (x != x)
		return x;
	n = rint32(x * 0x1.715476p+0f);
	t = fma32(n, -0x1.62e400p-1f, x);
	t = fma32(n, -0x1.7f7d1cp-20f, t);
	p = fma32(0x1.6a241ap-10f, t, 0x1.1239f2p-7f);
	p = fma32(p, t, 0x1.5558f2p-5f);
	p = fma32(p, t, 0x1.555492p-3f);
	p = fma32(p, t, 0x1.fffffcp-2f);
	p = fma32(p, t, 1.0f);
	p = fma32(p, t, 1.0f);
	return p * float_of((uint32_t)((int32_t)n + 127) << 23);
}

DEV float tanh_one(float x)
{
	float z = x * x, p;

	if (!(x < 0.25f && x > -0.25f))
		return 1.0f - 2.0f / (1.0f + exp_one(x + x));
	p = fma32(z, 0x1.664f48p-6f, -0x1.ba1ba2p-5f);
	p = fma32(z, p, 0x1.111112p-3f);
	p = fma32(z, p, -0x1.555556p-2f);
	return fma32(x * z, p, x);
}

DEV float silu_one(float g)
{
	return g / (1.0f + exp_one(-g));
}

DEV float gelu_one(float g)
{
	float z = fma32(g * (g * g), 0x1.6e4e26p-5f, g);

	return g / (1.0f + exp_one(z * -0x1.988454p+0f));
}

/* The tree over eight lanes of a warp that hold a_0 .. a_7; @i its own index. All eight get the sum. */
DEV float tree8(float a)
{
	a += shfl_xor(a, 4); /* a_i + a_(i+4); addition commutes, to the bit */
	a += shfl_xor(a, 2);
	return a + shfl_xor(a, 1);
}

/* The same where one thread holds all of them. */
DEV float tree(const float a[8])
{
	return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

#endif
