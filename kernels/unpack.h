/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* What a tile of repacked weights holds, value by value: the reading that the fast ones are compared with. */
#ifndef KERNELS_UNPACK_H
#define KERNELS_UNPACK_H

#include "layout.h"

/* Of 32 columns (@block of the tile), or of one half of them where a type has two scales. */
static inline float tile_scale(enum kern_type type, const uint8_t *tile, uint32_t row, uint32_t block, uint32_t half)
{
	float d = kern_f16_to_f32(load_u16(tile + row * 2));
	const uint8_t *f = tile_factors(type, tile, block);

	/* Products of 11 and at most 8 bits: exact. */
	if (type == KERN_Q6_K)
		return d * (float)(int8_t)f[half * 16 + row];
	return type_k(type) ? d * (float)(f[row] & 63) : d;
}

static inline float tile_min(enum kern_type type, const uint8_t *tile, uint32_t row, uint32_t block)
{
	const uint8_t *f = tile_factors(type, tile, block);
	float m = kern_f16_to_f32(load_u16(tile + 32 + row * 2));

	if (!type_k(type))
		return m;
	return -(m * (float)(f[row] >> 6 | (f[16 + row % 8] >> (row / 8 * 4) & 15) << 2));
}

/* The weight's integer. */
static inline int32_t tile_int(enum kern_type type, const uint8_t *tile, uint32_t row, uint32_t block, uint32_t col)
{
	static const int8_t nl[16] = { IQ4_NL_VALUES };
	const uint8_t *ints = tile_block(type, tile, block), *high = tile_high(type, tile, block);
	int32_t q;

	if (type == KERN_Q8_0)
		return (int8_t)ints[col / 2 * 32 + row * 2 + (col & 1)];
	q = ints[nibble_byte(row, col)] >> nibble_shift(col) & 15;
	if (type == KERN_IQ4_NL)
		return nl[q];
	if (type_bits(type) > 4)
		q |= (high[high_byte(type, row, col)] >> high_shift(type, col) & ((1 << (type_bits(type) - 4)) - 1)) << 4;
	return q - type_offset(type);
}

#endif
