// SPDX-License-Identifier: GPL-2.0
/* Hits and misses of LOOKUP, evictions by priority, regret: what was evicted and wanted again. */
#include "kvslab.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct kvb_cache);
	__type(value, struct kvb_prefix);
} caches SEC(".maps");

/* Hashes that are gone. A full map loses new ones, and says so. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 20);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct kvb_tag);
	__type(value, __u64);
} gone SEC(".maps");

static const struct kvb_prefix none;

static __always_inline struct kvb_prefix *cache_of(u32 pool, u32 cache)
{
	struct kvb_cache key = { pool, cache };

	return get_or_make(&caches, &key, &none);
}

SEC("raw_tp/kvslab_lookup")
int BPF_PROG(prefix_lookup, u32 pool, u32 client, u32 cache, u32 asked, u32 found, u64 tag)
{
	struct kvb_tag key = { tag, pool, cache };
	struct kvb_prefix *p = cache_of(pool, cache);

	if (!p)
		return 0;
	add(&p->lookups, 1);
	add(&p->asked, asked);
	add(&p->found, found);
	if (found >= asked)
		add(&p->whole, 1);
	else if (found)
		add(&p->partly, 1);
	else
		add(&p->none, 1);
	hist_add(&p->run, found);
	if (found < asked && bpf_map_lookup_elem(&gone, &key))
		add(&p->regret, 1);
	return 0;
}

SEC("raw_tp/kvslab_page_seal")
int BPF_PROG(prefix_seal, u32 pool, u32 client, u32 cache, u32 size, u64 page, u64 sealed, u64 tag,
	     u32 depth, u32 priority)
{
	struct kvb_tag key = { tag, pool, cache };
	struct kvb_prefix *p = cache_of(pool, cache);

	if (!p)
		return 0;
	if (page != sealed) {
		add(&p->duplicates, 1);
		return 0;
	}
	add(&p->seals, 1);
	add(&p->sealed[priority & (KVB_CLASSES - 1)], 1);
	if (!bpf_map_delete_elem(&gone, &key))
		add(&p->again, 1);
	return 0;
}

SEC("raw_tp/kvslab_evict")
int BPF_PROG(prefix_evict, u32 pool, u32 cache, u32 size, u64 page, u32 why, u64 tag, u32 depth,
	     u32 priority, u64 age)
{
	struct kvb_tag key = { tag, pool, cache };
	struct kvb_prefix *p = cache_of(pool, cache);

	if (!p)
		return 0;
	/* Masks, which the verifier of 6.1 follows where it loses a comparison. */
	add(&p->evicted[priority & (KVB_CLASSES - 1)][why & (KVB_WHYS - 1)], 1);
	hist_add(&p->age, age);
	if (why < 3 && bpf_map_update_elem(&gone, &key, &age, BPF_ANY))
		lose(full);
	return 0;
}
