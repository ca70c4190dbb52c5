// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Products with quantised weights for AVX-512 with VNNI, types of 32 columns a block. */
#define TYPES(X) X(KERN_Q8_0) X(KERN_Q4_0) X(KERN_Q4_1) X(KERN_Q5_0) X(KERN_Q5_1) X(KERN_IQ4_NL)

#include "avx512_products.h"

void avx512_product_quantised(const struct kern_weight *w, uint32_t r0, uint32_t r1, const struct kern_act *x, uint32_t n,
				 float *y, size_t ldy)
{
	product_any(w, r0, r1, x, n, y, ldy);
}
