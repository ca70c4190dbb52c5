// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "kmod/uapi/kvslab.h"
#include "pool.h"
#include "ring.h"
#include "runtime/loop/loop.h"

#define BATCHES 4 /* in flight; what does not find one goes as an ioctl */

struct batch {
	struct loop_command command;
	struct pool_ring *ring;
	struct kvslab_args_pages args;
	kvslab_handle pages[KVSLAB_BATCH_MAX];
	bool busy;
	bool over; /* the module is done with it, the loop does not know yet */
};

struct pool_ring {
	struct kvslab_pool *pool; /* NULL: closed, and gone with the last command */
	struct kvslab_loop *loop;
	struct loop_poll *poll;
	void (*event)(void *data);
	void *data;
	bool told; /* of an event that was not asked for yet */
	struct loop_command nop; /* finds out whether commands go this way */
	bool nop_busy;
	bool commands; /* they do */
	struct loop_command call[RING_CALLS];
	uint32_t in_flight;
	struct batch batch[BATCHES];
};

static void payload(struct loop_command *c, unsigned int cmd, const void *args, uint32_t size)
{
	struct kvslab_cmd p = { .args = (uintptr_t)args, .size = size };

	_Static_assert(sizeof(p) == sizeof(c->payload), "payload");
	c->cmd = cmd;
	memcpy(c->payload, &p, sizeof(p));
}

static void ring_free(struct pool_ring *ring)
{
	if (!ring->pool && !ring->in_flight && !ring->nop_busy)
		free(ring);
}

static void say_ioctl(struct pool_ring *ring, const char *why)
{
	device_log(ring->pool->device, KVSLAB_LOG_INFO,
		   "commands to the pool go as ioctls, one by one: %s", why);
}

static void nop_done(struct loop_command *c, int result)
{
	struct pool_ring *ring =
		(struct pool_ring *)((char *)c - offsetof(struct pool_ring, nop));

	ring->nop_busy = false;
	if (ring->pool) {
		ring->commands = !result;
		if (result)
			say_ioctl(ring, "this kernel takes none of them on an io_uring");
	}
	ring_free(ring);
}

/* Every page was one that the client held: what fails is the way, or the pool is no more. */
static void batch_done(struct loop_command *c, int result)
{
	struct batch *b = (struct batch *)((char *)c - offsetof(struct batch, command));
	struct pool_ring *ring = b->ring;

	b->busy = false;
	ring->in_flight--;
	if (result < 0 && ring->pool) {
		struct pool_wire *wire = ring->pool->device->wire;

		result = wire->ops->command(wire, KVSLAB_CMD_FREE, &b->args, sizeof(b->args));
		if (result < 0 && result != -ENODEV)
			device_log(ring->pool->device, KVSLAB_LOG_ERROR,
				   "%u pages could not be given back: %s", b->args.count,
				   kvslab_strerror(result));
	}
	ring_free(ring);
}

static void poll_ready(void *data)
{
	struct pool_ring *ring = data;

	ring->told = true;
	ring->event(ring->data);
}

int pool_ring_open(struct pool_ring **out, struct kvslab_pool *pool, struct kvslab_loop *loop,
		   void (*event)(void *data), void *data)
{
	struct pool_ring *ring;
	int fd = kvslab_pool_fd(pool), rc;

	if (fd < 0)
		return fd;
	if (pool->device && pool->device->ring)
		return -EBUSY;
	ring = calloc(1, sizeof(*ring));
	if (!ring)
		return -ENOMEM;
	ring->pool = pool;
	ring->loop = loop;
	ring->event = event;
	ring->data = data;
	ring->told = true;
	rc = loop_poll_open(loop, &ring->poll, fd, poll_ready, ring);
	if (rc) {
		free(ring);
		return rc;
	}
	*out = ring;
	if (!pool->device)
		return 0;
	pool->device->ring = ring;
	payload(&ring->nop, KVSLAB_CMD_NOP, NULL, 0);
	ring->nop.done = nop_done;
	if (!pool->device->wire->rings)
		return 0;
	if (loop_command(loop, &ring->nop, fd))
		say_ioctl(ring, "io_uring is refused here");
	else
		ring->nop_busy = true;
	return 0;
}

void pool_ring_close(struct pool_ring *ring)
{
	if (!ring)
		return;
	pool_ring_push(ring);
	loop_poll_close(ring->poll);
	if (ring->pool->device)
		ring->pool->device->ring = NULL;
	ring->pool = NULL;
	ring_free(ring);
}

static struct batch *free_batch(struct pool_ring *ring)
{
	int i;

	for (i = 0; i < BATCHES; i++)
		if (!ring->batch[i].busy)
			return &ring->batch[i];
	return NULL;
}

int pool_free_later(struct kvslab_pool *pool, const kvslab_handle *pages, uint32_t n)
{
	struct pool_device *d = pool->device;
	struct batch *b = d && d->ring && d->ring->commands && n <= KVSLAB_BATCH_MAX ?
		free_batch(d->ring) : NULL;
	uint32_t i;

	if (!b)
		return kvslab_free(pool, pages, n);
	memcpy(b->pages, pages, n * sizeof(*pages));
	b->ring = d->ring;
	b->args = (struct kvslab_args_pages){ .pages = (uintptr_t)b->pages, .count = n };
	payload(&b->command, KVSLAB_CMD_FREE, &b->args, sizeof(b->args));
	b->command.done = batch_done;
	if (loop_command(d->ring->loop, &b->command, d->wire->ops->fd(d->wire)))
		return kvslab_free(pool, pages, n);
	b->busy = true;
	b->over = false;
	d->ring->in_flight++;
	for (i = 0; i < n; i++)
		held_drop(&d->held, pages[i]);
	return 0;
}

bool pool_ring_push(struct pool_ring *ring)
{
	bool any = false;
	int i;

	if (!ring || !ring->in_flight)
		return false;
	for (i = 0; i < BATCHES; i++) {
		if (!ring->batch[i].busy || ring->batch[i].over)
			continue;
		loop_command_await(&ring->batch[i].command);
		ring->batch[i].over = true;
		any = true;
	}
	return any;
}

bool pool_ring_calls(struct pool_ring *ring, struct ring_call *const *calls, uint32_t n)
{
	struct loop_command *at[RING_CALLS];
	uint32_t i;

	if (!ring->commands || n > RING_CALLS)
		return false;
	for (i = 0; i < n; i++) {
		at[i] = &ring->call[i];
		payload(at[i], calls[i]->cmd, calls[i]->args, calls[i]->size);
	}
	if (loop_commands(ring->loop, at, n, ring->pool->device->wire->ops->fd(ring->pool->device->wire)))
		return false;
	for (i = 0; i < n; i++)
		calls[i]->result = ring->call[i].result;
	return true;
}

bool pool_ring_told(struct pool_ring *ring)
{
	bool told = ring->told;

	ring->told = false; /* before the question: what comes meanwhile is told again */
	return told;
}

void pool_ring_tell(struct pool_ring *ring)
{
	ring->told = true;
}
