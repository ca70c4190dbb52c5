// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * A scheduler whose pool is driven by an event loop: what a step wants of the pool goes in few system calls, in whatever order,
 * and any of it may fail, without a wrong answer or a lost page. On the module, or on a stand-in for it.
 */
#include <errno.h>
#include <string.h>

#include "kmod/uapi/kvslab.h"
#include "runtime/loop/loop.h"
#include "runtime/pool/device.h"
#include "runtime/pool/pool.h"
#include "runtime/pool/ring.h"
#include "sched_host.h"
#include "tests/lib/wire_ring.h"

#define JOBS 24

static struct kvslab_loop *loop;
static struct pool_ring *ring;
static struct wire_ring stand_in;
static struct pool_wire *wire; /* the stand-in's; NULL: the module */

static void on_event(void *data)
{
	(void)data; /* the next step asks */
}

static bool open_on_loop(struct fake_host *h, enum kvslab_loop_kind kind, const struct kvslab_geometry *geo,
			 const struct kvslab_sched_opts *opts, const char *spec)
{
	struct kvslab_pool *pool;

	if (kvslab_loop_open(&loop, kind))
		return false;
	wire = NULL;
	if (test_pool_kind() == TEST_POOL_DEVICE) {
		if (test_pool_open(&pool, spec, NULL))
			return false;
	} else {
		if (wire_mock_open(&wire, spec, NULL) || device_open_wire(&pool, wire, NULL))
			return false;
		wire_ring_open(&stand_in, wire, rnd(&seed));
	}
	if (fake_host_open(h, pool, geo, opts, 0, 0) || pool_ring_open(&ring, pool, loop, on_event, NULL))
		return false;
	kvslab_loop_step(loop, 10); /* finds out whether commands go that way */
	kvslab_loop_step(loop, 0);
	return true;
}

static void close_on_loop(struct fake_host *h)
{
	pool_ring_close(ring);
	fake_host_close(h);
	kvslab_loop_close(loop);
	if (wire)
		wire_ring_close(&stand_in);
}

static void make_jobs(struct fake_job *jobs, struct fake_host *h, uint64_t from)
{
	uint32_t shared[60], i;

	for (i = 0; i < 60; i++)
		shared[i] = (uint32_t)(rnd(&from) % 1000);
	for (i = 0; i < JOBS; i++) {
		fake_job_init(&jobs[i], shared, i % 2 ? 60 : 0, 1 + (uint32_t)(rnd(&from) % 60), &from);
		jobs[i].max_tokens = 1 + (uint32_t)(rnd(&from) % 40);
		jobs[i].priority = (uint8_t)(rnd(&from) % 2);
		if (fake_job_add(&jobs[i], h))
			ok(0, "job %u is taken", i);
	}
}

/* Steps until all is done; between two of them the loop may or may not have had its turn. */
static int run_jobs(struct fake_host *h)
{
	int rc, again = 0;

	do {
		rc = kvslab_sched_step(h->sched);
		again = rc == -EAGAIN ? again + 1 : 0;
		if (rnd(&seed) % 3)
			kvslab_loop_step(loop, 0);
	} while (rc > 0 || (rc == -EAGAIN && again < 1000));
	return rc;
}

/* "" or what is wrong. */
static void check(struct fake_host *h, struct fake_job *jobs, char *why, size_t n)
{
	uint32_t i;

	why[0] = 0;
	for (i = 0; i < JOBS; i++)
		if (!why[0])
			fake_job_right(&jobs[i], why, n);
	if (!why[0] && h->f.faults)
		snprintf(why, n, "fault %s", h->f.fault);
	pool_ring_push(ring);
	kvslab_loop_step(loop, 0);
	if (!why[0])
		fake_pool_idle(h->pool, why, n);
	for (i = 0; i < JOBS; i++)
		fake_job_free(&jobs[i]);
}

static void answers(enum kvslab_loop_kind kind, const char *name, uint32_t groups, uint32_t page, bool tight)
{
	struct kvslab_geometry geo = fake_geometry(groups, 16, page);
	struct kvslab_sched_opts opts = { .step_tokens = 100, .max_batch = 10 };
	static struct fake_job jobs[JOBS];
	struct kvslab_sched_stat stat;
	struct fake_host h;
	char why[400];
	int rc;

	if (!open_on_loop(&h, kind, &geo, &opts, "embedded:2M")) {
		ok(1, "%s: not here # SKIP", name);
		return;
	}
	make_jobs(jobs, &h, rnd(&seed));
	rc = run_jobs(&h);
	kvslab_sched_stat(h.sched, &stat);
	check(&h, jobs, why, sizeof(why));
	ok(!rc && !why[0], "%s: right answers (%d) %s", name, rc, why);
	ok(!stat.preemptions == !tight, "%s: %llu preemptions", name, (unsigned long long)stat.preemptions);
	ok(stat.prefix_hits, "%s: prefixes were found", name);
	if (wire && kind == KVSLAB_LOOP_URING)
		ok(stand_in.together && stand_in.awaited > stand_in.together && stand_in.later,
		   "%s: %llu commands in %llu system calls, %llu without a wait", name,
		   (unsigned long long)stand_in.awaited, (unsigned long long)stand_in.together,
		   (unsigned long long)stand_in.later);
	close_on_loop(&h);
}

struct fault {
	unsigned int cmd;
	int err;
	uint32_t at, seen;
};

static int fail_once(unsigned int cmd, const void *args, void *data)
{
	struct fault *f = data;

	(void)args;
	return cmd == f->cmd && f->seen++ == f->at ? f->err : 0;
}

