// SPDX-License-Identifier: GPL-2.0
/*
 * Who holds which page, since when, and from where in its program: private pages from ALLOC on,
 * references to sealed ones from SEAL, LOOKUP or GET on, until their holder gives them back.
 */
#include "kvslab.bpf.h"

/* By window (maps.h). A window goes with its slab. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct kvb_privates);
} privates SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 20);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct kvb_reference);
	__type(value, struct kvb_held);
} references SEC(".maps");

/* Those that ended with something stay, as nothing says that it was the last; the oldest make room. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct kvb_client);
	__type(value, struct kvb_client_info);
} clients SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 16384);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, KVB_FRAMES * sizeof(__u64));
} stacks SEC(".maps");

static const struct kvb_privates none;

static __always_inline struct kvb_client_info *client_of(u32 pool, u32 client)
{
	struct kvb_client key = { pool, client };
	struct kvb_client_info *known = bpf_map_lookup_elem(&clients, &key);
	struct kvb_client_info c = { 0 };

	if (known)
		return known;
	c.pid = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(c.comm, sizeof(c.comm));
	if (bpf_map_update_elem(&clients, &key, &c, BPF_NOEXIST))
		lose(KVB_LOST_FULL, 1);
	return bpf_map_lookup_elem(&clients, &key);
}

/* Two stacks may want one place in the map: the second time without the innermost frame. */
static __always_inline s32 stack_of(void *ctx)
{
	s64 id = bpf_get_stackid(ctx, &stacks, BPF_F_USER_STACK);

	if (id < 0)
		id = bpf_get_stackid(ctx, &stacks, BPF_F_USER_STACK | 1);
	if (id < 0)
		lose(KVB_LOST_STACKS, 1);
	return id;
}

SEC("raw_tp/kvslab_pages_alloc")
int BPF_PROG(leaks_alloc, u32 pool, u32 client, u32 cache, u32 size, u64 first, u64 mask)
{
	u32 window = first >> 34, pid = bpf_get_current_pid_tgid() >> 32, i;
	struct kvb_privates *w = get_or_make(&privates, &window, &none);
	u64 now = bpf_ktime_get_ns();
	s32 stack;

	client_of(pool, client);
	if (!w)
		return 0;
	stack = stack_of(ctx);
	w->pool = pool;
	w->cache = cache;
	w->page_size = size;
	for (i = 0; i < KVB_WINDOW && mask; i++, mask >>= 1) {
		if (!(mask & 1))
			continue;
		w->page[i].client = client;
		w->page[i].pid = pid;
		w->page[i].stack = stack;
		w->page[i].since = now;
	}
	return 0;
}

static __always_inline void refer(void *ctx, const struct kvb_reference *key, u32 cache, u32 size,
				  enum kvb_taken taken)
{
	struct kvb_held *known = bpf_map_lookup_elem(&references, key), h = { 0 };

	client_of(key->pool, key->client);
	if (known) {
		add(&known->count, 1);
		return;
	}
	h.since = bpf_ktime_get_ns();
	h.pid = bpf_get_current_pid_tgid() >> 32;
	h.stack = stack_of(ctx);
	h.cache = cache;
	h.page_size = size;
	h.count = 1;
	h.taken = taken;
	if (bpf_map_update_elem(&references, key, &h, BPF_NOEXIST)) {
		/* Another thread of the client was first, or there is no room. */
		known = bpf_map_lookup_elem(&references, key);
		if (known)
			add(&known->count, 1);
		else
			lose(KVB_LOST_FULL, 1);
	}
}

SEC("raw_tp/kvslab_page_seal")
int BPF_PROG(leaks_seal, u32 pool, u32 client, u32 cache, u32 size, u64 page, u64 sealed)
{
	struct kvb_reference key = { sealed >> 28, pool, client };
	u32 window = page >> 34, i = page >> 28 & (KVB_WINDOW - 1);
	struct kvb_privates *w;

	if (page == sealed) {
		w = bpf_map_lookup_elem(&privates, &window);
		if (w && w->page[i].since)
			w->page[i].since = 0;
		else
			lose(KVB_LOST_UNKNOWN, 1);
	}
	refer(ctx, &key, cache, size, KVB_BY_SEAL);
	return 0;
}

SEC("raw_tp/kvslab_page_ref")
int BPF_PROG(leaks_ref, u32 pool, u32 client, u32 cache, u32 size, u64 page, u32 why)
{
	struct kvb_reference key = { page >> 28, pool, client };

	refer(ctx, &key, cache, size, why ? KVB_BY_GET : KVB_BY_LOOKUP);
	return 0;
}

static __always_inline void release(u32 pool, u32 client, u64 page)
{
	struct kvb_reference key = { page >> 28, pool, client };
	struct kvb_held *h = bpf_map_lookup_elem(&references, &key);
	struct kvb_client_info *c = client_of(pool, client);

	if (!h) {
		lose(KVB_LOST_UNKNOWN, 1);
		return;
	}
	/* At its client's end all its references go at once. */
	if ((c && c->ending) || h->count <= 1)
		bpf_map_delete_elem(&references, &key);
	else
		add(&h->count, -1);
}

SEC("raw_tp/kvslab_pages_free")
int BPF_PROG(leaks_free, u32 pool, u32 client, u32 cache, u32 size, u64 first, u64 mask, u32 n,
	     u32 left)
{
	struct kvb_privates *w;
	u32 window = first >> 34, i;

	if (left == 1) {
		/* They come one by one. */
		i = mask >> 32 ? 32 : 0;
		i += mask >> (i + 16) ? 16 : 0;
		i += mask >> (i + 8) ? 8 : 0;
		i += mask >> (i + 4) ? 4 : 0;
		i += mask >> (i + 2) ? 2 : 0;
		i += mask >> (i + 1) ? 1 : 0;
		release(pool, client, first + ((u64)i << 28));
		return 0;
	}
	w = bpf_map_lookup_elem(&privates, &window);
	if (!w) {
		lose(KVB_LOST_UNKNOWN, n);
		return 0;
	}
	for (i = 0; i < KVB_WINDOW && mask; i++, mask >>= 1) {
		if (!(mask & 1))
			continue;
		if (!w->page[i].since)
			lose(KVB_LOST_UNKNOWN, 1);
		w->page[i].since = 0;
	}
	return 0;
}

SEC("raw_tp/kvslab_client")
int BPF_PROG(leaks_client, u32 pool, u32 client, u32 begins, u64 private, u64 refs)
{
	struct kvb_client key = { pool, client };
	struct kvb_client_info *c;

	if (!begins && !private && !refs) {
		bpf_map_delete_elem(&clients, &key);
		return 0;
	}
	c = client_of(pool, client);
	if (c)
		c->ending = !begins;
	return 0;
}

SEC("raw_tp/kvslab_slab_free")
int BPF_PROG(leaks_slab_free, u32 pool, u32 cache, u32 size, u32 extent)
{
	u32 i, window;

	/* Up to 512 pages. */
	for (i = 0; i < 8; i++) {
		window = extent << 4 | i;
		if (i * KVB_WINDOW * size < 2u << 20)
			bpf_map_delete_elem(&privates, &window);
	}
	return 0;
}
