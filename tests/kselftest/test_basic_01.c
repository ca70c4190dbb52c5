// SPDX-License-Identifier: GPL-2.0
/*
 * Pools end while the system takes memory from them: half of the rounds by DESTROY of a pool full of
 * cached pages, half by the last client of one destroyed before. Another process shrinks everything
 * all the while. What was freed too early shows in the log (slub_debug), or ends the guest.
 */
#include "ks.h"

#define SIZE (64u << 10)
#define PER_SLAB (EXTENT / SIZE)
#define EXTENTS 6

static int shrink(void *arg)
{
	(void)arg;
	for (;;)
		if (ks_write_file("/proc/sys/vm/drop_caches", "2\n"))
			return 1;
}

int main(int argc, char **argv)
{
	u64 seed = ks_seed(argc, argv), page[EXTENTS * PER_SLAB], tag = 0, taken = 0;
	u32 rounds = ks_long() ? 5000 : 150, bad = 0, i, k, n;
	struct kvslab_stat_pool s;
	struct ks_client c;
	pid_t child;

	child = ks_child(shrink, NULL);
	must(child > 0, "a process that shrinks caches");
	for (i = 0; i < rounds && !bad; i++) {
		bool force = rnd(&seed) % 2;

		if (ks_pool("ending", 0, EXTENTS * EXTENT, 0600) || ks_client(&c, "ending", SIZE)) {
			bad++;
			break;
		}
		n = 1 + rnd(&seed) % COUNT(page);
		bad += ks_alloc(c.fd, c.c.id, page, n, 0) != n;
		for (k = 0; k < n && !bad; k++)
			bad += rnd(&seed) % 4 && ks_seal_one(c.fd, &page[k], i, ++tag) < 0;
		bad += ks_free(c.fd, page, n) < 0;
		if (rnd(&seed) % 2)
			usleep(rnd(&seed) % 3000);
		bad += ks_stat(c.fd, &s) || s.private_pages || s.sealed;
		taken += s.reclaimed;
		if (force)
			bad += ks_destroy("ending", KVSLAB_DESTROY_FORCE) != 0;
		ks_close(&c);
		if (!force)
			bad += ks_destroy("ending", 0) != 0;
	}
	ok(!bad && i == rounds, "%u pools end under pressure", i);
	ok(taken, "which took %llu extents from them", (unsigned long long)taken);
	kill(child, SIGKILL);
	ok(ks_wait(child) == 128 + SIGKILL, "the other process shrank until then");
	return done();
}
