// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "stepper.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "runtime/pool/ring.h"
#include "runtime/sched/sched.h"

/* While other clients of the pool hold its memory, the pool's event says when to try again. It also comes when a try
 * that failed gives back what it had: hence a pause. And where the system has no memory it may not come at all. */
#define PAUSE_MIN_NS 1000000u
#define PAUSE_MAX_NS 16000000u
#define RETRY_NS 100000000u

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- the executor that the scheduler sees ---- */

static struct stepper *of(struct kvslab_executor *ex)
{
	return (struct stepper *)((char *)ex - offsetof(struct stepper, executor));
}

static void geometry(struct kvslab_executor *ex, struct kvslab_geometry *g)
{
	of(ex)->inner->ops->geometry(of(ex)->inner, g);
}

static int submit(struct kvslab_executor *ex, struct kvslab_batch *batch)
{
	struct stepper *st = of(ex);
	int rc;

	st->submitting = now_ns(); /* it may be done before this returns */
	rc = st->inner->ops->submit(st->inner, batch);
	if (rc)
		return rc;
	pthread_mutex_lock(&st->lock);
	st->busy = true;
	st->ready = false;
	pthread_cond_broadcast(&st->changed);
	pthread_mutex_unlock(&st->lock);
	return 0;
}

static struct kvslab_batch *complete(struct kvslab_executor *ex, bool wait)
{
	struct stepper *st = of(ex);
	struct kvslab_batch *batch = NULL;

	pthread_mutex_lock(&st->lock);
	while (wait && st->busy && !st->ready)
		pthread_cond_wait(&st->changed, &st->lock);
	if (st->ready) {
		batch = st->batch;
		st->ready = st->busy = false;
	}
	pthread_mutex_unlock(&st->lock);
	return batch;
}

static void copy(struct kvslab_executor *ex, void *dst, const void *src, size_t size)
{
	of(ex)->inner->ops->copy(of(ex)->inner, dst, src, size);
}

static void no_close(struct kvslab_executor *ex)
{
	(void)ex; /* the inner one's owner closes that */
}

static const struct kvslab_executor_ops ops = { geometry, submit, complete, copy, no_close };

static void *waiter(void *arg)
{
	struct stepper *st = arg;
	struct kvslab_batch *batch;

	pthread_mutex_lock(&st->lock);
	for (;;) {
		while (!st->ending && (!st->busy || st->ready))
			pthread_cond_wait(&st->changed, &st->lock);
		if (st->ending)
			break;
		pthread_mutex_unlock(&st->lock);
		batch = st->inner->ops->complete(st->inner, true);
		pthread_mutex_lock(&st->lock);
		st->batch = batch;
		st->finished = now_ns();
		st->ready = true;
		pthread_cond_broadcast(&st->changed);
		loop_wake(&st->done);
	}
	pthread_mutex_unlock(&st->lock);
	return NULL;
}

/* ---- steps ---- */

static void begin(struct stepper *st)
{
	int rows = sched_begin(st->sched);

	st->stepped = false;
	st->stalled = rows == -EAGAIN;
	if (rows <= 0) {
		st->submitted = 0;
		if (rows < 0) {
			st->last_try = now_ns();
			st->pause = st->pause ? st->pause * 2 : PAUSE_MIN_NS;
			if (st->pause > PAUSE_MAX_NS)
				st->pause = PAUSE_MAX_NS;
			loop_timer_set(st->loop, &st->retry, st->last_try + RETRY_NS);
		}
		return;
	}
	st->pause = 0;
	st->stepping = true;
	if (!st->busy) {
		/* the executor refused the batch; sched_end() tells the requests */
		st->finished = st->submitting = now_ns();
		loop_wake(&st->done);
	}
	if (st->submitted) {
		st->times.between += (double)(st->submitting - st->ended) / 1e9;
		st->times.last = (double)(st->submitting - st->submitted) / 1e9;
		st->stepped = true;
	}
	st->submitted = st->submitting;
}

static void step_done(struct loop_wake *w)
{
	struct stepper *st = (struct stepper *)((char *)w - offsetof(struct stepper, done));

	if (!st->stepping || sched_end(st->sched, false))
		return;
	st->stepping = false;
	st->ended = st->finished;
	st->times.steps++;
	st->times.executor += (double)(st->finished - st->submitted) / 1e9;
	begin(st);
	if (st->after)
		st->after(st);
}

static void retry(struct loop_timer *t)
{
	stepper_kick((struct stepper *)((char *)t - offsetof(struct stepper, retry)));
}

/* While a step runs the next one will see it. */
static void pool_event(void *data)
{
	struct stepper *st = data;

	if (st->stalled && now_ns() < st->last_try + st->pause)
		loop_timer_set(st->loop, &st->retry, st->last_try + st->pause);
	else
		stepper_kick(st);
}

void stepper_kick(struct stepper *st)
{
	if (st->stepping)
		return;
	begin(st);
	if (st->after)
		st->after(st);
}

int stepper_open(struct stepper *st, struct kvslab_loop *loop, const struct kvslab_sched_opts *opts)
{
	struct kvslab_sched_opts o = *opts;
	int rc;

	st->loop = loop;
	st->inner = opts->executor;
	st->executor = *opts->executor;
	st->executor.ops = &ops;
	o.executor = &st->executor;
	st->retry.fired = retry;
	st->done.woken = step_done;
	pthread_mutex_init(&st->lock, NULL);
	pthread_cond_init(&st->changed, NULL);
	rc = kvslab_sched_open(&st->sched, &o);
	if (rc)
		goto fail;
	rc = pool_ring_open(&st->ring, opts->kv->pool, loop, pool_event, st);
	if (rc) {
		kvslab_sched_close(st->sched);
		goto fail;
	}
	rc = -pthread_create(&st->thread, NULL, waiter, st);
	if (rc) {
		pool_ring_close(st->ring);
		kvslab_sched_close(st->sched);
		goto fail;
	}
	loop_wake_open(loop, &st->done);
	return 0;
fail:
	pthread_cond_destroy(&st->changed);
	pthread_mutex_destroy(&st->lock);
	return rc;
}

void stepper_close(struct stepper *st)
{
	loop_timer_stop(&st->retry);
	kvslab_sched_close(st->sched); /* waits for the batch that runs */
	pool_ring_close(st->ring);
	pthread_mutex_lock(&st->lock);
	st->ending = true;
	pthread_cond_broadcast(&st->changed);
	pthread_mutex_unlock(&st->lock);
	pthread_join(st->thread, NULL);
	loop_wake_close(&st->done);
	pthread_cond_destroy(&st->changed);
	pthread_mutex_destroy(&st->lock);
}
