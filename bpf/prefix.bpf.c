// SPDX-License-Identifier: GPL-2.0
/* Hits and misses of LOOKUP, evictions by priority, regret: what was evicted and wanted again. */
#include "hist.bpf.h"

COUNTS(prefix_total, struct kvb_prefix, 16384);
COUNTS(lookup_found_pages, struct kvb_hist, 65536);
COUNTS(evicted_age_calls, struct kvb_hist, 65536);
COUNTS(sealed_total, struct kvb_sealed, 16384);
COUNTS(evicted_total, struct kvb_evicted, 65536);

/* Hashes that are gone. A full map loses new ones, and says so. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 20);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct kvb_tag);
	__type(value, __u64);
} gone SEC(".maps");

static __always_inline void happened(u32 pool, u32 cache, enum kvb_prefix_what what, u64 n)
{
	struct kvb_prefix key = { pool, cache, what };

	count(&prefix_total, &key, n);
}

SEC("raw_tp/kvslab_lookup")
int BPF_PROG(prefix_lookup, u32 pool, u32 client, u32 cache, u32 asked, u32 found, u64 tag)
{
	struct kvb_tag key = { tag, pool, cache };
	struct kvb_hist run = { pool, cache };

	happened(pool, cache, found >= asked ? KVB_WHOLE : found ? KVB_PARTLY : KVB_NONE, 1);
	happened(pool, cache, KVB_ASKED, asked);
	happened(pool, cache, KVB_FOUND, found);
	hist_add(&lookup_found_pages, &run, &run.slot, found, found, 1);
	if (found < asked && bpf_map_lookup_elem(&gone, &key))
		happened(pool, cache, KVB_REGRET, 1);
	return 0;
}

SEC("raw_tp/kvslab_page_seal")
int BPF_PROG(prefix_seal, u32 pool, u32 client, u32 cache, u32 size, u64 page, u64 sealed, u64 tag,
	     u32 depth, u32 priority)
{
	struct kvb_sealed by = { pool, cache, priority };
	struct kvb_tag key = { tag, pool, cache };

	if (page != sealed) {
		happened(pool, cache, KVB_DUPLICATES, 1);
		return 0;
	}
	happened(pool, cache, KVB_SEALS, 1);
	count(&sealed_total, &by, 1);
	if (!bpf_map_delete_elem(&gone, &key))
		happened(pool, cache, KVB_AGAIN, 1);
	return 0;
}

SEC("raw_tp/kvslab_evict")
int BPF_PROG(prefix_evict, u32 pool, u32 cache, u32 size, u64 page, u32 why, u64 tag, u32 depth,
	     u32 priority, u64 age)
{
	struct kvb_evicted by = { pool, cache, priority, why };
	struct kvb_tag key = { tag, pool, cache };
	struct kvb_hist old = { pool, cache };

	count(&evicted_total, &by, 1);
	hist_add(&evicted_age_calls, &old, &old.slot, age, age, 1);
	if (why != KVB_POOL_END && bpf_map_update_elem(&gone, &key, &age, BPF_ANY))
		lose(KVB_LOST_FULL, 1);
	return 0;
}
