// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * Products with quantised weights. A block of 32 columns is 16 pairs; vpmaddwd multiplies a pair of eight rows
 * with a token's pair, in int32, exactly, so its order is free; only the chain over the blocks has one.
 *
 * Few tokens (decode): weights are widened in registers and meet all tokens at once; memory is the limit. Many:
 * a tile's blocks are widened once into a panel that stays in the first-level cache, and four tokens at a time go
 * through it.
 */
#include "avx2.h"

#define GROUP 4 /* tokens in registers */
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
	uint32_t blocks, row_blocks; /* of this run; of a whole row */
	bool first; /* the chain starts here; else it goes on from y */
	float *y;
	size_t ldy;
	uint32_t rows; /* wanted from the tile's first on */
};

struct panel {
	_Alignas(64) int16_t w[PANEL_BLOCKS][16][32]; /* [block][pair][row][2] */
	_Alignas(64) float d[PANEL_BLOCKS][16], m[PANEL_BLOCKS][16];
};

/* The chains of token @t and of sixteen rows from @row on (0, or a whole tile further). */
INLINE void acc_load(const struct part *p, uint32_t t, uint32_t row, __m256 acc[2])
{
	const float *y = p->y + t * p->ldy + row;
	uint32_t rows = p->rows - row;

	if (p->first) {
		acc[0] = acc[1] = _mm256_setzero_ps();
	} else if (rows >= KERN_TILE_ROWS) {
		acc[0] = _mm256_loadu_ps(y);
		acc[1] = _mm256_loadu_ps(y + 8);
	} else {
		acc[0] = load_tail(y, rows < 8 ? rows : 8);
		acc[1] = rows > 8 ? load_tail(y + 8, rows - 8) : _mm256_setzero_ps();
	}
}

INLINE void acc_store(const struct part *p, uint32_t t, uint32_t row, const __m256 acc[2])
{
	float *y = p->y + t * p->ldy + row;
	uint32_t rows = p->rows - row;

	if (rows >= KERN_TILE_ROWS) {
		_mm256_storeu_ps(y, acc[0]);
		_mm256_storeu_ps(y + 8, acc[1]);
		return;
	}
	_mm256_maskstore_ps(y, lanes_below(rows < 8 ? rows : 8), acc[0]);
	if (rows > 8)
		_mm256_maskstore_ps(y + 8, lanes_below(rows - 8), acc[1]);
}

INLINE void mac(__m256i *acc, __m256i w, __m256i v)
{
	*acc = _mm256_add_epi32(*acc, _mm256_madd_epi16(w, v));
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
	__m256i v = _mm256_add_epi16(_mm256_loadu_si256((const void *)q), _mm256_loadu_si256((const void *)(q + 16)));
	__m128i m;

	v = _mm256_madd_epi16(v, _mm256_set1_epi16(-8));
	m = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
	m = _mm_add_epi32(m, _mm_shuffle_epi32(m, 0x4e));
	return _mm_cvtsi128_si32(_mm_add_epi32(m, _mm_shuffle_epi32(m, 0xb1)));
}

/*
 * @n tokens, a constant, straight from @tiles tiles, a constant: @stride bytes apart, so that memory is read in as many
 * streams. @off: Q4_0's offsets, token t at t * DIRECT_BLOCKS.
 */
INLINE void direct(const struct part *p, enum kern_type type, const uint32_t n, const uint32_t tiles, size_t stride,
		   const int32_t *off)
{
	const uint8_t *tile = p->tile;
	__m256 acc[GROUP][2];
	uint32_t b, t, i, u;
	int j;

#pragma GCC unroll 4
	for (u = 0; u < n * tiles; u++)
		acc_load(p, u / tiles, u % tiles * KERN_TILE_ROWS, acc[u]);
	for (b = 0; b < p->blocks; b++, tile += tile_size(type)) {
		const int16_t *q = p->q + b * KERN_BLOCK;
		__m256i sum[GROUP][2], w[2];

#pragma GCC unroll 4
		for (i = 0; i < tiles; i++)
			for (j = 0; j < (int)tile_size(type); j += 64)
				_mm_prefetch((const char *)tile + i * stride + PREFETCH + j, _MM_HINT_T0);
#pragma GCC unroll 4
		for (u = 0; u < n * tiles; u++)
			sum[u][0] = sum[u][1] = type == KERN_Q4_0 ?
							_mm256_set1_epi32(off[u / tiles * DIRECT_BLOCKS + b]) :
							_mm256_setzero_si256();
#pragma GCC unroll 16
		for (j = 0; j < 16; j++) {
#pragma GCC unroll 4
			for (i = 0; i < tiles; i++) {
				widen(type, tile + i * stride + tile_ints(type), j, w);
#pragma GCC unroll 4
				for (t = 0; t < n; t++) {
					__m256i v = pair(q + t * p->ld + 2 * j);

					mac(&sum[t * tiles + i][0], w[0], v);
					mac(&sum[t * tiles + i][1], w[1], v);
				}
			}
		}
#pragma GCC unroll 4
		for (u = 0; u < n * tiles; u++) {
			const uint8_t *at = tile + u % tiles * stride;
			__m256 d = _mm256_broadcast_ss(p->d + u / tiles * (p->ld / KERN_BLOCK) + b), s;

			acc[u][0] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[u][0]), _mm256_mul_ps(load_f16(at), d),
						    acc[u][0]);
			acc[u][1] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[u][1]),
						    _mm256_mul_ps(load_f16(at + 16), d), acc[u][1]);
			if (type == KERN_Q4_1) {
				s = _mm256_broadcast_ss(p->s + u / tiles * (p->ld / KERN_BLOCK) + b);
				acc[u][0] = _mm256_fmadd_ps(load_f16(at + 32), s, acc[u][0]);
				acc[u][1] = _mm256_fmadd_ps(load_f16(at + 48), s, acc[u][1]);
			}
		}
	}
