/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the core takes from its surroundings: integer types, a spinlock, bit operations, a keyed
 * hash, errno, memcpy and friends. Nothing else. */
#ifndef KVC_PORT_H
#define KVC_PORT_H

#ifdef __KERNEL__

#include <linux/bitops.h>
#include <linux/build_bug.h>
#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/siphash.h>
#include <linux/spinlock.h>
#include <linux/stddef.h>
#include <linux/string.h>
#include <linux/types.h>

typedef spinlock_t kvc_lock;

#define kvc_lock_init(l) spin_lock_init(l)
#define kvc_lock_take(l) spin_lock(l)
#define kvc_lock_drop(l) spin_unlock(l)
/*
 * The debug walk takes several locks of one kind, and perhaps more of them than the preempt count
 * and lockdep can keep apart: it takes what is inside them, with preemption off once.
 */
#ifdef CONFIG_PREEMPT_RT
#define kvc_walk_begin() ((void)0)
#define kvc_walk_end() ((void)0)
#define kvc_lock_take_nested(l) spin_lock_nested(l, SINGLE_DEPTH_NESTING)
#define kvc_lock_drop_nested(l) spin_unlock(l)
#else
#define kvc_walk_begin() preempt_disable()
#define kvc_walk_end() preempt_enable()
#define kvc_lock_take_nested(l) arch_spin_lock(&(l)->rlock.raw_lock)
#define kvc_lock_drop_nested(l) arch_spin_unlock(&(l)->rlock.raw_lock)
#endif

/* A word that one may read while another writes it. */
#define kvc_read(x) READ_ONCE(x)
#define kvc_write(x, v) WRITE_ONCE(x, v)

static inline u32 kvc_ffs64(u64 v) /* index of the lowest bit of v != 0 */
{
	return __ffs64(v);
}

static inline u32 kvc_weight64(u64 v)
{
	return hweight64(v);
}

static inline u64 kvc_siphash(const void *data, size_t size, const u64 key[2])
{
	siphash_key_t k = { .key = { key[0], key[1] } };

	return siphash(data, size, &k);
}

#else

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define ____cacheline_aligned __attribute__((aligned(64)))
#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

typedef struct {
	u32 taken;
} kvc_lock;

static inline void kvc_lock_init(kvc_lock *l)
{
	__atomic_store_n(&l->taken, 0, __ATOMIC_RELAXED);
}

void kvc_lock_wait(kvc_lock *l);

static inline void kvc_lock_take(kvc_lock *l)
{
	if (unlikely(__atomic_exchange_n(&l->taken, 1, __ATOMIC_ACQUIRE)))
		kvc_lock_wait(l);
}

static inline void kvc_lock_drop(kvc_lock *l)
{
	__atomic_store_n(&l->taken, 0, __ATOMIC_RELEASE);
}

#define kvc_walk_begin() ((void)0)
#define kvc_walk_end() ((void)0)
#define kvc_lock_take_nested(l) kvc_lock_take(l)
#define kvc_lock_drop_nested(l) kvc_lock_drop(l)

/* A word that one may read while another writes it. */
#define kvc_read(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define kvc_write(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELAXED)

static inline u32 kvc_ffs64(u64 v) /* index of the lowest bit of v != 0 */
{
	return (u32)__builtin_ctzll(v);
}

static inline u32 kvc_weight64(u64 v)
{
	return (u32)__builtin_popcountll(v);
}

u64 kvc_siphash(const void *data, size_t size,
		const u64 key[2]); /* SipHash-2-4; size a multiple of 8 */

#endif
#endif
