/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * A client of a pool that somebody else keeps: the module, or a test's stand-in. The calls of
 * kvslab.h become commands of kmod/uapi/kvslab.h; answers go into the table of what is held.
 *
 * Ownership: a device owns its wire, its mappings and its table. Its ring (ring.h) is of whoever
 * opened that, and is closed before the device.
 */
#ifndef POOL_DEVICE_H
#define POOL_DEVICE_H

#include "held.h"
#include "kvslab.h"
#include "wire.h"

#define DEVICE_CACHES 16

struct kvslab_counters;
struct pool_call;
struct pool_ring;

struct pool_device {
	struct pool_wire *wire;
	uint8_t *rw, *ro; /* the two windows, each of the whole arena */
	size_t arena_size; /* bytes */
	uint32_t arena, id; /* id: of the pool */
	uint32_t client; /* 0: not known yet */
	const struct kvslab_counters *counters; /* NULL: not to be had (32 bits) */
	uint32_t page_size[DEVICE_CACHES]; /* by id of cache; 0: not known */
	struct pool_held held;
	struct pool_ring *ring; /* NULL: no loop drives it */
	kvslab_log_fn log;
	void *log_data;
};

/* Open what @path names. */
int device_open_path(struct kvslab_pool **pool, const char *path,
		     const struct kvslab_pool_opts *opts);
/* The wire is the device's from now on, also on failure. */
int device_open_wire(struct kvslab_pool **pool, struct pool_wire *wire,
		     const struct kvslab_pool_opts *opts);
int device_share(struct pool_device *d, struct kvslab_pool **pool);
void device_close(struct pool_device *d);

int device_cache_open(struct pool_device *d, uint32_t page_size, struct kvslab_cache *cache);
int device_alloc(struct pool_device *d, uint32_t id, kvslab_handle *pages, uint32_t n,
		 uint32_t flags);
int device_free(struct pool_device *d, const kvslab_handle *pages, uint32_t n);
int device_get(struct pool_device *d, const kvslab_handle *pages, uint32_t n);
int device_seal(struct pool_device *d, struct kvslab_seal *seals, uint32_t n);
int device_lookup(struct pool_device *d, uint32_t id, const struct kvslab_hash *hashes, uint32_t n,
		  kvslab_handle *pages);
/* batch.h */
void device_calls(struct pool_device *d, struct pool_call *calls, uint32_t n);
void *device_page(struct pool_device *d, kvslab_handle page, bool write);
int device_stat(struct pool_device *d, struct kvslab_stat *stat);
int device_slabs(struct pool_device *d, uint32_t *from, struct kvslab_slab *slabs, uint32_t n);
int device_check(struct pool_device *d, char *why, size_t n);
int device_events(struct pool_device *d);

__attribute__((format(printf, 3, 4))) void
device_log(const struct pool_device *d, enum kvslab_log_level level, const char *fmt, ...);

#endif
