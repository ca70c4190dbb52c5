// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The debug walk. With every lock of an arena held it recomputes from the pages and records what
 * the counts, lists and bins say. Slow on purpose: nothing is taken from where it is checked.
 */
#include "state.h"

struct walk {
	struct kvc_arena *arena;
	char *why;
	size_t n;
	bool broken;
	u32 untold; /* pools */
	u32 reserved; /* extents whose slab goes for another pool */
};

#define RULE(w, good, ...)                                               \
	do {                                                             \
		if (!(good) && !(w)->broken) {                           \
			(w)->broken = true;                              \
			if ((w)->n)                                      \
				snprintf((w)->why, (w)->n, __VA_ARGS__); \
		}                                                        \
	} while (0)

/* ---- locks ---- */

static void lock_clients(struct kvc_pool *pool, bool take)
{
	struct kvc_client *client;
	struct kvc_list *l;

	kvc_list_for(l, &pool->clients) {
		client = container_of(l, struct kvc_client, node);
		if (take)
			kvc_lock_take_nested(&client->lock);
		else
			kvc_lock_drop_nested(&client->lock);
	}
}

static void lock_caches(struct kvc_pool *pool, bool take)
{
	u32 i;

	for (i = 0; i < KVC_CACHES_MAX && pool->cache[i]; i++) {
		if (take)
			kvc_lock_take_nested(&pool->cache[i]->lock);
		else
			kvc_lock_drop_nested(&pool->cache[i]->lock);
	}
}

static void lock_all(struct kvc_arena *arena)
{
	struct kvc_list *l;
	u32 level;

	kvc_walk_begin();
	kvc_lock_take_nested(&arena->pools);
	for (level = 2; level <= 5; level++) {
		kvc_list_for(l, &arena->list) {
			struct kvc_pool *pool = container_of(l, struct kvc_pool, node);

			if (level == 2)
				kvc_lock_take_nested(&pool->lock);
			else if (level == 3)
				lock_clients(pool, true);
			else if (level == 4)
				lock_caches(pool, true);
			else
				kvc_lock_take_nested(&pool->index.lock);
		}
	}
	kvc_lock_take_nested(&arena->lock);
}

static void unlock_all(struct kvc_arena *arena)
{
	struct kvc_list *l;

	kvc_lock_drop_nested(&arena->lock);
	kvc_list_for(l, &arena->list) {
		struct kvc_pool *pool = container_of(l, struct kvc_pool, node);

		kvc_lock_drop_nested(&pool->index.lock);
		lock_caches(pool, false);
		lock_clients(pool, false);
		kvc_lock_drop_nested(&pool->lock);
	}
	kvc_lock_drop_nested(&arena->pools);
	kvc_walk_end();
}

/* ---- slabs ---- */

static bool on(struct kvc_list *l, struct kvc_list *head)
{
	struct kvc_list *i;

	kvc_list_for(i, head)
		if (i == l)
			return true;
	return false;
}

struct tally { /* of one slab */
	u32 states[KVC_STATES];
	u32 foreign; /* private to others than the owner */
	u32 referenced, cached;
	u32 nr_private[2]; /* in the owner's record, in others */
};

