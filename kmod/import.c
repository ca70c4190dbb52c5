// SPDX-License-Identifier: GPL-2.0
/*
 * Arenas of device memory: IMPORT, DEPOSIT, RECEIVE, and the sides that clients have in them.
 *
 * Such an arena is an arena of the core with one pool of the core in it, so that everything that is
 * known of host memory's pages holds for its pages; the host's arena does not know of it. A client's
 * *side* of an arena is a client of that pool of the core, made when it first uses the arena.
 *
 * The dma-buf is held and nothing else is done with it. An attachment would want a struct device that
 * reads or writes the memory, and we have none. To pin it would keep the exporter from moving it, for
 * nobody's sake: who reads and writes has a mapping of the driver's, which follows the memory. And what
 * move_notify would tell is of no use to who stores no address. The size of a dma-buf never changes.
 *
 * Who keeps whom. An arena is kept by its importer's file until that is closed, and by its sides; a side
 * by its client's table, and by commands that are busy in it. All of them are shorter than a file of the
 * pool, and so shorter than the pool. When the importer goes, the sides leave all tables at once; what
 * the arena had goes when the last command is out of it.
 *
 * kvslab_device_mutex: everything here but a command's way to its side. Inside kvslab_mutex, where
 * both are held; no core lock, user memory or allocation is waited for under it but the table of a side.
 */
#include <linux/dma-buf.h>
#include <linux/file.h>
#include <linux/kdev_t.h>
#include <linux/magic.h>
#include <linux/major.h>
#include <linux/poll.h>
#include <linux/random.h>
#include <linux/uaccess.h>

#include "kmod.h"

struct kvslab_device {
	struct kref ref; /* its importer, and each side */
	struct kvslab_pool *pool;
	u32 id, extents;
	struct kvc_arena *arena;
	struct kvc_pool *core;
	u32 importer_id;
	u8 note[KVSLAB_NOTE_SIZE];
	/* kvslab_device_mutex */
	bool dead; /* in none of the lists; nobody gets a side any more */
	struct kvslab_client *importer;
	struct dma_buf *buf;
	struct file *deposit; /* or NULL */
	struct list_head all;
	struct list_head node; /* in importer->imports */
	struct list_head sides;
};

struct kvslab_side {
	struct kref ref;
	struct kvslab_device *device;
	struct kvc_client *core;
	struct kvslab_client *client; /* in whose table it is; for kvslab_device_mutex */
	struct list_head node; /* in device->sides; likewise */
	struct rcu_head rcu;
};

#if !IS_ENABLED(CONFIG_DMA_SHARED_BUFFER)
#define dma_buf_get(fd) ERR_PTR(-EOPNOTSUPP)
#define dma_buf_put(buf)
#endif

static DEFINE_MUTEX(kvslab_device_mutex);
static LIST_HEAD(all);

/* ---- ends ---- */

static void device_end(struct kref *ref)
{
	struct kvslab_device *d = container_of(ref, struct kvslab_device, ref);
	struct kvslab_pool *pool = d->pool;
	struct kvc_op *op = kmalloc(sizeof(*op), GFP_KERNEL | __GFP_NOFAIL);

	kvc_op_init(op);
	WARN_ON(KVSLAB_RUN(NULL, op, kvc_pool_exit(d->core, op)));
	kfree(op);
	mutex_lock(&kvslab_device_mutex);
	/* Only now may another have the number: it begins where the generations of this one ended. */
	pool->devices.epoch[d->id] = kvc_arena_epoch(d->arena);
	pool->devices.arena[d->id] = NULL;
	mutex_unlock(&kvslab_device_mutex);
	WARN_ON(kvc_arena_exit(d->arena));
	kvfree(d->core);
	kvfree(d->arena);
	kfree(d);
}

static void side_end(struct kref *ref)
{
	struct kvslab_side *side = container_of(ref, struct kvslab_side, ref);
	struct kvc_op *op = kmalloc(sizeof(*op), GFP_KERNEL | __GFP_NOFAIL);

	kvc_op_init(op);
	KVSLAB_RUN(NULL, op, kvc_client_exit(side->core, op));
	kfree(op);
	kvfree(side->core);
	kref_put(&side->device->ref, device_end);
	kfree_rcu(side, rcu);
}

