/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* Requests with their right answers, on a pool, a fake executor and a scheduler set up together. */
#ifndef FAKE_JOBS_H
#define FAKE_JOBS_H

#include "fake_exec.h"

/* One client of a pool with a scheduler. */
struct fake_host {
	struct kvslab_pool *pool;
	struct kvslab_kv *kv;
	struct kvslab_sched *sched;
	struct fake_exec f;
};

struct fake_job {
	uint32_t *tokens; /* prompt, then the answer as it comes; owned */
	uint32_t n_prompt, n, cap;
	uint32_t max_tokens, n_stop; /* ids below n_stop end it */
	uint32_t limit; /* length at which context or pool end it */
	struct kvslab_sampling sampling;
	uint8_t priority;
	const void *salt;
	size_t salt_size;

	struct fake_host *host;
	struct kvslab_request *request; /* while it lives */
	struct kvslab_request_info info; /* when it is done */
	bool done;
	uint64_t step_token; /* host step at which the last token came; the test counts steps */
	/* Called in on_token and on_done, after the job was brought up to date. */
	void (*event)(struct fake_job *job, bool done, void *data);
	void *data;
};

/* @pool: a client, which the host then owns. Of @opts, kv and executor are filled in; max_rows and
 * max_runs are the executor's, 0: plenty. 0 or an error. */
int fake_host_open(struct fake_host *h, struct kvslab_pool *pool, const struct kvslab_geometry *geo,
		   const struct kvslab_sched_opts *opts, uint32_t max_rows, uint32_t max_runs);
void fake_host_close(struct fake_host *h);

/* A job with @n random tokens of prompt after @shared[n_shared]. */
void fake_job_init(struct fake_job *j, const uint32_t *shared, uint32_t n_shared, uint32_t n,
		   uint64_t *seed);
int fake_job_add(struct fake_job *j, struct fake_host *h);
/* @child goes on from where @j is. */
int fake_job_fork(struct fake_job *j, struct fake_job *child);
/* Is the answer the one that the tokens have, whole where it ended by itself? Else why[n] says what
 * is wrong. */
bool fake_job_right(const struct fake_job *j, char *why, size_t n);
void fake_job_free(struct fake_job *j);

/* No private, no referenced page, and the pool's own check holds. */
bool fake_pool_idle(struct kvslab_pool *pool, char *why, size_t n);

#endif
