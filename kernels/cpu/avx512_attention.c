// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * Attention over pages with AVX-512. A dot product has eight lanes (docs/numerics.md), so a register holds those of two
 * keys; keys are laid out for that when a tile is widened. Each step of a tile is done for all (query, head) pairs before
 * the next, three pairs at a time: they share what is loaded, and the chains of one fill the gaps of another.
 */
#include <assert.h>

#include "avx2.h"

#define TILE KERN_ATTN_TILE
#define PAIRS 32
#define TOGETHER 3 /* pairs: 24 of 32 registers hold their sums */

struct pair {
	const float *q;
	float *out;
	uint32_t low, keys; /* sees [low, keys) */
};

struct block {
	_Alignas(64) float k[TILE * KERN_HEAD_DIM_MAX]; /* see key_place() */
	_Alignas(64) float v[TILE * KERN_HEAD_DIM_MAX]; /* [key][head_dim] */
	_Alignas(64) float o[PAIRS * KERN_HEAD_DIM_MAX]; /* [pair][head_dim] */
	_Alignas(64) float p[PAIRS][TILE]; /* scores, then what exp makes of them */
	/* 16 more, so that a vector may begin at any pair */
	float m[PAIRS + 16], next_m[PAIRS + 16], c[PAIRS + 16], l[PAIRS];
	struct pair pair[PAIRS];
	uint32_t n;
};

INLINE __m512 exp16(__m512 x)
{
	__mmask16 high = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.0f), _CMP_NLT_UQ);
	__m512 n, t, p;
	__m512i e;

	x = _mm512_min_ps(_mm512_set1_ps(88.0f), x); /* NaN: the second */
	n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(0x1.715476p+0f)),
				 _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
	t = _mm512_fmadd_ps(n, _mm512_set1_ps(-0x1.62e400p-1f), x);
	t = _mm512_fmadd_ps(n, _mm512_set1_ps(-0x1.7f7d1cp-20f), t);
	p = _mm512_fmadd_ps(_mm512_set1_ps(0x1.6a241ap-10f), t, _mm512_set1_ps(0x1.1239f2p-7f));
	p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(0x1.5558f2p-5f));
	p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(0x1.555492p-3f));
	p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(0x1.fffffcp-2f));
	p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(1.0f));
	p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(1.0f));
	e = _mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23);
	return _mm512_maskz_mul_ps(high, p, _mm512_castsi512_ps(e));
}

INLINE __m512 softcap16(__m512 s, float cap)
{
	__m512 c = _mm512_set1_ps(cap), x = _mm512_div_ps(s, c);
	__m256 lo = tanh8(_mm512_castps512_ps256(x)), hi = tanh8(_mm512_extractf32x8_ps(x, 1));

	return _mm512_mul_ps(_mm512_insertf32x8(_mm512_castps256_ps512(lo), hi, 1), c);
}

/* The named tree of sixteen halves of eight registers: those of the lower halves of a[0..3], of the upper ones, of the
 * lower halves of a[4..7], of the upper ones. */
INLINE __m512 tree8x16(const __m512 a[8])
{
	__m512 b[4], c0, c1;
	int i;

#pragma GCC unroll 4
	for (i = 0; i < 4; i++)
		b[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a[i], a[i + 4], 0x88), _mm512_shuffle_f32x4(a[i], a[i + 4], 0xdd));
	c0 = _mm512_add_ps(_mm512_shuffle_ps(b[0], b[1], 0x44), _mm512_shuffle_ps(b[0], b[1], 0xee));
	c1 = _mm512_add_ps(_mm512_shuffle_ps(b[2], b[3], 0x44), _mm512_shuffle_ps(b[2], b[3], 0xee));
	return _mm512_add_ps(_mm512_shuffle_ps(c0, c1, 0x88), _mm512_shuffle_ps(c0, c1, 0xdd));
}

/* Where a tile's key @j begins; its columns 8c .. 8c + 7 are at 16c from there. Two keys share the lines, so that
 * tree8x16() puts out scores in the order of keys. */
INLINE float *key_place(float *k, uint32_t j, uint32_t dim)
{
	return k + ((j / 16 * 8 + j % 4 + j / 8 % 2 * 4) * 2) * dim + j / 4 % 2 * 8;
}