void kvslab_side_put(struct kvslab_side *side)
{
	kref_put(&side->ref, side_end);
}

/* Of a pool whose clients change what they may be asked. */
static void tell(struct kvslab_pool *pool)
{
	struct kvslab_client *client;

	mutex_lock(&kvslab_mutex);
	list_for_each_entry(client, &pool->clients, node)
		atomic_or(KVSLAB_EVENT_ARENA, &client->events);
	mutex_unlock(&kvslab_mutex);
	wake_up_poll(&pool->wait, EPOLLIN | EPOLLRDNORM);
}

/* What is left of arenas that were killed, to be let go without the mutex. */
static void bury(struct list_head *dead)
{
	struct kvslab_device *d, *next;
	struct kvslab_side *side, *after;

	list_for_each_entry_safe(d, next, dead, all) {
		list_for_each_entry_safe(side, after, &d->sides, node)
			kvslab_side_put(side);
		if (d->deposit)
			fput(d->deposit);
		dma_buf_put(d->buf);
		kref_put(&d->ref, device_end);
	}
}

/* The mutex is held. From here on nobody finds the arena. */
static void kill(struct kvslab_device *d, struct list_head *dead)
{
	struct kvslab_side *side;

	d->dead = true;
	d->pool->devices.used -= d->extents;
	list_move(&d->all, dead);
	list_del(&d->node);
	list_for_each_entry(side, &d->sides, node)
		RCU_INIT_POINTER(side->client->side[d->id], NULL);
}

/* The client goes: what it imported goes with it, and its sides of what others did. */
void kvslab_devices_leave(struct kvslab_client *client)
{
	struct kvslab_device *d, *next;
	struct kvslab_side *side;
	LIST_HEAD(dead);
	bool tells;
	u32 i;

	mutex_lock(&kvslab_device_mutex);
	list_for_each_entry_safe(d, next, &client->imports, node)
		kill(d, &dead);
	mutex_unlock(&kvslab_device_mutex);
	tells = !list_empty(&dead);
	bury(&dead);
	for (i = 1; i < KVC_ARENAS_MAX; i++) {
		mutex_lock(&kvslab_device_mutex);
		side = rcu_dereference_protected(client->side[i],
						 lockdep_is_held(&kvslab_device_mutex));
		if (side) {
			RCU_INIT_POINTER(client->side[i], NULL);
			list_del(&side->node);
		}
		mutex_unlock(&kvslab_device_mutex);
		if (side)
			kvslab_side_put(side);
	}
	if (tells)
		tell(client->pool);
}

/* The pool was destroyed, and is marked so: nothing more is imported. */
void kvslab_devices_end(struct kvslab_pool *pool)
{
	LIST_HEAD(dead);
	u32 i;

	mutex_lock(&kvslab_device_mutex);
	for (i = 1; i < KVC_ARENAS_MAX; i++)
		if (pool->devices.arena[i] && !pool->devices.arena[i]->dead)
			kill(pool->devices.arena[i], &dead);
	mutex_unlock(&kvslab_device_mutex);
	bury(&dead);
}

/* ---- sides ---- */

/* The mutex is held. The arena if it lives. */
static struct kvslab_device *find(struct kvslab_pool *pool, u32 id)
{
	struct kvslab_device *d = id < KVC_ARENAS_MAX ? pool->devices.arena[id] : NULL;

	return d && !d->dead ? d : NULL;
}

static struct kvslab_side *have_side(struct kvslab_client *client, u32 id)
{
	struct kvslab_side *side;

	rcu_read_lock();
	side = rcu_dereference(client->side[id]);
	if (side && !kref_get_unless_zero(&side->ref))
		side = NULL;
	rcu_read_unlock();
	return side;
}

