// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Where the memory goes: taken when a slab needs it, given back when it does not, never with
 * another pool's bytes. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kvslab.h"
#include "tests/lib/tap.h"

#define MIB (1u << 20)
#define EXTENTS 32

#ifdef __SANITIZE_THREAD__
#define SHADOW 1 /* resident, beside what is written */
#else
#define SHADOW 0
#endif

static long resident(void)
{
	long total, pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (!f || fscanf(f, "%ld %ld", &total, &pages) != 2)
		pages = 0;
	if (f)
		fclose(f);
	return pages * sysconf(_SC_PAGESIZE) / MIB;
}

/* Allocates what there is of pages of @size bytes and writes all of it. Returns the count. */
static uint32_t fill(struct kvslab_pool *pool, uint32_t size, int byte, kvslab_handle *pages,
		     uint32_t max)
{
	struct kvslab_cache cache;
	uint32_t n = 0, i;
	int rc;

	if (kvslab_cache_open(pool, size, &cache))
		return 0;
	while (n < max) {
		rc = kvslab_alloc(pool, cache.id, pages + n, 1, 0);
		if (rc != 1)
			break;
		n++;
	}
	for (i = 0; i < n; i++)
		memset(kvslab_page_rw(pool, pages[i]), byte, size);
	return n;
}

static int free_all(struct kvslab_pool *pool, const kvslab_handle *pages, uint32_t n)
{
	uint32_t i, k;

	for (i = 0; i < n; i += k) {
		k = n - i > KVSLAB_BATCH_MAX ? KVSLAB_BATCH_MAX : n - i;
		if (kvslab_free(pool, pages + i, k))
			return 0;
	}
	return 1;
}

static void test_returned(void)
{
	static kvslab_handle pages[EXTENTS * 512];
	struct kvslab_stat stat;
	struct kvslab_pool *pool;
	long before = resident(), full, empty, closed;
	uint32_t n;

	ok(kvslab_pool_open(&pool, "embedded:64M", NULL) == 0, "64 MiB are reserved");
	ok(resident() - before < 8, "and not taken: %ld MiB more", resident() - before);
	n = fill(pool, 340 << 10, 7, pages, EXTENTS * 512);
	full = resident() - before;
	ok(n == EXTENTS * 6, "all %u pages of 340 KiB", n);
	ok(full >= 63, "hold %ld MiB", full);
	ok(free_all(pool, pages, n), "freed");
	empty = resident() - before;
	kvslab_stat(pool, &stat);
	ok(empty <= (long)stat.extents * 2 + 4 && stat.extents <= 8,
	   "leave %ld MiB in %llu extents", empty, (unsigned long long)stat.extents);
	n = fill(pool, 1 << 20, 7, pages, EXTENTS * 512);
	ok(n == EXTENTS * 2, "the same memory as %u pages of 1 MiB", n);
	kvslab_pool_close(pool);
	closed = resident() - before;
	ok(closed < 8, "closing gives all back: %ld MiB left", closed);
}

static void test_no_old_bytes(uint64_t *seed)
{
	static kvslab_handle pages[EXTENTS * 512];
	struct kvslab_pool_opts opts = { 0 };
	struct kvslab_pool *a, *b, *c;
	uint32_t n, i, k, sizes[] = { 4096, 20480, 340 << 10, 2 << 20 };
	uint32_t size = sizes[rnd(seed) % 4];
	int bad = 0;

	ok(kvslab_arena_open(&opts.arena, EXTENTS * 2 * MIB) == 0, "an arena");
	ok(!kvslab_pool_open(&a, "embedded", &opts) && !kvslab_pool_open(&b, "embedded", &opts) &&
		   !kvslab_pool_open(&c, "embedded", &opts),
	   "of three pools");
	kvslab_arena_close(opts.arena);
	n = fill(a, size, 0xa5, pages, EXTENTS * 512);
	ok(n == EXTENTS * (2 * MIB / size), "one takes all: %u pages of %u", n, size);
	ok(free_all(a, pages, n), "and frees it");
	for (k = 0; k < 2; k++) {
		struct kvslab_cache cache;

		size = sizes[rnd(seed) % 4];
		kvslab_cache_open(b, size, &cache);
		n = 0;
		while (n < EXTENTS * 512 && kvslab_alloc(b, cache.id, pages + n, 1, 0) == 1)
			n++;
		for (i = 0; i < n; i++) {
			uint64_t *at = kvslab_page_rw(b, pages[i]), *end = at + size / 8;

			for (; at < end; at++)
				bad += *at != 0;
		}
		ok(n > 0 && !bad, "another finds %u pages of %u without a byte of it", n, size);
		if (k == 0) {
			/* The second time the first one ends by closing, not by freeing. */
			ok(free_all(b, pages, n), "and frees them");
			kvslab_pool_close(b);
			b = c;
			n = fill(a, sizes[rnd(seed) % 4], 0x5a, pages, EXTENTS * 512);
			ok(n > 0, "the first one takes %u again", n);
			kvslab_pool_close(a);
		}
	}
	kvslab_pool_close(b);
}

/* The system refuses to back an extent: the call fails, and nothing is lost. */
static void test_refused(void)
{
	struct rlimit old, low = { .rlim_cur = 4096 }; /* 0 would mean something else to Linux */
	struct kvslab_cache cache;
	struct kvslab_stat stat;
	struct kvslab_pool *pool;
	kvslab_handle pages[3 * EXTENTS];
	char why[256] = "";
	int rc, n = 0;

	ok(!kvslab_pool_open(&pool, "embedded:64M", NULL) &&
		   !kvslab_cache_open(pool, 1 << 20, &cache),
	   "a pool of 64 MiB");
	ok(kvslab_alloc(pool, cache.id, pages, 4, 0) == 4, "four pages of 1 MiB");
	getrlimit(RLIMIT_DATA, &old);
	low.rlim_max = old.rlim_max;
	setrlimit(RLIMIT_DATA, &low);
	rc = kvslab_alloc(pool, cache.id, pages + 4, 8, 0);
	setrlimit(RLIMIT_DATA, &old);
	ok(rc == -ENOMEM, "the system refuses more: %d", rc);
	rc = kvslab_pool_check(pool, why, sizeof(why));
	kvslab_stat(pool, &stat);
	ok(!rc && stat.private_pages == 4 && !stat.moving, "nothing is lost %s", why);
	setrlimit(RLIMIT_DATA, &low);
	rc = kvslab_alloc(pool, cache.id, pages + 4, 8, KVSLAB_PARTIAL);
	setrlimit(RLIMIT_DATA, &old);
	ok(rc == -ENOMEM || (rc > 0 && rc < 8), "as many as there are: %d", rc);
	n = 4 + (rc > 0 ? rc : 0);
	rc = kvslab_alloc(pool, cache.id, pages + n, 64 - (uint32_t)n, 0);
	ok(rc == 64 - n, "later there is enough: %d", rc);
	rc = kvslab_pool_check(pool, why, sizeof(why));
	ok(!rc, "the rules hold %s", why);
	kvslab_pool_close(pool);
}

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(argc, argv);

	if (!SHADOW)
		test_returned();
	test_no_old_bytes(&seed);
	test_refused();
	return done();
}