/* The same requests again and again, each time with the next command of a kind refused. */
static void refused(const char *name, unsigned int cmd, int err, const char *spec)
{
	struct kvslab_geometry geo = fake_geometry(2, 16, 32 << 10);
	struct kvslab_sched_opts opts = { .step_tokens = 64, .max_batch = 8 };
	static struct fake_job jobs[JOBS];
	struct fault fault = { .cmd = cmd, .err = err };
	uint64_t from = rnd(&seed);
	struct fake_host h;
	char why[400];
	uint32_t bad = 0;
	bool reached;
	int rc;

	do {
		fault.seen = 0;
		if (!open_on_loop(&h, KVSLAB_LOOP_URING, &geo, &opts, spec)) {
			ok(1, "%s: not here # SKIP", name);
			return;
		}
		make_jobs(jobs, &h, from);
		wire_mock_hook(wire, fail_once, &fault);
		rc = run_jobs(&h);
		wire_mock_hook(wire, NULL, NULL);
		check(&h, jobs, why, sizeof(why));
		bad += rc || why[0];
		if (rc || why[0])
			printf("# the %uth: %d %s\n", fault.at, rc, why);
		close_on_loop(&h);
		reached = fault.seen > fault.at;
		fault.at += 1 + (uint32_t)(rnd(&seed) % 4);
	} while (reached && fault.at < 400);
	ok(!bad && fault.at > 1, "%s: refused at %u places, nothing lost (%u bad)", name, fault.at, bad);
}

/* Steady decoding, and steps in which all need the pool. */
static void few_calls(enum kvslab_loop_kind kind, const char *name)
{
	struct kvslab_geometry geo = fake_geometry(1, 16, 16 << 10);
	struct kvslab_sched_opts opts = { .max_batch = 16 };
	uint64_t before, calls, most = 0, all = 0, plain = 0, steps = 0;
	struct fake_job jobs[16];
	struct fake_host h;
	char why[400] = "";
	int i, rc;

	if (!open_on_loop(&h, kind, &geo, &opts, "embedded:8M")) {
		ok(1, "%s: not here # SKIP", name);
		return;
	}
	for (i = 0; i < 16; i++) {
		job(&jobs[i], 40, 60);
		jobs[i].n_stop = 0;
		fake_job_add(&jobs[i], &h);
	}
	do {
		/* What goes to the pool as a system call of its own: a group, or an ioctl. */
		before = wire_mock_commands(wire) - stand_in.awaited - stand_in.later + stand_in.together;
		rc = kvslab_sched_step(h.sched);
		calls = wire_mock_commands(wire) - stand_in.awaited - stand_in.later + stand_in.together - before;
		kvslab_loop_step(loop, 0);
		steps += rc > 0;
		all += calls;
		plain += !calls;
		if (calls > most)
			most = calls;
	} while (rc > 0);
	printf("# %s: 16 requests, %llu steps, %llu system calls for the pool: %.2f a step, at most %llu; %llu commands\n", name,
	       (unsigned long long)steps, (unsigned long long)all, (double)all / (double)steps,
	       (unsigned long long)most, (unsigned long long)wire_mock_commands(wire));
	if (kind == KVSLAB_LOOP_URING) {
		ok(most <= 3, "%s: at most %llu system calls a step", name, (unsigned long long)most);
		ok(plain * 10 > steps * 7, "%s: %llu of %llu steps make none", name, (unsigned long long)plain,
		   (unsigned long long)steps);
	}
	ok(!rc, "%s: it ends", name);
	for (i = 0; i < 16; i++)
		right(&jobs[i], name);
	pool_ring_push(ring);
	kvslab_loop_step(loop, 0);
	ok(fake_pool_idle(h.pool, why, sizeof(why)), "%s: no page is held %s", name, why);
	close_on_loop(&h);
}

int main(int argc, char **argv)
{
	seed = tap_seed(argc, argv);
	answers(KVSLAB_LOOP_URING, "io_uring, plenty", 1, 4096, false);
	answers(KVSLAB_LOOP_URING, "io_uring, few pages", 1, 96 << 10, true);
	answers(KVSLAB_LOOP_URING, "io_uring, 4 groups, few pages", 4, 24 << 10, true);
	answers(KVSLAB_LOOP_EPOLL, "epoll, few pages", 1, 96 << 10, true);
	if (test_pool_kind() == TEST_POOL_DEVICE)
		return done(); /* its commands are neither counted nor refused at will */
	few_calls(KVSLAB_LOOP_URING, "io_uring");
	few_calls(KVSLAB_LOOP_EPOLL, "epoll");
	refused("ALLOC, ENOSPC", KVSLAB_CMD_ALLOC, -ENOSPC, "embedded:2M");
	refused("ALLOC, EDQUOT", KVSLAB_CMD_ALLOC, -EDQUOT, "embedded:2M");
	refused("ALLOC, ENOMEM", KVSLAB_CMD_ALLOC, -ENOMEM, "embedded:8M");
	refused("SEAL, EBUSY", KVSLAB_CMD_SEAL, -EBUSY, "embedded:2M");
	refused("SEAL, EDQUOT", KVSLAB_CMD_SEAL, -EDQUOT, "embedded:2M");
	refused("LOOKUP, ENOMEM", KVSLAB_CMD_LOOKUP, -ENOMEM, "embedded:2M");
	refused("FREE, ENOMEM", KVSLAB_CMD_FREE, -ENOMEM, "embedded:2M");
	refused("EVENTS, ENOMEM", KVSLAB_CMD_EVENTS, -ENOMEM, "embedded:2M");
	return done();
}
