// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Each call as the model sees it: which result is right, and what it changes. */
#include <stdarg.h>
#include <stdio.h>

#include "core_driver.h"

void driver_wrong(struct driver *d, const char *fmt, ...)
{
	va_list ap;

	if (d->why[0])
		return;
	va_start(ap, fmt);
	vsnprintf(d->why, sizeof(d->why), fmt, ap);
	va_end(ap);
}

void driver_dead(struct driver *d, u64 handle)
{
	d->dead[d->nr_dead++ % DEAD] =
		(struct dead){ handle, d->m.extent[kvc_handle_extent(handle)].life };
}

static bool any_pin(struct driver *d)
{
	u32 x, i;

	for (x = 0; x < d->m.nr; x++)
		for (i = 0; i < MODEL_PAGES; i++)
			if (d->pin[x][i])
				return true;
	return false;
}

bool driver_exact(struct driver *d, const struct call *c)
{
	u32 i;

	for (i = 0; i < 3; i++)
		if (d->call[i].running && &d->call[i] != c)
			return false;
	return !c->declined && !c->met_pin && !any_pin(d);
}

static u32 life_of(struct driver *d, u64 handle)
{
	u32 i, x = kvc_handle_extent(handle);
	struct model_page *page;

	for (i = 0; i < DEAD; i++)
		if (d->dead[i].handle == handle)
			return d->dead[i].life;
	page = x < d->m.nr ? model_page(&d->m, handle) : NULL;
	return page && page->generation == kvc_handle_generation(handle) ? page->life : ~0u;
}

static void refuse(struct driver *d, struct call *c, u64 handle)
{
	c->expect = model_wrong(&d->m, handle, c->client, life_of(d, handle), &c->or_else);
	c->refused = handle;
}

static void uncache(struct driver *d, struct call *c, struct model_page *page)
{
	if (--page->refs[c->client], --page->all_refs)
		return;
	page->stamp = d->m.stamp;
	page->loose = c->kind == CALL_EXIT;
}

/* ---- FREE, GET ---- */

static void expect_free(struct driver *d, struct call *c)
{
	struct model_page *page;
	u32 k, j, same;

	for (k = 0; k < c->n && !c->expect; k++) {
		page = model_live(&d->m, c->pages[k]);
		for (j = 0, same = 0; j < k; j++)
			same += c->pages[j] == c->pages[k];
		if (!page || !model_holds(page, c->client))
			refuse(d, c, c->pages[k]);
		else if (page->state == MODEL_SEALING || (page->state == MODEL_PRIVATE && same) ||
			 (page->state == MODEL_SEALED && page->refs[c->client] <= same))
			c->expect = -EBADF;
	}
}

static void expect_get(struct driver *d, struct call *c)
{
	struct model_page *page;
	u32 k;

	for (k = 0; k < c->n && !c->expect; k++) {
		page = model_live(&d->m, c->pages[k]);
		if (!page || !model_holds(page, c->client))
			refuse(d, c, c->pages[k]);
		else if (page->state != MODEL_SEALED)
			c->expect = -EBADF;
	}
}

static void apply_free(struct driver *d, struct call *c)
{
	struct model_page *page;
	u32 k;

	d->m.stamp++;
	for (k = 0; k < c->n; k++) {
		page = model_page(&d->m, c->pages[k]);
		if (page->state == MODEL_SEALED) {
			uncache(d, c, page);
			continue;
		}
		page->state = MODEL_FREE;
		driver_dead(d, c->pages[k]);
	}
}

static void apply_get(struct driver *d, struct call *c)
{
	struct model_page *page;
	u32 k;

	for (k = 0; k < c->n; k++) {
		page = model_page(&d->m, c->pages[k]);
		page->refs[c->client]++;
		page->all_refs++;
	}
}

/* ---- SEAL ---- */

static bool has_parent(struct driver *d, struct call *c, u32 k, int cache, u32 parent)
{
	struct model_page *page;
	u32 j;

	for (j = 0; j < k; j++)
		if (c->hash[j] == parent)
			return true;
	page = model_find(&d->m, c->pool, cache, parent, NULL);
	return page && page->refs[c->client];
}

