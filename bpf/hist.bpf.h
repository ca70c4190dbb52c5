/* SPDX-License-Identifier: GPL-2.0 */
/* Histograms (maps.h). */
#ifndef KVSLAB_BPF_HIST_H
#define KVSLAB_BPF_HIST_H

#include "kvslab.bpf.h"

static __always_inline u32 bits_in(u64 v)
{
	v -= v >> 1 & 0x5555555555555555;
	v = (v & 0x3333333333333333) + (v >> 2 & 0x3333333333333333);
	v = (v + (v >> 4)) & 0x0f0f0f0f0f0f0f0f;
	return v * 0x0101010101010101 >> 56;
}

/* How many bits it takes to write @v. A function of its own: the verifier looks at it once. */
__noinline u32 slot_of(u64 v)
{
	u32 slot = 0;

	if (v >> 32) {
		v >>= 32;
		slot += 32;
	}
	if (v >> 16) {
		v >>= 16;
		slot += 16;
	}
	if (v >> 8) {
		v >>= 8;
		slot += 8;
	}
	if (v >> 4) {
		v >>= 4;
		slot += 4;
	}
	if (v >> 2) {
		v >>= 2;
		slot += 2;
	}
	slot += v >> 1 ? 2 : v;
	return slot < KVB_SLOTS ? slot : KVB_SLOTS - 1;
}

/* @n values that sum up to @sum; @slot is in the key. */
static __always_inline void hist_add(void *map, void *key, u32 *slot, u64 v, u64 sum, u64 n)
{
	*slot = slot_of(v);
	count(map, key, n);
	*slot = KVB_SUM;
	count(map, key, sum);
}

#endif
