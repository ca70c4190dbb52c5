// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* What the scheduler makes of the pool's events: pressure, relief, room, the pool's end. On every kind of pool. */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "runtime/pool/device.h"
#include "runtime/pool/pool.h"
#include "sched_host.h"
#include "tests/lib/wire_mock.h"

#define BLOCK 16 /* tokens; one page */

static bool ready(struct kvslab_pool *pool)
{
	struct pollfd p = { .fd = kvslab_pool_fd(pool), .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static bool open_large(struct fake_host *h, const struct kvslab_sched_opts *opts, const char *spec, uint32_t page)
{
	struct kvslab_geometry geo = fake_geometry(1, BLOCK, page);
	struct kvslab_pool *pool;

	return ok(!test_pool_open(&pool, spec, NULL) && !fake_host_open(h, pool, &geo, opts, 0, 0), "a host");
}

static struct kvslab_sched_stat stat_of(const struct fake_host *h)
{
	struct kvslab_sched_stat stat;

	kvslab_sched_stat(h->sched, &stat);
	return stat;
}

/* 40 pages of an extent each: pressure above 36. */
static void pressure(void)
{
	struct kvslab_sched_opts opts = { .chunk_tokens = 4 * BLOCK, .no_prefix = true };
	struct fake_job a, b, c, d;
	struct kvslab_pool *other;
	struct kvslab_cache cache;
	kvslab_handle pages[40];
	struct fake_host h;
	uint64_t rows;
	int rc;

	if (!open_large(&h, &opts, "embedded:80M", KVSLAB_EXTENT_SIZE))
		return;
	if (!ok(!kvslab_pool_share(h.pool, &other) && !kvslab_cache_open(other, KVSLAB_EXTENT_SIZE, &cache) &&
			kvslab_alloc(other, cache.id, pages, 30, 0) == 30,
		"another client has 30 of 40 pages"))
		return;
	job(&a, 2 * BLOCK + 8, 60); /* 3 pages, 7 at the end */
	ok(!fake_job_add(&a, &h) && kvslab_sched_step(h.sched) > 0 && !stat_of(&h).pressure, "a request of 3 pages runs");
	ok(kvslab_alloc(other, cache.id, pages + 30, 4, 0) == 4, "the other takes 4 more");
	job(&b, 2 * BLOCK - 4, 3);
	fake_job_add(&b, &h);
	rc = kvslab_sched_step(h.sched);
	ok(stat_of(&h).pressure && stat_of(&h).running == 2, "under pressure one that leaves room is admitted (%d)", rc);
	job(&c, BLOCK, 20);
	fake_job_add(&c, &h);
	kvslab_sched_step(h.sched);
	ok(stat_of(&h).running == 2 && stat_of(&h).waiting == 1, "one that leaves none waits");
	ok(strstr(kvslab_sched_reason(h.sched), "no room") != NULL, "because: %s", kvslab_sched_reason(h.sched));
	while (!b.done && kvslab_sched_step(h.sched) > 0)
		;
	ok(b.done && !stat_of(&h).preemptions, "nobody was preempted for it");
	kvslab_free(other, pages, 34);
	while (stat_of(&h).pressure && kvslab_sched_step(h.sched) > 0)
		;
	ok(!stat_of(&h).pressure && !a.done, "relief comes");
	kvslab_sched_step(h.sched);
	ok(stat_of(&h).running == 2 && !stat_of(&h).waiting, "and with it the one that waited");
	ok(kvslab_alloc(other, cache.id, pages, 26, 0) == 26, "pressure again");
	job(&d, 4 * BLOCK, 1);
	fake_job_add(&d, &h);
	kvslab_free(other, pages, 4); /* room for it, no relief yet */
	rows = stat_of(&h).prefill_rows;
	kvslab_sched_step(h.sched);
	ok(stat_of(&h).running < 2 || !stat_of(&h).pressure || stat_of(&h).prefill_rows - rows <= BLOCK,
	   "chunks are smaller: %llu rows of a prompt beside those that answer",
	   (unsigned long long)(stat_of(&h).prefill_rows - rows));
	kvslab_free(other, pages + 4, 22);
	while (kvslab_sched_step(h.sched) > 0)
		;
	right(&a, "the first");
	right(&b, "the second");
	right(&c, "the third");
	right(&d, "the fourth");
	kvslab_pool_close(other);
	close_host(&h);
}

static void room(void)
{
	struct kvslab_sched_opts none = { 0 };
	struct kvslab_pool *other, *third;
	struct kvslab_cache cache;
	kvslab_handle pages[32], one;
	struct fake_host h;
	struct fake_job a, b;
	int rc, i;

	open_host(&h, &none);
	if (kvslab_pool_share(h.pool, &other) || kvslab_pool_share(h.pool, &third) ||
	    kvslab_cache_open(other, PAGE, &cache)) {
		ok(0, "other clients");
		return;
	}
	ok(kvslab_alloc(other, cache.id, pages, 32, 0) == 32, "another client has all pages");
	job(&a, 40, 20);
	fake_job_add(&a, &h);
	ok(kvslab_sched_step(h.sched) == -EAGAIN, "a request of 3 pages cannot run");
	kvslab_pool_events(h.pool);
	ok(!ready(h.pool), "nothing to wait for yet");
	rc = kvslab_alloc(third, cache.id, &one, 1, 0);
	ok(rc == -ENOSPC || rc == -EDQUOT, "a third client waits behind it");
	kvslab_free(other, pages, 3);
	ok(ready(h.pool) && !ready(third), "three pages come back: the scheduler's turn");
	ok(kvslab_sched_step(h.sched) == 40, "it takes them at once");
	for (i = 0; i < 30 && (rc = kvslab_sched_step(h.sched)) > 0; i++)
		;
	ok(rc == -EAGAIN && !stat_of(&h).running, "when a fourth is not there even the last one gives back what it has");
	for (i = 0; i < 10 && kvslab_sched_step(h.sched) == -EAGAIN && ready(h.pool); i++)
		;
	/* It is its turn or the third's; both get what they want in the end. */
	kvslab_free(other, pages + 3, 4);
	for (i = 0; i < 100 && !a.done; i++)
		kvslab_sched_step(h.sched);
	ok(a.done, "four more pages: it ends");
	kvslab_sched_step(h.sched);
	ok(ready(third) && kvslab_alloc(third, cache.id, &one, 1, 0) == 1, "and the third has its turn");
	right(&a, "it");

	kvslab_free(third, &one, 1);
	ok(kvslab_alloc(other, cache.id, pages, 7, 0) == 7, "all is taken again");
	job(&b, 40, 20);
	fake_job_add(&b, &h);
	ok(kvslab_sched_step(h.sched) == -EAGAIN && kvslab_alloc(third, cache.id, &one, 1, 0) < 0, "two wait");
	kvslab_pool_events(h.pool);
	kvslab_pool_events(third);
	kvslab_sched_cancel(h.sched, b.request);
	kvslab_free(other, pages, 1);
	ok(ready(h.pool) && !ready(third), "a page comes back: the turn of a scheduler that has nothing to do");
	ok(kvslab_sched_step(h.sched) == 0 && ready(third), "it passes its turn on");
	ok(kvslab_alloc(third, cache.id, &one, 1, 0) == 1, "to who wants it");
	fake_job_free(&b);
	kvslab_pool_close(third);
	kvslab_pool_close(other);
	close_host(&h);
}

/* Steps in which many requests need a page, and in which many end. */
static void batches(void)
{
	struct kvslab_sched_opts opts = { .no_prefix = true, .max_batch = 8 };
	struct pool_wire *wire;
	struct fake_job jobs[8];
	struct fake_host h;
	uint64_t before, most = 0, steps = 0;
	int i, rc;

	if (test_pool_kind() != TEST_POOL_WIRE) {
		ok(1, "commands are counted on the stand-in alone # SKIP");
		return;
	}
	open_host(&h, &opts);
	wire = h.pool->device->wire;
	for (i = 0; i < 8; i++) {
		job(&jobs[i], 10, 14); /* ends within its second page */
		jobs[i].n_stop = 0;
		fake_job_add(&jobs[i], &h);
	}
	kvslab_sched_step(h.sched);
	do {
		before = wire_mock_commands(wire);
		rc = kvslab_sched_step(h.sched);
		steps++;
		if (wire_mock_commands(wire) - before > most)
			most = wire_mock_commands(wire) - before;
	} while (rc > 0);
	ok(most <= 3, "%llu steps of 8 requests, at most %llu commands each: events, one ALLOC, one FREE",
	   (unsigned long long)steps, (unsigned long long)most);
	for (i = 0; i < 8; i++)
		right(&jobs[i], "a request");
	close_host(&h);
}

static void end_of_pool(void)
{
	struct kvslab_sched_opts none = { 0 };
	struct fake_host h;
	struct fake_job a, b;

	if (test_pool_kind() != TEST_POOL_WIRE) {
		ok(1, "an embedded pool cannot be destroyed under its clients # SKIP");
		return;
	}
	open_host(&h, &none);
	job(&a, 40, 200);
	job(&b, 40, 200);
	fake_job_add(&a, &h);
	ok(kvslab_sched_step(h.sched) > 0 && kvslab_sched_step(h.sched) > 0, "a request runs");
	wire_mock_kill(h.pool->device->wire);
	ok(kvslab_sched_step(h.sched) == 0 && a.done && a.info.finish == KVSLAB_FINISH_ERROR &&
		   a.info.error == -ENODEV,
	   "the pool is destroyed: it ends with that error (%d)", a.info.error);
	ok(fake_job_add(&b, &h) == -ENODEV, "another is refused");
	fake_job_free(&a);
	fake_job_free(&b);
	fake_host_close(&h);
}

int main(int argc, char **argv)
{
	seed = tap_seed(argc, argv);
	pressure();
	room();
	batches();
	end_of_pool();
	return done();
}
