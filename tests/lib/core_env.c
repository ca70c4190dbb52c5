// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include <stdio.h>
#include <stdlib.h>

#include "core_env.h"

void *core_mem(size_t size)
{
	size_t whole = (size + KVC_ALIGN - 1) & ~(size_t)(KVC_ALIGN - 1);
	void *mem = aligned_alloc(KVC_ALIGN, whole);

	if (!mem) {
		printf("Bail out! no memory for the test itself\n");
		exit(1);
	}
	memset(mem, 0, whole);
	return mem;
}

void core_arena(struct core_env *env, u32 id, u32 extents)
{
	env->arena = kvc_arena_init(core_mem(kvc_arena_size(extents)), id, extents);
}

void core_arena_device(struct core_env *env, u32 id, u32 extents, u32 epoch)
{
	void *mem = core_mem(kvc_arena_size(extents));

	env->arena = kvc_arena_init_device(mem, id, extents, epoch);
	env->device = true;
}

void core_arena_free(struct core_env *env)
{
	if (kvc_arena_exit(env->arena)) {
		printf("Bail out! a pool is left\n");
		exit(1);
	}
	free(env->arena);
}

struct kvc_pool *core_pool(struct core_env *env, u32 min, u32 max, int *err)
{
	return core_pool_as(env, min, max, 0, NULL, err);
}

struct kvc_pool *core_pool_as(struct core_env *env, u32 min, u32 max, u32 id, void *data, int *err)
{
	struct kvc_pool_params params = {
		.min = min, .max = max, .secret = { 0x1234, 0x5678 }, .id = id, .data = data
	};
	void *mem = core_mem(kvc_pool_size());
	struct kvc_pool *pool = NULL;
	int r = kvc_pool_init(mem, env->arena, &params, &pool);

	if (err)
		*err = r;
	if (r)
		free(mem);
	return pool;
}

int core_cache(struct kvc_pool *pool, u32 page_size)
{
	size_t size = kvc_cache_size(page_size);
	void *mem;
	int id;

	if (!size)
		return -EINVAL;
	mem = core_mem(size);
	id = kvc_cache_add(pool, mem, page_size);
	if (id < 0)
		free(mem);
	return id;
}

struct kvc_client *core_client(struct kvc_pool *pool)
{
	struct kvc_client *client = NULL;
	void *mem = core_mem(kvc_client_size(pool));

	if (kvc_client_init(mem, pool, &client))
		free(mem);
	return client;
}

void core_serve(struct core_env *env, struct kvc_op *op)
{
	struct kvc_need *need;
	struct kvc_zap *zap;
	u32 i, k;

	core_tables(op);
	for (i = 0; i < op->nr_needs; i++) {
		need = &op->need[i];
		if (need->there != (env->device && need->kind == KVC_NEED_SLAB)) {
			printf("Bail out! a need for memory that is%s there\n", env->device ? "" : " not");
			exit(1);
		}
		if (env->decline && env->decline(env, need))
			continue;
		need->mem[0] = core_mem(need->size[0]);
		if (need->size[1])
			need->mem[1] = core_mem(need->size[1]);
	}
	for (i = 0; i < op->nr_zaps; i++) {
		zap = &op->zap[i];
		for (k = 0; env->pinned && !zap->waived && k < KVC_PAGES_MAX; k++)
			if (zap->pages[k / 64] >> (k % 64) & 1 && env->pinned(env, zap, k))
				zap->pinned[k / 64] |= 1ull << (k % 64);
		if (env->device && !zap->waived) {
			printf("Bail out! a zap that wants to know of device memory who has it\n");
			exit(1);
		}
		if (env->zap)
			env->zap(env, zap);
	}
	for (i = 0; env->release && i < op->nr_releases; i++)
		env->release(env, &op->release[i]);
}

void core_tables(struct kvc_op *op)
{
	void *table;

	while ((table = kvc_op_table(op)))
		free(table);
}

int core_alloc(struct core_env *env, struct kvc_client *client, u32 id, u64 *pages, u32 n,
	       u32 flags)
{
	struct kvc_op op;

	return CORE_RUN(env, &op, kvc_alloc(client, id, pages, n, flags, &op));
}

int core_free(struct core_env *env, struct kvc_client *client, const u64 *pages, u32 n)
{
	struct kvc_op op;

	return CORE_RUN(env, &op, kvc_free(client, pages, n, &op));
}

int core_seal(struct core_env *env, struct kvc_client *client, struct kvc_seal *seals, u32 n)
{
	struct kvc_op op;

	return CORE_RUN(env, &op, kvc_seal(client, seals, n, &op));
}

int core_lookup(struct core_env *env, struct kvc_client *client, u32 id,
		const u8 (*hashes)[KVC_HASH_SIZE], u32 n, u64 *pages)
{
	struct kvc_op op;

	return CORE_RUN(env, &op, kvc_lookup(client, id, hashes, n, pages, &op));
}

int core_reclaim(struct core_env *env, struct kvc_pool *pool, u32 n)
{
	struct kvc_op op;

	return CORE_RUN(env, &op, kvc_reclaim(pool, n, &op));
}

int core_unquarantine(struct core_env *env, struct kvc_pool *pool)
{
	struct kvc_op op;

	return CORE_RUN(env, &op, kvc_unquarantine(pool, &op));
}

void core_client_exit(struct core_env *env, struct kvc_client *client)
{
	struct kvc_op op;

	CORE_RUN(env, &op, kvc_client_exit(client, &op));
	free(client);
}

int core_pool_exit(struct core_env *env, struct kvc_pool *pool)
{
	struct kvc_op op;
	int r = CORE_RUN(env, &op, kvc_pool_exit(pool, &op));

	if (!r)
		free(pool);
	return r;
}

void core_hash(u8 hash[KVC_HASH_SIZE], u32 n)
{
	u64 z = n * 0x9e3779b97f4a7c15u + 1;
	u32 i;

	for (i = 0; i < KVC_HASH_SIZE; i++) {
		z = (z ^ z >> 29) * 0xbf58476d1ce4e5b9u;
		hash[i] = z >> 56;
	}
}
