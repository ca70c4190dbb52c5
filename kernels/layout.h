/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* How repacked weights and KV pages lie in memory, for the implementations. Not for callers. */
#ifndef KERNELS_LAYOUT_H
#define KERNELS_LAYOUT_H

#include <string.h>

#include "kvslab_kernels.h"

/*
 * A tile of quantised weights, 16 rows x 32 columns, bytes:
 *   Q8_0          16 f16 scales | 16 pairs of columns x 16 rows x 2 signed bytes
 *   Q4_0, IQ4_NL  16 f16 scales | nibbles
 *   Q4_1          16 f16 scales | 16 f16 minima | nibbles
 *   Q5_0          16 f16 scales | nibbles | fifth bits
 *   Q5_1          16 f16 scales | 16 f16 minima | nibbles | fifth bits
 * and of 16 rows x 256 columns, 8 blocks of 32:
 *   Q4_K          16 f16 scales | 16 f16 scales of the minima | 8 x factors | 8 x nibbles
 *   Q5_K          the same | 8 x fifth bits
 *   Q6_K          16 f16 scales | 16 x 16 signed bytes, factors of 16 columns each | 8 x nibbles | 8 x upper bits
 * Nibbles: 4 groups of 8 columns; in a group one little-endian 32-bit word a row, whose bits 4s .. 4s+3 are
 * column 2s of the group and bits 16+4s .. 16+4s+3 column 2s+1 (s = 0 .. 3). Shifting the word right by 4s
 * and masking with 0x000f000f gives a row's pair. Offsets stay in: Q4_0 keeps the weight plus 8, and so on.
 * Fifth bits: one 32-bit word a row. Its low half, shifted right by g, has group g's columns 0, 2, 4, 6 at bits 4, 8,
 * 12 and 0, so that they stand above their nibbles (the last one above its nibble at bits 0 .. 3); the high half
 * columns 1, 3, 5, 7. Upper bits: the same with two bits each and a shift of 2g, a word for groups 0 and 1 of all
 * rows, then one for groups 2 and 3.
 * Factors of the K types, 24 bytes for 16 rows: a byte a row with the scale's 6 bits and the minimum's lower 2 above
 * them, then 8 bytes whose nibbles are the minimum's upper 4 of rows 0 .. 7 (low) and 8 .. 15 (high).
 */
static inline bool type_k(enum kern_type type)
{
	return type == KERN_Q4_K || type == KERN_Q5_K || type == KERN_Q6_K;
}

/* Has a minimum, a term of its own in a product. */
static inline bool type_min(enum kern_type type)
{
	return type == KERN_Q4_1 || type == KERN_Q5_1 || type == KERN_Q4_K || type == KERN_Q5_K;
}

/* Bits of an integer. */
static inline int type_bits(enum kern_type type)
{
	return type == KERN_Q8_0 ? 8 : type == KERN_Q6_K ? 6 :
	       type == KERN_Q5_0 || type == KERN_Q5_1 || type == KERN_Q5_K ? 5 : 4;
}

/* What integers are kept too large by. */
static inline int type_offset(enum kern_type type)
{
	return type == KERN_Q4_0 ? 8 : type == KERN_Q5_0 ? 16 : type == KERN_Q6_K ? 32 : 0;
}

/* Scales of 32 columns. */
static inline int type_scales(enum kern_type type)
{
	return type == KERN_Q6_K ? 2 : 1;
}

/* Blocks of 32 columns in a tile. */
static inline uint32_t tile_blocks(enum kern_type type)
{
	return type_k(type) ? 8 : 1;
}

/* Where the integers of a tile begin. */
static inline size_t tile_ints(enum kern_type type)
{
	return type == KERN_Q6_K ? 32 + 256 : type_k(type) ? 64 + 8 * 24 : type_min(type) ? 64 : 32;
}

/* Bytes of a block's integers, of its bits beyond nibbles. */
static inline size_t block_ints(enum kern_type type)
{
	return type == KERN_Q8_0 ? 512 : 256;
}

static inline size_t block_high(enum kern_type type)
{
	return type == KERN_Q8_0 ? 0 : (size_t)(type_bits(type) - 4) * 64;
}

static inline size_t tile_size(enum kern_type type)
{
	return tile_ints(type) + tile_blocks(type) * (block_ints(type) + block_high(type));
}

/* A tile's block @b: where its factors, integers and further bits lie. */
static inline const uint8_t *tile_factors(enum kern_type type, const uint8_t *tile, uint32_t b)
{
	return type == KERN_Q6_K ? tile + 32 + b * 32 : tile + 64 + b * 24;
}

static inline const uint8_t *tile_block(enum kern_type type, const uint8_t *tile, uint32_t b)
{
	return tile + tile_ints(type) + b * block_ints(type);
}

static inline const uint8_t *tile_high(enum kern_type type, const uint8_t *tile, uint32_t b)
{
	return tile + tile_ints(type) + tile_blocks(type) * block_ints(type) + b * block_high(type);
}

/* What IQ4_NL's nibbles stand for. */
#define IQ4_NL_VALUES -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113

/* The tile that holds block @block of 32 columns. */
static inline const uint8_t *weight_tile(const struct kern_weight *w, uint32_t row, uint32_t block)
{
	uint32_t n = tile_blocks(w->type);
	size_t tiles = w->cols / KERN_BLOCK / n;

	return (const uint8_t *)w->data + (row / KERN_TILE_ROWS * tiles + block / n) * tile_size(w->type);
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

/* The same of a column's bits beyond its nibble, within a block's. */
static inline uint32_t high_byte(enum kern_type type, uint32_t row, uint32_t col)
{
	uint32_t s = col / 2 & 3, g = col / 8, bits = type_bits(type) - 4, two = bits == 2;
	uint32_t at = (s == 3 ? 0 : 4 * s + 4) + (two ? g % 2 * 2 : g);

	return (two ? g / 2 * 64 : 0) + row * 4 + (col & 1) * 2 + at / 8;
}

static inline uint32_t high_shift(enum kern_type type, uint32_t col)
{
	uint32_t s = col / 2 & 3, g = col / 8;

	return ((s == 3 ? 0 : 4 * s + 4) + (type_bits(type) == 6 ? g % 2 * 2 : g)) % 8;
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