/* The mutex is not held, a reference to the arena is. A side in no table yet. */
static struct kvslab_side *new_side(struct kvslab_client *client, struct kvslab_device *d)
{
	struct kvslab_side *side = kzalloc(sizeof(*side), GFP_KERNEL_ACCOUNT);
	void *mem = kvslab_table_alloc(kvc_client_size(d->core));

	if (!side || !mem || kvc_client_init_as(mem, d->core, client->core, &side->core)) {
		kvfree(mem);
		kfree(side);
		return NULL;
	}
	kref_init(&side->ref);
	kref_get(&d->ref);
	side->device = d;
	side->client = client;
	return side;
}

/* Two commands may come at once: the second finds the first one's side. */
static struct kvslab_side *join_device(struct kvslab_client *client, struct kvslab_device *d)
{
	struct kvslab_side *made = new_side(client, d), *side;

	if (!made)
		return ERR_PTR(-ENOMEM);
	mutex_lock(&kvslab_device_mutex);
	/* While we have a reference, the number is nobody else's. */
	side = d->dead ? ERR_PTR(-ENODEV) : have_side(client, d->id);
	if (!side) {
		side = made;
		made = NULL;
		kref_get(&side->ref);
		list_add(&side->node, &d->sides);
		rcu_assign_pointer(client->side[d->id], side);
	}
	mutex_unlock(&kvslab_device_mutex);
	if (made)
		kvslab_side_put(made);
	return side;
}

/*
 * The client's side of arena @id; @join: it gets one if it has none. -ENODEV: no such arena, or no more;
 * -EBADF, without @join: it has none, so it holds nothing there; -EAGAIN; -ENOMEM. To be put.
 */
struct kvslab_side *kvslab_side_get(struct kvslab_client *client, u32 id, bool join, bool nowait)
{
	struct kvslab_side *side;
	struct kvslab_device *d;
	int r = 0;

	if (id - 1 >= KVC_ARENAS_MAX - 1)
		return ERR_PTR(-ENODEV);
	side = have_side(client, id);
	if (side)
		return side;
	if (nowait)
		return ERR_PTR(-EAGAIN);
	mutex_lock(&kvslab_device_mutex);
	d = find(client->pool, id);
	if (d)
		kref_get(&d->ref);
	else
		r = join || client->pool->devices.arena[id] || client->pool->devices.epoch[id] ? -ENODEV : -EBADF;
	mutex_unlock(&kvslab_device_mutex);
	if (!d)
		return ERR_PTR(r);
	side = join ? join_device(client, d) : ERR_PTR(-EBADF);
	kref_put(&d->ref, device_end);
	return side;
}

struct kvc_client *kvslab_side_core(struct kvslab_side *side)
{
	return side->core;
}

struct kvc_pool *kvslab_side_pool(struct kvslab_side *side, u32 *extents)
{
	*extents = side->device->extents;
	return side->device->core;
}

u32 kvslab_side_events(struct kvslab_client *client, bool clear)
{
	u32 events = clear ? atomic_xchg(&client->events, 0) : atomic_read(&client->events), i;
	struct kvslab_side *side;

	for (i = 1; i < KVC_ARENAS_MAX; i++) {
		if (!rcu_access_pointer(client->side[i]))
			continue;
		side = have_side(client, i);
		if (!side)
			continue;
		events |= kvc_events(side->core, clear);
		kvslab_side_put(side);
	}
	return events;
}

/* ---- IMPORT ---- */

static void device_free(struct kvslab_device *d)
{
	kvfree(d->core);
	kvfree(d->arena);
	kfree(d);
}

/* With memory for the core's objects, which are not begun. */
static struct kvslab_device *device_alloc(u32 extents)
{
	struct kvslab_device *d = kzalloc(sizeof(*d), GFP_KERNEL_ACCOUNT);

	if (!d)
		return NULL;
	d->arena = kvslab_table_alloc(kvc_arena_size(extents));
	d->core = kvslab_table_alloc(kvc_pool_size());
	if (!d->arena || !d->core) {
		device_free(d);
		return NULL;
	}
	kref_init(&d->ref);
	INIT_LIST_HEAD(&d->sides);
	d->extents = extents;
	return d;
}