/* c->pages: the handles as they were; c->hash: numbers of hashes, the parent's is one less. */
static void expect_seal(struct driver *d, struct call *c)
{
	struct model_page *page;
	u32 k, j;
	int cache = -1;

	for (k = 0; k < c->n; k++)
		if (c->seals[k].class >= KVC_CLASSES || c->seals[k].flags & ~KVC_SEAL_ROOT)
			c->expect = -EINVAL;
	for (k = 0; k < c->n && !c->expect; k++) {
		page = model_live(&d->m, c->pages[k]);
		if (!page || !model_holds(page, c->client)) {
			refuse(d, c, c->pages[k]);
			break;
		}
		for (j = 0; j < k && c->pages[j] != c->pages[k];)
			j++;
		if (page->state != MODEL_PRIVATE || j < k)
			c->expect = -EBADF;
		else if (cache < 0)
			cache = d->m.extent[kvc_handle_extent(c->pages[k])].cache;
		else if (cache != d->m.extent[kvc_handle_extent(c->pages[k])].cache)
			c->expect = -EINVAL;
	}
	for (k = 0; k < c->n && !c->expect; k++)
		if (!(c->seals[k].flags & KVC_SEAL_ROOT) &&
		    !has_parent(d, c, k, cache, c->hash[k] - 1))
			c->expect = -ENOENT;
	c->cache = cache;
}

/*
 * Enter them into @m, which may be a copy. 0, or the errno of a limit. Only while nothing else runs
 * is it known whether the limit is reached.
 */
static int enter(struct driver *d, struct model *m, struct call *c, bool limits)
{
	struct model_page *page, *winner;
	u32 k;
	int r;

	for (k = 0; k < c->n; k++) {
		page = model_page(m, c->pages[k]);
		winner = model_find(m, c->pool, c->cache, c->hash[k], NULL);
		if (winner) {
			u32 x = (u32)((char *)winner - (char *)m->extent) / sizeof(m->extent[0]);

			r = limits && !model_is_held(&m->extent[x]) ? model_may_hold(m, c->pool)
								    : 0;
			if (r)
				return r;
			winner->refs[c->client]++;
			winner->all_refs++;
			continue;
		}
		if (page->writer && m == &d->m)
			driver_wrong(d, "SEAL of a page that its writer can still write");
		page->state = MODEL_SEALED;
		page->refs[c->client] = page->all_refs = 1;
		page->hash = c->hash[k];
		page->depth = c->seals[k].depth;
		page->class = c->seals[k].class;
	}
	for (k = 0; k < c->n; k++) {
		page = model_page(m, c->pages[k]);
		if (page->state != MODEL_SEALING)
			continue;
		page->state = MODEL_FREE;
		if (m == &d->m)
			driver_dead(d, c->pages[k]);
	}
	return 0;
}

static void result_seal(struct driver *d, struct call *c, int r)
{
	static struct model copy;
	struct model_page *page;
	u64 handle = 0;
	u32 k;
	int limit;

	copy = d->m;
	limit = enter(d, &copy, c, true);
	if (driver_exact(d, c) && c->alone && r != limit)
		driver_wrong(d, "SEAL of %u says %d, model %d", c->n, r, limit);
	if (r && r != -EBUSY && r != -EDQUOT && r != -ENOSPC && !(r == -ENOMEM && c->declined))
		driver_wrong(d, "SEAL of %u says %d in its second half", c->n, r);
	if (r == -EBUSY && !c->pinned)
		driver_wrong(d, "SEAL says EBUSY, nothing is pinned");
	if (!r && c->pinned)
		driver_wrong(d, "SEAL succeeds, a page is pinned");
	if (r) {
		for (k = 0; k < c->n; k++) {
			page = model_page(&d->m, c->pages[k]);
			page->state = MODEL_PRIVATE;
			/* A reference that was taken and given back may have changed the order of
			 * eviction. */
			page = model_find(&d->m, c->pool, c->cache, c->hash[k], NULL);
			if (page && !page->all_refs)
				page->loose = true;
			if (c->seals[k].page != c->pages[k])
				driver_wrong(d, "SEAL fails and changes a handle");
		}
		return;
	}
	enter(d, &d->m, c, false);
	d->seals[c->pool] += c->n;
	for (k = 0; k < c->n; k++) {
		if (!model_find(&d->m, c->pool, c->cache, c->hash[k], &handle) ||
		    handle != c->seals[k].page)
			driver_wrong(d, "SEAL %u gives handle %llx, model %llx", k,
				     (unsigned long long)c->seals[k].page,
				     (unsigned long long)handle);
	}
}

