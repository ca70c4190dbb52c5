// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "http_scan.h"

#include <stdbool.h>
#include <string.h>

enum {
	START, /* one empty line before a request is forgiven */
	START_LF,
	METHOD,
	TARGET,
	VERSION,
	LINE_LF, /* the line feed of a line that is not empty */
	FIELD,
	NAME,
	VALUE,
	END_LF,
	DONE,
};

static bool is_token(uint8_t c)
{
	if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
		return true;
	return c && c < 0x80 && strchr("!#$%&'*+-.^_`|~", c);
}

static int refuse(const char **why, int status, const char *text)
{
	*why = text;
	return -status;
}

static int version(const char *s, const char **why)
{
	if (memcmp(s, "HTTP/", 5) || s[5] < '0' || s[5] > '9' || s[6] != '.' || s[7] < '0' || s[7] > '9')
		return refuse(why, 400, "the request line does not end in HTTP/1.1");
	if (s[5] != '1' || s[7] > '1')
		return refuse(why, 505, "this server speaks HTTP/1.1 and HTTP/1.0");
	return 0;
}

/* One byte of the request line or of a field. 0, or a refusal. */
static int step(struct http_scan *scan, const char *s, const char **why)
{
	size_t at = scan->at;
	uint8_t c = (uint8_t)s[at];
	int rc;

	switch (scan->state) {
	case START:
		if (c == '\r' && at == 0) {
			scan->state = START_LF;
			return 0;
		}
		scan->state = METHOD;
		scan->mark = at;
		/* fall through */
	case METHOD:
		if (c == ' ' && at > scan->mark) {
			scan->state = TARGET;
			scan->mark = at + 1;
		} else if (!is_token(c) || at - scan->mark >= HTTP_METHOD_MAX) {
			return refuse(why, 400, "the request does not begin with a method");
		}
		return 0;
	case START_LF:
		if (c != '\n')
			return refuse(why, 400, "a carriage return stands alone");
		scan->state = START;
		return 0;
	case TARGET:
		if (c == ' ' && at > scan->mark) {
			scan->state = VERSION;
			scan->mark = at + 1;
		} else if (c <= 0x20 || c >= 0x7f) {
			return refuse(why, 400, "the request's target has a byte that is not allowed there");
		} else if (at - scan->mark >= HTTP_TARGET_MAX) {
			return refuse(why, 414, "the request's target is longer than 8192 bytes");
		}
		return 0;
	case VERSION:
		if (at - scan->mark < 8)
			return c > 0x20 ? 0 : refuse(why, 400, "the request line does not end in HTTP/1.1");
		if (c != '\r')
			return refuse(why, 400, "the request line does not end in HTTP/1.1");
		rc = version(s + scan->mark, why);
		scan->state = LINE_LF;
		return rc;
	case LINE_LF:
		if (c != '\n')
			return refuse(why, 400, "a carriage return stands alone");
		scan->state = FIELD;
		return 0;
	case FIELD:
		if (c == '\r') {
			scan->state = END_LF;
			return 0;
		}
		if (c == ' ' || c == '\t')
			return refuse(why, 400, "a header line begins with space; folded lines are not allowed");
		if (++scan->n_fields > HTTP_FIELDS_MAX)
			return refuse(why, 431, "the request has more than 64 header lines");
		scan->state = NAME;
		scan->mark = at;
		/* fall through */
	case NAME:
		if (c == ':' && at > scan->mark)
			scan->state = VALUE;
		else if (!is_token(c))
			return refuse(why, 400, "a header's name has a byte that is not allowed there");
		return 0;
	case VALUE:
		if (c == '\r')
			scan->state = LINE_LF;
		else if ((c < 0x20 && c != '\t') || c == 0x7f)
			return refuse(why, 400, "a header's value has a byte that is not allowed there");
		return 0;
	default: /* END_LF */
		if (c != '\n')
			return refuse(why, 400, "a carriage return stands alone");
		scan->state = DONE;
		return 0;
	}
}

int http_scan(struct http_scan *scan, const char *s, size_t n, const char **why)
{
	int rc;

	for (; scan->at < n; scan->at++) {
		if (scan->at >= HTTP_HEAD_MAX)
			return refuse(why, 431, "the request's head is longer than 16384 bytes");
		rc = step(scan, s, why);
		if (rc)
			return rc;
		if (scan->state == DONE)
			return (int)++scan->at;
	}
	return 0;
}
