// SPDX-License-Identifier: GPL-2.0
/* A policy for tests that may sleep, which none may. */
#include "bpf/policy.bpf.h"

SEC("struct_ops.s/sealed")
u32 BPF_PROG(sleeps_sealed, u32 pool, u32 cache, u64 tag, u32 depth, u32 class)
{
	return class;
}

SEC(".struct_ops")
struct kvslab_policy sleeps = {
	.sealed = (void *)sleeps_sealed,
	.name = "sleeps",
};
