// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "wire_mock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kmod/uapi/kvslab.h"
#include "runtime/pool/pool.h"

#define ARENA 5 /* what it is called in offsets */

struct mock {
	struct pool_wire wire;
	struct kvslab_pool *inner;
	struct kvslab_counters *counters;
	uint64_t commands;
	int (*hook)(unsigned int cmd, const void *args, void *data);
	void *hook_data;
	unsigned int fail_n;
	int fail;
	bool dead;
};

static struct mock *mock_of(const struct pool_wire *wire)
{
	return (struct mock *)wire;
}

/* ---- commands ---- */

static int cmd_cache(struct mock *m, struct kvslab_args_cache *a)
{
	struct kvslab_cache cache;
	struct kvslab_stat stat;
	int rc;

	if (a->tier || a->flags || a->slabs)
		return -EINVAL;
	rc = kvslab_cache_open(m->inner, a->page_size, &cache);
	if (rc)
		return rc;
	kvslab_stat(m->inner, &stat);
	a->id = cache.id;
	a->pages_per_slab = cache.pages_per_slab;
	a->frame_size = cache.frame_size;
	a->arena = ARENA;
	a->arena_size = stat.arena_extents * KVSLAB_CMD_EXTENT;
	a->pool = m->inner->shared->id;
	a->client = kvc_client_id(m->inner->core);
	memcpy(a->key, cache.key, sizeof(a->key));
	return 0;
}

static int cmd_alloc(struct mock *m, const struct kvslab_args_alloc *a)
{
	return a->reserved ? -EINVAL :
			     kvslab_alloc(m->inner, a->cache, (kvslab_handle *)(uintptr_t)a->pages,
					  a->count, a->flags);
}

static int cmd_free(struct mock *m, const struct kvslab_args_pages *a)
{
	return a->flags ? -EINVAL :
			  kvslab_free(m->inner, (const kvslab_handle *)(uintptr_t)a->pages, a->count);
}

static int cmd_get(struct mock *m, const struct kvslab_args_pages *a)
{
	return a->flags ? -EINVAL :
			  kvslab_get(m->inner, (const kvslab_handle *)(uintptr_t)a->pages, a->count);
}

static int cmd_seal(struct mock *m, const struct kvslab_args_seal *a)
{
	return a->flags ? -EINVAL :
			  kvslab_seal(m->inner, (struct kvslab_seal *)(uintptr_t)a->seals, a->count);
}

static int cmd_lookup(struct mock *m, const struct kvslab_args_lookup *a)
{
	if (a->flags || a->reserved)
		return -EINVAL;
	return kvslab_lookup(m->inner, a->cache, (const struct kvslab_hash *)(uintptr_t)a->hashes,
			     a->count, (kvslab_handle *)(uintptr_t)a->pages);
}

static void stat_caches(struct mock *m, struct kvslab_args_stat *a)
{
	struct kvslab_stat_cache *c = (struct kvslab_stat_cache *)(uintptr_t)a->caches;
	struct kvc_cache_stat s;
	uint32_t id;

	for (id = 0; !kvc_cache_stat(m->inner->shared->core, id, &s); id++)
		if (id < a->nr_caches)
			c[id] = (struct kvslab_stat_cache){
				.id = id,
				.page_size = s.page_size,
				.pages_per_slab = s.pages,
				.slabs = s.slabs,
				.free = s.free,
				.private_pages = s.private_pages,
				.moving = s.moving,
				.sealed = s.sealed,
				.cached = s.cached,
				.quarantined = s.quarantined,
			};
	a->nr_caches = id;
}

static int stat_clients(struct mock *m, struct kvslab_args_stat *a)
{
	struct kvslab_stat_client *c = (struct kvslab_stat_client *)(uintptr_t)a->clients;
	struct kvc_client_stat *s = calloc(a->nr_clients + 1, sizeof(*s));
	uint32_t n, i;

	if (!s)
		return -ENOMEM;
	n = kvc_clients(m->inner->shared->core, s, a->nr_clients);
	for (i = 0; i < n && i < a->nr_clients; i++)
		c[i] = (struct kvslab_stat_client){
			.id = s[i].id,
			.private_pages = s[i].private_pages,
			.references = s[i].references,
			.slabs = s[i].slabs,
			.held_bytes = s[i].held_bytes,
		};
	a->nr_clients = n;
	free(s);
	return 0;
}

