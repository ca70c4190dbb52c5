/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What differs between kernels. The sources are written for the newest; Kbuild looks into the
 * target's headers and sets KVSLAB_HAVE_*, so that backports are seen too.
 */
#ifndef _KVSLAB_COMPAT_H
#define _KVSLAB_COMPAT_H

#include <linux/file.h>
#include <linux/io_uring.h>
#include <linux/list_lru.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/shrinker.h>
#include <linux/slab.h>
#include <linux/swap.h>

#include "kvslab.h"

#ifdef KVSLAB_HAVE_URING_CMD_H
#include <linux/io_uring/cmd.h>
#endif

/* A large variable that is filled before it is read: kernels may clear it otherwise. */
#if __has_attribute(uninitialized)
#define KVSLAB_UNINITIALIZED __attribute__((uninitialized))
#else
#define KVSLAB_UNINITIALIZED
#endif

/* ---- the 16 bytes of a command in an SQE ---- */

static inline const void *kvslab_sqe_cmd(struct io_uring_cmd *cmd)
{
#if defined(KVSLAB_HAVE_SQE_CMD_TYPE)
	return io_uring_sqe_cmd(cmd->sqe, struct kvslab_cmd);
#elif defined(KVSLAB_HAVE_SQE_CMD)
	return io_uring_sqe_cmd(cmd->sqe);
#else
	return cmd->cmd;
#endif
}

static inline void kvslab_uring_done(struct io_uring_cmd *cmd, long result, unsigned int flags)
{
#ifdef KVSLAB_HAVE_URING_DONE32
	io_uring_cmd_done(cmd, result, flags);
#else
	io_uring_cmd_done(cmd, result, 0, flags);
#endif
}

/* ---- flags of a mapping ---- */

#ifndef KVSLAB_HAVE_VM_FLAGS_SET
static inline void vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags |= flags;
}

static inline void vm_flags_clear(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags &= ~flags;
}
#endif

/* ---- a descriptor for a file, if the security module lets it pass ---- */

static inline int kvslab_receive_fd(struct file *file, unsigned int flags)
{
#ifdef KVSLAB_HAVE_RECEIVE_FD_USER
	return receive_fd(file, NULL, flags);
#else
	return receive_fd(file, flags);
#endif
}

/* ---- list_lru ---- */

#ifndef KVSLAB_HAVE_LIST_LRU_OBJ
#define list_lru_add_obj(lru, item) list_lru_add(lru, item)
#define list_lru_del_obj(lru, item) list_lru_del(lru, item)
#endif

#ifdef KVSLAB_HAVE_LRU_LOCK_ARG
#define KVSLAB_LRU_LOCK_ARG , spinlock_t *lock
#else
#define KVSLAB_LRU_LOCK_ARG
#endif

/* ---- shrinkers ---- */

#ifndef KVSLAB_HAVE_ACCOUNT_RECLAIMED
/* Who reclaims learns of frames that it gets by a shrinker, and stops when they are enough. */
static inline void mm_account_reclaimed_pages(unsigned long frames)
{
	if (current->reclaim_state)
		current->reclaim_state->reclaimed_slab += frames;
}
#endif

/* Where there is no shrinker_alloc(), a shrinker has its id, which list_lru wants, only once it is
 * registered: it may be called before its list is there. */
#ifndef KVSLAB_HAVE_SHRINKER_ALLOC
static inline struct shrinker *kvslab_shrinker_alloc(const char *name, unsigned int flags,
						     long batch,
						     typeof(((struct shrinker *)0)->count_objects) count,
						     typeof(((struct shrinker *)0)->scan_objects) scan)
{
	struct shrinker *shrinker = kzalloc(sizeof(*shrinker), GFP_KERNEL);

	if (!shrinker)
		return NULL;
	shrinker->flags = flags;
	shrinker->count_objects = count;
	shrinker->scan_objects = scan;
	shrinker->seeks = 1;
	shrinker->batch = batch;
	if (register_shrinker(shrinker, "%s", name)) {
		kfree(shrinker);
		return NULL;
	}
	return shrinker;
}

static inline void kvslab_shrinker_start(struct shrinker *shrinker)
{
}

static inline void kvslab_shrinker_free(struct shrinker *shrinker)
{
	unregister_shrinker(shrinker);
	kfree(shrinker);
}
#else
static inline struct shrinker *kvslab_shrinker_alloc(const char *name, unsigned int flags,
						     long batch,
						     typeof(((struct shrinker *)0)->count_objects) count,
						     typeof(((struct shrinker *)0)->scan_objects) scan)
{
	struct shrinker *shrinker = shrinker_alloc(flags, "%s", name);

	if (!shrinker)
		return NULL;
	shrinker->count_objects = count;
	shrinker->scan_objects = scan;
	shrinker->seeks = 1;
	shrinker->batch = batch;
	return shrinker;
}

static inline void kvslab_shrinker_start(struct shrinker *shrinker)
{
	shrinker_register(shrinker);
}

static inline void kvslab_shrinker_free(struct shrinker *shrinker)
{
	shrinker_free(shrinker);
}
#endif

/* ---- device nodes ---- */

#ifdef KVSLAB_HAVE_DEVNODE_CONST
#define KVSLAB_DEVNODE_DEV const struct device
#else
#define KVSLAB_DEVNODE_DEV struct device
#endif

#ifdef KVSLAB_HAVE_CLASS_CREATE_OWNER
#define kvslab_class_create(name) class_create(THIS_MODULE, name)
#else
#define kvslab_class_create(name) class_create(name)
#endif

/* ---- symbol namespaces ---- */

#ifdef KVSLAB_HAVE_IMPORT_NS_STRING
#define KVSLAB_IMPORT_DMA_BUF MODULE_IMPORT_NS("DMA_BUF")
#else
#define KVSLAB_IMPORT_DMA_BUF MODULE_IMPORT_NS(DMA_BUF)
#endif

#endif
