/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* Between loop.c, which knows what an operation means to its caller, and the two back ends, which carry it out. */
#ifndef LOOP_BACKEND_H
#define LOOP_BACKEND_H

#include "loop.h"

struct loop_backend {
	int (*open)(struct kvslab_loop *loop, unsigned int entries); /* sets loop->state */
	/* Nothing is in flight any more. */
	void (*close)(struct kvslab_loop *loop);
	int (*fd)(const struct kvslab_loop *loop);
	/* A descriptor becomes the loop's: set up what its operations need. */
	int (*attach)(struct kvslab_loop *loop, struct loop_source *source, int fd);
	/* Start an operation; ends in loop_complete(), from wait() alone. Never fails: what cannot go to the kernel now
	 * goes later. */
	void (*start)(struct kvslab_loop *loop, struct loop_op *op);
	/* The descriptor was shut down: let its operations, which will now find that out, come to an end. */
	void (*stop)(struct kvslab_loop *loop, struct loop_source *source);
	/* Submit, wait for at most timeout_ms if nothing is due, deliver. Returns the completions, or a negative errno. */
	int (*wait)(struct kvslab_loop *loop, int timeout_ms);
	/* Submit what callbacks have started. False: there is more to do at once. */
	bool (*flush)(struct kvslab_loop *loop);
	/* Submit, and wait until no command is awaited any more, without delivering anything: what comes meanwhile is
	 * kept for wait(). NULL: there are no commands. */
	void (*await)(struct kvslab_loop *loop);
};

extern const struct loop_backend loop_uring, loop_epoll;

/* An eventfd or a timerfd of the loop itself. */
struct loop_count {
	struct loop_source source;
	struct loop_op op;
	uint64_t value;
};

struct loop_poll {
	struct loop_source source;
	struct loop_op poll, cancel;
	void (*ready)(void *data); /* NULL: closed */
	void *data;
};

struct kvslab_loop {
	const struct loop_backend *backend;
	enum kvslab_loop_kind kind;
	void *state; /* the back end's */
	struct loop_count event, clock;
	struct loop_wake *wakes, *next_wake; /* next_wake: while their callbacks run */
	struct loop_timer *timers; /* the heap's top: due first */
	uint64_t armed; /* what the timerfd is set to; 0: nothing */
	uint64_t now;
	struct loop_source *closing; /* to be closed at the end of the step */
	uint32_t leaving; /* polls that are closed and not yet idle, and commands in flight */
	uint32_t awaited; /* commands */
	bool in_step;
	bool ending; /* kvslab_loop_close: counts are not read again */
};

/* CLOCK_MONOTONIC, ns; a back end puts it into loop->now when it has waited. */
uint64_t loop_clock(void);

/*
 * An operation came to its end with what its system call would have returned. @more: it goes on (an accept).
 * Calls callbacks.
 */
void loop_complete(struct kvslab_loop *loop, struct loop_op *op, int result, bool more);
/* A command that is awaited came to its end. True: that was all, else loop_complete() is still to come. */
bool loop_awaited(struct kvslab_loop *loop, struct loop_op *op, int result);

#endif
