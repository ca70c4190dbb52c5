// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * The loop on epoll. An operation that is started is queued; the queue's are tried; one that would block is parked,
 * busy but not queued, until an edge of its descriptor queues it again. Everything is tried again rather than
 * remembered, so a spurious edge costs one system call and nothing else.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend.h"

#define EVENTS 128
#define ROUNDS 4 /* of the queue in a step; what is left comes in the next */
#define ACCEPTS 64 /* in a row */

struct epoll {
	int fd;
	struct loop_op *first, **end; /* the queue */
};

static int epoll_open(struct kvslab_loop *loop, unsigned int entries)
{
	struct epoll *e = calloc(1, sizeof(*e));
	int err;

	(void)entries;
	if (!e)
		return -ENOMEM;
	e->end = &e->first;
	e->fd = epoll_create1(EPOLL_CLOEXEC);
	if (e->fd < 0) {
		err = -errno;
		free(e);
		return err;
	}
	loop->state = e;
	return 0;
}

static void epoll_close(struct kvslab_loop *loop)
{
	struct epoll *e = loop->state;

	close(e->fd);
	free(e);
}

static int epoll_fd(const struct kvslab_loop *loop)
{
	return ((const struct epoll *)loop->state)->fd;
}

static int epoll_attach(struct kvslab_loop *loop, struct loop_source *source, int fd)
{
	struct epoll *e = loop->state;
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET, .data = { .ptr = source } };
	int flags;

	if (source->kind == LOOP_POLLED)
		return epoll_ctl(e->fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
	flags = fcntl(fd, F_GETFL);
	if (source->kind == LOOP_SOCK)
		ev.events |= EPOLLOUT | EPOLLRDHUP;
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) || epoll_ctl(e->fd, EPOLL_CTL_ADD, fd, &ev))
		return -errno;
	return 0;
}

static void queue(struct epoll *e, struct loop_op *op)
{
	if (!op->busy || op->queued)
		return;
	op->queued = true;
	op->next = NULL;
	*e->end = op;
	e->end = &op->next;
}

static void epoll_start(struct kvslab_loop *loop, struct loop_op *op)
{
	queue(loop->state, op);
}

static void queue_source(struct epoll *e, struct loop_source *source, uint32_t events)
{
	struct loop_sock *s = (struct loop_sock *)source;

	switch (source->kind) {
	case LOOP_SOCK:
		if (events & ~(uint32_t)EPOLLOUT) {
			queue(e, &s->recv);
			queue(e, &s->watch);
		}
		if (events & ~(uint32_t)(EPOLLIN | EPOLLRDHUP))
			queue(e, &s->send);
		break;
	case LOOP_LISTENER:
		queue(e, &((struct loop_listener *)source)->accept);
		break;
	case LOOP_COUNTER:
		queue(e, &((struct loop_count *)source)->op);
		break;
	case LOOP_POLLED:
		queue(e, &((struct loop_poll *)source)->poll);
		break;
	case LOOP_COMMANDED: /* io_uring's alone */
		break;
	}
}

/* When they are tried they end. */
static void epoll_stop(struct kvslab_loop *loop, struct loop_source *source)
{
	struct epoll *e = loop->state;

	if (source->kind == LOOP_POLLED)
		epoll_ctl(e->fd, EPOLL_CTL_DEL, source->fd, NULL); /* it is not closed by this */
	queue_source(loop->state, source, ~0u);
}

static void try_accept(struct kvslab_loop *loop, struct loop_op *op)
{
	int fd, i, err;

	for (i = 0; i < ACCEPTS; i++) {
		fd = accept4(op->source->fd, NULL, NULL, SOCK_CLOEXEC);
		err = errno;
		if (fd < 0 && err == EAGAIN)
			return;
		loop_complete(loop, op, fd < 0 ? -err : fd, fd >= 0);
		if (fd < 0 || op->queued)
			return; /* queued: it was closed, and ends there */
	}
	queue(loop->state, op);
}

static void try(struct kvslab_loop *loop, struct loop_op *op)
{
	struct pollfd p = { .fd = op->source->fd, .events = POLLRDHUP };
	ssize_t n = -1;

	if (op->source->closing) {
		loop_complete(loop, op, -ECANCELED, false);
		return;
	}
	switch (op->kind) {
	case LOOP_RECV:
		n = recv(p.fd, op->buf, op->len, MSG_DONTWAIT);
		break;
	case LOOP_SEND:
		n = send(p.fd, op->buf + op->done, op->len - op->done, MSG_DONTWAIT | MSG_NOSIGNAL);
		break;
	case LOOP_WATCH:
		n = poll(&p, 1, 0);
		if (!n)
			return;
		break;
	case LOOP_ACCEPT:
		try_accept(loop, op);
		return;
	case LOOP_COUNT:
		n = read(p.fd, op->buf, op->len);
		break;
	case LOOP_POLL:
		p.events = POLLIN;
		n = poll(&p, 1, 0);
		if (n > 0)
			loop_complete(loop, op, p.revents, true);
		return;
	case LOOP_CANCEL: /* io_uring's alone */
	case LOOP_COMMAND:
		break;
	}
	if (n < 0 && errno == EAGAIN)
		return;
	loop_complete(loop, op, n < 0 ? -errno : (int)n, false);
}

static int try_queued(struct kvslab_loop *loop, struct epoll *e)
{
	struct loop_op *op = e->first;
	int n = 0;

	e->first = NULL;
	e->end = &e->first;
	while (op) {
		struct loop_op *next = op->next;

		op->queued = false;
		try(loop, op);
		op = next;
		n++;
	}
	return n;
}

static int epoll_step(struct kvslab_loop *loop, int timeout_ms)
{
	struct epoll *e = loop->state;
	struct epoll_event ev[EVENTS];
	int n, i, round, total = 0;

	n = epoll_wait(e->fd, ev, EVENTS, e->first ? 0 : timeout_ms);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	loop->now = loop_clock();
	for (i = 0; i < n; i++)
		queue_source(e, ev[i].data.ptr, ev[i].events);
	for (round = 0; round < ROUNDS && e->first; round++)
		total += try_queued(loop, e);
	return total;
}

static bool epoll_flush(struct kvslab_loop *loop)
{
	return !((const struct epoll *)loop->state)->first;
}

const struct loop_backend loop_epoll = {
	epoll_open, epoll_close, epoll_fd, epoll_attach, epoll_start, epoll_stop, epoll_step, epoll_flush,
	NULL,
};
