/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * A client of a pool, and the embedded pool behind one: the core of kmod/core with memory of the
 * process. Where device is set the client is of a node, and everything is device.h's. Inside
 * runtime/pool only.
 *
 * Ownership: a client (what kvslab.h calls struct kvslab_pool) holds its pool, a pool holds its
 * arena; the last holder frees. The core has the locks; here are only counts of holders, the
 * clients that wait for events, and the pins of tests.
 */
#ifndef POOL_POOL_H
#define POOL_POOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "core.h"
#include "kvslab.h"
#include "memory.h"

struct kvslab_arena {
	atomic_uint holders; /* who opened it, and pools */
	uint32_t extents;
	struct kvc_arena *core;
	struct pool_memory memory;
	pthread_mutex_t watch_lock; /* the next two */
	struct kvslab_pool *watched; /* clients with an event descriptor */
	uint32_t pool_ids; /* given out so far */
};

struct pool_pins;

/* What the clients of a pool have in common. */
struct pool_shared {
	atomic_uint clients;
	struct kvslab_arena *arena;
	struct kvc_pool *core;
	uint32_t id; /* in its arena, as wakes say it */
	uint32_t frame_size;
	uint8_t key[KVSLAB_HASH_SIZE];
	kvslab_log_fn log; /* NULL: nobody listens */
	void *log_data;
	atomic_ulong refused; /* times that the system gave no memory */
	_Atomic(struct pool_pins *) pins; /* test.h; NULL: none was ever set */
};

struct pool_device;

struct kvslab_pool {
	struct kvc_client *core;
	struct pool_shared *shared;
	uint8_t *base; /* of the arena's memory */
	struct pool_device *device; /* NULL: embedded, which the other members are for */
	int event_fd; /* -1: nobody asked for it */
	atomic_ulong event_written; /* to it, so far */
	unsigned long event_read; /* from it: what is not yet read is why it is readable */
	struct kvslab_pool *next_watched;
};

/* Zeroed memory as the core wants it; free() takes it back. NULL: none. */
void *pool_table(size_t size);
void pool_arena_put(struct kvslab_arena *arena);

/* Does what a call of the core asks for after KVC_MORE. */
void pool_serve(struct pool_shared *shared, struct kvc_op *op);
/* Makes the event descriptors readable of whoever has an event in these pools of the arena. */
void pool_wake(struct kvslab_arena *arena, const uint32_t *ids, uint32_t n);
void pool_unwatch(struct kvslab_pool *client);

static inline void pool_op_tables(struct kvc_op *op)
{
	void *table;

	while ((table = kvc_op_table(op)))
		free(table);
}

/* The end of a call: frees what it has left over, tells the events that it brought. */
static inline void pool_op_end(struct pool_shared *shared, struct kvc_op *op)
{
	pool_op_tables(op);
	if (__builtin_expect(op->nr_wakes, 0))
		pool_wake(shared->arena, op->wake, op->nr_wakes);
}

/* Sets the bits of pinned pages. */
void pool_pins_mark(struct pool_pins *pins, struct kvc_zap *zap);

__attribute__((format(printf, 3, 4))) void
pool_log(const struct pool_shared *shared, enum kvslab_log_level level, const char *fmt, ...);

#endif