/* ---- LOOKUP ---- */

static void result_lookup(struct driver *d, struct call *c, int r)
{
	bool exact = driver_exact(d, c) && c->alone;
	struct model_page *page;
	u64 handle = 0;
	u32 k, x;

	d->lookups[c->pool]++;
	d->asked[c->pool] += c->n;
	d->hits[c->pool] += r;
	for (k = 0; k < c->n; k++) {
		page = model_find(&d->m, c->pool, c->cache, c->hash[k], &handle);
		x = kvc_handle_extent(handle);
		if (page && exact && !model_is_held(&d->m.extent[x]) &&
		    model_may_hold(&d->m, c->pool))
			page = NULL;
		if (!page || (int)k == r) {
			if (page ? exact : (int)k < r)
				driver_wrong(d, "LOOKUP of %u gives %d, model %u", c->n, r, k);
			return;
		}
		if (handle != c->pages[k])
			driver_wrong(d, "LOOKUP %u gives handle %llx, model %llx", k,
				     (unsigned long long)c->pages[k], (unsigned long long)handle);
		page->refs[c->client]++;
		page->all_refs++;
	}
}

/* ---- ALLOC ---- */

static void result_alloc(struct driver *d, struct call *c, int r, u64 could, u64 without_max,
			 bool exact)
{
	int want = could >= c->n	 ? (int)c->n
		   : c->flags && could	 ? (int)could
		   : without_max >= c->n ? -EDQUOT
					 : -ENOSPC;
	struct model_extent *e;
	struct model_page *page;
	u32 x, i, g;
	int k;

	if (exact && r != want)
		driver_wrong(d, "ALLOC of %u (flags %u) gives %d, model %d", c->n, c->flags, r,
			     want);
	if (r < 0 && r != -EDQUOT && r != -ENOSPC && !(r == -ENOMEM && c->declined))
		driver_wrong(d, "ALLOC of %u gives %d", c->n, r);
	if (r >= 0 && (r > (int)c->n || !r || (!c->flags && r < (int)c->n)))
		driver_wrong(d, "ALLOC of %u gives %d", c->n, r);
	if (exact && r < 0 && c->evicted)
		driver_wrong(d, "ALLOC of %u evicted and gave %d", c->n, r);
	for (k = 0; k < r && !d->why[0]; k++) {
		x = kvc_handle_extent(c->pages[k]);
		i = kvc_handle_index(c->pages[k]);
		g = kvc_handle_generation(c->pages[k]);
		e = &d->m.extent[x];
		if (kvc_handle_arena(c->pages[k]) || x >= d->m.nr || !g ||
		    i >= d->m.pool[c->pool].pages[c->cache]) {
			driver_wrong(d, "ALLOC gives handle %llx", (unsigned long long)c->pages[k]);
			return;
		}
		if (e->pool < 0) {
			e->pool = c->pool;
			e->cache = c->cache;
			e->pages = d->m.pool[c->pool].pages[c->cache];
		}
		page = &e->page[i];
		if (e->pool != c->pool || e->cache != c->cache || page->state != MODEL_FREE)
			driver_wrong(
				d,
				"ALLOC gives extent %u page %u, which is of pool %d cache %d, state %u",
				x, i, e->pool, e->cache, page->state);
		if (g <= page->generation)
			driver_wrong(d, "ALLOC gives extent %u page %u generation %u after %u", x,
				     i, g, page->generation);
		if (page->writer && page->writer != d->client_number[c->client])
			driver_wrong(
				d, "ALLOC gives extent %u page %u, which its last writer can write",
				x, i);
		page->writer = d->client_number[c->client];
		page->state = MODEL_PRIVATE;
		page->holder = c->client;
		page->generation = g;
		page->life = e->life;
	}
}

/* ---- the others ---- */

static void apply_exit(struct driver *d, struct call *c)
{
	struct model_page *page;
	u32 x, i;

	d->m.stamp++;
	for (x = 0; x < d->m.nr; x++) {
		for (i = 0; d->m.extent[x].pool >= 0 && i < d->m.extent[x].pages; i++) {
			page = &d->m.extent[x].page[i];
			if (page->state == MODEL_PRIVATE && page->holder == c->client) {
				page->state = MODEL_FREE;
				driver_dead(d, kvc_handle(0, x, i, page->generation));
			}
			while (page->refs[c->client])
				uncache(d, c, page);
		}
	}
}

