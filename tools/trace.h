/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* kvslab trace: the BPF programs of bpf/, loaded, attached, and their maps printed. */
#ifndef TOOLS_TRACE_H
#define TOOLS_TRACE_H

#include <stdbool.h>
#include <stddef.h>
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
	const char *pinned; /* a folder of maps to read in place of our own, or NULL */
	const char *record; /* a file in place of prints, or NULL */
};

struct bpf_object;
struct bpf_link;

/* Programs that run until they are unloaded, or this process ends. Only where the command is built with eBPF. */
#define TRACE_LINKS 16
struct trace_loaded {
	struct bpf_object *object;
	struct bpf_link *links[TRACE_LINKS];
	unsigned int n;
};

/* The capabilities that this process lacks for that, in words; NULL: none. */
const char *trace_lacks(void);
/* 0, or -errno and a message in @why. */
int trace_load(struct trace_loaded *l, enum trace_what what, char *why, size_t n);
/* Reads maps that somebody else's programs fill: those pinned in @folder. -EPROTO: they are of another version. */
int trace_from(struct trace_loaded *l, enum trace_what what, const char *folder, char *why, size_t n);
void trace_unload(struct trace_loaded *l);

/* Loads, attaches and prints until the count or a signal; exit status. */
int trace_run(const struct trace_opts *o);
/* The same into o->record, with all slabs of the pools. */
int trace_record(const struct trace_opts *o);

/* What one print after the other needs. */
struct trace_printer;
struct trace_names;
/* @l and @o outlive it. NULL: no memory. */
struct trace_printer *trace_printer_new(const struct trace_opts *o, const struct trace_loaded *l,
					struct trace_names *names);
/* Prints what the maps hold; 0 or -errno. */
int trace_print(struct trace_printer *p);
void trace_printer_free(struct trace_printer *p);

#endif
