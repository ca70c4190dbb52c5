// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include <stdio.h>
#include <stdlib.h>

#include "core_case.h"

static bool decline(struct core_env *env, const struct kvc_need *need)
{
	struct core_case *c = env->data;

	c->needs++;
	return need->kind == KVC_NEED_SLAB ? c->decline_slabs : c->decline_tables;
}

static bool pinned(struct core_env *env, const struct kvc_zap *zap, u32 index)
{
	struct core_case *c = env->data;

	return index < 64 && c->pin[zap->extent] >> index & 1;
}

static void zap(struct core_env *env, const struct kvc_zap *z)
{
	struct core_case *c = env->data;
	u32 i;

	for (i = 0; i < KVC_PAGES_MAX; i++) {
		if (!(z->pages[i / 64] >> (i % 64) & 1))
			continue;
		c->zapped[z->why]++;
		if (z->why == KVC_ZAP_EVICT && c->nr_evicted < 256)
			c->evicted[c->nr_evicted++] = z->extent << 6 | i;
	}
}

static void release(struct core_env *env, const struct kvc_release *r)
{
	struct core_case *c = env->data;

	c->released++;
	c->pin[r->extent] = 0;
}

void case_open(struct core_case *c, u32 extents)
{
	memset(c, 0, sizeof(*c));
	c->env.decline = decline;
	c->env.pinned = pinned;
	c->env.zap = zap;
	c->env.release = release;
	c->env.data = c;
	core_arena(&c->env, 5, extents);
}

void case_close(struct core_case *c)
{
	core_arena_free(&c->env);
}

void case_reset(struct core_case *c)
{
	c->needs = c->released = c->nr_evicted = 0;
	memset(c->zapped, 0, sizeof(c->zapped));
}

struct kvc_pool *case_pool(struct core_case *c, u32 min, u32 max, u32 page_size)
{
	struct kvc_pool *pool = core_pool(&c->env, min, max, NULL);

	if (!pool || core_cache(pool, page_size) < 0) {
		printf("Bail out! no pool of min %u max %u\n", min, max);
		exit(1);
	}
	return pool;
}

void case_pool_close(struct core_case *c, struct kvc_pool *pool)
{
	if (!core_pool_exit(&c->env, pool))
		return;
	printf("Bail out! a pool does not end\n");
	exit(1);
}

int case_seal(struct core_case *c, struct kvc_client *client, u64 *page, u32 n, u8 class)
{
	struct kvc_seal seal = { .page = *page, .depth = n % 100, .class = class };
	int r;

	seal.flags = n % 100 ? 0 : KVC_SEAL_ROOT;
	core_hash(seal.hash, n);
	core_hash(seal.parent, n - 1);
	r = core_seal(&c->env, client, &seal, 1);
	*page = seal.page;
	return r;
}

int case_lookup(struct core_case *c, struct kvc_client *client, u32 id, u32 n, u64 *page)
{
	u8 hash[1][KVC_HASH_SIZE];

	core_hash(hash[0], n);
	return core_lookup(&c->env, client, id, (const u8(*)[KVC_HASH_SIZE])hash, 1, page);
}

bool case_holds(struct core_case *c)
{
	char why[200];

	if (!kvc_check(c->env.arena, why, sizeof(why)))
		return true;
	printf("# %s\n", why);
	return false;
}
