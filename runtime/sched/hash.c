// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* The hash chain; hash.h says what goes in. */
#include <endian.h>

#include <sodium.h>

#include "hash.h"

static void put_u32(crypto_generichash_state *h, uint32_t v)
{
	v = htole32(v);
	crypto_generichash_update(h, (const uint8_t *)&v, sizeof(v));
}

/* The length goes first, so that no two pairs of rope and salt read the same. */
static void put_bytes(crypto_generichash_state *h, const void *data, size_t size)
{
	uint64_t n = htole64(size);

	crypto_generichash_update(h, (const uint8_t *)&n, sizeof(n));
	if (size)
		crypto_generichash_update(h, data, size);
}

static void start(crypto_generichash_state *h, const struct kvslab_kv *kv)
{
	crypto_generichash_init(h, kv->cache.key, sizeof(kv->cache.key), KVSLAB_HASH_SIZE);
}

void hash_root(const struct kvslab_kv *kv, const void *salt, size_t salt_size,
	       struct kvslab_hash *root)
{
	static const uint8_t domain[13] = "kvslab-page-1";
	const struct kvslab_geometry *g = &kv->geo;
	crypto_generichash_state h;

	start(&h, kv);
	crypto_generichash_update(&h, domain, sizeof(domain));
	crypto_generichash_update(&h, kv->model_digest, sizeof(kv->model_digest));
	put_u32(&h, g->layers);
	put_u32(&h, g->kv_heads);
	put_u32(&h, g->head_dim);
	put_u32(&h, g->page_tokens);
	put_u32(&h, g->groups);
	put_u32(&h, g->head_stride);
	put_u32(&h, g->v_offset);
	put_u32(&h, g->layer_stride);
	put_u32(&h, (uint32_t)g->kv_type);
	put_bytes(&h, kv->rope, kv->rope_size);
	put_bytes(&h, salt, salt_size);
	crypto_generichash_final(&h, root->b, sizeof(root->b));
}

void hash_page(const struct kvslab_kv *kv, const struct kvslab_hash *parent, uint32_t group,
	       const uint32_t *tokens, struct kvslab_hash *page)
{
	crypto_generichash_state h;
	uint32_t le[64], n = kv->geo.page_tokens, i, k;

	start(&h, kv);
	crypto_generichash_update(&h, parent->b, sizeof(parent->b));
	put_u32(&h, group);
	for (i = 0; i < n; i += k) {
		for (k = 0; k < 64 && i + k < n; k++)
			le[k] = htole32(tokens[i + k]);
		crypto_generichash_update(&h, (const uint8_t *)le, k * sizeof(*le));
	}
	crypto_generichash_final(&h, page->b, sizeof(page->b));
}
