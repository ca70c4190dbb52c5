// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * Keys and values into pages, and attention over them. Tiles of keys and values are widened once into the stack and
 * meet all query heads of their kv head, of up to PAIRS (query, head) pairs, before the next tile.
 */
#include <assert.h>

#include "avx2.h"

#define TILE KERN_ATTN_TILE
#define PAIRS 32

static void row_store(void *dst, const float *x, uint32_t n, bool f32)
{
	uint32_t i;

	if (f32) {
		memcpy(dst, x, n * sizeof(*x));
		return;
	}
	for (i = 0; i + 8 <= n; i += 8)
		_mm_storeu_si128((void *)((uint16_t *)dst + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), 0));
}

void avx2_append(const struct kern_append *a, uint32_t i0, uint32_t i1)
{
	size_t row_bytes = (size_t)a->head_dim * (a->kv_f32 ? 4 : 2);
	float k[KERN_HEAD_DIM_MAX];
	uint32_t i, h;

	assert(a->head_dim <= KERN_HEAD_DIM_MAX && a->head_dim % 8 == 0 && a->rope_dim <= a->head_dim);
	for (i = i0; i < i1; i++) {
		uint32_t pos = a->pos0 + i;
		char *page = (char *)a->pages[pos / a->page_tokens] + a->layer_offset;

		for (h = 0; h < a->n_kv_heads; h++) {
			char *dst = page + h * a->head_stride + pos % a->page_tokens * row_bytes;

			memcpy(k, a->k + (size_t)i * a->k_ld + h * a->head_dim, a->head_dim * sizeof(*k));
			avx2_rope(k, 1, a->head_dim, a->rope_dim, a->rope + (size_t)pos * a->rope_dim);
			row_store(dst, k, a->head_dim, a->kv_f32);
			row_store(dst + a->v_offset, a->v + (size_t)i * a->v_ld + h * a->head_dim, a->head_dim,
				  a->kv_f32);
		}
	}
}

struct pair {
	const float *q;
	float *out;
	uint32_t low, keys; /* sees [low, keys) */
	float m, l;
};

struct block {
	_Alignas(64) float k[TILE * KERN_HEAD_DIM_MAX], v[TILE * KERN_HEAD_DIM_MAX]; /* [key][head_dim] */
	_Alignas(64) float o[PAIRS * KERN_HEAD_DIM_MAX]; /* [pair][head_dim] */
	struct pair pair[PAIRS];
	uint32_t n;
};

/* Rows [j0, j0 + n) of keys or values, as f32 in @buf; zero up to the next multiple of eight rows. */
static void load_tile(const struct kern_attn *a, size_t offset, uint32_t kvh, uint32_t j0, uint32_t n, float *buf)
{
	uint32_t j, m;
	size_t i;

	for (j = 0; j < n; j += m) {
		const void *rows = page_rows(a, offset, kvh, j0 + j, &m);

		m = m < n - j ? m : n - j;
		if (a->kv_f32) {
			memcpy(buf + j * a->head_dim, rows, sizeof(*buf) * m * a->head_dim);
			continue;
		}
		for (i = 0; i < (size_t)m * a->head_dim; i += 8)
			_mm256_store_ps(buf + j * a->head_dim + i, load_f16((const uint16_t *)rows + i));
	}
	memset(buf + n * a->head_dim, 0, sizeof(*buf) * ((n + 7) / 8 * 8 - n) * a->head_dim);
}

/* The dot products of @q with eight keys. */
INLINE __m256 scores(const float *q, const float *k, const uint32_t dim)
{
	__m256 acc[8], v;
	uint32_t d;
	int j;

#pragma GCC unroll 8
	for (j = 0; j < 8; j++)
		acc[j] = _mm256_setzero_ps();
	for (d = 0; d < dim; d += 8) {
		v = _mm256_loadu_ps(q + d);
#pragma GCC unroll 8
		for (j = 0; j < 8; j++)
			acc[j] = _mm256_fmadd_ps(v, _mm256_load_ps(k + j * dim + d), acc[j]);
	}
	return tree8x8(acc);
}

/* o[0 .. 8 * n) = o * c + sum of p_j * v_j, n a constant. */
INLINE void values(float *o, const float *v, const uint32_t n, uint32_t dim, const float *p, uint32_t keys, float c)
{
	__m256 acc[8], b;
	uint32_t i, j;

#pragma GCC unroll 8
	for (i = 0; i < n; i++)
		acc[i] = _mm256_mul_ps(_mm256_load_ps(o + 8 * i), _mm256_set1_ps(c));
	for (j = 0; j < keys; j++, v += dim) {
		b = _mm256_broadcast_ss(p + j);
#pragma GCC unroll 8
		for (i = 0; i < n; i++)
			acc[i] = _mm256_fmadd_ps(b, _mm256_load_ps(v + 8 * i), acc[i]);
	}
#pragma GCC unroll 8
	for (i = 0; i < n; i++)
		_mm256_store_ps(o + 8 * i, acc[i]);
}

