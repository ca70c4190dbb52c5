/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* A small host and jobs on it, for the tests that go through the scheduler's calls one by one. */
#ifndef SCHED_HOST_H
#define SCHED_HOST_H

#include "runtime/sched/sched.h"
#include "tests/lib/fake_jobs.h"
#include "tests/lib/tap.h"
#include "tests/lib/test_pool.h"

static uint64_t seed; /* set by main */

/* @pages pages of 16 tokens. A pool of 2 MiB holds 32 of 64 KiB. */
#define PAGE (64 << 10)
#define POOL_TOKENS (32 * 16)

__attribute__((unused)) static void open_host(struct fake_host *h,
					      const struct kvslab_sched_opts *opts)
{
	struct kvslab_geometry geo = fake_geometry(1, 16, PAGE);
	struct kvslab_pool *pool;

	if (test_pool_open(&pool, "embedded:2M", NULL) ||
	    fake_host_open(h, pool, &geo, opts, 0, 0)) {
		ok(0, "a host");
		exit(done());
	}
}

__attribute__((unused)) static void close_host(struct fake_host *h)
{
	char why[200] = "";

	ok(!h->f.faults, "no fault %s", h->f.fault);
	ok(fake_pool_idle(h->pool, why, sizeof(why)), "no page is held %s", why);
	fake_host_close(h);
}

__attribute__((unused)) static void job(struct fake_job *j, uint32_t n, uint32_t max_tokens)
{
	fake_job_init(j, NULL, 0, n, &seed);
	j->max_tokens = max_tokens;
}

__attribute__((unused)) static int run_all(struct fake_host *h)
{
	int rc;

	do
		rc = kvslab_sched_step(h->sched);
	while (rc > 0);
	return rc;
}

__attribute__((unused)) static void right(struct fake_job *j, const char *name)
{
	char why[200] = "";

	ok(fake_job_right(j, why, sizeof(why)), "%s: right answer %s", name, why);
	fake_job_free(j);
}

#endif
