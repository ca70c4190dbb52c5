/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* kvslab trace: the BPF programs of bpf/, loaded, attached, and their maps printed. */
#ifndef TOOLS_TRACE_H
#define TOOLS_TRACE_H

#include <stdbool.h>
#include <stdint.h>

enum trace_what { TRACE_FRAG, TRACE_LATENCY, TRACE_LIFETIME, TRACE_LEAKS, TRACE_PREFIX, TRACE_N };
extern const char *const trace_names[TRACE_N + 1];

struct trace_opts {
	enum trace_what what;
	const char *pool; /* NULL: all */
	uint32_t pool_id; /* with pool */
	uint32_t interval, age; /* seconds */
	uint64_t count; /* 0: until a signal */
	bool json;
};

struct bpf_object;

/* Loads, attaches and prints until the count or a signal; exit status. */
int trace_run(const struct trace_opts *o);
/* Prints what the maps hold; 0 or -errno. */
int trace_print(const struct trace_opts *o, const struct bpf_object *object);

#endif
