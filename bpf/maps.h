/* SPDX-License-Identifier: GPL-2.0 OR LGPL-2.1 OR BSD-2-Clause */
/*
 * What lies in the maps of the programs, for them and for who reads the maps. `bpftool map dump`
 * prints these names. Counts begin when a program is attached; pool, cache and client are ids as
 * the tracepoints say them (kmod/trace.h).
 *
 * Figures are flat: a key whose members are labels, and a __u64. A histogram is such a map whose last
 * label is the slot: slot i counts values of i bits, 2^(i-1) to 2^i - 1, slot 0 the value 0, the last
 * one also what is above it; at KVB_SUM lies the sum of all values. ebpf_exporter reads them so.
 */
#ifndef KVSLAB_BPF_MAPS_H
#define KVSLAB_BPF_MAPS_H

#include <linux/types.h>

/* Of these maps. Each object has a map "version" with as many elements: it can be asked of a pinned
 * map whatever else has changed. */
#define KVB_VERSION 2

#define KVB_SLOTS 41 /* 0 .. 40 bits */
#define KVB_SUM KVB_SLOTS
#define KVB_CLASSES 8
#define KVB_FRAMES 32 /* of a stack */
#define KVB_WINDOW 64 /* pages */

/* Map "lost_total", by this: what the figures beside it leave out. */
enum kvb_lost {
	KVB_LOST_FULL, /* a map had no room: an entry is missing */
	KVB_LOST_UNKNOWN, /* its beginning was before the program was attached */
	KVB_LOST_STACKS, /* stacks that could not be kept */
	KVB_LOSTS,
};

struct kvb_cache {
	__u32 pool;
	__u32 cache;
};

/* frag: map "pages_total". Pages, or slabs. */
enum kvb_what {
	KVB_ALLOCATED,
	KVB_FREED, /* private pages that became free */
	KVB_RELEASED, /* references given back; those of a client that ends: one a page */
	KVB_SEALED, /* that entered the index */
	KVB_DUPLICATE, /* seals that found their hash there */
	KVB_EVICTED,
	KVB_QUARANTINE_ENTERED,
	KVB_QUARANTINE_LEFT,
	KVB_QUARANTINE_WENT, /* with the slab */
	KVB_REFUSED, /* ALLOCs */
	KVB_SLABS_NEW,
	KVB_SLABS_FREED,
	KVB_SLABS_TAKEN,
	KVB_WHATS,
};

struct kvb_pages {
	__u32 pool;
	__u32 cache;
	enum kvb_what what;
};

/* frag: map "page_bytes", of caches that a slab was made in. */

/* latency: map "command_seconds", nanoseconds; map "command_errors_total", slot 0. */
struct kvb_command {
	__u32 pool; /* 0: the control node */
	__u32 command; /* _IOC_NR */
	__u32 slot;
};

/* lifetime: map "page_lifetime_seconds", microseconds from ALLOC. */
enum kvb_ended {
	KVB_PRIVATE, /* freed unsealed */
	KVB_ENDED_DUPLICATE, /* its seal found the hash there */
	KVB_ENDED_EVICTED, /* ALLOC took the page or its slab */
	KVB_RECLAIMED, /* the system took it */
	KVB_WITH_POOL, /* cached until the pool's end */
	KVB_ENDS,
};

struct kvb_end {
	__u32 pool;
	__u32 cache;
	enum kvb_ended ended;
	__u32 slot;
};

/*
 * Pages lie in windows of 64, as the tracepoints' masks do: of one slab, by a handle's bits from 34
 * on (arena, extent, index / 64). A page's next life begins with its next ALLOC, which takes the
 * place of what a lost event may have left there.
 */

/* lifetime: map "born". */
struct kvb_born {
	__u64 at[KVB_WINDOW]; /* ns, CLOCK_MONOTONIC; 0: not known */
};

/* leaks: map "privates". */
struct kvb_private {
	__u64 since; /* ns, CLOCK_MONOTONIC; 0: not held */
	__u32 client;
	__u32 pid;
	__s32 stack; /* in map "stacks"; negative: lost */
	__u32 reserved;
};

struct kvb_privates {
	__u32 pool;
	__u32 cache;
	__u32 page_size; /* bytes */
	__u32 reserved;
	struct kvb_private page[KVB_WINDOW];
};

/* leaks: map "references", of sealed pages. */
struct kvb_reference {
	__u64 page; /* a handle's bits from 28 on: arena, extent, index */
	__u32 pool;
	__u32 client;
};

enum kvb_taken {
	KVB_BY_SEAL,
	KVB_BY_LOOKUP,
	KVB_BY_GET,
};

struct kvb_held {
	__u64 since; /* ns; of the first of them */
	__u32 pid;
	__s32 stack;
	__u32 cache;
	__u32 page_size; /* bytes */
	__u32 count;
	enum kvb_taken taken; /* the first */
};

/* leaks: map "clients". */
struct kvb_client {
	__u32 pool;
	__u32 client;
};

struct kvb_client_info {
	__u32 pid; /* who opened it, or was seen first */
	__u32 ending; /* what it held goes, or has gone */
	char comm[16];
};

/* prefix: map "prefix_total". Lookups, or pages. */
enum kvb_prefix_what {
	KVB_WHOLE, /* lookups that found all, */
	KVB_PARTLY,
	KVB_NONE,
	KVB_REGRET, /* those of them that ended at a hash that had been evicted */
	KVB_ASKED,
	KVB_FOUND,
	KVB_SEALS,
	KVB_DUPLICATES,
	KVB_AGAIN, /* seals of a hash that had been evicted */
	KVB_PREFIX_WHATS,
};

struct kvb_prefix {
	__u32 pool;
	__u32 cache;
	enum kvb_prefix_what what;
};

/* prefix: map "lookup_found_pages", pages found by a lookup; map "evicted_age_calls", calls that
 * touched the index since the page was used last. */
struct kvb_hist {
	__u32 pool;
	__u32 cache;
	__u32 slot;
};

/* prefix: map "sealed_total". */
struct kvb_sealed {
	__u32 pool;
	__u32 cache;
	__u32 priority;
};

/* prefix: map "evicted_total". */
enum kvb_why {
	KVB_FOR_PAGE,
	KVB_FOR_SLAB,
	KVB_BY_SYSTEM,
	KVB_POOL_END,
	KVB_WHYS,
};

struct kvb_evicted {
	__u32 pool;
	__u32 cache;
	__u32 priority;
	enum kvb_why why;
};

/* prefix: map "gone", hashes that were evicted and not sealed since. */
struct kvb_tag {
	__u64 tag;
	__u32 pool;
	__u32 cache;
};

#endif
