/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * Lines of a log: time, level, what happened, then name=value pairs. One write a line; where the log cannot take one without
 * waiting, it is dropped and counted, and the next that goes through says so.
 */
#ifndef SERVE_LOG_H
#define SERVE_LOG_H

#include "buf.h"
#include "kvslab.h"

struct app_log {
	int fd;
	const char *path; /* NULL: fd is not ours to reopen */
	enum kvslab_log_level level; /* lines of higher ones are left out */
	unsigned long dropped;
	struct buf line;
};

/* @path NULL: standard error. A negative errno. */
int log_open(struct app_log *log, const char *path, enum kvslab_log_level level);
void log_close(struct app_log *log);
/* The file may have been moved away: open it anew. A negative errno, and the old one stays. */
int log_reopen(struct app_log *log);

/* A line: begun (false: this level is left out), given pairs, ended. */
bool log_begin(struct app_log *log, enum kvslab_log_level level, const char *what);
void log_text(struct app_log *log, const char *name, const char *value); /* quoted where it must be */
__attribute__((format(printf, 3, 4))) void log_value(struct app_log *log, const char *name, const char *fmt, ...);
void log_end(struct app_log *log);

#endif