/* What the clients say of a page, against its state. */
static void check_page(struct walk *w, struct kvc_slab *slab, u32 i, struct tally *t)
{
	struct kvc_entry *entry = &slab->entry[i];
	u32 state = slab->page[i].state, privates = 0, sealing = 0, x = slab->extent;
	struct kvc_record *record;
	struct kvc_list *l;
	u64 refs = 0;

	kvc_list_for(l, &slab->pool->clients) {
		record = container_of(l, struct kvc_client, node)->map[x];
		if (!record || !record->refs[i])
			continue;
		if (record->refs[i] == KVC_HELD_SEALING) {
			sealing++;
		} else if (record->refs[i] > KVC_REFS_MAX) {
			privates++;
			t->foreign += !record->owner;
		} else {
			refs += record->refs[i];
		}
	}
	RULE(w, privates == (state == KVC_PRIVATE),
	     "extent %u page %u: state %u, private to %u clients", x, i, state, privates);
	RULE(w, !sealing || (sealing == 1 && state == KVC_SEALING),
	     "extent %u page %u: state %u, sealed by %u", x, i, state, sealing);
	RULE(w, refs == (state == KVC_INDEXED ? entry->refs : 0),
	     "extent %u page %u: state %u, %u references, clients have %llu", x, i, state,
	     entry->refs, (unsigned long long)refs);
	RULE(w, state < KVC_STATES, "extent %u page %u: state %u", x, i, state);
	if (w->broken)
		return;
	t->states[state]++;
	if (state != KVC_INDEXED)
		return;
	RULE(w, kvc_find(&slab->pool->index, slab->cache->id, entry->hash) == entry,
	     "extent %u page %u: sealed, but its hash is not in the index", x, i);
	if (entry->refs)
		t->referenced++;
	else
		t->cached++;
}

static void check_ring(struct walk *w, struct kvc_slab *slab)
{
	u64 seen[KVC_PAGES_MAX / 64] = { 0 };
	u32 k, slot = slab->head, i;

	for (k = 0; k < slab->nr_free && !w->broken; k++) {
		i = slab->page[slot].ring;
		RULE(w, i < slab->pages && !kvc_bit(seen, i) && slab->page[i].state == KVC_FREE,
		     "extent %u: ring slot %u has page %u, not free or twice there", slab->extent,
		     slot, i);
		if (!w->broken)
			seen[i / 64] |= 1ull << (i % 64);
		if (++slot == slab->pages)
			slot = 0;
	}
}

static void check_owner(struct walk *w, struct kvc_slab *slab)
{
	struct kvc_record *owner = slab->owner;
	u32 x = slab->extent;
	struct kvc_share *share;

	if (!owner) {
		RULE(w,
		     slab->transit || slab->going ||
			     on(&slab->bin, &slab->cache->bin[slab->nr_free]),
		     "extent %u: ownerless, %u free pages, not in its bin", x, slab->nr_free);
		RULE(w, slab->nr_free < slab->pages || slab->going || slab->cache->pinned,
		     "extent %u: ownerless, all pages free, still there", x);
		return;
	}
	share = &owner->client->share[owner->cache];
	RULE(w, owner->owner && owner->slab == slab && owner->client->map[x] == owner,
	     "extent %u: its owner does not know of it", x);
	RULE(w, !slab->transit && !slab->going, "extent %u: has an owner on its way", x);
	RULE(w, owner->nr_private || owner->nr_sealing || slab->nr_free == slab->pages,
	     "extent %u: owner without private pages, yet only %u of %u free", x, slab->nr_free,
	     slab->pages);
	RULE(w, on(&owner->node, slab->nr_free ? &share->room : &share->full),
	     "extent %u: %u pages free, in the wrong list of its owner", x, slab->nr_free);
	RULE(w, kvc_list_empty(&slab->bin), "extent %u: has an owner and is in a bin", x);
}

