/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * Several calls to a pool at once: what a scheduler's step asks for before it can go on. On a node that an event loop
 * with io_uring drives they are submitted together, with everything else the loop has to submit, and waited for once. As
 * ioctls, and on an embedded pool, they are made one after the other. Nobody may rely on their order.
 */
#ifndef POOL_BATCH_H
#define POOL_BATCH_H

#include <stdint.h>

#include "kvslab.h"

enum pool_call_kind {
	POOL_EVENTS, /* 0 without asking, where the loop would have told of an event */
	POOL_ALLOC,
	POOL_LOOKUP,
	POOL_SEAL, /* at most one among calls that are made together */
};

struct pool_call {
	enum pool_call_kind kind;
	uint32_t cache, n, flags;
	kvslab_handle *pages; /* [n]; out */
	const struct kvslab_hash *hashes; /* [n] */
	struct kvslab_seal *seals; /* [n]; in and out */
	int result; /* what kvslab_pool_events, _alloc, _lookup and _seal return */
};

void pool_calls(struct kvslab_pool *pool, struct pool_call *calls, uint32_t n);

#endif