/* Lanes of the group of eight at @at that are in [low, high), all three counted from the tile's first key. */
INLINE __m256 seen(uint32_t at, uint32_t low, uint32_t high)
{
	__m256i lane = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32((int)at));

	return _mm256_castsi256_ps(_mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32((int)low), lane),
						       _mm256_cmpgt_epi32(_mm256_set1_epi32((int)high), lane)));
}

/* The tile that begins at key @j0, for one pair that sees at least that key. */
INLINE void tile(const struct block *b, struct pair *p, float *o, uint32_t j0, float scale, float softcap,
		 const uint32_t dim)
{
	uint32_t skip = p->low > j0 ? p->low - j0 : 0, keys = p->keys - j0 < TILE ? p->keys - j0 : TILE;
	uint32_t groups = (keys + 7) / 8, g, d;
	_Alignas(32) float prob[TILE];
	__m256 top = _mm256_set1_ps(p->m), sum = _mm256_setzero_ps(), s;
	float m, c;

	for (g = 0; g < groups; g++) {
		s = _mm256_mul_ps(scores(p->q, b->k + g * 8 * dim, dim), _mm256_set1_ps(scale));
		if (softcap > 0)
			s = _mm256_mul_ps(tanh8(_mm256_div_ps(s, _mm256_set1_ps(softcap))), _mm256_set1_ps(softcap));
		if (keys - g * 8 < 8 || skip > g * 8)
			s = _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), s, seen(g * 8, skip, keys));
		_mm256_store_ps(prob + g * 8, s);
		top = _mm256_max_ps(s, top); /* NaN: the second */
	}
	m = max8(top);
	c = j0 / TILE > p->low / TILE ? exp_one(p->m - m) : 0.0f;
	for (g = 0; g < groups; g++) {
		s = exp8(_mm256_sub_ps(_mm256_load_ps(prob + g * 8), _mm256_set1_ps(m)));
		if (keys - g * 8 < 8 || skip > g * 8)
			s = _mm256_and_ps(s, seen(g * 8, skip, keys));
		_mm256_store_ps(prob + g * 8, s);
		sum = _mm256_add_ps(sum, s);
	}
	p->l = fmaf(p->l, c, tree8(sum));
	p->m = m;
	for (d = 0; d + 64 <= dim; d += 64)
		values(o + d, b->v + skip * dim + d, 8, dim, prob + skip, keys - skip, c);
	if (dim - d >= 32) {
		values(o + d, b->v + skip * dim + d, 4, dim, prob + skip, keys - skip, c);
		d += 32;
	}
	for (; d < dim; d += 8)
		values(o + d, b->v + skip * dim + d, 1, dim, prob + skip, keys - skip, c);
}

static void block_run(const struct kern_attn *a, uint32_t kvh, struct block *b)
{
	uint32_t last = b->pair[b->n - 1].keys, dim = a->head_dim, j0, n, i, d;

	memset(b->o, 0, sizeof(*b->o) * b->n * dim);
	/* The first pair is the earliest query. */
	for (j0 = b->pair[0].low / TILE * TILE; j0 < last; j0 += TILE) {
		n = last - j0 < TILE ? last - j0 : TILE;
		load_tile(a, a->layer_offset, kvh, j0, n, b->k);
		load_tile(a, a->layer_offset + a->v_offset, kvh, j0, n, b->v);
		for (i = 0; i < b->n; i++) {
			if (b->pair[i].keys <= j0 || b->pair[i].low >= j0 + TILE)
				continue;
			if (dim == 64)
				tile(b, b->pair + i, b->o + i * dim, j0, a->scale, a->softcap, 64);
			else if (dim == 128)
				tile(b, b->pair + i, b->o + i * dim, j0, a->scale, a->softcap, 128);
			else
				tile(b, b->pair + i, b->o + i * dim, j0, a->scale, a->softcap, dim);
		}
	}
	for (i = 0; i < b->n; i++)
		for (d = 0; d < dim; d += 8)
			_mm256_storeu_ps(b->pair[i].out + d,
					 _mm256_div_ps(_mm256_load_ps(b->o + i * dim + d),
						       _mm256_set1_ps(b->pair[i].l)));
}

void avx2_attention(const struct kern_attn *a, uint32_t kvh, uint32_t i0, uint32_t i1)
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
				.m = -INFINITY,
			};
			if (b.n == PAIRS || (i == i1 - 1 && h == (kvh + 1) * ratio - 1)) {
				block_run(a, kvh, &b);
				b.n = 0;
			}
		}
	}
}
