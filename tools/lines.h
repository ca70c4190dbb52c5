/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * Lines of a descriptor, the wait for which a signal ends. A handler that only sets a flag is too late when the
 * signal comes between the look at the flag and the read; this one also writes into a pipe that the wait watches, and
 * so does not depend on which thread the signal met either.
 */
#ifndef KVSLAB_TOOLS_LINES_H
#define KVSLAB_TOOLS_LINES_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct lines {
	int fd; /* the caller's */
	volatile sig_atomic_t *stop; /* a handler's: not 0 ends the wait */
	int wake[2]; /* read, write */
	char *buf;
	size_t off, n, cap; /* of buf: where the next line begins, what is filled, what is there */
	bool end;
};

/* 0, -EMFILE or another error of pipe2(). */
int lines_init(struct lines *l, int fd, volatile sig_atomic_t *stop);
void lines_free(struct lines *l);

/* To be called by the handler after it set *stop. Keeps errno. */
void lines_wake(const struct lines *l);

/* The next line, without its newline and the carriage return before it; @line stands until the next call. Returns its
 * length; -ENODATA: there is no more; -EINTR: *stop is set, and what was read of a line is dropped; -ENOMEM, or the
 * error of read(). A last line without a newline is a line. */
ssize_t lines_next(struct lines *l, const char **line);

#endif
