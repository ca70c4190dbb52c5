// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "test.h"

#include "pool.h"

#define PINS 64

struct pool_pins {
	kvc_lock lock;
	uint32_t n;
	uint64_t place[PINS]; /* handles without their generation */
};

static uint64_t place_of(kvslab_handle page)
{
	return page & ~(uint64_t)KVC_GENERATION_MASK;
}

static struct pool_pins *get_pins(struct pool_shared *shared)
{
	struct pool_pins *pins = atomic_load_explicit(&shared->pins, memory_order_acquire),
			 *none = NULL;

	if (pins)
		return pins;
	pins = calloc(1, sizeof(*pins));
	if (pins && !atomic_compare_exchange_strong(&shared->pins, &none, pins)) {
		free(pins);
		pins = none;
	}
	return pins;
}

int kvslab_test_pin(struct kvslab_pool *pool, kvslab_handle page, bool pinned)
{
	struct pool_pins *pins = get_pins(pool->shared);
	uint32_t i;
	int rc = 0;

	if (!pins)
		return -ENOMEM;
	kvc_lock_take(&pins->lock);
	for (i = 0; i < pins->n && pins->place[i] != place_of(page); i++)
		;
	if (!pinned && i == pins->n)
		rc = -ENOENT;
	else if (!pinned)
		pins->place[i] = pins->place[--pins->n];
	else if (i == PINS)
		rc = -ENOSPC;
	else if (i == pins->n)
		pins->place[pins->n++] = place_of(page);
	kvc_lock_drop(&pins->lock);
	return rc;
}

void pool_pins_mark(struct pool_pins *pins, struct kvc_zap *zap)
{
	uint32_t i, index;

	kvc_lock_take(&pins->lock);
	for (i = 0; i < pins->n; i++) {
		index = kvc_handle_index(pins->place[i]);
		if (kvc_handle_extent(pins->place[i]) == zap->extent &&
		    zap->pages[index / 64] >> index % 64 & 1)
			zap->pinned[index / 64] |= 1ull << index % 64;
	}
	kvc_lock_drop(&pins->lock);
}
