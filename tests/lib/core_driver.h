/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * Random calls of the core, each compared with the model. Up to two calls are left between begin
 * and finish while others run; then, and where needs are declined or pages pinned, a call may be
 * refused that the model would allow, but never the reverse.
 */
#ifndef CORE_DRIVER_H
#define CORE_DRIVER_H

#include "core_env.h"
#include "core_model.h"

#define DEAD 512 /* handles remembered after they became stale */

enum call_kind {
	CALL_ALLOC,
	CALL_FREE,
	CALL_GET,
	CALL_SEAL,
	CALL_LOOKUP,
	CALL_EXIT,
	CALL_RECLAIM,
	CALL_UNQUARANTINE,
	CALL_KINDS,
};

struct dead {
	u64 handle;
	u32 life;
};

struct call {
	bool running;
	enum call_kind kind;
	int client, pool, cache; /* of the model */
	u32 n, flags;
	bool decline; /* half of its needs */
	bool declined, met_pin; /* a need was; a page that was zapped was pinned */
	bool evicted, pinned; /* it evicted a page; a page to be sealed was pinned */
	bool alone; /* no other call ran since it began */
	bool begun, fixed; /* the model has its first half; its result */
	int expect, or_else; /* the errno that it must give, or that one; 0: it is not refused at
				once */
	u64 refused; /* the handle for which expect is an errno */
	u64 could, without_max; /* pages that ALLOC could get */
	u32 released, dearest; /* slabs (UNQUARANTINE: pages); cached pages in one */
	struct kvc_op op;
	u64 pages[KVC_BATCH_MAX + 1];
	struct kvc_seal seals[KVC_BATCH_MAX + 1];
	u32 hash[KVC_BATCH_MAX + 1]; /* numbers */
	u8 hashes[KVC_BATCH_MAX + 1][KVC_HASH_SIZE];
};

struct driver {
	struct core_env env;
	struct model m;
	u64 seed;
	u64 nowait[2]; /* calls that ended, and that said EAGAIN */
	bool had; /* the device arena's pool was made */
	u64 calls, good, results[CALL_KINDS][2], refused;
	struct kvc_pool *pool[MODEL_POOLS];
	struct kvc_client *client[MODEL_CLIENTS];
	int client_pool[MODEL_CLIENTS];
	u64 client_number[MODEL_CLIENTS], clients; /* never the same twice */
	bool pin[MODEL_EXTENTS][MODEL_PAGES];
	struct dead dead[DEAD];
	u32 nr_dead;
	struct call call[3], *now;
	u64 seals[MODEL_POOLS], lookups[MODEL_POOLS], asked[MODEL_POOLS], hits[MODEL_POOLS];
	struct model_page gone[MODEL_EXTENTS * MODEL_PAGES]; /* evicted in this round */
	u32 nr_gone;
	char why[200]; /* set by the first thing that is wrong */
};

void driver_init(struct driver *d, u64 seed);
/* One more call, or the end of one. False: d->why says what was wrong. */
bool driver_step(struct driver *d);
/* Ends all calls, clients and pools. */
bool driver_end(struct driver *d);

/* core_args.c: a number below @n; what a call is made with. */
u32 driver_below(struct driver *d, u32 n);
void driver_fill(struct driver *d, struct call *c);

/* core_expect.c: what the model says of a call, and what becomes of it. */
void driver_expect(struct driver *d, struct call *c); /* before it begins */
void driver_begun(struct driver *d, struct call *c); /* after its first half */
void driver_result(struct driver *d, struct call *c, int r);
bool driver_exact(struct driver *d, const struct call *c);
void driver_wrong(struct driver *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void driver_dead(struct driver *d, u64 handle);

#endif
