// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * Two thousand requests on a pool that holds a twentieth of what they need, added, cancelled and
 * forked at random, between steps, in callbacks and while a batch runs: all end with the right
 * answer, the first in the order moves on in every step, and nothing is left.
 */
#include <errno.h>
#include <string.h>

#include "runtime/sched/sched.h"
#include "tests/lib/fake_jobs.h"
#include "tests/lib/tap.h"
#include "tests/lib/test_pool.h"

#if defined(__SANITIZE_THREAD__)
#define JOBS 200 /* what matters there is the executor's thread */
#else
#define JOBS 2000
#endif
#define SHARED 200

struct storm {
	struct fake_host h;
	struct fake_job *jobs;
	uint32_t added, done, forked, cancelled, refused;
	uint64_t seed;
	uint32_t shared[SHARED];
	bool closing;
};

static uint32_t below(struct storm *w, uint32_t n)
{
	return (uint32_t)(rnd(&w->seed) % n);
}

static void meddle(struct storm *w);

static void event(struct fake_job *j, bool is_done, void *data)
{
	struct storm *w = data;

	(void)j;
	w->done += is_done;
	if (!w->closing && !below(w, 40))
		meddle(w);
}

static void settle(struct storm *w, struct fake_job *j)
{
	j->max_tokens = 1 + below(w, 120);
	j->n_stop = below(w, 3) ? 0 : 8;
	j->priority = (uint8_t)below(w, below(w, 4) ? 2 : 8);
	if (below(w, 2))
		j->sampling = (struct kvslab_sampling){ .temperature = 1, .seed = rnd(&w->seed) };
	j->event = event;
	j->data = w;
}

static struct fake_job *any_live(struct storm *w)
{
	uint32_t i, at;

	for (i = 0; i < 30 && w->added; i++) {
		/* recent ones live */
		at = w->added > 100 && below(w, 4) ? w->added - 1 - below(w, 100)
						   : below(w, w->added);
		if (w->jobs[at].request)
			return &w->jobs[at];
	}
	return NULL;
}

static void add(struct storm *w)
{
	struct fake_job *j = &w->jobs[w->added];

	if (w->added == JOBS)
		return;
	fake_job_init(j, w->shared, below(w, 2) ? 0 : below(w, SHARED), 1 + below(w, 150),
		      &w->seed);
	settle(w, j);
	w->added++;
	if (fake_job_add(j, &w->h))
		w->refused++;
}

static void fork_one(struct storm *w)
{
	struct fake_job *parent = any_live(w), *j = &w->jobs[w->added];

	if (!parent || w->added == JOBS)
		return;
	fake_job_init(j, NULL, 0, 0, &w->seed);
	settle(w, j);
	w->added++;
	w->forked++;
	switch (fake_job_fork(parent, j)) {
	case 0:
		return;
	case -EFBIG: /* forks of forks of forks outgrow the pool */
		break;
	default:
		w->refused++;
	}
	fake_job_free(j);
	w->added--;
	w->forked--;
}

static void cancel_one(struct storm *w)
{
	struct fake_job *j = any_live(w);

	if (!j)
		return;
	w->cancelled++;
	kvslab_sched_cancel(w->h.sched, j->request);
}

static void meddle(struct storm *w)
{
	switch (below(w, 16)) {
	case 0:
		cancel_one(w);
		break;
	case 1:
	case 2:
	case 3:
		fork_one(w);
		break;
	default:
		add(w);
	}
}

static void during(void *data)
{
	struct storm *w = data;

	if (!below(w, 8))
		meddle(w);
}

/* Where the first of all stands, running or waiting: nothing may hold that one up. */
struct first {
	uint64_t arrival, done;
	uint32_t computed;
};

static struct first first_of(const struct storm *w)
{
	const struct kvslab_request *run = w->h.sched->running.first;
	const struct kvslab_request *wait = sched_next_waiting(w->h.sched);
	const struct kvslab_request *r = run;

	if (!run || (wait && (wait->priority > run->priority ||
			      (wait->priority == run->priority && wait->arrival < run->arrival))))
		r = wait;
	return (struct first){
		.arrival = r ? r->arrival : UINT64_MAX,
		.done = w->done,
		.computed = r ? r->seq->committed : 0,
	};
}

static bool moved(const struct first *a, const struct first *b)
{
	return a->done != b->done || a->arrival != b->arrival || a->computed < b->computed;
}

struct setting {
	const char *name;
	uint32_t groups, page_tokens, page_size, max_batch;
	bool no_prefix, threaded;
};

