/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * frag: what STAT says, beside what was counted until that moment. Read when the programs are attached it tells what was
 * there before; read later, whether counts and STAT still agree.
 */
#ifndef TOOLS_TRACE_BASE_H
#define TOOLS_TRACE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace_loaded;

/* Of one cache, in slabs and pages. */
struct trace_state {
	int64_t slabs, privates, indexed, quarantined;
};

struct trace_cache {
	uint32_t pool, cache, page_size;
	bool exact; /* nothing happened while both were read */
	struct trace_state stat, counted;
};

struct trace_caches {
	struct trace_cache *list;
	size_t n;
};

struct trace_counts;

/* What @counts (map pages_total) come to. */
void trace_sum(struct trace_state *s, const struct trace_counts *counts, uint32_t pool, uint32_t cache);
/* All caches of the pools that may be opened. */
int trace_stat(struct trace_caches *c, const struct trace_loaded *l);
const struct trace_cache *trace_cache_find(const struct trace_caches *c, uint32_t pool, uint32_t cache);
void trace_caches_free(struct trace_caches *c);

#endif
