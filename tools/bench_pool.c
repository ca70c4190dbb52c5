// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * kvslab bench pool: what allocating and freeing one page costs in an embedded pool, beside the
 * reference list of bench_list.h. Both run by turns, so short that what disturbs the machine
 * disturbs both; a ratio is the median of the ratios of the turns, and beside each median stand the
 * first and the last decile. With two threads the figure is what a page costs each of them. After
 * each case the pool is checked.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "bench_list.h"
#include "kvslab.h"
#include "msg.h"

#define EXTENTS 64
#define TURNS 61
#define TURN_NS 1e6
#define BATCH_MAX 16
#define THREADS_MAX 2

struct result {
	double median, p10, p90;
};

struct bench_case {
	uint32_t pages_per_slab, batch, threads;
	struct bench_list *list;
	struct kvslab_pool *client[THREADS_MAX];
	uint32_t cache;
};

struct worker {
	pthread_t thread;
	pthread_barrier_t *barrier;
	const struct bench_case *c;
	struct kvslab_pool *client; /* NULL: the list */
	uint64_t rounds;
	double t0, t1;
	int rc;
};

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int loop_list(const struct bench_case *c, uint64_t rounds)
{
	uint64_t pages[BATCH_MAX], i;
	int rc;

	for (i = 0; i < rounds; i++) {
		rc = bench_list_alloc(c->list, pages, c->batch);
		if (rc < 0)
			return rc;
		rc = bench_list_free(c->list, pages, c->batch);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int loop_pool(const struct bench_case *c, struct kvslab_pool *client, uint64_t rounds)
{
	kvslab_handle pages[BATCH_MAX];
	uint64_t i;
	int rc;

	for (i = 0; i < rounds; i++) {
		rc = kvslab_alloc(client, c->cache, pages, c->batch, 0);
		if (rc < 0)
			return rc;
		rc = kvslab_free(client, pages, c->batch);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static void *work(void *arg)
{
	struct worker *w = arg;

	pthread_barrier_wait(w->barrier);
	w->t0 = now_ns();
	w->rc = w->client ? loop_pool(w->c, w->client, w->rounds) : loop_list(w->c, w->rounds);
	w->t1 = now_ns();
	return NULL;
}

/* One turn: every thread does @rounds batches. Nanoseconds for one page of one thread, or negative.
 */
static double turn(const struct bench_case *c, bool list, uint64_t rounds)
{
	struct worker w[THREADS_MAX] = { 0 };
	pthread_barrier_t barrier;
	double t0, t1;
	uint32_t i;
	int rc = 0;

	if (pthread_barrier_init(&barrier, NULL, c->threads))
		return -ENOMEM;
	for (i = 0; i < c->threads; i++) {
		w[i].barrier = &barrier;
		w[i].c = c;
		w[i].client = list ? NULL : c->client[i];
		w[i].rounds = rounds;
	}
	/* At most one more thread: if it does not start, nobody waits at the barrier yet. */
	if (c->threads == 2)
		rc = -pthread_create(&w[1].thread, NULL, work, &w[1]);
	if (!rc) {
		work(&w[0]);
		if (c->threads == 2)
			pthread_join(w[1].thread, NULL);
	}
	pthread_barrier_destroy(&barrier);
	t0 = w[0].t0;
	t1 = w[0].t1;
	for (i = 0; i < c->threads && !rc; i++) {
		t0 = w[i].t0 < t0 ? w[i].t0 : t0;
		t1 = w[i].t1 > t1 ? w[i].t1 : t1;
		rc = w[i].rc;
	}
	return rc ? rc : (t1 - t0) / (double)rounds / c->batch;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static struct result summary(const double *v)
{
	double s[TURNS];

	memcpy(s, v, sizeof(s));
	qsort(s, TURNS, sizeof(*s), by_value);
	return (struct result){ s[TURNS / 2], s[TURNS / 10], s[TURNS - 1 - TURNS / 10] };
}

/* How many batches fill a turn. */
static int64_t calibrate(const struct bench_case *c, bool list)
{
	double ns = turn(c, list, 2000);

	if (ns < 0)
		return (int64_t)ns;
	return 1 + (int64_t)(TURN_NS / (ns * c->batch + 1));
}

static int print(const struct bench_case *c, const char *name, struct result r,
		 const struct result *ratio, bool json)
{
	char tail[128] = "";

	if (json) {
		if (ratio)
			snprintf(tail, sizeof(tail),
				 ",\"ratio\":%.3f,\"ratio_p10\":%.3f,\"ratio_p90\":%.3f",
				 ratio->median, ratio->p10, ratio->p90);
		return out_text("{\"bench\":\"pool\",\"name\":\"%s\",\"pages_per_slab\":%u,"
				"\"batch\":%u,"
				"\"threads\":%u,\"ns_per_page\":%.3f,\"ns_p10\":%.3f,\"ns_p90\":%."
				"3f%s}\n",
				name, c->pages_per_slab, c->batch, c->threads, r.median, r.p10,
				r.p90, tail);
	}
	if (ratio)
		snprintf(tail, sizeof(tail), "   %5.2fx the list (%.2f to %.2f)", ratio->median,
			 ratio->p10, ratio->p90);
	return out_text("%-5s %3u pages a slab, batch %2u, threads %u: %7.1f ns a page (%.1f to "
			"%.1f)%s\n",
			name, c->pages_per_slab, c->batch, c->threads, r.median, r.p10, r.p90,
			tail);
}

/* Every page is back and every structure whole. */
static int check(const struct bench_case *c)
{
	uint32_t pages = EXTENTS * c->pages_per_slab, left = bench_list_count(c->list);
	struct kvslab_stat stat;
	char why[256] = "";
	int rc;

	rc = kvslab_pool_check(c->client[0], why, sizeof(why));
	if (rc) {
		msg("bench pool: the check of the pool failed: %s; this is a bug, report it", why);
		return rc;
	}
	rc = kvslab_stat(c->client[0], &stat);
	if (rc)
		return rc;
	if (stat.private_pages || stat.moving || stat.allocs != stat.frees || !stat.allocs ||
	    left != pages) {
		msg("bench pool: %llu pages private, %llu allocated, %llu freed; %u of %u free in "
		    "the list; "
		    "this is a bug, report it",
		    (unsigned long long)stat.private_pages, (unsigned long long)stat.allocs,
		    (unsigned long long)stat.frees, left, pages);
		return -EUCLEAN;
	}
	return 0;
}

static int measure(const struct bench_case *c, bool json)
{
	double list[TURNS], pool[TURNS], ratio[TURNS];
	int64_t list_rounds, pool_rounds;
	struct result r;
	int i, rc;

	list_rounds = calibrate(c, true);
	pool_rounds = calibrate(c, false);
	if (list_rounds < 0 || pool_rounds < 0)
		return (int)(list_rounds < 0 ? list_rounds : pool_rounds);
	for (i = 0; i < TURNS; i++) {
		list[i] = turn(c, true, (uint64_t)list_rounds);
		pool[i] = turn(c, false, (uint64_t)pool_rounds);
		if (list[i] < 0 || pool[i] < 0)
			return (int)(list[i] < 0 ? list[i] : pool[i]);
		ratio[i] = pool[i] / list[i];
	}
	rc = check(c);
	if (rc)
		return rc;
	rc = print(c, "list", summary(list), NULL, json);
	if (rc)
		return rc;
	r = summary(ratio);
	return print(c, "pool", summary(pool), &r, json);
}

static int run_case(uint32_t pages_per_slab, uint32_t batch, uint32_t threads, bool json)
{
	struct bench_case c = { .pages_per_slab = pages_per_slab,
				.batch = batch,
				.threads = threads };
	struct kvslab_cache cache;
	uint32_t i, frames;
	char spec[64];
	int rc;

	snprintf(spec, sizeof(spec), "embedded:%lluK",
		 (unsigned long long)EXTENTS * (KVSLAB_EXTENT_SIZE >> 10));
	rc = kvslab_pool_open(&c.client[0], spec, NULL);
	if (rc)
		return rc;
	for (i = 1; i < threads && !rc; i++)
		rc = kvslab_pool_share(c.client[0], &c.client[i]);
	/* Ask with the smallest page for the frame's size, then with the largest that gives this
	 * many. */
	if (!rc)
		rc = kvslab_cache_open(c.client[0], KVSLAB_EXTENT_SIZE, &cache);
	if (!rc) {
		frames = KVSLAB_EXTENT_SIZE / pages_per_slab / cache.frame_size;
		rc = frames ? kvslab_cache_open(c.client[0], frames * cache.frame_size, &cache)
			    : -EINVAL;
	}
	if (!rc && cache.pages_per_slab != pages_per_slab)
		rc = -EINVAL;
	c.cache = cache.id;
	if (!rc) {
		c.list = bench_list_open(EXTENTS * pages_per_slab);
		rc = c.list ? measure(&c, json) : -ENOMEM;
	}
	bench_list_close(c.list);
	for (i = threads; i > 0; i--)
		kvslab_pool_close(c.client[i - 1]);
	return rc;
}

int bench_pool(const struct bench_opts *opts)
{
	static const uint32_t slabs[] = { 1, 6, 102, 512 }, batches[] = { 16, 1 };
	uint32_t t, s, b;
	int rc;

	for (t = 1; t <= THREADS_MAX; t++)
		for (s = 0; s < sizeof(slabs) / sizeof(*slabs); s++)
			for (b = 0; b < sizeof(batches) / sizeof(*batches); b++) {
				rc = run_case(slabs[s], batches[b], t, opts->json);
				if (rc) {
					msg("bench pool: %u pages a slab, batch %u, threads %u: %s",
					    slabs[s], batches[b], t, kvslab_strerror(rc));
					return 1;
				}
			}
	return 0;
}
