// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Which calls are made, with what, and what their effects tell the model. */
#include <stdio.h>
#include <stdlib.h>

#include "core_driver.h"
#include "state.h"

static const u32 page_sizes[] = { 2048 << 10, 1024 << 10, 512 << 10, 340 << 10, 64 << 10 };

/* ---- needs and effects ---- */

static bool decline(struct core_env *env, const struct kvc_need *need)
{
	struct driver *d = env->data;

	(void)need;
	if (!d->now->decline || driver_below(d, 2))
		return false;
	return d->now->declined = true;
}

static bool pinned(struct core_env *env, const struct kvc_zap *zap, u32 index)
{
	struct driver *d = env->data;

	if (index >= MODEL_PAGES || !d->pin[zap->extent][index])
		return false;
	return d->now->met_pin = true;
}

static void evicted(struct driver *d, u32 x, u32 i, struct model_page *page)
{
	if (page->state != MODEL_SEALED || page->all_refs) {
		driver_wrong(d, "extent %u page %u: evicted in state %u with %u references", x, i,
			     page->state, page->all_refs);
		return;
	}
	driver_dead(d, kvc_handle(0, x, i, page->generation));
	d->gone[d->nr_gone++] = *page;
	page->state = MODEL_FREE;
	d->now->evicted = true;
}

/* All that one round evicted comes before all that stays. */
static void check_order(struct driver *d, struct call *c)
{
	const char *why = NULL;

	while (d->nr_gone) {
		d->nr_gone--;
		if (!why && driver_exact(d, c) && c->alone)
			why = model_evict_order(&d->m, c->pool, c->cache, &d->gone[d->nr_gone]);
	}
	if (why)
		driver_wrong(d, "eviction: %s", why);
}

static void zapped(struct core_env *env, const struct kvc_zap *zap)
{
	struct driver *d = env->data;
	struct model_extent *e = &d->m.extent[zap->extent];
	struct model_page *page;
	bool pin;
	u32 i;

	for (i = 0; i < e->pages; i++) {
		if (!kvc_bit(zap->pages, i))
			continue;
		page = &e->page[i];
		pin = kvc_bit(zap->pinned, i);
		if (!pin)
			page->writer = 0;
		if (zap->why == KVC_ZAP_SEAL) {
			d->now->pinned |= pin;
			continue;
		}
		if (zap->why == KVC_ZAP_EVICT)
			evicted(d, zap->extent, i, page);
		else if (page->state !=
			 (zap->why == KVC_ZAP_QUARANTINE ? MODEL_QUARANTINED : MODEL_FREE))
			driver_wrong(d, "extent %u page %u: zapped (%u) in state %u", zap->extent,
				     i, zap->why, page->state);
		if (zap->why == KVC_ZAP_QUARANTINE && !pin)
			d->now->released++;
		page->state = pin ? MODEL_QUARANTINED : MODEL_FREE;
	}
}

static void released(struct core_env *env, const struct kvc_release *release)
{
	struct driver *d = env->data;
	u32 x = release->extent, i, cached = 0;
	struct model_extent *e = &d->m.extent[x];
	struct model_page *page;

	for (i = 0; i < MODEL_PAGES; i++) {
		page = &e->page[i];
		page->writer = 0;
		d->pin[x][i] = false;
		if (page->state == MODEL_FREE)
			continue;
		if (page->all_refs ||
		    (page->state != MODEL_SEALED && page->state != MODEL_QUARANTINED) ||
		    (page->state == MODEL_QUARANTINED && d->now->kind != CALL_KINDS))
			driver_wrong(d,
				     "extent %u page %u: released in state %u with %u references",
				     x, i, page->state, page->all_refs);
		if (page->state == MODEL_SEALED) {
			driver_dead(d, kvc_handle(0, x, i, page->generation));
			cached++;
		}
		page->state = MODEL_FREE;
	}
	if (cached)
		d->now->evicted = true;
	if (cached > d->now->dearest)
		d->now->dearest = cached;
	if (d->now->kind == CALL_RECLAIM)
		d->now->released++;
	e->life++;
	e->pool = e->cache = -1;
	e->pages = 0;
}

