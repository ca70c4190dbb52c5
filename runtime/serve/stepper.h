/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * A scheduler stepped by the loop, which does not wait for the arithmetic: a step is begun in the loop's thread, an own
 * thread waits for the executor and wakes the loop, and there the step is ended and the next one begun. So all calls of the
 * scheduler are made in the loop's thread, and there is nothing to lock but the hand-over of one batch.
 */
#ifndef SERVE_STEPPER_H
#define SERVE_STEPPER_H

#include <pthread.h>

#include "kvslab.h"
#include "runtime/loop/loop.h"

struct stepper_times { /* seconds; sums */
	double executor; /* from submission to completion */
	double between; /* from a completion to the next submission, where requests were running */
	uint64_t steps;
	double last; /* a step's, from submission to submission */
};

struct stepper {
	/* Set by the caller. */
	void (*after)(struct stepper *st); /* a step has ended, and the next one, if any, has begun */
	void *data;
	/* The stepper's. */
	struct kvslab_loop *loop;
	struct kvslab_sched *sched;
	struct kvslab_executor executor; /* what the scheduler sees */
	struct kvslab_executor *inner;
	struct loop_wake done;
	struct loop_timer retry;
	struct pool_ring *ring; /* the pool's events, and its commands on the loop's ring */
	uint64_t last_try; /* ns: when no request could run */
	uint64_t pause; /* ns: between that and the next try, even if the pool has an event */
	pthread_t thread;
	pthread_mutex_t lock; /* the next four */
	pthread_cond_t changed;
	bool busy; /* a batch is with the inner executor, or waits in ready */
	bool ready;
	bool ending;
	uint64_t finished; /* ns */
	struct kvslab_batch *batch;
	bool stepping; /* begun and not ended */
	bool stepped; /* for after(): times.last is of the step that has just ended */
	bool stalled; /* sched says that requests wait and none can run */
	uint64_t submitting, submitted; /* ns; of the step that runs; submitted is 0 where none ran before it */
	uint64_t ended; /* ns: when the executor had done the step before */
	struct stepper_times times;
};

/* @opts->executor runs the batches. What kvslab_sched_open says, or -EAGAIN: no thread. */
int stepper_open(struct stepper *st, struct kvslab_loop *loop, const struct kvslab_sched_opts *opts);
/* Requests were added or cancelled: step, if no step is running. */
void stepper_kick(struct stepper *st);
/* Cancels what is left. */
void stepper_close(struct stepper *st);

#endif
