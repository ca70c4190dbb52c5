// SPDX-License-Identifier: GPL-2.0
/*
 * The smallest policy: what was used least recently goes first, whatever class its SEAL named. With no
 * policy at all the order is the same within each class.
 */
#include "policy.bpf.h"

SEC("struct_ops/sealed")
u32 BPF_PROG(lru_sealed, u32 pool, u32 cache, u64 tag, u32 depth, u32 class)
{
	return 0;
}

/* Pages that were sealed before the policy came. */
SEC("struct_ops/found")
u32 BPF_PROG(lru_found, u32 pool, u32 cache, u64 tag, u32 depth, u32 hits, u32 class)
{
	return 0;
}

SEC(".struct_ops")
struct kvslab_policy lru = {
	.sealed = (void *)lru_sealed,
	.found = (void *)lru_found,
	.name = "lru_bpf",
};
