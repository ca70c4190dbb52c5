/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * Products with quantised weights on vectors of a tile's sixteen rows, for AVX-512 with VNNI, for the types that TYPES(X)
 * lists. The same steps as in avx2_products.h, each for twice as many rows; products.h says how they are cut. Where a
 * token's pair is the last operand, the processor takes it from memory and repeats it itself.
 */
#include "products.h"

#define GROUP 16 /* sums of as many tokens at once, in half of the registers */

INLINE __m512i mac(__m512i acc, __m512i w, __m512i v)
{
	return _mm512_dpwssd_epi32(acc, w, v);
}

INLINE __mmask16 rows_mask(const struct part *p)
{
	return (__mmask16)((1u << p->rows) - 1);
}

INLINE __m512 acc_load(const struct part *p, uint32_t t)
{
	return p->first ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(rows_mask(p), p->y + t * p->ldy);
}

INLINE void acc_store(const struct part *p, uint32_t t, __m512 acc)
{
	if (p->rows == KERN_TILE_ROWS)
		_mm512_storeu_ps(p->y + t * p->ldy, acc);
	else
		_mm512_mask_storeu_ps(p->y + t * p->ldy, rows_mask(p), acc);
}

INLINE __m512i pair(const int16_t *q)
{
	int32_t v;

	memcpy(&v, q, sizeof(v));
	return _mm512_set1_epi32(v);
}

INLINE __m512 load_f16x16(const void *p)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}

/* Scale @h of a tile's block @b. */
INLINE __m512 scales(enum kern_type type, const uint8_t *tile, uint32_t b, int h)
{
	const uint8_t *f = tile_factors(type, tile, b) + (type == KERN_Q6_K ? h * 16 : 0);
	__m512 d = load_f16x16(tile);
	__m512i v;

	if (!type_k(type))
		return d;
	if (type == KERN_Q6_K)
		v = _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)f));
	else
		v = _mm512_and_si512(_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)f)), _mm512_set1_epi32(63));
	return _mm512_mul_ps(d, _mm512_cvtepi32_ps(v));
}

INLINE __m512 minima(enum kern_type type, const uint8_t *tile, uint32_t b)
{
	const uint8_t *f = tile_factors(type, tile, b);
	const __m128i upper = _mm_set1_epi8(0x3c);
	__m512 m = load_f16x16(tile + 32);
	__m128i v, h;

	if (!type_k(type))
		return m;
	h = _mm_loadl_epi64((const void *)(f + 16));
	h = _mm_unpacklo_epi64(_mm_slli_epi16(h, 2), _mm_srli_epi16(h, 2));
	v = _mm_and_si128(_mm_srli_epi16(_mm_loadu_si128((const void *)f), 6), _mm_set1_epi8(3));
	v = _mm_or_si128(v, _mm_and_si128(h, upper));
	m = _mm512_mul_ps(m, _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(v)));
	return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(m), _mm512_set1_epi32(INT32_MIN)));
}

/* Bytes to what IQ4_NL means by them. */
INLINE __m512i nl_values(__m512i v)
{
	const __m512i table = _mm512_broadcast_i32x4(_mm_setr_epi8(IQ4_NL_VALUES));

	return _mm512_shuffle_epi8(table, v);
}

/* Shift right, or left where @n is negative. */
INLINE __m512i shifted(__m512i v, int n)
{
	return n < 0 ? _mm512_slli_epi16(v, (unsigned int)-n) : _mm512_srli_epi16(v, (unsigned int)n);
}

/* Pairs of column pair @j, widened. */
INLINE __m512i widen(enum kern_type type, const uint8_t *ints, const uint8_t *high, int j)
{
	const __m512i low = _mm512_set1_epi16(15);
	const uint8_t *at = ints + j / 4 * 64;
	int two = type_bits(type) == 6, up;
	__m512i w;

	if (type == KERN_Q8_0)
		return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const void *)(ints + j * 32)));
	w = _mm512_and_si512(_mm512_srli_epi16(_mm512_loadu_si512(at), (unsigned int)(j % 4 * 4)), low);
	if (type == KERN_IQ4_NL)
		w = _mm512_srai_epi16(_mm512_slli_epi16(nl_values(w), 8), 8);
	if (type_bits(type) == 4)
		return w;
	up = (two ? j / 4 % 2 * 2 : j / 4) + (j % 4 == 3 ? -4 : j % 4 * 4);
	return _mm512_or_si512(w, _mm512_and_si512(shifted(_mm512_loadu_si512(high + (two ? j / 8 * 64 : 0)), up),
						   _mm512_set1_epi16(two ? 0x30 : 0x10)));
}

