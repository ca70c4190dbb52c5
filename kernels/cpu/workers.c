// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * The pool of threads. Three words are waited for: `round` (a new function to run), `left` reaching a new
 * `finished` (all have returned), `phase` (a barrier is open). Each carries a count of sleepers, so that nobody
 * calls the kernel to wake no one. Whoever changes a word stores it first and then reads the sleepers; whoever
 * sleeps counts itself first and then lets the futex compare the word: all sequentially consistent, so one of
 * the two sees the other.
 */
#include <assert.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#ifdef __SSE__
#include <xmmintrin.h>
#else
#include <fenv.h>
#endif

#include "workers.h"

#define SPIN_NS 20000 /* about one wake-up: sleeping sooner costs more than it saves */
#define THREADS_MAX 1024

struct word {
	_Alignas(64) atomic_uint value;
	atomic_uint sleepers;
};

struct worker {
	struct workers *w;
	uint32_t index;
	int cpu; /* to pin to; -1: none */
	pthread_t thread;
};

struct workers {
	struct word round; /* counts the calls of workers_start; owner writes */
	struct word finished; /* the round that all have returned from */
	struct word phase; /* barriers passed */
	_Alignas(64) atomic_uint arrived; /* at the barrier of this phase */
	_Alignas(64) atomic_uint returned; /* from fn in this round */
	/* written by the owner before round moves, read by the threads after */
	workers_fn fn;
	void *arg;
	bool stop;
	uint32_t count;
	struct worker *workers;
};

static void pause_cpu(void)
{
#ifdef __SSE__
	_mm_pause();
#endif
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Returns once the word differs from @old. */
static void word_wait(struct word *word, uint32_t old)
{
	int64_t end = 0;
	int i;

	for (;;) {
		for (i = 0; i < 8; i++) {
			if (atomic_load(&word->value) != old)
				return;
			pause_cpu();
		}
		if (!end)
			end = now_ns() + SPIN_NS;
		else if (now_ns() >= end)
			break;
	}
	atomic_fetch_add(&word->sleepers, 1);
	while (atomic_load(&word->value) == old)
		syscall(SYS_futex, &word->value, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
	atomic_fetch_sub(&word->sleepers, 1);
}

static void word_set(struct word *word, uint32_t value)
{
	atomic_store(&word->value, value);
	if (atomic_load(&word->sleepers))
		syscall(SYS_futex, &word->value, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

static void *worker_main(void *arg)
{
	struct worker *me = arg;
	struct workers *w = me->w;
	uint32_t round = 0;
	cpu_set_t set;

	if (me->cpu >= 0) {
		CPU_ZERO(&set);
		CPU_SET(me->cpu, &set);
		/* The set of allowed cores may have shrunk meanwhile; an unpinned thread computes the same. */
		pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	}
#ifdef __SSE__
	_mm_setcsr(0x1f80);
#else
	fesetenv(FE_DFL_ENV);
#endif
	for (;;) {
		word_wait(&w->round, round);
		round++;
		if (w->stop)
			return NULL;
		w->fn(w->arg, w, me->index);
		if (atomic_fetch_add(&w->returned, 1) + 1 == w->count) {
			atomic_store(&w->returned, 0);
			word_set(&w->finished, round);
		}
	}
}

/* Stops the first @n threads and frees all. */
static void stop(struct workers *w, uint32_t n)
{
	uint32_t i;

	w->stop = true;
	word_set(&w->round, atomic_load(&w->round.value) + 1);
	for (i = 0; i < n; i++)
		pthread_join(w->workers[i].thread, NULL);
	free(w->workers);
	free(w);
}

int workers_open(struct workers **out, uint32_t threads)
{
	struct workers *w;
	uint32_t i, cores;
	cpu_set_t set;
	int cpu, err;

	if (sched_getaffinity(0, sizeof(set), &set))
		return -errno;
	cores = (uint32_t)CPU_COUNT(&set);
	if (!threads)
		threads = cores;
	if (threads > THREADS_MAX)
		return -EINVAL;
	w = aligned_alloc(64, sizeof(*w));
	if (!w)
		return -ENOMEM;
	*w = (struct workers){ .count = threads };
	w->workers = calloc(threads, sizeof(*w->workers));
	if (!w->workers) {
		free(w);
		return -ENOMEM;
	}
	for (i = 0, cpu = -1; i < threads; i++) {
		struct worker *me = w->workers + i;

		if (threads <= cores)
			do
				cpu++;
			while (!CPU_ISSET(cpu, &set));
		*me = (struct worker){ .w = w, .index = i, .cpu = cpu };
		err = pthread_create(&me->thread, NULL, worker_main, me);
		if (err) {
			stop(w, i);
			return -err;
		}
	}
	*out = w;
	return 0;
}

void workers_close(struct workers *w)
{
	if (!w)
		return;
	workers_done(w, true);
	stop(w, w->count);
}

uint32_t workers_count(const struct workers *w)
{
	return w->count;
}

void workers_start(struct workers *w, workers_fn fn, void *arg)
{
	assert(workers_done(w, false));
	w->fn = fn;
	w->arg = arg;
	word_set(&w->round, atomic_load(&w->round.value) + 1);
}

bool workers_done(struct workers *w, bool wait)
{
	uint32_t round = atomic_load(&w->round.value), seen;

	while ((seen = atomic_load(&w->finished.value)) != round) {
		if (!wait)
			return false;
		word_wait(&w->finished, seen);
	}
	return true;
}

void workers_barrier(struct workers *w)
{
	uint32_t phase = atomic_load(&w->phase.value);

	if (atomic_fetch_add(&w->arrived, 1) + 1 == w->count) {
		atomic_store(&w->arrived, 0);
		word_set(&w->phase, phase + 1);
		return;
	}
	word_wait(&w->phase, phase);
}

void workers_split(const struct workers *w, uint32_t thread, uint32_t total, uint32_t grain, uint32_t *lo,
		   uint32_t *hi)
{
	uint64_t units = ((uint64_t)total + grain - 1) / grain;
	uint64_t a = units * thread / w->count * grain, b = units * (thread + 1) / w->count * grain;

	*lo = (uint32_t)(a < total ? a : total);
	*hi = (uint32_t)(b < total ? b : total);
}
