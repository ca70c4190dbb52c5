// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* frag, printed: what happened, what there is, and whether STAT says the same. */
#ifdef KVSLAB_TRACE
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "msg.h"
#include "pool.h"
#include "trace_print.h"

const char *const trace_whats[KVB_WHATS] = {
	"allocated", "freed",	"released", "sealed",	 "duplicates",	"evicted",    "quarantine_entered",
	"quarantine_left", "quarantine_went", "refused", "slabs_new", "slabs_freed", "slabs_taken"
};

struct frag {
	uint32_t pool, cache;
	uint64_t size, per; /* bytes of a page, pages a slab; 0: not known */
	uint64_t n[KVB_WHATS];
	bool known; /* what was there before, so that `now` is what there is */
	struct trace_state now;
	int64_t empty, tail;
	const char *stat; /* whether STAT says the same */
};

static void work_out(struct frag *f, struct trace_printer *p, const struct trace_counts *counts,
		     const struct trace_counts *sizes, const struct trace_caches *stat)
{
	uint32_t key[TRACE_WORDS] = { f->pool, f->cache };
	const struct trace_cache *base = trace_cache_find(&p->base, f->pool, f->cache);
	const struct trace_cache *says = trace_cache_find(stat, f->pool, f->cache);
	struct trace_state *s = &f->now;

	f->size = trace_value(sizes, key);
	if (!f->size)
		f->size = says ? says->page_size : base ? base->page_size : 0;
	f->per = f->size ? KVSLAB_CMD_EXTENT / f->size : 0;
	for (; key[2] < KVB_WHATS; key[2]++)
		f->n[key[2]] = trace_value(counts, key);
	if (says)
		*s = says->counted;
	else
		trace_sum(s, counts, f->pool, f->cache);
	f->known = base ? base->exact : says != NULL;
	if (base) {
		s->slabs += base->stat.slabs - base->counted.slabs;
		s->privates += base->stat.privates - base->counted.privates;
		s->indexed += base->stat.indexed - base->counted.indexed;
		s->quarantined += base->stat.quarantined - base->counted.quarantined;
	}
	f->empty = s->slabs * (int64_t)f->per - s->privates - s->indexed - s->quarantined;
	f->tail = s->slabs * (int64_t)(KVSLAB_CMD_EXTENT - f->per * f->size);
	f->stat = !says	       ? "unread" :
		  !f->known    ? "unknown" :
		  !says->exact ? "busy" :
		  memcmp(&says->stat, s, sizeof(*s)) ? "differs" :
							"same";
}

static double share(int64_t part, int64_t whole)
{
	return whole > 0 ? (double)part / (double)whole : 0;
}

static void frag_json(struct trace_printer *p, const struct frag *f)
{
	int64_t bytes = f->now.slabs * (int64_t)KVSLAB_CMD_EXTENT, size = (int64_t)f->size;
	json_t *row = trace_row(p, f->pool);
	int i;

	trace_set(row, "cache", f->cache);
	trace_set(row, "page_size", f->size);
	for (i = 0; i < KVB_WHATS; i++)
		trace_set(row, trace_whats[i], f->n[i]);
	json_object_set_new(row, "since", json_string(f->known ? "pool" : "trace"));
	json_object_set_new(row, "slabs", json_integer(f->now.slabs));
	json_object_set_new(row, "private", json_integer(f->now.privates));
	json_object_set_new(row, "indexed", json_integer(f->now.indexed));
	json_object_set_new(row, "quarantined", json_integer(f->now.quarantined));
	json_object_set_new(row, "free", json_integer(f->empty));
	json_object_set_new(row, "fragmentation",
	    json_pack("{s:f,s:f,s:f}", "partial", share(f->empty * size, bytes), "tail", share(f->tail, bytes),
		      "quarantine", share(f->now.quarantined * size, bytes)));
	json_object_set_new(row, "stat", json_string(f->stat));
	json_array_append_new(p->rows, row);
}

