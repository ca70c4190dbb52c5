// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "screen.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int screen_init(struct screen *s, int w, int h)
{
	int i;

	s->w = w < 1 ? 1 : w;
	s->h = h < 1 ? 1 : h;
	s->cells = calloc((size_t)s->w * (size_t)s->h, sizeof(*s->cells));
	if (!s->cells)
		return -ENOMEM;
	for (i = 0; i < s->w * s->h; i++)
		s->cells[i].ch = ' ';
	return 0;
}

void screen_free(struct screen *s)
{
	free(s->cells);
	s->cells = NULL;
}

void screen_char(struct screen *s, int y, int x, uint32_t ch, enum screen_attr attr)
{
	struct screen_cell *c;

	if (y < 0 || y >= s->h || x < 0 || x >= s->w)
		return;
	c = &s->cells[y * s->w + x];
	c->ch = ch;
	c->attr = (uint8_t)attr;
}

int screen_text(struct screen *s, int y, int x, enum screen_attr attr, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	int i;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (i = 0; text[i]; i++, x++)
		screen_char(s, y, x, text[i] < ' ' || text[i] > '~' ? '?' : (uint32_t)text[i], attr);
	return x;
}

void screen_attr_line(struct screen *s, int y, enum screen_attr attr)
{
	int x;

	for (x = 0; y >= 0 && y < s->h && x < s->w; x++)
		s->cells[y * s->w + x].attr = (uint8_t)attr;
}

static int put_utf8(char *out, uint32_t c)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	out[0] = (char)(0xe0 | (c >> 12 & 0xf));
	out[1] = (char)(0x80 | (c >> 6 & 0x3f));
	out[2] = (char)(0x80 | (c & 0x3f));
	return 3;
}

void screen_row(const struct screen *s, int y, char *out)
{
	int x, last = s->w, n = 0;

	while (last && s->cells[y * s->w + last - 1].ch == ' ')
		last--;
	for (x = 0; x < last; x++)
		n += put_utf8(out + n, s->cells[y * s->w + x].ch);
	out[n] = 0;
}
