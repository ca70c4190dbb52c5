// SPDX-License-Identifier: GPL-2.0
/* A pool is destroyed by force under load: ENODEV for every command, windows are empty, then clean. */
#include <poll.h>
#include <pthread.h>
#include <sched.h>

#include "ks.h"

#define SIZE (64u << 10)
#define CLIENTS 3

struct shared {
	volatile int dead; /* the pool has been destroyed */
	volatile u64 done[CLIENTS];
	volatile int holds; /* clients that are to keep what they have */
};

static struct shared *sh;
static struct ks_client k;
static volatile u64 at;

static void *stores(void *arg)
{
	(void)arg;
	for (;;) {
		u64 page = at;

		if (page)
			ks_write(ks_at(&k, k.w, page) + page % SIZE, 1);
		else
			sched_yield();
	}
	return NULL;
}

/* Works until the pool is dead; everything must then say so. */
static int client(void *arg)
{
	u64 *seed = arg, pages[8] = { 0 }, kept;
	u32 number = rnd(seed) % CLIENTS;
	struct kvslab_args_stat stat = { 0 };
	struct pollfd p;
	pthread_t t;
	long n = 0, r;

	ks_via = rnd(seed) % 2 ? KS_RING : KS_IOCTL;
	r = ks_client(&k, "doomed", SIZE);
	if (r == -ENODEV || r == -ENOENT)
		return 0;
	if (r || pthread_create(&t, NULL, stores, NULL))
		return 1;
	r = ks_alloc(k.fd, k.c.id, &kept, 1, 0);
	if (r == 1 && ks_copy(ks_at(&k, k.w, kept), &kept, 8)) {
		/* Only because it died between the two. */
		for (r = 0; !sh->dead && r < 5000; r++)
			usleep(1000);
		if (!sh->dead)
			return 2;
	}
	for (;;) {
		n = ks_alloc(k.fd, k.c.id, pages, 1 + rnd(seed) % 8, KVSLAB_ALLOC_PARTIAL);
		if (n == -ENODEV)
			break;
		if (n < 0 && n != -EDQUOT && n != -ENOSPC)
			return 3;
		if (n < 0)
			continue;
		at = pages[0];
		if (rnd(seed) % 2) {
			r = ks_seal_one(k.fd, &pages[0], rnd(seed), rnd(seed));
			if (r == -ENODEV)
				break;
			if (r < 0)
				return 4;
		}
		r = ks_free(k.fd, pages, n);
		if (r == -ENODEV)
			break;
		if (r < 0)
			return 5;
		sh->done[number]++;
	}
	for (r = 0; !sh->dead && r < 5000; r++)
		usleep(1000);
	if (!sh->dead)
		return 6;
	if (ks_read(ks_at(&k, k.r, kept)) != SIGBUS || ks_write(ks_at(&k, k.w, kept), 1) != SIGBUS)
		return 7;
	if (ks_cmd(k.fd, KVSLAB_CMD_STAT, &stat, sizeof(stat)) != -ENODEV || ks_free(k.fd, &kept, 1) != -ENODEV ||
	    ks_get(k.fd, &kept, 1) != -ENODEV)
		return 8;
	p = (struct pollfd){ .fd = k.fd, .events = POLLIN };
	if (poll(&p, 1, 5000) != 1 || !(p.revents & POLLHUP))
		return 9;
	/* By its own end, by closing first, or just so. */
	switch (rnd(seed) % 3) {
	case 0:
		close(k.fd);
		return ks_read(ks_at(&k, k.r, kept)) == SIGBUS ? 0 : 10;
	case 1:
		munmap(k.r, k.c.arena_size);
	}
	return 0;
}

int main(int argc, char **argv)
{
	u64 seed = ks_seed(argc, argv), work = 0;
	int rounds = ks_long() ? 2000 : 60, i, j, bad = 0, left = 0, again = 0;

	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (i = 0; i < rounds && !bad; i++) {
		struct kvslab_stat_pool pools[4];
		struct kvslab_args_list list = { .pools = (uintptr_t)pools, .count = COUNT(pools) };
		u64 seeds[CLIENTS];
		pid_t pid[CLIENTS];
		int fd;
		long r;

		memset(sh, 0, sizeof(*sh));
		must(!ks_pool("doomed", 0, 8 << 20, 0600), "a pool");
		fd = i % 2 ? ks_open("doomed", O_RDWR) : -1;
		for (j = 0; j < CLIENTS; j++) {
			seeds[j] = rnd(&seed);
			pid[j] = ks_child(client, &seeds[j]);
		}
		usleep(rnd(&seed) % 60000);
		r = ks_destroy("doomed", KVSLAB_DESTROY_FORCE);
		sh->dead = 1;
		must(!r, "DESTROY by force: %ld", r);
		if (fd >= 0 && ks_cmd(fd, KVSLAB_CMD_NOP, NULL, 0) != -ENODEV) {
			note("NOP on a dead pool");
			bad++;
		}
		/* The name is free again at once, and has nothing to do with the dead one. */
		r = ks_pool("doomed", 0, 4 << 20, 0600);
		if (!r)
			r = ks_destroy("doomed", 0);
		again += r != 0;
		for (j = 0; j < CLIENTS; j++) {
			r = ks_wait(pid[j]);
			if (r) {
				note("round %d: a client ended with %ld", i, r);
				bad++;
			}
			work += sh->done[j];
		}
		if (fd >= 0)
			close(fd);
		for (j = 0; j < 5000; j++) {
			r = ks_cmd(ks_control(), KVSLAB_CTL_LIST, &list, sizeof(list));
			if (r <= 0)
				break;
			usleep(1000);
			list.count = COUNT(pools);
		}
		left += r != 0;
	}
	note("%d rounds, %llu in work", i, (unsigned long long)work);
	ok(!bad, "every client sees its pool die: ENODEV, POLLHUP, empty windows");
	ok(!again, "the name can be used again at once");
	ok(!left, "nothing is left of a dead pool when its last client is gone");
	ok(work > 100, "there was work to disturb");
	return done();
}
