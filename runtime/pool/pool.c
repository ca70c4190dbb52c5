// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Pools and their clients: opening, sharing, closing; caches. */
#include <sched.h>
#include <sodium.h>
#include <unistd.h>

#include "device.h"
#include "pool.h"
#include "spec.h"

/* A client of @shared, whose count of clients holds one for it already. */
static int client_open(struct pool_shared *shared, struct kvslab_pool **client)
{
	struct kvslab_pool *c = calloc(1, sizeof(*c));
	void *mem = pool_table(kvc_client_size(shared->core));
	int rc = -ENOMEM;

	if (c && mem)
		rc = kvc_client_init(mem, shared->core, &c->core);
	if (rc) {
		free(mem);
		free(c);
		return rc;
	}
	c->shared = shared;
	c->event_fd = -1;
	atomic_init(&c->event_written, 0);
	c->base = shared->arena->memory.base;
	*client = c;
	return 0;
}

/* The last client is gone. */
static void shared_close(struct pool_shared *shared)
{
	struct kvc_op op;
	int rc;

	kvc_op_init(&op);
	while ((rc = kvc_pool_exit(shared->core, &op))) {
		if (rc == KVC_MORE)
			pool_serve(shared, &op);
		else
			sched_yield(); /* another pool takes a slab just now */
	}
	pool_op_end(shared, &op);
	free(shared->core);
	free(atomic_load_explicit(&shared->pins, memory_order_acquire));
	pool_arena_put(shared->arena);
	sodium_memzero(shared->key, sizeof(shared->key));
	free(shared);
}

#define LOW_DEFAULT 750
#define HIGH_DEFAULT 900

/* Shares of max to extents. */
static int marks(const struct kvslab_pool_opts *opts, struct kvc_pool_params *params)
{
	uint64_t low = opts && opts->low ? opts->low : LOW_DEFAULT;
	uint64_t high = opts && opts->high ? opts->high : HIGH_DEFAULT;

	if (low > high || high > 1000)
		return -EINVAL;
	params->low = (uint32_t)(params->max * low / 1000);
	params->high = (uint32_t)(params->max * high / 1000);
	return 0;
}

/* Bytes to extents, and what is not given to what it then is. */
static int limits(const struct pool_spec *spec, const struct kvslab_pool_opts *opts,
		  uint32_t extents, struct kvc_pool_params *params)
{
	uint64_t size = spec->size ? spec->size : (uint64_t)extents * KVSLAB_EXTENT_SIZE;
	uint64_t min = opts ? opts->min : 0, max = opts && opts->max ? opts->max : size;

	if (min > max)
		return -EINVAL;
	min = min / KVSLAB_EXTENT_SIZE + !!(min % KVSLAB_EXTENT_SIZE);
	max /= KVSLAB_EXTENT_SIZE;
	if (!max || min > max)
		return -EINVAL;
	if (min > extents)
		return -ENOSPC;
	params->min = (uint32_t)min;
	params->max = max < extents ? (uint32_t)max : extents;
	return marks(opts, params);
}

static int shared_open(struct kvslab_arena *arena, const struct pool_spec *spec,
		       const struct kvslab_pool_opts *opts, struct pool_shared **shared)
{
	struct pool_shared *s = calloc(1, sizeof(*s));
	void *mem = pool_table(kvc_pool_size());
	struct kvc_pool_params params = { 0 };
	long frame = sysconf(_SC_PAGESIZE);
	int rc = -ENOMEM;

	if (!s || !mem)
		goto fail;
	rc = limits(spec, opts, arena->extents, &params);
	if (rc)
		goto fail;
	randombytes_buf(s->key, sizeof(s->key));
	randombytes_buf(params.secret, sizeof(params.secret));
	pthread_mutex_lock(&arena->watch_lock);
	params.id = s->id = ++arena->pool_ids;
	pthread_mutex_unlock(&arena->watch_lock);
	rc = kvc_pool_init(mem, arena->core, &params, &s->core);
	if (rc)
		goto fail;
	atomic_init(&s->clients, 1);
	atomic_init(&s->refused, 0);
	atomic_init(&s->pins, NULL);
	s->frame_size = frame > (long)KVC_FRAME_SIZE ? (uint32_t)frame : KVC_FRAME_SIZE;
	s->arena = arena;
	if (opts) {
		s->log = opts->log;
		s->log_data = opts->log_data;
	}
	*shared = s;
	return 0;

fail:
	free(mem);
	free(s);
	return rc;
}

