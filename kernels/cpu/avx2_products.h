/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * Products with quantised weights; a body that is compiled for AVX2 and again for AVX-VNNI, each with its own mac()
 * and GROUP. A block of 32 columns is 16 pairs; vpmaddwd multiplies a pair of eight rows with a token's pair, in
 * int32, exactly, so its order is free; only the chain over the blocks has one.
 *
 * Few tokens (decode): weights are widened in registers and meet all tokens at once; memory is the limit. Many:
 * a tile's blocks are widened once into a panel that stays in the first-level cache, and GROUP tokens at a time go
 * through it.
 */
#include "avx2.h"

#define FEW 4 /* tokens that the direct way takes */
#define PANEL_BLOCKS 32 /* 32 KiB of widened weights */
#define TOKENS_BYTES (1u << 20) /* quantised tokens that pass a tile before the next: stays in the L2 cache */
#define DIRECT_BLOCKS 512
#define PREFETCH 2048 /* bytes ahead of the weights that are read */

/* A run of blocks of one tile, as the inner loops see it. */
struct part {
	enum kern_type type;
	const uint8_t *tile; /* of the first block */
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
	_Alignas(64) float d[PANEL_BLOCKS][16], m[PANEL_BLOCKS][16];
};

INLINE void acc_load(const struct part *p, uint32_t t, __m256 acc[2])
{
	const float *y = p->y + t * p->ldy;

	if (p->first) {
		acc[0] = acc[1] = _mm256_setzero_ps();
	} else if (p->rows == KERN_TILE_ROWS) {
		acc[0] = _mm256_loadu_ps(y);
		acc[1] = _mm256_loadu_ps(y + 8);
	} else {
		acc[0] = load_tail(y, p->rows < 8 ? p->rows : 8);
		acc[1] = p->rows > 8 ? load_tail(y + 8, p->rows - 8) : _mm256_setzero_ps();
	}
}

INLINE void acc_store(const struct part *p, uint32_t t, const __m256 acc[2])
{
	float *y = p->y + t * p->ldy;

	if (p->rows == KERN_TILE_ROWS) {
		_mm256_storeu_ps(y, acc[0]);
		_mm256_storeu_ps(y + 8, acc[1]);
		return;
	}
	_mm256_maskstore_ps(y, lanes_below(p->rows < 8 ? p->rows : 8), acc[0]);
	if (p->rows > 8)
		_mm256_maskstore_ps(y + 8, lanes_below(p->rows - 8), acc[1]);
}

INLINE __m256i pair(const int16_t *q)
{
	int32_t v;

	memcpy(&v, q, sizeof(v));
	return _mm256_set1_epi32(v);
}

/* Pairs of rows 0-7 and 8-15 of column pair @j, widened. */
INLINE void widen(enum kern_type type, const uint8_t *ints, int j, __m256i w[2])
{
	const __m256i low = _mm256_set1_epi16(15);
	const uint8_t *at = ints + j / 4 * 64;

	if (type == KERN_Q8_0) {
		w[0] = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)(ints + j * 32)));
		w[1] = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)(ints + j * 32 + 16)));
		return;
	}
	w[0] = _mm256_and_si256(_mm256_srli_epi16(_mm256_loadu_si256((const void *)at), j % 4 * 4), low);
	w[1] = _mm256_and_si256(_mm256_srli_epi16(_mm256_loadu_si256((const void *)(at + 32)), j % 4 * 4), low);
}

/* -8 * (sum of a block's 32 q): what Q4_0's nibbles are too large by. */
static int32_t offset_of(const int16_t *q)
{
	const __m256i by = _mm256_set1_epi16(-8);
	__m256i v = _mm256_madd_epi16(_mm256_loadu_si256((const void *)q), by);
	__m128i m;

	v = _mm256_add_epi32(v, _mm256_madd_epi16(_mm256_loadu_si256((const void *)(q + 16)), by));
	m = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
	m = _mm_add_epi32(m, _mm_shuffle_epi32(m, 0x4e));
	return _mm_cvtsi128_si32(_mm_add_epi32(m, _mm_shuffle_epi32(m, 0xb1)));
}

/*
 * One token's block of nibbles. Only the lowest and the highest nibble of a word are brought down; the two between
 * stay where they are, 16 and 256 times too large in sums of their own.
 */
