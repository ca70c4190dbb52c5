/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* The pages of `kvslab top`, drawn from snapshots alone: for a terminal of any size, for a pipe, and as JSON. */
#ifndef TOOLS_TOP_VIEW_H
#define TOOLS_TOP_VIEW_H

#include <jansson.h>

#include "screen.h"
#include "snap.h"

struct top_view {
	char pool[KVSLAB_NAME_SIZE]; /* the chosen one; of another name or empty: the first */
	enum snap_sort sort;
	bool back; /* the other way round */
	uint32_t tier; /* KVSLAB_TIER_*, or MAP_ANY_TIER */
	bool paused, help;
	bool ascii; /* the terminal shows no more than that */
	bool text; /* no terminal: no keys are named */
	double interval; /* seconds */
	const char *recording; /* the file that is shown, or NULL */
	bool ended; /* its last sample is shown */
};

/* The next pool in the order of @s, @step away. */
void top_choose(struct top_view *v, const struct snap *s, int step);
/* @before may be NULL: then there are no rates. */
void top_draw(struct screen *s, const struct snap *now, const struct snap *before, const struct top_view *v);
/* Rows that all of it would take at width @w. */
int top_rows(const struct snap *now, const struct top_view *v, int w);
/* NULL: no memory. */
json_t *top_json(const struct snap *now, const struct snap *before, const struct top_view *v);

#endif