/* One token's groups [g0, g1) of a block; the two nibbles between stay where they are, as in avx2_products.h. */
INLINE __m512i nibbles_once(enum kern_type type, const uint8_t *ints, const uint8_t *high, const int16_t *q, int32_t start,
			    const int g0, const int g1)
{
	__m512i sum = _mm512_set1_epi32(start), sum16 = _mm512_setzero_si512(), sum256 = sum16, w, t;
	int g, two = type_bits(type) == 6, m = two ? 3 : 1;

#pragma GCC unroll 4
	for (g = g0; g < g1; g++) {
		__m512i a, b, c, d;

		w = _mm512_loadu_si512(ints + g * 64);
		a = _mm512_and_si512(w, _mm512_set1_epi16(0x000f));
		b = _mm512_and_si512(w, _mm512_set1_epi16(0x00f0));
		c = _mm512_and_si512(w, _mm512_set1_epi16(0x0f00));
		d = _mm512_srli_epi16(w, 12);
		if (type_bits(type) > 4) {
			t = _mm512_loadu_si512(high + (two ? g / 2 * 64 : 0));
			t = _mm512_srli_epi16(t, (unsigned int)(two ? g % 2 * 2 : g));
			a = _mm512_or_si512(a, _mm512_and_si512(t, _mm512_set1_epi16((int16_t)(m << 4))));
			b = _mm512_or_si512(b, _mm512_and_si512(t, _mm512_set1_epi16((int16_t)(m << 8))));
			c = _mm512_or_si512(c, _mm512_and_si512(t, _mm512_set1_epi16((int16_t)(m << 12))));
			d = _mm512_or_si512(d, _mm512_slli_epi16(_mm512_and_si512(t, _mm512_set1_epi16((int16_t)m)), 4));
		}
		sum = mac(sum, a, pair(q + g * 8));
		sum16 = mac(sum16, b, pair(q + g * 8 + 2));
		sum256 = mac(sum256, c, pair(q + g * 8 + 4));
		sum = mac(sum, d, pair(q + g * 8 + 6));
	}
	sum = _mm512_add_epi32(sum, _mm512_srai_epi32(sum16, 4));
	return _mm512_add_epi32(sum, _mm512_srai_epi32(sum256, 8));
}

INLINE __m512i nl_once(const uint8_t *ints, const int16_t *q)
{
	__m512i sum = _mm512_setzero_si512(), sum256 = sum, w, a, b;
	const __m512i low = _mm512_set1_epi8(15);
	int g;

#pragma GCC unroll 4
	for (g = 0; g < 4; g++, q += 8) {
		w = _mm512_loadu_si512(ints + g * 64);
		a = nl_values(_mm512_and_si512(w, low));
		b = nl_values(_mm512_and_si512(_mm512_srli_epi16(w, 4), low));
		sum256 = mac(sum256, _mm512_slli_epi16(a, 8), pair(q));
		sum256 = mac(sum256, _mm512_slli_epi16(b, 8), pair(q + 2));
		sum = mac(sum, _mm512_srai_epi16(a, 8), pair(q + 4));
		sum = mac(sum, _mm512_srai_epi16(b, 8), pair(q + 6));
	}
	return _mm512_add_epi32(sum, _mm512_srai_epi32(sum256, 8));
}

/* The integer sums of one block, or of half @h where it has two scales, of @n tokens, a constant. @off: token t's
 * at t * 2 * DIRECT_BLOCKS. */
INLINE void block_sums(enum kern_type type, const uint32_t n, const uint8_t *ints, const uint8_t *high, const int16_t *q,
		       size_t ld, const int32_t *off, const int h, __m512i *sum)
{
	const int parts = type_scales(type), g0 = h * 2, g1 = parts == 2 ? g0 + 2 : 4;
	__m512i w;
	uint32_t t;
	int j;

	if (n == 1 && type != KERN_Q8_0) {
		sum[0] = type == KERN_IQ4_NL ? nl_once(ints, q) :
					       nibbles_once(type, ints, high, q, type_offset(type) ? off[h] : 0, g0, g1);
		return;
	}
#pragma GCC unroll 4
	for (t = 0; t < n; t++)
		sum[t] = type_offset(type) ? _mm512_set1_epi32(off[t * 2 * DIRECT_BLOCKS + h]) : _mm512_setzero_si512();
#pragma GCC unroll 16
	for (j = g0 * 4; j < g1 * 4; j++) {
		w = widen(type, ints, high, j);
#pragma GCC unroll 4
		for (t = 0; t < n; t++)
			sum[t] = mac(sum[t], w, pair(q + t * ld + 2 * j));
	}
}

/* fma(sum, d * dx, acc) */
INLINE __m512 chain(__m512 acc, __m512i sum, __m512 d, const float *dx)
{
	return _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(d, _mm512_set1_ps(*dx)), acc);
}

