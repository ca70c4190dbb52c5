// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "snap.h"

#include <stdlib.h>
#include <string.h>

const char *const snap_sort_names[SNAP_SORTS + 1] = { "name", "held", "cached", "private", NULL };

void snap_free(struct snap *s)
{
	uint32_t i;

	for (i = 0; i < s->n; i++) {
		free(s->pools[i].v.caches);
		free(s->pools[i].v.clients);
		free(s->pools[i].v.slabs);
		free(s->pools[i].tiers);
		free(s->pools[i].traces);
	}
	free(s->pools);
	memset(s, 0, sizeof(*s));
}

uint64_t snap_cached_extents(const struct kvslab_stat_pool *p)
{
	return p->slabs > p->held ? p->slabs - p->held : 0;
}

uint64_t snap_delta(uint64_t now, uint64_t from)
{
	return now >= from ? now - from : now;
}

struct order {
	enum snap_sort by;
	bool back;
};

static int more_first(uint64_t a, uint64_t b)
{
	return a < b ? 1 : a > b ? -1 : 0;
}

static int pool_order(const void *a, const void *b, void *data)
{
	const struct kvslab_stat_pool *p = &((const struct snap_pool *)a)->v.pool;
	const struct kvslab_stat_pool *q = &((const struct snap_pool *)b)->v.pool;
	const struct order *o = data;
	int r = 0;

	if (o->by == SNAP_HELD)
		r = more_first(p->held, q->held);
	else if (o->by == SNAP_CACHED)
		r = more_first(snap_cached_extents(p), snap_cached_extents(q));
	else if (o->by == SNAP_PRIVATE)
		r = more_first(p->private_pages, q->private_pages);
	if (!r)
		r = strncmp(p->name, q->name, sizeof(p->name));
	return o->back ? -r : r;
}

static int client_order(const void *a, const void *b, void *data)
{
	const struct kvslab_stat_client *p = a, *q = b;
	const struct order *o = data;
	int r = 0;

	if (o->by == SNAP_HELD)
		r = more_first(p->held_bytes, q->held_bytes);
	else if (o->by == SNAP_CACHED)
		r = more_first(p->references, q->references);
	else if (o->by == SNAP_PRIVATE)
		r = more_first(p->private_pages, q->private_pages);
	else
		r = strncmp(p->comm, q->comm, sizeof(p->comm));
	if (!r)
		r = p->id < q->id ? -1 : p->id > q->id;
	return o->back ? -r : r;
}

void snap_sort(struct snap *s, enum snap_sort by, bool back)
{
	struct order o = { by, back };
	uint32_t i;

	if (s->n)
		qsort_r(s->pools, s->n, sizeof(*s->pools), pool_order, &o);
	for (i = 0; i < s->n; i++)
		if (s->pools[i].v.nr_clients)
			qsort_r(s->pools[i].v.clients, s->pools[i].v.nr_clients,
				sizeof(struct kvslab_stat_client), client_order, &o);
}

const struct snap_pool *snap_find(const struct snap *s, const char *name)
{
	uint32_t i;

	for (i = 0; i < s->n; i++)
		if (!strncmp(s->pools[i].v.pool.name, name, KVSLAB_NAME_SIZE))
			return &s->pools[i];
	return NULL;
}

const struct snap_pool *snap_same(const struct snap *before, const struct snap_pool *p)
{
	const struct snap_pool *q = before ? snap_find(before, p->v.pool.name) : NULL;

	return q && q->v.pool.id == p->v.pool.id ? q : NULL;
}

const struct snap_trace *snap_trace_of(const struct snap_pool *before, uint32_t cache)
{
	uint32_t i;

	for (i = 0; before && before->traces && i < before->v.nr_caches; i++)
		if (before->v.caches[i].id == cache)
			return &before->traces[i];
	return NULL;
}

static uint64_t waste(const struct kvslab_stat_pool *p)
{
	return p->free_bytes + p->tail_bytes + p->quarantined_bytes;
}

uint64_t snap_slab_bytes(const struct kvslab_stat_pool *p)
{
	uint64_t bytes = p->slabs * KVSLAB_CMD_EXTENT;

	/* It is counted while others go on: a slab may have left in between. */
	return bytes > waste(p) ? bytes : waste(p);
}

double snap_fragmentation(const struct kvslab_stat_pool *p)
{
	uint64_t bytes = snap_slab_bytes(p);

	return bytes ? (double)waste(p) / (double)bytes : 0;
}

double snap_cache_fragmentation(const struct kvslab_stat_cache *c)
{
	double tail = KVSLAB_CMD_EXTENT - (double)c->page_size * c->pages_per_slab;
	double empty = ((double)c->free + (double)c->quarantined) * c->page_size + tail * (double)c->slabs;
	double all = (double)c->slabs * KVSLAB_CMD_EXTENT;

	if (all < empty)
		all = empty;
	return all > 0 ? empty / all : 0;
}