/* Keys [j0, j0 + n), zeros up to the next multiple of sixteen. */
INLINE void load_keys(const struct kern_attn *a, uint32_t kvh, uint32_t j0, uint32_t n, float *buf, const uint32_t dim)
{
	uint32_t j, i, m, d;

	for (j = 0; j < n; j += m) {
		const char *rows = page_rows(a, a->layer_offset, kvh, j0 + j, &m);

		m = m < n - j ? m : n - j;
		for (i = 0; i < m; i++, rows += dim * (a->kv_f32 ? 4 : 2)) {
			float *to = key_place(buf, j + i, dim);

			if (a->kv_f32)
				for (d = 0; d < dim; d += 8)
					_mm256_store_ps(to + 2 * d, _mm256_loadu_ps((const float *)rows + d));
			else
				for (d = 0; d < dim; d += 8)
					_mm256_store_ps(to + 2 * d, load_f16((const uint16_t *)rows + d));
		}
	}
	for (; j % 16; j++)
		for (d = 0; d < dim; d += 8)
			_mm256_store_ps(key_place(buf, j, dim) + 2 * d, _mm256_setzero_ps());
}

INLINE void load_values(const struct kern_attn *a, uint32_t kvh, uint32_t j0, uint32_t n, float *buf, const uint32_t dim)
{
	uint32_t j, m;
	size_t i;

	for (j = 0; j < n; j += m) {
		const void *rows = page_rows(a, a->layer_offset + a->v_offset, kvh, j0 + j, &m);
		float *to = buf + j * dim;

		m = m < n - j ? m : n - j;
		if (a->kv_f32) {
			memcpy(to, rows, sizeof(*buf) * m * dim);
			continue;
		}
		for (i = 0; i + 16 <= m * dim; i += 16)
			_mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)((const uint16_t *)rows + i))));
		if (i < m * dim)
			_mm256_store_ps(to + i, load_f16((const uint16_t *)rows + i));
	}
}

/* Scores of pairs [i, i + n), n a constant, with the tile's keys, @groups times sixteen. */
INLINE void scores(struct block *b, uint32_t i, const uint32_t n, uint32_t groups, const struct kern_attn *a,
		   const uint32_t dim)
{
	const __m512 scale = _mm512_set1_ps(a->scale);
	__m512 acc[TOGETHER][8], q[TOGETHER], k, s;
	uint32_t g, d, t;
	int r;

	for (g = 0; g < groups; g++) {
		const float *keys = b->k + g * 16 * dim;

#pragma GCC unroll 3
		for (t = 0; t < n; t++)
#pragma GCC unroll 8
			for (r = 0; r < 8; r++)
				acc[t][r] = _mm512_setzero_ps();
		for (d = 0; d < dim; d += 8) {
#pragma GCC unroll 3
			for (t = 0; t < n; t++)
				q[t] = _mm512_broadcast_f32x8(_mm256_loadu_ps(b->pair[i + t].q + d));
#pragma GCC unroll 8
			for (r = 0; r < 8; r++) {
				k = _mm512_load_ps(keys + 2 * r * dim + 2 * d);
#pragma GCC unroll 3
				for (t = 0; t < n; t++)
					acc[t][r] = _mm512_fmadd_ps(q[t], k, acc[t][r]);
			}
		}
#pragma GCC unroll 3
		for (t = 0; t < n; t++) {
			s = _mm512_mul_ps(tree8x16(acc[t]), scale);
			if (a->softcap > 0)
				s = softcap16(s, a->softcap);
			_mm512_store_ps(b->p[i + t] + g * 16, s);
		}
	}
}

/* o = o * c + sum of p_j * v_j over keys [j0, j1) of the tile, for pairs [i, i + n), columns [d, d + 16 * w) of them, n and w
 * constants. */
INLINE void values(struct block *b, uint32_t i, const uint32_t n, uint32_t d, const uint32_t w, uint32_t j0, uint32_t j1,
		   const uint32_t dim)
{
	__m512 acc[TOGETHER][4], p, v[4];
	uint32_t t, r, j;

#pragma GCC unroll 3
	for (t = 0; t < n; t++)
#pragma GCC unroll 4
		for (r = 0; r < w; r++)
			acc[t][r] = _mm512_mul_ps(_mm512_loadu_ps(b->o + (i + t) * dim + d + 16 * r), _mm512_set1_ps(b->c[i + t]));
	for (j = j0; j < j1; j++) {
#pragma GCC unroll 4
		for (r = 0; r < w; r++)
			v[r] = _mm512_loadu_ps(b->v + j * dim + d + 16 * r);
#pragma GCC unroll 3
		for (t = 0; t < n; t++) {
			p = _mm512_set1_ps(b->p[i + t][j]);
#pragma GCC unroll 4
			for (r = 0; r < w; r++)
				acc[t][r] = _mm512_fmadd_ps(p, v[r], acc[t][r]);
		}
	}
#pragma GCC unroll 3
	for (t = 0; t < n; t++)
#pragma GCC unroll 4
		for (r = 0; r < w; r++)
			_mm512_storeu_ps(b->o + (i + t) * dim + d + 16 * r, acc[t][r]);
}

