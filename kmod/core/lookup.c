// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* LOOKUP: references to the longest run of hashes that a cache has. */
#include "state.h"

#define LOOKUP_STEP 64 /* hashes under one hold of the index's lock */

/* [3], [5] held. Reference the page with hash @hash. -ENOENT: it is not there; -ENOMEM: a record is
 * wanted; -EDQUOT, -ENOSPC, -EBUSY, -EOVERFLOW: no reference may be taken. */
static int look(struct kvc_client *client, u32 id, const u8 *hash, u64 *page, struct kvc_op *op)
{
	struct kvc_entry *entry = kvc_find(&client->pool->index, id, hash);
	struct kvc_record *record;
	int r;

	if (!entry)
		return -ENOENT;
	if (!client->map[entry->slab->extent] && !op->stash)
		return -ENOMEM;
	r = kvc_ref(entry);
	if (r)
		return r;
	if (entry->hits < ~0u)
		entry->hits++;
	entry->class = kvc_class(kvc_hook_class_hit(client->pool->id, id, kvc_tag(hash),
						    entry->depth, entry->hits, entry->class));
	record = kvc_record_get(client, entry->slab, op);
	if (!record->refs[entry->index]++)
		record->nr_refd++;
	client->share[id].nr_refs++;
	*page = kvc_page_handle(entry->slab, entry->index);
	return 0;
}

/* [3] held. Go on from where the last round ended, until done or for want of something. */
static int look_on(struct kvc_client *client, u32 id, const u8 (*hashes)[KVC_HASH_SIZE], u32 n,
		   u64 *pages, struct kvc_op *op)
{
	struct kvc_index *index = &client->pool->index;
	u32 i, had;
	int r = 0;

	while (!r && op->done < n) {
		kvc_lock_take(&index->lock);
		if (op->phase == KVC_PHASE_NEW) {
			index->lookups++;
			index->asked += n;
		}
		op->phase = KVC_PHASE_WORK;
		had = op->done;
		for (i = 0; i < LOOKUP_STEP && op->done < n && !r; i++) {
			r = look(client, id, hashes[op->done], &pages[op->done], op);
			if (!r)
				op->done++;
		}
		index->hits += op->done - had;
		kvc_lock_drop(&index->lock);
	}
	return r;
}

/* [3] held. A LOOKUP that may not ask for a record gives back what it had. */
static void look_back(struct kvc_client *client, u32 id, u32 n, const u64 *pages, struct kvc_op *op)
{
	struct kvc_index *index = &client->pool->index;
	struct kvc_record *record;
	struct kvc_list cached;
	u32 i, k;

	kvc_lock_take(&index->lock);
	kvc_list_init(&cached);
	for (k = 0; k < op->done; k++) {
		record = kvc_record_of(client, pages[k]);
		i = kvc_handle_index(pages[k]);
		record->slab->entry[i].hits--;
		kvc_unref(&record->slab->entry[i], 1, &cached);
		client->share[id].nr_refs--;
		/* It was there before, so it stays. */
		if (!--record->refs[i])
			record->nr_refd--;
	}
	kvc_cache_entries(&cached, ++index->stamp);
	index->hits -= op->done;
	index->lookups--;
	index->asked -= n;
	kvc_lock_drop(&index->lock);
}

/* [3] held. References that will not be given back, from pages[from] on. */
static void tell(struct kvc_client *client, const u64 *pages, u32 from, u32 to)
{
	struct kvc_slab *slab;

	for (; from < to; from++) {
		slab = kvc_record_of(client, pages[from])->slab;
		kvc_hook_page_ref(slab->pool->id, kvc_client_id(client), slab->cache->id,
				  slab->cache->page_size, pages[from], KVC_REF_LOOKUP,
				  slab->entry[kvc_handle_index(pages[from])].refs);
		(void)slab; /* where there is no hook */
	}
}

int kvc_lookup(struct kvc_client *client, u32 id, const u8 (*hashes)[KVC_HASH_SIZE], u32 n,
	       u64 *pages, struct kvc_op *op)
{
	struct kvc_pool *pool = client->pool;
	u32 a_slab, had;
	int r;

	if (op->phase) {
		kvc_collect(pool, client, NULL, op);
		if (op->phase == KVC_PHASE_END)
			return kvc_op_end(pool, op, op->result);
	} else if (n - 1 >= KVC_BATCH_MAX || id >= KVC_CACHES_MAX) {
		return -EINVAL;
	}
	do {
		kvc_lock_take(&client->lock);
		a_slab = client->share[id].pages;
		had = op->done;
		r = a_slab ? look_on(client, id, hashes, n, pages, op) : -EINVAL;
		if (op->flags & KVC_OP_NOWAIT && r < 0 && r != -EINVAL && r != -ENOENT) {
			look_back(client, id, n, pages, op);
			r = -EAGAIN;
		} else if (kvc_hooked_page_ref()) {
			tell(client, pages, had, op->done);
		}
		kvc_lock_drop(&client->lock);
		/* At a limit, whatever is held only as a spare goes first. */
	} while ((r == -EDQUOT || r == -ENOSPC) &&
		 kvc_take_spare(pool, KVC_NONE, r == -ENOSPC, false, op));
	if (r == -EINVAL || r == -EAGAIN)
		return r;
	if (r == -ENOMEM && !(op->flags & KVC_OP_NOTABLE)) {
		kvc_stash_fill(op, a_slab, (n - op->done + a_slab - 1) / a_slab);
		kvc_more(op);
		return KVC_MORE;
	}
	kvc_hook_lookup(pool->id, kvc_client_id(client), id, n, op->done,
			op->done < n ? kvc_tag(hashes[op->done]) : 0);
	return kvc_op_end(pool, op, op->done);
}
