/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The policy that gives sealed pages their priority classes: one for all pools, a BPF program's
 * struct kvslab_policy, or none.
 */
#ifndef _KVSLAB_POLICY_H
#define _KVSLAB_POLICY_H

#include <linux/rcupdate.h>
#include <linux/types.h>

/*
 * Either function may be missing: the class stays then. Both run under locks of the pool and may not
 * sleep. What they return above the highest class counts as that one; a class decides only which cached
 * page goes first.
 *
 * @sealed: a page enters the index of a pool. class: what SEAL said
 * @found: LOOKUP found it for the hits'th time. class: what it has
 *
 * tag: the first eight bytes of its hash. depth: pages before it in its chain
 */
struct kvslab_policy {
	u32 (*sealed)(u32 pool, u32 cache, u64 tag, u32 depth, u32 class);
	u32 (*found)(u32 pool, u32 cache, u64 tag, u32 depth, u32 hits, u32 class);
	char name[16];
};

#if defined(KVSLAB_HAVE_STRUCT_OPS) && defined(CONFIG_BPF_JIT) && defined(CONFIG_BPF_SYSCALL)
#define KVSLAB_POLICIES

extern struct kvslab_policy __rcu *kvslab_policy;

u32 kvslab_policy_sealed(u32 pool, u32 cache, u64 tag, u32 depth, u32 class);
u32 kvslab_policy_found(u32 pool, u32 cache, u64 tag, u32 depth, u32 hits, u32 class);

/* Not a static branch: one load a page is nothing beside a SEAL, and a policy that comes or goes patches no code. */
#define kvc_hook_class_sealed(pool, cache, tag, depth, class)         \
	(unlikely(rcu_access_pointer(kvslab_policy)) ?                \
		 kvslab_policy_sealed(pool, cache, tag, depth, class) : \
		 (u32)(class))
#define kvc_hook_class_hit(pool, cache, tag, depth, hits, class)           \
	(unlikely(rcu_access_pointer(kvslab_policy)) ?                     \
		 kvslab_policy_found(pool, cache, tag, depth, hits, class) : \
		 (u32)(class))
#endif

void kvslab_policy_init(void);

#endif
