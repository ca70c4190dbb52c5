// SPDX-License-Identifier: GPL-2.0
/* How long pages live, by the state in which they end. */
#include "hist.bpf.h"

COUNTS(page_lifetime_seconds, struct kvb_end, 65536);

/* By window (maps.h). A window goes with its slab. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, struct kvb_born);
} born SEC(".maps");

static const struct kvb_born none;

SEC("raw_tp/kvslab_pages_alloc")
int BPF_PROG(lifetime_alloc, u32 pool, u32 client, u32 cache, u32 size, u64 first, u64 mask)
{
	u64 now = bpf_ktime_get_ns();
	u32 window = first >> 34, i;
	struct kvb_born *b = get_or_make(&born, &window, &none);

	if (!b)
		return 0;
	for (i = 0; i < KVB_WINDOW && mask; i++, mask >>= 1)
		if (mask & 1)
			b->at[i] = now;
	return 0;
}

struct together {
	volatile u64 pages; /* a mask; volatile: else the verifier follows each that can be */
	u64 since;
};

/*
 * Takes those of @mask that are as old as the lowest one. A function of its own, and its result in
 * memory: the verifier then looks at it once, and does not follow each mask that can be.
 */
__noinline int take_together(struct kvb_born *b, u64 mask, struct together *t)
{
	u32 i;

	if (!b || !t)
		return 0;
	t->pages = 0;
	for (i = 0; i < KVB_WINDOW && mask >> i; i++) {
		if (!(mask >> i & 1))
			continue;
		if (!t->pages)
			t->since = b->at[i];
		if (b->at[i] != t->since)
			continue;
		b->at[i] = 0;
		t->pages |= 1ull << i;
	}
	return 0;
}

/* Pages of one batch often are of one age: they are counted together. */
SEC("raw_tp/kvslab_pages_free")
int BPF_PROG(lifetime_free, u32 pool, u32 client, u32 cache, u32 size, u64 first, u64 mask, u32 n,
	     u32 left)
{
	struct kvb_end key = { pool, cache, left ? KVB_ENDED_DUPLICATE : KVB_PRIVATE };
	u64 now = bpf_ktime_get_ns(), us;
	struct together t = { 0 };
	u32 window = first >> 34, i;
	struct kvb_born *b;

	if (left == 1)
		return 0;
	b = bpf_map_lookup_elem(&born, &window);
	if (!b) {
		lose(KVB_LOST_UNKNOWN, n);
		return 0;
	}
	for (i = 0; i < KVB_WINDOW && mask; i++) {
		take_together(b, mask, &t);
		mask &= ~t.pages;
		us = (now - t.since) / 1000;
		n = bits_in(t.pages);
		if (t.since)
			hist_add(&page_lifetime_seconds, &key, &key.slot, us, us * n, n);
		else
			lose(KVB_LOST_UNKNOWN, n);
	}
	return 0;
}

SEC("raw_tp/kvslab_evict")
int BPF_PROG(lifetime_evict, u32 pool, u32 cache, u32 size, u64 page, u32 why)
{
	struct kvb_end key = { pool, cache,
			       why < 2	  ? KVB_ENDED_EVICTED
			       : why == 2 ? KVB_RECLAIMED
					  : KVB_WITH_POOL };
	u32 window = page >> 34, i = page >> 28 & (KVB_WINDOW - 1);
	struct kvb_born *b = bpf_map_lookup_elem(&born, &window);
	u64 us;

	if (!b || !b->at[i]) {
		lose(KVB_LOST_UNKNOWN, 1);
		return 0;
	}
	us = (bpf_ktime_get_ns() - b->at[i]) / 1000;
	hist_add(&page_lifetime_seconds, &key, &key.slot, us, us, 1);
	b->at[i] = 0;
	return 0;
}

SEC("raw_tp/kvslab_slab_free")
int BPF_PROG(lifetime_slab_free, u32 pool, u32 cache, u32 size, u32 extent)
{
	u32 i, window;

	/* Up to 512 pages. */
	for (i = 0; i < 8; i++) {
		window = extent << 4 | i;
		if (i * KVB_WINDOW * size < 2u << 20)
			bpf_map_delete_elem(&born, &window);
	}
	return 0;
}
