/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* kvslab top: where its snapshots come from, and how they are shown. */
#ifndef TOOLS_TOP_H
#define TOOLS_TOP_H

#include "record.h"
#include "snap_take.h"
#include "top_view.h"

struct top_opts {
	const char *pool, *from;
	double interval; /* seconds */
	uint64_t count; /* looks; 0: until it is ended */
	bool once, json, counted; /* counted: --count was given */
};

/* The pools of the kernel, or a recording. */
struct top_source {
	const struct top_opts *o;
	FILE *file;
	struct record record;
	struct snap_counts *counts;
	char missing[240]; /* what the counts would give */
};

/* 1, or told and -errno; 0: a recording is at its end. */
int top_next(struct top_source *t, struct snap *s);
/* Until the count, a key or a signal; exit status. */
int top_lines(struct top_source *t, struct top_view *v);
int top_screen(struct top_source *t, struct top_view *v);

#endif
