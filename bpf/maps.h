/* SPDX-License-Identifier: GPL-2.0 OR LGPL-2.1 OR BSD-2-Clause */
/*
 * What lies in the maps of the programs, for them and for who reads the maps. `bpftool map dump`
 * prints these names. Counts begin when a program is attached; pool, cache and client are ids as
 * the tracepoints say them (kmod/trace.h).
 */
#ifndef KVSLAB_BPF_MAPS_H
#define KVSLAB_BPF_MAPS_H

#include <linux/types.h>

#define KVB_SLOTS 40
#define KVB_CLASSES 8
#define KVB_WHYS 4
#define KVB_FRAMES 32 /* of a stack */

/* Map "lost", one element: what the figures beside it leave out. */
struct kvb_lost {
	__u64 full; /* a map had no room: an entry is missing */
	__u64 unknown; /* pages whose beginning was before the program was attached */
	__u64 outside; /* page events outside an ioctl: io_uring commands, ends of clients */
	__u64 stacks; /* stacks that could not be kept */
};

struct kvb_cache {
	__u32 pool;
	__u32 cache;
};

/* Slot i: values from 2^i to 2^(i+1)-1, slot 0 also 0, the last one also what is above it. */
struct kvb_hist {
	__u64 count;
	__u64 sum;
	__u64 slots[KVB_SLOTS];
};

/* frag: map "caches", kvb_cache -> this. Pages, or slabs. */
struct kvb_frag {
	__u32 page_size; /* bytes */
	__u32 reserved;
	__u64 allocs;
	__u64 frees; /* private pages that became free */
	__u64 releases; /* references given back */
	__u64 seals; /* that entered the index */
	__u64 duplicates; /* seals that found their hash there */
	__u64 evictions;
	__u64 slabs_new;
	__u64 slabs_freed;
	__u64 slabs_taken;
	__u64 quarantined; /* pages that were in quarantine when their slab went */
	__u64 refused; /* ALLOCs */
};

/* latency: map "commands"; pool 0: a command that touched no page. Nanoseconds. */
struct kvb_command {
	__u32 pool;
	__u32 command; /* _IOC_NR */
};

struct kvb_latency {
	__u64 errors;
	struct kvb_hist ns;
};

struct kvb_running { /* by thread */
	__u64 began;
	__u32 pool;
	__u32 command;
};

/* lifetime: map "ends". Microseconds from ALLOC. */
enum kvb_ended {
	KVB_PRIVATE, /* freed unsealed */
	KVB_DUPLICATE, /* its seal found the hash there */
	KVB_EVICTED, /* ALLOC took the page or its slab */
	KVB_RECLAIMED, /* the system took it */
	KVB_WITH_POOL, /* cached until the pool's end */
	KVB_ENDS,
};

struct kvb_end {
	__u32 pool;
	__u32 cache;
	__u32 ended; /* enum kvb_ended */
};

/* leaks: map "held". */
struct kvb_holding {
	__u64 page;
	__u32 pool;
	__u32 client;
};

struct kvb_held {
	__u64 since; /* ns, CLOCK_MONOTONIC */
	__u32 pid;
	__s32 stack; /* in map "stacks"; negative: lost */
	__u32 cache;
	__u32 page_size; /* bytes */
	__u32 refs; /* 0: private */
	__u32 reserved;
	char comm[16];
};

/* leaks: map "clients". */
struct kvb_client {
	__u32 pool;
	__u32 client;
};

struct kvb_client_held {
	__u64 allocs;
	__u64 frees; /* of private pages, duplicates too */
	__u64 sealed; /* private pages that became references */
	__u64 found; /* references by LOOKUP */
	__u64 released; /* references */
	__u64 end_private; /* held when it ended */
	__u64 end_references;
	__u32 ended;
	__u32 pid; /* who allocated or looked up first */
};

/* prefix: map "caches". */
struct kvb_prefix {
	__u64 lookups;
	__u64 asked; /* hashes */
	__u64 found;
	__u64 whole; /* lookups that found all, */
	__u64 partly;
	__u64 none;
	__u64 seals; /* that entered the index */
	__u64 duplicates;
	__u64 regret; /* lookups that ended at a hash that had been evicted */
	__u64 again; /* seals of a hash that had been evicted */
	__u64 evicted[KVB_CLASSES][KVB_WHYS]; /* by priority and why, as kvslab_evict says it */
	__u64 sealed[KVB_CLASSES]; /* by priority */
	struct kvb_hist run; /* found, by lookup */
	struct kvb_hist age; /* of the evicted: calls that touched the index since the last use */
};

struct kvb_tag {
	__u64 tag;
	__u32 pool;
	__u32 cache;
};

#endif
