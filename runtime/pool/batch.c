// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "batch.h"

#include <errno.h>

#include "device.h"
#include "pool.h"

static int call_one(struct kvslab_pool *pool, struct pool_call *c)
{
	switch (c->kind) {
	case POOL_EVENTS:
		return kvslab_pool_events(pool);
	case POOL_ALLOC:
		return kvslab_alloc(pool, c->cache, c->pages, c->n, c->flags);
	case POOL_LOOKUP:
		return kvslab_lookup(pool, c->cache, c->hashes, c->n, c->pages);
	case POOL_SEAL:
		return kvslab_seal(pool, c->seals, c->n);
	}
	return -EINVAL;
}

void pool_calls(struct kvslab_pool *pool, struct pool_call *calls, uint32_t n)
{
	uint32_t i;

	if (pool->device) {
		device_calls(pool->device, calls, n);
		return;
	}
	for (i = 0; i < n; i++)
		calls[i].result = call_one(pool, &calls[i]);
}
