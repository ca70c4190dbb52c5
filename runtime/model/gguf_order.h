/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* The order of names in the sorted views of struct gguf. */
#ifndef MODEL_GGUF_ORDER_H
#define MODEL_GGUF_ORDER_H

#include <string.h>
#include "gguf.h"

static inline int gguf_str_cmp(struct gguf_str a, struct gguf_str b)
{
	uint64_t n = a.n < b.n ? a.n : b.n;
	int c = n ? memcmp(a.s, b.s, n) : 0;

	return c ? c : (a.n > b.n) - (a.n < b.n);
}

#endif
