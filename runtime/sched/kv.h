/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* What the sequences of one model in one pool share. One thread at a time uses a kv and all its
 * sequences. */
#ifndef SCHED_KV_H
#define SCHED_KV_H

#include "kvslab.h"
#include "runtime/pool/batch.h"

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
	kvslab_handle *found; /* [KVSLAB_BATCH_MAX]; several lookups that are made together share it */
	/* While a scheduler's step goes on, pages that are given back are collected, to go in one call. */
	bool collecting;
	kvslab_handle *dropped; /* [KVSLAB_BATCH_MAX] */
	uint32_t n_dropped;
	/* Pages taken in one call for what the step's sequences will ask for one by one. */
	kvslab_handle *stock; /* [KVSLAB_BATCH_MAX] */
	uint32_t n_stock, stock_at;
	bool waits; /* an alloc failed for want of room, and none succeeded since: it is this client's turn some day */
};

/* Blocks whose pages fit into one call to the pool. */
static inline uint32_t kv_blocks_per_call(const struct kvslab_kv *kv)
{
	return KVSLAB_BATCH_MAX / kv->geo.groups;
}

/* From here on kv_free() collects; until kv_flush(), which gives back what was collected. */
void kv_collect(struct kvslab_kv *kv);
void kv_flush(struct kvslab_kv *kv);
/* Take up to @n pages in advance for the kv_alloc() calls that follow; then give back what those left. No error:
 * without a stock they take their pages themselves. In two halves, with the call to the pool in between; with @flags
 * KVSLAB_PARTIAL as many as there are, else all or none. */
void kv_stock_prepare(struct kvslab_kv *kv, struct pool_call *call, size_t n, uint32_t flags);
void kv_stock_take(struct kvslab_kv *kv, const struct pool_call *call);
/* The same where fewer will not do: none then, and why. Of more than one call's worth, the first call's. */
int kv_stock_all(struct kvslab_kv *kv, size_t n);
void kv_unstock(struct kvslab_kv *kv);
/* Nothing is wanted any more: whoever waits for room behind this client is not to wait for it. */
void kv_pass_turn(struct kvslab_kv *kv);

/* The three pool calls in as many pieces as their limit asks for; alloc and get are undone on
 * failure. */
int kv_alloc(struct kvslab_kv *kv, kvslab_handle *pages, size_t n);
int kv_get(struct kvslab_kv *kv, const kvslab_handle *pages, size_t n);
void kv_free(struct kvslab_kv *kv, const kvslab_handle *pages, size_t n);
void kv_copy(struct kvslab_kv *kv, kvslab_handle dst, kvslab_handle src);

#endif
