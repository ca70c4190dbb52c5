/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* Repacked weights, as kernels read them: kernels/layout.h once more, with the type a constant. */
#ifndef KERNELS_CUDA_LAYOUT_H
#define KERNELS_CUDA_LAYOUT_H

#include "device.h"

/* Numbers are enum kern_type's. */
enum {
	CU_F32 = 0,
	CU_F16 = 1,
	CU_Q4_0 = 2,
	CU_Q4_1 = 3,
	CU_Q5_0 = 6,
	CU_Q5_1 = 7,
	CU_Q8_0 = 8,
	CU_Q4_K = 12,
	CU_Q5_K = 13,
	CU_Q6_K = 14,
	CU_IQ4_NL = 20,
	CU_BF16 = 30,
};

#define CU_QUANTISED(X) X(CU_Q4_0) X(CU_Q4_1) X(CU_Q5_0) X(CU_Q5_1) X(CU_Q8_0) X(CU_Q4_K) X(CU_Q5_K) X(CU_Q6_K) X(CU_IQ4_NL)

template <int T> struct layout {
	static constexpr bool k = T == CU_Q4_K || T == CU_Q5_K || T == CU_Q6_K;
	static constexpr bool min = T == CU_Q4_1 || T == CU_Q5_1 || T == CU_Q4_K || T == CU_Q5_K;
	static constexpr int bits = T == CU_Q8_0 ? 8 : T == CU_Q6_K ? 6 : T == CU_Q5_0 || T == CU_Q5_1 || T == CU_Q5_K ? 5 : 4;
	static constexpr int offset = T == CU_Q4_0 ? 8 : T == CU_Q5_0 ? 16 : T == CU_Q6_K ? 32 : 0;
	static constexpr int scales = T == CU_Q6_K ? 2 : 1; /* of 32 columns */
	static constexpr uint32_t blocks = k ? 8 : 1; /* of 32 columns in a tile */
	static constexpr uint32_t ints = T == CU_Q6_K ? 32 + 256 : k ? 64 + 8 * 24 : min ? 64 : 32; /* where they begin */
	static constexpr uint32_t block_ints = T == CU_Q8_0 ? 512 : 256;
	static constexpr uint32_t block_high = T == CU_Q8_0 ? 0 : (bits - 4) * 64;
	static constexpr uint32_t size = ints + blocks * (block_ints + block_high);
	static constexpr uint32_t factors = T == CU_Q6_K ? 32 : 64, block_factors = T == CU_Q6_K ? 32 : 24;
	static constexpr uint32_t high = ints + blocks * block_ints;
};

/* The tile of block @b of 32 columns, of row @row's sixteen. */
template <int T> DEV const uint8_t *weight_tile(const void *w, uint32_t cols, uint32_t row, uint32_t b)
{
	size_t tiles = cols / 32 / layout<T>::blocks;

	return (const uint8_t *)w + (row / CU_TILE_ROWS * tiles + b / layout<T>::blocks) * layout<T>::size;
}

/* Scale of row @r (of sixteen) in block @k of the tile; of one half of the columns where the type has two. */
template <int T> DEV float tile_scale(const uint8_t *tile, uint32_t r, uint32_t k, uint32_t half)
{
	float d = f16_to_f32(((const uint16_t *)tile)[r]);
	const uint8_t *f = tile + layout<T>::factors + k * layout<T>::block_factors;

	if (T == CU_Q6_K)
		return d * (float)(int8_t)f[half * 16 + r];
	return layout<T>::k ? d * (float)(f[r] & 63) : d;
}

template <int T> DEV float tile_min(const uint8_t *tile, uint32_t r, uint32_t k)
{
	const uint8_t *f = tile + layout<T>::factors + k * layout<T>::block_factors;
	float m;

	if (!layout<T>::min)
		return 0;
	m = f16_to_f32(((const uint16_t *)tile)[16 + r]);
	if (!layout<T>::k)
		return m;
	return -(m * (float)(f[r] >> 6 | (f[16 + r % 8] >> (r / 8 * 4) & 15) << 2));
}

/* Four nibbles, a byte each, to what IQ4_NL means by them. */
DEV uint32_t nl_bytes(uint32_t x)
{
	/* -127 -104 -83 -65 | -49 -35 -22 -10 | 1 13 25 38 | 53 69 89 113 */
	uint32_t sel = (x | x >> 4) & 0x00ff00ffu, low, high, mask;

	sel = (sel | sel >> 8) & 0x7777u;
	low = prmt(0xbfad9881u, 0xf6eaddcfu, sel);
	high = prmt(0x26190d01u, 0x71594535u, sel);
	mask = prmt(x << 4 & 0x80808080u, 0, 0xba98u);
	return (low & ~mask) | (high & mask);
}

/*
 * The eight columns of a group, of one row, as signed bytes: *x holds columns 0, 4, 1, 5, *y columns 2, 6, 3, 7, lowest byte
 * first. @w: the row's word of nibbles; @h: its word of further bits.
 */
template <int T> DEV void group_bytes(uint32_t w, uint32_t h, uint32_t g, uint32_t *x, uint32_t *y)
{
	constexpr uint32_t off = layout<T>::offset * 0x01010101u;

	*x = w & 0x0f0f0f0fu;
	*y = w >> 4 & 0x0f0f0f0fu;
	if (T == CU_IQ4_NL) {
		*x = nl_bytes(*x);
		*y = nl_bytes(*y);
		return;
	}
	if (layout<T>::bits > 4) {
		constexpr uint32_t m = layout<T>::bits == 6 ? 0x30303030u : 0x10101010u;

		h >>= layout<T>::bits == 6 ? g % 2 * 2 : g;
		*x |= h & m;
		*y |= (h >> 4 & m & 0x00ff00ffu) | (h << 12 & m & 0xff00ff00u);
	}
	if (off) {
		*x = ((*x | 0x80808080u) - off) ^ 0x80808080u;
		*y = ((*y | 0x80808080u) - off) ^ 0x80808080u;
	}
}

/* One value, for embeddings. */
template <int T> DEV float weight_value(const void *w, uint32_t cols, uint32_t row, uint32_t col)
{
	const uint8_t *tile = weight_tile<T>(w, cols, row, col / 32);
	uint32_t r = row % CU_TILE_ROWS, k = col / 32 % layout<T>::blocks, c = col % 32, g = c / 8, x, y, at, h = 0;
	const uint8_t *ints = tile + layout<T>::ints + k * layout<T>::block_ints;
	const uint8_t *high = tile + layout<T>::high + k * layout<T>::block_high;
	float v;

	if (T == CU_Q8_0) {
		v = (float)((const int8_t *)ints)[c / 2 * 32 + r * 2 + (c & 1)];
	} else {
		if (layout<T>::bits > 4)
			h = ((const uint32_t *)(high + (layout<T>::bits == 6 ? g / 2 * 64 : 0)))[r];
		group_bytes<T>(((const uint32_t *)(ints + g * 64))[r], h, g, &x, &y);
		/* column 2s + odd is byte (s / 2 + 2 * odd) of x or y */
		at = (c & 7) / 2;
		v = (float)(int8_t)((at & 1 ? y : x) >> (8 * (at / 2 + 2 * (c & 1))));
	}
	v *= tile_scale<T>(tile, r, k, c / 16 % layout<T>::scales);
	return layout<T>::min ? v + tile_min<T>(tile, r, k) : v;
}

#endif