/* ---- calls ---- */

static int make(struct driver *d, struct call *c)
{
	struct kvc_client *client = d->client[c->client];
	struct kvc_pool *pool = d->pool[c->pool];

	switch (c->kind) {
	case CALL_ALLOC:
		return kvc_alloc(client, c->cache, c->pages, c->n, c->flags, &c->op);
	case CALL_FREE:
		return kvc_free(client, c->pages, c->n, &c->op);
	case CALL_GET:
		return kvc_get(client, c->pages, c->n);
	case CALL_SEAL:
		return kvc_seal(client, c->seals, c->n, &c->op);
	case CALL_LOOKUP:
		return kvc_lookup(client, c->cache, (const u8(*)[KVC_HASH_SIZE])c->hashes, c->n,
				  c->pages, &c->op);
	case CALL_EXIT:
		return kvc_client_exit(client, &c->op);
	case CALL_RECLAIM:
		return kvc_reclaim(pool, c->n, &c->op);
	default:
		return kvc_unquarantine(pool, &c->op);
	}
}

/* First as one that may not wait: it ends, or changes nothing and is made again. */
static int without_waiting(struct driver *d, struct call *c)
{
	struct kvc_stat before, after;
	int r;

	kvc_stat(d->pool[c->pool], &before);
	r = make(d, c);
	d->nowait[r == -EAGAIN]++;
	if (r == KVC_MORE)
		driver_wrong(d, "a call that may not wait wants something");
	if (r != -EAGAIN)
		return r;
	kvc_stat(d->pool[c->pool], &after);
	if (memcmp(&before, &after, sizeof(before)))
		driver_wrong(d, "a call said EAGAIN and changed something");
	core_tables(&c->op);
	kvc_op_init(&c->op);
	return make(d, c);
}

/* One half of a call. */
static void advance(struct driver *d, struct call *c)
{
	u32 i;
	int r;

	for (i = 0; i < 3; i++)
		if (&d->call[i] != c)
			d->call[i].alone = false;
	d->now = c;
	r = c->op.flags & KVC_OP_NOWAIT && !c->op.phase ? without_waiting(d, c) : make(d, c);
	if (r == KVC_MORE) {
		driver_begun(d, c);
		if (c->op.phase == KVC_PHASE_END)
			driver_result(d, c, c->op.result);
		core_serve(&d->env, &c->op);
		check_order(d, c);
		return;
	}
	driver_result(d, c, r);
	core_tables(&c->op);
	c->running = false;
	if (c->kind == CALL_EXIT) {
		free(d->client[c->client]);
		d->client[c->client] = NULL;
	}
}

static void begin(struct driver *d, struct call *c, int client)
{
	u32 i;

	kvc_op_init(&c->op);
	c->client = client;
	c->pool = d->client_pool[client];
	c->declined = c->met_pin = c->evicted = c->pinned = c->begun = c->fixed = false;
	c->released = c->dearest = 0;
	c->alone = true;
	for (i = 0; i < 3; i++)
		c->alone = c->alone && !d->call[i].running;
	driver_fill(d, c);
	driver_expect(d, c);
	if ((c->kind == CALL_ALLOC || c->kind == CALL_FREE || c->kind == CALL_LOOKUP) &&
	    driver_below(d, 3) == 0)
		kvc_op_init_nowait(&c->op);
	c->running = true;
	d->calls++;
	advance(d, c);
}

static struct call *running(struct driver *d, int client)
{
	u32 i;

	for (i = 0; i < 3; i++)
		if (d->call[i].running && (client < 0 || d->call[i].client == client))
			return &d->call[i];
	return NULL;
}

/* ---- pools and clients come and go ---- */

