// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Products with quantised weights for AVX-VNNI (not AVX-512), which multiplies and adds in one instruction. */
#include "avx2.h"

/* Two a cycle, five cycles each: ten chains or more fill the units. */
#define GROUP 6

INLINE __m256i mac(__m256i acc, __m256i w, __m256i v)
{
	return _mm256_dpwssd_avx_epi32(acc, w, v);
}

#include "avx2_products.h"

void avx2_vnni_product_quantised(const struct kern_weight *w, uint32_t r0, uint32_t r1, const struct kern_act *x,
				 uint32_t n, float *y, size_t ldy)
{
	product_quantised(w, r0, r1, x, n, y, ldy);
}
