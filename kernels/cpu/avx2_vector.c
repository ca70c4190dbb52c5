// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Operations on single rows, and quantising. */
#include <assert.h>

#include "avx2.h"
#include "impl.h"

static void avx2_quantise(const struct kern_act *a, const float *x, uint32_t n)
{
	const __m256i mag = _mm256_set1_epi32(0x7fffffff);
	const __m256i hi = _mm256_set1_epi16((int16_t)a->levels), lo = _mm256_set1_epi16((int16_t)-a->levels);
	const __m256i one = _mm256_set1_epi16(1);
	const float levels = (float)a->levels;
	uint32_t blocks = a->cols / KERN_BLOCK, b, i;
	size_t t;

	assert(a->cols % KERN_BLOCK == 0 && a->ld % KERN_BLOCK == 0 && a->levels && a->levels <= INT16_MAX);
	for (t = 0; t < n; t++) {
		const float *in = x + t * a->ld;
		int16_t *q = a->q + t * a->ld;
		float *d = a->d + t * a->ld / KERN_BLOCK, *s = a->s + t * a->ld / KERN_BLOCK;

		for (b = 0; b < blocks; b++, in += KERN_BLOCK, q += KERN_BLOCK) {
			__m256i m = _mm256_setzero_si256(), v[4], q0, q1, sum;
			__m128i m4;
			float amax, r;

			/* As integers, so that NaN is the largest of all. */
			for (i = 0; i < 4; i++)
				m = _mm256_max_epi32(m, _mm256_and_si256(mag, _mm256_loadu_si256(
										      (const void *)(in + i * 8))));
			m4 = _mm_max_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
			m4 = _mm_max_epi32(m4, _mm_shuffle_epi32(m4, 0x4e));
			m4 = _mm_max_epi32(m4, _mm_shuffle_epi32(m4, 0xb1));
			amax = float_of((uint32_t)_mm_cvtsi128_si32(m4));
			if (!isfinite(amax)) {
				memset(q, 0, KERN_BLOCK * sizeof(*q));
				d[b] = s[b] = NAN;
				continue;
			}
			r = amax > 0 ? levels / amax : 0;
			if (!isfinite(r))
				r = 0;
			d[b] = r > 0 ? amax / levels : 0;
			for (i = 0; i < 4; i++)
				v[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(in + i * 8), _mm256_set1_ps(r)));
			q0 = _mm256_permute4x64_epi64(_mm256_packs_epi32(v[0], v[1]), 0xd8);
			q1 = _mm256_permute4x64_epi64(_mm256_packs_epi32(v[2], v[3]), 0xd8);
			q0 = _mm256_max_epi16(_mm256_min_epi16(q0, hi), lo);
			q1 = _mm256_max_epi16(_mm256_min_epi16(q1, hi), lo);
			_mm256_storeu_si256((void *)q, q0);
			_mm256_storeu_si256((void *)(q + 16), q1);
			sum = _mm256_add_epi32(_mm256_madd_epi16(q0, one), _mm256_madd_epi16(q1, one));
			m4 = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
			m4 = _mm_add_epi32(m4, _mm_shuffle_epi32(m4, 0x4e));
			m4 = _mm_add_epi32(m4, _mm_shuffle_epi32(m4, 0xb1));
			s[b] = d[b] * (float)_mm_cvtsi128_si32(m4);
		}
	}
}

static void avx2_product(const struct kern_weight *w, uint32_t r0, uint32_t r1, const struct kern_act *x,
			 uint32_t n, float *y, size_t ldy)
{
	assert(r0 % KERN_TILE_ROWS == 0 && r1 <= w->rows && x->cols == w->cols);
	assert(r1 % KERN_TILE_ROWS == 0 || r1 == w->rows);
	if (type_k(w->type))
		avx2_product_k(w, r0, r1, x, n, y, ldy);
	else if (kern_type_quantised(w->type))
		avx2_product_quantised(w, r0, r1, x, n, y, ldy);
	else
		avx2_product_float(w, r0, r1, x, n, y, ldy);
}

