/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* The words of docs/numerics.md on vectors of eight f32. Only for files that are compiled with AVX2, FMA, F16C. */
#ifndef KERNELS_CPU_AVX2_H
#define KERNELS_CPU_AVX2_H

#include <immintrin.h>

#include "c.h"

#define INLINE static inline __attribute__((always_inline))

/* Lanes [0, n) all ones, the others zero; n <= 8. */
INLINE __m256i lanes_below(uint32_t n)
{
	return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* The first n < 8 floats, zero beyond; reads nothing else. */
INLINE __m256 load_tail(const float *x, uint32_t n)
{
	return _mm256_maskload_ps(x, lanes_below(n));
}

INLINE __m256 load_f16(const void *p)
{
	return _mm256_cvtph_ps(_mm_loadu_si128(p));
}

INLINE __m256 load_bf16(const void *p)
{
	return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
}

/* The named tree. */
INLINE float tree8(__m256 a)
{
	__m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
	__m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));

	return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

/* The named tree of eight vectors, result i in lane i. */
INLINE __m256 tree8x8(const __m256 a[8])
{
	__m256 b[4], c0, c1;
	int i;

#pragma GCC unroll 4
	for (i = 0; i < 4; i++)
		b[i] = _mm256_add_ps(_mm256_permute2f128_ps(a[i], a[i + 4], 0x20),
				     _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
	c0 = _mm256_add_ps(_mm256_shuffle_ps(b[0], b[1], 0x44), _mm256_shuffle_ps(b[0], b[1], 0xee));
	c1 = _mm256_add_ps(_mm256_shuffle_ps(b[2], b[3], 0x44), _mm256_shuffle_ps(b[2], b[3], 0xee));
	return _mm256_add_ps(_mm256_shuffle_ps(c0, c1, 0x88), _mm256_shuffle_ps(c0, c1, 0xdd));
}

/* The named tree of four vectors. */
INLINE __m128 tree8x4(const __m256 a[4])
{
	__m128 b[4], c0, c1;
	int i;

#pragma GCC unroll 4
	for (i = 0; i < 4; i++)
		b[i] = _mm_add_ps(_mm256_castps256_ps128(a[i]), _mm256_extractf128_ps(a[i], 1));
	c0 = _mm_add_ps(_mm_movelh_ps(b[0], b[1]), _mm_movehl_ps(b[1], b[0]));
	c1 = _mm_add_ps(_mm_movelh_ps(b[2], b[3]), _mm_movehl_ps(b[3], b[2]));
	return _mm_add_ps(_mm_shuffle_ps(c0, c1, 0x88), _mm_shuffle_ps(c0, c1, 0xdd));
}

INLINE __m256 exp8(__m256 x)
{
	__m256 low = _mm256_cmp_ps(x, _mm256_set1_ps(-87.0f), _CMP_LT_OQ), n, t, p;
	__m256i e;

	x = _mm256_min_ps(_mm256_set1_ps(88.0f), x); /* NaN: the second */
	n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(0x1.715476p+0f)),
			    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
	t = _mm256_fmadd_ps(n, _mm256_set1_ps(-0x1.62e400p-1f), x);
	t = _mm256_fmadd_ps(n, _mm256_set1_ps(-0x1.7f7d1cp-20f), t);
	p = _mm256_fmadd_ps(_mm256_set1_ps(0x1.6a241ap-10f), t, _mm256_set1_ps(0x1.1239f2p-7f));
	p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(0x1.5558f2p-5f));
	p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(0x1.555492p-3f));
	p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(0x1.fffffcp-2f));
	p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(1.0f));
	p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(1.0f));
	e = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
	return _mm256_andnot_ps(low, _mm256_mul_ps(p, _mm256_castsi256_ps(e)));
}

INLINE __m256 tanh8(__m256 x)
{
	const __m256 one = _mm256_set1_ps(1.0f);
	__m256 small = _mm256_cmp_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), x), _mm256_set1_ps(0.25f), _CMP_LT_OQ);
	__m256 z = _mm256_mul_ps(x, x), p, big;

	big = _mm256_div_ps(_mm256_set1_ps(2.0f), _mm256_add_ps(one, exp8(_mm256_add_ps(x, x))));
	p = _mm256_fmadd_ps(z, _mm256_set1_ps(0x1.664f48p-6f), _mm256_set1_ps(-0x1.ba1ba2p-5f));
	p = _mm256_fmadd_ps(z, p, _mm256_set1_ps(0x1.111112p-3f));
	p = _mm256_fmadd_ps(z, p, _mm256_set1_ps(-0x1.555556p-2f));
	return _mm256_blendv_ps(_mm256_sub_ps(one, big), _mm256_fmadd_ps(_mm256_mul_ps(x, z), p, x), small);
}

INLINE float max8(__m256 a)
{
	__m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));

	b = _mm_max_ps(b, _mm_movehl_ps(b, b));
	return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

void avx2_product_quantised(const struct kern_weight *w, uint32_t r0, uint32_t r1, const struct kern_act *x,
			    uint32_t n, float *y, size_t ldy);
void avx2_vnni_product_quantised(const struct kern_weight *w, uint32_t r0, uint32_t r1, const struct kern_act *x,
				 uint32_t n, float *y, size_t ldy);
void avx2_product_k(const struct kern_weight *w, uint32_t r0, uint32_t r1, const struct kern_act *x, uint32_t n,
		    float *y, size_t ldy);
void avx2_vnni_product_k(const struct kern_weight *w, uint32_t r0, uint32_t r1, const struct kern_act *x, uint32_t n,
			 float *y, size_t ldy);
void avx512_product_quantised(const struct kern_weight *w, uint32_t r0, uint32_t r1, const struct kern_act *x,
			      uint32_t n, float *y, size_t ldy);
void avx512_product_k(const struct kern_weight *w, uint32_t r0, uint32_t r1, const struct kern_act *x, uint32_t n,
		      float *y, size_t ldy);
void avx2_product_float(const struct kern_weight *w, uint32_t r0, uint32_t r1, const struct kern_act *x,
			uint32_t n, float *y, size_t ldy);
void avx2_append(const struct kern_append *a, uint32_t i0, uint32_t i1);
void avx2_attention(const struct kern_attn *a, uint32_t kvh, uint32_t i0, uint32_t i1);
void avx512_attention(const struct kern_attn *a, uint32_t kvh, uint32_t i0, uint32_t i1);
void avx2_rope(float *x, uint32_t heads, uint32_t head_dim, uint32_t rope_dim, const float *rope);

#endif
