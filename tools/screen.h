/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* A page of text with attributes, which a terminal shows and a test reads. What does not fit is cut. */
#ifndef TOOLS_SCREEN_H
#define TOOLS_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

enum screen_attr {
	SCREEN_PLAIN,
	SCREEN_TITLE,
	SCREEN_HEAD,
	SCREEN_CHOSEN,
	SCREEN_DIM,
	SCREEN_WARN,
	SCREEN_PRIVATE, /* these four in the order of enum map_kind */
	SCREEN_SEALED,
	SCREEN_CACHED,
	SCREEN_QUARANTINED,
	SCREEN_ATTRS,
};

struct screen_cell {
	uint32_t ch; /* Unicode, of width 1 */
	uint8_t attr;
};

struct screen {
	int w, h;
	struct screen_cell *cells; /* [h][w] */
};

/* 0 or -ENOMEM; all spaces. A size below 1 is taken as 1. */
int screen_init(struct screen *s, int w, int h);
void screen_free(struct screen *s);
void screen_char(struct screen *s, int y, int x, uint32_t ch, enum screen_attr attr);
/* ASCII; other bytes become '?'. Returns the column behind it, cut or not. */
__attribute__((format(printf, 5, 6))) int screen_text(struct screen *s, int y, int x,
						       enum screen_attr attr, const char *fmt, ...);
/* A whole line. */
void screen_attr_line(struct screen *s, int y, enum screen_attr attr);
/* Row @y in UTF-8, without spaces at its end: @out has room for 4 bytes a column and one more. */
void screen_row(const struct screen *s, int y, char *out);

#endif
