/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* What both pictures of the map have in common: frame, colours, legend, labels. Lengths are pixels. */
#ifndef TOOLS_SVG_H
#define TOOLS_SVG_H

#include <stdint.h>
#include <stdio.h>

#include "map_cells.h"

#define SVG_W 960
#define SVG_LEFT 72 /* where plots begin */
#define SVG_RIGHT 24
#define SVG_TOP 128 /* below title and legend */
#define SVG_PLOT_W (SVG_W - SVG_LEFT - SVG_RIGHT)

/* @height of all; @unit says what a cell is. */
void svg_begin(FILE *f, int height, const char *title, const char *subtitle, const char *unit);
void svg_end(FILE *f);
/* Text at a point; anchor: "start", "middle" or "end"; class: "h" heading, "t" text, "a" axis. It is escaped. */
void svg_text(FILE *f, double x, double y, const char *anchor, const char *class, const char *fmt, ...)
	__attribute__((format(printf, 6, 7)));
/* The same, read from below, at the left of a plot. */
void svg_text_up(FILE *f, double x, double y, const char *text);
void svg_escape(FILE *f, const char *s);
/* A cell; its element is left open for a <title> if @open. */
void svg_cell(FILE *f, double x, double y, double w, double h, const struct map_cell *c, int open);
/* "2026-12-01 14:02:11 UTC" */
const char *svg_time(char out[40], uint64_t ns);

#endif
