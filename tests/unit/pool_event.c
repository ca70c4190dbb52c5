// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Events of clients: who is told of room, in which order, and of watermarks. On every kind of pool. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "kvslab.h"
#include "tests/lib/tap.h"
#include "tests/lib/test_pool.h"

#define PAGE (512u << 10) /* 4 in an extent */

static bool ready(struct kvslab_pool *pool)
{
	struct pollfd p = { .fd = kvslab_pool_fd(pool), .events = POLLIN };

	return poll(&p, 1, 0) == 1 && (p.revents & POLLIN);
}

static int full(int rc)
{
	return rc == -ENOSPC || rc == -EDQUOT;
}

static void test_room(void)
{
	struct kvslab_pool *a, *b, *c;
	struct kvslab_cache cache;
	kvslab_handle p[8], q[8];
	int rc;

	if (!ok(!test_pool_open(&a, "embedded:4M", NULL) && !kvslab_pool_share(a, &b) && !kvslab_pool_share(a, &c) &&
			!kvslab_cache_open(a, PAGE, &cache),
		"a pool of 8 pages and three clients"))
		return;
	ok(kvslab_pool_fd(a) >= 0 && kvslab_pool_fd(a) == kvslab_pool_fd(a) && kvslab_pool_fd(a) != kvslab_pool_fd(b),
	   "a descriptor for each");
	ok(kvslab_pool_events(a) == 0 && !ready(a) && !ready(b), "no event at first");
	ok(kvslab_alloc(a, cache.id, p, 8, 0) == 8, "the first takes all");
	kvslab_pool_events(a);
	kvslab_pool_events(b);
	kvslab_pool_events(c);
	rc = kvslab_alloc(b, cache.id, q, 2, 0);
	ok(full(rc) && full(kvslab_alloc(c, cache.id, q, 1, 0)), "the others find no room (%d)", rc);
	ok(!(kvslab_pool_events(b) & KVSLAB_EVENT_ROOM), "no room, no event");
	ok(!kvslab_free(a, p, 1), "a page comes back");
	ok(ready(b) && (kvslab_pool_events(b) & KVSLAB_EVENT_ROOM), "who waits longest is told");
	ok(!ready(c) && !(kvslab_pool_events(c) & KVSLAB_EVENT_ROOM), "the next one is not");
	ok(!ready(b), "an event that was taken is gone");
	ok(full(kvslab_alloc(b, cache.id, q, 2, 0)), "not enough yet");
	ok(!kvslab_free(a, p + 1, 1) && ready(b) && (kvslab_pool_events(b) & KVSLAB_EVENT_ROOM), "told again");
	ok(!ready(c), "the next one still not");
	ok(kvslab_alloc(b, cache.id, q, 2, 0) == 2, "now it has what it needs");
	ok(ready(c) && (kvslab_pool_events(c) & KVSLAB_EVENT_ROOM), "and the next one has its turn");
	ok(!kvslab_free(a, p + 2, 6) && !kvslab_free(b, q, 2), "all comes back");
	ok(kvslab_alloc(c, cache.id, q, 1, 0) == 1, "room for the last");
	kvslab_pool_close(c);
	kvslab_pool_close(a);
	kvslab_pool_close(b);
}

/* A client may keep a few empty slabs, 17 of such pages: so the low mark is above that. */
static void test_marks(void)
{
	struct kvslab_pool_opts opts = { .low = 500, .high = 750 };
	struct kvslab_pool *a, *b;
	struct kvslab_cache cache;
	struct kvslab_stat stat;
	kvslab_handle p[40];

	if (!ok(!test_pool_open(&a, "embedded:80M", &opts) && !kvslab_pool_share(a, &b) &&
			!kvslab_cache_open(a, KVSLAB_EXTENT_SIZE, &cache),
		"a pool of 40 extents, marks at 20 and 30"))
		return;
	ok(kvslab_alloc(a, cache.id, p, 30, 0) == 30 && !kvslab_pool_events(a) && !kvslab_pool_events(b),
	   "30 extents are no pressure");
	ok(kvslab_alloc(a, cache.id, p + 30, 1, 0) == 1 && ready(a) && ready(b), "one more is, for all");
	ok(kvslab_pool_events(a) == KVSLAB_EVENT_PRESSURE && kvslab_pool_events(b) == KVSLAB_EVENT_PRESSURE, "and is told");
	ok(!kvslab_stat(a, &stat) && stat.pressure == 1, "the figures say it too");
	ok(!kvslab_free(a, p + 21, 10) && !kvslab_stat(a, &stat) && stat.pressure == 1 && !kvslab_pool_events(b),
	   "still so when less is held, but more than 20");
	ok(!kvslab_free(a, p, 21), "all comes back");
	ok(ready(b) && kvslab_pool_events(b) == KVSLAB_EVENT_RELIEF, "relief is told");
	ok(!kvslab_stat(a, &stat) && stat.pressure == 0, "the figures say that too");
	kvslab_pool_close(a);
	kvslab_pool_close(b);
	opts.low = 800;
	ok(test_pool_open(&b, "embedded:80M", &opts) == -EINVAL, "low above high");
}

struct waiter {
	struct kvslab_pool *pool;
	uint32_t cache;
	int got, rounds;
};

/* Takes all pages, gives them back; waits by poll() alone. */
static void *wait_and_take(void *arg)
{
	struct waiter *w = arg;
	kvslab_handle p[8];
	int i;

	for (i = 0; i < w->rounds; i++) {
		while (kvslab_alloc(w->pool, w->cache, p, 5, 0) != 5) {
			struct pollfd f = { .fd = kvslab_pool_fd(w->pool), .events = POLLIN };

			if (poll(&f, 1, 20000) != 1)
				return NULL;
			kvslab_pool_events(w->pool);
		}
		w->got++;
		kvslab_free(w->pool, p, 5);
	}
	/* Who leaves gives its turn on. */
	return NULL;
}

static void test_threads(void)
{
	struct waiter w[4];
	pthread_t t[4];
	struct kvslab_cache cache;
	int i, got = 0, rounds = 2000;

	if (!ok(!test_pool_open(&w[0].pool, "embedded:4M", NULL) && !kvslab_cache_open(w[0].pool, PAGE, &cache), "a pool"))
		return;
	for (i = 1; i < 4; i++)
		if (kvslab_pool_share(w[0].pool, &w[i].pool))
			return;
	for (i = 0; i < 4; i++) {
		w[i].cache = cache.id;
		w[i].got = 0;
		w[i].rounds = rounds;
		pthread_create(&t[i], NULL, wait_and_take, &w[i]);
	}
	for (i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
		got += w[i].got;
	}
	ok(got == 4 * rounds, "four threads that need more than half each: %d of %d turns", got, 4 * rounds);
	for (i = 0; i < 4; i++)
		kvslab_pool_close(w[i].pool);
}

int main(void)
{
	ok(kvslab_pool_fd(NULL) == -EINVAL && kvslab_pool_events(NULL) == -EINVAL, "no pool");
	test_room();
	test_marks();
	test_threads();
	return done();
}
