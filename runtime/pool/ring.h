/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * A client of a pool on an event loop: its events wake the loop, and commands go to the module on the
 * loop's io_uring, with everything else that it submits. What needs no answer at once (the pages that
 * a step gave back) goes with the next submission; what does is submitted together and waited for
 * once. Where the loop has no io_uring, or the kernel takes no commands on it, the same goes as
 * ioctls; the log says so once.
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

#define RING_CALLS 48 /* at once */

struct ring_call {
	unsigned int cmd;
	uint32_t size;
	void *args;
	int result;
};

/* Make them all, in no order, and wait for the answers. False: they have to go as ioctls. */
bool pool_ring_calls(struct pool_ring *ring, struct ring_call *const *calls, uint32_t n);
/* The pool has had an event since this was last asked, or may have had. */
bool pool_ring_told(struct pool_ring *ring);
/* It could not be asked. */
void pool_ring_tell(struct pool_ring *ring);

#endif
