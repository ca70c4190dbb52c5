// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* What operations mean, and the order of things in a step. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "backend.h"
#include "timer.h"

#define REST_NS 100000000u /* of a listener after an error */
#define TIMERS_A_STEP 4096

uint64_t loop_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t loop_now(const struct kvslab_loop *loop)
{
	return loop->in_step ? loop->now : loop_clock();
}

/* Makes loop_fd() readable. */
static void kick(struct kvslab_loop *loop)
{
	uint64_t one = 1;
	ssize_t n;

	do
		n = write(loop->event.source.fd, &one, sizeof(one));
	while (n < 0 && errno == EINTR);
	/* EAGAIN: the counter is full, so it is readable already */
}

static void start(struct kvslab_loop *loop, struct loop_op *op)
{
	op->busy = true;
	loop->backend->start(loop, op);
	if (!loop->in_step)
		kick(loop);
}

/* ---- the end of a source ---- */

static bool idle(const struct loop_source *source)
{
	const struct loop_sock *s;

	if (source->kind == LOOP_LISTENER)
		return !((const struct loop_listener *)source)->accept.busy &&
		       !((const struct loop_listener *)source)->cancel.busy;
	if (source->kind == LOOP_POLLED)
		return !((const struct loop_poll *)source)->poll.busy &&
		       !((const struct loop_poll *)source)->cancel.busy;
	s = (const struct loop_sock *)source;
	return !s->recv.busy && !s->send.busy && !s->watch.busy;
}

static void drop_if_idle(struct loop_source *source)
{
	struct kvslab_loop *loop = source->loop;

	if (source->dropped || !idle(source))
		return;
	source->dropped = true;
	source->next = loop->closing;
	loop->closing = source;
	if (!loop->in_step)
		kick(loop);
}

static void begin_close(struct loop_source *source)
{
	if (source->closing)
		return;
	source->closing = true;
	/* Whatever is in flight, in the kernel or still here, fails or ends by this. */
	if (source->kind != LOOP_POLLED)
		shutdown(source->fd, SHUT_RDWR);
	source->loop->backend->stop(source->loop, source);
	drop_if_idle(source);
}

static void close_dropped(struct kvslab_loop *loop)
{
	struct loop_source *source;
	struct loop_listener *l;
	struct loop_sock *s;

	while ((source = loop->closing)) {
		loop->closing = source->next;
		if (source->kind == LOOP_POLLED) {
			loop->leaving--;
			free(source);
			continue;
		}
		close(source->fd);
		source->fd = -1;
		if (source->kind == LOOP_LISTENER) {
			l = (struct loop_listener *)source;
			if (l->closed)
				l->closed(l);
		} else {
			s = (struct loop_sock *)source;
			if (s->closed)
				s->closed(s);
		}
	}
}

/* ---- sockets ---- */

static int attach(struct kvslab_loop *loop, struct loop_source *source, enum loop_source_kind kind, int fd)
{
	int rc;

	source->loop = loop;
	source->kind = kind;
	rc = loop->backend->attach(loop, source, fd);
	if (!rc)
		source->fd = fd;
	return rc;
}

static void op_init(struct loop_op *op, struct loop_source *source, enum loop_kind kind)
{
	memset(op, 0, sizeof(*op));
	op->source = source;
	op->kind = kind;
}

int loop_sock_open(struct kvslab_loop *loop, struct loop_sock *s, int fd)
{
	memset(&s->source, 0, sizeof(s->source));
	op_init(&s->recv, &s->source, LOOP_RECV);
	op_init(&s->send, &s->source, LOOP_SEND);
	op_init(&s->watch, &s->source, LOOP_WATCH);
	return attach(loop, &s->source, LOOP_SOCK, fd);
}

static int start_io(struct loop_sock *s, struct loop_op *op, const void *buf, size_t n)
{
	if (s->source.closing)
		return -EBADF;
	if (op->busy)
		return -EBUSY;
	op->buf = (char *)buf; /* a send only reads it */
	op->len = n;
	op->done = 0;
	start(s->source.loop, op);
	return 0;
}

int loop_recv(struct loop_sock *s, void *buf, size_t n)
{
	return n && n <= INT_MAX ? start_io(s, &s->recv, buf, n) : -EINVAL;
}

int loop_send(struct loop_sock *s, const void *buf, size_t n)
{
	return n && n <= INT_MAX ? start_io(s, &s->send, buf, n) : -EINVAL;
}

