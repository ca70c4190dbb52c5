/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * Products with quantised weights on vectors of eight rows; a body that is compiled for AVX2 and again for AVX-VNNI, for
 * the types that TYPES(X) lists. products.h says how they are cut.
 */
#include "products.h"

#ifdef __AVXVNNI__
/* Two a cycle, five cycles each: ten chains or more fill the units. */
#define GROUP 6

INLINE __m256i mac(__m256i acc, __m256i w, __m256i v)
{
	return _mm256_dpwssd_avx_epi32(acc, w, v);
}
#else
/* Eight chains of one cycle fill the units; more would spill. */
#define GROUP 4

INLINE __m256i mac(__m256i acc, __m256i w, __m256i v)
{
	acc = _mm256_add_epi32(acc, _mm256_madd_epi16(w, v));
	/* Integer sums may be reordered, and gcc makes a tree of a whole block's products, in memory. */
	__asm__("" : "+x"(acc));
	return acc;
}
#endif

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

INLINE __m256i bytes8(const uint8_t *p)
{
	return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p));
}

/* Scale @h of a tile's block @b, rows 0-7 and 8-15. */
INLINE void scales(enum kern_type type, const uint8_t *tile, uint32_t b, int h, __m256 d[2])
{
	const uint8_t *f = tile_factors(type, tile, b) + (type == KERN_Q6_K ? h * 16 : 0);
	__m256i v;
	int i;

#pragma GCC unroll 2
	for (i = 0; i < 2; i++) {
		d[i] = load_f16(tile + 16 * i);
		if (!type_k(type))
			continue;
		if (type == KERN_Q6_K)
			v = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(f + 8 * i)));
		else
			v = _mm256_and_si256(bytes8(f + 8 * i), _mm256_set1_epi32(63));
		d[i] = _mm256_mul_ps(d[i], _mm256_cvtepi32_ps(v));
	}
}

INLINE void minima(enum kern_type type, const uint8_t *tile, uint32_t b, __m256 m[2])
{
	const uint8_t *f = tile_factors(type, tile, b);
	__m256i v, h;
	int i;

#pragma GCC unroll 2
	for (i = 0; i < 2; i++) {
		m[i] = load_f16(tile + 32 + 16 * i);
		if (!type_k(type))
			continue;
		h = bytes8(f + 16);
		h = _mm256_and_si256(i ? _mm256_srli_epi32(h, 2) : _mm256_slli_epi32(h, 2), _mm256_set1_epi32(0x3c));
		v = _mm256_or_si256(_mm256_srli_epi32(bytes8(f + 8 * i), 6), h);
		m[i] = _mm256_xor_ps(_mm256_mul_ps(m[i], _mm256_cvtepi32_ps(v)), _mm256_set1_ps(-0.0f));
	}
}

/* Bytes to what IQ4_NL means by them. */
INLINE __m256i nl_values(__m256i v)
{
	const __m256i table = _mm256_setr_epi8(IQ4_NL_VALUES, IQ4_NL_VALUES);

	return _mm256_shuffle_epi8(table, v);
}

/* Shift right, or left where @n is negative. */
INLINE __m256i shifted(__m256i v, int n)
{
	return n < 0 ? _mm256_slli_epi16(v, -n) : _mm256_srli_epi16(v, n);
}

/* Pairs of rows 0-7 and 8-15 of column pair @j, widened. */
INLINE void widen(enum kern_type type, const uint8_t *ints, const uint8_t *high, int j, __m256i w[2])
{
	const __m256i low = _mm256_set1_epi16(15);
	const uint8_t *at = ints + j / 4 * 64;
	int i, two = type_bits(type) == 6, up;

	if (type == KERN_Q8_0) {
		w[0] = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)(ints + j * 32)));
		w[1] = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)(ints + j * 32 + 16)));
		return;
	}
