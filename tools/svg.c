// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "svg.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Rules of their own for each colour, since not every program that shows SVG knows variables. */
static const char style[] =
	"text{font:12px system-ui,sans-serif;fill:#57606a}\n"
	".title{font-size:20px;font-weight:600;fill:#1f2328}\n"
	".h{font-size:14px;font-weight:600;fill:#1f2328}\n"
	".bg{fill:#ffffff}\n"
	".plot{fill:#f3f4f6}\n"
	".axis{stroke:#8c959f;stroke-width:1}\n"
	".e{fill:#ffffff;stroke:#b6bdc5;stroke-width:.8}\n"
	".k0{fill:#2a6fdb}\n"
	".k1{fill:#1a8f55}\n"
	".k2{fill:#c77d00}\n"
	".k3{fill:#c2255c}\n"
	".l1{fill-opacity:.3}\n"
	".l2{fill-opacity:.5}\n"
	".l3{fill-opacity:.75}\n"
	"@media (prefers-color-scheme:dark){\n"
	"text{fill:#9da7b3}\n"
	".title,.h{fill:#f0f3f6}\n"
	".bg{fill:#0d1117}\n"
	".plot{fill:#1b222c}\n"
	".axis{stroke:#6e7681}\n"
	".e{fill:#0d1117;stroke:#4b5561}\n"
	".k0{fill:#6cabff}\n"
	".k1{fill:#45c98a}\n"
	".k2{fill:#f0b429}\n"
	".k3{fill:#ff7aa2}\n"
	"}\n";

void svg_escape(FILE *f, const char *s)
{
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '&')
			fputs("&amp;", f);
		else if (c == '<')
			fputs("&lt;", f);
		else if (c == '>')
			fputs("&gt;", f);
		else if (c == '"')
			fputs("&quot;", f);
		else
			fputc(c < ' ' || c > '~' ? '?' : c, f); /* names alone come here; no other bytes are needed */
	}
}

void svg_text(FILE *f, double x, double y, const char *anchor, const char *class, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", x, y, anchor, class);
	svg_escape(f, text);
	fputs("</text>\n", f);
}

void svg_text_up(FILE *f, double x, double y, const char *text)
{
	fprintf(f, "<text transform=\"translate(%.1f %.1f) rotate(-90)\" text-anchor=\"middle\" class=\"a\">", x, y);
	svg_escape(f, text);
	fputs("</text>\n", f);
}

void svg_cell(FILE *f, double x, double y, double w, double h, const struct map_cell *c, int open)
{
	unsigned int level = map_level(c);

	fprintf(f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"", x, y, w, h);
	if (!level)
		fputs("e", f);
	else if (level == MAP_LEVELS - 1)
		fprintf(f, "k%d", (int)map_kind(c));
	else
		fprintf(f, "k%d l%u", (int)map_kind(c), level);
	fputs(open ? "\">" : "\"/>\n", f);
}

const char *svg_time(char out[40], uint64_t ns)
{
	time_t t = (time_t)(ns / 1000000000);
	struct tm tm;

	if (!gmtime_r(&t, &tm) || !strftime(out, 40, "%Y-%m-%d %H:%M:%S UTC", &tm))
		strcpy(out, "at an unknown time");
	return out;
}

static void legend(FILE *f, const char *unit)
{
	static const uint64_t of[MAP_LEVELS] = { 0, 1, 4, 8, 9 };
	struct map_cell c;
	double x = SVG_LEFT, y = 82;
	int kind, level;

	memset(&c, 0, sizeof(c));
	c.pages = c.free = 9;
	svg_cell(f, x, y - 10, 12, 12, &c, 0);
	svg_text(f, x + 18, y, "start", "t", "all free");
	x += 84;
	for (kind = 0; kind < MAP_KINDS; kind++) {
		for (level = 1; level < MAP_LEVELS; level++, x += 13) {
			memset(&c, 0, sizeof(c));
			c.pages = 9;
			c.free = 9 - of[level];
			*(kind == MAP_PRIVATE ? &c.private_pages : kind == MAP_SEALED ? &c.sealed :
			  kind == MAP_CACHED ? &c.cached : &c.quarantined) = of[level];
			svg_cell(f, x, y - 10, 12, 12, &c, 0);
		}
		svg_text(f, x + 5, y, "start", "t", "%s", map_kind_names[kind]);
		x += 24 + 7 * (double)strlen(map_kind_names[kind]);
	}
	svg_text(f, SVG_LEFT, y + 22, "start", "t",
		 "%s. Colour: what most of its used pages are; shade: pages in use, under 1/3, under 2/3, not all, all.", unit);
}

void svg_begin(FILE *f, int height, const char *title, const char *subtitle, const char *unit)
{
	fprintf(f,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\">\n<title>",
		SVG_W, height, SVG_W, height);
	svg_escape(f, title);
	fputs("</title>\n<desc>", f);
	svg_escape(f, subtitle);
	fprintf(f, "</desc>\n<style>\n%s</style>\n<rect class=\"bg\" width=\"%d\" height=\"%d\"/>\n", style, SVG_W, height);
	svg_text(f, SVG_LEFT, 34, "start", "title", "%s", title);
	svg_text(f, SVG_LEFT, 56, "start", "t", "%s", subtitle);
	legend(f, unit);
}

void svg_end(FILE *f)
{
	fputs("</svg>\n", f);
}
