// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Descriptors of others on the loop, and commands to drivers, on both back ends. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "runtime/loop/loop.h"
#include "tests/lib/tap.h"

static struct loop_poll *poll_of[8];
static int calls[8], close_in;

static void ready(void *data)
{
	int i = (int)(intptr_t)data;

	calls[i]++;
	if (close_in == i) {
		loop_poll_close(poll_of[i]);
		close_in = -1;
	}
}

static void steps(struct kvslab_loop *loop, int n)
{
	while (n--)
		kvslab_loop_step(loop, 1);
}

static void commanded(struct loop_command *c, int result)
{
	(void)c;
	calls[7] = result ? result : 1;
}

/* Several commands at once, while something else happens on the loop, too. */
static void several(struct kvslab_loop *loop, const char *name, int fd, int driver, int event)
{
	struct loop_command many[70], one = { .cmd = 1, .done = commanded };
	struct loop_command *at[70];
	int before = calls[0], i, bad = 0, rc;

	calls[7] = 0;
	eventfd_write(event, 1);
	for (i = 0; i < 70; i++) {
		memset(&many[i], 0, sizeof(many[i]));
		many[i].cmd = 1;
		many[i].result = 77;
		at[i] = &many[i];
	}
	rc = loop_commands(loop, at, 70, driver);
	for (i = 0; i < 70; i++)
		bad += (many[i].result && many[i].result != -EOPNOTSUPP) || many[i].result != many[0].result ||
		       many[i].op.busy;
	ok(!rc && !bad, "%s: 70 commands, and their results (%d wrong, first %d)", name, bad, many[0].result);
	ok(calls[0] == before, "%s: what else came is told in a step", name);
	rc = loop_command(loop, &one, fd);
	rc |= loop_commands(loop, at, 3, fd);
	bad = many[0].result >= 0 || many[1].result >= 0 || many[2].result >= 0 || many[3].result;
	ok(!rc && !bad && !calls[7], "%s: those of a driver that takes none fail (%d)", name, many[0].result);
	steps(loop, 3);
	ok(calls[0] == before + 1 && calls[7] < 0, "%s: and then all else is told (%d, %d)", name, calls[0] - before, calls[7]);
}

static void test(enum kvslab_loop_kind kind, const char *name, unsigned int entries)
{
	struct loop_command command = { .cmd = 1, .done = commanded };
	struct kvslab_loop *loop;
	int fd[3], pipe_fd[2], i, rc, null, driver;

	if (loop_open_small(&loop, kind, entries)) {
		ok(1, "%s: not here # SKIP", name);
		return;
	}
	memset(calls, 0, sizeof(calls));
	close_in = -1;
	for (i = 0; i < 3; i++) {
		fd[i] = eventfd(i == 1, EFD_NONBLOCK);
		rc = loop_poll_open(loop, &poll_of[i], fd[i], ready, (void *)(intptr_t)i);
		ok(!rc, "%s: a descriptor is polled (%d)", name, rc);
	}
	steps(loop, 3);
	ok(!calls[0] && calls[1] == 1 && !calls[2], "%s: what is ready at the beginning is told, once (%d)", name, calls[1]);
	eventfd_write(fd[0], 1);
	steps(loop, 3);
	ok(calls[0] == 1, "%s: what becomes ready is told (%d)", name, calls[0]);
	for (i = 0; i < 100; i++) {
		eventfd_t v;

		eventfd_read(fd[0], &v);
		eventfd_write(fd[0], 1);
		steps(loop, 2);
	}
	ok(calls[0] == 101, "%s: each time (%d)", name, calls[0]);
	close_in = 2;
	eventfd_write(fd[2], 1);
	steps(loop, 3);
	eventfd_write(fd[2], 1);
	steps(loop, 3);
	ok(calls[2] == 1, "%s: closed in its own call, not called again", name);
	loop_poll_close(poll_of[1]);
	eventfd_write(fd[1], 1);
	steps(loop, 3);
	ok(calls[1] == 1, "%s: closed from without, not called again", name);
	/* The same descriptor may come back. */
	rc = loop_poll_open(loop, &poll_of[1], fd[1], ready, (void *)(intptr_t)1);
	steps(loop, 3);
	ok(!rc && calls[1] == 2, "%s: polled once more", name);
	if (pipe(pipe_fd))
		return;
	rc = loop_poll_open(loop, &poll_of[3], pipe_fd[0], ready, (void *)(intptr_t)3);
	steps(loop, 2);
	close(pipe_fd[1]);
	steps(loop, 20);
	ok(!rc && calls[3] >= 1 && calls[3] < 3, "%s: hanging up is told, and not for ever (%d)", name, calls[3]);
	null = open("/proc/self/status", O_RDONLY);
	driver = open("/dev/null", O_RDWR);
	rc = loop_command(loop, &command, null);
	if (kind == KVSLAB_LOOP_URING) {
		steps(loop, 5);
		ok(!rc && calls[7] < 0, "%s: a driver that takes no commands says so (%d)", name, calls[7]);
		calls[7] = 0;
		rc = loop_command(loop, &command, null);
		ok(!rc && loop_command(loop, &command, null) == -EBUSY, "%s: one at a time", name);
		loop_command_await(&command);
		ok(!calls[7], "%s: waited for, but its call comes in a step", name);
		steps(loop, 3);
		ok(calls[7] < 0, "%s: and it does", name);
		loop_command_await(&command); /* nothing to wait for */
		several(loop, name, null, driver, fd[0]);
		calls[7] = 0;
		rc = loop_command(loop, &command, null);
	} else {
		ok(rc == -EOPNOTSUPP && loop_commands(loop, NULL, 0, null) == -EOPNOTSUPP, "%s: no commands", name);
	}
	for (i = 0; i < 4; i++)
		if (i != 2)
			loop_poll_close(poll_of[i]);
	kvslab_loop_close(loop);
	ok(kind != KVSLAB_LOOP_URING || calls[7] < 0, "%s: closing waits for commands", name);
	for (i = 0; i < 3; i++)
		close(fd[i]);
	close(pipe_fd[0]);
	close(null);
	close(driver);
}

int main(void)
{
	test(KVSLAB_LOOP_URING, "io_uring", 0);
	test(KVSLAB_LOOP_URING, "io_uring, full", 2);
	test(KVSLAB_LOOP_EPOLL, "epoll", 0);
	return done();
}
