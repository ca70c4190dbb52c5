// SPDX-License-Identifier: GPL-2.0
/* Pools: made, changed, destroyed. */
#include <linux/cgroup.h>
#include <linux/cred.h>
#include <linux/kdev_t.h>
#include <linux/nodemask.h>
#include <linux/poll.h>
#include <linux/random.h>
#include <linux/sched/mm.h>

#include "kmod.h"

DEFINE_MUTEX(kvslab_mutex);
LIST_HEAD(kvslab_pool_list);
DEFINE_XARRAY_ALLOC1(kvslab_pools);
static u32 next_id;

static struct kvslab_pool *find(const char *name)
{
	struct kvslab_pool *pool;

	list_for_each_entry(pool, &kvslab_pool_list, node)
		if (!strcmp(pool->name, name))
			return pool;
	return NULL;
}

/* Letters, digits, '-', '_', '.'; no '.' first; ended; not the control node's. */
static bool good_name(const char *name)
{
	size_t n = strnlen(name, KVSLAB_NAME_SIZE), i;

	if (!n || n == KVSLAB_NAME_SIZE || name[0] == '.' || !strcmp(name, "control"))
		return false;
	for (i = 0; i < n; i++)
		if (!(name[i] >= 'a' && name[i] <= 'z') && !(name[i] >= 'A' && name[i] <= 'Z') &&
		    !(name[i] >= '0' && name[i] <= '9') && !strchr("-_.", name[i]))
			return false;
	return true;
}

/* Bytes to extents. */
static int set_limits(struct kvc_pool_params *params, u64 min, u64 max)
{
	max = max >> KVC_EXTENT_SHIFT;
	min = (min >> KVC_EXTENT_SHIFT) + !!(min & (KVC_EXTENT_SIZE - 1));
	if (!max || min > max || max > kvslab_nr_extents)
		return -EINVAL;
	params->min = min;
	params->max = max;
	return 0;
}

static int set_marks(struct kvc_pool_params *params, u32 low, u32 high)
{
	high = high ?: 900;
	low = low ?: min(750u, high);
	if (high > 1000 || low > high)
		return -EINVAL;
	params->low = (u64)params->max * low / 1000;
	/* 0 would be never */
	params->high = max(1u, (u32)((u64)params->max * high / 1000));
	return 0;
}

/* Who pays: the cgroup that a descriptor is open on, or the caller's. */
static int set_payer(struct kvslab_pool *pool, const struct kvslab_args_create *args)
{
#ifdef CONFIG_MEMCG
	struct cgroup_subsys_state *css;
	struct cgroup *cgroup;

	if (!(args->flags & KVSLAB_POOL_CGROUP)) {
		pool->memcg = get_mem_cgroup_from_mm(current->mm);
		return 0;
	}
	cgroup = cgroup_get_from_fd(args->cgroup_fd);
	if (IS_ERR(cgroup))
		return PTR_ERR(cgroup);
	css = cgroup_get_e_css(cgroup, &memory_cgrp_subsys);
	cgroup_put(cgroup);
	if (!css)
		return -EINVAL;
	pool->memcg = mem_cgroup_from_css(css);
	return 0;
#else
	return args->flags & KVSLAB_POOL_CGROUP ? -EOPNOTSUPP : 0;
#endif
}

/* The pool was never seen by anybody, or by nobody any more. */
static void pool_free(struct kvslab_pool *pool)
{
	if (pool->id)
		xa_erase(&kvslab_pools, pool->id);
	kvslab_counters_exit(pool);
	iput(pool->inode);
	mem_cgroup_put(pool->memcg);
	kfree_rcu(pool, rcu);
}

static int core_begin(struct kvslab_pool *pool, struct kvc_pool_params *params)
{
	void *mem = kvslab_table_alloc(kvc_pool_size());
	int r;

	if (!mem)
		return -ENOMEM;
	get_random_bytes(params->secret, sizeof(params->secret));
	params->id = pool->id;
	params->data = pool;
	r = kvc_pool_init(mem, kvslab_arena, params, &pool->core);
	if (r)
		kvfree(mem);
	return r;
}

static void core_end(struct kvslab_pool *pool)
{
	struct kvc_op *op;
	int r;

	/* It cannot be left: it holds memory. */
	op = kmalloc(sizeof(*op), GFP_KERNEL | __GFP_NOFAIL);
	for (;;) {
		kvc_op_init(op);
		while ((r = kvc_pool_exit(pool->core, op)) == KVC_MORE)
			kvslab_serve(pool, op);
		if (!r)
			break;
		/* A call of another pool, or the shrinker, is taking a slab. */
		kvslab_serve_end(pool, op);
		cond_resched();
	}
	/* Who found a slab of it just before may still look at it. */
	kvslab_reclaim_drain(pool);
	kvslab_serve_end(pool, op);
	kfree(op);
	kvfree(pool->core);
}

