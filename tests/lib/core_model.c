// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "core_model.h"

struct model_page *model_page(struct model *m, u64 handle)
{
	u32 x = kvc_handle_extent(handle), i = kvc_handle_index(handle);

	if (x >= m->nr || i >= MODEL_PAGES || m->extent[x].pool < 0 || i >= m->extent[x].pages)
		return NULL;
	return &m->extent[x].page[i];
}

struct model_page *model_live(struct model *m, u64 handle)
{
	struct model_page *page = model_page(m, handle);

	if (!page || page->generation != kvc_handle_generation(handle) ||
	    kvc_handle_arena(handle) || page->state == MODEL_FREE ||
	    page->state == MODEL_QUARANTINED)
		return NULL;
	return page;
}

struct model_page *model_find(struct model *m, int pool, int cache, u32 hash, u64 *handle)
{
	struct model_page *page;
	u32 x, i;

	for (x = 0; x < m->nr; x++) {
		for (i = 0; i < m->extent[x].pages; i++) {
			page = &m->extent[x].page[i];
			if (m->extent[x].pool != pool || m->extent[x].cache != cache ||
			    page->state != MODEL_SEALED || page->hash != hash)
				continue;
			if (handle)
				*handle = kvc_handle(0, x, i, page->generation);
			return page;
		}
	}
	return NULL;
}

bool model_holds(const struct model_page *page, int client)
{
	return ((page->state == MODEL_PRIVATE || page->state == MODEL_SEALING) &&
		page->holder == client) ||
	       page->refs[client];
}

bool model_has_record(struct model *m, u32 extent, int client)
{
	struct model_extent *e = &m->extent[extent];
	u32 i;

	for (i = 0; e->pool >= 0 && i < e->pages; i++)
		if (model_holds(&e->page[i], client))
			return true;
	return false;
}

bool model_is_held(const struct model_extent *e)
{
	const struct model_page *page;
	u32 i;

	for (i = 0; e->pool >= 0 && i < e->pages; i++) {
		page = &e->page[i];
		if (page->state == MODEL_FREE || (page->state == MODEL_SEALED && !page->all_refs))
			continue;
		return true;
	}
	return false;
}

void model_count(struct model *m, int pool, struct model_count *count)
{
	struct model_page *page;
	u32 x, i;

	memset(count, 0, sizeof(*count));
	for (x = 0; x < m->nr; x++) {
		for (i = 0; m->extent[x].pool == pool && i < m->extent[x].pages; i++) {
			page = &m->extent[x].page[i];
			count->private_pages += page->state == MODEL_PRIVATE;
			count->sealed += page->state == MODEL_SEALED && page->all_refs;
			count->cached += page->state == MODEL_SEALED && !page->all_refs;
			count->quarantined += page->state == MODEL_QUARANTINED;
		}
	}
}

bool model_any_quarantined(struct model *m)
{
	struct model_count count;
	int p;

	for (p = 0; p < MODEL_POOLS; p++) {
		model_count(m, p, &count);
		if (count.quarantined)
			return true;
	}
	return false;
}

static u32 held(struct model *m, int pool)
{
	u32 x, n = 0;

	for (x = 0; x < m->nr; x++)
		n += m->extent[x].pool == pool && model_is_held(&m->extent[x]);
	return n;
}

/* Extents that @pool may hold in addition, when all spares are gone. */
static u32 room(struct model *m, int pool, bool max)
{
	struct model_pool *p = &m->pool[pool];
	u32 h = held(m, pool), committed = 0, other, more;
	int i;

	for (i = 0; i < MODEL_POOLS; i++) {
		if (!m->pool[i].there)
			continue;
		other = held(m, i);
		committed += other > m->pool[i].min ? other : m->pool[i].min;
	}
	more = m->nr - committed + (h < p->min ? p->min - h : 0);
	if (max && more > p->max - h)
		more = p->max - h;
	return more;
}