static bool make_pool(struct driver *d, int p)
{
	u32 i, n = d->m.nr, min = driver_below(d, n / 3), max, committed = 0;
	struct kvc_stat stat;
	int err;

	max = min + 1 + driver_below(d, n - min);
	if (driver_below(d, 3) == 0)
		max = n;
	for (i = 0; i < MODEL_POOLS; i++) {
		if (!d->pool[i])
			continue;
		kvc_stat(d->pool[i], &stat);
		committed += stat.held > stat.min ? stat.held : stat.min;
	}
#ifdef KVC_HOOKS
	d->pool[p] = core_pool_as(&d->env, min, max, p + 1, &core_seen[p + 1], &err);
#else
	d->pool[p] = core_pool(&d->env, min, max, &err);
#endif
	if (d->env.device && d->had) {
		if (err != -EBUSY)
			driver_wrong(d, "a second pool on a device arena gives %d", err);
		return false;
	}
	d->had = !err;
	if (err != (committed + min > n ? -ENOSPC : 0))
		driver_wrong(d, "pool of min %u gives %d, %u of %u committed", min, err, committed,
			     n);
	if (err)
		return false;
	memset(&d->m.pool[p], 0, sizeof(d->m.pool[p]));
	d->m.pool[p].there = true;
	d->m.pool[p].min = min;
	d->m.pool[p].max = max;
	d->seals[p] = d->lookups[p] = d->asked[p] = d->hits[p] = 0;
	n = 1 + driver_below(d, 3);
	for (i = 0; i < n; i++) {
		u32 size = page_sizes[(p + i + driver_below(d, 2) * 2) % 5];
		int id = core_cache(d->pool[p], size);

		if (id >= 0)
			d->m.pool[p].pages[id] = KVC_EXTENT_SIZE / size;
	}
	return true;
}

static void end_pool(struct driver *d, int p)
{
	struct call *c = &d->call[0]; /* none is running */
	int i;

	for (i = 0; i < MODEL_CLIENTS && !d->why[0]; i++) {
		if (!d->client[i] || d->client_pool[i] != p)
			continue;
		if (core_pool_exit(&d->env, d->pool[p]) != -EBUSY)
			driver_wrong(d, "a pool with clients could be ended");
		kvc_op_init(&c->op);
		c->kind = CALL_EXIT;
		c->client = i;
		c->pool = p;
		c->running = true;
		c->begun = c->fixed = c->decline = false;
		driver_expect(d, c);
		while (c->running)
			advance(d, c);
	}
	c->kind = CALL_KINDS;
	d->now = c;
	if (core_pool_exit(&d->env, d->pool[p]))
		driver_wrong(d, "a pool without clients cannot be ended");
	d->pool[p] = NULL;
	d->m.pool[p].there = false;
}

static void come_and_go(struct driver *d)
{
	int p = driver_below(d, MODEL_POOLS), i = driver_below(d, MODEL_CLIENTS);

	if (!running(d, -1)) {
		if (!d->pool[p])
			make_pool(d, p);
		else if (!d->env.device && driver_below(d, 300) == 0)
			end_pool(d, p);
	}
	p = i % MODEL_POOLS;
	if (!d->client[i] && d->pool[p]) {
		d->client[i] = core_client(d->pool[p]);
		d->client_pool[i] = p;
		d->client_number[i] = ++d->clients;
	}
}

static void pins(struct driver *d)
{
	u32 x = driver_below(d, d->m.nr);

	if (!d->env.device && driver_below(d, 40) == 0 && d->m.extent[x].pages)
		d->pin[x][driver_below(d, d->m.extent[x].pages)] = true;
	if (driver_below(d, 25) == 0)
		memset(d->pin, 0, sizeof(d->pin));
}

/* ---- after each step ---- */

