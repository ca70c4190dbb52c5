// SPDX-License-Identifier: GPL-2.0
/*
 * Who holds which page, since when, and from where in its program. A page is held from its ALLOC,
 * or from a SEAL that found its hash there, until its holder frees it. References that LOOKUP and
 * GET add to it are not told page by page: LOOKUP's are counted by client, GET's nowhere.
 */
#include "kvslab.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 20);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct kvb_holding);
	__type(value, struct kvb_held);
} held SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct kvb_client);
	__type(value, struct kvb_client_held);
} clients SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 16384);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, KVB_FRAMES * sizeof(__u64));
} stacks SEC(".maps");

static const struct kvb_client_held none;

static __always_inline struct kvb_client_held *client_of(u32 pool, u32 client, int here)
{
	struct kvb_client key = { pool, client };
	struct kvb_client_held *c = get_or_make(&clients, &key, &none);

	if (c && here && !c->pid)
		c->pid = bpf_get_current_pid_tgid() >> 32;
	return c;
}

static __always_inline void hold(void *ctx, struct kvb_holding *key, u32 cache, u32 size, u32 refs)
{
	struct kvb_held h = { 0 };

	h.since = bpf_ktime_get_ns();
	h.pid = bpf_get_current_pid_tgid() >> 32;
	h.stack = bpf_get_stackid(ctx, &stacks, BPF_F_USER_STACK);
	h.cache = cache;
	h.page_size = size;
	h.refs = refs;
	bpf_get_current_comm(h.comm, sizeof(h.comm));
	if (h.stack < 0)
		lose(stacks);
	if (bpf_map_update_elem(&held, key, &h, BPF_ANY))
		lose(full);
}

SEC("raw_tp/kvslab_page_alloc")
int BPF_PROG(leaks_alloc, u32 pool, u32 client, u32 cache, u32 size, u64 page)
{
	struct kvb_holding key = { page, pool, client };
	struct kvb_client_held *c = client_of(pool, client, 1);

	if (c)
		add(&c->allocs, 1);
	hold(ctx, &key, cache, size, 0);
	return 0;
}

SEC("raw_tp/kvslab_page_seal")
int BPF_PROG(leaks_seal, u32 pool, u32 client, u32 cache, u32 size, u64 page, u64 sealed)
{
	struct kvb_holding key = { sealed, pool, client };
	struct kvb_client_held *c = client_of(pool, client, 1);
	struct kvb_held *h;

	if (c)
		add(&c->sealed, 1);
	h = bpf_map_lookup_elem(&held, &key);
	if (h)
		add(&h->refs, 1);
	else if (page == sealed)
		lose(unknown);
	else
		hold(ctx, &key, cache, size, 1);
	return 0;
}

SEC("raw_tp/kvslab_page_free")
int BPF_PROG(leaks_free, u32 pool, u32 client, u32 cache, u32 size, u64 page, u32 left)
{
	struct kvb_holding key = { page, pool, client };
	struct kvb_client_held *c = client_of(pool, client, 0);
	struct kvb_held *h;

	if (c) {
		if (left == 1)
			add(&c->released, 1);
		else if (left == 0)
			add(&c->frees, 1);
	}
	h = bpf_map_lookup_elem(&held, &key);
	if (!h) {
		if (left != 1) /* a reference may have come by LOOKUP or GET */
			lose(unknown);
		return 0;
	}
	/* At its client's end all its references go at once. */
	if (left == 1 && h->refs > 1 && !(c && c->ended))
		add(&h->refs, -1);
	else
		bpf_map_delete_elem(&held, &key);
	return 0;
}

SEC("raw_tp/kvslab_lookup")
int BPF_PROG(leaks_lookup, u32 pool, u32 client, u32 cache, u32 asked, u32 found)
{
	struct kvb_client_held *c = client_of(pool, client, 1);

	if (c)
		add(&c->found, found);
	return 0;
}

SEC("raw_tp/kvslab_client")
int BPF_PROG(leaks_client, u32 pool, u32 client, u32 begins, u64 privates, u64 references)
{
	struct kvb_client_held *c = client_of(pool, client, begins);

	if (c && !begins) {
		c->end_private = privates;
		c->end_references = references;
		c->ended = 1;
	}
	return 0;
}
