/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * An executor for tests whose answers depend on every byte of KV that a sequence should have, and
 * that notices when one is wrong. The key and value of a position hold a digest of its token, its
 * position and the digest before it, in every layer and head. Reading checks the whole chain;
 * writing checks that it may write there. The next token is a hash of the last digest, so it is
 * known from the tokens alone: fake_answer().
 */
#ifndef FAKE_EXEC_H
#define FAKE_EXEC_H

#include <pthread.h>
#include <stdatomic.h>

#include "kvslab.h"

struct fake_exec {
	struct kvslab_executor ex;
	struct kvslab_geometry geo;
	uint64_t model; /* where the chain begins */

	/* How to behave; the test sets these. */
	uint32_t delay; /* complete(wait = false) finds nothing so many times */
	bool threaded; /* run the batch in a thread of its own */
	uint32_t fail_run, fail_batch, fail_submit; /* chances in 1/65536 */
	uint64_t rng; /* for these */
	void (*during)(void *data); /* called in complete(), while the batch runs */
	void *data;

	/* What was seen. */
	uint32_t faults; /* broken rules; the first in fault[] */
	char fault[256];
	uint64_t batches, rows, stored_rows, copies, failed;

	struct kvslab_batch *running;
	uint32_t polls;
	pthread_t thread;
	atomic_bool finished;
};

/* A slot (one token of one head's K or V) must take 16 bytes. */
void fake_open(struct fake_exec *f, const struct kvslab_geometry *geo, uint64_t model);

/* The token that follows tokens[n]. */
uint32_t fake_answer(const struct fake_exec *f, const uint32_t *tokens, uint32_t n,
		     const struct kvslab_sampling *sampling);
/* The log probability of tokens[n - 1] after those before it, where it is a row's target. */
float fake_prompt_score(const struct fake_exec *f, const uint32_t *tokens, uint32_t n);
/* Compute positions [from, to) of @seq, reading all before; as a run of rows would. false: a fault.
 */
bool fake_compute(struct fake_exec *f, struct kvslab_seq *seq, uint32_t from, uint32_t to);
/* Are the first @n positions of @seq in its pages? false: a fault. */
bool fake_check(struct fake_exec *f, struct kvslab_seq *seq, uint32_t n);

/* Two layers a group, one head. Pages may be larger than what is in them, so that a small pool has
 * few. */
struct kvslab_geometry fake_geometry(uint32_t groups, uint32_t page_tokens, uint32_t page_size);

#endif
