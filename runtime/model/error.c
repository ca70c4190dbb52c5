// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* The sentence that goes with an error. */
#include <stdarg.h>
#include <stdio.h>
#include "utf8.h"
#include "gguf.h"

/* Names come out of files that anyone may have made: nothing in them may reach a terminal as a
 * command. */
static void make_printable(char *s)
{
	uint8_t *p = (uint8_t *)s;
	size_t left, n, i;
	uint32_t cp;

	for (left = strlen(s); left; p += n, left -= n) {
		n = utf8_decode(p, left, &cp);
		if (n && cp >= 0x20 && (cp < 0x7f || cp > 0x9f))
			continue;
		n = n ? n : 1;
		for (i = 0; i < n; i++)
			p[i] = '?';
	}
}

int model_fail(struct model_error *e, int err, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return err;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	make_printable(e->text);
	return err;
}
