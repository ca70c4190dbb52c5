// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * The loop on an io_uring. An operation's submission names it in user_data, so it must stay until its completion has
 * been taken from the ring: that is why a source is closed only when nothing of it is in flight.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "backend.h"

#define ENTRIES 256
#define BATCH 64 /* completions taken from the ring at once */
#define BATCHES 16 /* in a step at most */

struct completion {
	struct loop_op *op;
	int result;
	bool more;
};

struct uring {
	struct io_uring ring;
	/* Came off the ring while a command was awaited; [kept_at, n_kept) are to be delivered. */
	struct completion *kept;
	unsigned int n_kept, kept_at, room_kept;
	/* Found no room in the ring yet. */
	struct loop_op *later, **later_end;
	unsigned int starve, asked; /* for tests: each starve-th finds no room */
};

/* Multishot accept came with the same kernel as the opcode for sockets, which can be asked for. */
static int new_enough(struct io_uring *ring)
{
	struct io_uring_probe *p = io_uring_get_probe_ring(ring);
	int yes = p && io_uring_opcode_supported(p, IORING_OP_SOCKET);

	io_uring_free_probe(p);
	return yes ? 0 : -EOPNOTSUPP;
}

static int uring_open(struct kvslab_loop *loop, unsigned int entries)
{
	struct io_uring_params p = { .flags = IORING_SETUP_CLAMP };
	struct uring *u = calloc(1, sizeof(*u));
	int rc;

	if (!u)
		return -ENOMEM;
	u->later_end = &u->later;
	u->starve = entries;
	if (!entries) {
		entries = ENTRIES;
		p.flags |= IORING_SETUP_CQSIZE;
		p.cq_entries = 16 * ENTRIES;
	}
	rc = io_uring_queue_init_params(entries, &u->ring, &p);
	if (!rc) {
		rc = new_enough(&u->ring);
		if (rc)
			io_uring_queue_exit(&u->ring);
	}
	if (rc) {
		free(u);
		return rc;
	}
	u->room_kept = *u->ring.cq.kring_entries;
	u->kept = calloc(u->room_kept, sizeof(*u->kept));
	if (!u->kept) {
		io_uring_queue_exit(&u->ring);
		free(u);
		return -ENOMEM;
	}
	loop->state = u;
	return 0;
}

static void uring_close(struct kvslab_loop *loop)
{
	struct uring *u = loop->state;

	io_uring_queue_exit(&u->ring);
	free(u->kept);
	free(u);
}

static int uring_fd(const struct kvslab_loop *loop)
{
	return ((const struct uring *)loop->state)->ring.ring_fd;
}

/* What would block must wait in the ring instead of coming back. */
static int uring_attach(struct kvslab_loop *loop, struct loop_source *source, int fd)
{
	int flags = source->kind == LOOP_POLLED ? 0 : fcntl(fd, F_GETFL);

	(void)loop;
	if (flags < 0 || ((flags & O_NONBLOCK) && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK)))
		return -errno;
	return 0;
}

static struct loop_op *what_to_cancel(struct loop_source *source)
{
	return source->kind == LOOP_POLLED ? &((struct loop_poll *)source)->poll :
					     &((struct loop_listener *)source)->accept;
}

/* By hand: liburing got a call for it later. */
static void prep_command(struct io_uring_sqe *sqe, const struct loop_command *c)
{
	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, c->source.fd, NULL, 0, 0);
	sqe->cmd_op = c->cmd;
	memcpy(sqe->cmd, c->payload, sizeof(c->payload));
}

static bool submit(struct uring *u, struct loop_op *op)
{
	struct io_uring_sqe *sqe;
	int fd = op->source->fd;

	if (u->starve && u->asked++ % u->starve == 0)
		return false;
	sqe = io_uring_get_sqe(&u->ring);
	if (!sqe) {
		io_uring_submit(&u->ring);
		sqe = io_uring_get_sqe(&u->ring);
		if (!sqe)
			return false;
	}
	switch (op->kind) {
	case LOOP_RECV:
		io_uring_prep_recv(sqe, fd, op->buf, op->len, 0);
		break;
	case LOOP_SEND:
		io_uring_prep_send(sqe, fd, op->buf + op->done, op->len - op->done, MSG_NOSIGNAL);
		break;
	case LOOP_WATCH:
		io_uring_prep_poll_add(sqe, fd, POLLRDHUP);
		break;
	case LOOP_ACCEPT:
		io_uring_prep_multishot_accept(sqe, fd, NULL, NULL, SOCK_CLOEXEC);
		break;
	case LOOP_COUNT:
		io_uring_prep_read(sqe, fd, op->buf, (unsigned int)op->len, 0);
		break;
	case LOOP_CANCEL:
		io_uring_prep_cancel(sqe, what_to_cancel(op->source), 0);
		break;
	case LOOP_POLL:
		io_uring_prep_poll_multishot(sqe, fd, POLLIN);
		break;
	case LOOP_COMMAND:
		prep_command(sqe, (const struct loop_command *)op->source);
		break;
	}
	io_uring_sqe_set_data(sqe, op);
	return true;
}

static void submit_later(struct uring *u)
{
	struct loop_op *op;

	while ((op = u->later) && submit(u, op)) {
		u->later = op->next;
		if (!u->later)
			u->later_end = &u->later;
	}
}

