// SPDX-License-Identifier: GPL-2.0
/* STAT and SLABS. */
#include <linux/pid.h>
#include <linux/uaccess.h>

#include "kmod.h"

/* Caches of one arena, behind the @n that are there; as many as fit into @most. How many there are. */
u32 kvslab_stat_caches(struct kvc_pool *core, u32 arena, struct kvslab_stat_cache *out, u32 n, u32 most)
{
	struct kvc_cache_stat s;
	u32 i;

	for (i = 0; i < KVC_CACHES_MAX && !kvc_cache_stat(core, i, &s); i++, n++) {
		if (n >= most)
			continue;
		out[n] = (struct kvslab_stat_cache){
			.id = KVSLAB_CACHE_ID(arena, i),
			.page_size = s.page_size,
			.pages_per_slab = s.pages,
			.flags = s.pinned ? KVSLAB_CACHE_PINNED : 0,
			.slabs = s.slabs,
			.free = s.free,
			.private_pages = s.private_pages,
			.moving = s.moving,
			.sealed = s.sealed,
			.cached = s.cached,
			.quarantined = s.quarantined,
		};
	}
	return n;
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
	struct kvslab_client *client = file->private_data;
	struct kvslab_pool *pool = client->pool;
	struct kvslab_args_stat *a = args;
	struct kvslab_stat_cache *caches;
	struct kvslab_stat_client *clients;
	struct kvslab_stat_arena *arenas;
	u32 fit[3], n[3], used, max;
	long r;

	if (READ_ONCE(pool->dead))
		return -ENODEV;
	if (a->flags || a->reserved || a->reserved2)
		return -EINVAL;
	if (nowait)
		return -EAGAIN;
	fit[0] = a->caches ? min_t(u32, a->nr_caches, KVC_CACHES_MAX * KVC_ARENAS_MAX) : 0;
	fit[1] = a->clients ? min_t(u32, a->nr_clients, CLIENTS_MAX) : 0;
	fit[2] = a->arenas ? min_t(u32, a->nr_arenas, KVC_ARENAS_MAX) : 0;
	caches = kvmalloc_array(fit[0] ?: 1, sizeof(*caches), GFP_KERNEL);
	clients = kvmalloc_array(fit[1] ?: 1, sizeof(*clients), GFP_KERNEL);
	arenas = kvmalloc_array(fit[2] ?: 1, sizeof(*arenas), GFP_KERNEL);
	r = -ENOMEM;
	if (!caches || !clients || !arenas)
		goto out;
	n[0] = kvslab_stat_caches(pool->core, 0, caches, 0, fit[0]);
	n[0] = kvslab_devices_caches(pool, caches, n[0], fit[0]);
	n[2] = kvslab_devices_stat(client, arenas, fit[2], &used, &max);
	mutex_lock(&kvslab_mutex);
	kvslab_pool_stat(pool, &a->pool);
	n[1] = stat_clients(pool, clients, fit[1]);
	mutex_unlock(&kvslab_mutex);
	r = -EFAULT;
	if (kvslab_copy_out(a->caches, caches, min(n[0], fit[0]) * sizeof(*caches)) ||
	    kvslab_copy_out(a->clients, clients, min(n[1], fit[1]) * sizeof(*clients)) ||
	    kvslab_copy_out(a->arenas, arenas, min(n[2], fit[2]) * sizeof(*arenas)))
		goto out;
	a->nr_caches = n[0];
	a->nr_clients = n[1];
	a->nr_arenas = n[2];
	a->device_max = (u64)max << KVC_EXTENT_SHIFT;
	a->device_size = (u64)used << KVC_EXTENT_SHIFT;
	r = copy_to_user(user, args, size) ? -EFAULT : 0;
out:
	kvfree(arenas);
	kvfree(clients);
	kvfree(caches);
	return r;
}

long kvslab_cmd_slabs(struct file *file, void *args, void __user *user, u32 size, bool nowait)
{
	struct kvslab_pool *pool = ((struct kvslab_client *)file->private_data)->pool;
	struct kvslab_args_slabs *a = args;
	struct kvslab_stat_slab *out;
	struct kvc_slab_stat *slabs;
	long r = -ENOMEM;
	u32 i;
	int n;

	if (READ_ONCE(pool->dead))
		return -ENODEV;
	if (a->count - 1 >= KVSLAB_CMD_BATCH || a->flags)
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
	n = a->arena ? kvslab_devices_slabs(pool, a->arena, &a->from, slabs, a->count)
		     : (int)kvc_slabs(pool->core, &a->from, slabs, a->count);
	if (n < 0) {
		r = n;
		goto out;
	}
	for (i = 0; i < (u32)n; i++)
		out[i] = (struct kvslab_stat_slab){
			.extent = slabs[i].extent,
			.owner = slabs[i].owner,
			.cache = KVSLAB_CACHE_ID(a->arena, slabs[i].cache),
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