int loop_watch(struct loop_sock *s)
{
	return start_io(s, &s->watch, NULL, 0);
}

int loop_sock_shutdown(struct loop_sock *s)
{
	if (s->source.closing)
		return -EBADF;
	if (s->send.busy)
		return -EBUSY;
	return shutdown(s->source.fd, SHUT_WR) ? -errno : 0;
}

void loop_sock_close(struct loop_sock *s)
{
	begin_close(&s->source);
}

/* ---- listeners ---- */

static void rested(struct loop_timer *t)
{
	struct loop_listener *l = (struct loop_listener *)((char *)t - offsetof(struct loop_listener, rest));

	start(l->source.loop, &l->accept);
}

int loop_listen(struct kvslab_loop *loop, struct loop_listener *l, int fd)
{
	int rc;

	memset(&l->source, 0, sizeof(l->source));
	memset(&l->rest, 0, sizeof(l->rest));
	l->rest.fired = rested;
	op_init(&l->accept, &l->source, LOOP_ACCEPT);
	op_init(&l->cancel, &l->source, LOOP_CANCEL);
	rc = attach(loop, &l->source, LOOP_LISTENER, fd);
	if (!rc)
		start(loop, &l->accept);
	return rc;
}

void loop_listener_close(struct loop_listener *l)
{
	loop_timer_stop(&l->rest);
	begin_close(&l->source);
}

/* ---- descriptors of others, and commands ---- */

int loop_poll_open(struct kvslab_loop *loop, struct loop_poll **out, int fd, void (*ready)(void *data), void *data)
{
	struct loop_poll *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return -ENOMEM;
	op_init(&p->poll, &p->source, LOOP_POLL);
	op_init(&p->cancel, &p->source, LOOP_CANCEL);
	p->ready = ready;
	p->data = data;
	rc = attach(loop, &p->source, LOOP_POLLED, fd);
	if (rc) {
		free(p);
		return rc;
	}
	*out = p;
	start(loop, &p->poll);
	return 0;
}

void loop_poll_close(struct loop_poll *p)
{
	p->ready = NULL;
	p->source.loop->leaving++;
	begin_close(&p->source);
}

/* It ends by itself when the kernel runs out of memory for completions, and for good when nothing new can come. */
static void complete_poll(struct loop_poll *p, int result, bool more)
{
	bool last = result < 0 || (result & (POLLHUP | POLLERR | POLLNVAL));

	if (p->source.closing)
		return;
	if (!more && !last)
		start(p->source.loop, &p->poll);
	p->ready(p->data);
}

static void command_init(struct kvslab_loop *loop, struct loop_command *c, int fd)
{
	memset(&c->source, 0, sizeof(c->source));
	op_init(&c->op, &c->source, LOOP_COMMAND);
	c->source.loop = loop;
	c->source.kind = LOOP_COMMANDED;
	c->source.fd = fd;
	loop->leaving++;
}

int loop_command(struct kvslab_loop *loop, struct loop_command *c, int fd)
{
	if (loop->kind != KVSLAB_LOOP_URING)
		return -EOPNOTSUPP;
	if (c->op.busy)
		return -EBUSY;
	command_init(loop, c, fd);
	start(loop, &c->op);
	return 0;
}

void loop_command_await(struct loop_command *c)
{
	struct kvslab_loop *loop = c->source.loop;

	if (!c->op.busy || c->op.taken)
		return;
	c->op.awaited = true;
	loop->awaited++;
	loop->backend->await(loop);
	if (!loop->in_step)
		kick(loop);
}

int loop_commands(struct kvslab_loop *loop, struct loop_command *const *c, uint32_t n, int fd)
{
	uint32_t i;

	if (loop->kind != KVSLAB_LOOP_URING)
		return -EOPNOTSUPP;
	for (i = 0; i < n; i++) {
		command_init(loop, c[i], fd);
		c[i]->op.busy = c[i]->op.awaited = c[i]->op.quiet = true;
		loop->awaited++;
		loop->backend->start(loop, &c[i]->op);
	}
	loop->backend->await(loop);
	if (!loop->in_step)
		kick(loop); /* for what came meanwhile */
	return 0;
}

bool loop_awaited(struct kvslab_loop *loop, struct loop_op *op, int result)
{
	loop->awaited--;
	op->awaited = false;
	if (!op->quiet)
		return false;
	loop->leaving--;
	op->busy = false;
	((struct loop_command *)op->source)->result = result;
	return true;
}