int kvslab_pool_open(struct kvslab_pool **pool, const char *spec,
		     const struct kvslab_pool_opts *opts)
{
	struct kvslab_arena *arena = opts ? opts->arena : NULL;
	struct pool_shared *shared;
	struct pool_spec parsed;
	int rc;

	if (!pool)
		return -EINVAL;
	if (spec && *spec == '/')
		return device_open_path(pool, spec, opts);
	rc = pool_spec_parse(&parsed, spec);
	if (rc)
		return rc;
	if (!arena && !parsed.size)
		return -EINVAL;
	if (sodium_init() < 0)
		return -EIO;
	if (arena) {
		atomic_fetch_add_explicit(&arena->holders, 1, memory_order_relaxed);
	} else {
		rc = kvslab_arena_open(&arena, parsed.size);
		if (rc)
			return rc;
	}
	rc = shared_open(arena, &parsed, opts, &shared);
	if (rc) {
		pool_arena_put(arena);
		return rc;
	}
	rc = client_open(shared, pool);
	if (rc)
		shared_close(shared);
	return rc;
}

int kvslab_pool_share(struct kvslab_pool *pool, struct kvslab_pool **client)
{
	int rc;

	if (!pool || !client)
		return -EINVAL;
	if (pool->device)
		return device_share(pool->device, client);
	/* The caller's own client keeps the pool alive meanwhile. */
	atomic_fetch_add_explicit(&pool->shared->clients, 1, memory_order_relaxed);
	rc = client_open(pool->shared, client);
	if (rc)
		atomic_fetch_sub_explicit(&pool->shared->clients, 1, memory_order_relaxed);
	return rc;
}

void kvslab_pool_close(struct kvslab_pool *pool)
{
	struct pool_shared *shared;
	struct kvc_op op;

	if (!pool)
		return;
	if (pool->device) {
		device_close(pool->device);
		free(pool);
		return;
	}
	shared = pool->shared;
	pool_unwatch(pool); /* nobody may ask it for events while it ends */
	kvc_op_init(&op);
	while (kvc_client_exit(pool->core, &op) == KVC_MORE)
		pool_serve(shared, &op);
	pool_op_end(shared, &op);
	free(pool->core);
	free(pool);
	if (atomic_fetch_sub_explicit(&shared->clients, 1, memory_order_acq_rel) == 1)
		shared_close(shared);
}

int kvslab_cache_open(struct kvslab_pool *pool, uint32_t page_size, struct kvslab_cache *cache)
{
	struct pool_shared *shared;
	size_t size;
	void *mem;
	int id;

	if (!pool || !cache)
		return -EINVAL;
	if (pool->device)
		return device_cache_open(pool->device, page_size, cache);
	shared = pool->shared;
	size = page_size % shared->frame_size ? 0 : kvc_cache_size(page_size);
	if (!size)
		return -EINVAL;
	id = kvc_cache_find(shared->core, page_size);
	if (id < 0) {
		mem = pool_table(size);
		if (!mem)
			return -ENOMEM;
		id = kvc_cache_add(shared->core, mem, page_size);
		if (id < 0)
			free(mem);
		if (id == -EEXIST) /* another client was faster */
			id = kvc_cache_find(shared->core, page_size);
		if (id < 0)
			return id;
	}
	cache->id = (uint32_t)id;
	cache->page_size = page_size;
	cache->pages_per_slab = KVSLAB_EXTENT_SIZE / page_size;
	cache->frame_size = shared->frame_size;
	memcpy(cache->key, shared->key, sizeof(cache->key));
	return 0;
}
