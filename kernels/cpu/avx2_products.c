// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Products with quantised weights for AVX2. */
#include "avx2.h"

/* Eight chains of one cycle fill the units; more would spill. */
#define GROUP 4

INLINE __m256i mac(__m256i acc, __m256i w, __m256i v)
{
	acc = _mm256_add_epi32(acc, _mm256_madd_epi16(w, v));
	/* Integer sums may be reordered, and gcc makes a tree of a whole block's products, in memory. */
	__asm__("" : "+x"(acc));
	return acc;
}

#include "avx2_products.h"

void avx2_product_quantised(const struct kern_weight *w, uint32_t r0, uint32_t r1, const struct kern_act *x,
			    uint32_t n, float *y, size_t ldy)
{
	product_quantised(w, r0, r1, x, n, y, ldy);
}
