/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the programs share. They are raw_tp on the module's tracepoints, so they run whatever else
 * runs on the CPU, and read only the scalars of the tracepoint: no BTF of kernel or module is
 * needed to load them.
 */
#ifndef KVSLAB_BPF_H
#define KVSLAB_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "maps.h"

char LICENSE[] SEC("license") = "GPL";

typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct kvb_lost);
} lost SEC(".maps");

#define add(p, n) __sync_fetch_and_add(p, n)

#define lose(what)                                                           \
	do {                                                                 \
		u32 zero_ = 0;                                               \
		struct kvb_lost *lost_ = bpf_map_lookup_elem(&lost, &zero_); \
                                                                             \
		if (lost_)                                                   \
			add(&lost_->what, 1);                                \
	} while (0)

/* The value of @key, made from @zero if there is none; NULL, and lost, if there is no room. */
static __always_inline void *get_or_make(void *map, const void *key, const void *zero)
{
	void *v = bpf_map_lookup_elem(map, key);

	if (v)
		return v;
	bpf_map_update_elem(map, key, zero, BPF_NOEXIST);
	v = bpf_map_lookup_elem(map, key);
	if (!v)
		lose(full);
	return v;
}

static __always_inline u32 slot_of(u64 v)
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
	if (v >> 1)
		slot += 1;
	return slot < KVB_SLOTS ? slot : KVB_SLOTS - 1;
}

static __always_inline void hist_add(struct kvb_hist *h, u64 v)
{
	u32 slot = slot_of(v);

	add(&h->count, 1);
	add(&h->sum, v);
	if (slot < KVB_SLOTS)
		add(&h->slots[slot], 1);
}

#endif
