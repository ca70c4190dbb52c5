// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Cached pages for ALLOC, in the order of eviction: class, then stamp, then depth.
 *
 * A cached page in a slab that nobody holds is out of reach where the pool may hold no more. It is
 * *parked* then, in its slab, so that the next ALLOC does not pass it by again; a cache has its
 * slabs with parked pages in a list, by the first of each. Parked pages go back to their places
 * once somebody holds the slab; a slab with parked pages is one that nobody holds. Everything here
 * is under the index's lock.
 */
#include "state.h"

#define PARK_STEP 64 /* pages parked under one hold of the index's lock */

static struct kvc_entry *entry_of(struct kvc_list *node)
{
	return container_of(node, struct kvc_entry, node);
}

static bool before(const struct kvc_entry *a, const struct kvc_entry *b)
{
	if (a->class != b->class)
		return a->class < b->class;
	if (a->stamp != b->stamp)
		return a->stamp < b->stamp;
	return a->depth > b->depth;
}

static struct kvc_entry *first_parked(const struct kvc_slab *slab)
{
	return entry_of(slab->parked.next);
}

/* [5] held. Pages of a slab are met in their order, so each goes to the end. */
static void park(struct kvc_entry *entry)
{
	struct kvc_slab *slab = entry->slab;
	struct kvc_list *l;

	kvc_list_unlink(&entry->node);
	kvc_list_add_tail(&entry->node, &slab->parked);
	if (first_parked(slab) != entry)
		return;
	for (l = slab->cache->parked.prev; l != &slab->cache->parked; l = l->prev)
		if (before(first_parked(container_of(l, struct kvc_slab, park)), entry))
			break;
	kvc_list_add(&slab->park, l);
}

/* [5] held. Somebody holds the slab again. */
void kvc_unpark(struct kvc_slab *slab)
{
	struct kvc_list *l, *next, *at = NULL, *head = NULL;
	struct kvc_entry *entry;

	if (kvc_list_empty(&slab->parked))
		return;
	kvc_list_for_safe(l, next, &slab->parked) {
		entry = entry_of(l);
		if (head != &slab->cache->evict[entry->class]) {
			head = &slab->cache->evict[entry->class];
			at = head->next;
		}
		while (at != head && before(entry_of(at), entry))
			at = at->next;
		kvc_list_add_tail(l, at);
	}
	kvc_list_init(&slab->parked);
	kvc_list_del(&slab->park);
}

/* [5] held. The next page to be evicted that is not parked. */
static struct kvc_entry *next_cached(struct kvc_cache *cache)
{
	u32 level;

	for (level = 0; level < KVC_CLASSES; level++)
		if (!kvc_list_empty(&cache->evict[level]))
			return entry_of(cache->evict[level].next);
	return NULL;
}

/*
 * [5] held. The next page to be evicted; its slab is held for it and it counts as moving. NULL:
 * there is none.
 */
static struct kvc_entry *next_victim(struct kvc_cache *cache, struct kvc_index *index)
{
	struct kvc_entry *entry, *parked;
	struct kvc_slab *slab;
	bool at_limit = false;
	u32 n = 0;

	for (;;) {
		entry = next_cached(cache);
		if (!at_limit && !kvc_list_empty(&cache->parked)) {
			slab = container_of(cache->parked.next, struct kvc_slab, park);
			parked = first_parked(slab);
			if (!entry || before(parked, entry)) {
				at_limit = kvc_account(slab, 1, 1, 0, -1);
				if (at_limit)
					continue;
				kvc_unpark(slab);
				return parked;
			}
		}
		if (!entry)
			return NULL;
		if (!kvc_account(entry->slab, 1, 1, 0, -1)) {
			kvc_unpark(entry->slab);
			return entry;
		}
		park(entry);
		if (++n % PARK_STEP)
			continue;
		kvc_lock_drop(&index->lock);
		kvc_lock_take(&index->lock);
	}
}

/* Cached pages of this cache, in the order of eviction. */
int kvc_take_cached(struct kvc_client *client, u32 id, struct kvc_op *op)
{
	struct kvc_cache *cache = client->pool->cache[id];
	struct kvc_index *index = &client->pool->index;
	struct kvc_entry *entry;
	u32 taken = 0, max = op->nr_stash < KVC_ZAPS ? op->nr_stash : KVC_ZAPS;
	int r = KVC_STEP_NONE;

	kvc_lock_take(&index->lock);
	while (taken < op->wanted - op->done) {
		if (!max) {
			r = cache->nr_cached ? KVC_STEP_RECORD : KVC_STEP_NONE;
			break;
		}
		entry = next_victim(cache, index);
		if (!entry)
			break;
		if (!kvc_zap_page(op, entry->slab, entry->index, KVC_ZAP_EVICT, max)) {
			kvc_account(entry->slab, -1, -1, 0, 1);
			break;
		}
		kvc_evict_entry(entry, KVC_EVICT_PAGE);
		taken++;
	}
	kvc_lock_drop(&index->lock);
	return taken ? KVC_MORE : r;
}