static void result_reclaim(struct driver *d, struct call *c, int r)
{
	u32 x, i, n, cheapest = ~0u;

	if (r != (int)c->released)
		driver_wrong(d, "RECLAIM of %u gives %d, %u were released", c->n, r, c->released);
	if (!driver_exact(d, c) || !c->alone)
		return;
	if (r < (int)c->n && model_idle(&d->m, c->pool))
		driver_wrong(d, "RECLAIM of %u gives %d, %u more could go", c->n, r,
			     model_idle(&d->m, c->pool));
	if (model_fewest(&d->m, c->pool) < 0)
		return;
	x = model_fewest(&d->m, c->pool);
	for (i = 0, n = 0; i < d->m.extent[x].pages; i++)
		n += d->m.extent[x].page[i].state == MODEL_SEALED;
	cheapest = n;
	if (c->dearest > cheapest)
		driver_wrong(d, "RECLAIM took %u cached pages where %u would do", c->dearest,
			     cheapest);
}

void driver_expect(struct driver *d, struct call *c)
{
	bool batch = c->kind <= CALL_LOOKUP;

	c->expect = c->or_else = 0;
	c->could = c->without_max = 0;
	if (batch && (!c->n || c->n > KVC_BATCH_MAX)) {
		c->expect = -EINVAL;
		return;
	}
	switch (c->kind) {
	case CALL_ALLOC:
	case CALL_LOOKUP:
		if (c->flags & ~KVC_PARTIAL || c->cache < 0 || c->cache >= (int)KVC_CACHES_MAX ||
		    !d->m.pool[c->pool].pages[c->cache]) {
			c->expect = -EINVAL;
		} else if (c->kind == CALL_ALLOC) {
			c->could = model_obtainable(&d->m, c->pool, c->cache, true, false);
			c->without_max = model_obtainable(&d->m, c->pool, c->cache, false, false);
		}
		break;
	case CALL_FREE:
		expect_free(d, c);
		break;
	case CALL_GET:
		expect_get(d, c);
		break;
	case CALL_SEAL:
		expect_seal(d, c);
		break;
	default:
		break;
	}
}

/* The first half is over and more follows: some of what a call does has happened. */
void driver_begun(struct driver *d, struct call *c)
{
	u32 k;

	if (c->begun)
		return;
	c->begun = true;
	if (c->expect) {
		driver_wrong(d, "call %d goes on, model says %d", c->kind, c->expect);
		return;
	}
	if (c->kind == CALL_FREE)
		apply_free(d, c);
	else if (c->kind == CALL_EXIT)
		apply_exit(d, c);
	else if (c->kind == CALL_SEAL)
		for (k = 0; k < c->n; k++)
			model_page(&d->m, c->pages[k])->state = MODEL_SEALING;
}

void driver_result(struct driver *d, struct call *c, int r)
{
	if (c->fixed)
		return;
	c->fixed = true;
	d->results[c->kind][r < 0]++;
	if (c->expect) {
		if (r != c->expect && r != c->or_else)
			driver_wrong(d, "call %d of %u gives %d, model %d (handle %llx)", c->kind,
				     c->n, r, c->expect, (unsigned long long)c->refused);
		return;
	}
	switch (c->kind) {
	case CALL_ALLOC:
		result_alloc(d, c, r, c->could, c->without_max, driver_exact(d, c) && c->alone);
		break;
	case CALL_FREE:
	case CALL_EXIT:
		if (r)
			driver_wrong(d, "call %d of %u gives %d", c->kind, c->n, r);
		if (!r && !c->begun)
			(c->kind == CALL_FREE ? apply_free : apply_exit)(d, c);
		break;
	case CALL_GET:
		if (r)
			driver_wrong(d, "GET of %u gives %d", c->n, r);
		apply_get(d, c);
		break;
	case CALL_SEAL:
		if (!c->begun)
			driver_wrong(d, "SEAL of %u gives %d at once", c->n, r);
		else
			result_seal(d, c, r);
		break;
	case CALL_LOOKUP:
		result_lookup(d, c, r);
		break;
	case CALL_RECLAIM:
		result_reclaim(d, c, r);
		break;
	default:
		if (r != (int)c->released)
			driver_wrong(d, "UNQUARANTINE gives %d, %u came back", r, c->released);
	}
}
