/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the programs share. They are raw_tp on the module's tracepoints, so they run whatever else
 * runs on the CPU, and read only the scalars of the tracepoint: no BTF of kernel or module is
 * needed to load them. Pages come in masks, since a program for each page costs more than the page.
 */
#ifndef KVSLAB_BPF_H
#define KVSLAB_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "maps.h"

char LICENSE[] SEC("license") = "GPL";

typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;

#define COUNTS(name, keys, n)                    \
	struct {                                 \
		__uint(type, BPF_MAP_TYPE_HASH); \
		__uint(max_entries, n);          \
		__type(key, keys);               \
		__type(value, __u64);            \
	} name SEC(".maps")

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, KVB_LOSTS);
	__type(key, __u32);
	__type(value, __u64);
} lost_total SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, KVB_VERSION);
	__type(key, __u32);
	__type(value, __u32);
} version SEC(".maps");

#define add(p, n) __sync_fetch_and_add(p, n)

static __always_inline void lose(u32 why, u64 n)
{
	u64 *v = bpf_map_lookup_elem(&lost_total, &why);

	if (v)
		add(v, n);
}

/* The value of @key, made from @zero if there is none; NULL, and lost, if there is no room. */
static __always_inline void *get_or_make(void *map, const void *key, const void *zero)
{
	void *v = bpf_map_lookup_elem(map, key);

	if (v)
		return v;
	bpf_map_update_elem(map, key, zero, BPF_NOEXIST);
	v = bpf_map_lookup_elem(map, key);
	if (!v)
		lose(KVB_LOST_FULL, 1);
	return v;
}

static __always_inline void count(void *map, const void *key, u64 n)
{
	u64 zero = 0, *v = get_or_make(map, key, &zero);

	if (v)
		add(v, n);
}

#endif
