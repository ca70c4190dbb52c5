// SPDX-License-Identifier: GPL-2.0
/* Commands of a pool's clients. What each does is said in uapi/kvslab.h. */
#include <linux/uaccess.h>

#include "kmod.h"

/* What a command needs beside its arguments. */
struct work {
	struct kvc_op op;
	u64 pages[KVSLAB_CMD_BATCH];
};

static struct kvslab_client *live(struct file *file, long *r)
{
	struct kvslab_client *client = file->private_data;

	*r = READ_ONCE(client->pool->dead) ? -ENODEV : 0;
	return client;
}

/* A client keeps one, so that whoever gives one command at a time allocates nothing. */
static struct work *work_get(struct kvslab_client *client)
{
	struct work *work = xchg(&client->work, NULL);

	return work ?: kmalloc(sizeof(*work), GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN);
}

static void work_put(struct kvslab_client *client, struct work *work)
{
	if (work && cmpxchg(&client->work, NULL, work))
		kfree(work);
}

static void op_begin(struct work *work, bool nowait)
{
	if (nowait)
		kvc_op_init_nowait(&work->op);
	else
		kvc_op_init(&work->op);
}

static bool good_count(u32 n)
{
	return n - 1 < KVSLAB_CMD_BATCH;
}

/* Gives back what nobody learned of. */
static void give_back(struct kvslab_client *client, const u64 *pages, u32 n, struct kvc_op *op)
{
	kvc_op_init(op);
	KVSLAB_RUN(client->pool, op, kvc_free(client->core, pages, n, op));
}

/* ---- CACHE ---- */

static int cache_make(struct kvslab_pool *pool, const struct kvslab_args_cache *args)
{
	bool pinned = args->flags & KVSLAB_CACHE_PINNED;
	size_t size = kvc_cache_size(args->page_size);
	struct kvc_cache_stat stat;
	void *mem;
	int id;

	if (!size)
		return -EINVAL;
	id = kvc_cache_find(pool->core, args->page_size);
	if (id < 0) {
		mem = kvslab_table_alloc(size);
		if (!mem)
			return -ENOMEM;
		id = pinned ? kvc_cache_add_pinned(pool->core, mem, args->page_size)
			    : kvc_cache_add(pool->core, mem, args->page_size);
		if (id < 0)
			kvfree(mem);
	} else if (kvc_cache_stat(pool->core, id, &stat) || stat.pinned != pinned) {
		return -EEXIST;
	}
	return id;
}

static long cmd_cache(struct file *file, void *args, void __user *user, u32 size, bool nowait)
{
	struct kvslab_args_cache *a = args;
	struct kvslab_client *client;
	struct kvslab_pool *pool;
	struct work *work;
	long r;
	int id;

	client = live(file, &r);
	if (r)
		return r;
	pool = client->pool;
	if (a->flags & ~KVSLAB_CACHE_PINNED || !(a->flags & KVSLAB_CACHE_PINNED) != !a->slabs)
		return -EINVAL;
	if (a->tier)
		return a->tier == KVSLAB_TIER_DEVICE ? -EOPNOTSUPP : -EINVAL;
	if (nowait)
		return -EAGAIN;
	/* Making a cache cannot be taken back, so first: can the answer be written? */
	if (copy_to_user(user, args, size))
		return -EFAULT;
	work = work_get(client);
	if (!work)
		return -ENOMEM;
	mutex_lock(&pool->cache_mutex);
	id = cache_make(pool, a);
	if (id >= 0 && a->slabs) {
		kvc_op_init(&work->op);
		r = KVSLAB_RUN(pool, &work->op,
			       kvc_cache_fill(pool->core, id, a->slabs, &work->op));
	}
	mutex_unlock(&pool->cache_mutex);
	work_put(client, work);
	if (id < 0 || r)
		return id < 0 ? id : r;
	a->id = id;
	a->pages_per_slab = KVC_EXTENT_SIZE / a->page_size;
	a->frame_size = PAGE_SIZE;
	a->arena = 0;
	a->arena_size = (u64)kvslab_nr_extents << KVC_EXTENT_SHIFT;
	a->pool = pool->id;
	a->client = kvc_client_id(client->core);
	memcpy(a->key, pool->key, sizeof(a->key));
	return copy_to_user(user, args, size) ? -EFAULT : 0;
}