INLINE __m256i nibbles_once(const uint8_t *half, const int16_t *q, int32_t start)
{
	__m256i sum = _mm256_set1_epi32(start), sum16 = _mm256_setzero_si256(), sum256 = sum16, w;
	int j;

#pragma GCC unroll 4
	for (j = 0; j < 4; j++, half += 64, q += 8) {
		w = _mm256_loadu_si256((const void *)half);
		sum = mac(sum, _mm256_and_si256(w, _mm256_set1_epi16(0x000f)), pair(q));
		sum16 = mac(sum16, _mm256_and_si256(w, _mm256_set1_epi16(0x00f0)), pair(q + 2));
		sum256 = mac(sum256, _mm256_and_si256(w, _mm256_set1_epi16(0x0f00)), pair(q + 4));
		sum = mac(sum, _mm256_srli_epi16(w, 12), pair(q + 6));
	}
	sum = _mm256_add_epi32(sum, _mm256_srai_epi32(sum16, 4));
	return _mm256_add_epi32(sum, _mm256_srai_epi32(sum256, 8));
}

/* The integer sums of one block of @n tokens, a constant. */
INLINE void block_sums(enum kern_type type, const uint32_t n, const uint8_t *ints, const int16_t *q, size_t ld,
		       const int32_t *off, __m256i sum[][2])
{
	__m256i w[2], v;
	uint32_t t;
	int j;

	if (n == 1 && type != KERN_Q8_0) {
		sum[0][0] = nibbles_once(ints, q, type == KERN_Q4_0 ? *off : 0);
		sum[0][1] = nibbles_once(ints + 32, q, type == KERN_Q4_0 ? *off : 0);
		return;
	}
#pragma GCC unroll 4
	for (t = 0; t < n; t++)
		sum[t][0] = sum[t][1] = type == KERN_Q4_0 ? _mm256_set1_epi32(off[t * DIRECT_BLOCKS]) :
							    _mm256_setzero_si256();
#pragma GCC unroll 16
	for (j = 0; j < 16; j++) {
		widen(type, ints, j, w);
#pragma GCC unroll 4
		for (t = 0; t < n; t++) {
			v = pair(q + t * ld + 2 * j);
			sum[t][0] = mac(sum[t][0], w[0], v);
			sum[t][1] = mac(sum[t][1], w[1], v);
		}
	}
}

/* @n tokens, a constant, straight from the tile. @off: Q4_0's offsets, token t at t * DIRECT_BLOCKS. */
INLINE void direct(const struct part *p, enum kern_type type, const uint32_t n, const int32_t *off)
{
	const uint8_t *tile = p->tile;
	__m256 acc[FEW][2];
	uint32_t b, t;
	int j;

#pragma GCC unroll 4
	for (t = 0; t < n; t++)
		acc_load(p, t, acc[t]);
	for (b = 0; b < p->blocks; b++, tile += tile_size(type)) {
		__m256i sum[FEW][2];

		for (j = 0; j < (int)tile_size(type); j += 64)
			_mm_prefetch((const char *)tile + PREFETCH + j, _MM_HINT_T0);
		block_sums(type, n, tile + tile_ints(type), p->q + b * KERN_BLOCK, p->ld, off + b, sum);
#pragma GCC unroll 4
		for (t = 0; t < n; t++) {
			__m256 v = _mm256_broadcast_ss(p->d + t * (p->ld / KERN_BLOCK) + b);

			acc[t][0] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[t][0]), _mm256_mul_ps(load_f16(tile), v),
						    acc[t][0]);
			acc[t][1] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[t][1]), _mm256_mul_ps(load_f16(tile + 16), v),
						    acc[t][1]);
			if (type == KERN_Q4_1) {
				v = _mm256_broadcast_ss(p->s + t * (p->ld / KERN_BLOCK) + b);
				acc[t][0] = _mm256_fmadd_ps(load_f16(tile + 32), v, acc[t][0]);
				acc[t][1] = _mm256_fmadd_ps(load_f16(tile + 48), v, acc[t][1]);
			}
		}
	}
#pragma GCC unroll 4
	for (t = 0; t < n; t++)
		acc_store(p, t, acc[t]);
}

INLINE void direct_type(const struct part *p, enum kern_type type, uint32_t n, const int32_t *off)
{
	switch (n) {
	case 1:
		direct(p, type, 1, off);
		break;
	case 2:
		direct(p, type, 2, off);
		break;
	case 3:
		direct(p, type, 3, off);
		break;
	default:
		direct(p, type, 4, off);
	}
}

