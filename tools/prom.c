// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "prom.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void prom_family(struct prom *p, const char *name, const char *type, const char *help)
{
	p->family = name;
	buf_print(&p->text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A program's name is any bytes; the format wants UTF-8. */
static void value_of(struct buf *b, const char *s)
{
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '\\' || c == '"')
			buf_print(b, "\\%c", c);
		else if (c == '\n')
			buf_text(b, "\\n");
		else
			buf_print(b, "%c", c < ' ' || c > '~' ? '?' : c);
	}
}

static void sample(struct prom *p, const char *suffix, const struct prom_label *labels, const char *le)
{
	bool first = true;

	buf_print(&p->text, "%s%s", p->family, suffix);
	for (; labels && labels->value; labels++, first = false) {
		buf_print(&p->text, "%s%s=\"", first ? "{" : ",", labels->name);
		value_of(&p->text, labels->value);
		buf_text(&p->text, "\"");
	}
	if (le) {
		buf_print(&p->text, "%sle=\"%s\"", first ? "{" : ",", le);
		first = false;
	}
	buf_text(&p->text, first ? " " : "} ");
}

static void number(char *s, size_t n, double x)
{
	snprintf(s, n, x == floor(x) && fabs(x) < 1e15 ? "%.0f" : "%.9g", x);
}

void prom_value(struct prom *p, const struct prom_label *labels, double value)
{
	char s[40];

	number(s, sizeof(s), value);
	sample(p, "", labels, NULL);
	buf_print(&p->text, "%s\n", s);
}

void prom_hist(struct prom *p, const struct prom_label *labels, const uint64_t *slots, unsigned int n, uint64_t sum,
	       double unit, unsigned int low, unsigned int high)
{
	uint64_t count = 0;
	unsigned int i;
	char le[40];

	for (i = 0; i < n; i++) {
		count += slots[i];
		if (i < low || i > high)
			continue;
		/* values are whole, so that those of i bits are at most 2^i - 1 */
		number(le, sizeof(le), (double)((1ull << i) - 1) * unit);
		sample(p, "_bucket", labels, le);
		buf_print(&p->text, "%llu\n", (unsigned long long)count);
	}
	sample(p, "_bucket", labels, "+Inf");
	buf_print(&p->text, "%llu\n", (unsigned long long)count);
	number(le, sizeof(le), (double)sum * unit);
	sample(p, "_sum", labels, NULL);
	buf_print(&p->text, "%s\n", le);
	sample(p, "_count", labels, NULL);
	buf_print(&p->text, "%llu\n", (unsigned long long)count);
}