#pragma GCC unroll 2
	for (i = 0; i < 2; i++) {
		w[i] = _mm256_loadu_si256((const void *)(at + 32 * i));
		w[i] = _mm256_and_si256(_mm256_srli_epi16(w[i], j % 4 * 4), low);
		if (type == KERN_IQ4_NL)
			w[i] = _mm256_srai_epi16(_mm256_slli_epi16(nl_values(w[i]), 8), 8);
		if (type_bits(type) == 4)
			continue;
		up = (two ? j / 4 % 2 * 2 : j / 4) + (j % 4 == 3 ? -4 : j % 4 * 4);
		w[i] = _mm256_or_si256(w[i], _mm256_and_si256(shifted(_mm256_loadu_si256((const void *)(
				high + (two ? j / 8 * 64 : 0) + 32 * i)), up), _mm256_set1_epi16(two ? 0x30 : 0x10)));
	}
}

/*
 * One token's groups [g0, g1) of a block, for eight rows. Only the lowest and the highest nibble of a word are brought
 * down; the two between stay where they are, 16 and 256 times too large in sums of their own, which docs/numerics.md's
 * bounds keep below 2^31: 8 columns * 256 * 31 * 32767, 4 columns * 256 * 63 * 32767.
 */
INLINE __m256i nibbles_once(enum kern_type type, const uint8_t *ints, const uint8_t *high, const int16_t *q, int32_t start,
			    const int g0, const int g1)
{
	__m256i sum = _mm256_set1_epi32(start), sum16 = _mm256_setzero_si256(), sum256 = sum16, w, t;
	int g, two = type_bits(type) == 6, m = two ? 3 : 1;

#pragma GCC unroll 4
	for (g = g0; g < g1; g++) {
		__m256i a, b, c, d;

		w = _mm256_loadu_si256((const void *)(ints + g * 64));
		a = _mm256_and_si256(w, _mm256_set1_epi16(0x000f));
		b = _mm256_and_si256(w, _mm256_set1_epi16(0x00f0));
		c = _mm256_and_si256(w, _mm256_set1_epi16(0x0f00));
		d = _mm256_srli_epi16(w, 12);
		if (type_bits(type) > 4) {
			t = _mm256_loadu_si256((const void *)(high + (two ? g / 2 * 64 : 0)));
			t = _mm256_srli_epi16(t, two ? g % 2 * 2 : g);
			a = _mm256_or_si256(a, _mm256_and_si256(t, _mm256_set1_epi16((int16_t)(m << 4))));
			b = _mm256_or_si256(b, _mm256_and_si256(t, _mm256_set1_epi16((int16_t)(m << 8))));
			c = _mm256_or_si256(c, _mm256_and_si256(t, _mm256_set1_epi16((int16_t)(m << 12))));
			d = _mm256_or_si256(d, _mm256_slli_epi16(_mm256_and_si256(t, _mm256_set1_epi16((int16_t)m)), 4));
		}
		sum = mac(sum, a, pair(q + g * 8));
		sum16 = mac(sum16, b, pair(q + g * 8 + 2));
		sum256 = mac(sum256, c, pair(q + g * 8 + 4));
		sum = mac(sum, d, pair(q + g * 8 + 6));
	}
	sum = _mm256_add_epi32(sum, _mm256_srai_epi32(sum16, 4));
	return _mm256_add_epi32(sum, _mm256_srai_epi32(sum256, 8));
}

/* The same for IQ4_NL: values of the lower bytes stay in the upper ones, 16 columns * 256 * 127 * 4095 < 2^31. */
INLINE __m256i nl_once(const uint8_t *ints, const int16_t *q)
{
	__m256i sum = _mm256_setzero_si256(), sum256 = sum, w, a, b;
	const __m256i low = _mm256_set1_epi8(15);
	int g;

#pragma GCC unroll 4
	for (g = 0; g < 4; g++, q += 8) {
		w = _mm256_loadu_si256((const void *)(ints + g * 64));
		a = nl_values(_mm256_and_si256(w, low));
		b = nl_values(_mm256_and_si256(_mm256_srli_epi16(w, 4), low));
		sum256 = mac(sum256, _mm256_slli_epi16(a, 8), pair(q));
		sum256 = mac(sum256, _mm256_slli_epi16(b, 8), pair(q + 2));
		sum = mac(sum, _mm256_srai_epi16(a, 8), pair(q + 4));
		sum = mac(sum, _mm256_srai_epi16(b, 8), pair(q + 6));
	}
	return _mm256_add_epi32(sum, _mm256_srai_epi32(sum256, 8));
}