static void check_slab(struct walk *w, struct kvc_slab *slab, struct tally *all)
{
	struct kvc_pool *pool = slab->pool;
	struct tally t = { 0 };
	u32 i, holds, x = slab->extent;

	for (i = 0; i < slab->pages && !w->broken; i++)
		check_page(w, slab, i, &t);
	if (w->broken)
		return;
	check_ring(w, slab);
	check_owner(w, slab);
	RULE(w, t.states[KVC_FREE] == slab->nr_free, "extent %u: %u free pages, counted as %u", x,
	     t.states[KVC_FREE], slab->nr_free);
	RULE(w, t.states[KVC_INDEXED] == slab->nr_indexed,
	     "extent %u: %u sealed or cached, counted as %u", x, t.states[KVC_INDEXED],
	     slab->nr_indexed);
	RULE(w, t.referenced == slab->nr_ref, "extent %u: %u referenced, counted as %u", x,
	     t.referenced, slab->nr_ref);
	RULE(w,
	     t.states[KVC_QUARANTINED] == slab->nr_quarantined &&
		     on(&slab->quarantine, &pool->quarantine) == !!slab->nr_quarantined,
	     "extent %u: %u quarantined, counted as %u", x, t.states[KVC_QUARANTINED],
	     slab->nr_quarantined);
	holds = slab->cache->pinned + !!slab->owner + t.foreign + t.states[KVC_MOVING] +
		t.states[KVC_SEALING] + t.states[KVC_QUARANTINED] + !!t.referenced;
	RULE(w,
	     slab->owner_id == (slab->owner ? kvc_client_id(slab->owner->client) : 0),
	     "extent %u: the owner's id is another", x);
	RULE(w, holds == slab->holds || slab->going,
	     "extent %u: held for %u reasons, counted as %u", x, holds, slab->holds);
	RULE(w, on(&slab->idle, &pool->idle[slab->nr_indexed]) == (!slab->holds && !slab->going),
	     "extent %u: held for %u reasons, in the wrong list of its pool", x, slab->holds);
	for (i = 0; i < KVC_STATES; i++)
		all->states[i] += t.states[i];
	all->referenced += t.referenced;
	all->cached += t.cached;
}

/* ---- clients ---- */

static void check_record(struct walk *w, struct kvc_client *client, struct kvc_record *record,
			 u32 *privates)
{
	u32 i, privs = 0, sealing = 0, refd = 0, x = record->slab->extent;

	RULE(w,
	     client->map[x] == record && record->client == client &&
		     w->arena->extent[x].slab == record->slab,
	     "client %llu: a record of extent %u, which is not there",
	     (unsigned long long)client->serial, x);
	if (w->broken)
		return;
	for (i = 0; i < record->pages; i++) {
		if (record->refs[i] == KVC_HELD_SEALING)
			sealing++;
		else if (record->refs[i] > KVC_REFS_MAX)
			privs++;
		else if (record->refs[i])
			refd++;
	}
	RULE(w,
	     privs == record->nr_private && sealing == record->nr_sealing &&
		     refd == record->nr_refd,
	     "client %llu extent %u: %u private %u sealing %u referenced, counted as %u %u %u",
	     (unsigned long long)client->serial, x, privs, sealing, refd, record->nr_private,
	     record->nr_sealing, record->nr_refd);
	RULE(w, record->owner == (record->slab->owner == record),
	     "client %llu extent %u: owner or not", (unsigned long long)client->serial, x);
	RULE(w, record->owner || privs || sealing || refd, "client %llu extent %u: an empty record",
	     (unsigned long long)client->serial, x);
	*privates += privs;
}

static void check_share(struct walk *w, struct kvc_client *client, struct kvc_share *share,
			u32 *records)
{
	struct kvc_list *lists[3] = { &share->room, &share->full, &share->guest }, *l;
	u32 i, k, privates = 0, nr_free = 0, spares = 0, own = 0;
	struct kvc_record *record;
	u64 refs = 0;

	for (i = 0; i < 3; i++) {
		kvc_list_for(l, lists[i]) {
			record = container_of(l, struct kvc_record, node);
			++*records;
			check_record(w, client, record, &privates);
			if (w->broken)
				return;
			RULE(w, record->owner == (i < 2),
			     "client %llu extent %u: in the wrong list",
			     (unsigned long long)client->serial, record->slab->extent);
			nr_free += i < 2 ? record->slab->nr_free : 0;
			own += i < 2;
			for (k = 0; k < record->pages; k++)
				refs += record->refs[k] <= KVC_REFS_MAX ? record->refs[k] : 0;
			RULE(w, i || !spares || record->slab->nr_free == record->slab->pages,
			     "client %llu extent %u: behind a spare",
			     (unsigned long long)client->serial, record->slab->extent);
			spares += i < 2 && record->slab->nr_free == record->slab->pages;
		}
	}
	RULE(w,
	     privates == share->nr_private && nr_free == share->nr_free &&
		     spares == share->nr_spares,
	     "client %llu: %u private %u free %u spare slabs, counted as %u %u %u",
	     (unsigned long long)client->serial, privates, nr_free, spares, share->nr_private,
	     share->nr_free, share->nr_spares);
	RULE(w, own == share->nr_own && refs == share->nr_refs,
	     "client %llu: %u own slabs %llu references, counted as %u %llu",
	     (unsigned long long)client->serial, own, (unsigned long long)refs, share->nr_own,
	     (unsigned long long)share->nr_refs);
}

