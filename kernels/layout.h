/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* How repacked weights and KV pages lie in memory, for the implementations. Not for callers. */
#ifndef KERNELS_LAYOUT_H
#define KERNELS_LAYOUT_H

#include <string.h>

#include "kvslab_kernels.h"

/*
 * A tile of quantised weights, 16 rows x 32 columns, bytes:
 *   Q8_0  16 f16 scales | 16 pairs of columns x 16 rows x 2 signed bytes
 *   Q4_0  16 f16 scales | nibbles
 *   Q4_1  16 f16 scales | 16 f16 minima | nibbles
 * Nibbles: 4 groups of 8 columns; in a group one little-endian 32-bit word a row, whose bits 4s .. 4s+3 are
 * column 2s of the group and bits 16+4s .. 16+4s+3 column 2s+1 (s = 0 .. 3). Shifting the word right by 4s
 * and masking with 0x000f000f gives a row's pair. Q4_0 keeps the file's nibble: the weight plus 8.
 */
#define TILE_Q8_0_SIZE (32 + 512)
#define TILE_Q4_0_SIZE (32 + 256)
#define TILE_Q4_1_SIZE (64 + 256)

static inline size_t tile_size(enum kern_type type)
{
	return type == KERN_Q8_0 ? TILE_Q8_0_SIZE : type == KERN_Q4_0 ? TILE_Q4_0_SIZE : TILE_Q4_1_SIZE;
}

/* Where the integers of a tile begin. */
static inline size_t tile_ints(enum kern_type type)
{
	return type == KERN_Q4_1 ? 64 : 32;
}

static inline const uint8_t *weight_tile(const struct kern_weight *w, uint32_t row, uint32_t block)
{
	size_t blocks = w->cols / KERN_BLOCK;

	return (const uint8_t *)w->data + (row / KERN_TILE_ROWS * blocks + block) * tile_size(w->type);
}

/* Byte and shift of a nibble within a tile's integers. */
static inline uint32_t nibble_byte(uint32_t row, uint32_t col)
{
	return col / 8 * 64 + row * 4 + (col & 1) * 2 + (col / 2 & 3) / 2;
}

static inline uint32_t nibble_shift(uint32_t col)
{
	return (col / 2 & 1) * 4;
}

/* Columns of a row of an F32, F16 or BF16 matrix as stored. */
static inline size_t row_stride(uint32_t cols)
{
	return ((size_t)cols + 7) / 8 * 8;
}

static inline uint32_t bits_of(float x)
{
	uint32_t u;

	memcpy(&u, &x, sizeof(u));
	return u;
}

static inline float float_of(uint32_t u)
{
	float x;

	memcpy(&x, &u, sizeof(x));
	return x;
}

static inline float bf16_to_f32(uint16_t h)
{
	return float_of((uint32_t)h << 16);
}

static inline uint16_t load_u16(const void *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* Keys (or values, with @offset the layer's plus v_offset) of head @h from position @pos on, and in *@n how
 * many of them lie one after the other in that page. */
static inline const void *page_rows(const struct kern_attn *a, size_t offset, uint32_t h, uint32_t pos,
				    uint32_t *n)
{
	uint32_t page = pos / a->page_tokens, token = pos % a->page_tokens;
	size_t size = a->kv_f32 ? 4 : 2;

	*n = a->page_tokens - token;
	return (const char *)a->pages[page] + offset + h * a->head_stride + token * size * a->head_dim;
}

#endif
