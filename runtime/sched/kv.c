// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* The kv object, and the pool's calls without their limit on the number of pages. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "kv.h"
#include "runtime/pool/ring.h"

static bool geometry_consistent(const struct kvslab_geometry *g)
{
	uint64_t k_bytes = (uint64_t)g->kv_heads * g->head_stride;

	return g->layers && g->kv_heads && g->head_dim && g->page_tokens && g->groups &&
	       g->groups <= KVSLAB_GROUPS_MAX && g->layers_per_group &&
	       (uint64_t)g->groups * g->layers_per_group == g->layers && g->head_stride &&
	       g->v_offset >= k_bytes && g->layer_stride >= g->v_offset + k_bytes &&
	       (uint64_t)g->layers_per_group * g->layer_stride <= g->page_size;
}

int kvslab_kv_open(struct kvslab_kv **out, struct kvslab_pool *pool,
		   const struct kvslab_kv_opts *opts)
{
	struct kvslab_kv *kv;
	int rc = -ENOMEM;

	if (!out || !pool || !opts || (opts->rope_size && !opts->rope) ||
	    !geometry_consistent(&opts->geometry))
		return -EINVAL;
	if (sodium_init() < 0)
		return -EIO;
	kv = calloc(1, sizeof(*kv));
	if (!kv)
		return -ENOMEM;
	kv->pool = pool;
	kv->geo = opts->geometry;
	memcpy(kv->model_digest, opts->model_digest, sizeof(kv->model_digest));
	kv->seals = calloc(KVSLAB_BATCH_MAX, sizeof(*kv->seals));
	kv->found = calloc(KVSLAB_BATCH_MAX, sizeof(*kv->found));
	kv->dropped = calloc(KVSLAB_BATCH_MAX, sizeof(*kv->dropped));
	kv->stock = calloc(KVSLAB_BATCH_MAX, sizeof(*kv->stock));
	if (!kv->seals || !kv->found || !kv->dropped || !kv->stock)
		goto fail;
	if (opts->rope_size) {
		kv->rope = malloc(opts->rope_size);
		if (!kv->rope)
			goto fail;
		memcpy(kv->rope, opts->rope, opts->rope_size);
		kv->rope_size = opts->rope_size;
	}
	rc = kvslab_cache_open(pool, kv->geo.page_size, &kv->cache);
	if (rc < 0)
		goto fail;
	*out = kv;
	return 0;
fail:
	kvslab_kv_close(kv);
	return rc;
}

void kvslab_kv_close(struct kvslab_kv *kv)
{
	if (!kv)
		return;
	sodium_memzero(kv->cache.key, sizeof(kv->cache.key));
	free(kv->rope);
	free(kv->seals);
	free(kv->found);
	free(kv->dropped);
	free(kv->stock);
	free(kv);
}

const struct kvslab_geometry *kvslab_kv_geometry(const struct kvslab_kv *kv)
{
	return &kv->geo;
}

static uint32_t piece(size_t left)
{
	return left < KVSLAB_BATCH_MAX ? (uint32_t)left : KVSLAB_BATCH_MAX;
}

static void kv_send(struct kvslab_kv *kv)
{
	if (kv->n_dropped)
		pool_free_later(kv->pool, kv->dropped, kv->n_dropped);
	kv->n_dropped = 0;
}

static bool no_room(int err)
{
	return err == -ENOSPC || err == -EDQUOT;
}

static void note_room(struct kvslab_kv *kv, int rc)
{
	if (rc > 0)
		kv->waits = false;
	else if (no_room(rc))
		kv->waits = true;
}

/* What the step has given back goes first, where that is in the way. */
static int alloc_call(struct kvslab_kv *kv, kvslab_handle *pages, uint32_t n, uint32_t flags)
{
	int rc = kvslab_alloc(kv->pool, kv->cache.id, pages, n, flags);

	if (rc < 0 && kv->n_dropped) {
		kv_send(kv);
		rc = kvslab_alloc(kv->pool, kv->cache.id, pages, n, flags);
	}
	note_room(kv, rc);
	return rc;
}

void kv_stock_prepare(struct kvslab_kv *kv, struct pool_call *call, size_t n, uint32_t flags)
{
	*call = (struct pool_call){
		POOL_ALLOC, .cache = kv->cache.id, .pages = kv->stock, .n = piece(n), .flags = flags
	};
}

void kv_stock_take(struct kvslab_kv *kv, const struct pool_call *call)
{
	note_room(kv, call->result);
	kv->stock_at = 0;
	kv->n_stock = call->result > 0 ? (uint32_t)call->result : 0;
}

int kv_stock_all(struct kvslab_kv *kv, size_t n)
{
	int rc = alloc_call(kv, kv->stock, piece(n), 0);

	kv->stock_at = 0;
	kv->n_stock = rc > 0 ? (uint32_t)rc : 0;
	return rc < 0 ? rc : 0;
}

void kv_unstock(struct kvslab_kv *kv)
{
	kv_free(kv, kv->stock + kv->stock_at, kv->n_stock - kv->stock_at);
	kv->n_stock = kv->stock_at = 0;
}

void kv_pass_turn(struct kvslab_kv *kv)
{
	kvslab_handle page;

	if (kv->waits && alloc_call(kv, &page, 1, 0) == 1)
		kvslab_free(kv->pool, &page, 1);
}

int kv_alloc(struct kvslab_kv *kv, kvslab_handle *pages, size_t n)
{
	size_t stock = kv->n_stock - kv->stock_at, at;
	int rc;

	if (stock > n)
		stock = n;
	memcpy(pages, kv->stock + kv->stock_at, stock * sizeof(*pages));
	for (at = stock; at < n;) {
		uint32_t k = piece(n - at);

		rc = alloc_call(kv, pages + at, k, 0);
		if (rc < 0) {
			kv_free(kv, pages + stock, at - stock);
			return rc;
		}
		at += k;
	}
	kv->stock_at += (uint32_t)stock;
	return 0;
}

int kv_get(struct kvslab_kv *kv, const kvslab_handle *pages, size_t n)
{
	size_t at = 0;
	int rc;

	while (at < n) {
		uint32_t k = piece(n - at);

		rc = kvslab_get(kv->pool, pages + at, k);
		if (rc < 0) {
			kv_free(kv, pages, at);
			return rc;
		}
		at += k;
	}
	return 0;
}

void kv_collect(struct kvslab_kv *kv)
{
	kv->collecting = true;
}

void kv_flush(struct kvslab_kv *kv)
{
	kv_send(kv);
	kv->collecting = false;
}

/* Every handle here is one that this client holds, so the pool has no reason to refuse. */
void kv_free(struct kvslab_kv *kv, const kvslab_handle *pages, size_t n)
{
	size_t at;

	if (kv->collecting && n <= KVSLAB_BATCH_MAX) {
		if (n > KVSLAB_BATCH_MAX - kv->n_dropped)
			kv_send(kv);
		memcpy(kv->dropped + kv->n_dropped, pages, n * sizeof(*pages));
		kv->n_dropped += (uint32_t)n;
		return;
	}
	for (at = 0; at < n; at += piece(n - at))
		kvslab_free(kv->pool, pages + at, piece(n - at));
}

void kv_copy(struct kvslab_kv *kv, kvslab_handle dst, kvslab_handle src)
{
	void *to = kvslab_page_rw(kv->pool, dst);
	const void *from = kvslab_page_ro(kv->pool, src);

	if (kv->executor)
		kv->executor->ops->copy(kv->executor, to, from, kv->geo.page_size);
	else
		memcpy(to, from, kv->geo.page_size);
}