static void check_client(struct walk *w, struct kvc_client *client)
{
	u32 i, records = 0, mapped = 0;

	for (i = 0; i < KVC_CACHES_MAX && !w->broken; i++)
		check_share(w, client, &client->share[i], &records);
	for (i = 0; i < w->arena->nr; i++)
		mapped += !!client->map[i];
	RULE(w, records == mapped, "client %llu: %u records, %u in its map",
	     (unsigned long long)client->serial, records, mapped);
}

/* ---- pools ---- */

static void check_cache(struct walk *w, struct kvc_cache *cache)
{
	struct kvc_entry *entry, *before;
	struct kvc_list *l;
	struct kvc_slab *slab;
	u32 i, nr_free = 0, cached = 0;

	for (i = 0; i <= cache->pages; i++) {
		RULE(w, kvc_bit(cache->bins, i) == !kvc_list_empty(&cache->bin[i]),
		     "cache %u: bit and bin %u differ", cache->id, i);
		kvc_list_for(l, &cache->bin[i]) {
			slab = container_of(l, struct kvc_slab, bin);
			RULE(w, !slab->owner && slab->cache == cache && slab->nr_free == i,
			     "extent %u: does not belong into bin %u", slab->extent, i);
			nr_free += i;
		}
	}
	RULE(w, nr_free == cache->nr_free, "cache %u: %u free in bins, counted as %u", cache->id,
	     nr_free, cache->nr_free);
	for (i = 0; i < KVC_CLASSES; i++) {
		before = NULL;
		kvc_list_for(l, &cache->evict[i]) {
			entry = container_of(l, struct kvc_entry, node);
			RULE(w,
			     !entry->refs && entry->class == i && entry->slab->cache == cache &&
				     entry->slab->page[entry->index].state == KVC_INDEXED,
			     "extent %u page %u: referenced, or of another class, and to be evicted",
			     entry->slab->extent, entry->index);
			RULE(w,
			     !before || before->stamp < entry->stamp ||
				     (before->stamp == entry->stamp &&
				      before->depth >= entry->depth),
			     "extent %u page %u: out of the order of eviction", entry->slab->extent,
			     entry->index);
			before = entry;
			cached++;
		}
	}
	kvc_list_for(l, &cache->parked) {
		struct kvc_list *p;

		slab = container_of(l, struct kvc_slab, park);
		RULE(w, !kvc_list_empty(&slab->parked) && (!slab->holds || slab->going),
		     "extent %u: held for %u reasons, and its pages are parked, or none is",
		     slab->extent, slab->holds);
		before = NULL;
		kvc_list_for(p, &slab->parked) {
			entry = container_of(p, struct kvc_entry, node);
			RULE(w, !entry->refs && entry->slab == slab,
			     "extent %u page %u: parked elsewhere, or referenced", slab->extent,
			     entry->index);
			RULE(w,
			     !before || before->class < entry->class ||
				     (before->class == entry->class &&
				      (before->stamp < entry->stamp ||
				       (before->stamp == entry->stamp &&
					before->depth >= entry->depth))),
			     "extent %u page %u: parked out of order", slab->extent, entry->index);
			before = entry;
			cached++;
		}
	}
	RULE(w, cached == cache->nr_cached, "cache %u: %u pages to evict, counted as %u", cache->id,
	     cached, cache->nr_cached);
}

