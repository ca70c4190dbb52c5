// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* What random calls are made with: mostly what the client holds, sometimes what it does not, or
 * nonsense. */
#include "core_driver.h"

#define CHAIN 8 /* hashes in a chain; their numbers follow each other */
#define CHAINS 6

static u64 next(struct driver *d)
{
	u64 z = (d->seed += 0x9e3779b97f4a7c15u);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

u32 driver_below(struct driver *d, u32 n)
{
	return next(d) % n;
}

/* Handles that the client holds, each as often as it has references (a few at most). */
static u32 holdings(struct driver *d, struct call *c, bool privs, bool sealed, u64 *out, u32 max)
{
	struct model_page *page;
	u32 x, i, k, n = 0;

	for (x = 0; x < d->m.nr; x++) {
		for (i = 0; i < d->m.extent[x].pages; i++) {
			page = &d->m.extent[x].page[i];
			if (privs && page->state == MODEL_PRIVATE && page->holder == c->client &&
			    n < max)
				out[n++] = kvc_handle(0, x, i, page->generation);
			for (k = 0; sealed && k < page->refs[c->client] && k < 3 && n < max; k++)
				out[n++] = kvc_handle(0, x, i, page->generation);
		}
	}
	for (k = n; k > 1; k--) { /* shuffled */
		u64 t = out[k - 1];

		i = driver_below(d, k);
		out[k - 1] = out[i];
		out[i] = t;
	}
	return n;
}

static u64 wrong_handle(struct driver *d)
{
	u32 x = driver_below(d, d->m.nr),
	    i = driver_below(d, d->m.extent[x].pages ? d->m.extent[x].pages : 2);
	u64 handle = kvc_handle(0, x, i, d->m.extent[x].page[i].generation);

	switch (driver_below(d, 8)) {
	case 0:
		return 0;
	case 1:
		return next(d);
	case 2: /* a page that somebody, perhaps another, holds or held */
		return handle;
	case 3:
		return kvc_handle(0, x, i,
				  d->m.extent[x].page[i].generation + 1000 + driver_below(d, 1000));
	case 4:
		return handle | 1ull << 58;
	case 5:
		return kvc_handle(0, x, 512 + driver_below(d, 512), 1);
	default:
		return d->nr_dead ? d->dead[driver_below(d, d->nr_dead < DEAD ? d->nr_dead : DEAD)]
					    .handle
				  : 0;
	}
}

static u32 batch(struct driver *d, u32 most)
{
	u32 n = driver_below(d, 64);

	if (n == 0)
		return 0;
	if (n == 1)
		return KVC_BATCH_MAX;
	if (n == 2)
		return KVC_BATCH_MAX + 1;
	return 1 + driver_below(d, most);
}

static void fill_handles(struct driver *d, struct call *c, bool privs, bool sealed)
{
	u32 k, had = holdings(d, c, privs, sealed, c->pages, KVC_BATCH_MAX);

	c->n = batch(d, had && driver_below(d, 4) ? had : 4);
	if (c->n > had && c->n < KVC_BATCH_MAX && had && driver_below(d, 8))
		c->n = had;
	for (k = had; k < c->n; k++)
		c->pages[k] = had ? c->pages[driver_below(d, had)] : wrong_handle(d);
	if (c->n && driver_below(d, 12) == 0)
		c->pages[driver_below(d, c->n)] = wrong_handle(d);
	if (c->n > 1 && driver_below(d, 24) == 0)
		c->pages[driver_below(d, c->n)] = c->pages[driver_below(d, c->n)];
}

static void fill_hashes(struct driver *d, struct call *c)
{
	u32 k, first = 1 + CHAIN * driver_below(d, CHAINS);

	if (c->kind == CALL_SEAL && driver_below(d, 2))
		first += driver_below(d, CHAIN);
	for (k = 0; k < c->n; k++) {
		c->hash[k] = first + k % (2 * CHAIN);
		if (driver_below(d, 60) == 0)
			c->hash[k] = 1 + driver_below(d, CHAIN * CHAINS);
		core_hash(c->hashes[k], c->hash[k]);
	}
}

static void fill_seals(struct driver *d, struct call *c)
{
	u32 k, cache;

	fill_handles(d, c, true, false);
	/* Mostly of one cache. */
	for (k = 1; k < c->n && k < KVC_BATCH_MAX && driver_below(d, 20); k++) {
		cache = d->m.extent[kvc_handle_extent(c->pages[0]) % d->m.nr].cache;
		if ((u32)d->m.extent[kvc_handle_extent(c->pages[k]) % d->m.nr].cache != cache)
			c->n = k;
	}
	if (c->n > 8 && c->n < KVC_BATCH_MAX && driver_below(d, 4))
		c->n = 8;
	fill_hashes(d, c);
	memset(c->seals, 0, sizeof(c->seals));
	for (k = 0; k < c->n; k++) {
		c->seals[k].page = c->pages[k];
		memcpy(c->seals[k].hash, c->hashes[k], KVC_HASH_SIZE);
		core_hash(c->seals[k].parent, c->hash[k] - 1);
		c->seals[k].depth = (c->hash[k] - 1) % CHAIN;
		c->seals[k].class = driver_below(d, 3);
		c->seals[k].flags = c->seals[k].depth ? 0 : KVC_SEAL_ROOT;
		if (driver_below(d, 600) == 0)
			c->seals[k].class = KVC_CLASSES;
		if (driver_below(d, 600) == 0)
			c->seals[k].flags = 2;
	}
}

static enum call_kind choose(struct driver *d)
{
	u32 n = driver_below(d, 200);

	return n < 60	 ? CALL_ALLOC
	       : n < 100 ? CALL_FREE
	       : n < 112 ? CALL_GET
	       : n < 152 ? CALL_SEAL
	       : n < 190 ? CALL_LOOKUP
	       : n < 193 ? CALL_EXIT
	       : n < 197 ? CALL_RECLAIM
			 : CALL_UNQUARANTINE;
}

void driver_fill(struct driver *d, struct call *c)
{
	struct model_pool *p = &d->m.pool[c->pool];
	u32 caches = 0;

	while (p->pages[caches])
		caches++;
	c->kind = choose(d);
	c->cache = driver_below(d, 40) ? driver_below(d, caches) : caches + driver_below(d, 20);
	c->flags = 0;
	c->decline = driver_below(d, 10) == 0;
	switch (c->kind) {
	case CALL_ALLOC:
		c->n = batch(d, driver_below(d, 3) ? 4 : 40);
		c->flags = driver_below(d, 50) == 0 ? 2 : driver_below(d, 3) == 0;
		break;
	case CALL_FREE:
		fill_handles(d, c, true, true);
		break;
	case CALL_GET:
		fill_handles(d, c, driver_below(d, 8) == 0, true);
		break;
	case CALL_SEAL:
		fill_seals(d, c);
		break;
	case CALL_LOOKUP:
		c->n = batch(d, 10);
		fill_hashes(d, c);
		break;
	default:
		c->n = 1 + driver_below(d, 4);
	}
}
