// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * How many tokens of a model go into one page, and where a value lies inside it.
 *
 * Waste is compared in whole bytes of an extent, so that ties are ties and the choice is the same
 * on every machine with the same frame size.
 */
#include <errno.h>
#include <unistd.h>

#include "kvslab.h"

#define TOKENS_MIN 8
#define TOKENS_MAX 32
#define TOKENS_IDEAL 16

/* Far beyond any model; they keep every product below 2^64. */
#define LAYERS_LIMIT 65536u
#define HEADS_LIMIT 65536u
#define HEAD_DIM_LIMIT 65536u

static uint64_t round_up(uint64_t x, uint64_t to)
{
	return (x + to - 1) / to * to;
}

static uint32_t value_size(enum kvslab_kv_type type)
{
	switch (type) {
	case KVSLAB_KV_F16:
		return 2;
	case KVSLAB_KV_F32:
		return 4;
	}
	return 0;
}

/* Bytes of an extent that hold no key and no value, or -1 where a page of @tokens tokens of one of
 * @groups groups is larger than an extent. Fills in @g. */
static int64_t lay_out(struct kvslab_geometry *g, uint32_t groups, uint32_t tokens, uint32_t frame)
{
	uint64_t head, layer, page, used;

	if (tokens > KVSLAB_EXTENT_SIZE)
		return -1;
	head = round_up((uint64_t)tokens * g->head_dim * value_size(g->kv_type), 16);
	if (head > KVSLAB_EXTENT_SIZE)
		return -1;
	layer = 2 * head * g->kv_heads;
	page = round_up(layer * (g->layers / groups), frame);
	if (page > KVSLAB_EXTENT_SIZE)
		return -1;
	g->page_tokens = tokens;
	g->groups = groups;
	g->layers_per_group = g->layers / groups;
	g->page_size = (uint32_t)page;
	g->pages_per_slab = (uint32_t)(KVSLAB_EXTENT_SIZE / page);
	g->head_stride = (uint32_t)head;
	g->v_offset = (uint32_t)(layer / 2);
	g->layer_stride = (uint32_t)layer;
	used = g->pages_per_slab * tokens * (g->token_bytes / groups);
	g->waste = (double)(KVSLAB_EXTENT_SIZE - used) / KVSLAB_EXTENT_SIZE;
	return (int64_t)(KVSLAB_EXTENT_SIZE - used);
}

static uint32_t from_ideal(uint32_t tokens)
{
	return tokens > TOKENS_IDEAL ? tokens - TOKENS_IDEAL : TOKENS_IDEAL - tokens;
}

/* The count in [lo, hi] with the least waste, for @groups groups. Returns that waste and leaves the
 * layout in @g, or returns -1 where none fits. */
static int64_t best_count(struct kvslab_geometry *g, uint32_t groups, uint32_t lo, uint32_t hi,
			  uint32_t frame)
{
	int64_t waste, best = -1;
	uint32_t tokens, chosen = 0;

	for (tokens = lo; tokens <= hi; tokens++) {
		waste = lay_out(g, groups, tokens, frame);
		if (waste < 0)
			break;
		if (best < 0 || waste < best ||
		    (waste == best && from_ideal(tokens) < from_ideal(chosen))) {
			best = waste;
			chosen = tokens;
		}
	}
	if (best >= 0)
		lay_out(g, groups, chosen, frame);
	return best;
}

/* Counts in [lo, hi]; 0, or -E2BIG where none fits with any number of groups. */
static int choose(struct kvslab_geometry *g, uint32_t lo, uint32_t hi, uint32_t frame)
{
	int64_t waste, score, best = -1;
	uint32_t groups, chosen = 0;

	for (groups = 1; groups <= g->layers && groups <= KVSLAB_GROUPS_MAX; groups++) {
		if (g->layers % groups)
			continue;
		waste = best_count(g, groups, lo, hi, frame);
		if (waste < 0)
			continue;
		if (waste * 20 <= KVSLAB_EXTENT_SIZE)
			return 0;
		/* Waste plus one hundredth of an extent a group, times 100. */
		score = waste * 100 + (int64_t)groups * KVSLAB_EXTENT_SIZE;
		if (best < 0 || score < best) {
			best = score;
			chosen = groups;
		}
	}
	if (best < 0)
		return -E2BIG;
	best_count(g, chosen, lo, hi, frame);
	return 0;
}

static int choose_groups(struct kvslab_geometry *g, uint32_t tokens, uint32_t frame)
{
	uint32_t groups;

	for (groups = 1; groups <= g->layers && groups <= KVSLAB_GROUPS_MAX; groups++)
		if (g->layers % groups == 0 && lay_out(g, groups, tokens, frame) >= 0)
			return 0;
	return -E2BIG;
}

int kvslab_geometry_init(struct kvslab_geometry *geometry)
{
	uint32_t frame = (uint32_t)sysconf(_SC_PAGESIZE);
	struct kvslab_geometry g = { 0 };
	int rc;

	if (!geometry)
		return -EINVAL;
	g.layers = geometry->layers;
	g.kv_heads = geometry->kv_heads;
	g.head_dim = geometry->head_dim;
	g.kv_type = geometry->kv_type;
	if (!g.layers || g.layers > LAYERS_LIMIT || !g.kv_heads || g.kv_heads > HEADS_LIMIT ||
	    !g.head_dim || g.head_dim > HEAD_DIM_LIMIT || !value_size(g.kv_type))
		return -EINVAL;
	g.token_bytes = 2ull * g.layers * g.kv_heads * g.head_dim * value_size(g.kv_type);
	if (geometry->page_tokens) {
		rc = choose_groups(&g, geometry->page_tokens, frame);
	} else {
		rc = choose(&g, TOKENS_MIN, TOKENS_MAX, frame);
		/* Fewer than eight tokens only where eight of one layer are more than an extent. */
		if (rc == -E2BIG)
			rc = choose(&g, 1, TOKENS_MIN - 1, frame);
	}
	if (!rc)
		*geometry = g;
	return rc;
}