static void check_pool(struct walk *w, struct kvc_pool *pool, u32 *committed, u32 *backing)
{
	struct kvc_arena *arena = w->arena;
	struct tally all = { 0 };
	u32 i, slabs = 0, held = 0, idle[KVC_CACHES_MAX] = { 0 }, in[KVC_CACHES_MAX] = { 0 };
	u64 leaving = 0, quarantined = 0, moving = 0;
	struct kvc_slab *slab;
	struct kvc_list *l;

	kvc_list_for(l, &pool->clients)
		check_client(w, container_of(l, struct kvc_client, node));
	for (i = 0; i < KVC_CACHES_MAX && pool->cache[i] && !w->broken; i++)
		check_cache(w, pool->cache[i]);
	for (i = 0; i < arena->nr && !w->broken; i++) {
		slab = arena->extent[i].slab;
		if (!slab || slab->pool != pool)
			continue;
		check_slab(w, slab, &all);
		slabs++;
		held += !!slab->holds;
		in[slab->cache->id]++;
		idle[slab->cache->id] += !slab->holds && !slab->going;
		leaving += slab->going;
		w->reserved += slab->reuse;
	}
	for (i = 0; i < KVC_CACHES_MAX && pool->cache[i]; i++) {
		RULE(w, in[i] == pool->cache[i]->nr_slabs && idle[i] == pool->cache[i]->nr_idle,
		     "cache %u: %u slabs, %u idle, counted as %u, %u", i, in[i], idle[i],
		     pool->cache[i]->nr_slabs, pool->cache[i]->nr_idle);
		quarantined += pool->cache[i]->nr_quarantined;
		moving += pool->cache[i]->nr_moving;
	}
	RULE(w, slabs == pool->slabs, "pool: %u slabs, counted as %u", slabs, pool->slabs);
	RULE(w, held + pool->backing == pool->held,
	     "pool: %u slabs held, %u backing, counted as %u", held, pool->backing, pool->held);
	RULE(w, pool->held <= pool->max, "pool: holds %u of at most %u extents", pool->held,
	     pool->max);
	all.states[KVC_MOVING] += all.states[KVC_SEALING];
	RULE(w, all.states[KVC_MOVING] == pool->nr_moving && moving == pool->nr_moving,
	     "pool: %u pages moving, counted as %llu and %llu", all.states[KVC_MOVING],
	     (unsigned long long)pool->nr_moving, (unsigned long long)moving);
	RULE(w,
	     all.states[KVC_QUARANTINED] == pool->nr_quarantined &&
		     quarantined == pool->nr_quarantined,
	     "pool: %u pages quarantined, counted as %llu and %llu", all.states[KVC_QUARANTINED],
	     (unsigned long long)pool->nr_quarantined, (unsigned long long)quarantined);
	RULE(w, all.states[KVC_INDEXED] == pool->index.nr,
	     "pool: %u pages in the index, counted as %llu", all.states[KVC_INDEXED],
	     (unsigned long long)pool->index.nr);
	RULE(w, leaving <= pool->busy, "pool: %llu slabs going, %u busy",
	     (unsigned long long)leaving, pool->busy);
	for (i = 0; i <= KVC_PAGES_MAX; i++)
		RULE(w, kvc_bit(pool->idles, i) == !kvc_list_empty(&pool->idle[i]),
		     "pool: bit and list %u of idle slabs differ", i);
	*committed += pool->held > pool->min ? pool->held : pool->min;
	*backing += pool->backing;
}

