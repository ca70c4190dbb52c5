// SPDX-License-Identifier: GPL-2.0
/* A policy for tests that answers anything. */
#include "bpf/policy.bpf.h"

SEC("struct_ops/sealed")
u32 BPF_PROG(nonsense_sealed, u32 pool, u32 cache, u64 tag, u32 depth, u32 class)
{
	return bpf_get_prandom_u32();
}

SEC("struct_ops/found")
u32 BPF_PROG(nonsense_found, u32 pool, u32 cache, u64 tag, u32 depth, u32 hits, u32 class)
{
	return hits % 3 ? bpf_get_prandom_u32() : ~0u;
}

SEC(".struct_ops")
struct kvslab_policy nonsense = {
	.sealed = (void *)nonsense_sealed,
	.found = (void *)nonsense_found,
	.name = "nonsense",
};
