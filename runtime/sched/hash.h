/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * The names under which pages are found: a chain of keyed BLAKE2b-256, the key being the pool's
 * own, so that nobody outside can aim at a collision. Integers are little-endian.
 *
 *   root = H(key, "kvslab-page-1" | model digest [32] | geometry 8 x u32: layers, kv_heads,
 * head_dim, page_tokens, groups, head_stride, v_offset, layer_stride | kv type u32 | rope size u64,
 * rope | salt size u64, salt) page = H(key, parent [32] | group u32 | the block's token ids, u32
 * each)
 *
 * Order of a sequence's chain: blocks of tokens, within a block the layer groups. A page's parent
 * is the page before it in that order, the first one's is the root.
 */
#ifndef SCHED_HASH_H
#define SCHED_HASH_H

#include "kv.h"

void hash_root(const struct kvslab_kv *kv, const void *salt, size_t salt_size,
	       struct kvslab_hash *root);
void hash_page(const struct kvslab_kv *kv, const struct kvslab_hash *parent, uint32_t group,
	       const uint32_t *tokens, struct kvslab_hash *page);

#endif
