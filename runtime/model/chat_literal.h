/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* The texts that a Jinja template can give out, without running it. */
#ifndef MODEL_CHAT_LITERAL_H
#define MODEL_CHAT_LITERAL_H

#include <stdbool.h>
#include <stddef.h>

struct chat_scan {
	const char *p, *end;
	char inside; /* '{' in an expression, '%' in a statement, 0 outside */
	char *text; /* room for end - p bytes; the caller's */
};

/*
 * The next text: what stands outside of braces, or a string literal within them, its escapes
 * resolved; literals joined by + or ~ are one. In s->text, not terminated; returns false at the
 * template's end.
 */
bool chat_next_text(struct chat_scan *s, size_t *n);

#endif
