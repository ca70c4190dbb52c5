// SPDX-License-Identifier: GPL-2.0
/* The module comes and goes. */
#include <linux/module.h>

#include "kmod.h"
#include "policy.h"

static unsigned int extents;
module_param(extents, uint, 0444);
MODULE_PARM_DESC(extents, "2 MiB extents in the host's arena; 0: three quarters of the memory");

static int __init kvslab_init(void)
{
	u64 n = extents ?: totalram_pages() / KVSLAB_FRAMES * 3 / 4;
	int r;

	if (!n || n > KVC_EXTENTS_MAX) {
		pr_err("kvslab: extents=%llu: from 1 to %u are possible\n", n, KVC_EXTENTS_MAX);
		return -EINVAL;
	}
	r = kvslab_host_init(n);
	if (r)
		return r;
	r = kvslab_reclaim_init();
	if (r)
		goto free_host;
	r = kvslab_nodes_init();
	if (r)
		goto free_reclaim;
	r = kvslab_control_init();
	if (r)
		goto free_nodes;
	kvslab_debug_init();
	kvslab_policy_init();
	return 0;

free_nodes:
	kvslab_nodes_exit();
free_reclaim:
	kvslab_reclaim_exit();
free_host:
	kvslab_host_exit();
	return r;
}

/* Nobody has a file, so pools are all that is left. */
static void __exit kvslab_exit(void)
{
	struct kvslab_pool *pool;
	char name[KVSLAB_NAME_SIZE];

	kvslab_debug_exit();
	kvslab_control_exit();
	while ((pool = list_first_entry_or_null(&kvslab_pool_list, struct kvslab_pool, node))) {
		strscpy(name, pool->name, sizeof(name));
		kvslab_pool_destroy(name, KVSLAB_DESTROY_FORCE);
	}
	kvslab_nodes_exit();
	kvslab_reclaim_exit();
	kvslab_host_exit();
	/* Pools are freed after a grace period, by a function of the kernel's. */
}

module_init(kvslab_init);
module_exit(kvslab_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Pools of pages for the KV caches of inference");