/* The mutex is held. */
static int may_import(struct kvslab_client *client, const struct kvslab_device *d)
{
	struct kvslab_devices *devices = &client->pool->devices;
	struct kvslab_device *other;

	if (READ_ONCE(client->pool->dead))
		return -ENODEV;
	if (client->exports)
		return -EBUSY;
	list_for_each_entry(other, &all, all)
		if (other->buf == d->buf)
			return -EBUSY;
	if (!devices->max)
		return -EACCES;
	if (devices->used > devices->max || d->extents > devices->max - devices->used)
		return -EDQUOT;
	return 0;
}

/* The mutex is held. Numbers are taken in turn, so that an old one is seldom another's soon. */
static int number(struct kvslab_devices *devices)
{
	u32 i, id;

	for (i = 0; i < KVC_ARENAS_MAX - 1; i++) {
		id = 1 + (devices->last + i) % (KVC_ARENAS_MAX - 1);
		if (devices->arena[id])
			continue;
		devices->last = id;
		return id;
	}
	return -ENOSPC;
}

/* With one more reference, for the caller. */
static int enter(struct kvslab_client *client, struct kvslab_device *d)
{
	struct kvslab_pool *pool = client->pool;
	struct kvc_pool_params params = { .min = d->extents, .max = d->extents };
	int r;

	get_random_bytes(params.secret, sizeof(params.secret));
	mutex_lock(&kvslab_device_mutex);
	r = may_import(client, d);
	if (!r)
		r = number(&pool->devices);
	if (r < 0)
		goto out;
	d->id = r;
	d->pool = pool;
	d->importer = client;
	d->importer_id = kvc_client_id(client->core);
	params.id = KVSLAB_CORE_ID(d->id, pool->id);
	kvc_arena_init_device(d->arena, d->id, d->extents, pool->devices.epoch[d->id]);
	r = kvc_pool_init(d->core, d->arena, &params, &d->core);
	if (WARN_ON(r))
		goto out;
	pool->devices.arena[d->id] = d;
	pool->devices.used += d->extents;
	list_add(&d->all, &all);
	list_add(&d->node, &client->imports);
	kref_get(&d->ref);
out:
	mutex_unlock(&kvslab_device_mutex);
	return r;
}

static struct kvslab_device *import(struct kvslab_client *client, const u8 *note, struct dma_buf *buf)
{
	struct kvslab_device *d;
	int r;

	if (kvslab_is_export(buf) || !buf->size || buf->size % KVC_EXTENT_SIZE)
		return ERR_PTR(-EINVAL);
	if (buf->size >> KVC_EXTENT_SHIFT > KVC_EXTENTS_MAX)
		return ERR_PTR(-EFBIG);
	/* Before the tables: some megabytes, for who may not. */
	if (!READ_ONCE(client->pool->devices.max))
		return ERR_PTR(-EACCES);
	d = device_alloc(buf->size >> KVC_EXTENT_SHIFT);
	if (!d)
		return ERR_PTR(-ENOMEM);
	d->buf = buf;
	memcpy(d->note, note, sizeof(d->note));
	r = enter(client, d);
	if (!r)
		return d;
	device_free(d);
	return ERR_PTR(r);
}

long kvslab_cmd_import(struct file *file, void *args, void __user *user, u32 size, bool nowait)
{
	struct kvslab_client *client = file->private_data;
	struct kvslab_args_import *a = args;
	struct kvslab_device *d;
	struct dma_buf *buf;
	LIST_HEAD(dead);
	long r = 0;

	if (READ_ONCE(client->pool->dead))
		return -ENODEV;
	if (a->flags || a->reserved || a->tier != KVSLAB_TIER_DEVICE)
		return -EINVAL;
	if (nowait)
		return -EAGAIN;
	buf = dma_buf_get(a->fd);
	if (IS_ERR(buf))
		return PTR_ERR(buf);
	d = import(client, a->note, buf);
	if (IS_ERR(d)) {
		dma_buf_put(buf);
		return PTR_ERR(d);
	}
	a->size = (u64)d->extents << KVC_EXTENT_SHIFT;
	a->extents = d->extents;
	a->arena = d->id;
	if (copy_to_user(user, args, size)) {
		mutex_lock(&kvslab_device_mutex);
		if (!d->dead)
			kill(d, &dead);
		mutex_unlock(&kvslab_device_mutex);
		bury(&dead);
		r = -EFAULT;
	}
	kref_put(&d->ref, device_end);
	if (!r)
		tell(client->pool);
	return r;
}

