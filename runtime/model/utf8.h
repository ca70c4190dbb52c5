/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* UTF-8 by the Unicode Standard's table of well-formed byte sequences: no overlong forms, no
 * surrogates. */
#ifndef MODEL_UTF8_H
#define MODEL_UTF8_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* How many bytes a character that begins with @b has; 0: none begins with it. */
static inline size_t utf8_length(uint8_t b)
{
	if (b < 0x80)
		return 1;
	if (b < 0xc2 || b > 0xf4)
		return 0;
	return b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
}

/* Whether @b may be the second byte after @first; the others are 80..bf. */
static inline int utf8_second(uint8_t first, uint8_t b)
{
	uint8_t lo = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
	uint8_t hi = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;

	return b >= lo && b <= hi;
}

/*
 * How many of the first bytes of p[0..n) are those of a well-formed character, which is whole when
 * that equals utf8_length(p[0]). 0: p[0] begins none.
 */
static inline size_t utf8_prefix(const uint8_t *p, size_t n)
{
	size_t len = n ? utf8_length(p[0]) : 0, i;

	if (len < 2 || n < 2)
		return len ? 1 : 0;
	if (!utf8_second(p[0], p[1]))
		return 1;
	for (i = 2; i < len && i < n && (p[i] & 0xc0) == 0x80; i++)
		;
	return i;
}

/* The character at p[0..n): returns its bytes, or 0 where there is no whole well-formed one. */
static inline size_t utf8_decode(const uint8_t *p, size_t n, uint32_t *cp)
{
	size_t len = utf8_prefix(p, n), i;

	if (!len || len != utf8_length(p[0]))
		return 0;
	*cp = len == 1 ? p[0] : p[0] & (0x7f >> len);
	for (i = 1; i < len; i++)
		*cp = *cp << 6 | (p[i] & 0x3f);
	return len;
}

/* Writes @cp, at most 4 bytes; returns how many. */
static inline size_t utf8_encode(uint32_t cp, uint8_t *p)
{
	if (cp < 0x80) {
		p[0] = (uint8_t)cp;
		return 1;
	}
	if (cp < 0x800) {
		p[0] = (uint8_t)(0xc0 | cp >> 6);
		p[1] = (uint8_t)(0x80 | (cp & 0x3f));
		return 2;
	}
	if (cp < 0x10000) {
		p[0] = (uint8_t)(0xe0 | cp >> 12);
		p[1] = (uint8_t)(0x80 | (cp >> 6 & 0x3f));
		p[2] = (uint8_t)(0x80 | (cp & 0x3f));
		return 3;
	}
	p[0] = (uint8_t)(0xf0 | cp >> 18);
	p[1] = (uint8_t)(0x80 | (cp >> 12 & 0x3f));
	p[2] = (uint8_t)(0x80 | (cp >> 6 & 0x3f));
	p[3] = (uint8_t)(0x80 | (cp & 0x3f));
	return 4;
}

#endif