/* Caches, clients and slabs add up to what is said of the pool. */
static void compare_parts(struct driver *d, int p, const struct kvc_stat *stat)
{
	struct kvc_client_stat clients[MODEL_CLIENTS];
	struct kvc_slab_stat slabs[2];
	struct kvc_cache_stat cache;
	u64 sums[3][6] = { { 0 } }, all[6] = { stat->free,   stat->private_pages, stat->moving,
					       stat->sealed, stat->cached,	  stat->quarantined };
	u64 privates = 0, refs = 0, want = 0;
	u32 i, k, n, from = 0, pages = 0, nr_slabs = 0;
	int c;

	for (i = 0; !kvc_cache_stat(d->pool[p], i, &cache); i++) {
		u64 part[6] = { cache.free,   cache.private_pages, cache.moving,
				cache.sealed, cache.cached,	   cache.quarantined };

		for (k = 0; k < 6; k++)
			sums[0][k] += part[k];
		pages += cache.slabs * cache.pages;
	}
	do {
		n = kvc_slabs(d->pool[p], &from, slabs, 2);
		for (i = 0; i < n; i++) {
			u64 part[6] = { slabs[i].free,	 slabs[i].private_pages, slabs[i].moving,
					slabs[i].sealed, slabs[i].cached,	 slabs[i].quarantined };

			for (k = 0; k < 6; k++)
				sums[1][k] += part[k];
			nr_slabs++;
		}
	} while (from);
	if (memcmp(sums[0], all, sizeof(all)) || memcmp(sums[1], all, sizeof(all)) ||
	    pages != all[0] + all[1] + all[2] + all[3] + all[4] + all[5] ||
	    nr_slabs != stat->slabs)
		driver_wrong(d, "pool %d: its caches or slabs do not add up", p);
	n = kvc_clients(d->pool[p], clients, MODEL_CLIENTS);
	for (i = 0; i < n; i++) {
		privates += clients[i].private_pages;
		refs += clients[i].references;
	}
	for (c = 0; c < MODEL_CLIENTS; c++)
		if (d->client[c] && d->client_pool[c] == p)
			want += model_references(&d->m, c);
	if (n != stat->clients || privates != stat->private_pages || refs != want)
		driver_wrong(d, "pool %d: %u clients have %llu private pages and %llu references", p,
			     n, (unsigned long long)privates, (unsigned long long)refs);
}

static void compare(struct driver *d)
{
	struct model_count count;
	struct kvc_stat stat;
	u64 pages;
	u32 x;
	int p;

	for (p = 0; p < MODEL_POOLS && !d->why[0]; p++) {
		if (!d->pool[p])
			continue;
		model_count(&d->m, p, &count);
		kvc_stat(d->pool[p], &stat);
		if (count.private_pages != stat.private_pages || count.sealed != stat.sealed ||
		    count.cached != stat.cached || count.quarantined != stat.quarantined ||
		    stat.moving)
			driver_wrong(
				d,
				"pool %d: private sealed cached quarantined moving %llu %llu %llu %llu %llu, model %llu %llu %llu %llu",
				p, (unsigned long long)stat.private_pages,
				(unsigned long long)stat.sealed, (unsigned long long)stat.cached,
				(unsigned long long)stat.quarantined,
				(unsigned long long)stat.moving,
				(unsigned long long)count.private_pages,
				(unsigned long long)count.sealed, (unsigned long long)count.cached,
				(unsigned long long)count.quarantined);
		if (stat.seals != d->seals[p] || stat.lookups != d->lookups[p] ||
		    stat.lookup_asked != d->asked[p] || stat.lookup_hits != d->hits[p])
			driver_wrong(d, "pool %d: counts of seals and lookups are wrong", p);
		if (stat.held > stat.max || stat.arena_backing)
			driver_wrong(d, "pool %d: holds %llu, backing %llu", p,
				     (unsigned long long)stat.held,
				     (unsigned long long)stat.arena_backing);
		for (x = 0, pages = 0; x < d->m.nr; x++)
			pages += d->m.extent[x].pool == p ? d->m.extent[x].pages : 0;
		if (stat.free + stat.private_pages + stat.sealed + stat.cached + stat.quarantined <
		    pages)
			driver_wrong(d, "pool %d: pages are missing", p);
		compare_parts(d, p, &stat);
	}
}

/* What client @c finds at page @x, @i: in its own pool whatever there is, to be written by its
 * holder. */
static void look_at(struct driver *d, int c, u32 x, u32 i)
{
	struct model_extent *e = &d->m.extent[x];
	struct model_page *page = &e->page[i];
	u32 size = KVC_EXTENT_SIZE / KVC_FRAME_SIZE / e->pages * KVC_FRAME_SIZE;
	bool mine = d->client_pool[c] == e->pool, writable;
	struct kvc_at at;
	int r = kvc_page_at(d->pool[d->client_pool[c]], d->client[c], x,
			    i * size + driver_below(d, size), &at);

	writable = page->state == MODEL_PRIVATE && page->holder == c;
	if (r != (mine ? 0 : -ENXIO) ||
	    (!r && (at.writable != writable || !at.readable || at.sealing || at.size != size ||
		    at.index != i || at.offset != i * size)))
		driver_wrong(d, "extent %u page %u: client %d finds %d writable %d readable %d", x,
			     i, c, r, at.writable, at.readable);
}

