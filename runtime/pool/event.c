// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * Events of clients. An embedded pool's come from the core at the end of whatever call brought them,
 * in the thread that made it; a client that waits has an eventfd, and is in its arena's list.
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "device.h"
#include "pool.h"

_Static_assert(KVSLAB_EVENT_ROOM == KVC_EVENT_ROOM && KVSLAB_EVENT_PRESSURE == KVC_EVENT_PRESSURE &&
		       KVSLAB_EVENT_RELIEF == KVC_EVENT_RELIEF,
	       "events");

static bool among(const uint32_t *ids, uint32_t n, uint32_t id)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (ids[i] == id)
			return true;
	return false;
}

static void tell(struct kvslab_pool *c)
{
	atomic_fetch_add_explicit(&c->event_written, 1, memory_order_release);
	eventfd_write(c->event_fd, 1);
}

void pool_wake(struct kvslab_arena *arena, const uint32_t *ids, uint32_t n)
{
	struct kvslab_pool *c;

	pthread_mutex_lock(&arena->watch_lock);
	for (c = arena->watched; c; c = c->next_watched)
		if (among(ids, n, c->shared->id) && kvc_events(c->core, false))
			tell(c);
	pthread_mutex_unlock(&arena->watch_lock);
}

void pool_unwatch(struct kvslab_pool *client)
{
	struct kvslab_arena *arena = client->shared->arena;
	struct kvslab_pool **at;

	if (client->event_fd < 0)
		return;
	pthread_mutex_lock(&arena->watch_lock);
	for (at = &arena->watched; *at != client; at = &(*at)->next_watched)
		;
	*at = client->next_watched;
	pthread_mutex_unlock(&arena->watch_lock);
	close(client->event_fd);
	client->event_fd = -1;
}

int kvslab_pool_fd(struct kvslab_pool *pool)
{
	struct kvslab_arena *arena;
	int fd;

	if (!pool)
		return -EINVAL;
	if (pool->device)
		return pool->device->wire->ops->fd(pool->device->wire);
	if (pool->event_fd >= 0)
		return pool->event_fd;
	fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	arena = pool->shared->arena;
	pthread_mutex_lock(&arena->watch_lock);
	pool->event_fd = fd;
	pool->next_watched = arena->watched;
	arena->watched = pool;
	if (kvc_events(pool->core, false))
		tell(pool);
	pthread_mutex_unlock(&arena->watch_lock);
	return fd;
}

int kvslab_pool_events(struct kvslab_pool *pool)
{
	eventfd_t told;

	if (!pool)
		return -EINVAL;
	if (pool->device)
		return device_events(pool->device);
	/* In this order: what comes in between is returned now, and told once more for nothing. */
	if (atomic_load_explicit(&pool->event_written, memory_order_acquire) != pool->event_read &&
	    !eventfd_read(pool->event_fd, &told))
		pool->event_read += told;
	return (int)kvc_events(pool->core, true);
}
