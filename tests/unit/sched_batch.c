// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * The batch does not matter: the same requests, run under every kind of schedule, must give the
 * answers that their tokens alone determine. The executor checks every page table on the way.
 */
#include <string.h>

#include "tests/lib/fake_jobs.h"
#include "tests/lib/tap.h"
#include "tests/lib/test_pool.h"

#define JOBS 40
#define SHARED 70

struct setting {
	const char *name;
	uint32_t groups, page_tokens, page_size;
	const char *pool;
	struct kvslab_sched_opts opts;
	uint32_t max_rows, max_runs; /* of the executor; 0: plenty */
	bool threaded;
	bool expect_preemption, expect_hits;
};

#define BIG "embedded:64M"
#define SMALL "embedded:2M"

#define SHAPE(g, t, size) .groups = g, .page_tokens = t, .page_size = size
#define ROOMY SHAPE(1, 16, 4096), .pool = BIG
#define TIGHT SHAPE(1, 16, 64 << 10), .pool = SMALL, .expect_preemption = true
#define HITS .expect_hits = true

static const struct setting settings[] = {
	{ .name = "one at a time", ROOMY, .opts.max_batch = 1, HITS },
	{ .name = "one at a time, no prefix", ROOMY, .opts.max_batch = 1, .opts.no_prefix = true },
	{ .name = "all at once", ROOMY, .opts.max_batch = 40, HITS },
	{ .name = "all at once, no prefix", ROOMY, .opts.max_batch = 40, .opts.no_prefix = true },
	{ .name = "chunks of 1", ROOMY, .opts.chunk_tokens = 1, HITS },
	{ .name = "chunks of 7", ROOMY, .opts.chunk_tokens = 7, HITS },
	{ .name = "steps of 32 rows", ROOMY, .opts.step_tokens = 32, HITS },
	{ .name = "steps of 1 row", ROOMY, .opts.step_tokens = 1, HITS },
	{ .name = "an executor of 5 rows", ROOMY, .max_rows = 5, HITS },
	{ .name = "an executor of 3 runs", ROOMY, .max_runs = 3, HITS },
	{ .name = "an executor with a thread", ROOMY, .threaded = true, HITS },
	{ .name = "few pages", TIGHT },
	{ .name = "few pages, no prefix", TIGHT, .opts.no_prefix = true },
	{ .name = "few pages, small chunks", TIGHT, .opts.chunk_tokens = 5 },
	{ .name = "1 token a page", SHAPE(1, 1, 4096), .pool = BIG, HITS },
	{ .name = "15 tokens, 3 groups", SHAPE(3, 15, 4096), .pool = BIG, HITS },
	{ .name = "25 tokens, 4 groups",
	  SHAPE(4, 25, 8192),
	  .pool = BIG,
	  .opts.chunk_tokens = 9,
	  HITS },
	{ .name = "3 groups, few pages",
	  SHAPE(3, 5, 8192),
	  .pool = SMALL,
	  .opts.step_tokens = 48,
	  .expect_preemption = true },
};

static void make_jobs(struct fake_job *jobs, uint64_t seed)
{
	uint32_t shared[SHARED], i;

	for (i = 0; i < SHARED; i++)
		shared[i] = (uint32_t)(rnd(&seed) % 1000);
	for (i = 0; i < JOBS; i++) {
		struct fake_job *j = &jobs[i];
		uint32_t n = 1 + (uint32_t)(rnd(&seed) % 90);

		/* A third begins alike; some are that beginning and no more, so that all of it is
		 * found. */
		if (i % 9 == 0)
			fake_job_init(j, shared, 64, 0, &seed);
		else if (i % 3 == 0)
			fake_job_init(j, shared, SHARED, n, &seed);
		else
			fake_job_init(j, NULL, 0, n, &seed);
		j->max_tokens = 1 + (uint32_t)(rnd(&seed) % 60);
		j->n_stop = i % 2 ? 10 : 0;
		j->priority = (uint8_t)(rnd(&seed) % 3);
		if (i % 4 == 0)
			j->sampling = (struct kvslab_sampling){ .temperature = 0.7f, .seed = i };
		j->limit = j->n_prompt + j->max_tokens;
	}
}

static void run(const struct setting *set, uint64_t seed, struct fake_job *reference)
{
	struct kvslab_geometry geo = fake_geometry(set->groups, set->page_tokens, set->page_size);
	static struct fake_job jobs[JOBS];
	struct kvslab_sched_stat stat;
	struct kvslab_pool *pool;
	struct fake_host h;
	char why[200] = "";
	uint32_t i, wrong = 0, differ = 0;
	int rc;

	if (!ok(!test_pool_open(&pool, set->pool, NULL), "%s: a pool", set->name))
		return;
	rc = fake_host_open(&h, pool, &geo, &set->opts, set->max_rows, set->max_runs);
	if (!ok(!rc, "%s: opened", set->name))
		return;
	h.f.threaded = set->threaded;
	make_jobs(jobs, seed);
	for (i = 0; i < JOBS; i++)
		if (fake_job_add(&jobs[i], &h))
			ok(0, "job %u is taken", i);
	do
		rc = kvslab_sched_step(h.sched);
	while (rc > 0);
	kvslab_sched_stat(h.sched, &stat);
	for (i = 0; i < JOBS; i++) {
		wrong += !fake_job_right(&jobs[i], why, sizeof(why));
		if (!reference[i].tokens)
			continue;
		differ += jobs[i].n != reference[i].n ||
			  memcmp(jobs[i].tokens, reference[i].tokens,
				 jobs[i].n * sizeof(uint32_t)) != 0 ||
			  jobs[i].info.finish != reference[i].info.finish;
	}
	ok(rc == 0 && !wrong, "%s: all answers are right (%u wrong %s; last step %d %s)", set->name,
	   wrong, why, rc, kvslab_sched_reason(h.sched));
	ok(!differ, "%s: and the same as alone", set->name);
	ok(!h.f.faults, "%s: no fault %s", set->name, h.f.fault);
	ok(!!stat.preemptions == set->expect_preemption, "%s: %llu preemptions", set->name,
	   (unsigned long long)stat.preemptions);
	if (set->expect_hits || set->opts.no_prefix)
		ok(!!stat.prefix_hits == set->expect_hits, "%s: %llu of %llu tokens found",
		   set->name, (unsigned long long)stat.prefix_hits,
		   (unsigned long long)stat.prefix_queries);
	ok(stat.rows == h.f.rows && stat.rows == stat.prefill_rows + stat.decode_rows &&
		   stat.steps == h.f.batches,
	   "%s: rows and steps are counted", set->name);
	ok(fake_pool_idle(h.pool, why, sizeof(why)), "%s: no page is held %s", set->name, why);
	for (i = 0; i < JOBS; i++) {
		if (reference[i].tokens)
			fake_job_free(&jobs[i]);
		else
			reference[i] = jobs[i];
	}
	fake_host_close(&h);
}

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(argc, argv);
	static struct fake_job reference[JOBS];
	uint32_t i;

	for (i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		run(&settings[i], seed, reference);
	for (i = 0; i < JOBS; i++)
		fake_job_free(&reference[i]);
	return done();
}
