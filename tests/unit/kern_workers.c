// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* The threads: every one runs, barriers hold, work is split without gap, starts and ends under any timing. */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include "cpu/workers.h"
#include "kern_test.h"

#define THREADS 9
#define PHASES 300

static void nap(uint32_t us)
{
	struct timespec t = { 0, us * 1000l };

	nanosleep(&t, NULL);
}

struct job {
	/* plain on purpose: the barriers must order them, which a thread sanitizer checks */
	uint32_t cell[2][THREADS];
	atomic_uint ran[THREADS], wrong;
	uint32_t phases, lazy; /* one in so many phases a thread is late; 0: never */
	uint64_t seeds[THREADS];
};

/* In each phase a thread writes its own cell, and after the barrier reads all the others'. */
static void phases(void *arg, struct workers *w, uint32_t thread)
{
	struct job *j = arg;
	uint32_t i, k;

	atomic_fetch_add(&j->ran[thread], 1);
	for (i = 0; i < j->phases; i++) {
		if (j->lazy && rnd(&j->seeds[thread]) % j->lazy == 0)
			nap(100);
		j->cell[i & 1][thread] = i + 1;
		workers_barrier(w);
		for (k = 0; k < workers_count(w); k++)
			if (j->cell[i & 1][k] != i + 1)
				atomic_fetch_add(&j->wrong, 1);
	}
}

static int barriers(uint32_t threads, uint32_t rounds, uint32_t n, uint32_t lazy)
{
	struct job j = { .phases = n, .lazy = lazy };
	struct workers *w;
	uint32_t i, r;
	int good = 1;

	for (i = 0; i < THREADS; i++)
		j.seeds[i] = rnd(&seed);
	if (workers_open(&w, threads))
		return 0;
	good &= workers_count(w) == threads && workers_done(w, false);
	for (r = 0; r < rounds; r++) {
		workers_start(w, phases, &j);
		if (below(2))
			while (!workers_done(w, false))
				sched_yield();
		else
			workers_done(w, true);
		if (lazy && !below(4))
			nap(50);
		memset(j.cell, 0, sizeof(j.cell)); /* ours again */
	}
	workers_close(w);
	for (i = 0; i < threads; i++)
		good &= j.ran[i] == rounds;
	return good && !j.wrong;
}

static void slow(void *arg, struct workers *w, uint32_t thread)
{
	(void)w;
	nap(20000);
	((uint32_t *)arg)[thread]++;
}

static int close_while_running(void)
{
	uint32_t ran[3] = { 0 };
	struct workers *w;
	int done_early;

	if (workers_open(&w, 3))
		return 0;
	workers_start(w, slow, ran);
	done_early = workers_done(w, false);
	workers_close(w);
	return !done_early && ran[0] == 1 && ran[1] == 1 && ran[2] == 1;
}

static void environment(void *arg, struct workers *w, uint32_t thread)
{
	cpu_set_t set;

	(void)w;
	sched_getaffinity(0, sizeof(set), &set);
	((uint32_t *)arg)[thread] = (uint32_t)CPU_COUNT(&set);
#ifdef __SSE__
	if (_mm_getcsr() != 0x1f80)
		((uint32_t *)arg)[thread] = 1000;
#endif
}

/* A pool opened by a thread that flushes subnormals must not inherit that. */
static int default_environment(uint32_t threads, uint32_t want)
{
	uint32_t cores[THREADS] = { 0 }, i;
	struct workers *w;
	int good = 1;

#ifdef __SSE__
	_mm_setcsr(0x9fc0);
	good &= !workers_open(&w, threads);
	_mm_setcsr(0x1f80);
#else
	good &= !workers_open(&w, threads);
#endif
	if (!good)
		return 0;
	workers_start(w, environment, cores);
	workers_done(w, true);
	for (i = 0; i < workers_count(w); i++)
		good &= cores[i] == want;
	workers_close(w);
	return good;
}

static int split(void)
{
	uint32_t threads = between(1, THREADS), total = below(4) ? below(3000) : (uint32_t)rnd(&seed), i, lo, hi, end = 0;
	uint32_t grain = between(1, 64), most = 0, least = UINT32_MAX;
	struct workers *w;
	int good = 1;

	if (workers_open(&w, threads))
		return 0;
	for (i = 0; i < threads; i++) {
		workers_split(w, i, total, grain, &lo, &hi);
		good &= lo == end && hi >= lo && (lo % grain == 0 || lo == total) && (hi % grain == 0 || hi == total);
		most = hi - lo > most ? hi - lo : most;
		least = hi - lo < least ? hi - lo : least;
		end = hi;
	}
	good &= end == total && most - least < 2 * grain;
	workers_close(w);
	return good;
}

int main(int argc, char **argv)
{
	uint32_t cores, threads, i;
	struct workers *w = NULL;
	cpu_set_t set, one;
	int good;

	seed = tap_seed(argc, argv);
	sched_getaffinity(0, sizeof(set), &set);
	cores = (uint32_t)CPU_COUNT(&set);
	for (threads = 1; threads <= THREADS; threads += threads < 3 ? 1 : 3) {
		ok(barriers(threads, 50, PHASES / threads, 0), "%u threads, barriers", threads);
		ok(barriers(threads, 20, 20, 7), "%u threads, some of them late", threads);
		ok(barriers(threads, 500, 0, 0), "%u threads, short rounds", threads);
	}
	ok(close_while_running(), "closing waits for what runs");
	ok(default_environment(1, 1), "one thread is pinned, default MXCSR");
	ok(default_environment(cores < THREADS ? cores : THREADS, 1), "as many threads as cores are pinned");
	if (cores < THREADS)
		ok(default_environment(cores + 1, cores), "more threads than cores are not");
	for (good = 1, i = 0; i < 100 && good; i++)
		good = split();
	ok(good, "parts cover all, at multiples of the grain, evenly");
	ok(!workers_open(&w, 0) && workers_count(w) == cores, "0 threads: the cores we may run on");
	workers_close(w);
	workers_close(NULL);
	w = NULL;
	ok(workers_open(&w, 100000) == -EINVAL && !w, "an absurd count is refused");
	/* only one core allowed */
	CPU_ZERO(&one);
	for (i = 0; !CPU_ISSET(i, &set); i++)
		;
	CPU_SET(i, &one);
	sched_setaffinity(0, sizeof(one), &one);
	ok(!workers_open(&w, 0) && workers_count(w) == 1, "one core allowed, one thread");
	workers_close(w);
	ok(barriers(3, 20, 50, 0), "3 threads on one core");
	sched_setaffinity(0, sizeof(set), &set);
	return done();
}