int kvslab_pool_create(const struct kvslab_args_create *args, struct kvslab_pool **out)
{
	struct kvc_pool_params params = { 0 };
	struct mem_cgroup *old;
	struct kvslab_pool *pool;
	int r;

	if (!good_name(args->name) || args->flags & ~KVSLAB_POOL_CGROUP || args->reserved ||
	    args->mode & ~0666u || args->node < -1 ||
	    (args->node >= 0 && (args->node >= MAX_NUMNODES || !node_online(args->node))))
		return -EINVAL;
	r = set_limits(&params, args->min, args->max);
	if (!r)
		r = set_marks(&params, args->low, args->high);
	if (r)
		return r;
	pool = kzalloc(sizeof(*pool), GFP_KERNEL_ACCOUNT);
	if (!pool)
		return -ENOMEM;
	kref_init(&pool->ref);
	mutex_init(&pool->cache_mutex);
	init_waitqueue_head(&pool->wait);
	INIT_LIST_HEAD(&pool->clients);
	spin_lock_init(&pool->users_lock);
	INIT_LIST_HEAD(&pool->users);
	strscpy(pool->name, args->name, sizeof(pool->name));
	get_random_bytes(pool->key, sizeof(pool->key));
	pool->numa = args->node < 0 ? NUMA_NO_NODE : args->node;
	pool->uid = make_kuid(current_user_ns(), args->uid);
	pool->gid = make_kgid(current_user_ns(), args->gid);
	pool->mode = args->mode;
	pool->high = args->high ?: 900;
	pool->low = args->low ?: min(750u, pool->high);
	kvslab_devices_limit(pool, args->device_max);
	r = uid_valid(pool->uid) && gid_valid(pool->gid) ? set_payer(pool, args) : -EINVAL;
	if (r)
		goto fail;
	pool->inode = kvslab_inode_new();
	if (IS_ERR(pool->inode)) {
		r = PTR_ERR(pool->inode);
		pool->inode = NULL;
		goto fail;
	}
	r = kvslab_counters_init(pool);
	if (r)
		goto fail;
	/* Cyclic, so that a node that outlived its pool does not open the next one. */
	r = xa_alloc_cyclic(&kvslab_pools, &pool->id, pool, XA_LIMIT(1, MINORMASK), &next_id,
			    GFP_KERNEL);
	if (r < 0)
		goto fail;
	r = core_begin(pool, &params);
	if (r)
		goto fail;
	old = set_active_memcg(pool->memcg);
	r = kvslab_reclaim_add(pool);
	set_active_memcg(old);
	if (r)
		goto fail_core;
	mutex_lock(&kvslab_mutex);
	r = find(pool->name) ? -EEXIST : kvslab_node_add(pool);
	if (!r)
		list_add_tail(&pool->node, &kvslab_pool_list);
	mutex_unlock(&kvslab_mutex);
	if (r)
		goto fail_reclaim;
	*out = pool;
	return 0;

fail_reclaim:
	kvslab_reclaim_forget(pool);
fail_core:
	core_end(pool);
fail:
	pool_free(pool);
	return r;
}

static void pool_end(struct kref *ref)
{
	struct kvslab_pool *pool = container_of(ref, struct kvslab_pool, ref);

	kvslab_reclaim_forget(pool);
	core_end(pool);
	pool_free(pool);
}

void kvslab_pool_put(struct kvslab_pool *pool)
{
	kref_put(&pool->ref, pool_end);
}

int kvslab_pool_destroy(const char *name, u32 flags)
{
	struct kvslab_pool *pool;
	int r = 0;

	mutex_lock(&kvslab_mutex);
	pool = find(name);
	if (!pool) {
		r = -ENOENT;
	} else if (pool->nr_clients && !(flags & KVSLAB_DESTROY_FORCE)) {
		r = -EBUSY;
	} else {
		list_del(&pool->node);
		kvslab_node_del(pool);
		WRITE_ONCE(pool->dead, true);
	}
	mutex_unlock(&kvslab_mutex);
	if (r)
		return r;
	kvslab_unmap_all(pool);
	kvslab_devices_end(pool);
	wake_up_poll(&pool->wait, EPOLLIN | EPOLLRDNORM | EPOLLHUP);
	kvslab_pool_put(pool);
	return 0;
}