#pragma GCC unroll 4
	for (u = 0; u < n * tiles; u++)
		acc_store(p, u / tiles, u % tiles * KERN_TILE_ROWS, acc[u]);
}

/* Returns how many rows were done. */
INLINE uint32_t direct_type(const struct part *p, enum kern_type type, uint32_t n, const int32_t *off)
{
	size_t stride = tile_size(type) * p->row_blocks;
	uint32_t tiles = (p->rows + KERN_TILE_ROWS - 1) / KERN_TILE_ROWS;

	switch (n) {
	case 1:
		if (tiles >= 4) {
			direct(p, type, 1, 4, stride, off);
			return 64;
		}
		if (tiles >= 2) {
			direct(p, type, 1, 2, stride, off);
			return 32;
		}
		direct(p, type, 1, 1, stride, off);
		break;
	case 2:
		if (tiles >= 2) {
			direct(p, type, 2, 2, stride, off);
			return 32;
		}
		direct(p, type, 2, 1, stride, off);
		break;
	case 3:
		direct(p, type, 3, 1, stride, off);
		break;
	default:
		direct(p, type, 4, 1, stride, off);
	}
	return KERN_TILE_ROWS;
}

static uint32_t direct_any(const struct part *p, uint32_t n, const int32_t *off)
{
	switch (p->type) {
	case KERN_Q8_0:
		return direct_type(p, KERN_Q8_0, n, off);
	case KERN_Q4_0:
		return direct_type(p, KERN_Q4_0, n, off);
	default:
		return direct_type(p, KERN_Q4_1, n, off);
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

#pragma GCC unroll 4
	for (t = 0; t < n; t++)
		acc_load(p, t0 + t, 0, acc[t]);
	for (b = 0; b < p->blocks; b++) {
		const int16_t *q = p->q + t0 * p->ld + b * KERN_BLOCK;
		const float *d = p->d + t0 * (p->ld / KERN_BLOCK) + b;
		const float *s = p->s + t0 * (p->ld / KERN_BLOCK) + b;
		__m256i sum[GROUP][2];

#pragma GCC unroll 4
		for (t = 0; t < n; t++)
			sum[t][0] = sum[t][1] = _mm256_setzero_si256();
#pragma GCC unroll 4
		for (j = 0; j < 16; j++) {
			__m256i w0 = _mm256_load_si256((const void *)pl->w[b][j]);
			__m256i w1 = _mm256_load_si256((const void *)(pl->w[b][j] + 16));

#pragma GCC unroll 4
			for (t = 0; t < n; t++) {
				__m256i v = pair(q + t * p->ld + 2 * j);

				mac(&sum[t][0], w0, v);
				mac(&sum[t][1], w1, v);
			}
		}
#pragma GCC unroll 4
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
#pragma GCC unroll 4
	for (t = 0; t < n; t++)
		acc_store(p, t0 + t, 0, acc[t]);
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
		.row_blocks = w->cols / KERN_BLOCK,
		.rows = r1 - row,
	};
}

static void few(const struct kern_weight *w, uint32_t r0, uint32_t r1, const struct kern_act *x, uint32_t n,
		float *y, size_t ldy)
{
	uint32_t blocks = w->cols / KERN_BLOCK, b0, m, b, t, row;
	int32_t off[GROUP * DIRECT_BLOCKS];

	for (b0 = 0; b0 < blocks; b0 += m) {
		m = blocks - b0 < DIRECT_BLOCKS ? blocks - b0 : DIRECT_BLOCKS;
		for (t = 0; t < n && w->type == KERN_Q4_0; t++)
			for (b = 0; b < m; b++)
				off[t * DIRECT_BLOCKS + b] = offset_of(x->q + (size_t)t * x->ld + (b0 + b) * KERN_BLOCK);
		for (row = r0; row < r1;) {
			struct part p = part_of(w, row, r1, b0, m, x, 0, y, ldy);

			row += direct_any(&p, n, off);
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

void avx2_product_quantised(const struct kern_weight *w, uint32_t r0, uint32_t r1, const struct kern_act *x,
			    uint32_t n, float *y, size_t ldy)
{
	if (n <= GROUP)
		few(w, r0, r1, x, n, y, ldy);
	else
		many(w, r0, r1, x, n, y, ldy);
}
