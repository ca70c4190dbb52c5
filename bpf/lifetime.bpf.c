// SPDX-License-Identifier: GPL-2.0
/* How long pages live, by the state in which they end. A page's handle has its generation, so that
 * its next life is another key. */
#include "kvslab.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct kvb_end);
	__type(value, struct kvb_hist);
} ends SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 20);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, __u64);
} born SEC(".maps");

static const struct kvb_hist none;

static __always_inline int end(u32 pool, u32 cache, u64 page, u32 ended)
{
	struct kvb_end key = { pool, cache, ended };
	u64 *began = bpf_map_lookup_elem(&born, &page);
	struct kvb_hist *h;

	if (!began) {
		lose(unknown);
		return 0;
	}
	h = get_or_make(&ends, &key, &none);
	if (h)
		hist_add(h, (bpf_ktime_get_ns() - *began) / 1000);
	bpf_map_delete_elem(&born, &page);
	return 0;
}

SEC("raw_tp/kvslab_page_alloc")
int BPF_PROG(lifetime_alloc, u32 pool, u32 client, u32 cache, u32 size, u64 page)
{
	u64 now = bpf_ktime_get_ns();

	if (bpf_map_update_elem(&born, &page, &now, BPF_ANY))
		lose(full);
	return 0;
}

SEC("raw_tp/kvslab_page_free")
int BPF_PROG(lifetime_free, u32 pool, u32 client, u32 cache, u32 size, u64 page, u32 left)
{
	if (left == 1)
		return 0;
	return end(pool, cache, page, left == 0 ? KVB_PRIVATE : KVB_DUPLICATE);
}

SEC("raw_tp/kvslab_evict")
int BPF_PROG(lifetime_evict, u32 pool, u32 cache, u32 size, u64 page, u32 why)
{
	return end(pool, cache, page,
		   why < 2    ? KVB_EVICTED
		   : why == 2 ? KVB_RECLAIMED
			      : KVB_WITH_POOL);
}
