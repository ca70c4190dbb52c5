/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* Requests run through the scheduler, their answers kept and compared. */
#ifndef TESTS_LIB_MODEL_SCHED_H
#define TESTS_LIB_MODEL_SCHED_H

#include "tests/lib/model_util.h"

struct ms_request {
	const uint32_t *prompt;
	uint32_t n_prompt;
	uint32_t max_tokens;
	struct kvslab_sampling sampling;
	uint8_t priority;
	/* out */
	uint32_t *tokens; /* [n_tokens] */
	float *logprob;
	uint32_t n_tokens;
	bool done;
	enum kvslab_finish finish;
	int error;
};

struct ms_opts {
	uint32_t max_batch, step_tokens, chunk_tokens;
	bool no_prefix;
	uint32_t cancelled; /* that many more requests, random, cancelled at random steps; wants seed */
	uint64_t *seed;
	uint64_t preemptions; /* out */
};

/* Runs them to their ends. False, and a line that says why, if one did not end by its max_tokens. */
bool ms_run(struct mu_engine *e, struct ms_opts *o, struct ms_request *rs, uint32_t n);
/* The questions without the answers. */
void ms_copy(struct ms_request *to, const struct ms_request *from, uint32_t n);
bool ms_same(const struct ms_request *a, const struct ms_request *b, uint32_t n);
void ms_free_answers(struct ms_request *rs, uint32_t n);

#endif