/* Who may see page @x, @i: its holders and nobody else. */
static void look(struct driver *d, u32 x, u32 i)
{
	struct model_page *page = &d->m.extent[x].page[i];
	u64 handle = kvc_handle(0, x, i, page->generation);
	struct kvc_where where;
	int c, r, want;

	for (c = 0; c < MODEL_CLIENTS; c++) {
		if (!d->client[c] || running(d, c))
			continue;
		look_at(d, c, x, i);
		r = kvc_where(d->client[c], handle, &where);
		want = model_live(&d->m, handle) && model_holds(page, c) ? 0 : -EBADF;
		if (!want && (where.extent != x ||
			      where.size != KVC_EXTENT_SIZE / KVC_FRAME_SIZE /
						    d->m.extent[x].pages * KVC_FRAME_SIZE ||
			      where.offset != i * where.size ||
			      where.writable != (page->state == MODEL_PRIVATE)))
			driver_wrong(d, "extent %u page %u: shown at %u+%u size %u writable %d", x,
				     i, where.extent, where.offset, where.size, where.writable);
		if (!r != !want || (r && r != -EBADF && r != -ESTALE))
			driver_wrong(d, "extent %u page %u: client %d may look: %d, model %d", x, i,
				     c, r, want);
	}
}

bool driver_step(struct driver *d)
{
	struct call *c = running(d, -1), *free_call = NULL;
	u32 i, tries, x = driver_below(d, d->m.nr);

	pins(d);
	come_and_go(d);
	for (i = 0; i < 2; i++)
		if (!d->call[i].running)
			free_call = &d->call[i];
	if (c && (!free_call || driver_below(d, 2))) {
		advance(d, c);
	} else {
		for (tries = 0; tries < 20; tries++) {
			i = driver_below(d, MODEL_CLIENTS);
			if (d->client[i] && !running(d, i))
				break;
		}
		if (tries < 20) {
			begin(d, free_call, i);
			/* Three of four go on to their end; the rest waits for others to run in
			 * between. */
			for (x = driver_below(d, 4); free_call->running && x && !d->why[0];)
				advance(d, free_call);
			x = driver_below(d, d->m.nr);
		}
	}
	if (!d->why[0] && kvc_check(d->env.arena, d->why, sizeof(d->why)))
		return false;
	if (!running(d, -1))
		compare(d);
	for (i = 0; !running(d, -1) && i < d->m.extent[x].pages; i++)
		look(d, x, i);
	return !d->why[0];
}

void driver_init(struct driver *d, u64 seed)
{
	u32 x;

	memset(d, 0, sizeof(*d));
	d->seed = seed;
	d->m.nr = 4 + driver_below(d, MODEL_EXTENTS - 4);
	d->env.decline = decline;
	d->env.pinned = pinned;
	d->env.zap = zapped;
	d->env.release = released;
	d->env.data = d;
	for (x = 0; x < MODEL_EXTENTS; x++)
		d->m.extent[x].pool = d->m.extent[x].cache = -1;
	if (driver_below(d, 4))
		core_arena(&d->env, 0, d->m.nr);
	else
		core_arena_device(&d->env, 0, d->m.nr, driver_below(d, 1 << 20));
}

bool driver_end(struct driver *d)
{
	struct call *c;
	int p;

	while ((c = running(d, -1)) && !d->why[0])
		advance(d, c);
	for (p = 0; p < MODEL_POOLS && !d->why[0]; p++)
		if (d->pool[p])
			end_pool(d, p);
	if (d->why[0])
		return false;
	if (kvc_check(d->env.arena, d->why, sizeof(d->why)))
		return false;
	core_arena_free(&d->env);
	return true;
}
