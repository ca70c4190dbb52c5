// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* The hash chain against vectors of an independent restatement, tests/ref/seq_hash_vectors.py. */
#include <string.h>

#include "runtime/sched/hash.h"
#include "tests/lib/tap.h"

struct vector {
	uint8_t key[32], digest[32];
	uint32_t geo[8]; /* layers .. layer_stride, in the order of hash.h */
	uint32_t kv_type;
	const uint8_t *rope, *salt;
	size_t rope_size, salt_size;
	uint32_t n_tokens;
	const uint32_t *tokens;
	uint8_t root[32];
	uint32_t n_pages;
	const uint8_t (*pages)[32];
};

#include "tests/unit/seq_hash.inc"

#define N_VECTORS (sizeof(vectors) / sizeof(vectors[0]))

static void setup(struct kvslab_kv *kv, const struct vector *v)
{
	memset(kv, 0, sizeof(*kv));
	memcpy(kv->cache.key, v->key, 32);
	memcpy(kv->model_digest, v->digest, 32);
	kv->geo = (struct kvslab_geometry){
		.layers = v->geo[0],
		.kv_heads = v->geo[1],
		.head_dim = v->geo[2],
		.page_tokens = v->geo[3],
		.groups = v->geo[4],
		.head_stride = v->geo[5],
		.v_offset = v->geo[6],
		.layer_stride = v->geo[7],
		.kv_type = (enum kvslab_kv_type)v->kv_type,
	};
	kv->rope = (void *)(uintptr_t)v->rope;
	kv->rope_size = v->rope_size;
}

int main(void)
{
	struct kvslab_kv kv;
	struct kvslab_hash root, parent, page;
	uint32_t i, p, groups, bad;

	for (i = 0; i < N_VECTORS; i++) {
		const struct vector *v = &vectors[i];

		setup(&kv, v);
		groups = kv.geo.groups;
		hash_root(&kv, v->salt, v->salt_size, &root);
		ok(!memcmp(root.b, v->root, 32), "vector %u: root", i);
		parent = root;
		for (p = 0, bad = 0; p < v->n_pages; p++) {
			hash_page(&kv, &parent, p % groups,
				  v->tokens + p / groups * kv.geo.page_tokens, &page);
			bad += memcmp(page.b, v->pages[p], 32) != 0;
			parent = page;
		}
		ok(!bad && p == v->n_tokens / kv.geo.page_tokens * groups, "vector %u: %u pages", i,
		   p);
	}
	ok(memcmp(vectors[N_VECTORS - 1].root, vectors[N_VECTORS - 2].root, 32) != 0, "the border "
										      "between "
										      "rope and "
										      "salt is "
										      "part of the "
										      "name");
	return done();
}
