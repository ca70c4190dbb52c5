// SPDX-License-Identifier: GPL-2.0
/* Pages and slabs that come and go, by pool and cache: what occupancy and fragmentation are made
 * of. */
#include "kvslab.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct kvb_cache);
	__type(value, struct kvb_frag);
} caches SEC(".maps");

static const struct kvb_frag none;

static __always_inline struct kvb_frag *cache_of(u32 pool, u32 cache, u32 size)
{
	struct kvb_cache key = { pool, cache };
	struct kvb_frag *f = get_or_make(&caches, &key, &none);

	if (f && size)
		f->page_size = size;
	return f;
}

SEC("raw_tp/kvslab_page_alloc")
int BPF_PROG(frag_alloc, u32 pool, u32 client, u32 cache, u32 size)
{
	struct kvb_frag *f = cache_of(pool, cache, size);

	if (f)
		add(&f->allocs, 1);
	return 0;
}

SEC("raw_tp/kvslab_page_free")
int BPF_PROG(frag_free, u32 pool, u32 client, u32 cache, u32 size, u64 page, u32 left)
{
	struct kvb_frag *f = cache_of(pool, cache, size);

	if (!f)
		return 0;
	if (left == 0)
		add(&f->frees, 1);
	else if (left == 1)
		add(&f->releases, 1);
	else
		add(&f->duplicates, 1);
	return 0;
}

SEC("raw_tp/kvslab_page_seal")
int BPF_PROG(frag_seal, u32 pool, u32 client, u32 cache, u32 size, u64 page, u64 sealed)
{
	struct kvb_frag *f = cache_of(pool, cache, size);

	if (f && page == sealed)
		add(&f->seals, 1);
	return 0;
}

SEC("raw_tp/kvslab_evict")
int BPF_PROG(frag_evict, u32 pool, u32 cache, u32 size)
{
	struct kvb_frag *f = cache_of(pool, cache, size);

	if (f)
		add(&f->evictions, 1);
	return 0;
}

SEC("raw_tp/kvslab_slab_new")
int BPF_PROG(frag_slab_new, u32 pool, u32 client, u32 cache, u32 size)
{
	struct kvb_frag *f = cache_of(pool, cache, size);

	if (f)
		add(&f->slabs_new, 1);
	return 0;
}

SEC("raw_tp/kvslab_slab_free")
int BPF_PROG(frag_slab_free, u32 pool, u32 cache, u32 size, u32 extent, u32 cached, u32 quarantined)
{
	struct kvb_frag *f = cache_of(pool, cache, size);

	if (f) {
		add(&f->slabs_freed, 1);
		add(&f->quarantined, quarantined);
	}
	return 0;
}

SEC("raw_tp/kvslab_slab_take")
int BPF_PROG(frag_slab_take, u32 pool, u32 from, u32 to, u32 cache, u32 size)
{
	struct kvb_frag *f = cache_of(pool, cache, size);

	if (f)
		add(&f->slabs_taken, 1);
	return 0;
}

SEC("raw_tp/kvslab_quota")
int BPF_PROG(frag_quota, u32 pool, u32 client, u32 cache)
{
	struct kvb_frag *f = cache_of(pool, cache, 0);

	if (f)
		add(&f->refused, 1);
	return 0;
}