/* The same for eight columns of one pair. */
INLINE void values_tail(struct block *b, uint32_t i, uint32_t d, uint32_t j0, uint32_t j1, uint32_t dim)
{
	float *o = b->o + i * dim + d;
	__m256 acc = _mm256_mul_ps(_mm256_loadu_ps(o), _mm256_set1_ps(b->c[i]));
	uint32_t j;

	for (j = j0; j < j1; j++)
		acc = _mm256_fmadd_ps(_mm256_set1_ps(b->p[i][j]), _mm256_loadu_ps(b->v + j * dim + d), acc);
	_mm256_storeu_ps(o, acc);
}

INLINE void values_all(struct block *b, uint32_t i, const uint32_t n, uint32_t j0, uint32_t j1, const uint32_t dim)
{
	uint32_t d, t;

	for (d = 0; d + 64 <= dim; d += 64)
		values(b, i, n, d, 4, j0, j1, dim);
	for (; d + 16 <= dim; d += 16)
		values(b, i, n, d, 1, j0, j1, dim);
	for (t = 0; t < n && d < dim; t++)
		values_tail(b, i + t, d, j0, j1, dim);
}

/* Of the tile that begins at key @j0: the first key that pair @i sees, and the end. */
INLINE uint32_t first_seen(const struct block *b, uint32_t i, uint32_t j0)
{
	return b->pair[i].low > j0 ? b->pair[i].low - j0 : 0;
}

INLINE uint32_t end_seen(const struct block *b, uint32_t i, uint32_t j0)
{
	return b->pair[i].keys - j0 < TILE ? b->pair[i].keys - j0 : TILE;
}

/* A bit for each key seen. */
INLINE uint32_t seen(const struct block *b, uint32_t i, uint32_t j0)
{
	uint32_t end = end_seen(b, i, j0);

	return (end == TILE ? ~0u : (1u << end) - 1) & ~0u << first_seen(b, i, j0);
}

/* The largest score so far, once this tile is counted. */
INLINE void largest(struct block *b, uint32_t i, uint32_t j0)
{
	const __m512 none = _mm512_set1_ps(-INFINITY);
	uint32_t mask = seen(b, i, j0);
	__m512 top = _mm512_set1_ps(b->m[i]);

	/* NaN: the second */
	top = _mm512_max_ps(_mm512_mask_blend_ps((__mmask16)mask, none, _mm512_load_ps(b->p[i])), top);
	top = _mm512_max_ps(_mm512_mask_blend_ps((__mmask16)(mask >> 16), none, _mm512_load_ps(b->p[i] + 16)), top);
	b->next_m[i] = max8(_mm256_max_ps(_mm512_castps512_ps256(top), _mm512_extractf32x8_ps(top, 1)));
}

/* What the sums so far are multiplied with: nothing is there before a pair's first tile. */
INLINE void factors(struct block *b, uint32_t i0, uint32_t i1, uint32_t j0)
{
	uint32_t i;

	for (i = i0; i < i1; i += 16) {
		__mmask16 some = (__mmask16)(i1 - i < 16 ? (1u << (i1 - i)) - 1 : 0xffff);
		__m512 m = _mm512_loadu_ps(b->next_m + i);

		_mm512_mask_storeu_ps(b->c + i, some, exp16(_mm512_sub_ps(_mm512_loadu_ps(b->m + i), m)));
		_mm512_mask_storeu_ps(b->m + i, some, m);
	}
	for (i = i0; i < i1; i++)
		if (b->pair[i].low / TILE == j0 / TILE)
			b->c[i] = 0;
}

INLINE void probabilities(struct block *b, uint32_t i, uint32_t j0)
{
	const __m512 m = _mm512_set1_ps(b->m[i]);
	uint32_t mask = seen(b, i, j0);
	__m512 p0 = _mm512_maskz_mov_ps((__mmask16)mask, exp16(_mm512_sub_ps(_mm512_load_ps(b->p[i]), m)));
	__m512 p1 = _mm512_maskz_mov_ps((__mmask16)(mask >> 16), exp16(_mm512_sub_ps(_mm512_load_ps(b->p[i] + 16), m)));
	__m256 sum;

	_mm512_store_ps(b->p[i], p0);
	_mm512_store_ps(b->p[i] + 16, p1);
	sum = _mm256_add_ps(_mm512_castps512_ps256(p0), _mm512_extractf32x8_ps(p0, 1));
	sum = _mm256_add_ps(sum, _mm512_castps512_ps256(p1));
	sum = _mm256_add_ps(sum, _mm512_extractf32x8_ps(p1, 1));
	b->l[i] = fmaf(b->l[i], b->c[i], tree8(sum));
}

