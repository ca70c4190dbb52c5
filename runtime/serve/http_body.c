// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "http_body.h"

#include <limits.h>
#include <string.h>

#define LINE_MAX_BYTES 256 /* of a chunk's size and extensions */
#define TRAILER_MAX 4096

enum {
	DONE,
	PLAIN,
	SIZE, /* hexadecimal digits */
	EXTENSION, /* what follows them is passed over */
	SIZE_LF,
	DATA,
	DATA_CR,
	DATA_LF,
	TRAILER, /* at a line's start */
	TRAILER_LINE,
	TRAILER_LF,
	END_LF,
};

static const char too_long[] = "the body is longer than this server takes";
static const char malformed[] = "the body's chunks are malformed";

int http_body_init(struct http_body *b, const struct http_head *h, uint64_t limit)
{
	memset(b, 0, sizeof(*b));
	b->limit = limit;
	if (h->chunked) {
		b->state = SIZE;
	} else if (h->has_length && h->length) {
		if (h->length > limit)
			return -413;
		b->left = h->length;
		b->state = PLAIN;
	}
	return 0;
}

bool http_body_done(const struct http_body *b)
{
	return b->state == DONE;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* One byte that is not data. 0, or a negative status. */
static int step(struct http_body *b, char c, const char **why)
{
	int d;

	*why = malformed;
	if ((unsigned char)c < 0x20 && c != '\r' && c != '\n' && c != '\t')
		return -400;
	switch (b->state) {
	case SIZE:
		d = digit(c);
		if (d >= 0) {
			if (++b->digits > 15)
				return -400;
			b->left = b->left << 4 | (uint64_t)d;
			return 0;
		}
		if (!b->digits || (c != '\r' && c != ';'))
			return -400;
		b->line = 0;
		b->state = c == ';' ? EXTENSION : SIZE_LF;
		return 0;
	case EXTENSION:
		if (c == '\n' || ++b->line > LINE_MAX_BYTES)
			return -400;
		if (c == '\r')
			b->state = SIZE_LF;
		return 0;
	case SIZE_LF:
		if (c != '\n')
			return -400;
		if (b->left > b->limit) {
			*why = too_long;
			return -413;
		}
		b->limit -= b->left;
		b->digits = 0;
		b->state = b->left ? DATA : TRAILER;
		return 0;
	case DATA_CR:
		b->state = DATA_LF;
		return c == '\r' ? 0 : -400;
	case DATA_LF:
		b->state = SIZE;
		return c == '\n' ? 0 : -400;
	case TRAILER:
		b->state = c == '\r' ? END_LF : TRAILER_LINE;
		return c == '\n' || ++b->trailer > TRAILER_MAX ? -400 : 0;
	case TRAILER_LINE:
		if (c == '\r')
			b->state = TRAILER_LF;
		return c == '\n' || ++b->trailer > TRAILER_MAX ? -400 : 0;
	case TRAILER_LF:
		b->state = TRAILER;
		return c == '\n' ? 0 : -400;
	default: /* END_LF */
		b->state = DONE;
		return c == '\n' ? 0 : -400;
	}
}

long http_body_take(struct http_body *b, const char *s, size_t n, struct buf *out, const char **why)
{
	size_t i = 0, k;
	int rc;

	if (n > LONG_MAX)
		n = LONG_MAX;
	while (i < n && b->state != DONE) {
		if (b->state == PLAIN || b->state == DATA) {
			k = n - i < b->left ? n - i : (size_t)b->left;
			buf_add(out, s + i, k);
			i += k;
			b->left -= k;
			if (!b->left)
				b->state = b->state == PLAIN ? DONE : DATA_CR;
			continue;
		}
		rc = step(b, s[i], why);
		if (rc)
			return rc;
		i++;
	}
	return (long)i;
}