/* ---- pages ---- */

static long cmd_alloc(struct file *file, void *args, void __user *user, u32 size, bool nowait)
{
	const struct kvslab_args_alloc *a = args;
	struct kvslab_client *client;
	struct work *work;
	long r;

	client = live(file, &r);
	if (r)
		return r;
	if (!good_count(a->count) || a->flags & ~KVSLAB_ALLOC_PARTIAL || a->reserved)
		return -EINVAL;
	/* Here and not at the end only: handles that cannot be told would cost others their cache. */
	if (!kvslab_args_ok(a->pages, a->count * sizeof(u64)))
		return -EFAULT;
	work = work_get(client);
	if (!work)
		return -ENOMEM;
	op_begin(work, nowait);
	r = KVSLAB_RUN(client->pool, &work->op,
		       kvc_alloc(client->core, a->cache, work->pages, a->count,
				 a->flags & KVSLAB_ALLOC_PARTIAL ? KVC_PARTIAL : 0, &work->op));
	if (r > 0 && copy_to_user(u64_to_user_ptr(a->pages), work->pages, r * sizeof(u64))) {
		give_back(client, work->pages, r, &work->op);
		r = -EFAULT;
	}
	work_put(client, work);
	return r;
}

static long cmd_free(struct file *file, void *args, void __user *user, u32 size, bool nowait)
{
	const struct kvslab_args_pages *a = args;
	struct kvslab_client *client;
	struct work *work;
	long r;

	client = live(file, &r);
	if (r)
		return r;
	if (!good_count(a->count) || a->flags)
		return -EINVAL;
	work = work_get(client);
	if (!work)
		return -ENOMEM;
	r = kvslab_copy_in(work->pages, a->pages, a->count * sizeof(u64));
	if (!r) {
		op_begin(work, nowait);
		r = KVSLAB_RUN(client->pool, &work->op,
			       kvc_free(client->core, work->pages, a->count, &work->op));
	}
	work_put(client, work);
	return r;
}

static long cmd_get(struct file *file, void *args, void __user *user, u32 size, bool nowait)
{
	const struct kvslab_args_pages *a = args;
	struct kvslab_client *client;
	struct work *work;
	long r;

	client = live(file, &r);
	if (r)
		return r;
	if (!good_count(a->count) || a->flags)
		return -EINVAL;
	work = work_get(client);
	if (!work)
		return -ENOMEM;
	r = kvslab_copy_in(work->pages, a->pages, a->count * sizeof(u64));
	if (!r)
		r = kvc_get(client->core, work->pages, a->count);
	work_put(client, work);
	return r;
}

static int seals_in(struct kvc_seal *to, const struct kvslab_seal_entry *from, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++) {
		if (from[i].reserved || from[i].flags & ~KVSLAB_SEAL_FIRST)
			return -EINVAL;
		to[i].page = from[i].page;
		memcpy(to[i].hash, from[i].hash, sizeof(to[i].hash));
		memcpy(to[i].parent, from[i].parent, sizeof(to[i].parent));
		to[i].depth = from[i].depth;
		to[i].class = from[i].priority;
		to[i].flags = from[i].flags & KVSLAB_SEAL_FIRST ? KVC_SEAL_ROOT : 0;
		to[i].state = 0;
	}
	return 0;
}

static long seal(struct kvslab_client *client, u64 address, struct kvslab_seal_entry *entries,
		 struct kvc_seal *seals, u32 n, struct work *work)
{
	size_t size = n * sizeof(*entries);
	u32 i;
	int r;

	r = kvslab_copy_in(entries, address, size);
	if (!r)
		r = seals_in(seals, entries, n);
	/* A seal cannot be taken back, so first: can the answer be written? */
	if (!r)
		r = copy_to_user(u64_to_user_ptr(address), entries, size) ? -EFAULT : 0;
	if (r)
		return r;
	kvc_op_init(&work->op);
	r = KVSLAB_RUN(client->pool, &work->op, kvc_seal(client->core, seals, n, &work->op));
	if (r)
		return r;
	for (i = 0; i < n; i++)
		entries[i].page = seals[i].page;
	return copy_to_user(u64_to_user_ptr(address), entries, size) ? -EFAULT : 0;
}

