// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* What the BPF programs count of each cache, beside what STAT says. */
#ifdef KVSLAB_TRACE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/maps.h"
#include "snap_take.h"
#include "trace.h"
#include "trace_read.h"

struct snap_counts {
	struct trace_loaded frag, prefix; /* without an object: not wanted */
};

struct snap_counts *snap_counts_open(uint32_t which, char *why, size_t n)
{
	struct snap_counts *c;
	const char *lacks = trace_lacks();
	char text[200] = "no memory";

	if (lacks) {
		snprintf(why, n, "no rates of caches: that needs %s, as root has them", lacks);
		return NULL;
	}
	c = calloc(1, sizeof(*c));
	if (c && (!(which & SNAP_FRAG) || !trace_load(&c->frag, TRACE_FRAG, text, sizeof(text))) &&
	    (!(which & SNAP_PREFIX) || !trace_load(&c->prefix, TRACE_PREFIX, text, sizeof(text))))
		return c;
	snap_counts_close(c);
	snprintf(why, n, "no rates of caches: %s", text);
	return NULL;
}

static void frag_of(const struct trace_counts *n, uint32_t pool, uint32_t cache, struct snap_trace *t)
{
	uint64_t *const to[KVB_WHATS] = {
		[KVB_ALLOCATED] = &t->allocs,	  [KVB_FREED] = &t->frees,	   [KVB_RELEASED] = &t->releases,
		[KVB_SEALED] = &t->seals,	  [KVB_DUPLICATE] = &t->duplicates, [KVB_EVICTED] = &t->evictions,
		[KVB_REFUSED] = &t->refused,	  [KVB_SLABS_NEW] = &t->slabs_new, [KVB_SLABS_FREED] = &t->slabs_freed,
		[KVB_SLABS_TAKEN] = &t->slabs_taken,
	};
	uint32_t key[TRACE_WORDS] = { pool, cache };

	for (; key[2] < KVB_WHATS; key[2]++)
		if (to[key[2]])
			*to[key[2]] = trace_value(n, key);
}

static void prefix_of(const struct trace_counts *n, const struct trace_counts *evicted, uint32_t pool, uint32_t cache,
		      struct snap_trace *t)
{
	uint32_t key[TRACE_WORDS] = { pool, cache }, what;
	uint64_t of[KVB_PREFIX_WHATS];

	for (what = 0; what < KVB_PREFIX_WHATS; what++) {
		key[2] = what;
		of[what] = trace_value(n, key);
	}
	t->lookups = of[KVB_WHOLE] + of[KVB_PARTLY] + of[KVB_NONE];
	t->asked = of[KVB_ASKED];
	t->found = of[KVB_FOUND];
	t->regret = of[KVB_REGRET];
	for (key[2] = 0; key[2] < SNAP_CLASSES; key[2]++)
		for (key[3] = 0; key[3] < KVB_WHYS; key[3]++)
			t->evicted[key[2]] += trace_value(evicted, key);
}

static void read_lost(const struct trace_loaded *l, struct snap *s)
{
	uint64_t lost[KVB_LOSTS];

	trace_lost(l, lost);
	s->lost_full += lost[KVB_LOST_FULL];
	s->lost_unknown += lost[KVB_LOST_UNKNOWN];
}

void snap_counts_read(const struct snap_counts *c, struct snap *s)
{
	struct trace_counts frag = { 0 }, prefix = { 0 }, evicted = { 0 };
	uint32_t i, j;

	if (!c)
		return;
	if (c->frag.object && !trace_counts(&frag, &c->frag, "pages_total", 3)) {
		s->traced |= SNAP_FRAG;
		read_lost(&c->frag, s);
	}
	if (c->prefix.object && !trace_counts(&prefix, &c->prefix, "prefix_total", 3) &&
	    !trace_counts(&evicted, &c->prefix, "evicted_total", 4)) {
		s->traced |= SNAP_PREFIX;
		read_lost(&c->prefix, s);
	}
	for (i = 0; i < s->n; i++)
		for (j = 0; j < s->pools[i].v.nr_caches; j++) {
			uint32_t pool = s->pools[i].v.pool.id, cache = s->pools[i].v.caches[j].id;

			if (s->traced & SNAP_FRAG)
				frag_of(&frag, pool, cache, &s->pools[i].traces[j]);
			if (s->traced & SNAP_PREFIX)
				prefix_of(&prefix, &evicted, pool, cache, &s->pools[i].traces[j]);
		}
	trace_counts_free(&frag);
	trace_counts_free(&prefix);
	trace_counts_free(&evicted);
}

void snap_counts_close(struct snap_counts *c)
{
	if (!c)
		return;
	if (c->prefix.object)
		trace_unload(&c->prefix);
	if (c->frag.object)
		trace_unload(&c->frag);
	free(c);
}
#endif
