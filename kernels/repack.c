// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* From a GGUF file's rows to the layout that the products read, and single rows back. */
#include <assert.h>

#include "unpack.h"

/* With the type a constant, bytes and shifts of an integer are, too. */
#define INLINE static inline __attribute__((always_inline))

/* Fields of @mask's width, one in each 16 bits of @x, to bits 0, 4, 8 and 12. */
INLINE uint32_t gather(uint64_t x, uint64_t mask)
{
	x &= mask * 0x0001000100010001;
	return (uint32_t)(x | x >> 12 | x >> 24 | x >> 36) & 0xffff;
}

/* A block of 32 columns as the file has it, its integers taken apart: all of them below 64, or signed bytes. */
INLINE void block_tile(enum kern_type type, uint8_t *tile, uint32_t row, uint32_t b, const uint8_t *v)
{
	uint8_t *ints = (uint8_t *)tile_block(type, tile, b), *high = (uint8_t *)tile_high(type, tile, b);
	int two = type_bits(type) == 6, g, i;
	uint32_t word, up[2] = { 0, 0 };
	uint64_t x;

	if (type == KERN_Q8_0) {
		for (i = 0; i < KERN_BLOCK / 2; i++)
			memcpy(ints + i * 32 + row * 2, v + 2 * i, 2);
		return;
	}
#pragma GCC unroll 4
	for (g = 0; g < 4; g++) {
		memcpy(&x, v + 8 * g, sizeof(x));
		word = gather(x, 15) | gather(x >> 8, 15) << 16;
		memcpy(ints + g * 64 + row * 4, &word, sizeof(word));
		if (type_bits(type) == 4)
			continue;
		/* The last of four goes to the lowest place, the others above their nibbles. */
		word = gather(x >> 4, two ? 3 : 1) | gather(x >> 12, two ? 3 : 1) << 16;
		word = (word << 4 & 0xfff0fff0) | (word >> 12 & 0x000f000f);
		up[two ? g / 2 : 0] |= word << (two ? g % 2 * 2 : g);
	}
	if (type_bits(type) > 4)
		memcpy(high + row * 4, &up[0], sizeof(up[0]));
	if (two)
		memcpy(high + 64 + row * 4, &up[1], sizeof(up[1]));
}

/* Blocks of 32: column c in the low nibble of byte c, column c + 16 in its high one; bit c of a word is the fifth. */
INLINE void repack_32(enum kern_type type, uint8_t *tile, uint32_t row, const uint8_t *block)
{
	uint8_t v[KERN_BLOCK];
	const uint8_t *qs = block + (type_min(type) ? 4 : 2), *qh = qs;
	uint32_t c;

	memcpy(tile + row * 2, block, 2);
	if (type_min(type))
		memcpy(tile + 32 + row * 2, block + 2, 2);
	if (type_bits(type) == 5)
		qs += 4;
	for (c = 0; c < KERN_BLOCK; c++) {
		v[c] = type == KERN_Q8_0 ? qs[c] : qs[c % 16] >> (c / 16 * 4) & 15;
		if (type_bits(type) == 5)
			v[c] |= (qh[c / 8] >> (c % 8) & 1) << 4;
	}
	block_tile(type, tile, row, 0, v);
}

/*
 * d, the minima's d, 12 bytes of factors, (Q5_K: 32 bytes whose bit b is the fifth of block b,) 128 bytes of nibbles:
 * blocks 2i and 2i + 1 are the low and high ones of 32 bytes. Factors: j < 4 six bits in byte j (minima: 4 + j); above,
 * the low nibble (minima: the high one) of byte 4 + j, and on top of it the upper two bits of byte j - 4 (minima: j).
 */
INLINE void repack_k(enum kern_type type, uint8_t *tile, uint32_t row, const uint8_t *block)
{
	const uint8_t *f = block + 4, *qh = block + 16, *qs = block + (type == KERN_Q5_K ? 48 : 16);
	uint8_t v[KERN_BLOCK], scale, min;
	uint32_t j, c;

	memcpy(tile + row * 2, block, 2);
	memcpy(tile + 32 + row * 2, block + 2, 2);
	for (j = 0; j < 8; j++) {
		uint8_t *out = (uint8_t *)tile_factors(type, tile, j);

		if (j < 4) {
			scale = f[j] & 63;
			min = f[4 + j] & 63;
		} else {
			scale = (f[4 + j] & 15) | (uint8_t)(f[j - 4] >> 6 << 4);
			min = f[4 + j] >> 4 | (uint8_t)(f[j] >> 6 << 4);
		}
		out[row] = scale | (uint8_t)(min << 6);
		out[16 + row % 8] |= (uint8_t)(min >> 2 << (row / 8 * 4));
		for (c = 0; c < KERN_BLOCK; c++) {
			v[c] = qs[j / 2 * 32 + c] >> (j % 2 * 4) & 15;
			if (type == KERN_Q5_K)
				v[c] |= (qh[c] >> j & 1) << 4;
		}
		block_tile(type, tile, row, j, v);
	}
}

/* 128 bytes of nibbles, 64 of upper bits, 16 factors, d. Each half of the columns has 64 and 32 of them: blocks 0 and
 * 2 of the half share bytes 0 .. 31 of the nibbles, 1 and 3 the rest, all four the upper bits, two each. */
