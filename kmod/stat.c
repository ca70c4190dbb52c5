// SPDX-License-Identifier: GPL-2.0
/* STAT and SLABS. */
#include <linux/pid.h>
#include <linux/uaccess.h>

#include "kmod.h"

static u32 stat_caches(struct kvslab_pool *pool, struct kvslab_stat_cache *out)
{
	struct kvc_cache_stat s;
	u32 i;

	for (i = 0; i < KVC_CACHES_MAX && !kvc_cache_stat(pool->core, i, &s); i++) {
		memset(&out[i], 0, sizeof(out[i]));
		out[i].id = i;
		out[i].page_size = s.page_size;
		out[i].pages_per_slab = s.pages;
		out[i].flags = s.pinned ? KVSLAB_CACHE_PINNED : 0;
		out[i].slabs = s.slabs;
		out[i].free = s.free;
		out[i].private_pages = s.private_pages;
		out[i].moving = s.moving;
		out[i].sealed = s.sealed;
		out[i].cached = s.cached;
		out[i].quarantined = s.quarantined;
	}
	return i;
}

/* kvslab_mutex held. As many as fit; how many there are. */
static u32 stat_clients(struct kvslab_pool *pool, struct kvslab_stat_client *out, u32 n)
{
	struct kvslab_client *client;
	struct kvc_client_stat s;
	u32 i = 0;

	list_for_each_entry(client, &pool->clients, node) {
		if (i >= n) {
			i++;
			continue;
		}
		kvc_client_stat(client->core, &s);
		memset(&out[i], 0, sizeof(out[i]));
		out[i].id = s.id;
		out[i].pid = pid_vnr(client->pid);
		memcpy(out[i].comm, client->comm, sizeof(out[i].comm));
		out[i].private_pages = s.private_pages;
		out[i].references = s.references;
		out[i].slabs = s.slabs;
		out[i].held_bytes = s.held_bytes;
		i++;
	}
	return i;
}

#define CLIENTS_MAX 4096 /* told in one STAT */

long kvslab_cmd_stat(struct file *file, void *args, void __user *user, u32 size, bool nowait)
{
	struct kvslab_pool *pool = ((struct kvslab_client *)file->private_data)->pool;
	struct kvslab_args_stat *a = args;
	struct kvslab_stat_cache *caches;
	struct kvslab_stat_client *clients;
	u32 fit[2], n[2];
	long r;

	if (READ_ONCE(pool->dead))
		return -ENODEV;
	if (a->flags || a->reserved)
		return -EINVAL;
	if (nowait)
		return -EAGAIN;
	fit[0] = a->caches ? min_t(u32, a->nr_caches, KVC_CACHES_MAX) : 0;
	fit[1] = a->clients ? min_t(u32, a->nr_clients, CLIENTS_MAX) : 0;
	caches = kmalloc_array(KVC_CACHES_MAX, sizeof(*caches), GFP_KERNEL);
	clients = kvmalloc_array(fit[1] ?: 1, sizeof(*clients), GFP_KERNEL);
	r = -ENOMEM;
	if (!caches || !clients)
		goto out;
	n[0] = stat_caches(pool, caches);
	mutex_lock(&kvslab_mutex);
	kvslab_pool_stat(pool, &a->pool);
	n[1] = stat_clients(pool, clients, fit[1]);
	mutex_unlock(&kvslab_mutex);
	r = -EFAULT;
	if (kvslab_copy_out(a->caches, caches, min(n[0], fit[0]) * sizeof(*caches)) ||
	    kvslab_copy_out(a->clients, clients, min(n[1], fit[1]) * sizeof(*clients)))
		goto out;
	a->nr_caches = n[0];
	a->nr_clients = n[1];
	r = copy_to_user(user, args, size) ? -EFAULT : 0;
out:
	kvfree(clients);
	kfree(caches);
	return r;
}

long kvslab_cmd_slabs(struct file *file, void *args, void __user *user, u32 size, bool nowait)
{
	struct kvslab_pool *pool = ((struct kvslab_client *)file->private_data)->pool;
	struct kvslab_args_slabs *a = args;
	struct kvslab_stat_slab *out;
	struct kvc_slab_stat *slabs;
	u32 i, n;
	long r = -ENOMEM;

	if (READ_ONCE(pool->dead))
		return -ENODEV;
	if (a->count - 1 >= KVSLAB_CMD_BATCH || a->flags || a->reserved)
		return -EINVAL;
	if (nowait)
		return -EAGAIN;
	slabs = kvmalloc_array(a->count, sizeof(*slabs), GFP_KERNEL);
	out = kvmalloc_array(a->count, sizeof(*out), GFP_KERNEL);
	if (!slabs || !out)
		goto out;
	r = -EFAULT;
	if (!kvslab_args_ok(a->slabs, a->count * sizeof(*out)))
		goto out;
	n = kvc_slabs(pool->core, &a->from, slabs, a->count);
	for (i = 0; i < n; i++)
		out[i] = (struct kvslab_stat_slab){
			.extent = slabs[i].extent,
			.owner = slabs[i].owner,
			.cache = slabs[i].cache,
			.pages = slabs[i].pages,
			.free = slabs[i].free,
			.private_pages = slabs[i].private_pages,
			.moving = slabs[i].moving,
			.sealed = slabs[i].sealed,
			.cached = slabs[i].cached,
			.quarantined = slabs[i].quarantined,
		};
	if (kvslab_copy_out(a->slabs, out, n * sizeof(*out)) || copy_to_user(user, args, size))
		goto out;
	r = n;
out:
	kvfree(out);
	kvfree(slabs);
	return r;
}
