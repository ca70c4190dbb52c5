/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* Stop strings in a text that grows: what may be given out, and where it ends. */
#ifndef MODEL_STOP_H
#define MODEL_STOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stop_text {
	char *s;
	size_t n; /* at least 1 */
};

struct stop_scan { /* zeroed: at the start */
	size_t from; /* bytes before it can begin no stop string */
	size_t safe; /* bytes that may be given out: none of them can be part of a stop string any more */
	bool stopped; /* one is there: the text ends at safe */
};

/* Goes on over text[0..n). */
void stop_scan(struct stop_scan *scan, const struct stop_text *stops, uint32_t n_stops, const char *text, size_t n);
/* Nothing more comes: all of it may be given out, unless one is there. */
void stop_end(struct stop_scan *scan, size_t n);

#endif