static void check_waiters(struct walk *w, struct kvc_pool *pool)
{
	struct kvc_client *client;
	struct kvc_list *l;
	u32 waits = 0, in_list = 0;

	kvc_list_for(l, &pool->clients) {
		client = container_of(l, struct kvc_client, node);
		waits += client->waits;
		RULE(w, client->tell || !pool->untold, "client %llu: does not know that one waits",
		     (unsigned long long)client->serial);
	}
	kvc_list_for(l, &pool->waiters)
		in_list++;
	RULE(w, waits == in_list && pool->untold == (in_list && !pool->told),
	     "pool: %u clients wait, %u are in the list, told %d untold %d", waits, in_list,
	     pool->told, pool->untold);
	RULE(w, pool->pressure == pool->told_pressure || w->arena->attention,
	     "pool: pressure is %d, and nobody will be told", pool->pressure);
	w->untold += pool->untold;
}

static void check_index(struct walk *w, struct kvc_pool *pool)
{
	struct kvc_index *index = &pool->index;
	struct kvc_entry *entry;
	u64 b, nr = 0;

	for (b = 0; b <= index->mask; b++)
		for (entry = index->table[b]; entry && nr <= index->nr; entry = entry->next)
			nr++;
	for (b = index->moved; index->old && b <= index->old_mask; b++)
		for (entry = index->old[b]; entry && nr <= index->nr; entry = entry->next)
			nr++;
	RULE(w, nr == index->nr, "pool: %llu entries in the index, counted as %llu",
	     (unsigned long long)nr, (unsigned long long)index->nr);
	for (b = 0, nr = 0; b < KVC_CACHES_MAX && pool->cache[b]; b++)
		nr += pool->cache[b]->nr_indexed;
	RULE(w, nr == index->nr, "pool: caches have %llu entries in the index, of %llu",
	     (unsigned long long)nr, (unsigned long long)index->nr);
}

int kvc_check(struct kvc_arena *arena, char *why, size_t n)
{
	struct walk w = { .arena = arena, .why = why, .n = n };
	u32 i, states[3] = { 0 }, committed = 0, backing = 0, in_list = 0, pools = 0;
	struct kvc_list *l;
	u64 quarantined = 0;

	lock_all(arena);
	kvc_list_for(l, &arena->list) {
		if (w.broken)
			break;
		check_pool(&w, container_of(l, struct kvc_pool, node), &committed, &backing);
		check_waiters(&w, container_of(l, struct kvc_pool, node));
		check_index(&w, container_of(l, struct kvc_pool, node));
		quarantined += container_of(l, struct kvc_pool, node)->nr_quarantined;
		pools++;
	}
	for (i = 0; i < arena->nr; i++) {
		states[arena->extent[i].state]++;
		RULE(&w, !arena->extent[i].slab == (arena->extent[i].state != KVC_EXTENT_SLAB),
		     "extent %u: state %u and a slab, or none", i, arena->extent[i].state);
	}
	for (i = arena->free; i != KVC_NONE && in_list <= arena->nr; i = arena->extent[i].next)
		in_list++;
	RULE(&w, states[KVC_EXTENT_FREE] == arena->nr_free && in_list == arena->nr_free,
	     "arena: %u free extents, %u in the list, counted as %u", states[KVC_EXTENT_FREE],
	     in_list, arena->nr_free);
	RULE(&w,
	     states[KVC_EXTENT_BACKING] == arena->nr_backing &&
		     backing <= arena->nr_backing + w.reserved,
	     "arena: %u extents backing, counted as %u, %u for pools", states[KVC_EXTENT_BACKING],
	     arena->nr_backing, backing);
	RULE(&w, committed == arena->committed && committed <= arena->nr,
	     "arena: %u extents committed, counted as %u, of %u", committed, arena->committed,
	     arena->nr);
	RULE(&w, !arena->device || (pools <= 1 && !quarantined),
	     "device arena: %u pools, %llu pages quarantined", pools,
	     (unsigned long long)quarantined);
	RULE(&w, w.untold == arena->untold, "arena: %u pools untold, counted as %u", w.untold,
	     arena->untold);
	unlock_all(arena);
	return w.broken ? -EUCLEAN : 0;
}
