// SPDX-License-Identifier: GPL-2.0
/*
 * SEAL against stores: threads and another process store to a page all the time while it is being
 * sealed. After SEAL has returned, not a byte of it changes. 100,000 rounds in the long run.
 */
#include <pthread.h>
#include <sched.h>

#include "ks.h"

#define SIZE (16u << 10)
#define THREADS 2 /* in each of two processes */

struct shared {
	volatile u64 page; /* to store to; 0: rest */
	volatile u64 stores[2 * THREADS];
	volatile int end, ready;
};

static struct shared *sh;
static struct ks_client k;

static void *stores(void *arg)
{
	volatile u64 *count = arg;
	u64 value = 0;

	__sync_fetch_and_add(&sh->ready, 1);
	while (!sh->end) {
		u64 page = sh->page;
		u8 *w;

		if (!page) {
			sched_yield();
			continue;
		}
		w = ks_at(&k, k.w, page);
		/* Until it is gone. */
		while (sh->page == page && !sh->end) {
			value++;
			if (ks_copy(w + value % (SIZE / 8) * 8, &value, 8))
				break;
			*count += 1;
		}
		while (sh->page == page && !sh->end)
			sched_yield();
	}
	return NULL;
}

static int process(void *arg)
{
	pthread_t t[THREADS];
	u64 first = (uintptr_t)arg;
	int i;

	if (first) {
		/* The same client, whose windows a child has to map again. */
		k.r = ks_map(k.fd, k.c.arena, KVSLAB_MAP_READ, 0, k.c.arena_size, PROT_READ);
		k.w = ks_map(k.fd, k.c.arena, KVSLAB_MAP_WRITE, 0, k.c.arena_size, PROT_READ | PROT_WRITE);
		if (!k.r || !k.w)
			return 1;
	}
	for (i = 0; i < THREADS; i++)
		if (pthread_create(&t[i], NULL, stores, (void *)&sh->stores[first + i]))
			return 2;
	if (!first)
		return 0;
	for (i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	return 0;
}

static u64 total(void)
{
	u64 sum = 0;
	int i;

	for (i = 0; i < 2 * THREADS; i++)
		sum += sh->stores[i];
	return sum;
}

int main(int argc, char **argv)
{
	u64 seed = ks_seed(argc, argv), idle = 0;
	int rounds = ks_long() ? 100000 : 3000, i, changed = 0, failed = 0;
	const char *given = getenv("KVSLAB_SECONDS");
	double began = ks_now(), most = given ? atof(given) : ks_long() ? 4000 : 40;
	static u8 was[SIZE];
	pid_t pid;
	long r;

	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(!ks_pool("sealed", 0, 8 << 20, 0600) && !ks_client(&k, "sealed", SIZE), "a pool, a client");
	pid = ks_child(process, (void *)(uintptr_t)THREADS);
	must(pid > 0 && !process(NULL), "writers");
	while (sh->ready < 2 * THREADS && ks_now() < began + 10)
		sched_yield();
	for (i = 0; i < rounds && ks_now() < began + most; i++) {
		u64 page, before;

		if (ks_alloc(k.fd, k.c.id, &page, 1, 0) != 1) {
			failed++;
			break;
		}
		before = total();
		sh->page = page;
		/* Mostly in the thick of it, sometimes before the first store. */
		if (rnd(&seed) % 8) {
			double until = ks_now() + 0.05;

			while (total() < before + 1 + rnd(&seed) % 200 && ks_now() < until)
				sched_yield();
		}
		r = ks_seal_one(k.fd, &page, rnd(&seed), i);
		if (r < 0) {
			note("round %d: SEAL: %ld", i, r);
			failed++;
		} else {
			memcpy(was, ks_at(&k, k.r, page), SIZE);
			if (rnd(&seed) % 2)
				sched_yield();
			else if (rnd(&seed) % 16 == 0)
				usleep(500);
			if (memcmp(was, ks_at(&k, k.r, page), SIZE)) {
				note("round %d: a sealed page has changed", i);
				changed++;
			}
			idle += total() == before;
		}
		sh->page = 0;
		ks_free(k.fd, &page, 1);
	}
	sh->end = 1;
	ok(ks_wait(pid) == 0, "the other process comes to its end");
	note("%d rounds, %llu stores, none in %llu rounds, %.1f s", i, (unsigned long long)total(),
	     (unsigned long long)idle, ks_now() - began);
	ok(i == rounds || ks_now() >= began + most, "rounds were made");
	ok(i > 100 && idle < (u64)i / 2, "in most of them there were stores");
	ok(!failed, "SEAL succeeds against stores");
	ok(!changed, "a sealed page never changes");
	ok(ks_adds_up(k.fd), "counts add up");
	ks_close(&k);
	return done();
}
