/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The module around the core: pools as device nodes, clients as open files, memory behind extents,
 * windows on it.
 *
 * Who keeps whom. A pool is kept by its name (until DESTROY) and by its clients; a client by its
 * file, a file by its descriptors, mappings and dma-bufs. The last one to go ends the pool. Device
 * memory: see import.c.
 *
 * Locks, outside those of the core (core/core.h), which are the innermost:
 *
 *   kvslab_mutex            names, nodes and limits of pools; their lists of clients
 *   kvslab_device_mutex     (import.c) arenas of device memory, and who has sides of them
 *   pool->cache_mutex       one CACHE command at a time
 *   mmap_lock               (the kernel's) held where a fault or mmap() comes in
 *   extent->map_sem         read: from looking at a page's state to having mapped its frames; write:
 *                           unmapping them, looking at their counts, taking the memory away
 *   i_mmap_rwsem            (the kernel's) inside unmap_mapping_range()
 *   pool->users_lock        a spinlock: which processes have windows; under mmap_lock
 *
 * No lock is held while memory is allocated for an extent or a table, nor while user memory is
 * copied. A fault allocates page tables under map_sem, so the shrinker only tries it.
 */
#ifndef _KVSLAB_KMOD_H
#define _KVSLAB_KMOD_H

#include <linux/fs.h>
#include <linux/kdev_t.h>
#include <linux/kref.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/slab.h>
#include <linux/uidgid.h>
#include <linux/wait.h>
#include <linux/xarray.h>

#include "compat.h"
#include "core.h"
#include "kvslab.h"

#define KVSLAB_FRAMES (KVC_EXTENT_SIZE / PAGE_SIZE) /* in an extent */

struct poll_table_struct;
struct io_uring_cmd;
struct dma_buf;

/* ---- hostmem.c: the arena and the memory behind its extents ---- */

struct kvslab_pool;

struct kvslab_extent {
	struct rw_semaphore map_sem;
	struct page *base; /* of contiguous frames, or NULL */
	struct page **frames; /* [KVSLAB_FRAMES] of others, or NULL */
	struct kvslab_token *token; /* for the shrinker; there while there is memory */
	struct kvslab_pool *pool; /* whose slab is here, or comes here */
};

extern struct kvc_arena *kvslab_arena;
extern struct kvslab_extent *kvslab_extents;
extern u32 kvslab_nr_extents;

int kvslab_host_init(u32 extents);
void kvslab_host_exit(void);
/* Memory without old bytes behind an extent that is reserved for a slab of the pool. */
int kvslab_extent_back(struct kvslab_pool *pool, u32 extent);
/* The reverse, with map_sem held for writing; whatever maps the extent is unmapped. */
void kvslab_extent_drop(struct kvslab_pool *pool, u32 extent);
void *kvslab_table_alloc(size_t size); /* zeroed, as the core wants it; kvfree() */

static inline struct page *kvslab_frame(const struct kvslab_extent *x, u32 i)
{
	return x->base ? x->base + i : x->frames[i];
}

/* ---- pools and clients ---- */

struct kvslab_node;
struct kvslab_device;
struct kvslab_side;

/* A pool's arenas of device memory; import.c's, under its mutex. */
struct kvslab_devices {
	struct kvslab_device *arena[KVC_ARENAS_MAX]; /* by number; 0 is the host's: NULL */
	u32 epoch[KVC_ARENAS_MAX]; /* where the next with this number begins */
	u32 last; /* number given */
	u32 used, max; /* extents */
};

struct kvslab_pool {
	struct kvc_pool *core;
	struct kref ref; /* its name, and each client */
	u32 id; /* and the minor of its node */
	bool dead; /* was destroyed; never false again */
	char name[KVSLAB_NAME_SIZE];
	u8 key[KVSLAB_CMD_HASH];
	int numa;
	struct mem_cgroup *memcg; /* who pays; NULL: nobody */
	struct inode *inode; /* whose mapping all windows are in */
	wait_queue_head_t wait; /* who polls */
	struct kvslab_counters *counters; /* one frame */
	struct mutex cache_mutex;
	struct kvslab_devices devices;
	atomic64_t reclaimed; /* extents */
	spinlock_t users_lock; /* of users: window.c */
	struct list_head users;
	/* kvslab_mutex */
	struct list_head node; /* in kvslab_pool_list, while it has its name */
	struct list_head clients;
	u32 nr_clients;
	struct device *dev; /* its node */
	kuid_t uid;
	kgid_t gid;
	umode_t mode;
	u32 low, high; /* 1/1000 of max */
	/* reclaim.c */
	struct list_head reclaim;
	struct kvslab_token *bell;
	struct rcu_head rcu;
};

struct kvslab_client {
	struct kvslab_pool *pool;
	struct kvc_client *core;
	struct list_head node; /* in its pool */
	struct pid *pid; /* who opened it */
	char comm[TASK_COMM_LEN];
	void *work; /* command.c's, when no command has it */
	/* import.c */
	struct kvslab_side __rcu *side[KVC_ARENAS_MAX]; /* of device arenas */
	struct list_head imports;
	bool exports; /* it has, so it may not import */
	atomic_t events; /* beside the core's */
};

extern struct mutex kvslab_mutex;
extern struct list_head kvslab_pool_list;
extern struct xarray kvslab_pools; /* by id; freed after a grace period */

/* pool.c */
int kvslab_pool_create(const struct kvslab_args_create *args, struct kvslab_pool **pool);
int kvslab_pool_set(const struct kvslab_args_set *args);
/* By name; @flags: KVSLAB_DESTROY_*. */
int kvslab_pool_destroy(const char *name, u32 flags);
void kvslab_pool_put(struct kvslab_pool *pool);
/* kvslab_mutex held. */
void kvslab_pool_stat(struct kvslab_pool *pool, struct kvslab_stat_pool *stat);

/* pooldev.c: nodes, files */
extern const struct file_operations kvslab_pool_fops;
int kvslab_nodes_init(void);
void kvslab_nodes_exit(void);
int kvslab_node_add(struct kvslab_pool *pool); /* kvslab_mutex held */
void kvslab_node_del(struct kvslab_pool *pool); /* likewise */
u32 kvslab_node_major(void);
struct inode *kvslab_inode_new(void);

/* control.c */
int kvslab_control_init(void);
void kvslab_control_exit(void);

/* serve.c: what the core's calls ask for. After the last call, kvslab_serve_end(). @pool: whose host
 * memory it is; NULL: of device memory. */
void kvslab_serve(struct kvslab_pool *pool, struct kvc_op *op);
void kvslab_serve_end(struct kvslab_pool *pool, struct kvc_op *op);

#define KVSLAB_RUN(pool, op, call)                    \
	({                                            \
		int run_r;                            \
                                                      \
		while ((run_r = (call)) == KVC_MORE)  \
			kvslab_serve(pool, op);       \
		kvslab_serve_end(pool, op);           \
		run_r;                                \
	})

/* ---- args.c: commands' arguments ---- */

/* One command: its number, and the size of its structure's first version and of today's. */
struct kvslab_command {
	u32 op;
	u32 first, size;
	bool write; /* wants a descriptor open for reading and writing */
	/* @args: the structure, zeros where the caller's is shorter; @user: where it came from. */
	long (*run)(struct file *file, void *args, void __user *user, u32 size, bool nowait);
};

long kvslab_ioctl(struct file *file, const struct kvslab_command *commands, u32 n, u32 op,
		  unsigned long arg);
int kvslab_uring(struct io_uring_cmd *cmd, unsigned int flags, const struct kvslab_command *commands,
		 u32 n);
/* Copies that refuse the pools' own windows: 0 or -EFAULT. */
int kvslab_copy_in(void *to, u64 from, size_t n);
int kvslab_copy_out(u64 to, const void *from, size_t n);
bool kvslab_args_ok(u64 address, size_t n);
#define KVSLAB_SIZE_MAX 512 /* of any command's structure */

/* command.c, stat.c */
extern const struct kvslab_command kvslab_pool_commands[];
extern const u32 kvslab_nr_pool_commands;
long kvslab_cmd_stat(struct file *file, void *args, void __user *user, u32 size, bool nowait);
long kvslab_cmd_slabs(struct file *file, void *args, void __user *user, u32 size, bool nowait);
u32 kvslab_stat_caches(struct kvc_pool *core, u32 arena, struct kvslab_stat_cache *out, u32 n, u32 most);

/* map.c */
extern const struct vm_operations_struct kvslab_vm_ops, kvslab_counters_vm_ops;
extern atomic_t kvslab_windows; /* changes whenever one comes: mapped, moved, inherited */
int kvslab_mmap(struct file *file, struct vm_area_struct *vma);
/* map_sem held for writing. */
void kvslab_unmap(struct kvslab_pool *pool, u32 extent, u32 offset, u32 size);
void kvslab_unmap_all(struct kvslab_pool *pool); /* of a dead pool */

/* window.c: processes that have windows on a pool. Each in a vma's mmap(), open and close. */
int kvslab_window_add(struct kvslab_pool *pool, struct vm_area_struct *vma);
void kvslab_window_copied(struct kvslab_pool *pool, struct vm_area_struct *vma);
void kvslab_window_del(struct kvslab_pool *pool, struct vm_area_struct *vma);
/* Whether some of them is unmapping something, and may have frames that it will let go of. What
 * begins later has none that were zapped before. */
bool kvslab_window_unmapping(struct kvslab_pool *pool);

/* event.c */
int kvslab_counters_init(struct kvslab_pool *pool);
void kvslab_counters_exit(struct kvslab_pool *pool);
void kvslab_wake(const struct kvc_op *op);
__poll_t kvslab_poll(struct file *file, struct poll_table_struct *table);
long kvslab_cmd_events(struct file *file, void *args, void __user *user, u32 size, bool nowait);

/* reclaim.c */
int kvslab_reclaim_init(void);
void kvslab_reclaim_exit(void);
int kvslab_reclaim_add(struct kvslab_pool *pool);
/* Before the pool's end: no new call on it comes from here, but for slabs that nobody holds. After
 * it: nobody here knows of it. */
void kvslab_reclaim_forget(struct kvslab_pool *pool);
void kvslab_reclaim_drain(struct kvslab_pool *pool);
struct kvslab_token *kvslab_token_alloc(struct kvslab_pool *pool, u32 extent);
void kvslab_token_free(struct kvslab_token *token);
void kvslab_quarantine_kick(void);

/* dmabuf.c */
long kvslab_cmd_export(struct file *file, void *args, void __user *user, u32 size, bool nowait);

bool kvslab_is_export(const struct dma_buf *buf);

/* import.c: arenas of device memory */
long kvslab_cmd_import(struct file *file, void *args, void __user *user, u32 size, bool nowait);
long kvslab_cmd_deposit(struct file *file, void *args, void __user *user, u32 size, bool nowait);
long kvslab_cmd_receive(struct file *file, void *args, void __user *user, u32 size, bool nowait);
struct kvslab_side *kvslab_side_get(struct kvslab_client *client, u32 id, bool join, bool nowait);
void kvslab_side_put(struct kvslab_side *side);
struct kvc_client *kvslab_side_core(struct kvslab_side *side);
struct kvc_pool *kvslab_side_pool(struct kvslab_side *side, u32 *extents);
u32 kvslab_side_events(struct kvslab_client *client, bool clear);
void kvslab_devices_leave(struct kvslab_client *client);
void kvslab_devices_end(struct kvslab_pool *pool);
int kvslab_exports(struct kvslab_client *client); /* it is about to: 0 or -EBUSY */
int kvslab_devices_limit(struct kvslab_pool *pool, u64 max);
u32 kvslab_devices_stat(const struct kvslab_client *client, struct kvslab_stat_arena *out, u32 n,
			u32 *used, u32 *max);
u32 kvslab_devices_caches(struct kvslab_pool *pool, struct kvslab_stat_cache *out, u32 n, u32 most);
int kvslab_devices_slabs(struct kvslab_pool *pool, u32 id, u32 *from, struct kvc_slab_stat *slabs, u32 n);
int kvslab_devices_check(char *why, size_t n);

/* Pools of the core, as wakes and tracepoints name them: the pool's id, and its arena above it. */
#define KVSLAB_CORE_ID(arena, pool) ((arena) << MINORBITS | (pool))
#define KVSLAB_CORE_POOL(id) ((id) & MINORMASK)
/* Caches, as commands name them; 0 .. 15 are of host memory. */
#define KVSLAB_CACHE_ID(arena, cache) ((arena) << 8 | (cache))
#define KVSLAB_CACHE_ARENA(id) ((id) >> 8)
#define KVSLAB_CACHE_CORE(id) ((id) & 0xff)

/* debug.c */
void kvslab_debug_init(void);
void kvslab_debug_exit(void);

#endif
