// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* What the BPF programs count of each cache, beside what STAT says. */
#ifdef KVSLAB_TRACE
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/maps.h"
#include "snap_take.h"
#include "trace.h"

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

static void frag_of(int fd, const struct kvb_cache *key, struct snap_trace *t)
{
	struct kvb_frag f;

	if (bpf_map_lookup_elem(fd, key, &f))
		return; /* nothing happened there */
	t->allocs = f.allocs;
	t->frees = f.frees;
	t->releases = f.releases;
	t->seals = f.seals;
	t->duplicates = f.duplicates;
	t->evictions = f.evictions;
	t->refused = f.refused;
	t->slabs_new = f.slabs_new;
	t->slabs_freed = f.slabs_freed;
	t->slabs_taken = f.slabs_taken;
}

static void prefix_of(int fd, const struct kvb_cache *key, struct snap_trace *t)
{
	struct kvb_prefix p;
	int i, j;

	if (bpf_map_lookup_elem(fd, key, &p))
		return;
	t->lookups = p.lookups;
	t->asked = p.asked;
	t->found = p.found;
	t->regret = p.regret;
	for (i = 0; i < SNAP_CLASSES; i++)
		for (j = 0; j < KVB_WHYS; j++)
			t->evicted[i] += p.evicted[i][j];
}

static void read_lost(struct bpf_object *object, struct snap *s)
{
	struct kvb_lost lost = { 0 };
	uint32_t zero = 0;

	bpf_map_lookup_elem(bpf_object__find_map_fd_by_name(object, "lost"), &zero, &lost);
	s->lost_full += lost.full;
	s->lost_unknown += lost.unknown;
}

void snap_counts_read(const struct snap_counts *c, struct snap *s)
{
	int frag = -1, prefix = -1;
	uint32_t i, j;

	if (!c)
		return;
	if (c->frag.object) {
		s->traced |= SNAP_FRAG;
		frag = bpf_object__find_map_fd_by_name(c->frag.object, "caches");
		read_lost(c->frag.object, s);
	}
	if (c->prefix.object) {
		s->traced |= SNAP_PREFIX;
		prefix = bpf_object__find_map_fd_by_name(c->prefix.object, "caches");
		read_lost(c->prefix.object, s);
	}
	for (i = 0; i < s->n; i++)
		for (j = 0; j < s->pools[i].v.nr_caches; j++) {
			struct kvb_cache key = { s->pools[i].v.pool.id, s->pools[i].v.caches[j].id };

			if (c->frag.object)
				frag_of(frag, &key, &s->pools[i].traces[j]);
			if (c->prefix.object)
				prefix_of(prefix, &key, &s->pools[i].traces[j]);
		}
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
