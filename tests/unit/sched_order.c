// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Who goes first: forks among those that wait, priorities against what runs, by places and by
 * pages. */
#include <string.h>

#include "sched_host.h"

/* A request that is forked again and again does not keep the one out that waits. */
static void forks_wait_their_turn(void)
{
	struct kvslab_sched_opts opts = { .max_batch = 2 };
	struct fake_host h;
	struct fake_job a, b, c, d, e;

	open_host(&h, &opts);
	job(&a, 20, 30);
	job(&b, 20, 5);
	job(&c, 20, 5);
	fake_job_add(&a, &h);
	fake_job_add(&b, &h);
	fake_job_add(&c, &h);
	while (!b.done)
		kvslab_sched_step(h.sched);
	job(&d, 0, 40);
	ok(!fake_job_fork(&a, &d), "a fork while another waits and there is room");
	kvslab_sched_step(h.sched);
	ok(c.n == 21 && d.n == d.n_prompt, "the other is first");
	job(&e, 0, 5);
	e.priority = 1;
	while (!c.done)
		kvslab_sched_step(h.sched);
	ok(!fake_job_fork(&a, &e), "a fork of higher priority");
	kvslab_sched_step(h.sched);
	ok(e.n == e.n_prompt + 1 && d.n == d.n_prompt, "need not wait");
	ok(run_all(&h) == 0, "all end");
	right(&a, "a");
	right(&b, "b");
	right(&c, "c");
	right(&d, "d");
	right(&e, "e");
	close_host(&h);
}

static void forks(bool no_prefix)
{
	struct kvslab_sched_opts opts = { .no_prefix = no_prefix };
	struct fake_host h;
	struct fake_job a, early, late, same;
	uint64_t rows;

	open_host(&h, &opts);
	job(&a, 40, 30);
	fake_job_add(&a, &h);
	job(&early, 0, 30);
	early.sampling = (struct kvslab_sampling){ .temperature = 1, .seed = 7 };
	ok(!fake_job_fork(&a, &early) && early.n_prompt == 40, "before the first step: a copy of "
							       "the prompt");
	while (a.n < 60)
		kvslab_sched_step(h.sched);
	job(&late, 0, 12);
	late.sampling = (struct kvslab_sampling){ .temperature = 1, .seed = 8 };
	job(&same, 0, 5);
	rows = h.f.rows;
	ok(!fake_job_fork(&a, &late) && !fake_job_fork(&a, &same), "in the middle of the answer");
	ok(h.f.copies == 2, "each copied the one page that is not full");
	kvslab_sched_step(h.sched);
	ok(h.f.rows - rows == 4, "and goes on without computing anything again");
	ok(run_all(&h) == 0 && late.info.cached_tokens == 59 && late.info.prompt_tokens == 60, "all"
											       " en"
											       "d");
	ok(!memcmp(same.tokens, a.tokens, 65 * sizeof(uint32_t)), "the same sampling, the same "
								  "answer");
	right(&a, "parent");
	right(&early, "early");
	right(&late, "late");
	right(&same, "same");
	close_host(&h);
}

/* Order of arrival within a priority, higher ones first, also against what runs. */
static void priorities(void)
{
	struct kvslab_sched_opts opts = { .max_batch = 2 };
	struct fake_host h;
	struct fake_job low[3], high;
	uint32_t i;

	open_host(&h, &opts);
	for (i = 0; i < 3; i++) {
		job(&low[i], 20, 30);
		fake_job_add(&low[i], &h);
	}
	for (i = 0; i < 5; i++)
		kvslab_sched_step(h.sched);
	ok(low[0].n > 20 && low[1].n > 20 && low[2].n == 20, "the first two run");
	job(&high, 20, 30);
	high.priority = 3;
	fake_job_add(&high, &h);
	kvslab_sched_step(h.sched);
	ok(high.n == 21 && low[0].n == 26 && low[1].n == 25, "a higher one takes the place of the "
							     "younger");
	ok(run_all(&h) == 0 && high.info.preemptions == 0 && low[1].info.preemptions == 1, "all "
											   "end");
	ok(low[1].info.t_last < low[2].info.t_first || low[1].info.t_first < low[2].info.t_first,
	   "the preempted one went before the one that came later");
	right(&high, "high");
	for (i = 0; i < 3; i++)
		right(&low[i], "low");

	/* The same by pages: 30 of the 32 are taken by the low ones. */
	job(&low[0], 15 * 16, 10);
	job(&low[1], 15 * 16 - 1, 10);
	fake_job_add(&low[0], &h);
	fake_job_add(&low[1], &h);
	kvslab_sched_step(h.sched);
	job(&high, 10 * 16, 10);
	high.priority = 1;
	fake_job_add(&high, &h);
	kvslab_sched_step(h.sched);
	ok(high.n == 10 * 16 + 1 && low[0].n == 15 * 16 + 2 && low[1].n == 15 * 16, "a higher one "
										    "takes the "
										    "pages of the "
										    "younger");
	ok(run_all(&h) == 0, "all end");
	right(&high, "high");
	right(&low[0], "low");
	right(&low[1], "low");
	close_host(&h);
}

/* Those that run take pages from each other in the very step in which a higher one waits: it need
 * not wait for that. */
static void outranks_while_short(void)
{
	struct kvslab_sched_opts opts = { .step_tokens = 512 };
	struct kvslab_sched_stat stat;
	struct fake_host h;
	struct fake_job low[4], high;
	uint32_t i;

	open_host(&h, &opts);
	for (i = 0; i < 4; i++) {
		job(&low[i], 8 * 16, 20);
		fake_job_add(&low[i], &h);
	}
	kvslab_sched_step(h.sched);
	ok(low[3].n == 8 * 16 + 1, "four prompts fill the pool, and each wants a page more");
	job(&high, 10, 5);
	high.priority = 1;
	fake_job_add(&high, &h);
	kvslab_sched_step(h.sched);
	kvslab_sched_stat(h.sched, &stat);
	ok(stat.preemptions == 1, "one of them gives its pages back");
	ok(high.n == 11, "and a higher one starts in the same step");
	ok(run_all(&h) == 0, "all end");
	right(&high, "high");
	for (i = 0; i < 4; i++)
		right(&low[i], "low");
	close_host(&h);
}

int main(int argc, char **argv)
{
	seed = tap_seed(argc, argv);
	forks_wait_their_turn();
	forks(false);
	forks(true);
	priorities();
	outranks_while_short();
	return done();
}
