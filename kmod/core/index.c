// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The index of a pool: hash -> sealed or cached page, references, and the cached pages in the order
 * of eviction. Everything here is under the index's lock.
 *
 * It grows in steps: a table of four times the size comes through a need, and each change moves a
 * few buckets.
 */
#include "state.h"

#define MOVE_STEP 4 /* buckets */

static u64 place(const struct kvc_index *index, u32 cache, const u8 *hash)
{
	return kvc_siphash(hash, KVC_HASH_SIZE, index->secret) + cache * 0x9e3779b97f4a7c15ull;
}

static struct kvc_entry **bucket(struct kvc_index *index, u32 cache, const u8 *hash)
{
	u64 at = place(index, cache, hash);

	if (index->old && (at & index->old_mask) >= index->moved)
		return &index->old[at & index->old_mask];
	return &index->table[at & index->mask];
}

struct kvc_entry *kvc_find(struct kvc_index *index, u32 cache, const u8 *hash)
{
	struct kvc_entry *entry = *bucket(index, cache, hash);

	while (entry && (entry->slab->cache->id != cache || !kvc_hash_equal(entry->hash, hash)))
		entry = entry->next;
	return entry;
}

static void move_some(struct kvc_index *index)
{
	struct kvc_entry *entry, *next, **to;
	u32 i;

	for (i = 0; i < MOVE_STEP && index->old; i++) {
		for (entry = index->old[index->moved]; entry; entry = next) {
			next = entry->next;
			to = &index->table[place(index, entry->slab->cache->id, entry->hash) &
					   index->mask];
			entry->next = *to;
			*to = entry;
		}
		if (index->moved++ < index->old_mask)
			continue;
		if (index->old != index->first)
			index->retired = index->old;
		index->old = NULL;
	}
}

void kvc_insert(struct kvc_index *index, struct kvc_entry *entry)
{
	struct kvc_entry **at;

	move_some(index);
	at = bucket(index, entry->slab->cache->id, entry->hash);
	entry->next = *at;
	*at = entry;
	index->nr++;
	entry->slab->cache->nr_indexed++;
}

void kvc_remove(struct kvc_index *index, struct kvc_entry *entry)
{
	struct kvc_entry **at = bucket(index, entry->slab->cache->id, entry->hash);

	while (*at != entry)
		at = &(*at)->next;
	*at = entry->next;
	index->nr--;
	entry->slab->cache->nr_indexed--;
}

/* One more reference. -EDQUOT, -ENOSPC, -EBUSY: its slab may not be held; -EOVERFLOW. */
int kvc_ref(struct kvc_entry *entry)
{
	struct kvc_slab *slab = entry->slab;
	int r;

	if (entry->refs) {
		if (entry->refs == KVC_REFS_MAX)
			return -EOVERFLOW;
		entry->refs++;
		return 0;
	}
	if (!slab->nr_ref) {
		r = kvc_account(slab, 1, 0, 0, 0);
		if (r)
			return r;
		kvc_unpark(slab);
	}
	slab->nr_ref++;
	slab->cache->nr_cached--;
	kvc_list_del(&entry->node);
	entry->refs = 1;
	return 0;
}

/* @refs references go. A page without any joins @cached, for kvc_cache_entries(). */
void kvc_unref(struct kvc_entry *entry, u32 refs, struct kvc_list *cached)
{
	struct kvc_slab *slab = entry->slab;

	entry->refs -= refs;
	if (entry->refs)
		return;
	kvc_list_add_tail(&entry->node, cached);
	slab->cache->nr_cached++;
	if (!--slab->nr_ref)
		kvc_account(slab, -1, 0, 0, 0);
}

static struct kvc_entry *of_node(struct kvc_list *node)
{
	return container_of(node, struct kvc_entry, node);
}

/* Merge two chains (linked by next alone, ended by NULL) of entries, deepest first. */
static struct kvc_list *merge(struct kvc_list *a, struct kvc_list *b)
{
	struct kvc_list *head, **tail = &head;

	while (a && b) {
		if (of_node(a)->depth >= of_node(b)->depth) {
			*tail = a;
			tail = &a->next;
			a = a->next;
		} else {
			*tail = b;
			tail = &b->next;
			b = b->next;
		}
	}
	*tail = a ? a : b;
	return head;
}

/* Pages that lost their last reference in one call go to their caches' eviction lists, deepest
 * first. */
void kvc_cache_entries(struct kvc_list *cached, u64 stamp)
{
	struct kvc_list *run[12] = {
		NULL
	}; /* run[i]: sorted, of 2^i entries; KVC_BATCH_MAX fits */
	struct kvc_list *l = cached->next, *next, *all = NULL;
	struct kvc_entry *entry;
	u32 i;

	while (l != cached) {
		next = l->next;
		l->next = NULL;
		for (i = 0; run[i] && i < 11; i++) {
			l = merge(run[i], l);
			run[i] = NULL;
		}
		run[i] = run[i] ? merge(run[i], l) : l;
		l = next;
	}
	kvc_list_init(cached);
	for (i = 0; i < 12; i++)
		all = all && run[i] ? merge(run[i], all) : run[i] ? run[i] : all;
	for (; all; all = next) {
		next = all->next;
		entry = of_node(all);
		entry->stamp = stamp;
		kvc_list_add_tail(all, &entry->slab->cache->evict[entry->class]);
	}
}

/* A cached page leaves the index and is moving; its slab's holds and counts are the caller's to
 * keep. */
void kvc_evict_entry(struct kvc_entry *entry, enum kvc_evict why)
{
	struct kvc_slab *slab = entry->slab;

	kvc_hook_evict(slab->pool->id, slab->cache->id, slab->cache->page_size,
		       kvc_page_handle(slab, entry->index), why, kvc_tag(entry->hash), entry->depth,
		       entry->class, slab->pool->index.stamp - entry->stamp);
	(void)why;

	kvc_remove(&slab->pool->index, entry);
	kvc_list_del(&entry->node);
	slab->cache->nr_cached--;
	slab->pool->index.evictions++;
	kvc_write(slab->page[entry->index].state, KVC_MOVING);
	kvc_page_leave(slab, entry->index);
}

/* Ask for a bigger table if @n more entries make the chains long. True: a need was added. */
bool kvc_grow_need(struct kvc_index *index, u32 n, struct kvc_op *op)
{
	if (op->flags & KVC_OP_GROW || index->old || index->retired ||
	    index->nr + n <= 2 * (index->mask + 1))
		return false;
	op->flags |= KVC_OP_GROW;
	return kvc_need_table(op, KVC_USE_INDEX, 4 * (index->mask + 1) * sizeof(*index->table));
}

void kvc_grow(struct kvc_index *index, void *table, size_t size, struct kvc_op *op)
{
	u64 buckets = size / sizeof(*index->table);

	if (index->old || index->retired || buckets <= index->mask + 1) {
		kvc_table_free(op, table);
		return;
	}
	index->old = index->table;
	index->old_mask = index->mask;
	index->moved = 0;
	index->table = table;
	index->mask = buckets - 1;
}

/* Hand the table that growth left behind to a call that can give it to its caller. */
void kvc_retire(struct kvc_index *index, struct kvc_op *op)
{
	if (!index->retired)
		return;
	kvc_table_free(op, index->retired);
	index->retired = NULL;
}