static void avx2_vnni_product(const struct kern_weight *w, uint32_t r0, uint32_t r1, const struct kern_act *x,
			      uint32_t n, float *y, size_t ldy)
{
	assert(r0 % KERN_TILE_ROWS == 0 && r1 <= w->rows && x->cols == w->cols);
	assert(r1 % KERN_TILE_ROWS == 0 || r1 == w->rows);
	if (type_k(w->type))
		avx2_vnni_product_k(w, r0, r1, x, n, y, ldy);
	else if (kern_type_quantised(w->type))
		avx2_vnni_product_quantised(w, r0, r1, x, n, y, ldy);
	else
		avx2_product_float(w, r0, r1, x, n, y, ldy);
}

static void avx512_product(const struct kern_weight *w, uint32_t r0, uint32_t r1, const struct kern_act *x,
			   uint32_t n, float *y, size_t ldy)
{
	assert(r0 % KERN_TILE_ROWS == 0 && r1 <= w->rows && x->cols == w->cols);
	assert(r1 % KERN_TILE_ROWS == 0 || r1 == w->rows);
	if (type_k(w->type))
		avx512_product_k(w, r0, r1, x, n, y, ldy);
	else if (kern_type_quantised(w->type))
		avx512_product_quantised(w, r0, r1, x, n, y, ldy);
	else
		avx2_product_float(w, r0, r1, x, n, y, ldy);
}

static void avx2_rmsnorm(float *y, const float *x, const float *w, uint32_t n, float eps)
{
	__m256 acc = _mm256_setzero_ps(), v;
	float scale;
	uint32_t i;

	for (i = 0; i + 8 <= n; i += 8) {
		v = _mm256_loadu_ps(x + i);
		acc = _mm256_fmadd_ps(v, v, acc);
	}
	if (i < n) {
		v = load_tail(x + i, n - i);
		acc = _mm256_fmadd_ps(v, v, acc);
	}
	scale = 1.0f / sqrtf(tree8(acc) / (float)n + eps);
	for (i = 0; i + 8 <= n; i += 8) {
		v = _mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(scale));
		_mm256_storeu_ps(y + i, _mm256_mul_ps(v, _mm256_loadu_ps(w + i)));
	}
	for (; i < n; i++)
		y[i] = (x[i] * scale) * w[i];
}

void avx2_rope(float *x, uint32_t heads, uint32_t head_dim, uint32_t rope_dim, const float *rope)
{
	uint32_t h, i;

	for (h = 0; h < heads; h++, x += head_dim) {
		for (i = 0; i + 8 <= rope_dim; i += 8) {
			__m256 v = _mm256_loadu_ps(x + i), r = _mm256_loadu_ps(rope + i);
			__m256 p = _mm256_mul_ps(_mm256_movehdup_ps(v), _mm256_permute_ps(r, 0xb1));

			/* even lanes x0 * c - x1 * s, odd ones x0 * s + x1 * c */
			_mm256_storeu_ps(x + i, _mm256_fmaddsub_ps(_mm256_moveldup_ps(v), r, p));
		}
		for (; i < rope_dim; i += 2) {
			float x0 = x[i], x1 = x[i + 1], c = rope[i], s = rope[i + 1];

			x[i] = fmaf(x0, c, -(x1 * s));
			x[i + 1] = fmaf(x0, s, x1 * c);
		}
	}
}

static void avx2_swiglu(float *y, const float *g, const float *u, uint32_t n)
{
	const __m256 sign = _mm256_set1_ps(-0.0f), one = _mm256_set1_ps(1.0f);
	uint32_t i;

	for (i = 0; i + 8 <= n; i += 8) {
		__m256 v = _mm256_loadu_ps(g + i);

		v = _mm256_div_ps(v, _mm256_add_ps(one, exp8(_mm256_xor_ps(v, sign))));
		_mm256_storeu_ps(y + i, _mm256_mul_ps(v, _mm256_loadu_ps(u + i)));
	}
	for (; i < n; i++)
		y[i] = g[i] / (1.0f + exp_one(-g[i])) * u[i];
}

