/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* Between the files that print traces. */
#ifndef TOOLS_TRACE_PRINT_H
#define TOOLS_TRACE_PRINT_H

#include <jansson.h>

#include "trace.h"
#include "trace_base.h"
#include "trace_names.h"
#include "trace_place.h"
#include "trace_read.h"

struct trace_printer {
	const struct trace_opts *o;
	const struct trace_loaded *l;
	struct trace_names *names;
	struct trace_caches base; /* frag */
	struct trace_places *places; /* leaks */
	json_t *rows; /* of the print that goes on */
};

/* Of the exporter too. */
#define TRACE_COMMANDS 0x85
const char *trace_command(uint32_t nr); /* "other" for one that is not known */
extern const char *const trace_ends[KVB_ENDS], *const trace_hows[], *const trace_whats[KVB_WHATS],
	*const trace_whys[KVB_WHYS], *const trace_losses[KVB_LOSTS];

bool trace_wanted(const struct trace_printer *p, uint32_t pool);
/* A row with the labels that all have. */
json_t *trace_row(struct trace_printer *p, uint32_t pool);
void trace_set(json_t *row, const char *name, uint64_t n);

/* 0 or -errno. */
int trace_print_frag(struct trace_printer *p);
int trace_print_leaks(struct trace_printer *p);

#endif