/* ---- what came out of an operation ---- */

static bool transient(int result)
{
	return result == -EINTR || result == -EAGAIN;
}

static void complete_send(struct loop_sock *s, int result)
{
	struct loop_op *op = &s->send;

	if (result > 0) {
		op->done += (size_t)result;
		if (op->done < op->len) {
			start(s->source.loop, op);
			return;
		}
		result = (int)op->len;
	}
	s->sent(s, result ? result : -EPIPE);
}

static void complete_accept(struct loop_listener *l, int result, bool more)
{
	struct kvslab_loop *loop = l->source.loop;

	if (l->source.closing) {
		if (result >= 0)
			close(result);
		return;
	}
	if (transient(result) || result == -ECONNABORTED) {
		if (!more)
			start(loop, &l->accept);
		return;
	}
	l->accepted(l, result);
	if (more || l->source.closing)
		return;
	if (result < 0)
		loop_timer_set(loop, &l->rest, loop_clock() + REST_NS);
	else
		start(loop, &l->accept);
}

static void complete_count(struct kvslab_loop *loop, struct loop_op *op)
{
	struct loop_wake *w;

	if (loop->ending)
		return;
	start(loop, op);
	if (op == &loop->clock.op) {
		loop->armed = 0;
		return;
	}
	for (w = loop->wakes; w; w = loop->next_wake) {
		loop->next_wake = w->next;
		if (__atomic_exchange_n(&w->pending, false, __ATOMIC_ACQ_REL))
			w->woken(w);
	}
}

void loop_complete(struct kvslab_loop *loop, struct loop_op *op, int result, bool more)
{
	struct loop_source *source = op->source;
	struct loop_sock *s = (struct loop_sock *)source;

	op->busy = more;
	if (op->kind == LOOP_COUNT) {
		complete_count(loop, op);
		return;
	}
	if (op->kind == LOOP_COMMAND) {
		loop->leaving--;
		((struct loop_command *)source)->done((struct loop_command *)source, result);
		return;
	}
	if (op->kind == LOOP_POLL) {
		complete_poll((struct loop_poll *)source, result, more);
	} else if (op->kind == LOOP_ACCEPT) {
		complete_accept((struct loop_listener *)source, result, more);
	} else if (!source->closing && op->kind != LOOP_CANCEL) {
		if (transient(result))
			start(loop, op);
		else if (op->kind == LOOP_RECV)
			s->received(s, result);
		else if (op->kind == LOOP_SEND)
			complete_send(s, result);
		else
			s->hung_up(s);
	}
	if (source->closing)
		drop_if_idle(source);
}

/* ---- wake-ups ---- */

void loop_wake_open(struct kvslab_loop *loop, struct loop_wake *w)
{
	w->loop = loop;
	w->pending = false;
	w->next = loop->wakes;
	loop->wakes = w;
}

void loop_wake_close(struct loop_wake *w)
{
	struct loop_wake **at;

	for (at = &w->loop->wakes; *at != w; at = &(*at)->next)
		;
	*at = w->next;
	if (w->loop->next_wake == w)
		w->loop->next_wake = w->next;
}

void loop_wake(struct loop_wake *w)
{
	int saved = errno;

	/* Who finds it pending relies on the write of who set it: the flag is cleared only after the count was read. */
	if (!__atomic_exchange_n(&w->pending, true, __ATOMIC_ACQ_REL))
		kick(w->loop);
	errno = saved;
}

/* ---- timers ---- */

static void arm(struct kvslab_loop *loop)
{
	struct itimerspec at = { { 0, 0 }, { 0, 0 } };
	uint64_t due;

	if (!loop->timers)
		return;
	due = loop->timers->due ? loop->timers->due : 1; /* 0 would disarm it */
	if (loop->armed && loop->armed <= due)
		return; /* it comes early and arms again */
	at.it_value.tv_sec = (time_t)(due / 1000000000u);
	at.it_value.tv_nsec = (long)(due % 1000000000u);
	if (!timerfd_settime(loop->clock.source.fd, TFD_TIMER_ABSTIME, &at, NULL))
		loop->armed = due;
}

void loop_timer_set(struct kvslab_loop *loop, struct loop_timer *t, uint64_t due)
{
	loop_timer_stop(t);
	t->loop = loop;
	t->due = due;
	timers_insert(&loop->timers, t);
	if (!loop->in_step)
		arm(loop);
}

