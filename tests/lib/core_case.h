/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* A pool for one case: what was asked of the caller is counted, what it answers is set. */
#ifndef CORE_CASE_H
#define CORE_CASE_H

#include "core_env.h"

#define MIB (1u << 20)
#define SIX (340u << 10) /* a page size with six pages a slab */

struct core_case {
	struct core_env env;
	/* set by the case */
	bool decline_slabs, decline_tables;
	u64 pin[64]; /* extent: bits of the first 64 pages */
	/* counted */
	u32 needs, zapped[5], released; /* slabs and tables; pages by enum kvc_why; slabs */
	u32 nr_evicted;
	u16 evicted[256]; /* extent << 6 | page, rounds in order, within a round by place */
};

void case_open(struct core_case *c, u32 extents);
void case_close(struct core_case *c); /* with all pools gone */
void case_reset(struct core_case *c); /* the counts */
/* A pool with one cache; fails the test where the core does. */
struct kvc_pool *case_pool(struct core_case *c, u32 min, u32 max, u32 page_size);
void case_pool_close(struct core_case *c, struct kvc_pool *pool);
/* Seal one page as number @n with parent @n - 1 (@n a multiple of 100: a root). */
int case_seal(struct core_case *c, struct kvc_client *client, u64 *page, u32 n, u8 class);
int case_lookup(struct core_case *c, struct kvc_client *client, u32 id, u32 n, u64 *page);
/* The debug walk; prints what is broken. */
bool case_holds(struct core_case *c);

#endif