static void uring_start(struct kvslab_loop *loop, struct loop_op *op)
{
	struct uring *u = loop->state;

	op->taken = false;
	if (!u->later && submit(u, op))
		return;
	op->next = NULL;
	*u->later_end = op;
	u->later_end = &op->next;
}

/* shutdown() has ended or will end all of them, but not an accept of a Unix socket. */
static void uring_stop(struct kvslab_loop *loop, struct loop_source *source)
{
	struct loop_listener *l = (struct loop_listener *)source;
	struct loop_poll *p = (struct loop_poll *)source;
	struct loop_op *cancel = NULL;

	if (source->kind == LOOP_LISTENER && l->accept.busy)
		cancel = &l->cancel;
	else if (source->kind == LOOP_POLLED && p->poll.busy)
		cancel = &p->cancel;
	if (!cancel)
		return;
	cancel->busy = true;
	uring_start(loop, cancel);
}

static int wait_for_one(struct uring *u, int timeout_ms)
{
	struct __kernel_timespec ts = { timeout_ms / 1000, (long long)(timeout_ms % 1000) * 1000000 };
	struct io_uring_cqe *cqe;
	int rc;

	/* With operations that found no room something must be on its way back, but it may come in this very call. */
	if (timeout_ms == 0 || u->later || u->n_kept || io_uring_cq_ready(&u->ring))
		rc = io_uring_submit(&u->ring);
	else if (timeout_ms < 0)
		rc = io_uring_submit_and_wait(&u->ring, 1);
	else
		rc = io_uring_submit_and_wait_timeout(&u->ring, &cqe, 1, &ts, NULL);
	if (rc == -ETIME || rc == -EINTR || rc == -EBUSY || rc == -EAGAIN)
		return 0; /* EBUSY: completions must be taken first */
	return rc < 0 ? rc : 0;
}

static struct completion completion_of(const struct io_uring_cqe *cqe)
{
	struct completion c = {
		.op = io_uring_cqe_get_data(cqe),
		.result = cqe->res,
		.more = cqe->flags & IORING_CQE_F_MORE,
	};

	c.op->taken = !c.more;
	return c;
}

/* What was kept is older than what is in the ring. */
static unsigned int take(struct uring *u, struct completion *done)
{
	struct io_uring_cqe *cqes[BATCH];
	unsigned int n, i;

	if (u->n_kept) {
		n = u->n_kept - u->kept_at < BATCH ? u->n_kept - u->kept_at : BATCH;
		memcpy(done, u->kept + u->kept_at, n * sizeof(*done));
		u->kept_at += n;
		if (u->kept_at == u->n_kept)
			u->kept_at = u->n_kept = 0;
		return n;
	}
	n = io_uring_peek_batch_cqe(&u->ring, cqes, BATCH);
	for (i = 0; i < n; i++)
		done[i] = completion_of(cqes[i]);
	io_uring_cq_advance(&u->ring, n);
	return n;
}

static int uring_wait(struct kvslab_loop *loop, int timeout_ms)
{
	struct uring *u = loop->state;
	struct completion done[BATCH];
	unsigned int n, i, round;
	int rc, total = 0;

	submit_later(u);
	rc = wait_for_one(u, timeout_ms);
	if (rc < 0)
		return rc;
	loop->now = loop_clock();
	for (round = 0; round < BATCHES; round++) {
		n = take(u, done);
		/* Callbacks start operations, for which there is room in the ring now. */
		for (i = 0; i < n; i++)
			loop_complete(loop, done[i].op, done[i].result, done[i].more);
		total += (int)n;
		if (n < BATCH && !u->n_kept)
			break;
	}
	return total;
}

static bool uring_flush(struct kvslab_loop *loop)
{
	struct uring *u = loop->state;

	submit_later(u);
	if (io_uring_sq_ready(&u->ring))
		io_uring_submit(&u->ring);
	return !u->later && !u->n_kept && !io_uring_sq_ready(&u->ring);
}

static bool keep(struct uring *u, struct completion c)
{
	struct completion *grown;
	unsigned int room;

	if (u->n_kept == u->room_kept) {
		room = 2 * u->room_kept;
		grown = realloc(u->kept, room * sizeof(*grown));
		if (!grown)
			return false;
		u->kept = grown;
		u->room_kept = room;
	}
	u->kept[u->n_kept++] = c;
	return true;
}

/* Everything comes off the ring, so that there is always room for what is awaited. There is place for as much as the ring
 * holds; more comes only if thousands of connections are made while one command runs. */
static void sort_out(struct kvslab_loop *loop, struct uring *u)
{
	struct io_uring_cqe *cqe;
	struct completion c;

	while (loop->awaited && !io_uring_peek_cqe(&u->ring, &cqe)) {
		c = completion_of(cqe);
		if (c.op->awaited && loop_awaited(loop, c.op, c.result)) {
			io_uring_cqe_seen(&u->ring, cqe);
			continue;
		}
		if (!keep(u, c))
			return;
		io_uring_cqe_seen(&u->ring, cqe);
	}
}

static void uring_await(struct kvslab_loop *loop)
{
	struct uring *u = loop->state;

	for (;;) {
		submit_later(u);
		sort_out(loop, u);
		if (!loop->awaited)
			return;
		/* What found no room is not on its way yet. */
		io_uring_submit_and_wait(&u->ring, u->later ? 0 : loop->awaited);
	}
}

const struct loop_backend loop_uring = {
	uring_open, uring_close, uring_fd, uring_attach, uring_start, uring_stop, uring_wait, uring_flush,
	uring_await,
};