static int cmd_stat(struct mock *m, struct kvslab_args_stat *a)
{
	struct kvslab_stat_pool *p = &a->pool;
	struct kvc_stat s;

	if (a->flags || a->reserved)
		return -EINVAL;
	kvc_stat(m->inner->shared->core, &s);
	*p = (struct kvslab_stat_pool){
		.name = "mock",
		.id = m->inner->shared->id,
		.arena = ARENA,
		.clients = (uint32_t)s.clients,
		.min = s.min,
		.max = s.max,
		.low = s.low,
		.high = s.high,
		.held = s.held,
		.slabs = s.slabs,
		.arena_extents = s.arena_extents,
		.arena_free = s.arena_free,
		.free = s.free,
		.private_pages = s.private_pages,
		.moving = s.moving,
		.sealed = s.sealed,
		.cached = s.cached,
		.quarantined = s.quarantined,
		.free_bytes = s.free_bytes,
		.tail_bytes = s.tail_bytes,
		.quarantined_bytes = s.quarantined_bytes,
		.allocs = s.allocs,
		.frees = s.frees,
		.seals = s.seals,
		.seal_duplicates = s.seal_duplicates,
		.lookups = s.lookups,
		.lookup_asked = s.lookup_asked,
		.lookup_hits = s.lookup_hits,
		.evictions = s.evictions,
		.takeovers = s.takeovers,
		.adrift = s.adrift,
		.failed = s.failed,
	};
	m->counters->seq++;
	m->counters->held = s.held;
	m->counters->high = s.high;
	m->counters->pressure = s.pressure;
	m->counters->seq++;
	if (a->nr_caches)
		stat_caches(m, a);
	return a->nr_clients ? stat_clients(m, a) : 0;
}

static int cmd_slabs(struct mock *m, struct kvslab_args_slabs *a)
{
	struct kvslab_stat_slab *out = (struct kvslab_stat_slab *)(uintptr_t)a->slabs;
	struct kvc_slab_stat got[16];
	uint32_t i, n;

	if (!a->count || a->count > KVSLAB_CMD_BATCH || a->flags || a->arena)
		return -EINVAL;
	/* Fewer than asked for: a caller has to go on where it was told to. */
	n = kvc_slabs(m->inner->shared->core, &a->from, got, a->count < 16 ? a->count : 16);
	for (i = 0; i < n; i++)
		out[i] = (struct kvslab_stat_slab){
			.extent = got[i].extent,
			.owner = got[i].owner,
			.cache = (uint16_t)got[i].cache,
			.pages = (uint16_t)got[i].pages,
			.free = (uint16_t)got[i].free,
			.private_pages = (uint16_t)got[i].private_pages,
			.moving = (uint16_t)got[i].moving,
			.sealed = (uint16_t)got[i].sealed,
			.cached = (uint16_t)got[i].cached,
			.quarantined = (uint16_t)got[i].quarantined,
		};
	return (int)n;
}

static int cmd_events(struct mock *m, struct kvslab_args_events *a)
{
	int rc;

	if (a->reserved)
		return -EINVAL;
	rc = kvslab_pool_events(m->inner);
	if (rc < 0)
		return rc;
	a->events = (uint32_t)rc | (m->dead ? KVSLAB_EVENT_DEAD : 0);
	return 0;
}

