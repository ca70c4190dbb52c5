// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include <stdint.h>
#include <string.h>
#include "chat_literal.h"
#include "utf8.h"

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* \xHH, \uHHHH, \UHHHHHHHH: the character, or false where the digits are not there. */
static bool number(const char *p, const char *end, size_t digits, uint32_t *cp)
{
	size_t i;

	*cp = 0;
	for (i = 0; i < digits; i++) {
		if (p + i == end || digit(p[i]) < 0)
			return false;
		*cp = *cp << 4 | (uint32_t)digit(p[i]);
	}
	return *cp < 0xd800 || (*cp > 0xdfff && *cp < 0x110000);
}

/* One escape, s->p behind its backslash. What is no escape stays as it is written. */
static size_t escape(struct chat_scan *s, char *out)
{
	static const char from[] = "ntrabfv\\'\"", to[] = "\n\t\r\a\b\f\v\\'\"";
	char c = s->p < s->end ? *s->p++ : '\\';
	const char *hit = memchr(from, c, sizeof(from) - 1);
	size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
	uint32_t cp;

	if (c == '\n')
		return 0;
	if (hit) {
		*out = to[hit - from];
		return 1;
	}
	if (digits && number(s->p, s->end, digits, &cp)) {
		s->p += digits;
		return utf8_encode(cp, (uint8_t *)out);
	}
	out[0] = '\\';
	out[1] = c;
	return 2;
}

/* A literal, s->p at its quote; appends to s->text[n..]. */
static size_t literal(struct chat_scan *s, size_t n)
{
	char quote = *s->p++;

	while (s->p < s->end && *s->p != quote) {
		if (*s->p == '\\') {
			s->p++;
			n += escape(s, s->text + n);
		} else {
			s->text[n++] = *s->p++;
		}
	}
	if (s->p < s->end)
		s->p++;
	return n;
}

static bool at(const struct chat_scan *s, char a, char b)
{
	return s->end - s->p >= 2 && s->p[0] == a && s->p[1] == b;
}

/* After a literal: true, and s->p at the next one's quote, if that is joined to it. */
static bool joined(struct chat_scan *s)
{
	const char *p = s->p;
	bool plus = false;

	for (; p < s->end && (strchr(" \t\r\n", *p) || (!plus && (*p == '+' || *p == '~'))) && *p;
	     p++)
		plus |= *p == '+' || *p == '~';
	if (!plus || p == s->end || (*p != '\'' && *p != '"'))
		return false;
	s->p = p;
	return true;
}

static bool next_inside(struct chat_scan *s, size_t *n)
{
	while (s->p < s->end) {
		if (at(s, s->inside == '{' ? '}' : '%', '}')) {
			s->p += 2;
			s->inside = 0;
			return false;
		}
		if (*s->p == '\'' || *s->p == '"') {
			*n = 0;
			do
				*n = literal(s, *n);
			while (joined(s));
			return true;
		}
		s->p++;
	}
	return false;
}

bool chat_next_text(struct chat_scan *s, size_t *n)
{
	*n = 0;
	while (s->p < s->end) {
		if (s->inside) {
			if (next_inside(s, n))
				return true;
		} else if (at(s, '{', '#')) {
			while (s->p < s->end && !at(s, '#', '}'))
				s->p++;
			s->p = s->p < s->end ? s->p + 2 : s->p;
		} else if (at(s, '{', '{') || at(s, '{', '%')) {
			s->inside = s->p[1];
			s->p += 2;
		} else {
			while (s->p < s->end && !at(s, '{', '{') && !at(s, '{', '%') &&
			       !at(s, '{', '#'))
				s->text[(*n)++] = *s->p++;
			return true;
		}
	}
	return false;
}