static void avx2_geglu(float *y, const float *g, const float *u, uint32_t n)
{
	const __m256 one = _mm256_set1_ps(1.0f);
	uint32_t i;

	for (i = 0; i + 8 <= n; i += 8) {
		__m256 v = _mm256_loadu_ps(g + i), z = _mm256_mul_ps(v, _mm256_mul_ps(v, v));

		z = _mm256_fmadd_ps(z, _mm256_set1_ps(0x1.6e4e26p-5f), v);
		z = exp8(_mm256_mul_ps(z, _mm256_set1_ps(-0x1.988454p+0f)));
		v = _mm256_div_ps(v, _mm256_add_ps(one, z));
		_mm256_storeu_ps(y + i, _mm256_mul_ps(v, _mm256_loadu_ps(u + i)));
	}
	for (; i < n; i++)
		y[i] = gelu_one(g[i]) * u[i];
}

static void avx2_softcap(float *x, uint32_t n, float cap)
{
	const __m256 c = _mm256_set1_ps(cap);
	uint32_t i;

	for (i = 0; i + 8 <= n; i += 8)
		_mm256_storeu_ps(x + i, _mm256_mul_ps(tanh8(_mm256_div_ps(_mm256_loadu_ps(x + i), c)), c));
	for (; i < n; i++)
		x[i] = tanh_one(x[i] / cap) * cap;
}

static void avx2_add(float *x, const float *y, uint32_t n)
{
	uint32_t i;

	for (i = 0; i + 8 <= n; i += 8)
		_mm256_storeu_ps(x + i, _mm256_add_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
	for (; i < n; i++)
		x[i] += y[i];
}

static void avx2_exp(float *x, uint32_t n)
{
	uint32_t i;

	for (i = 0; i + 8 <= n; i += 8)
		_mm256_storeu_ps(x + i, exp8(_mm256_loadu_ps(x + i)));
	for (; i < n; i++)
		x[i] = exp_one(x[i]);
}

static float avx2_max(const float *x, uint32_t n, bool *finite)
{
	const __m256i mag = _mm256_set1_epi32(0x7fffffff), big = _mm256_set1_epi32(0x7f7fffff);
	__m256i bad = _mm256_setzero_si256();
	__m256 m = _mm256_set1_ps(-INFINITY);
	float top;
	uint32_t i;

	for (i = 0; i + 8 <= n; i += 8) {
		__m256 v = _mm256_loadu_ps(x + i);

		m = _mm256_max_ps(v, m); /* NaN: the second */
		bad = _mm256_or_si256(bad, _mm256_cmpgt_epi32(_mm256_and_si256(_mm256_castps_si256(v), mag), big));
	}
	top = max8(m);
	*finite = _mm256_testz_si256(bad, bad);
	for (; i < n; i++) {
		if (!isfinite(x[i]))
			*finite = false;
		if (x[i] > top)
			top = x[i];
	}
	return top + 0.0f;
}

static float avx2_expsum(const float *x, uint32_t n, float sub)
{
	__m256 acc = _mm256_setzero_ps(), s = _mm256_set1_ps(sub), p;
	uint32_t i;

	for (i = 0; i + 8 <= n; i += 8)
		acc = _mm256_add_ps(acc, exp8(_mm256_sub_ps(_mm256_loadu_ps(x + i), s)));
	if (i < n) {
		p = exp8(_mm256_sub_ps(load_tail(x + i, n - i), s));
		acc = _mm256_add_ps(acc, _mm256_and_ps(p, _mm256_castsi256_ps(lanes_below(n - i))));
	}
	return tree8(acc);
}

#define COMMON                         \
	.quantise = avx2_quantise,     \
	.rmsnorm = avx2_rmsnorm,       \
	.rope = avx2_rope,             \
	.append = avx2_append,         \
	.swiglu = avx2_swiglu,         \
	.geglu = avx2_geglu,           \
	.softcap = avx2_softcap,       \
	.add = avx2_add,               \
	.exp = avx2_exp,               \
	.max = avx2_max,               \
	.expsum = avx2_expsum

const struct kern_ops kern_ops_avx2 = { .name = "avx2", .product = avx2_product, .attention = avx2_attention, COMMON };
const struct kern_ops kern_ops_avxvnni = {
	.name = "avxvnni", .product = avx2_vnni_product, .attention = avx2_attention, COMMON
};
const struct kern_ops kern_ops_avx512 = {
	.name = "avx512", .product = avx512_product, .attention = avx512_attention, COMMON
};