static int change(struct kvslab_pool *pool, const struct kvslab_args_set *args)
{
	struct kvc_pool_params params = { 0 };
	u32 low = args->mask & KVSLAB_SET_MARKS ? args->low : pool->low;
	u32 high = args->mask & KVSLAB_SET_MARKS ? args->high : pool->high;
	kuid_t uid = make_kuid(current_user_ns(), args->uid);
	kgid_t gid = make_kgid(current_user_ns(), args->gid);
	struct kvc_stat stat;
	struct kvc_op *op;
	u32 device_max;
	int r;

	if (args->mask & KVSLAB_SET_OWNER && (!uid_valid(uid) || !gid_valid(gid)))
		return -EINVAL;
	if (args->mask & KVSLAB_SET_MODE && args->mode & ~0666u)
		return -EINVAL;
	kvc_stat(pool->core, &stat);
	r = set_limits(&params,
		       args->mask & KVSLAB_SET_MIN ? args->min : stat.min << KVC_EXTENT_SHIFT,
		       args->mask & KVSLAB_SET_MAX ? args->max : stat.max << KVC_EXTENT_SHIFT);
	if (!r)
		r = set_marks(&params, low, high);
	if (r)
		return r;
	op = kmalloc(sizeof(*op), GFP_KERNEL);
	if (!op)
		return -ENOMEM;
	device_max = READ_ONCE(pool->devices.max);
	if (args->mask & KVSLAB_SET_DEVICE)
		r = kvslab_devices_limit(pool, args->device_max);
	if (!r) {
		kvc_op_init(op);
		r = kvc_pool_set(pool->core, &params, op);
		kvslab_serve_end(pool, op);
		if (r)
			WRITE_ONCE(pool->devices.max, device_max);
	}
	kfree(op);
	if (r)
		return r;
	pool->high = high ?: 900;
	pool->low = low ?: min(750u, pool->high);
	if (!(args->mask & (KVSLAB_SET_OWNER | KVSLAB_SET_MODE)))
		return 0;
	if (args->mask & KVSLAB_SET_OWNER) {
		pool->uid = uid;
		pool->gid = gid;
	}
	if (args->mask & KVSLAB_SET_MODE)
		pool->mode = args->mode;
	/* A node has its rights from its beginning. */
	kvslab_node_del(pool);
	return kvslab_node_add(pool);
}

#define SET_ALL \
	(KVSLAB_SET_MIN | KVSLAB_SET_MAX | KVSLAB_SET_OWNER | KVSLAB_SET_MODE | KVSLAB_SET_MARKS | \
	 KVSLAB_SET_DEVICE)

int kvslab_pool_set(const struct kvslab_args_set *args)
{
	struct kvslab_pool *pool;
	int r;

	if (args->mask & ~SET_ALL || args->flags || args->reserved ||
	    strnlen(args->name, sizeof(args->name)) == sizeof(args->name))
		return -EINVAL;
	mutex_lock(&kvslab_mutex);
	pool = find(args->name);
	r = pool ? change(pool, args) : -ENOENT;
	mutex_unlock(&kvslab_mutex);
	return r;
}

void kvslab_pool_stat(struct kvslab_pool *pool, struct kvslab_stat_pool *s)
{
	struct kvc_stat stat;

	kvc_stat(pool->core, &stat);
	memset(s, 0, sizeof(*s));
	strscpy(s->name, pool->name, sizeof(s->name));
	s->id = pool->id;
	s->uid = from_kuid_munged(current_user_ns(), pool->uid);
	s->gid = from_kgid_munged(current_user_ns(), pool->gid);
	s->mode = pool->mode;
	s->node = pool->numa == NUMA_NO_NODE ? -1 : pool->numa;
	s->dead = pool->dead;
	s->clients = stat.clients;
	s->min = stat.min;
	s->max = stat.max;
	s->low = stat.low;
	s->high = stat.high;
	s->held = stat.held;
	s->slabs = stat.slabs;
	s->arena_extents = stat.arena_extents;
	s->arena_free = stat.arena_free;
	s->free = stat.free;
	s->private_pages = stat.private_pages;
	s->moving = stat.moving;
	s->sealed = stat.sealed;
	s->cached = stat.cached;
	s->quarantined = stat.quarantined;
	s->free_bytes = stat.free_bytes;
	s->tail_bytes = stat.tail_bytes;
	s->quarantined_bytes = stat.quarantined_bytes;
	s->allocs = stat.allocs;
	s->frees = stat.frees;
	s->seals = stat.seals;
	s->seal_duplicates = stat.seal_duplicates;
	s->lookups = stat.lookups;
	s->lookup_asked = stat.lookup_asked;
	s->lookup_hits = stat.lookup_hits;
	s->evictions = stat.evictions;
	s->takeovers = stat.takeovers;
	s->reclaimed = atomic64_read(&pool->reclaimed);
	s->adrift = stat.adrift;
	s->failed = stat.failed;
}
