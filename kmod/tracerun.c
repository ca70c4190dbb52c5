// SPDX-License-Identifier: GPL-2.0
/* Tracepoints of many pages at once: a batch's handles gathered into masks. */
#include "core_hooks.h"

#define WINDOW 34 /* bits of a handle below: generation, and index modulo 64 */

/* As many of pages[*k .. n) as follow each other in one window; moves *k behind them. */
static u64 window(const u64 *pages, u32 n, u32 *k)
{
	u64 same = pages[*k] >> WINDOW, mask = 0, bit;

	do {
		bit = 1ull << (pages[*k] >> (WINDOW - 6) & 63);
		if (mask & bit)
			break;
		mask |= bit;
	} while (++*k < n && pages[*k] >> WINDOW == same);
	return mask;
}

void kvslab_hook_pages_alloc(u32 pool, u32 client, u32 cache, u32 size, const u64 *pages, u32 n)
{
	u32 k = 0, from;
	u64 mask;

	while (k < n) {
		from = k;
		mask = window(pages, n, &k);
		trace_kvslab_pages_alloc(pool, client, cache, size, pages[from] >> WINDOW << WINDOW,
					 mask, k - from);
	}
}

void kvslab_hook_pages_free(u32 pool, u32 client, u32 cache, u32 size, const u64 *pages, u32 n,
			    u32 left)
{
	u32 k = 0, from;
	u64 mask;

	while (k < n) {
		from = k;
		mask = window(pages, n, &k);
		trace_kvslab_pages_free(pool, client, cache, size, pages[from] >> WINDOW << WINDOW,
					mask, k - from, left);
	}
}