static void direct_any(const struct part *p, uint32_t n, const int32_t *off)
{
	switch (p->type) {
	case KERN_Q8_0:
		direct_type(p, KERN_Q8_0, n, off);
		break;
	case KERN_Q4_0:
		direct_type(p, KERN_Q4_0, n, off);
		break;
	default:
		direct_type(p, KERN_Q4_1, n, off);
	}
}

INLINE void fill(struct panel *pl, const struct part *p, enum kern_type type)
{
	const __m256i eight = _mm256_set1_epi16(8);
	const uint8_t *tile = p->tile;
	__m256i w[2];
	uint32_t b;
	int j;

	for (b = 0; b < p->blocks; b++, tile += tile_size(type)) {
		for (j = 0; j < (int)tile_size(type); j += 64)
			_mm_prefetch((const char *)tile + PREFETCH + j, _MM_HINT_T0);
		_mm256_store_ps(pl->d[b], load_f16(tile));
		_mm256_store_ps(pl->d[b] + 8, load_f16(tile + 16));
		if (type == KERN_Q4_1) {
			_mm256_store_ps(pl->m[b], load_f16(tile + 32));
			_mm256_store_ps(pl->m[b] + 8, load_f16(tile + 48));
		}
#pragma GCC unroll 16
		for (j = 0; j < 16; j++) {
			widen(type, tile + tile_ints(type), j, w);
			if (type == KERN_Q4_0) {
				w[0] = _mm256_sub_epi16(w[0], eight);
				w[1] = _mm256_sub_epi16(w[1], eight);
			}
			_mm256_store_si256((void *)pl->w[b][j], w[0]);
			_mm256_store_si256((void *)(pl->w[b][j] + 16), w[1]);
		}
	}
}

/* @n tokens, a constant, from token @t0 on. */
INLINE void through(const struct panel *pl, const struct part *p, const uint32_t n, uint32_t t0, bool min)
{
	__m256 acc[GROUP][2];
	uint32_t b, t;
	int j;

#pragma GCC unroll 8
	for (t = 0; t < n; t++)
		acc_load(p, t0 + t, acc[t]);
	for (b = 0; b < p->blocks; b++) {
		const int16_t *q = p->q + t0 * p->ld + b * KERN_BLOCK;
		const float *d = p->d + t0 * (p->ld / KERN_BLOCK) + b;
		const float *s = p->s + t0 * (p->ld / KERN_BLOCK) + b;
		__m256i sum[GROUP][2];

#pragma GCC unroll 8
		for (t = 0; t < n; t++)
			sum[t][0] = sum[t][1] = _mm256_setzero_si256();
#pragma GCC unroll 16
		for (j = 0; j < 16; j++) {
			__m256i w0 = _mm256_load_si256((const void *)pl->w[b][j]);
			__m256i w1 = _mm256_load_si256((const void *)(pl->w[b][j] + 16));

#pragma GCC unroll 8
			for (t = 0; t < n; t++) {
				__m256i v = pair(q + t * p->ld + 2 * j);

				sum[t][0] = mac(sum[t][0], w0, v);
				sum[t][1] = mac(sum[t][1], w1, v);
			}
		}
#pragma GCC unroll 8
		for (t = 0; t < n; t++) {
			__m256 v = _mm256_broadcast_ss(d + t * (p->ld / KERN_BLOCK));

			acc[t][0] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[t][0]),
						    _mm256_mul_ps(_mm256_load_ps(pl->d[b]), v), acc[t][0]);
			acc[t][1] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[t][1]),
						    _mm256_mul_ps(_mm256_load_ps(pl->d[b] + 8), v), acc[t][1]);
			if (min) {
				v = _mm256_broadcast_ss(s + t * (p->ld / KERN_BLOCK));
				acc[t][0] = _mm256_fmadd_ps(_mm256_load_ps(pl->m[b]), v, acc[t][0]);
				acc[t][1] = _mm256_fmadd_ps(_mm256_load_ps(pl->m[b] + 8), v, acc[t][1]);
			}
		}
	}
#pragma GCC unroll 8
	for (t = 0; t < n; t++)
		acc_store(p, t0 + t, acc[t]);
}