/* One block of @n tokens, a constant, straight from the tile. */
INLINE void direct_block(const struct part *p, enum kern_type type, const uint32_t n, const int32_t *off,
			 const uint8_t *tile, uint32_t k, uint32_t b, __m512 *acc)
{
	const uint8_t *ints = tile_block(type, tile, k), *high = tile_high(type, tile, k);
	__m512i sum[FEW];
	__m512 d;
	uint32_t t;
	int h;

	prefetch(type, tile, k);
#pragma GCC unroll 2
	for (h = 0; h < type_scales(type); h++) {
		block_sums(type, n, ints, high, p->q + b * KERN_BLOCK, p->ld, off + 2 * b, h, sum);
		d = scales(type, tile, k, h);
#pragma GCC unroll 4
		for (t = 0; t < n; t++)
			acc[t] = chain(acc[t], sum[t], d, p->d + t * (p->ld / KERN_BLOCK) + b);
	}
	if (!type_min(type))
		return;
	d = minima(type, tile, k);
#pragma GCC unroll 4
	for (t = 0; t < n; t++)
		acc[t] = _mm512_fmadd_ps(d, _mm512_set1_ps(p->s[t * (p->ld / KERN_BLOCK) + b]), acc[t]);
}

/* @n tokens, a constant, straight from the tile. @off: what integers are too large by, two a block. */
INLINE void direct(const struct part *p, enum kern_type type, const uint32_t n, const int32_t *off)
{
	const uint8_t *tile = p->tile;
	__m512 acc[FEW];
	uint32_t b, k, t;

#pragma GCC unroll 4
	for (t = 0; t < n; t++)
		acc[t] = acc_load(p, t);
	for (b = 0; b < p->blocks; tile += tile_size(type))
#pragma GCC unroll 1
		for (k = 0; k < tile_blocks(type); k++, b++)
			direct_block(p, type, n, off, tile, k, b, acc);
#pragma GCC unroll 4
	for (t = 0; t < n; t++)
		acc_store(p, t, acc[t]);
}

INLINE void fill_block(struct panel *pl, enum kern_type type, const uint8_t *tile, uint32_t k, uint32_t b)
{
	const uint8_t *ints = tile_block(type, tile, k), *high = tile_high(type, tile, k);
	__m512i w;
	int j, h;

	prefetch(type, tile, k);
#pragma GCC unroll 2
	for (h = 0; h < type_scales(type); h++)
		_mm512_store_ps(pl->d[b][h], scales(type, tile, k, h));
	if (type_min(type))
		_mm512_store_ps(pl->m[b], minima(type, tile, k));
#pragma GCC unroll 16
	for (j = 0; j < 16; j++) {
		w = widen(type, ints, high, j);
		if (type_offset(type))
			w = _mm512_sub_epi16(w, _mm512_set1_epi16((int16_t)type_offset(type)));
		_mm512_store_si512(pl->w[b][j], w);
	}
}

/* @n tokens, a constant, from token @t0 on. */
INLINE void through(const struct panel *pl, const struct part *p, const uint32_t n, uint32_t t0, const int parts, bool min)
{
	__m512 acc[GROUP];
	uint32_t b, t;
	int j, h;

#pragma GCC unroll 16
	for (t = 0; t < n; t++)
		acc[t] = acc_load(p, t0 + t);
	for (b = 0; b < p->blocks; b++) {
		const int16_t *q = p->q + t0 * p->ld + b * KERN_BLOCK;
		const float *d = p->d + t0 * (p->ld / KERN_BLOCK) + b;
		const float *s = p->s + t0 * (p->ld / KERN_BLOCK) + b;
		__m512i sum[GROUP];

#pragma GCC unroll 2
		for (h = 0; h < parts; h++) {
			const int j0 = h * 8, j1 = parts == 2 ? j0 + 8 : 16;
			const __m512 dw = _mm512_load_ps(pl->d[b][h]);

#pragma GCC unroll 16
			for (t = 0; t < n; t++)
				sum[t] = _mm512_setzero_si512();
#pragma GCC unroll 16
			for (j = j0; j < j1; j++) {
				__m512i w = _mm512_load_si512(pl->w[b][j]);

#pragma GCC unroll 16
				for (t = 0; t < n; t++)
					sum[t] = mac(sum[t], w, pair(q + t * p->ld + 2 * j));
			}
#pragma GCC unroll 16
			for (t = 0; t < n; t++)
				acc[t] = chain(acc[t], sum[t], dw, d + t * (p->ld / KERN_BLOCK));
		}
		if (!min)
			continue;
#pragma GCC unroll 16
		for (t = 0; t < n; t++)
			acc[t] = _mm512_fmadd_ps(_mm512_load_ps(pl->m[b]), _mm512_set1_ps(s[t * (p->ld / KERN_BLOCK)]), acc[t]);
	}
#pragma GCC unroll 16
	for (t = 0; t < n; t++)
		acc_store(p, t0 + t, acc[t]);
}

#define REST(n)                                      \
	case n:                                      \
		through(pl, p, n, t, parts, min); \
		break;

INLINE void through_all(const struct panel *pl, const struct part *p, uint32_t n, const int parts, bool min)
{
	uint32_t t;

	for (t = 0; t + GROUP <= n; t += GROUP)
		through(pl, p, GROUP, t, parts, min);
	switch (n - t) {
		REST(1) REST(2) REST(3) REST(4) REST(5) REST(6) REST(7) REST(8)
		REST(9) REST(10) REST(11) REST(12) REST(13) REST(14) REST(15)
	}
}

#include "products_cut.h"
