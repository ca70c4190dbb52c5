// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * Two schedulers on two clients of one pool, each with its thread, competing for few pages and
 * sharing prefixes: both end, with the right answers.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "tests/lib/fake_jobs.h"
#include "tests/lib/tap.h"
#include "tests/lib/test_pool.h"

#define JOBS 150
#define SHARED 100
#define LATE_MS 1000

struct side {
	struct fake_host h;
	struct fake_job jobs[JOBS];
	struct kvslab_sched_stat stat;
	uint32_t again;
	uint32_t late; /* waits that no event ended */
	bool stuck;
};

static void *run(void *arg)
{
	struct side *s = arg;
	uint32_t in_a_row = 0;
	int rc;

	do {
		rc = kvslab_sched_step(s->h.sched);
		if (rc == -EAGAIN) {
			struct pollfd p = { .fd = kvslab_pool_fd(s->h.pool), .events = POLLIN };

			s->again++;
			in_a_row++;
			s->late += !poll(&p, 1, LATE_MS);
		} else {
			in_a_row = 0;
		}
	} while (rc > 0 || (rc == -EAGAIN && in_a_row < 100000));
	s->stuck = rc != 0;
	kvslab_sched_stat(s->h.sched, &s->stat);
	return NULL;
}

static bool open_pair(struct side *s, const struct kvslab_geometry *geo, const char *spec)
{
	struct kvslab_sched_opts opts = { .step_tokens = 128, .max_batch = 8 };
	struct kvslab_pool *a, *b;

	memset(s, 0, 2 * sizeof(*s));
	return !test_pool_open(&a, spec, NULL) && !kvslab_pool_share(a, &b) &&
	       !fake_host_open(&s[0].h, a, geo, &opts, 0, 0) &&
	       !fake_host_open(&s[1].h, b, geo, &opts, 0, 0);
}

static void close_side(struct side *s)
{
	uint32_t i;

	for (i = 0; i < JOBS; i++)
		fake_job_free(&s->jobs[i]);
	fake_host_close(&s->h);
}

/* What one client sealed, the other finds. */
static void handed_on(struct side *s, uint64_t *seed)
{
	struct kvslab_geometry geo = fake_geometry(2, 16, 4096);
	char why[200] = "";

	if (!ok(open_pair(s, &geo, "embedded:2M"), "a pool with two clients"))
		return;
	fake_job_init(&s[0].jobs[0], NULL, 0, 100, seed);
	fake_job_init(&s[1].jobs[0], s[0].jobs[0].tokens, 100, 0, seed);
	fake_job_add(&s[0].jobs[0], &s[0].h);
	fake_job_add(&s[1].jobs[0], &s[1].h);
	run(&s[0]);
	run(&s[1]);
	ok(s[1].jobs[0].info.cached_tokens == 96, "%u tokens of the other's prompt found",
	   s[1].jobs[0].info.cached_tokens);
	ok(fake_job_right(&s[0].jobs[0], why, sizeof(why)) &&
		   fake_job_right(&s[1].jobs[0], why, sizeof(why)),
	   "both right %s", why);
	ok(!s[0].h.f.faults && !s[1].h.f.faults, "no fault %s %s", s[0].h.f.fault, s[1].h.f.fault);
	close_side(&s[0]);
	close_side(&s[1]);
}

static void compete(struct side *s, const char *name, uint32_t page_size, bool threads,
		    uint64_t *seed)
{
	struct kvslab_geometry geo = fake_geometry(1, 16, page_size);
	uint32_t shared[SHARED], i, k, wrong = 0;
	char why[200] = "";
	pthread_t thread[2];

	if (!ok(open_pair(s, &geo, "embedded:2M"), "%s: a pool with two clients", name))
		return;
	for (i = 0; i < SHARED; i++)
		shared[i] = (uint32_t)(rnd(seed) % 1000);
	for (k = 0; k < 2; k++)
		for (i = 0; i < JOBS; i++) {
			struct fake_job *j = &s[k].jobs[i];

			fake_job_init(j, shared, (uint32_t)(rnd(seed) % SHARED),
				      1 + (uint32_t)(rnd(seed) % 80), seed);
			j->max_tokens = 1 + (uint32_t)(rnd(seed) % 80);
			j->priority = (uint8_t)(rnd(seed) % 2);
			if (fake_job_add(j, &s[k].h))
				wrong++;
		}
	for (k = 0; k < 2; k++)
		s[k].h.f.threaded = threads;
	for (k = 0; k < 2; k++)
		if (pthread_create(&thread[k], NULL, run, &s[k]))
			abort();
	for (k = 0; k < 2; k++)
		pthread_join(thread[k], NULL);
	for (k = 0; k < 2; k++) {
		for (i = 0; i < JOBS; i++)
			wrong += !fake_job_right(&s[k].jobs[i], why, sizeof(why));
		ok(!s[k].stuck,
		   "%s: client %u ends (%llu steps, %u without rows, %llu preemptions)", name, k,
		   (unsigned long long)s[k].stat.steps, s[k].again,
		   (unsigned long long)s[k].stat.preemptions);
		ok(!s[k].h.f.faults, "%s: no fault %s", name, s[k].h.f.fault);
		/* A client that gave room back to itself was told of it, tried, and gave it back: 100,000 times. */
		ok(s[k].again < 20000, "%s: nobody wakes itself (%u steps without rows)", name, s[k].again);
		ok(s[k].late < 10, "%s: events say when to go on (%u waits took long)", name, s[k].late);
	}
	ok(!wrong, "%s: %u wrong answers %s", name, wrong, why);
	ok(s[0].stat.prefix_hits && s[1].stat.prefix_hits, "%s: prefixes were found", name);
	ok(fake_pool_idle(s[0].h.pool, why, sizeof(why)), "%s: no page is held %s", name, why);
	close_side(&s[0]);
	close_side(&s[1]);
}

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(argc, argv);
	static struct side sides[2];

	handed_on(sides, &seed);
	compete(sides, "plenty of pages", 4096, false, &seed);
	compete(sides, "few pages", 64 << 10, false, &seed);
	/* 17 pages, and a request may need 17 alone: only one can grow to the end at a time */
	compete(sides, "hardly any", 120 << 10, true, &seed);
	return done();
}
