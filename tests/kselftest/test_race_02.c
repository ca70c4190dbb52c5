// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that pass from one writer to another, by FREE and ALLOC, take-over and eviction, in a pool
 * that is too small for its clients. Everybody stores all the time to pages that it had once: never
 * is such a store seen in somebody else's page.
 */
#include <pthread.h>
#include <sched.h>

#include "ks.h"

#define CLIENTS 3 /* processes */
#define HAD 256

static const u32 sizes[] = { 16 << 10, 340 << 10, 2 << 20 };

struct shared {
	volatile int end;
	volatile u64 rounds[CLIENTS], stray[CLIENTS], caught[CLIENTS], sealed[CLIENTS];
};

static struct shared *sh;

struct job {
	u32 size, number;
	u64 seed;
};

static struct ks_client k;
static volatile u64 had[HAD];
static volatile int over;

/* Stores this client's number where its pages have been. */
static void *stray(void *arg)
{
	const struct job *job = arg;
	u64 seed = job->seed ^ 1, value = 0xbad0000000000000 | job->number;

	while (!over) {
		u64 page = had[rnd(&seed) % HAD];
		u8 *w;

		if (!page) {
			sched_yield();
			continue;
		}
		w = ks_at(&k, k.w, page) + rnd(&seed) % (job->size / 8) * 8;
		if (ks_copy(w, &value, 8))
			sh->caught[job->number]++;
		else
			sh->stray[job->number]++;
	}
	return NULL;
}

/* Whether some word of a page was stored by another client. */
static bool foreign(const u8 *r, u32 size, u32 number)
{
	u32 i;

	for (i = 0; i < size; i += 8) {
		u64 word = *(const volatile u64 *)(r + i);

		if (word >> 32 == 0xbad00000 && word != (0xbad0000000000000 | number)) {
			note("client %u has a word of client %llu", number, (unsigned long long)(word & 0xff));
			return true;
		}
	}
	return false;
}

static int client(void *arg)
{
	struct job *job = arg;
	u64 pages[16], seed = job->seed;
	pthread_t t;
	u32 next = 0;
	int bad = 0;

	if (ks_client(&k, "passed", job->size) || pthread_create(&t, NULL, stray, job))
		return 1;
	while (!sh->end && !bad) {
		long n = ks_alloc(k.fd, k.c.id, pages, 1 + rnd(&seed) % 8, KVSLAB_ALLOC_PARTIAL), i, s;

		if (n < 0) {
			if (n != -EDQUOT && n != -ENOSPC)
				return 2;
			sched_yield();
			continue;
		}
		/* Ours from now on: nobody's stores but our own may come. */
		for (i = 0; i < n; i++)
			memset(ks_at(&k, k.w, pages[i]), job->number, job->size);
		for (i = 0; i < n; i++)
			had[next++ % HAD] = pages[i];
		if (rnd(&seed) % 4)
			sched_yield();
		for (i = 0; i < n; i++)
			bad |= foreign(ks_at(&k, k.r, pages[i]), job->size, job->number);
		/* Some are sealed and then cached, so that they are evicted. */
		s = rnd(&seed) % (n + 1);
		for (i = 0; i < s; i++)
			if (ks_seal_one(k.fd, &pages[i], rnd(&seed), rnd(&seed)) >= 0)
				sh->sealed[job->number]++;
		if (ks_free(k.fd, pages, n) < 0)
			return 3;
		sh->rounds[job->number]++;
	}
	over = 1;
	pthread_join(t, NULL);
	ks_close(&k);
	return bad ? 4 : 0;
}

int main(int argc, char **argv)
{
	u64 seed = ks_seed(argc, argv);
	double most = ks_long() ? 600 : 10;
	struct kvslab_stat_pool s;
	u32 i, j;

	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (i = 0; i < COUNT(sizes); i++) {
		struct job job[CLIENTS];
		pid_t pid[CLIENTS];
		int watch, bad = 0;
		u64 rounds = 0, stores = 0, caught = 0;

		memset(sh, 0, sizeof(*sh));
		must(!ks_pool("passed", 0, 8 << 20, 0600), "a pool");
		watch = ks_open("passed", O_RDWR);
		for (j = 0; j < CLIENTS; j++) {
			job[j] = (struct job){ sizes[i], j + 1 == CLIENTS ? 0 : j + 1, rnd(&seed) };
			pid[j] = ks_child(client, &job[j]);
		}
		usleep(most * 1e6 / COUNT(sizes));
		ks_stat(watch, &s);
		sh->end = 1;
		for (j = 0; j < CLIENTS; j++) {
			int r = ks_wait(pid[j]);

			if (r)
				note("client %u ended with %d", j, r);
			bad |= r;
			rounds += sh->rounds[j];
			stores += sh->stray[j];
			caught += sh->caught[j];
		}
		note("%u KiB: %llu rounds, %llu stores to old places, %llu more refused, %llu evictions, %llu takeovers",
		     sizes[i] >> 10, (unsigned long long)rounds, (unsigned long long)stores,
		     (unsigned long long)caught, (unsigned long long)s.evictions, (unsigned long long)s.takeovers);
		ok(!bad, "%u KiB: no store reaches a page that has passed on", sizes[i] >> 10);
		ok(rounds > 20 && caught > 20, "%u KiB: it was tried", sizes[i] >> 10);
		ok(ks_adds_up(watch) && !ks_stat(watch, &s) && s.private_pages == 0 && s.clients == 1,
		   "%u KiB: counts add up", sizes[i] >> 10);
		close(watch);
		ok(!ks_destroy("passed", 0), "%u KiB: the pool can go", sizes[i] >> 10);
	}
	return done();
}
