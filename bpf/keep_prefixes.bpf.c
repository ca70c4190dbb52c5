// SPDX-License-Identifier: GPL-2.0
/* What many prompts begin with stays longer: keep_prefixes.h has the rule. A page begins in the class that its SEAL named. */
#include "keep_prefixes.h"
#include "policy.bpf.h"

SEC("struct_ops/found")
u32 BPF_PROG(keep_prefixes_found, u32 pool, u32 cache, u64 tag, u32 depth, u32 hits, u32 class)
{
	return keep_prefixes_class(depth, hits, class);
}

SEC(".struct_ops")
struct kvslab_policy keep_prefixes = {
	.found = (void *)keep_prefixes_found,
	.name = "keep_prefixes",
};
