/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* The maps of bpf/ as lists, sorted by key. Only where the command is built with eBPF. */
#ifndef TOOLS_TRACE_READ_H
#define TOOLS_TRACE_READ_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/maps.h"

struct trace_loaded;

#define TRACE_WORDS 5 /* the most that a key has */

struct trace_count {
	uint32_t key[TRACE_WORDS];
	uint64_t value;
};

struct trace_counts {
	struct trace_count *list;
	size_t n;
};

/* A histogram: its labels without the slot. */
struct trace_hist {
	uint32_t key[TRACE_WORDS];
	uint64_t count, sum, slots[KVB_SLOTS];
};

struct trace_hists {
	struct trace_hist *list;
	size_t n;
};

/* The descriptor of a map. */
int trace_map(const struct trace_loaded *l, const char *name);
/* Map @name, of keys of @words numbers. 0, or -errno. */
int trace_counts(struct trace_counts *c, const struct trace_loaded *l, const char *name, unsigned int words);
/* The same of a histogram; @words without the slot. */
int trace_hists(struct trace_hists *h, const struct trace_loaded *l, const char *name, unsigned int words);
/* 0 where nothing was counted. */
uint64_t trace_value(const struct trace_counts *c, const uint32_t *key);
void trace_counts_free(struct trace_counts *c);
void trace_hists_free(struct trace_hists *h);
/* [KVB_LOSTS] */
void trace_lost(const struct trace_loaded *l, uint64_t *lost);

/* leaks: what is held from one place, by one client, in one way. */
enum trace_how { TRACE_ALLOCATED, TRACE_SEALED, TRACE_LOOKED_UP, TRACE_GOT };

struct trace_site {
	uint32_t pool, client, cache, page_size, pid;
	int32_t stack;
	enum trace_how how;
	uint64_t pages; /* or references, each counted */
	uint64_t since; /* ns, CLOCK_MONOTONIC, of the oldest */
	uint64_t page; /* the oldest: a handle with generation 0 */
};

struct trace_sites {
	struct trace_site *list;
	size_t n;
};

/* What has been held since @before (ns, CLOCK_MONOTONIC) or longer; oldest first. */
int trace_sites(struct trace_sites *s, const struct trace_loaded *l, uint64_t before);
void trace_sites_free(struct trace_sites *s);
/* The program's name as it was when the client was seen first; empty where that is not known. */
void trace_comm(const struct trace_loaded *l, uint32_t pool, uint32_t client, char comm[16]);
/* [KVB_FRAMES], zeros behind the last. */
void trace_stack(const struct trace_loaded *l, int32_t stack, uint64_t *frames);

#endif
