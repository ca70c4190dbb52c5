// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* IEEE half precision in plain integer arithmetic: nearest even, subnormals, infinities; NaN stays NaN. */
#include "layout.h"

uint16_t kern_f16_from_f32(float x)
{
	uint32_t u = bits_of(x), sign = u >> 16 & 0x8000, a = u & 0x7fffffff, m, shift, half, rest;

	if (a > 0x7f800000)
		return sign | 0x7e00;
	if (a >= 0x477ff000) /* 65520, half way to 65536, goes up */
		return sign | 0x7c00;
	if (a >= 0x38800000) { /* 2^-14: normal */
		a -= 0x38000000; /* rebias the exponent from 127 to 15 */
		return sign | ((a + 0xfff + (a >> 13 & 1)) >> 13);
	}
	if (a < 0x33000000) /* below 2^-25 */
		return sign;
	m = (a & 0x7fffff) | 0x800000;
	shift = 126 - (a >> 23); /* to units of 2^-24 */
	half = m >> shift;
	rest = m & ((1u << shift) - 1);
	if (rest > 1u << (shift - 1) || (rest == 1u << (shift - 1) && half & 1))
		half++;
	return sign | half;
}

float kern_f16_to_f32(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff;

	if (e == 31)
		return float_of(sign | 0x7f800000 | m << 13 | (m ? 0x400000 : 0));
	if (e)
		return float_of(sign | (e + 112) << 23 | m << 13);
	return float_of(sign | bits_of((float)m * 0x1p-24f));
}
