// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Products with quantised weights for AVX-512 with VNNI, types of 256 columns a block. */
#define TYPES(X) X(KERN_Q4_K) X(KERN_Q5_K) X(KERN_Q6_K)

#include "avx512_products.h"

void avx512_product_k(const struct kern_weight *w, uint32_t r0, uint32_t r1, const struct kern_act *x, uint32_t n,
			 float *y, size_t ldy)
{
	product_any(w, r0, r1, x, n, y, ldy);
}
