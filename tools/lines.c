// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lines.h"

int lines_init(struct lines *l, int fd, volatile sig_atomic_t *stop)
{
	*l = (struct lines){ .fd = fd, .stop = stop, .wake = { -1, -1 } };
	return pipe2(l->wake, O_CLOEXEC | O_NONBLOCK) ? -errno : 0;
}

void lines_free(struct lines *l)
{
	int to = l->wake[1];

	free(l->buf);
	l->wake[1] = -1; /* first: a handler may still come */
	if (to >= 0)
		close(to);
	if (l->wake[0] >= 0)
		close(l->wake[0]);
}

void lines_wake(const struct lines *l)
{
	int kept = errno;
	ssize_t n = write(l->wake[1], "", 1);

	(void)n; /* a full pipe wakes as well */
	errno = kept;
}

/* Until there is something to read. The pipe is emptied before the flag is looked at: a byte may be of a signal that
 * was answered elsewhere, and one that comes later leaves a byte of its own. */
static int wait_for(struct lines *l)
{
	struct pollfd p[] = { { .fd = l->fd, .events = POLLIN }, { .fd = l->wake[0], .events = POLLIN } };
	char drained[64];

	for (;;) {
		while (read(l->wake[0], drained, sizeof(drained)) > 0)
			;
		if (*l->stop)
			return -EINTR;
		p[0].revents = p[1].revents = 0;
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return -errno;
		if (p[0].revents && !*l->stop)
			return 0;
	}
}

static int fill(struct lines *l)
{
	size_t cap = l->cap ? 2 * l->cap : 4096;
	ssize_t got;
	char *p;
	int err;

	if (l->off) {
		memmove(l->buf, l->buf + l->off, l->n - l->off);
		l->n -= l->off;
		l->off = 0;
	}
	if (l->n == l->cap) {
		p = realloc(l->buf, cap);
		if (!p)
			return -ENOMEM;
		l->buf = p;
		l->cap = cap;
	}
	do {
		err = wait_for(l);
		if (err)
			return err;
		got = read(l->fd, l->buf + l->n, l->cap - l->n);
	} while (got < 0 && (errno == EINTR || errno == EAGAIN));
	if (got < 0)
		return -errno;
	l->n += (size_t)got;
	l->end = !got;
	return 0;
}

ssize_t lines_next(struct lines *l, const char **line)
{
	size_t seen = 0, length;
	char *newline = NULL;
	int err;

	for (;;) {
		if (l->n - l->off > seen)
			newline = memchr(l->buf + l->off + seen, '\n', l->n - l->off - seen);
		if (newline || l->end)
			break;
		seen = l->n - l->off;
		err = fill(l);
		if (err) {
			if (err == -EINTR)
				l->n = l->off = 0;
			return err;
		}
	}
	if (l->n == l->off)
		return -ENODATA;
	*line = l->buf + l->off;
	length = newline ? (size_t)(newline - *line) : l->n - l->off;
	l->off += length + !!newline;
	if (length && (*line)[length - 1] == '\r')
		length--;
	return (ssize_t)length;
}
