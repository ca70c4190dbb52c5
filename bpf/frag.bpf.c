// SPDX-License-Identifier: GPL-2.0
/* Pages and slabs that come and go, by pool and cache: what occupancy and fragmentation are made
 * of. */
#include "kvslab.bpf.h"

COUNTS(pages_total, struct kvb_pages, 16384);
COUNTS(page_bytes, struct kvb_cache, 4096);

static __always_inline int happened(u32 pool, u32 cache, enum kvb_what what, u64 n)
{
	struct kvb_pages key = { pool, cache, what };

	count(&pages_total, &key, n);
	return 0;
}

SEC("raw_tp/kvslab_pages_alloc")
int BPF_PROG(frag_alloc, u32 pool, u32 client, u32 cache, u32 size, u64 first, u64 mask, u32 n)
{
	return happened(pool, cache, KVB_ALLOCATED, n);
}

SEC("raw_tp/kvslab_pages_free")
int BPF_PROG(frag_free, u32 pool, u32 client, u32 cache, u32 size, u64 first, u64 mask, u32 n,
	     u32 left)
{
	return happened(pool, cache,
			left == 0   ? KVB_FREED
			: left == 1 ? KVB_RELEASED
				    : KVB_DUPLICATE,
			n);
}

SEC("raw_tp/kvslab_page_seal")
int BPF_PROG(frag_seal, u32 pool, u32 client, u32 cache, u32 size, u64 page, u64 sealed)
{
	return page == sealed ? happened(pool, cache, KVB_SEALED, 1) : 0;
}

SEC("raw_tp/kvslab_evict")
int BPF_PROG(frag_evict, u32 pool, u32 cache)
{
	return happened(pool, cache, KVB_EVICTED, 1);
}

SEC("raw_tp/kvslab_quarantine")
int BPF_PROG(frag_quarantine, u32 pool, u32 cache, u32 size, u64 page, u32 enters)
{
	return happened(pool, cache, enters ? KVB_QUARANTINE_ENTERED : KVB_QUARANTINE_LEFT, 1);
}

SEC("raw_tp/kvslab_slab_new")
int BPF_PROG(frag_slab_new, u32 pool, u32 client, u32 cache, u32 size)
{
	struct kvb_cache key = { pool, cache };
	u64 bytes = size;

	if (bpf_map_update_elem(&page_bytes, &key, &bytes, BPF_ANY))
		lose(KVB_LOST_FULL, 1);
	return happened(pool, cache, KVB_SLABS_NEW, 1);
}

SEC("raw_tp/kvslab_slab_free")
int BPF_PROG(frag_slab_free, u32 pool, u32 cache, u32 size, u32 extent, u32 cached, u32 quarantined)
{
	happened(pool, cache, KVB_SLABS_FREED, 1);
	return quarantined ? happened(pool, cache, KVB_QUARANTINE_WENT, quarantined) : 0;
}

SEC("raw_tp/kvslab_slab_take")
int BPF_PROG(frag_slab_take, u32 pool, u32 from, u32 to, u32 cache)
{
	return happened(pool, cache, KVB_SLABS_TAKEN, 1);
}

SEC("raw_tp/kvslab_quota")
int BPF_PROG(frag_quota, u32 pool, u32 client, u32 cache)
{
	return happened(pool, cache, KVB_REFUSED, 1);
}
