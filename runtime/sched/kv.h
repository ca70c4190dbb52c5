/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* What the sequences of one model in one pool share. One thread at a time uses a kv and all its
 * sequences. */
#ifndef SCHED_KV_H
#define SCHED_KV_H

#include "kvslab.h"

struct kvslab_kv {
	struct kvslab_pool *pool; /* the caller's */
	struct kvslab_cache cache;
	struct kvslab_geometry geo;
	struct kvslab_executor *executor; /* copies pages where the CPU cannot; NULL: memcpy */
	uint8_t model_digest[KVSLAB_HASH_SIZE];
	void *rope; /* owned */
	size_t rope_size;
	/* Room for one call to the pool, so that sealing and matching cannot fail for want of
	 * memory. */
	struct kvslab_seal *seals; /* [KVSLAB_BATCH_MAX] */
	kvslab_handle *found; /* [KVSLAB_BATCH_MAX] */
};

/* Blocks whose pages fit into one call to the pool. */
static inline uint32_t kv_blocks_per_call(const struct kvslab_kv *kv)
{
	return KVSLAB_BATCH_MAX / kv->geo.groups;
}

/* The three pool calls in as many pieces as their limit asks for; alloc and get are undone on
 * failure. */
int kv_alloc(struct kvslab_kv *kv, kvslab_handle *pages, size_t n);
int kv_get(struct kvslab_kv *kv, const kvslab_handle *pages, size_t n);
void kv_free(struct kvslab_kv *kv, const kvslab_handle *pages, size_t n);
void kv_copy(struct kvslab_kv *kv, kvslab_handle dst, kvslab_handle src);

#endif