static long cmd_seal(struct file *file, void *args, void __user *user, u32 size, bool nowait)
{
	const struct kvslab_args_seal *a = args;
	struct kvslab_seal_entry *entries;
	struct kvslab_client *client;
	struct kvc_seal *seals;
	struct work *work;
	long r;

	client = live(file, &r);
	if (r)
		return r;
	if (!good_count(a->count) || a->flags)
		return -EINVAL;
	if (nowait)
		return -EAGAIN;
	entries = kvmalloc_array(a->count, sizeof(*entries), GFP_KERNEL);
	seals = kvmalloc_array(a->count, sizeof(*seals), GFP_KERNEL);
	work = work_get(client);
	r = entries && seals && work ? seal(client, a->seals, entries, seals, a->count, work)
				     : -ENOMEM;
	work_put(client, work);
	kvfree(seals);
	kvfree(entries);
	return r;
}

static long cmd_lookup(struct file *file, void *args, void __user *user, u32 size, bool nowait)
{
	const struct kvslab_args_lookup *a = args;
	u8 (*hashes)[KVC_HASH_SIZE];
	struct kvslab_client *client;
	struct work *work;
	long r;

	client = live(file, &r);
	if (r)
		return r;
	if (!good_count(a->count) || a->flags || a->reserved)
		return -EINVAL;
	if (!kvslab_args_ok(a->pages, a->count * sizeof(u64)))
		return -EFAULT;
	hashes = kvmalloc_array(a->count, sizeof(*hashes), GFP_KERNEL);
	work = work_get(client);
	r = hashes && work ? kvslab_copy_in(hashes, a->hashes, a->count * sizeof(*hashes))
			   : -ENOMEM;
	if (!r) {
		op_begin(work, nowait);
		r = KVSLAB_RUN(client->pool, &work->op,
			       kvc_lookup(client->core, a->cache, (const u8(*)[KVC_HASH_SIZE])hashes,
					  a->count, work->pages, &work->op));
	}
	if (r > 0 && copy_to_user(u64_to_user_ptr(a->pages), work->pages, r * sizeof(u64))) {
		give_back(client, work->pages, r, &work->op);
		r = -EFAULT;
	}
	work_put(client, work);
	kvfree(hashes);
	return r;
}

static long cmd_nop(struct file *file, void *args, void __user *user, u32 size, bool nowait)
{
	long r;

	live(file, &r);
	return r;
}

#define COMMAND(number, type, may_read, function) \
	{ number, sizeof(struct type), sizeof(struct type), !(may_read), function }

const struct kvslab_command kvslab_pool_commands[] = {
	COMMAND(KVSLAB_CMD_ALLOC, kvslab_args_alloc, false, cmd_alloc),
	COMMAND(KVSLAB_CMD_FREE, kvslab_args_pages, false, cmd_free),
	COMMAND(KVSLAB_CMD_SEAL, kvslab_args_seal, false, cmd_seal),
	COMMAND(KVSLAB_CMD_LOOKUP, kvslab_args_lookup, false, cmd_lookup),
	COMMAND(KVSLAB_CMD_GET, kvslab_args_pages, false, cmd_get),
	COMMAND(KVSLAB_CMD_EVENTS, kvslab_args_events, true, kvslab_cmd_events),
	COMMAND(KVSLAB_CMD_CACHE, kvslab_args_cache, false, cmd_cache),
	COMMAND(KVSLAB_CMD_STAT, kvslab_args_stat, true, kvslab_cmd_stat),
	COMMAND(KVSLAB_CMD_SLABS, kvslab_args_slabs, true, kvslab_cmd_slabs),
	COMMAND(KVSLAB_CMD_EXPORT, kvslab_args_export, false, kvslab_cmd_export),
	{ KVSLAB_CMD_NOP, 0, 0, false, cmd_nop },
};
const u32 kvslab_nr_pool_commands = ARRAY_SIZE(kvslab_pool_commands);

static_assert(sizeof(struct kvslab_args_stat) <= KVSLAB_SIZE_MAX &&
	      sizeof(struct kvslab_args_create) <= KVSLAB_SIZE_MAX);
static_assert(KVSLAB_CMD_BATCH == KVC_BATCH_MAX && KVSLAB_CMD_HASH == KVC_HASH_SIZE &&
	      KVSLAB_CMD_EXTENT == KVC_EXTENT_SIZE && KVSLAB_CMD_CLASSES == KVC_CLASSES);