static void frag_text(struct trace_printer *p, const struct frag *f)
{
	int64_t bytes = f->now.slabs * (int64_t)KVSLAB_CMD_EXTENT, size = (int64_t)f->size;

	out_text("%s, cache %u, pages of %" PRIu64 " bytes\n"
		 "  %" PRIu64 " allocated, %" PRIu64 " freed, %" PRIu64 " sealed (%" PRIu64 " more were there), %" PRIu64
		 " references given back, %" PRIu64 " evicted, %" PRIu64 " ALLOCs refused\n"
		 "  slabs: %" PRIu64 " new, %" PRIu64 " gone, %" PRIu64 " changed hands; quarantine: %" PRIu64
		 " pages entered, %" PRIu64 " left\n",
		 trace_name(p->names, f->pool), f->cache, f->size, f->n[KVB_ALLOCATED], f->n[KVB_FREED],
		 f->n[KVB_SEALED], f->n[KVB_DUPLICATE], f->n[KVB_RELEASED], f->n[KVB_EVICTED], f->n[KVB_REFUSED],
		 f->n[KVB_SLABS_NEW], f->n[KVB_SLABS_FREED], f->n[KVB_SLABS_TAKEN], f->n[KVB_QUARANTINE_ENTERED],
		 f->n[KVB_QUARANTINE_LEFT] + f->n[KVB_QUARANTINE_WENT]);
	if (!f->known) {
		out_text("  since the trace began: %+" PRId64 " slabs, %+" PRId64 " private, %+" PRId64
			 " sealed or cached, %+" PRId64 " quarantined, %+" PRId64 " free\n",
			 f->now.slabs, f->now.privates, f->now.indexed, f->now.quarantined, f->empty);
		return;
	}
	out_text("  now: %" PRId64 " slabs; %" PRId64 " private, %" PRId64 " sealed or cached, %" PRId64
		 " quarantined, %" PRId64 " free%s\n",
		 f->now.slabs, f->now.privates, f->now.indexed, f->now.quarantined, f->empty,
		 !strcmp(f->stat, "differs") ? "; STAT says otherwise: events were lost" :
		 !strcmp(f->stat, "same")    ? "; STAT says the same" :
					       "");
	if (bytes > 0)
		out_text("  fragmentation %.1f%%: %.1f%% free pages of partly used slabs, %.1f%% tails, %.1f%% "
			 "quarantine\n",
			 100 * share(f->empty * size + f->tail + f->now.quarantined * size, bytes),
			 100 * share(f->empty * size, bytes), 100 * share(f->tail, bytes),
			 100 * share(f->now.quarantined * size, bytes));
}

/* A row for each cache in which something happened, and for those that STAT or the beginning have. */
static bool next(uint32_t *key, bool first, const struct trace_counts *counts, const struct trace_caches *stat,
		 const struct trace_caches *base)
{
	const struct trace_caches *both[] = { stat, base };
	uint64_t at = first ? 0 : ((uint64_t)key[0] << 32 | key[1]) + 1, best = UINT64_MAX, k;
	size_t i, j;

	for (i = 0; i < counts->n; i++) {
		k = (uint64_t)counts->list[i].key[0] << 32 | counts->list[i].key[1];
		best = k >= at && k < best ? k : best;
	}
	for (j = 0; j < 2; j++)
		for (i = 0; i < both[j]->n; i++) {
			k = (uint64_t)both[j]->list[i].pool << 32 | both[j]->list[i].cache;
			best = k >= at && k < best ? k : best;
		}
	key[0] = (uint32_t)(best >> 32);
	key[1] = (uint32_t)best;
	return best != UINT64_MAX;
}

int trace_print_frag(struct trace_printer *p)
{
	struct trace_counts counts = { 0 }, sizes = { 0 };
	struct trace_caches stat = { 0 };
	uint32_t key[2] = { 0 };
	bool first = true;
	struct frag f;
	int err;

	err = trace_counts(&sizes, p->l, "page_bytes", 2);
	if (!err)
		err = trace_counts(&counts, p->l, "pages_total", 3);
	if (!err)
		err = trace_stat(&stat, p->l);
	for (; !err && next(key, first, &counts, &stat, &p->base); first = false) {
		if (!trace_wanted(p, key[0]))
			continue;
		f = (struct frag){ .pool = key[0], .cache = key[1] };
		work_out(&f, p, &counts, &sizes, &stat);
		if (p->o->json)
			frag_json(p, &f);
		else
			frag_text(p, &f);
	}
	trace_counts_free(&counts);
	trace_counts_free(&sizes);
	trace_caches_free(&stat);
	return err;
}
#endif
