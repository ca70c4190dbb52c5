// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* A client of a node: opened, shared, closed, asked. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "kmod/uapi/kvslab.h"
#include "pool.h"

_Static_assert(KVSLAB_EXTENT_SIZE == KVSLAB_CMD_EXTENT && KVSLAB_BATCH_MAX == KVSLAB_CMD_BATCH &&
		       KVSLAB_HASH_SIZE == KVSLAB_CMD_HASH && KVSLAB_PRIORITIES == KVSLAB_CMD_CLASSES,
	       "limits");

void device_log(const struct pool_device *d, enum kvslab_log_level level, const char *fmt, ...)
{
	char message[512];
	va_list ap;

	if (!d->log)
		return;
	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	d->log(d->log_data, level, message);
}

static int command(struct pool_device *d, unsigned int cmd, void *args, uint32_t size)
{
	return d->wire->ops->command(d->wire, cmd, args, size);
}

static void unmap(struct pool_device *d)
{
	const struct pool_wire_ops *ops = d->wire->ops;

	if (d->ro)
		ops->unmap(d->wire, d->ro, d->arena_size);
	if (d->rw)
		ops->unmap(d->wire, d->rw, d->arena_size);
	if (d->counters)
		ops->unmap(d->wire, (void *)d->counters, KVC_FRAME_SIZE);
}

void device_close(struct pool_device *d)
{
	unmap(d);
	d->wire->ops->close(d->wire);
	held_free(&d->held);
	free(d);
}

/* Nothing is behind the windows before it is touched. */
static int map(struct pool_device *d)
{
	const struct pool_wire_ops *ops = d->wire->ops;
	uint64_t at = KVSLAB_MAP_ARENA(d->arena);
	void *p;
	int rc;

	rc = ops->map(d->wire, at | KVSLAB_MAP_READ, d->arena_size, false, &p);
	if (rc)
		goto fail;
	d->ro = p;
	rc = ops->map(d->wire, at | KVSLAB_MAP_WRITE, d->arena_size, true, &p);
	if (rc)
		goto fail;
	d->rw = p;
	if (!ops->map(d->wire, KVSLAB_MAP_COUNTERS, KVC_FRAME_SIZE, false, &p)) {
		d->counters = p;
		if (d->counters->version != KVSLAB_UAPI_VERSION) {
			device_log(d, KVSLAB_LOG_ERROR,
				   "the module speaks version %u of its commands and this library %u; "
				   "install a module and a library of the same release",
				   d->counters->version, KVSLAB_UAPI_VERSION);
			return -EPROTO;
		}
	}
	return 0;
fail:
	device_log(d, KVSLAB_LOG_ERROR, "the pool's %llu MiB cannot be mapped: %s",
		   (unsigned long long)(d->arena_size >> 20), strerror(-rc));
	return rc;
}

int device_open_wire(struct kvslab_pool **pool, struct pool_wire *wire,
		     const struct kvslab_pool_opts *opts)
{
	struct kvslab_args_stat stat = { 0 };
	struct kvslab_pool *p = calloc(1, sizeof(*p));
	struct pool_device *d = calloc(1, sizeof(*d));
	int rc = -ENOMEM;

	if (!p || !d) {
		wire->ops->close(wire);
		free(d);
		goto fail;
	}
	d->wire = wire;
	if (opts) {
		d->log = opts->log;
		d->log_data = opts->log_data;
	}
	rc = command(d, KVSLAB_CMD_STAT, &stat, sizeof(stat));
	if (!rc && !stat.pool.arena_extents)
		rc = -EPROTO;
	if (!rc) {
		d->id = stat.pool.id;
		d->arena = stat.pool.arena;
		d->arena_size = (size_t)stat.pool.arena_extents * KVSLAB_EXTENT_SIZE;
		rc = d->arena_size / KVSLAB_EXTENT_SIZE == stat.pool.arena_extents ? map(d) : -EFBIG;
	}
	if (rc) {
		device_close(d);
		goto fail;
	}
	p->device = d;
	*pool = p;
	return 0;
fail:
	free(p);
	return rc;
}

int device_share(struct pool_device *d, struct kvslab_pool **pool)
{
	struct kvslab_pool_opts opts = { .log = d->log, .log_data = d->log_data };
	struct pool_wire *wire;
	int rc = d->wire->ops->again(d->wire, &wire);

	if (!rc)
		rc = device_open_wire(pool, wire, &opts);
	if (rc)
		return rc;
	if ((*pool)->device->id == d->id)
		return 0;
	kvslab_pool_close(*pool);
	return -ENODEV;
}

int device_cache_open(struct pool_device *d, uint32_t page_size, struct kvslab_cache *cache)
{
	struct kvslab_args_cache args = { .page_size = page_size };
	int rc = command(d, KVSLAB_CMD_CACHE, &args, sizeof(args));

	if (rc < 0)
		return rc;
	if (args.id >= DEVICE_CACHES || args.arena != d->arena)
		return -EPROTO;
	d->page_size[args.id] = page_size;
	d->client = args.client;
	cache->id = args.id;
	cache->page_size = page_size;
	cache->pages_per_slab = args.pages_per_slab;
	cache->frame_size = args.frame_size;
	memcpy(cache->key, args.key, sizeof(cache->key));
	explicit_bzero(args.key, sizeof(args.key));
	return 0;
}

