// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#ifdef KVSLAB_TRACE
#include "trace_base.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pool.h"
#include "trace.h"
#include "trace_read.h"

#define TRIES 16

void trace_sum(struct trace_state *s, const struct trace_counts *counts, uint32_t pool, uint32_t cache)
{
	int64_t n[KVB_WHATS];
	uint32_t key[TRACE_WORDS] = { pool, cache };

	for (key[2] = 0; key[2] < KVB_WHATS; key[2]++)
		n[key[2]] = (int64_t)trace_value(counts, key);
	s->slabs = n[KVB_SLABS_NEW] - n[KVB_SLABS_FREED];
	s->privates = n[KVB_ALLOCATED] - n[KVB_FREED] - n[KVB_SEALED] - n[KVB_DUPLICATE];
	s->indexed = n[KVB_SEALED] - n[KVB_EVICTED];
	s->quarantined = n[KVB_QUARANTINE_ENTERED] - n[KVB_QUARANTINE_LEFT] - n[KVB_QUARANTINE_WENT];
}

/* Whether the counts of a pool are the same in both. */
static bool stood_still(const struct trace_counts *a, const struct trace_counts *b, uint32_t pool)
{
	size_t i;

	for (i = 0; i < b->n; i++)
		if (b->list[i].key[0] == pool && trace_value(a, b->list[i].key) != b->list[i].value)
			return false;
	return true;
}

static int add_pool(struct trace_caches *c, const struct pool_view *v, bool exact)
{
	struct trace_cache *more;
	uint32_t i;

	more = reallocarray(c->list, c->n + v->nr_caches + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	c->list = more;
	for (i = 0; i < v->nr_caches; i++) {
		const struct kvslab_stat_cache *s = &v->caches[i];

		more[c->n++] = (struct trace_cache){
			.pool = v->pool.id,
			.cache = s->id,
			.page_size = s->page_size,
			.exact = exact,
			.stat = { (int64_t)s->slabs, (int64_t)s->private_pages,
				   (int64_t)(s->sealed + s->cached), (int64_t)s->quarantined },
		};
	}
	return 0;
}

/* One pool, with the counts at the same moment in @counts. */
static int stat_pool(struct trace_caches *c, const struct trace_loaded *l, const char *name,
		     struct trace_counts *counts)
{
	struct trace_counts before = { 0 };
	struct pool_view v = { 0 };
	bool exact = false;
	int err = 0, i;

	for (i = 0; i < TRIES && !exact; i++) {
		pool_view_free(&v);
		trace_counts_free(&before);
		trace_counts_free(counts);
		err = trace_counts(&before, l, "pages_total", 3);
		if (!err)
			err = pool_read(&v, name, false);
		if (!err)
			err = trace_counts(counts, l, "pages_total", 3);
		if (err)
			break;
		/* A page that is on its way is in no count. */
		exact = stood_still(&before, counts, v.pool.id) && !v.pool.moving;
	}
	if (!err)
		err = add_pool(c, &v, exact);
	pool_view_free(&v);
	trace_counts_free(&before);
	return err;
}

int trace_stat(struct trace_caches *c, const struct trace_loaded *l)
{
	char **names = pool_names();
	struct trace_counts counts = { 0 };
	size_t i, k;
	int err = 0;

	memset(c, 0, sizeof(*c));
	for (i = 0; names && names[i] && err != -ENOMEM; i++) {
		k = c->n;
		/* One that may not be opened, or has gone, is left out. */
		err = stat_pool(c, l, names[i], &counts);
		for (; !err && k < c->n; k++)
			trace_sum(&c->list[k].counted, &counts, c->list[k].pool, c->list[k].cache);
	}
	trace_counts_free(&counts);
	pool_names_free(names);
	if (err != -ENOMEM)
		return 0;
	trace_caches_free(c);
	return err;
}

const struct trace_cache *trace_cache_find(const struct trace_caches *c, uint32_t pool, uint32_t cache)
{
	size_t i;

	for (i = 0; i < c->n; i++)
		if (c->list[i].pool == pool && c->list[i].cache == cache)
			return &c->list[i];
	return NULL;
}

void trace_caches_free(struct trace_caches *c)
{
	free(c->list);
	memset(c, 0, sizeof(*c));
}
#endif
