// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "msg.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int out_error; /* the first failure of stdout, negative */

static void vmsg(const char *fmt, va_list ap)
{
	char text[2048];

	/* one write, so that lines of several processes do not mix */
	vsnprintf(text, sizeof(text), fmt, ap);
	fprintf(stderr, "kvslab: %s\n", text);
}

void msg(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vmsg(fmt, ap);
	va_end(ap);
}

void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vmsg(fmt, ap);
	va_end(ap);
	exit(1);
}

static int out_fail(int err)
{
	if (!out_error) {
		out_error = -err;
		msg("standard output cannot be written: %s; make room there or send the output elsewhere",
		    strerror(err));
	}
	return out_error;
}

int out_bytes(const void *s, size_t n)
{
	if (out_error)
		return out_error;
	errno = 0;
	if (fwrite(s, 1, n, stdout) != n || fflush(stdout))
		return out_fail(errno ? errno : EIO);
	return 0;
}

int out_text(const char *fmt, ...)
{
	va_list ap;
	char *s;
	int n, err;

	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	if (n < 0)
		return out_fail(ENOMEM);
	err = out_bytes(s, (size_t)n);
	free(s);
	return err;
}

int out_json(json_t *object)
{
	char *s = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
	int err;

	json_decref(object);
	if (!s)
		return out_fail(ENOMEM);
	err = out_text("%s\n", s);
	free(s);
	return err;
}

static void out_close(void)
{
	int failed = out_error;

	errno = 0;
	if (fclose(stdout) && !failed)
		failed = out_fail(errno ? errno : EIO);
	if (failed)
		_exit(1);
}

void out_init(void)
{
	atexit(out_close);
}

size_t utf8_char(const char *s, size_t n)
{
	const unsigned char *u = (const unsigned char *)s;
	unsigned char lo = 0x80, hi = 0xbf;
	size_t len, i;

	if (!n)
		return 0;
	if (u[0] < 0x80)
		return 1;
	if (u[0] < 0xc2 || u[0] > 0xf4)
		return 0;
	len = u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : 4;
	if (n < len)
		return 0;
	if (u[0] == 0xe0)
		lo = 0xa0; /* overlong */
	if (u[0] == 0xed)
		hi = 0x9f; /* surrogates */
	if (u[0] == 0xf0)
		lo = 0x90;
	if (u[0] == 0xf4)
		hi = 0x8f; /* beyond U+10FFFF */
	for (i = 1; i < len; i++, lo = 0x80, hi = 0xbf)
		if (u[i] < lo || u[i] > hi)
			return 0;
	return len;
}

json_t *json_bytes(const char *s, size_t n)
{
	char *t = malloc(3 * n + 1);
	size_t i, len, m = 0;
	json_t *j;

	if (!t)
		return NULL;
	for (i = 0; i < n; i += len) {
		len = utf8_char(s + i, n - i);
		if (len) {
			memcpy(t + m, s + i, len);
			m += len;
		} else {
			memcpy(t + m, "\xef\xbf\xbd", 3);
			m += 3;
			len = 1;
		}
	}
	j = json_stringn_nocheck(t, m);
	free(t);
	return j;
}

json_t *json_number(double x)
{
	return isfinite(x) ? json_real(x) : json_null();
}