/* The integer sums of one block, or of half @h where it has two scales, of @n tokens, a constant. @off: token t's
 * at t * 2 * DIRECT_BLOCKS. */
INLINE void block_sums(enum kern_type type, const uint32_t n, const uint8_t *ints, const uint8_t *high, const int16_t *q,
		       size_t ld, const int32_t *off, const int h, __m256i sum[][2])
{
	const int parts = type_scales(type), g0 = h * 2, g1 = parts == 2 ? g0 + 2 : 4;
	__m256i w[2], v;
	uint32_t t;
	int j, i;

	if (n == 1 && type != KERN_Q8_0) {
#pragma GCC unroll 2
		for (i = 0; i < 2; i++)
			sum[0][i] = type == KERN_IQ4_NL ?
				nl_once(ints + 32 * i, q) :
				nibbles_once(type, ints + 32 * i, high + 32 * i, q, type_offset(type) ? off[h] : 0, g0, g1);
		return;
	}
#pragma GCC unroll 4
	for (t = 0; t < n; t++)
		sum[t][0] = sum[t][1] = type_offset(type) ? _mm256_set1_epi32(off[t * 2 * DIRECT_BLOCKS + h]) :
							    _mm256_setzero_si256();
#pragma GCC unroll 16
	for (j = g0 * 4; j < g1 * 4; j++) {
		widen(type, ints, high, j, w);
#pragma GCC unroll 4
		for (t = 0; t < n; t++) {
			v = pair(q + t * ld + 2 * j);
			sum[t][0] = mac(sum[t][0], w[0], v);
			sum[t][1] = mac(sum[t][1], w[1], v);
		}
	}
}

/* acc = fma(sum, d * dx, acc) for both halves of the rows. */
INLINE void chain(__m256 acc[2], const __m256i sum[2], const __m256 d[2], __m256 dx)
{
	acc[0] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[0]), _mm256_mul_ps(d[0], dx), acc[0]);
	acc[1] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[1]), _mm256_mul_ps(d[1], dx), acc[1]);
}

/* One block of @n tokens, a constant, straight from the tile. */
INLINE void direct_block(const struct part *p, enum kern_type type, const uint32_t n, const int32_t *off,
			 const uint8_t *tile, uint32_t k, uint32_t b, __m256 acc[][2])
{
	const uint8_t *ints = tile_block(type, tile, k), *high = tile_high(type, tile, k);
	__m256i sum[FEW][2];
	__m256 d[2];
	uint32_t t;
	int h;

	prefetch(type, tile, k);
#pragma GCC unroll 2
	for (h = 0; h < type_scales(type); h++) {
		block_sums(type, n, ints, high, p->q + b * KERN_BLOCK, p->ld, off + 2 * b, h, sum);
		scales(type, tile, k, h, d);
#pragma GCC unroll 4
		for (t = 0; t < n; t++)
			chain(acc[t], sum[t], d, _mm256_broadcast_ss(p->d + t * (p->ld / KERN_BLOCK) + b));
	}
	if (!type_min(type))
		return;
	minima(type, tile, k, d);
#pragma GCC unroll 4
	for (t = 0; t < n; t++) {
		__m256 s = _mm256_broadcast_ss(p->s + t * (p->ld / KERN_BLOCK) + b);

		acc[t][0] = _mm256_fmadd_ps(d[0], s, acc[t][0]);
		acc[t][1] = _mm256_fmadd_ps(d[1], s, acc[t][1]);
	}
}

