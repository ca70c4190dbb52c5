/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * The embedded pool: the core of kmod/core with memory of the process behind it. Inside
 * runtime/pool only.
 *
 * Ownership: a client (what kvslab.h calls struct kvslab_pool) holds its pool, a pool holds its
 * arena; the last holder frees. The core has the locks; here are only counts of holders and the
 * pins of tests.
 */
#ifndef POOL_POOL_H
#define POOL_POOL_H

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
};

struct pool_pins;

/* What the clients of a pool have in common. */
struct pool_shared {
	atomic_uint clients;
	struct kvslab_arena *arena;
	struct kvc_pool *core;
	uint32_t frame_size;
	uint8_t key[KVSLAB_HASH_SIZE];
	kvslab_log_fn log; /* NULL: nobody listens */
	void *log_data;
	atomic_ulong refused; /* times that the system gave no memory */
	_Atomic(struct pool_pins *) pins; /* test.h; NULL: none was ever set */
};

struct kvslab_pool {
	struct kvc_client *core;
	struct pool_shared *shared;
	uint8_t *base; /* of the arena's memory */
};

/* Zeroed memory as the core wants it; free() takes it back. NULL: none. */
void *pool_table(size_t size);
void pool_arena_put(struct kvslab_arena *arena);

/* Does what a call of the core asks for after KVC_MORE. */
void pool_serve(struct pool_shared *shared, struct kvc_op *op);
/* Frees what a call has left over. */
static inline void pool_op_end(struct kvc_op *op)
{
	void *table;

	while ((table = kvc_op_table(op)))
		free(table);
}

/* Sets the bits of pinned pages. */
void pool_pins_mark(struct pool_pins *pins, struct kvc_zap *zap);

__attribute__((format(printf, 3, 4))) void
pool_log(const struct pool_shared *shared, enum kvslab_log_level level, const char *fmt, ...);

#endif