static int mock_command(struct pool_wire *wire, unsigned int cmd, void *args, uint32_t size)
{
	struct mock *m = mock_of(wire);
	int rc;

	m->commands++;
	rc = m->hook ? m->hook(cmd, args, m->hook_data) : 0;
	if (rc)
		return rc;
	if (m->fail_n) {
		m->fail_n--;
		return m->fail;
	}
	if (m->dead && cmd != KVSLAB_CMD_EVENTS)
		return -ENODEV;
#define CASE(NAME, type, call)                                     \
	case KVSLAB_CMD_##NAME:                                    \
		return size == sizeof(struct kvslab_args_##type) ? \
			       call(m, (struct kvslab_args_##type *)args) : \
			       -EINVAL
	switch (cmd) {
		case KVSLAB_CMD_NOP:
		return size ? -EINVAL : 0;
		CASE(CACHE, cache, cmd_cache);
		CASE(ALLOC, alloc, cmd_alloc);
		CASE(FREE, pages, cmd_free);
		CASE(GET, pages, cmd_get);
		CASE(SEAL, seal, cmd_seal);
		CASE(LOOKUP, lookup, cmd_lookup);
		CASE(STAT, stat, cmd_stat);
		CASE(SLABS, slabs, cmd_slabs);
		CASE(EVENTS, events, cmd_events);
	}
#undef CASE
	return -ENOTTY;
}

/* ---- the rest ---- */

static int mock_map(struct pool_wire *wire, uint64_t offset, size_t size, bool write, void **at)
{
	struct mock *m = mock_of(wire);
	struct kvslab_stat stat;

	kvslab_stat(m->inner, &stat);
	if (offset == KVSLAB_MAP_COUNTERS)
		*at = m->counters;
	else if (offset == (KVSLAB_MAP_ARENA(ARENA) | (write ? KVSLAB_MAP_WRITE : KVSLAB_MAP_READ)) &&
		 size == stat.arena_extents * KVSLAB_CMD_EXTENT)
		*at = m->inner->base;
	else
		return -EINVAL;
	return 0;
}

static void mock_unmap(struct pool_wire *wire, void *at, size_t size)
{
	(void)wire;
	(void)at;
	(void)size;
}

static int mock_fd(struct pool_wire *wire)
{
	return kvslab_pool_fd(mock_of(wire)->inner);
}

static int mock_new(struct pool_wire **wire, struct kvslab_pool *inner);

static int mock_again(struct pool_wire *wire, struct pool_wire **other)
{
	struct kvslab_pool *inner;
	int rc = kvslab_pool_share(mock_of(wire)->inner, &inner);

	return rc ? rc : mock_new(other, inner);
}

static void mock_close(struct pool_wire *wire)
{
	struct mock *m = mock_of(wire);

	kvslab_pool_close(m->inner);
	free(m->counters);
	free(m);
}

static const struct pool_wire_ops mock_ops = {
	mock_command, mock_map, mock_unmap, mock_fd, mock_again, mock_close,
};

static int mock_new(struct pool_wire **wire, struct kvslab_pool *inner)
{
	struct mock *m = calloc(1, sizeof(*m));
	struct kvslab_counters *counters = calloc(1, sizeof(*counters));

	if (!m || !counters) {
		free(m);
		free(counters);
		kvslab_pool_close(inner);
		return -ENOMEM;
	}
	counters->version = KVSLAB_UAPI_VERSION;
	m->wire.ops = &mock_ops;
	m->inner = inner;
	m->counters = counters;
	*wire = &m->wire;
	return 0;
}

int wire_mock_open(struct pool_wire **wire, const char *spec, const struct kvslab_pool_opts *opts)
{
	struct kvslab_pool *inner;
	int rc = kvslab_pool_open(&inner, spec, opts);

	return rc ? rc : mock_new(wire, inner);
}

struct kvslab_pool *wire_mock_inner(struct pool_wire *wire)
{
	return mock_of(wire)->inner;
}

void wire_mock_fail(struct pool_wire *wire, int err, unsigned int n)
{
	mock_of(wire)->fail = err;
	mock_of(wire)->fail_n = n;
}

void wire_mock_hook(struct pool_wire *wire, int (*hook)(unsigned int cmd, const void *args, void *data), void *data)
{
	mock_of(wire)->hook = hook;
	mock_of(wire)->hook_data = data;
}

void wire_mock_kill(struct pool_wire *wire)
{
	mock_of(wire)->dead = true;
}

uint64_t wire_mock_commands(const struct pool_wire *wire)
{
	return mock_of(wire)->commands;
}
