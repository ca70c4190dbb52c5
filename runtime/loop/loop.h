/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * What runs on an event loop (kvslab_loop_* in kvslab.h): sockets, timers, wake-ups from other threads, descriptors that
 * are polled, and commands to drivers. One interface, two back ends: an io_uring, and epoll where that is refused.
 *
 * Threads: everything belongs to the thread that steps the loop, but loop_wake().
 *
 * Callbacks run inside kvslab_loop_step() alone, never inside the call that starts something. They may start, stop and
 * close anything, their own object included; they may not step or close the loop.
 *
 * Memory: the structures are the caller's, zeroed before they are opened, and so are buffers. While an operation is in
 * flight its buffer is the loop's. loop_sock_close() may be called in any state: what is in flight is then cancelled,
 * and structure and buffers stay the loop's until closed() is called, which is the last callback and the only one
 * after the call. The loop closes the descriptor just before it.
 */
#ifndef LOOP_LOOP_H
#define LOOP_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvslab.h"

enum loop_kind {
	LOOP_RECV,
	LOOP_SEND,
	LOOP_WATCH,
	LOOP_ACCEPT,
	LOOP_COUNT, /* an eventfd or a timerfd */
	LOOP_CANCEL, /* of an accept or a poll */
	LOOP_POLL,
	LOOP_COMMAND,
};

/* An operation, a part of what it works on. The loop's alone. */
struct loop_op {
	struct loop_op *next;
	struct loop_source *source;
	char *buf;
	size_t len, done;
	enum loop_kind kind;
	bool busy; /* in flight */
	bool queued; /* not yet with the kernel */
	bool taken; /* its completion is off the ring, its callback still to come */
	bool awaited; /* somebody sits in backend->await for it */
	bool quiet; /* a command without a callback: its result is all */
};

enum loop_source_kind {
	LOOP_SOCK,
	LOOP_LISTENER,
	LOOP_COUNTER,
	LOOP_POLLED,
	LOOP_COMMANDED,
};

/* What a descriptor is to the loop, the first member of the structures that have one. The loop's alone. */
struct loop_source {
	struct kvslab_loop *loop;
	struct loop_source *next; /* among those to be closed */
	int fd;
	enum loop_source_kind kind;
	bool closing;
	bool dropped; /* in the list of those to be closed */
};

/* A connected stream socket. At most one receive, one send and one watch are in flight. */
struct loop_sock {
	struct loop_source source;
	struct loop_op recv, send, watch;
	/* Set by the caller. */
	void (*received)(struct loop_sock *s, int n); /* bytes; 0: the peer sends no more; or a negative errno */
	void (*sent)(struct loop_sock *s, int n); /* all bytes, or a negative errno */
	void (*hung_up)(struct loop_sock *s); /* the peer sends no more, or the connection broke */
	void (*closed)(struct loop_sock *s);
};

/* Hand a connected socket over; on failure @fd stays the caller's. -EMFILE and the like. */
int loop_sock_open(struct kvslab_loop *loop, struct loop_sock *s, int fd);
/* All of these: -EBUSY: one is in flight; -EBADF: closing. */
int loop_recv(struct loop_sock *s, void *buf, size_t n);
int loop_send(struct loop_sock *s, const void *buf, size_t n); /* 1 .. INT_MAX bytes; sends them all */
int loop_watch(struct loop_sock *s); /* calls hung_up() once; reads nothing */
/* No more will be sent, the peer learns that; receiving goes on. No send may be in flight. */
int loop_sock_shutdown(struct loop_sock *s);
void loop_sock_close(struct loop_sock *s);

struct loop_timer {
	struct kvslab_loop *loop;
	uint64_t due; /* CLOCK_MONOTONIC, ns */
	void (*fired)(struct loop_timer *t); /* set by the caller */
	/* the loop's: a pairing heap */
	struct loop_timer *child, *next, **prev;
	bool set;
};

/* When the step that is running began, or now outside of one. CLOCK_MONOTONIC, ns. */
uint64_t loop_now(const struct kvslab_loop *loop);
/* Fires once at @due, never before it. Set again: moved. */
void loop_timer_set(struct kvslab_loop *loop, struct loop_timer *t, uint64_t due);
void loop_timer_stop(struct loop_timer *t); /* also when it is not set */

/* A listening socket. After an error (out of descriptors, say) it rests for a tenth of a second. */
struct loop_listener {
	struct loop_source source;
	struct loop_op accept, cancel;
	struct loop_timer rest;
	void *owner; /* the caller's, as are the next two */
	void (*accepted)(struct loop_listener *l, int fd); /* the caller's now; or a negative errno */
	void (*closed)(struct loop_listener *l);
};

int loop_listen(struct kvslab_loop *loop, struct loop_listener *l, int fd);
void loop_listener_close(struct loop_listener *l);

struct loop_wake {
	struct kvslab_loop *loop;
	struct loop_wake *next;
	void (*woken)(struct loop_wake *w); /* once for any number of wakes since the last call */
	bool pending; /* atomic */
};

void loop_wake_open(struct kvslab_loop *loop, struct loop_wake *w);
void loop_wake_close(struct loop_wake *w); /* nobody may wake it any more */
/* From any thread, and from a signal handler. */
void loop_wake(struct loop_wake *w);

/*
 * A descriptor that stays the caller's: @ready is called once for each time that it becomes readable (POLLIN), hangs up
 * or fails, and at the beginning if it is so already. It is not called again before something new happens.
 */
struct loop_poll;

/* What epoll_ctl(2) says, or -ENOMEM. */
int loop_poll_open(struct kvslab_loop *loop, struct loop_poll **poll, int fd, void (*ready)(void *data), void *data);
/* No call comes after it; the descriptor may be closed. */
void loop_poll_close(struct loop_poll *poll);

/*
 * A command for the driver behind a descriptor (IORING_OP_URING_CMD). The structure, and what the payload points to, is
 * the loop's until done() is called. The loop is closed only when that has happened, for which it waits.
 */
struct loop_command {
	struct loop_source source;
	struct loop_op op;
	/* Set by the caller. */
	uint32_t cmd;
	unsigned char payload[16];
	void (*done)(struct loop_command *c, int result);
	int result; /* what loop_commands() got */
};

/* -EOPNOTSUPP: this loop has no io_uring; -EBUSY: it is in flight. */
int loop_command(struct kvslab_loop *loop, struct loop_command *c, int fd);
/* Hand it to the kernel now, and wait until the driver is done with it. Its callback comes in its turn, later. */
void loop_command_await(struct loop_command *c);
/*
 * Hand several to the kernel at once, with everything else that waits to be submitted, and wait until all are done: one
 * system call, if nothing else comes in between. Their order is the kernel's affair. Each then has its result, and done()
 * is not called. All that they point to may be the caller's stack. -EOPNOTSUPP: this loop has no io_uring.
 */
int loop_commands(struct kvslab_loop *loop, struct loop_command *const *c, uint32_t n, int fd);

/* For tests: a ring of @entries, in which each entries-th submission finds no room at first (0: as usual). */
int loop_open_small(struct kvslab_loop **loop, enum kvslab_loop_kind kind, unsigned int entries);

#endif
