/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * What products with quantised weights share, whatever the width of vectors: how they are cut. A block of 32 columns is
 * 16 pairs; an instruction multiplies a pair of some rows with a token's pair, in int32, exactly, so its order is free;
 * only the chain over the blocks has one.
 *
 * Few tokens (decode): weights are widened in registers and meet all tokens at once; memory is the limit. Many:
 * a tile's blocks are widened once into a panel that stays in the first-level cache, and GROUP tokens at a time go
 * through it. The instructions are in avx2_products.h and avx512_products.h, which include this one first and
 * products_cut.h last.
 */
#ifndef KERNELS_CPU_PRODUCTS_H
#define KERNELS_CPU_PRODUCTS_H

#include "avx2.h"

#define FEW 4 /* tokens that the direct way takes */
#define PANEL_BLOCKS 32 /* 32 KiB of widened weights */
#define TOKENS_BYTES (1u << 20) /* quantised tokens that pass a tile before the next: stays in the L2 cache */
#define DIRECT_BLOCKS 512
#define PREFETCH 2048 /* bytes ahead of the weights that are read */

/* A run of blocks of one tile, as the inner loops see it. */
struct part {
	enum kern_type type;
	const uint8_t *tile; /* that begins with the first block */
	const int16_t *q; /* first token's first block; token t at t * ld */
	const float *d, *s; /* the same; token t at t * ld / 32 */
	size_t ld;
	uint32_t blocks;
	bool first; /* the chain starts here; else it goes on from y */
	float *y;
	size_t ldy;
	uint32_t rows; /* 1 .. 16 of the tile are wanted */
};

struct panel {
	_Alignas(64) int16_t w[PANEL_BLOCKS][16][32]; /* [block][pair][row][2] */
	_Alignas(64) float d[PANEL_BLOCKS][2][16], m[PANEL_BLOCKS][16]; /* [1] of the second scale */
};

INLINE void prefetch(enum kern_type type, const uint8_t *tile, uint32_t k)
{
	size_t size = tile_size(type) / tile_blocks(type), j;

	for (j = 0; j < size; j += 64)
		_mm_prefetch((const char *)tile + k * size + PREFETCH + j, _MM_HINT_T0);
}

#endif