INLINE void through_all(const struct panel *pl, const struct part *p, uint32_t n, bool min)
{
	uint32_t t;

	for (t = 0; t + GROUP <= n; t += GROUP)
		through(pl, p, GROUP, t, min);
	switch (n - t) {
	case 1:
		through(pl, p, 1, t, min);
		break;
	case 2:
		through(pl, p, 2, t, min);
		break;
	case 3:
		through(pl, p, 3, t, min);
		break;
#if GROUP > 4
	case 4:
		through(pl, p, 4, t, min);
		break;
	case 5:
		through(pl, p, 5, t, min);
		break;
#endif
	}
}

static void panel_any(struct panel *pl, const struct part *p, uint32_t n)
{
	switch (p->type) {
	case KERN_Q8_0:
		fill(pl, p, KERN_Q8_0);
		break;
	case KERN_Q4_0:
		fill(pl, p, KERN_Q4_0);
		break;
	default:
		fill(pl, p, KERN_Q4_1);
	}
	if (p->type == KERN_Q4_1)
		through_all(pl, p, n, true);
	else
		through_all(pl, p, n, false);
}

/* The part of row @row's tile that begins at block @b0, for tokens from @t0 on. */
static struct part part_of(const struct kern_weight *w, uint32_t row, uint32_t r1, uint32_t b0, uint32_t blocks,
			   const struct kern_act *x, size_t t0, float *y, size_t ldy)
{
	return (struct part){
		.type = w->type,
		.tile = weight_tile(w, row, b0),
		.q = x->q + t0 * x->ld + b0 * KERN_BLOCK,
		.d = x->d + t0 * x->ld / KERN_BLOCK + b0,
		.s = x->s + t0 * x->ld / KERN_BLOCK + b0,
		.ld = x->ld,
		.blocks = blocks,
		.first = !b0,
		.y = y + t0 * ldy + row,
		.ldy = ldy,
		.rows = r1 - row < KERN_TILE_ROWS ? r1 - row : KERN_TILE_ROWS,
	};
}

static void few(const struct kern_weight *w, uint32_t r0, uint32_t r1, const struct kern_act *x, uint32_t n,
		float *y, size_t ldy)
{
	uint32_t blocks = w->cols / KERN_BLOCK, b0, m, b, t, row;
	int32_t off[FEW * DIRECT_BLOCKS];

	for (b0 = 0; b0 < blocks; b0 += m) {
		m = blocks - b0 < DIRECT_BLOCKS ? blocks - b0 : DIRECT_BLOCKS;
		for (t = 0; t < n && w->type == KERN_Q4_0; t++)
			for (b = 0; b < m; b++)
				off[t * DIRECT_BLOCKS + b] = offset_of(x->q + (size_t)t * x->ld + (b0 + b) * KERN_BLOCK);
		for (row = r0; row < r1; row += KERN_TILE_ROWS) {
			struct part p = part_of(w, row, r1, b0, m, x, 0, y, ldy);

			direct_any(&p, n, off);
		}
	}
}

static void many(const struct kern_weight *w, uint32_t r0, uint32_t r1, const struct kern_act *x, uint32_t n,
		 float *y, size_t ldy)
{
	uint32_t blocks = w->cols / KERN_BLOCK, b0, m, t0, row;
	uint32_t tokens = TOKENS_BYTES / (w->cols * 2) / GROUP * GROUP, k;
	struct panel pl;

	if (!tokens)
		tokens = GROUP;
	for (t0 = 0; t0 < n; t0 += k) {
		k = n - t0 < tokens ? n - t0 : tokens;
		for (row = r0; row < r1; row += KERN_TILE_ROWS) {
			for (b0 = 0; b0 < blocks; b0 += m) {
				struct part p;

				m = blocks - b0 < PANEL_BLOCKS ? blocks - b0 : PANEL_BLOCKS;
				p = part_of(w, row, r1, b0, m, x, t0, y, ldy);
				panel_any(&pl, &p, k);
			}
		}
	}
}

static void product_quantised(const struct kern_weight *w, uint32_t r0, uint32_t r1, const struct kern_act *x,
			      uint32_t n, float *y, size_t ldy)
{
	if (n <= FEW)
		few(w, r0, r1, x, n, y, ldy);
	else
		many(w, r0, r1, x, n, y, ldy);
}
