// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int open_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0640);

	return fd < 0 ? -errno : fd;
}

int log_open(struct app_log *log, const char *path, enum kvslab_log_level level)
{
	int fd = path ? open_file(path) : STDERR_FILENO;

	memset(log, 0, sizeof(*log));
	if (fd < 0)
		return fd;
	log->fd = fd;
	log->path = path;
	log->level = level;
	return 0;
}

void log_close(struct app_log *log)
{
	if (log->path)
		close(log->fd);
	buf_free(&log->line);
	memset(log, 0, sizeof(*log));
	log->fd = STDERR_FILENO;
}

int log_reopen(struct app_log *log)
{
	int fd = log->path ? open_file(log->path) : log->fd;

	if (fd < 0)
		return fd;
	if (log->path)
		close(log->fd);
	log->fd = fd;
	return 0;
}

bool log_begin(struct app_log *log, enum kvslab_log_level level, const char *what)
{
	static const char *const names[] = { "error", "warning", "info", "debug" };
	struct timespec now;
	struct tm tm;
	char at[32];

	if (level > log->level)
		return false;
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(at, sizeof(at), "%Y-%m-%dT%H:%M:%S", &tm);
	log->line.n = 0;
	buf_print(&log->line, "time=%s.%03ldZ level=%s", at, now.tv_nsec / 1000000, names[level]);
	log_text(log, "msg", what);
	return true;
}

void log_text(struct app_log *log, const char *name, const char *value)
{
	const char *s;

	for (s = value; *s > ' ' && *s < 0x7f && *s != '"' && *s != '=' && *s != '\\'; s++)
		;
	buf_print(&log->line, " %s=", name);
	if (*s || s == value)
		buf_json(&log->line, value, strlen(value));
	else
		buf_text(&log->line, value);
}

void log_value(struct app_log *log, const char *name, const char *fmt, ...)
{
	char value[128];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(value, sizeof(value), fmt, ap);
	va_end(ap);
	log_text(log, name, value);
}

void log_end(struct app_log *log)
{
	struct buf *b = &log->line;
	ssize_t n;

	if (log->dropped)
		log_value(log, "lines_dropped", "%lu", log->dropped);
	buf_text(b, "\n");
	n = b->failed ? -1 : write(log->fd, b->b, b->n);
	if (n == (ssize_t)b->n)
		log->dropped = 0;
	else
		log->dropped++;
	if (b->failed || b->cap > 65536)
		buf_free(b);
}
