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

/* Where a command's pages are. */
struct place {
	struct kvslab_pool *pool; /* whose host memory serves it; NULL: device memory */
	struct kvc_client *core;
	struct kvslab_side *side; /* of device memory */
};

static int place_of_device(struct kvslab_client *client, u32 arena, bool join, bool nowait,
			   struct place *place)
{
	place->pool = NULL;
	place->side = kvslab_side_get(client, arena, join, nowait);
	if (IS_ERR(place->side))
		return PTR_ERR(place->side);
	place->core = kvslab_side_core(place->side);
	return 0;
}

/* @join: who has never used the arena begins to. 0: to be put. -ENODEV, -EBADF, -EAGAIN, -ENOMEM. */
static int place_get(struct kvslab_client *client, u32 arena, bool join, bool nowait,
		     struct place *place)
{
	if (unlikely(arena))
		return place_of_device(client, arena, join, nowait, place);
	place->pool = client->pool;
	place->core = client->core;
	place->side = NULL;
	return 0;
}

static void place_put(const struct place *place)
{
	if (unlikely(place->side))
		kvslab_side_put(place->side);
}

/* Gives back what nobody learned of. */
static void give_back(const struct place *place, const u64 *pages, u32 n, struct kvc_op *op)
{
	kvc_op_init(op);
	KVSLAB_RUN(place->pool, op, kvc_free(place->core, pages, n, op));
}

/* ---- CACHE ---- */

static int cache_make(struct kvc_pool *core, const struct kvslab_args_cache *args)
{
	bool pinned = args->flags & KVSLAB_CACHE_PINNED;
	size_t size = kvc_cache_size(args->page_size);
	struct kvc_cache_stat stat;
	void *mem;
	int id;

	if (!size)
		return -EINVAL;
	id = kvc_cache_find(core, args->page_size);
	if (id < 0) {
		mem = kvslab_table_alloc(size);
		if (!mem)
			return -ENOMEM;
		id = pinned ? kvc_cache_add_pinned(core, mem, args->page_size)
			    : kvc_cache_add(core, mem, args->page_size);
		if (id < 0)
			kvfree(mem);
	} else if (kvc_cache_stat(core, id, &stat) || stat.pinned != pinned) {
		return -EEXIST;
	}
	return id;
}

static long cmd_cache(struct file *file, void *args, void __user *user, u32 size, bool nowait)
{
	struct kvslab_args_cache *a = args;
	struct kvslab_client *client;
	struct kvslab_pool *pool;
	struct kvc_pool *core;
	struct place place;
	struct work *work;
	u32 arena, extents = kvslab_nr_extents;
	long r;
	int id;

	client = live(file, &r);
	if (r)
		return r;
	pool = client->pool;
	core = pool->core;
	if (a->flags & ~KVSLAB_CACHE_PINNED || !(a->flags & KVSLAB_CACHE_PINNED) != !a->slabs)
		return -EINVAL;
	if (a->tier > KVSLAB_TIER_DEVICE || (a->tier && (a->flags || !a->arena)))
		return -EINVAL;
	if (nowait)
		return -EAGAIN;
	/* Making a cache cannot be taken back, so first: can the answer be written? */
	if (copy_to_user(user, args, size))
		return -EFAULT;
	arena = a->tier ? a->arena : 0;
	r = place_get(client, arena, true, false, &place);
	if (r)
		return r;
	work = work_get(client);
	if (!work) {
		place_put(&place);
		return -ENOMEM;
	}
	if (arena)
		core = kvslab_side_pool(place.side, &extents);
	mutex_lock(&pool->cache_mutex);
	id = cache_make(core, a);
	if (id >= 0 && a->slabs) {
		kvc_op_init(&work->op);
		r = KVSLAB_RUN(pool, &work->op,
			       kvc_cache_fill(pool->core, id, a->slabs, &work->op));
	}
	mutex_unlock(&pool->cache_mutex);
	work_put(client, work);
	place_put(&place);
	if (id < 0 || r)
		return id < 0 ? id : r;
	a->id = KVSLAB_CACHE_ID(arena, id);
	a->pages_per_slab = KVC_EXTENT_SIZE / a->page_size;
	a->frame_size = PAGE_SIZE;
	a->arena = arena;
	a->arena_size = (u64)extents << KVC_EXTENT_SHIFT;
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
	struct place place;
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
	if (KVSLAB_CACHE_ARENA(a->cache) >= KVC_ARENAS_MAX)
		return -EINVAL;
	r = place_get(client, KVSLAB_CACHE_ARENA(a->cache), true, nowait, &place);
	if (r)
		return r;
	work = work_get(client);
	if (!work) {
		place_put(&place);
		return -ENOMEM;
	}
	op_begin(work, nowait);
	r = KVSLAB_RUN(place.pool, &work->op,
		       kvc_alloc(place.core, KVSLAB_CACHE_CORE(a->cache), work->pages, a->count,
				 a->flags & KVSLAB_ALLOC_PARTIAL ? KVC_PARTIAL : 0, &work->op));
	if (r > 0 && copy_to_user(u64_to_user_ptr(a->pages), work->pages, r * sizeof(u64))) {
		give_back(&place, work->pages, r, &work->op);
		r = -EFAULT;
	}
	work_put(client, work);
	place_put(&place);
	return r;
}