/* Who exports may not import, nor the reverse: then no chain of files leads from an arena to itself. */
int kvslab_exports(struct kvslab_client *client)
{
	int r = 0;

	mutex_lock(&kvslab_device_mutex);
	if (list_empty(&client->imports))
		client->exports = true;
	else
		r = -EBUSY;
	mutex_unlock(&kvslab_device_mutex);
	return r;
}

/* ---- DEPOSIT, RECEIVE ---- */

/*
 * A file that cannot keep a file of a pool: what may be sent over sockets, registered with io_uring,
 * or passed by drivers that carry descriptors stays out. So: other people's device nodes. Of those, fuse
 * and its like are misc devices; binder has a file system of its own, too.
 */
static bool is_plain_device(struct file *file)
{
	struct inode *inode = file_inode(file);

	return S_ISCHR(inode->i_mode) && imajor(inode) != MISC_MAJOR &&
	       imajor(inode) != kvslab_node_major() && inode->i_sb->s_magic != BINDERFS_SUPER_MAGIC;
}

/* The file behind a descriptor, if it may be deposited. -EBADF, -EINVAL. */
static struct file *get_deposit(int fd)
{
	struct dma_buf *buf = dma_buf_get(fd);
	struct file *file;

	if (!IS_ERR(buf)) {
		if (!kvslab_is_export(buf))
			return buf->file;
		dma_buf_put(buf);
		return ERR_PTR(-EINVAL);
	}
	file = fget(fd);
	if (!file)
		return ERR_PTR(-EBADF);
	if (is_plain_device(file))
		return file;
	fput(file);
	return ERR_PTR(-EINVAL);
}

long kvslab_cmd_deposit(struct file *file, void *args, void __user *user, u32 size, bool nowait)
{
	struct kvslab_client *client = file->private_data;
	const struct kvslab_args_deposit *a = args;
	struct kvslab_device *d;
	struct file *deposit;
	long r = 0;

	if (READ_ONCE(client->pool->dead))
		return -ENODEV;
	if (a->flags || a->reserved)
		return -EINVAL;
	if (nowait)
		return -EAGAIN;
	deposit = get_deposit(a->fd);
	if (IS_ERR(deposit))
		return PTR_ERR(deposit);
	mutex_lock(&kvslab_device_mutex);
	d = find(client->pool, a->arena);
	if (!d)
		r = -ENODEV;
	else if (d->importer != client)
		r = -EACCES;
	else if (d->deposit)
		r = -EEXIST;
	else
		d->deposit = deposit;
	mutex_unlock(&kvslab_device_mutex);
	if (r)
		fput(deposit);
	else
		tell(client->pool);
	return r;
}

long kvslab_cmd_receive(struct file *file, void *args, void __user *user, u32 size, bool nowait)
{
	struct kvslab_client *client = file->private_data;
	const struct kvslab_args_receive *a = args;
	struct file *deposit = NULL;
	struct kvslab_device *d;
	long r = 0;

	if (READ_ONCE(client->pool->dead))
		return -ENODEV;
	if (a->flags & ~KVSLAB_RECEIVE_CLOEXEC)
		return -EINVAL;
	if (nowait)
		return -EAGAIN;
	mutex_lock(&kvslab_device_mutex);
	d = find(client->pool, a->arena);
	if (!d)
		r = -ENODEV;
	else if (!d->deposit)
		r = -ENOENT;
	else
		deposit = get_file(d->deposit);
	mutex_unlock(&kvslab_device_mutex);
	if (r)
		return r;
	r = kvslab_receive_fd(deposit, a->flags & KVSLAB_RECEIVE_CLOEXEC ? O_CLOEXEC : 0);
	fput(deposit);
	return r;
}

