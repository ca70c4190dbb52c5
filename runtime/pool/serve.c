// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Needs and effects of the core's calls, done with no lock held. */
#include <stdarg.h>
#include <stdio.h>

#include "pool.h"

void pool_log(const struct pool_shared *shared, enum kvslab_log_level level, const char *fmt, ...)
{
	char message[256];
	va_list ap;

	if (!shared->log)
		return;
	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	shared->log(shared->log_data, level, message);
}

/* A refusal is told the first time, the second, the fourth, ...: it may come with every call. */
static void tell_refusal(struct pool_shared *shared)
{
	unsigned long n = atomic_fetch_add_explicit(&shared->refused, 1, memory_order_relaxed) + 1;

	if (!(n & (n - 1)))
		pool_log(shared, KVSLAB_LOG_WARNING,
			 "the system gave no memory for an extent of the arena (%lu times so far); "
			 "free some, raise its limits, or open a smaller arena",
			 n);
}

static void supply(struct pool_shared *shared, struct kvc_need *need)
{
	if (need->kind == KVC_NEED_SLAB && pool_memory_back(&shared->arena->memory, need->extent)) {
		tell_refusal(shared);
		return;
	}
	/* Nothing is behind a backed extent before it is touched: a need may still be declined. */
	if (need->size[1]) {
		need->mem[1] = pool_table(need->size[1]);
		if (!need->mem[1]) {
			tell_refusal(shared);
			return;
		}
	}
	need->mem[0] = pool_table(need->size[0]);
	if (!need->mem[0]) {
		free(need->mem[1]);
		need->mem[1] = NULL;
		tell_refusal(shared);
	}
}

void pool_serve(struct pool_shared *shared, struct kvc_op *op)
{
	struct pool_pins *pins = atomic_load_explicit(&shared->pins, memory_order_acquire);
	uint32_t i;

	/* Nothing is mapped page by page in the process itself, so there is nothing to unmap. */
	for (i = 0; pins && i < op->nr_zaps; i++)
		pool_pins_mark(pins, &op->zap[i]);
	for (i = 0; i < op->nr_releases; i++)
		pool_memory_drop(&shared->arena->memory, op->release[i].extent);
	for (i = 0; i < op->nr_needs; i++)
		supply(shared, &op->need[i]);
	pool_op_tables(op);
}
