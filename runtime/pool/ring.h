/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * A client of a pool on an event loop: its events wake the loop, and what needs no answer at once
 * (the pages that a step gave back) goes to the module as io_uring commands, with everything else
 * that the loop submits. Where the loop has no io_uring, or the kernel takes no commands on it, the
 * same goes as ioctls; the log says so once.
 */
#ifndef POOL_RING_H
#define POOL_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "kvslab.h"

struct pool_ring;

/* @event is called from the loop when the pool's descriptor is ready; it is to take the events, or
 * make somebody do so. One ring a client. -EBUSY: it has one; -ENOMEM; what kvslab_pool_fd says. */
int pool_ring_open(struct pool_ring **ring, struct kvslab_pool *pool, struct kvslab_loop *loop,
		   void (*event)(void *data), void *data);
/* Before its client and its loop are closed. What was given back is given back. */
void pool_ring_close(struct pool_ring *ring);

/* Give pages back, now or with the loop's next submission; they are no longer the client's at
 * once. @n is at most KVSLAB_BATCH_MAX. Without a ring: kvslab_free. */
int pool_free_later(struct kvslab_pool *pool, const kvslab_handle *pages, uint32_t n);
/* Have what was to go later go now, and wait until it is done. True: something went. */
bool pool_ring_push(struct pool_ring *ring);

#endif