/* @n tokens, a constant, straight from the tile. @off: what integers are too large by, two a block. */
INLINE void direct(const struct part *p, enum kern_type type, const uint32_t n, const int32_t *off)
{
	const uint8_t *tile = p->tile;
	__m256 acc[FEW][2];
	uint32_t b, k, t;

#pragma GCC unroll 4
	for (t = 0; t < n; t++)
		acc_load(p, t, acc[t]);
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
	const __m256i offset = _mm256_set1_epi16((int16_t)type_offset(type));
	const uint8_t *ints = tile_block(type, tile, k), *high = tile_high(type, tile, k);
	__m256i w[2];
	__m256 d[2];
	int j, h;

	prefetch(type, tile, k);
#pragma GCC unroll 2
	for (h = 0; h < type_scales(type); h++) {
		scales(type, tile, k, h, d);
		_mm256_store_ps(pl->d[b][h], d[0]);
		_mm256_store_ps(pl->d[b][h] + 8, d[1]);
	}
	if (type_min(type)) {
		minima(type, tile, k, d);
		_mm256_store_ps(pl->m[b], d[0]);
		_mm256_store_ps(pl->m[b] + 8, d[1]);
	}
#pragma GCC unroll 16
	for (j = 0; j < 16; j++) {
		widen(type, ints, high, j, w);
		if (type_offset(type)) {
			w[0] = _mm256_sub_epi16(w[0], offset);
			w[1] = _mm256_sub_epi16(w[1], offset);
		}
		_mm256_store_si256((void *)pl->w[b][j], w[0]);
		_mm256_store_si256((void *)(pl->w[b][j] + 16), w[1]);
	}
}

/* @n tokens, a constant, from token @t0 on. */
INLINE void through(const struct panel *pl, const struct part *p, const uint32_t n, uint32_t t0, const int parts, bool min)
{
	__m256 acc[GROUP][2];
	uint32_t b, t;
	int j, h;

#pragma GCC unroll 8
	for (t = 0; t < n; t++)
		acc_load(p, t0 + t, acc[t]);
	for (b = 0; b < p->blocks; b++) {
		const int16_t *q = p->q + t0 * p->ld + b * KERN_BLOCK;
		const float *d = p->d + t0 * (p->ld / KERN_BLOCK) + b;
		const float *s = p->s + t0 * (p->ld / KERN_BLOCK) + b;
		__m256i sum[GROUP][2];

#pragma GCC unroll 2
		for (h = 0; h < parts; h++) {
			const int j0 = h * 8, j1 = parts == 2 ? j0 + 8 : 16;
			const __m256 dw[2] = { _mm256_load_ps(pl->d[b][h]), _mm256_load_ps(pl->d[b][h] + 8) };

#pragma GCC unroll 8
			for (t = 0; t < n; t++)
				sum[t][0] = sum[t][1] = _mm256_setzero_si256();
#pragma GCC unroll 16
			for (j = j0; j < j1; j++) {
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
			for (t = 0; t < n; t++)
				chain(acc[t], sum[t], dw, _mm256_broadcast_ss(d + t * (p->ld / KERN_BLOCK)));
		}
		if (!min)
			continue;
#pragma GCC unroll 8
		for (t = 0; t < n; t++) {
			__m256 v = _mm256_broadcast_ss(s + t * (p->ld / KERN_BLOCK));

			acc[t][0] = _mm256_fmadd_ps(_mm256_load_ps(pl->m[b]), v, acc[t][0]);
			acc[t][1] = _mm256_fmadd_ps(_mm256_load_ps(pl->m[b] + 8), v, acc[t][1]);
		}
	}
#pragma GCC unroll 8
	for (t = 0; t < n; t++)
		acc_store(p, t0 + t, acc[t]);
}

INLINE void through_all(const struct panel *pl, const struct part *p, uint32_t n, const int parts, bool min)
{
	uint32_t t;

	for (t = 0; t + GROUP <= n; t += GROUP)
		through(pl, p, GROUP, t, parts, min);
	switch (n - t) {
	case 1:
		through(pl, p, 1, t, parts, min);
		break;
	case 2:
		through(pl, p, 2, t, parts, min);
		break;
	case 3:
		through(pl, p, 3, t, parts, min);
		break;
#if GROUP > 4
	case 4:
		through(pl, p, 4, t, parts, min);
		break;
	case 5:
		through(pl, p, 5, t, parts, min);
		break;
#endif
	}
}

#include "products_cut.h"