/* ---- figures ---- */

/* kvslab_mutex is held. @max: bytes, rounded down to extents. */
int kvslab_devices_limit(struct kvslab_pool *pool, u64 max)
{
	u32 extents = min_t(u64, max >> KVC_EXTENT_SHIFT, U32_MAX);
	int r = 0;

	mutex_lock(&kvslab_device_mutex);
	if (pool->devices.used > extents)
		r = -EBUSY;
	else
		WRITE_ONCE(pool->devices.max, extents);
	mutex_unlock(&kvslab_device_mutex);
	return r;
}

/* The mutex is held. */
static void stat_one(const struct kvslab_client *client, const struct kvslab_device *d,
		     struct kvslab_stat_arena *s)
{
	struct kvc_stat stat;

	kvc_stat(d->core, &stat);
	memset(s, 0, sizeof(*s));
	s->arena = d->id;
	s->tier = KVSLAB_TIER_DEVICE;
	s->flags = (d->importer == client ? KVSLAB_ARENA_MINE : 0) |
		   (d->deposit ? KVSLAB_ARENA_DEPOSIT : 0);
	s->client = d->importer_id;
	memcpy(s->note, d->note, sizeof(s->note));
	s->size = (u64)d->extents << KVC_EXTENT_SHIFT;
	s->held = stat.held;
	s->slabs = stat.slabs;
	s->free = stat.free;
	s->private_pages = stat.private_pages;
	s->moving = stat.moving;
	s->sealed = stat.sealed;
	s->cached = stat.cached;
	s->allocs = stat.allocs;
	s->frees = stat.frees;
	s->seals = stat.seals;
	s->lookup_asked = stat.lookup_asked;
	s->lookup_hits = stat.lookup_hits;
	s->evictions = stat.evictions;
}

/* As many as fit; how many there are. @used, @max: extents of the pool's. */
u32 kvslab_devices_stat(const struct kvslab_client *client, struct kvslab_stat_arena *out, u32 n,
			u32 *used, u32 *max)
{
	struct kvslab_device *d;
	u32 i, k = 0;

	mutex_lock(&kvslab_device_mutex);
	*used = client->pool->devices.used;
	*max = client->pool->devices.max;
	for (i = 1; i < KVC_ARENAS_MAX; i++) {
		d = find(client->pool, i);
		if (d && k++ < n)
			stat_one(client, d, &out[k - 1]);
	}
	mutex_unlock(&kvslab_device_mutex);
	return k;
}

/* The caches of all arenas, from @n on; at most @most in all. How many there are then. */
u32 kvslab_devices_caches(struct kvslab_pool *pool, struct kvslab_stat_cache *out, u32 n, u32 most)
{
	struct kvslab_device *d;
	u32 i;

	mutex_lock(&kvslab_device_mutex);
	for (i = 1; i < KVC_ARENAS_MAX; i++) {
		d = find(pool, i);
		if (d)
			n = kvslab_stat_caches(d->core, i, out, n, most);
	}
	mutex_unlock(&kvslab_device_mutex);
	return n;
}

/* -ENODEV; else as kvc_slabs(). */
int kvslab_devices_slabs(struct kvslab_pool *pool, u32 id, u32 *from, struct kvc_slab_stat *slabs, u32 n)
{
	struct kvslab_device *d;
	int r = -ENODEV;

	mutex_lock(&kvslab_device_mutex);
	d = find(pool, id);
	if (d)
		r = kvc_slabs(d->core, from, slabs, n);
	mutex_unlock(&kvslab_device_mutex);
	return r;
}

/* The debug walk over all arenas: 0, or -EUCLEAN and why. */
int kvslab_devices_check(char *why, size_t n)
{
	struct kvslab_device *d;
	int r = 0;

	mutex_lock(&kvslab_device_mutex);
	list_for_each_entry(d, &all, all) {
		r = kvc_check(d->arena, why, n);
		if (r)
			break;
	}
	mutex_unlock(&kvslab_device_mutex);
	return r;
}
