/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * One thread for what takes long and touches nothing of the loop: bodies into JSON, texts into tokens. Jobs are done in the
 * order in which they came; each ends with done() in the loop's thread, whatever became of whoever wanted it.
 */
#ifndef SERVE_PREP_H
#define SERVE_PREP_H

#include <pthread.h>

#include "runtime/loop/loop.h"

struct prep_job {
	struct prep_job *next;
	void (*run)(struct prep_job *job); /* in the thread */
	void (*done)(struct prep_job *job); /* in the loop's; the job is its own again */
};

struct prep {
	struct loop_wake wake;
	pthread_t thread;
	pthread_mutex_t lock; /* what follows; a leaf */
	pthread_cond_t changed;
	struct prep_job *first, **end; /* to be run */
	struct prep_job *ran, **ran_end;
	bool ending;
};

/* -EAGAIN: no thread. */
int prep_open(struct prep *p, struct kvslab_loop *loop);
void prep_add(struct prep *p, struct prep_job *job);
/* Runs what is left, and calls done() for it. */
void prep_close(struct prep *p);

#endif
