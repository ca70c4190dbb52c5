/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a policy is made of: struct kvslab_policy as the module has it (kmod/policy.h says when its
 * functions are called), which libbpf finds in the module's BTF by its name.
 */
#ifndef POLICY_BPF_H
#define POLICY_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

typedef __u32 u32;
typedef __u64 u64;

struct kvslab_policy {
	u32 (*sealed)(u32 pool, u32 cache, u64 tag, u32 depth, u32 class);
	u32 (*found)(u32 pool, u32 cache, u64 tag, u32 depth, u32 hits, u32 class);
	char name[16];
};

#endif