static void run(const struct setting *set, uint64_t seed)
{
	struct kvslab_geometry geo = fake_geometry(set->groups, set->page_tokens, set->page_size);
	struct kvslab_sched_opts opts = { .step_tokens = 300,
					  .max_batch = set->max_batch,
					  .no_prefix = set->no_prefix };
	const char *name = set->name;
	uint32_t pt = set->page_tokens, lag = 0, max_lag = 0;
	struct kvslab_sched_stat stat;
	struct kvslab_pool *pool;
	struct first a, b;
	struct storm w = { .seed = seed };
	char why[200] = "";
	uint32_t wrong = 0, errors = 0, i;
	uint64_t steps = 0, again = 0, need = 0, cancelled = 0, max_preempted = 0;
	double share;
	int rc;

	if (!ok(!test_pool_open(&pool, "embedded:2M", NULL) &&
			!fake_host_open(&w.h, pool, &geo, &opts, 0, 1024),
		"%s: opened", name))
		return;
	w.h.f.threaded = set->threaded;
	w.h.f.during = during;
	w.h.f.data = &w;
	w.jobs = calloc(JOBS, sizeof(*w.jobs));
	for (i = 0; i < SHARED; i++)
		w.shared[i] = below(&w, 1000);
	/* A backlog from the beginning on, so that the pool is always short. */
	while (w.added < JOBS / 4)
		add(&w);
	do {
		a = first_of(&w);
		rc = kvslab_sched_step(w.h.sched);
		b = first_of(&w);
		lag = moved(&a, &b) ? 0 : lag + 1;
		max_lag = lag > max_lag ? lag : max_lag;
		again += rc == -EAGAIN;
		steps++;
		for (i = below(&w, 3); i; i--)
			meddle(&w);
	} while (rc > 0 || w.added < JOBS || (rc == -EAGAIN && again < 1000));
	w.closing = true;
	for (i = 0; i < w.added; i++) {
		struct fake_job *j = &w.jobs[i];

		need += (j->n + pt - 1) / pt * pt;
		if (!fake_job_right(j, why, sizeof(why)))
			wrong++;
		errors += j->info.finish == KVSLAB_FINISH_ERROR;
		cancelled += j->info.finish == KVSLAB_FINISH_CANCEL;
		if (j->info.preemptions > max_preempted)
			max_preempted = j->info.preemptions;
	}
	kvslab_sched_stat(w.h.sched, &stat);
	ok(w.done == JOBS && !wrong && !errors && !w.refused,
	   "%s: %u of %u ended (%u forks, %llu cancelled), %u wrong %s", name, w.done, JOBS,
	   w.forked, (unsigned long long)cancelled, wrong, why);
	/* One step: for another to seal the block that it comes to. */
	ok(max_lag <= 1 && !again,
	   "%s: %llu steps; the first stood still for %u, %llu were without rows%s", name,
	   (unsigned long long)steps, max_lag, (unsigned long long)again,
	   again ? kvslab_sched_reason(w.h.sched) : "");
	ok(stat.finished + stat.cancelled == JOBS && stat.cancelled == cancelled && !stat.running &&
		   !stat.waiting,
	   "%s: the figures add up", name);
	ok(stat.preemptions > JOBS / 100, "%s: %llu preemptions, at most %llu of one request", name,
	   (unsigned long long)stat.preemptions, (unsigned long long)max_preempted);
	share = 100.0 * (2 << 20) / geo.page_size / geo.groups * pt / (double)need;
	ok(share < 5.0 * 2000 / JOBS, "%s: the pool is %.1f%% of the need", name, share);
	ok(!w.h.f.faults, "%s: no fault %s", name, w.h.f.fault);
	ok(fake_pool_idle(w.h.pool, why, sizeof(why)), "%s: no page is held %s", name, why);
	ok(stat.rows < 4 * need, "%s: %.2f rows a token", name, (double)stat.rows / (double)need);
	for (i = 0; i < w.added; i++)
		fake_job_free(&w.jobs[i]);
	free(w.jobs);
	fake_host_close(&w.h);
}

int main(int argc, char **argv)
{
	static const struct setting settings[] = {
		{ "many pages", 1, 16, 4096, 600, false, false },
		{ "few pages", 1, 16, 32 << 10, 24, false, false },
		{ "2 groups, no prefix", 2, 16, 16 << 10, 24, true, false },
		{ "30 tokens a page, a thread", 1, 30, 32 << 10, 24, false, true },
	};
	uint64_t seed = tap_seed(argc, argv);
	uint32_t i;

	for (i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		run(&settings[i], rnd(&seed));
	return done();
}
