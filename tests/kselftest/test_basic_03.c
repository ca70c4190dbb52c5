// SPDX-License-Identifier: GPL-2.0
/*
 * SEAL against processes that map the page, read it, and unmap all of their window, on processors
 * that have more to do: whoever only lets go of a page is not in the way of a seal, nor is a reader
 * of a page that is being sealed hit.
 */
#include <sched.h>
#include <sys/resource.h>

#include "ks.h"

#define SIZE (256u << 10)
#define READERS 2

static struct shared {
	volatile u64 page; /* private, or being sealed */
	volatile u64 reads;
	volatile u32 faults;
} * told;

static void on_processor(int n)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(n, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static int reader(void *arg)
{
	u64 page, n;
	int fd = ks_open("letting", O_RDONLY), i;
	struct kvslab_args_stat stat = { 0 };

	(void)arg;
	on_processor(1);
	setpriority(PRIO_PROCESS, 0, 10);
	if (fd < 0 || ks_cmd(fd, KVSLAB_CMD_STAT, &stat, sizeof(stat)) < 0)
		return 1;
	for (n = 0;; n++) {
		u64 size = stat.pool.arena_extents * EXTENT;
		u8 *r = ks_map(fd, 0, KVSLAB_MAP_READ, 0, size, PROT_READ);

		if (!r)
			return 2;
		page = told->page;
		for (i = 0; page && i < 8; i++)
			if (ks_read(r + (u64)KVSLAB_HANDLE_EXTENT(page) * EXTENT +
				    (u64)KVSLAB_HANDLE_INDEX(page) * SIZE + i * FRAME) &&
			    told->page == page)
				told->faults++;
		__atomic_fetch_add(&told->reads, 1, __ATOMIC_RELAXED);
		munmap(r, size);
	}
}

/* Keeps the other processor busy, so that a reader waits long in the middle of an unmapping. */
static int __attribute__((noreturn)) burner(void *arg)
{
	volatile u64 n = 0;

	(void)arg;
	on_processor(1);
	for (;;)
		n++;
}

int main(void)
{
	u32 rounds = ks_long() ? 100000 : 1500, i, busy = 0, bad = 0;
	pid_t child[READERS], spins;
	struct ks_client k;
	u64 page;
	long r;

	told = mmap(NULL, FRAME, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(told != MAP_FAILED && !ks_pool("letting", 0, 8 << 20, 0600) &&
		     !ks_client(&k, "letting", SIZE),
	     "a pool, a client");
	for (i = 0; i < READERS; i++)
		child[i] = ks_child(reader, NULL);
	spins = ks_child(burner, NULL);
	on_processor(0);
	for (i = 0; i < rounds && !bad; i++) {
		bad += ks_alloc(k.fd, k.c.id, &page, 1, 0) != 1;
		ks_fill(ks_at(&k, k.w, page), SIZE, i);
		told->page = page;
		if (i % 4 == 0)
			usleep(200);
		r = ks_seal_one(k.fd, &page, i, 3);
		busy += r == -EBUSY;
		bad += r < 0 && r != -EBUSY;
		told->page = 0;
		bad += ks_free(k.fd, &page, 1) < 0;
	}
	ok(!bad && i == rounds, "%u pages are sealed while others read and let go, %llu times", i,
	   (unsigned long long)told->reads);
	ok(told->reads > rounds / 20, "which they did");
	ok(!busy, "which is in nobody's way: EBUSY %u times", busy);
	ok(!told->faults, "nor is a reader hit: %u times", told->faults);
	kill(spins, SIGKILL);
	ks_wait(spins);
	for (i = 0; i < READERS; i++) {
		kill(child[i], SIGKILL);
		ok(ks_wait(child[i]) == 128 + SIGKILL, "a reader went on until then");
	}
	ks_close(&k);
	return done();
}
