// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "buf.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/model/utf8.h"

char *buf_room(struct buf *b, size_t more)
{
	size_t cap = b->cap ? b->cap : 256;
	char *s;

	if (b->failed || more > SIZE_MAX / 4 || b->n > SIZE_MAX / 4) {
		b->failed = true;
		return NULL;
	}
	while (cap < b->n + more)
		cap *= 2;
	if (cap != b->cap) {
		s = realloc(b->b, cap);
		if (!s) {
			b->failed = true;
			return NULL;
		}
		b->b = s;
		b->cap = cap;
	}
	return b->b + b->n;
}

void buf_add(struct buf *b, const void *s, size_t n)
{
	char *to = n ? buf_room(b, n) : NULL;

	if (!to)
		return;
	memcpy(to, s, n);
	b->n += n;
}

void buf_text(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_print(struct buf *b, const char *fmt, ...)
{
	char *to = buf_room(b, 128);
	size_t room;
	va_list ap;
	int n;

	if (!to)
		return;
	room = b->cap - b->n;
	va_start(ap, fmt);
	n = vsnprintf(to, room, fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n >= room) {
		room = (size_t)n + 1;
		to = buf_room(b, room);
		if (!to)
			return;
		va_start(ap, fmt);
		n = vsnprintf(to, room, fmt, ap);
		va_end(ap);
	}
	if (n < 0)
		b->failed = true;
	else
		b->n += (size_t)n;
}

/* Characters from @s that stand for themselves in a JSON string, and are UTF-8. */
static size_t plain(const uint8_t *s, size_t n)
{
	uint32_t cp;
	size_t i, len;

	for (i = 0; i < n; i += len) {
		if (s[i] < 0x20 || s[i] == '"' || s[i] == '\\')
			break;
		len = s[i] < 0x80 ? 1 : utf8_decode(s + i, n - i, &cp);
		if (!len)
			break;
	}
	return i;
}

void buf_json(struct buf *b, const char *text, size_t n)
{
	static const char shorts[] = "btn?fr"; /* 8 to 13 */
	const uint8_t *s = (const uint8_t *)text;
	size_t i = 0, len;

	buf_add(b, "\"", 1);
	while (i < n) {
		len = plain(s + i, n - i);
		buf_add(b, s + i, len);
		i += len;
		if (i == n)
			break;
		if (s[i] >= 0x80)
			buf_add(b, "\xef\xbf\xbd", 3);
		else if (s[i] == '"' || s[i] == '\\')
			buf_print(b, "\\%c", s[i]);
		else if (s[i] >= 8 && s[i] <= 13 && s[i] != 11)
			buf_print(b, "\\%c", shorts[s[i] - 8]);
		else
			buf_print(b, "\\u%04x", s[i]);
		i++;
	}
	buf_add(b, "\"", 1);
}

void buf_number(struct buf *b, double x)
{
	char text[40];

	if (!isfinite(x)) {
		buf_text(b, "null");
		return;
	}
	snprintf(text, sizeof(text), "%.15g", x);
	if (strtod(text, NULL) != x)
		snprintf(text, sizeof(text), "%.17g", x);
	buf_text(b, text);
}

void buf_float(struct buf *b, float x)
{
	char text[24];

	if (!isfinite(x)) {
		buf_text(b, "null");
		return;
	}
	snprintf(text, sizeof(text), "%.6g", (double)x);
	if (strtof(text, NULL) != x)
		snprintf(text, sizeof(text), "%.9g", (double)x);
	buf_text(b, text);
}

void buf_drop(struct buf *b, size_t n)
{
	if (n >= b->n) {
		b->n = 0;
		return;
	}
	memmove(b->b, b->b + n, b->n - n);
	b->n -= n;
}

void buf_free(struct buf *b)
{
	free(b->b);
	memset(b, 0, sizeof(*b));
}