static long cmd_free(struct file *file, void *args, void __user *user, u32 size, bool nowait)
{
	const struct kvslab_args_pages *a = args;
	struct kvslab_client *client;
	struct place place;
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
		r = place_get(client, KVSLAB_HANDLE_ARENA(work->pages[0]), false, nowait, &place);
	if (!r) {
		op_begin(work, nowait);
		r = KVSLAB_RUN(place.pool, &work->op,
			       kvc_free(place.core, work->pages, a->count, &work->op));
		place_put(&place);
	}
	work_put(client, work);
	return r;
}

static long cmd_get(struct file *file, void *args, void __user *user, u32 size, bool nowait)
{
	const struct kvslab_args_pages *a = args;
	struct kvslab_client *client;
	struct place place;
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
		r = place_get(client, KVSLAB_HANDLE_ARENA(work->pages[0]), false, nowait, &place);
	if (!r) {
		r = kvc_get(place.core, work->pages, a->count);
		place_put(&place);
	}
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
	struct place place;
	u32 i;
	int r;

	r = kvslab_copy_in(entries, address, size);
	if (!r)
		r = seals_in(seals, entries, n);
	/* A seal cannot be taken back, so first: can the answer be written? */
	if (!r)
		r = copy_to_user(u64_to_user_ptr(address), entries, size) ? -EFAULT : 0;
	if (!r)
		r = place_get(client, KVSLAB_HANDLE_ARENA(seals[0].page), false, false, &place);
	if (r)
		return r;
	kvc_op_init(&work->op);
	r = KVSLAB_RUN(place.pool, &work->op, kvc_seal(place.core, seals, n, &work->op));
	place_put(&place);
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
	struct place place;
	struct work *work;
	long r;

	client = live(file, &r);
	if (r)
		return r;
	if (!good_count(a->count) || a->flags || a->reserved)
		return -EINVAL;
	if (!kvslab_args_ok(a->pages, a->count * sizeof(u64)))
		return -EFAULT;
	if (KVSLAB_CACHE_ARENA(a->cache) >= KVC_ARENAS_MAX)
		return -EINVAL;
	r = place_get(client, KVSLAB_CACHE_ARENA(a->cache), true, nowait, &place);
	if (r)
		return r;
	hashes = kvmalloc_array(a->count, sizeof(*hashes), GFP_KERNEL);
	work = work_get(client);
	r = hashes && work ? kvslab_copy_in(hashes, a->hashes, a->count * sizeof(*hashes))
			   : -ENOMEM;
	if (!r) {
		op_begin(work, nowait);
		r = KVSLAB_RUN(place.pool, &work->op,
			       kvc_lookup(place.core, KVSLAB_CACHE_CORE(a->cache),
					  (const u8(*)[KVC_HASH_SIZE])hashes, a->count, work->pages,
					  &work->op));
	}
	if (r > 0 && copy_to_user(u64_to_user_ptr(a->pages), work->pages, r * sizeof(u64))) {
		give_back(&place, work->pages, r, &work->op);
		r = -EFAULT;
	}
	work_put(client, work);
	place_put(&place);
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
/* One whose structure has grown: @last is the last member that it had at first. */
#define GROWN(number, type, last, may_read, function) \
	{ number, offsetofend(struct type, last), sizeof(struct type), !(may_read), function }

const struct kvslab_command kvslab_pool_commands[] = {
	COMMAND(KVSLAB_CMD_ALLOC, kvslab_args_alloc, false, cmd_alloc),
	COMMAND(KVSLAB_CMD_FREE, kvslab_args_pages, false, cmd_free),
	COMMAND(KVSLAB_CMD_SEAL, kvslab_args_seal, false, cmd_seal),
	COMMAND(KVSLAB_CMD_LOOKUP, kvslab_args_lookup, false, cmd_lookup),
	COMMAND(KVSLAB_CMD_GET, kvslab_args_pages, false, cmd_get),
	COMMAND(KVSLAB_CMD_EVENTS, kvslab_args_events, true, kvslab_cmd_events),
	COMMAND(KVSLAB_CMD_CACHE, kvslab_args_cache, false, cmd_cache),
	GROWN(KVSLAB_CMD_STAT, kvslab_args_stat, reserved, true, kvslab_cmd_stat),
	COMMAND(KVSLAB_CMD_SLABS, kvslab_args_slabs, true, kvslab_cmd_slabs),
	COMMAND(KVSLAB_CMD_EXPORT, kvslab_args_export, false, kvslab_cmd_export),
	COMMAND(KVSLAB_CMD_IMPORT, kvslab_args_import, false, kvslab_cmd_import),
	COMMAND(KVSLAB_CMD_DEPOSIT, kvslab_args_deposit, false, kvslab_cmd_deposit),
	COMMAND(KVSLAB_CMD_RECEIVE, kvslab_args_receive, false, kvslab_cmd_receive),
	{ KVSLAB_CMD_NOP, 0, 0, false, cmd_nop },
};
const u32 kvslab_nr_pool_commands = ARRAY_SIZE(kvslab_pool_commands);

static_assert(sizeof(struct kvslab_args_stat) <= KVSLAB_SIZE_MAX &&
	      sizeof(struct kvslab_args_create) <= KVSLAB_SIZE_MAX);
static_assert(KVSLAB_CMD_BATCH == KVC_BATCH_MAX && KVSLAB_CMD_HASH == KVC_HASH_SIZE &&
	      KVSLAB_CMD_EXTENT == KVC_EXTENT_SIZE && KVSLAB_CMD_CLASSES == KVC_CLASSES);