static void repack_6k(uint8_t *tile, uint32_t row, const uint8_t *block)
{
	const uint8_t *qh = block + 128, *f = block + 192;
	uint8_t v[KERN_BLOCK];
	uint32_t j, c;

	memcpy(tile + row * 2, block + 208, 2);
	for (j = 0; j < 8; j++) {
		uint8_t *out = (uint8_t *)tile_factors(KERN_Q6_K, tile, j);

		out[row] = f[2 * j];
		out[16 + row] = f[2 * j + 1];
		for (c = 0; c < KERN_BLOCK; c++) {
			v[c] = block[j / 4 * 64 + j % 2 * 32 + c] >> (j % 4 / 2 * 4) & 15;
			v[c] |= (qh[j / 4 * 32 + c] >> (j % 4 * 2) & 3) << 4;
		}
		block_tile(KERN_Q6_K, tile, row, j, v);
	}
}

static void repack_block(enum kern_type type, uint8_t *tile, uint32_t row, const uint8_t *block)
{
	switch ((uint32_t)type) {
	case KERN_Q8_0:
		return repack_32(KERN_Q8_0, tile, row, block);
	case KERN_Q4_1:
		return repack_32(KERN_Q4_1, tile, row, block);
	case KERN_Q5_0:
		return repack_32(KERN_Q5_0, tile, row, block);
	case KERN_Q5_1:
		return repack_32(KERN_Q5_1, tile, row, block);
	case KERN_Q4_K:
		return repack_k(KERN_Q4_K, tile, row, block);
	case KERN_Q5_K:
		return repack_k(KERN_Q5_K, tile, row, block);
	case KERN_Q6_K:
		return repack_6k(tile, row, block);
	default: /* IQ4_NL as well */
		return repack_32(KERN_Q4_0, tile, row, block);
	}
}

static void repack_tiles(const struct kern_weight *w, const uint8_t *src, const uint32_t *map, uint32_t r0, uint32_t r1)
{
	size_t row_bytes = kern_row_bytes(w->type, w->cols), size = tile_size(w->type), block_bytes = size / KERN_TILE_ROWS;
	uint32_t tiles = w->cols / kern_type_block(w->type), n = tile_blocks(w->type), r, t;

	for (r = r0; r < r1; r += KERN_TILE_ROWS)
		memset((uint8_t *)weight_tile(w, r, 0), 0, tiles * size);
	for (r = r0; r < r1; r++) {
		for (t = 0; t < tiles; t++) {
			const uint8_t *block = src + (map ? map[r] : r) * row_bytes + t * block_bytes;
			uint8_t *tile = (uint8_t *)weight_tile(w, r, t * n);

			repack_block(w->type, tile, r % KERN_TILE_ROWS, block);
		}
	}
}

void kern_repack(const struct kern_weight *w, const void *src, const uint32_t *map, uint32_t r0, uint32_t r1)
{
	size_t row_bytes, stride, r;

	assert(r0 % KERN_TILE_ROWS == 0 && r1 <= w->rows);
	assert(r1 % KERN_TILE_ROWS == 0 || r1 == w->rows);
	if (kern_type_quantised(w->type)) {
		assert(w->cols % kern_type_block(w->type) == 0);
		repack_tiles(w, src, map, r0, r1);
		return;
	}
	row_bytes = kern_row_bytes(w->type, w->cols);
	stride = row_stride(w->cols) * (w->type == KERN_F32 ? 4 : 2);
	for (r = r0; r < r1; r++) {
		uint8_t *dst = (uint8_t *)w->data + r * stride;

		memcpy(dst, (const uint8_t *)src + (map ? map[r] : r) * row_bytes, row_bytes);
		memset(dst + row_bytes, 0, stride - row_bytes);
	}
}

void kern_row_get(const struct kern_weight *w, uint32_t row, float *y)
{
	size_t at = row * row_stride(w->cols);
	const uint8_t *base = w->data, *tile;
	uint32_t i = row % KERN_TILE_ROWS, c, b, k;
	float d, m;

	assert(row < w->rows);
	if (w->type == KERN_F32) {
		memcpy(y, base + at * 4, (size_t)w->cols * 4);
		return;
	}
	if (!kern_type_quantised(w->type)) {
		for (c = 0; c < w->cols; c++) {
			uint16_t h = load_u16(base + (at + c) * 2);

			y[c] = w->type == KERN_F16 ? kern_f16_to_f32(h) : bf16_to_f32(h);
		}
		return;
	}
	for (b = 0; b < w->cols / KERN_BLOCK; b++, y += KERN_BLOCK) {
		tile = weight_tile(w, row, b);
		k = b % tile_blocks(w->type);
		m = type_min(w->type) ? tile_min(w->type, tile, i, k) : 0;
		for (c = 0; c < KERN_BLOCK; c++) {
			d = tile_scale(w->type, tile, i, k, c / 16 % type_scales(w->type));
			y[c] = d * (float)tile_int(w->type, tile, i, k, c); /* exact */
			if (type_min(w->type))
				y[c] += m;
		}
	}
}