void loop_timer_stop(struct loop_timer *t)
{
	if (t->set)
		timers_remove(t);
}

/* At most so many that a callback which sets a timer to a time that has passed cannot hold a step up for ever. */
static int run_timers(struct kvslab_loop *loop)
{
	struct loop_timer *t;
	int n;

	for (n = 0; n < TIMERS_A_STEP && (t = loop->timers) && t->due <= loop->now; n++) {
		timers_remove(t);
		t->fired(t);
	}
	return n;
}

/* ---- the loop ---- */

int kvslab_loop_step(struct kvslab_loop *loop, int timeout_ms)
{
	int n;

	if (loop->in_step)
		return -EBUSY;
	loop->in_step = true;
	n = loop->backend->wait(loop, timeout_ms);
	loop->now = loop_clock();
	if (n >= 0)
		n += run_timers(loop);
	close_dropped(loop);
	arm(loop);
	if (!loop->backend->flush(loop))
		kick(loop);
	loop->in_step = false;
	return n;
}

int kvslab_loop_fd(const struct kvslab_loop *loop)
{
	return loop->backend->fd(loop);
}

enum kvslab_loop_kind kvslab_loop_kind(const struct kvslab_loop *loop)
{
	return loop->kind;
}

static int count_open(struct kvslab_loop *loop, struct loop_count *c, int fd)
{
	int rc;

	if (fd < 0)
		return -errno;
	op_init(&c->op, &c->source, LOOP_COUNT);
	c->op.buf = (char *)&c->value;
	c->op.len = sizeof(c->value);
	c->source.fd = -1;
	rc = attach(loop, &c->source, LOOP_COUNTER, fd);
	if (rc) {
		close(fd);
		return rc;
	}
	c->op.busy = true;
	loop->backend->start(loop, &c->op);
	return 0;
}

/* The two reads that are always in flight must be over before their memory goes. */
static void counts_close(struct kvslab_loop *loop)
{
	struct itimerspec soon = { { 0, 0 }, { 0, 1 } };

	loop->ending = true;
	if (loop->event.op.busy)
		kick(loop);
	if (loop->clock.op.busy)
		timerfd_settime(loop->clock.source.fd, 0, &soon, NULL);
	loop->in_step = true;
	close_dropped(loop);
	while (loop->event.op.busy || loop->clock.op.busy || loop->leaving) {
		if (loop->backend->wait(loop, -1) < 0)
			break;
		close_dropped(loop);
	}
	if (loop->event.source.fd >= 0)
		close(loop->event.source.fd);
	if (loop->clock.source.fd >= 0)
		close(loop->clock.source.fd);
}

static int open_one(struct kvslab_loop **out, enum kvslab_loop_kind kind, unsigned int entries)
{
	struct kvslab_loop *loop = calloc(1, sizeof(*loop));
	int rc;

	if (!loop)
		return -ENOMEM;
	loop->kind = kind;
	loop->backend = kind == KVSLAB_LOOP_URING ? &loop_uring : &loop_epoll;
	loop->event.source.fd = loop->clock.source.fd = -1;
	rc = loop->backend->open(loop, entries);
	if (rc) {
		free(loop);
		return rc;
	}
	rc = count_open(loop, &loop->event, eventfd(0, EFD_CLOEXEC));
	if (!rc)
		rc = count_open(loop, &loop->clock, timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
	if (rc) {
		kvslab_loop_close(loop);
		return rc;
	}
	loop->backend->flush(loop);
	*out = loop;
	return 0;
}

int loop_open_small(struct kvslab_loop **loop, enum kvslab_loop_kind kind, unsigned int entries)
{
	int rc = -EINVAL;

	if (kind == KVSLAB_LOOP_AUTO || kind == KVSLAB_LOOP_URING)
		rc = open_one(loop, KVSLAB_LOOP_URING, entries);
	if (kind == KVSLAB_LOOP_EPOLL || (kind == KVSLAB_LOOP_AUTO && rc))
		rc = open_one(loop, KVSLAB_LOOP_EPOLL, entries);
	return rc;
}

int kvslab_loop_open(struct kvslab_loop **loop, enum kvslab_loop_kind kind)
{
	return loop ? loop_open_small(loop, kind, 0) : -EINVAL;
}

void kvslab_loop_close(struct kvslab_loop *loop)
{
	if (!loop)
		return;
	counts_close(loop);
	loop->backend->close(loop);
	free(loop);
}