u64 model_obtainable(struct model *m, int pool, int cache, bool max, bool quarantine)
{
	static struct model without; /* what is quarantined there is free here */
	struct model_page *page;
	u64 n = 0;
	u32 x, i;

	if (!quarantine) {
		without = *m;
		for (x = 0; x < m->nr; x++)
			for (i = 0; m->extent[x].pool == pool && i < MODEL_PAGES; i++)
				if (m->extent[x].page[i].state == MODEL_QUARANTINED)
					without.extent[x].page[i].state = MODEL_FREE;
		return model_obtainable(&without, pool, cache, max, true);
	}
	for (x = 0; x < m->nr; x++) {
		if (m->extent[x].pool != pool || m->extent[x].cache != cache ||
		    !model_is_held(&m->extent[x]))
			continue;
		for (i = 0; i < m->extent[x].pages; i++) {
			page = &m->extent[x].page[i];
			n += page->state == MODEL_FREE ||
			     (page->state == MODEL_SEALED && !page->all_refs);
		}
	}
	return n + (u64)room(m, pool, max) * m->pool[pool].pages[cache];
}

int model_may_hold(struct model *m, int pool)
{
	if (held(m, pool) >= m->pool[pool].max)
		return -EDQUOT;
	return room(m, pool, false) ? 0 : -ENOSPC;
}

static u32 cached_in(struct model *m, int x)
{
	u32 i, n = 0;

	for (i = 0; i < m->extent[x].pages; i++)
		n += m->extent[x].page[i].state == MODEL_SEALED;
	return n;
}

u32 model_idle(struct model *m, int pool)
{
	u32 x, n = 0;

	for (x = 0; x < m->nr; x++)
		n += m->extent[x].pool == pool && !model_is_held(&m->extent[x]) && cached_in(m, x);
	return n;
}

int model_fewest(struct model *m, int pool)
{
	int x, best = -1;

	for (x = 0; x < (int)m->nr; x++) {
		if (m->extent[x].pool != pool || model_is_held(&m->extent[x]) || !cached_in(m, x))
			continue;
		if (best < 0 || cached_in(m, x) < cached_in(m, best))
			best = x;
	}
	return best;
}

const char *model_evict_order(struct model *m, int pool, int cache, const struct model_page *page)
{
	struct model_page *other;
	u32 y, k;

	for (y = 0; y < m->nr; y++) {
		/* What nobody holds may be out of reach at a limit. */
		if (m->extent[y].pool != pool || m->extent[y].cache != cache ||
		    !model_is_held(&m->extent[y]))
			continue;
		for (k = 0; k < m->extent[y].pages; k++) {
			other = &m->extent[y].page[k];
			if (other->state != MODEL_SEALED || other->all_refs)
				continue;
			if (other->class < page->class)
				return "a lower class stays";
			if (other->class > page->class)
				continue;
			if (other->stamp < page->stamp && !other->loose && !page->loose)
				return "an older page stays";
			if (other->stamp == page->stamp && !page->loose && !other->loose &&
			    other->depth > page->depth)
				return "a deeper page stays";
		}
	}
	return NULL;
}

int model_wrong(struct model *m, u64 handle, int client, u32 life, int *maybe)
{
	u32 x = kvc_handle_extent(handle), i;
	struct model_page *page = model_page(m, handle);
	bool unused = true;

	*maybe = 0;
	if (kvc_handle_arena(handle) || !kvc_handle_generation(handle) || x >= m->nr)
		return -EBADF;
	/* A wholly free slab may be a spare of the client's, or of another's, or gone. */
	for (i = 0; i < m->extent[x].pages; i++)
		unused = unused && m->extent[x].page[i].state == MODEL_FREE;
	if (unused) {
		*maybe = -ESTALE;
		return -EBADF;
	}
	if (!model_has_record(m, x, client) || !page ||
	    kvc_handle_generation(handle) > page->generation || life != m->extent[x].life)
		return -EBADF;
	if (page->generation == kvc_handle_generation(handle) && page->state != MODEL_FREE &&
	    page->state != MODEL_QUARANTINED)
		return -EBADF;
	return -ESTALE;
}

u64 model_references(struct model *m, int client)
{
	u64 refs = 0;
	u32 x, i;

	for (x = 0; x < m->nr; x++)
		for (i = 0; i < m->extent[x].pages; i++)
			if (m->extent[x].page[i].state == MODEL_SEALED)
				refs += m->extent[x].page[i].refs[client];
	return refs;
}
