/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* The core's caller in tests: memory, and a loop that serves needs and effects, with hooks in
 * between. */
#ifndef CORE_ENV_H
#define CORE_ENV_H

#include "core.h"

struct core_env {
	struct kvc_arena *arena;
	bool device; /* of device memory: nothing may be asked for that is not there to be done */
	/* All may be NULL. */
	bool (*decline)(struct core_env *env, const struct kvc_need *need);
	bool (*pinned)(struct core_env *env, const struct kvc_zap *zap, u32 index);
	void (*zap)(struct core_env *env, const struct kvc_zap *zap); /* after pinned was set */
	void (*release)(struct core_env *env, const struct kvc_release *release);
	void *data;
};

void *core_mem(size_t size); /* zeroed, aligned; ends the program if there is none */

void core_arena(struct core_env *env, u32 id, u32 extents);
void core_arena_device(struct core_env *env, u32 id, u32 extents, u32 epoch);
void core_arena_free(struct core_env *env); /* ends the program if a pool is left */
struct kvc_pool *core_pool(struct core_env *env, u32 min, u32 max, int *err);
/* The same with an id and data for hooks. */
struct kvc_pool *core_pool_as(struct core_env *env, u32 min, u32 max, u32 id, void *data, int *err);
int core_cache(struct kvc_pool *pool, u32 page_size);
struct kvc_client *core_client(struct kvc_pool *pool);

/* Do what op asks for. */
void core_serve(struct core_env *env, struct kvc_op *op);
void core_tables(struct kvc_op *op);

/* A whole call. */
#define CORE_RUN(env, op, call)                       \
	({                                            \
		int core_r;                           \
                                                      \
		kvc_op_init(op);                      \
		while ((core_r = (call)) == KVC_MORE) \
			core_serve(env, op);          \
		core_tables(op);                      \
		core_r;                               \
	})

int core_alloc(struct core_env *env, struct kvc_client *client, u32 id, u64 *pages, u32 n,
	       u32 flags);
int core_free(struct core_env *env, struct kvc_client *client, const u64 *pages, u32 n);
int core_seal(struct core_env *env, struct kvc_client *client, struct kvc_seal *seals, u32 n);
int core_lookup(struct core_env *env, struct kvc_client *client, u32 id,
		const u8 (*hashes)[KVC_HASH_SIZE], u32 n, u64 *pages);
int core_reclaim(struct core_env *env, struct kvc_pool *pool, u32 n);
int core_unquarantine(struct core_env *env, struct kvc_pool *pool);
void core_client_exit(struct core_env *env, struct kvc_client *client);
int core_pool_exit(struct core_env *env, struct kvc_pool *pool);

/* The hash of number @n: differs in all bytes. */
void core_hash(u8 hash[KVC_HASH_SIZE], u32 n);

#endif
