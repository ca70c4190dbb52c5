/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * A model, a pool and an executor in one, and sequences driven through them by hand, for tests and drivers. What goes
 * wrong here is the test's own trouble: these calls print the reason and exit.
 */
#ifndef TESTS_LIB_MODEL_UTIL_H
#define TESTS_LIB_MODEL_UTIL_H

#include "kvslab.h"
#include "runtime/model/model.h"

struct mu_model {
	struct gguf gguf;
	struct model *m;
};

void mu_model_open(struct mu_model *mm, const char *path);
void mu_model_close(struct mu_model *mm);

struct mu_opts { /* all zero: f16, pages as chosen, one thread, the best kernels, 512 rows, 32 runs, 256 MiB */
	enum kvslab_kv_type kv_type;
	uint32_t page_tokens;
	uint32_t threads;
	const char *kernels;
	uint32_t max_rows, max_runs;
	uint64_t pool_bytes;
};

struct mu_engine {
	const struct model *m;
	struct kvslab_pool *pool;
	struct kvslab_kv *kv;
	struct kvslab_executor *ex;
};

void mu_engine_open(struct mu_engine *e, const struct mu_model *mm, const struct mu_opts *opts);
/* Checks the pool: every rule holds, no page is private or referenced. Returns whether it is so; prints why not. */
bool mu_engine_close(struct mu_engine *e);

/* One sequence whose tokens are all known: computed @chunk rows a step, logits and drawn tokens kept. */
struct mu_stream {
	const uint32_t *ids;
	uint32_t n;
	uint32_t chunk; /* 0: as many as there is room for */
	bool match; /* look the prefix up first; what it has is not computed, the last token always is */
	struct kvslab_sampling sampling;
	uint32_t n_prompt; /* of the ids; the others count as said */
	/* per position, untouched where nothing was computed; each may be NULL */
	float *logits; /* [n][vocab] */
	int32_t *drawn; /* [n] */
	float *logprob; /* [n] */
	uint32_t found; /* out: tokens that the prefix gave */
	struct kvslab_seq *seq; /* mu_run opens it, the caller closes it */
};

/* Runs all of them to their end, in common steps as far as there is room. */
void mu_run(struct mu_engine *e, struct mu_stream *streams, uint32_t n);

/* n random ids below @vocab. */
void mu_random_ids(uint32_t *ids, uint32_t n, uint32_t vocab, uint64_t *seed);

__attribute__((format(printf, 1, 2), noreturn)) void mu_die(const char *fmt, ...);
void *mu_alloc(size_t n, size_t size); /* zeroed */

#endif
