// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Calls on pages. Each is the core's call, served until it is through; or a node's command. */
#include "device.h"
#include "pool.h"

/* What is handed through unchanged. */
_Static_assert(KVSLAB_EXTENT_SIZE == KVC_EXTENT_SIZE && KVSLAB_BATCH_MAX == KVC_BATCH_MAX &&
		       KVSLAB_HASH_SIZE == KVC_HASH_SIZE && KVSLAB_PRIORITIES == KVC_CLASSES,
	       "limits");
_Static_assert(KVSLAB_PARTIAL == KVC_PARTIAL && KVSLAB_SEAL_ROOT == KVC_SEAL_ROOT, "flags");
_Static_assert(sizeof(struct kvslab_hash) == KVC_HASH_SIZE, "hash");

#define SEALS_ON_STACK 32

int kvslab_alloc(struct kvslab_pool *pool, uint32_t id, kvslab_handle *pages, uint32_t n,
		 uint32_t flags)
{
	struct kvc_op op;
	int rc;

	if (!pool || !pages)
		return -EINVAL;
	if (pool->device)
		return device_alloc(pool->device, id, pages, n, flags);
	kvc_op_init(&op);
	while ((rc = kvc_alloc(pool->core, id, pages, n, flags, &op)) == KVC_MORE)
		pool_serve(pool->shared, &op);
	pool_op_end(pool->shared, &op);
	return rc;
}

int kvslab_free(struct kvslab_pool *pool, const kvslab_handle *pages, uint32_t n)
{
	struct kvc_op op;
	int rc;

	if (!pool || !pages)
		return -EINVAL;
	if (pool->device)
		return device_free(pool->device, pages, n);
	kvc_op_init(&op);
	while ((rc = kvc_free(pool->core, pages, n, &op)) == KVC_MORE)
		pool_serve(pool->shared, &op);
	pool_op_end(pool->shared, &op);
	return rc;
}

int kvslab_get(struct kvslab_pool *pool, const kvslab_handle *pages, uint32_t n)
{
	if (!pool || !pages)
		return -EINVAL;
	if (pool->device)
		return device_get(pool->device, pages, n);
	return kvc_get(pool->core, pages, n);
}

/* The core's form of a batch. Its state starts at 0; so must the public reserved field. */
static int seals_in(struct kvc_seal *to, const struct kvslab_seal *from, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (from[i].reserved)
			return -EINVAL;
		memset(&to[i], 0, sizeof(to[i]));
		to[i].page = from[i].page;
		memcpy(to[i].hash, from[i].hash.b, sizeof(to[i].hash));
		memcpy(to[i].parent, from[i].parent.b, sizeof(to[i].parent));
		to[i].depth = from[i].depth;
		to[i].class = from[i].priority;
		to[i].flags = from[i].flags;
	}
	return 0;
}

int kvslab_seal(struct kvslab_pool *pool, struct kvslab_seal *seals, uint32_t n)
{
	struct kvc_seal few[SEALS_ON_STACK], *batch = few;
	struct kvc_op op;
	uint32_t i;
	int rc;

	if (!pool || !seals || n > KVSLAB_BATCH_MAX)
		return -EINVAL;
	if (pool->device)
		return device_seal(pool->device, seals, n);
	if (n > SEALS_ON_STACK) {
		batch = malloc(n * sizeof(*batch));
		if (!batch)
			return -ENOMEM;
	}
	rc = seals_in(batch, seals, n);
	if (!rc) {
		kvc_op_init(&op);
		while ((rc = kvc_seal(pool->core, batch, n, &op)) == KVC_MORE)
			pool_serve(pool->shared, &op);
		pool_op_end(pool->shared, &op);
	}
	for (i = 0; i < n && !rc; i++)
		seals[i].page = batch[i].page;
	if (batch != few)
		free(batch);
	return rc;
}

int kvslab_lookup(struct kvslab_pool *pool, uint32_t id, const struct kvslab_hash *hashes,
		  uint32_t n, kvslab_handle *pages)
{
	struct kvc_op op;
	int rc;

	if (!pool || !hashes || !pages)
		return -EINVAL;
	if (pool->device)
		return device_lookup(pool->device, id, hashes, n, pages);
	kvc_op_init(&op);
	while ((rc = kvc_lookup(pool->core, id, (const u8(*)[KVC_HASH_SIZE])hashes, n, pages,
				&op)) == KVC_MORE)
		pool_serve(pool->shared, &op);
	pool_op_end(pool->shared, &op);
	return rc;
}

static void *address(struct kvslab_pool *pool, kvslab_handle page, bool write)
{
	struct kvc_where where;

	if (!pool)
		return NULL;
	if (pool->device)
		return device_page(pool->device, page, write);
	if (kvc_where(pool->core, page, &where) || (write && !where.writable))
		return NULL;
	return pool->base + (size_t)where.extent * KVSLAB_EXTENT_SIZE + where.offset;
}

void *kvslab_page_rw(struct kvslab_pool *pool, kvslab_handle page)
{
	return address(pool, page, true);
}

const void *kvslab_page_ro(struct kvslab_pool *pool, kvslab_handle page)
{
	return address(pool, page, false);
}