/* The tile of @n keys from @j0 on, for pairs [i0, i1): those that see some of it. */
INLINE void tile(struct block *b, uint32_t i0, uint32_t i1, uint32_t j0, uint32_t n, const struct kern_attn *a,
		 const uint32_t dim)
{
	uint32_t groups = (n + 15) / 16, i, k, j, end;

	for (i = i0; i + 3 <= i1; i += 3)
		scores(b, i, 3, groups, a, dim);
	if (i1 - i == 2)
		scores(b, i, 2, groups, a, dim);
	else if (i1 - i == 1)
		scores(b, i, 1, groups, a, dim);
	for (i = i0; i < i1; i++)
		largest(b, i, j0);
	factors(b, i0, i1, j0);
	for (i = i0; i < i1; i++)
		probabilities(b, i, j0);
	for (i = i0; i < i1; i += k) {
		j = first_seen(b, i, j0);
		end = end_seen(b, i, j0);
		for (k = 1; k < TOGETHER && i + k < i1; k++)
			if (first_seen(b, i + k, j0) != j || end_seen(b, i + k, j0) != end)
				break;
		if (k == 3)
			values_all(b, i, 3, j, end, dim);
		else if (k == 2)
			values_all(b, i, 2, j, end, dim);
		else
			values_all(b, i, 1, j, end, dim);
	}
}

INLINE void tiles(const struct kern_attn *a, uint32_t kvh, struct block *b, const uint32_t dim)
{
	uint32_t last = b->pair[b->n - 1].keys, i0 = 0, i1 = 0, j0, n;

	/* Later pairs are later queries: they begin to see, and cease to, no sooner. */
	for (j0 = b->pair[0].low / TILE * TILE; j0 < last; j0 += TILE) {
		n = last - j0 < TILE ? last - j0 : TILE;
		load_keys(a, kvh, j0, n, b->k, dim);
		load_values(a, kvh, j0, n, b->v, dim);
		while (b->pair[i0].keys <= j0)
			i0++;
		while (i1 < b->n && b->pair[i1].low < j0 + TILE)
			i1++;
		tile(b, i0, i1, j0, n, a, dim);
	}
}

static void block_run(const struct kern_attn *a, uint32_t kvh, struct block *b)
{
	uint32_t dim = a->head_dim, i, d;

	memset(b->o, 0, sizeof(*b->o) * b->n * dim);
	memset(b->p, 0, sizeof(*b->p) * b->n);
	for (i = 0; i < PAIRS + 16; i++)
		b->m[i] = b->next_m[i] = -INFINITY;
	memset(b->l, 0, sizeof(b->l));
	if (dim == 64)
		tiles(a, kvh, b, 64);
	else if (dim == 128)
		tiles(a, kvh, b, 128);
	else
		tiles(a, kvh, b, dim);
	for (i = 0; i < b->n; i++)
		for (d = 0; d < dim; d += 8)
			_mm256_storeu_ps(b->pair[i].out + d, _mm256_div_ps(_mm256_loadu_ps(b->o + i * dim + d),
									  _mm256_set1_ps(b->l[i])));
}

void avx512_attention(const struct kern_attn *a, uint32_t kvh, uint32_t i0, uint32_t i1)
{
	uint32_t ratio = a->n_heads / a->n_kv_heads, i, h;
	struct block b;

	assert(a->head_dim % 8 == 0 && a->head_dim <= KERN_HEAD_DIM_MAX);
	b.n = 0;
	for (i = i0; i < i1; i++) {
		for (h = kvh * ratio; h < (kvh + 1) * ratio; h++) {
			size_t at = (size_t)i * a->q_ld + h * a->head_dim;

			b.pair[b.n++] = (struct pair){
				.q = a->q + at,
				.out = a->out + at,
				.low = a->window && a->pos0 + i + 1 > a->window ? a->pos0 + i + 1 - a->window : 0,
				.keys = a->pos0 + i + 1,
			};
			if (b.n == PAIRS || (i == i1 - 1 && h == (kvh + 1) * ratio - 1)) {
				block_run(a, kvh, &b);
				b.n = 0;
			}
		}
	}
}
