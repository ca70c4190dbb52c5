// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* A look as JSON: what `kvslab pool stat --json` has of each pool, what changed since the look before, and the map. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "map_cells.h"
#include "msg.h"
#include "top_view.h"

#define CELLS 1024

static json_t *number(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static json_t *delta(uint64_t now, uint64_t from)
{
	return number(snap_delta(now, from));
}

static json_t *time_json(uint64_t ns)
{
	time_t t = (time_t)(ns / 1000000000);
	char text[40] = "", fine[50];
	struct tm tm;

	if (gmtime_r(&t, &tm))
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(fine, sizeof(fine), "%s.%03uZ", text, (unsigned int)(ns / 1000000 % 1000));
	return json_string(fine);
}

static json_t *pool_deltas(const struct kvslab_stat_pool *n, const struct kvslab_stat_pool *o)
{
	return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "allocs", delta(n->allocs, o->allocs),
			 "frees", delta(n->frees, o->frees), "seals", delta(n->seals, o->seals), "seal_duplicates",
			 delta(n->seal_duplicates, o->seal_duplicates), "lookups", delta(n->lookups, o->lookups),
			 "lookup_asked", delta(n->lookup_asked, o->lookup_asked), "lookup_hits",
			 delta(n->lookup_hits, o->lookup_hits), "evictions", delta(n->evictions, o->evictions),
			 "takeovers", delta(n->takeovers, o->takeovers), "reclaimed",
			 delta(n->reclaimed, o->reclaimed), "failed", delta(n->failed, o->failed));
}

static json_t *trace_deltas(uint32_t traced, const struct snap_trace *n, const struct snap_trace *o)
{
	json_t *j = json_object(), *evicted;
	int i;

	if (traced & SNAP_FRAG) {
		json_object_set_new(j, "allocs", delta(n->allocs, o->allocs));
		json_object_set_new(j, "frees", delta(n->frees, o->frees));
		json_object_set_new(j, "releases", delta(n->releases, o->releases));
		json_object_set_new(j, "seals", delta(n->seals, o->seals));
		json_object_set_new(j, "duplicates", delta(n->duplicates, o->duplicates));
		json_object_set_new(j, "evictions", delta(n->evictions, o->evictions));
		json_object_set_new(j, "refused", delta(n->refused, o->refused));
		json_object_set_new(j, "slabs_new", delta(n->slabs_new, o->slabs_new));
		json_object_set_new(j, "slabs_freed", delta(n->slabs_freed, o->slabs_freed));
		json_object_set_new(j, "slabs_taken", delta(n->slabs_taken, o->slabs_taken));
	}
	if (traced & SNAP_PREFIX) {
		json_object_set_new(j, "lookups", delta(n->lookups, o->lookups));
		json_object_set_new(j, "asked", delta(n->asked, o->asked));
		json_object_set_new(j, "found", delta(n->found, o->found));
		json_object_set_new(j, "regret", delta(n->regret, o->regret));
		evicted = json_array();
		for (i = 0; i < SNAP_CLASSES; i++)
			json_array_append_new(evicted, delta(n->evicted[i], o->evicted[i]));
		json_object_set_new(j, "evicted_by_priority", evicted);
	}
	return j;
}

static json_t *map_json(const struct snap_pool *p, uint32_t tier)
{
	struct kvslab_stat_slab *slabs = calloc(p->v.nr_slabs + 1, sizeof(*slabs));
	struct map_cell *cells = calloc(CELLS + 1, sizeof(*cells)), *c;
	json_t *list = json_array(), *map = NULL;
	uint32_t n, per, i;

	if (!slabs || !cells)
		goto out;
	n = map_slabs(p, tier, slabs);
	per = map_per_cell(n, CELLS);
	n = map_cells(slabs, n, per, cells);
	for (i = 0; i < n; i++) {
		c = &cells[i];
		json_array_append_new(list, json_pack("{s:I,s:I,s:I,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:i,s:s}", "first",
			(json_int_t)c->first, "last", (json_int_t)c->last, "slabs", (json_int_t)c->slabs, "pages",
			number(c->pages), "free", number(c->free), "private", number(c->private_pages), "moving",
			number(c->moving), "sealed", number(c->sealed), "cached", number(c->cached), "quarantined",
			number(c->quarantined), "level", (int)map_level(c), "most",
			map_level(c) ? map_kind_names[map_kind(c)] : "free"));
	}
	map = json_pack("{s:I,s:O}", "slabs_per_cell", (json_int_t)per, "cells", list);
out:
	json_decref(list);
	free(cells);
	free(slabs);
	return map ? map : json_null();
}

static json_t *one_pool(const struct snap *now, const struct snap *before, const struct snap_pool *p,
			uint32_t tier)
{
	const struct snap_pool *was = snap_same(before, p);
	json_t *j = pool_json(&p->v), *list = json_object_get(j, "caches"), *c;
	const struct snap_trace *from;
	uint32_t i;

	json_object_set_new(j, "cached_extents", number(snap_cached_extents(&p->v.pool)));
	json_object_set_new(j, "deltas", was ? pool_deltas(&p->v.pool, &was->v.pool) : json_null());
	for (i = 0; i < p->v.nr_caches; i++) {
		c = json_array_get(list, i);
		from = snap_trace_of(was, p->v.caches[i].id);
		json_object_set_new(c, "tier", json_string(p->tiers[i] == KVSLAB_TIER_HOST ? "host" : "device"));
		json_object_set_new(c, "fragmentation", json_number(snap_cache_fragmentation(&p->v.caches[i])));
		json_object_set_new(c, "deltas", from && now->traced && now->traced == before->traced
						 ? trace_deltas(now->traced, &p->traces[i], from) : json_null());
	}
	json_object_set_new(j, "map", map_json(p, tier));
	return j;
}

json_t *top_json(const struct snap *now, const struct snap *before, const struct top_view *v)
{
	json_t *pools = json_array(), *traced = json_array();
	uint32_t i;

	if (now->traced & SNAP_FRAG)
		json_array_append_new(traced, json_string("frag"));
	if (now->traced & SNAP_PREFIX)
		json_array_append_new(traced, json_string("prefix"));
	for (i = 0; i < now->n; i++)
		json_array_append_new(pools, one_pool(now, before, &now->pools[i], v->tier));
	return json_pack("{s:o,s:o,s:o,s:{s:o,s:o},s:o,s:o}", "time", time_json(now->time), "seconds",
			 before && now->mono >= before->mono ? json_real((double)(now->mono - before->mono) * 1e-9)
							     : json_null(), "traced", traced, "lost", "full",
			 number(now->lost_full), "unknown", number(now->lost_unknown), "missing",
			 now->missing[0] ? json_string(now->missing) : json_null(), "pools", pools);
}