/* The counters as they were at one moment, or false: they changed all the time. */
static bool read_counters(const struct kvslab_counters *c, struct kvslab_counters *copy)
{
	uint32_t seq, i;

	for (i = 0; i < 1000; i++) {
		seq = __atomic_load_n(&c->seq, __ATOMIC_ACQUIRE);
		if (seq & 1)
			continue;
		/* Not a fence, which TSan does not know: each of these comes before the second look at seq. */
		copy->pressure = __atomic_load_n(&c->pressure, __ATOMIC_ACQUIRE);
		copy->held = __atomic_load_n(&c->held, __ATOMIC_ACQUIRE);
		copy->high = __atomic_load_n(&c->high, __ATOMIC_ACQUIRE);
		if (__atomic_load_n(&c->seq, __ATOMIC_RELAXED) == seq)
			return true;
	}
	return false;
}

int device_stat(struct pool_device *d, struct kvslab_stat *stat)
{
	struct kvslab_args_stat args = { 0 };
	const struct kvslab_stat_pool *s = &args.pool;
	struct kvslab_counters now;
	double bytes, waste;
	int rc = command(d, KVSLAB_CMD_STAT, &args, sizeof(args));

	if (rc < 0)
		return rc;
	bytes = (double)s->slabs * KVSLAB_EXTENT_SIZE;
	waste = (double)(s->free_bytes + s->tail_bytes + s->quarantined_bytes);
	if (bytes < waste)
		bytes = waste;
	*stat = (struct kvslab_stat){
		.free = s->free,
		.private_pages = s->private_pages,
		.moving = s->moving,
		.sealed = s->sealed,
		.cached = s->cached,
		.quarantined = s->quarantined,
		.slabs = s->slabs,
		.extents = s->slabs,
		.held = s->held,
		.min = s->min,
		.max = s->max,
		.arena_extents = s->arena_extents,
		.arena_free = s->arena_free,
		.clients = s->clients,
		.frag_partial = bytes > 0 ? (double)s->free_bytes / bytes : 0,
		.frag_tail = bytes > 0 ? (double)s->tail_bytes / bytes : 0,
		.frag_quarantine = bytes > 0 ? (double)s->quarantined_bytes / bytes : 0,
		.allocs = s->allocs,
		.frees = s->frees,
		.seals = s->seals,
		.seal_duplicates = s->seal_duplicates,
		.lookups = s->lookups,
		.lookup_hits = s->lookup_hits,
		.evictions = s->evictions,
		.takeovers = s->takeovers,
		.lookup_asked = s->lookup_asked,
		.failed = s->failed,
		.pressure = s->high && s->held > s->high,
	};
	/* Between the two marks only the counters know which was passed last. */
	if (d->counters && read_counters(d->counters, &now))
		stat->pressure = now.pressure;
	return 0;
}

int device_events(struct pool_device *d)
{
	struct kvslab_args_events args = { 0 };
	int rc = command(d, KVSLAB_CMD_EVENTS, &args, sizeof(args));

	return rc < 0 ? rc : (int)args.events;
}

/* What the module says that this client holds is what the library believes. */
static int check_client(struct pool_device *d, const struct kvslab_stat_client *c, uint32_t n,
			char *why, size_t size)
{
	uint32_t i;

	for (i = 0; i < n && c[i].id != d->client; i++)
		;
	if (i == n) {
		snprintf(why, size, "the module does not know client %u", d->client);
		return -EUCLEAN;
	}
	if (c[i].private_pages == d->held.private_pages && c[i].references == d->held.refs)
		return 0;
	snprintf(why, size,
		 "client %u holds %llu private pages and %llu references, its library believes "
		 "%llu and %llu",
		 d->client, (unsigned long long)c[i].private_pages,
		 (unsigned long long)c[i].references, (unsigned long long)d->held.private_pages,
		 (unsigned long long)d->held.refs);
	return -EUCLEAN;
}

#define SLABS_STEP 64

int device_slabs(struct pool_device *d, uint32_t *from, struct kvslab_slab *slabs, uint32_t n)
{
	struct kvslab_stat_slab got[SLABS_STEP];
	struct kvslab_args_slabs args;
	uint32_t done = 0;
	int i, k;

	do {
		args = (struct kvslab_args_slabs){
			.slabs = (uint64_t)(uintptr_t)got,
			.from = *from,
			.count = n - done < SLABS_STEP ? n - done : SLABS_STEP,
		};
		k = command(d, KVSLAB_CMD_SLABS, &args, sizeof(args));
		if (k < 0)
			return k;
		for (i = 0; i < k; i++)
			slabs[done + (uint32_t)i] = (struct kvslab_slab){
				.extent = got[i].extent,
				.pages = got[i].pages,
				.free = got[i].free,
				.private_pages = got[i].private_pages,
				.moving = got[i].moving,
				.sealed = got[i].sealed,
				.cached = got[i].cached,
				.quarantined = got[i].quarantined,
			};
		done += (uint32_t)k;
		*from = args.from;
	} while (args.from && done < n);
	return (int)done;
}

int device_check(struct pool_device *d, char *why, size_t n)
{
	struct kvslab_args_stat args = { 0 };
	struct kvslab_stat_client *clients = NULL;
	uint32_t room = 16;
	int rc;

	if (!d->client)
		return 0; /* it never opened a cache, so it has nothing */
	do {
		room *= 2;
		free(clients);
		clients = calloc(room, sizeof(*clients));
		if (!clients)
			return -ENOMEM;
		args = (struct kvslab_args_stat){ .clients = (uintptr_t)clients, .nr_clients = room };
		rc = command(d, KVSLAB_CMD_STAT, &args, sizeof(args));
	} while (!rc && args.nr_clients > room && room < 1u << 20);
	if (!rc)
		rc = check_client(d, clients, args.nr_clients < room ? args.nr_clients : room, why, n);
	free(clients);
	return rc;
}
