// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * SEAL: begin marks the pages moving, then they are zapped a few slabs at a time, then finish
 * enters them all, or restores them. A batch enters in parts, so that LOOKUP and FREE of others do
 * not wait for 1,024 pages; pool->sealing keeps other batches out meanwhile.
 *
 * In the records a page is SEALING from begin to finish. In kvc_seal.state is what is known of
 * each: where in the batch its parent stands, later whether its hash was there already.
 */
#include "state.h"

#define SEAL_PARENT \
	0x07ff /* 1 + number of the seal that has the parent's hash; 0: none before it */
#define SEAL_STEP 64 /* seals under one hold of the index's lock */
#define SEAL_DUPLICATE 0x1000 /* the hash was there: page is that one's */

/* [5] held. A batch lets others at the index between its parts. */
static void breathe(struct kvc_index *index, u32 k)
{
	if (!k || k % SEAL_STEP)
		return;
	kvc_lock_drop(&index->lock);
	kvc_lock_take(&index->lock);
}

/* Without a lock: look at each seal alone, and for its parent among those before it. */
static int prepare(struct kvc_seal *seals, u32 n)
{
	struct kvc_seal *seal;
	u32 i, k;

	for (i = 0; i < n; i++) {
		seal = &seals[i];
		if (seal->class >= KVC_CLASSES || seal->flags & ~KVC_SEAL_ROOT)
			return -EINVAL;
		seal->state = 0;
		seal->was = seal->page;
		if (seal->flags & KVC_SEAL_ROOT)
			continue;
		for (k = i; k > 0 && !kvc_hash_equal(seals[k - 1].hash, seal->parent);)
			k--;
		seal->state = k;
	}
	return 0;
}

static bool holds_parent(struct kvc_client *client, u32 cache, const struct kvc_seal *seal)
{
	struct kvc_record *record;
	struct kvc_entry *entry;

	if (seal->flags & KVC_SEAL_ROOT || seal->state & SEAL_PARENT)
		return true;
	entry = kvc_find(&client->pool->index, cache, seal->parent);
	record = entry ? client->map[entry->slab->extent] : NULL;
	return record && record->refs[entry->index] - 1 < KVC_REFS_MAX;
}

/* [3] held. Mark the pages SEALING if all can be sealed. */
static int mark(struct kvc_client *client, struct kvc_seal *seals, u32 n)
{
	struct kvc_index *index = &client->pool->index;
	struct kvc_record *record, *first = NULL;
	u32 i, k;
	u64 page;
	int r = 0;

	for (k = 0; k < n && !r; k++) {
		page = seals[k].page;
		i = kvc_handle_index(page);
		record = kvc_record_of(client, page);
		if (!record || i >= record->pages || record->refs[i] != KVC_HELD_PRIVATE ||
		    record->slab->page[i].generation != kvc_handle_generation(page)) {
			r = kvc_not_held(record, page);
			break;
		}
		if (!first)
			first = record;
		if (record->cache != first->cache) {
			r = -EINVAL;
			break;
		}
		record->refs[i] = KVC_HELD_SEALING;
	}
	if (!r) {
		kvc_lock_take(&index->lock);
		for (i = 0; i < n && !r; i++) {
			breathe(index, i);
			if (!holds_parent(client, first->cache, &seals[i]))
				r = -ENOENT;
		}
		kvc_lock_drop(&index->lock);
	}
	while (r && k--) {
		record = kvc_record_of(client, seals[k].page);
		record->refs[kvc_handle_index(seals[k].page)] = KVC_HELD_PRIVATE;
	}
	return r;
}

/* [3] held. Marked pages are moving from here on. */
static void begin(struct kvc_client *client, struct kvc_seal *seals, u32 n)
{
	struct kvc_record *record;
	u32 k, i;

	for (k = 0; k < n; k++) {
		record = kvc_record_of(client, seals[k].page);
		i = kvc_handle_index(seals[k].page);
		kvc_write(record->slab->page[i].state, KVC_SEALING);
		kvc_account(record->slab, record->owner, 1, 0, 0);
		record->nr_private--;
		record->nr_sealing++;
		client->share[record->cache].nr_private--;
	}
}

/* [3] held. Ask for the next zaps. False: all are done. */
static bool zap_some(struct kvc_client *client, struct kvc_seal *seals, u32 n, struct kvc_op *op)
{
	struct kvc_record *record;
	u64 page;

	for (; op->cursor < n; op->cursor++) {
		page = seals[op->cursor].page;
		record = kvc_record_of(client, page);
		if (!kvc_zap_page(op, record->slab, kvc_handle_index(page), KVC_ZAP_SEAL, KVC_ZAPS))
			break;
	}
	return op->nr_zaps;
}

/* [3] held. All pages are private again, as they were. */
static void restore(struct kvc_client *client, struct kvc_seal *seals, u32 n)
{
	struct kvc_record *record;
	u32 k, i;

	for (k = 0; k < n; k++) {
		record = kvc_record_of(client, seals[k].was);
		i = kvc_handle_index(seals[k].was);
		record->refs[i] = KVC_HELD_PRIVATE;
		kvc_write(record->slab->page[i].state, KVC_PRIVATE);
		kvc_account(record->slab, record->owner ? -1 : 0, -1, 0, 0);
		record->nr_private++;
		record->nr_sealing--;
		client->share[record->cache].nr_private++;
	}
}

/* [3], [5] held. The seal's page enters the index with one reference, the client's. Returns its class. */
static u8 enter(struct kvc_client *client, struct kvc_seal *seal, u64 stamp)
{
	struct kvc_record *record = kvc_record_of(client, seal->was);
	u32 i = kvc_handle_index(seal->was);
	struct kvc_slab *slab = record->slab;
	struct kvc_entry *entry = &slab->entry[i];

	memcpy(entry->hash, seal->hash, KVC_HASH_SIZE);
	entry->depth = seal->depth;
	entry->hits = 0;
	entry->class = kvc_class(kvc_hook_class_sealed(slab->pool->id, record->cache,
						       kvc_tag(seal->hash), seal->depth,
						       seal->class));
	entry->stamp = stamp;
	entry->refs = 1;
	kvc_insert(&slab->pool->index, entry);
	kvc_write(slab->page[i].state, KVC_INDEXED);
	kvc_account(slab, slab->nr_ref++ ? -1 : 0, -1, 0, 1);
	record->refs[i] = 1;
	record->nr_sealing--;
	record->nr_refd++;
	client->share[record->cache].nr_refs++;
	return entry->class;
}

/* [3], [5] held. The page that has the seal's hash already gets one more reference, in place of the
 * seal's. */
static int duplicate(struct kvc_client *client, struct kvc_seal *seal, struct kvc_entry *winner,
		     struct kvc_op *op)
{
	struct kvc_record *record;
	int r;

	if (!client->map[winner->slab->extent] && !op->stash)
		return -ENOMEM;
	r = kvc_ref(winner);
	if (r)
		return r == -EBUSY ? -ENOSPC : r;
	record = kvc_record_get(client, winner->slab, op);
	if (!record->refs[winner->index]++)
		record->nr_refd++;
	client->share[record->cache].nr_refs++;
	seal->page = kvc_page_handle(winner->slab, winner->index);
	seal->state |= SEAL_DUPLICATE;
	return 0;
}

static void undo_duplicate(struct kvc_client *client, struct kvc_seal *seal,
			   struct kvc_list *cached, struct kvc_op *op)
{
	struct kvc_record *record = kvc_record_of(client, seal->page);
	u32 i = kvc_handle_index(seal->page);

	kvc_unref(&record->slab->entry[i], 1, cached);
	client->share[record->cache].nr_refs--;
	if (!--record->refs[i]) {
		record->nr_refd--;
		/* Own slabs, between two states themselves, are settled when the call ends. */
		if (!record->owner)
			kvc_settle(client, record, op);
	}
	seal->page = seal->was;
	seal->state &= ~SEAL_DUPLICATE;
}

/* [3], sealing, [5] held. Ask for the records that duplicates want. */
static bool want_records(struct kvc_client *client, u32 id, struct kvc_seal *seals, u32 n,
			 struct kvc_op *op)
{
	struct kvc_entry *winner;
	u32 k, want = 0, last = KVC_NONE;

	for (k = 0; k < n; k++) {
		breathe(&client->pool->index, k);
		winner = kvc_find(&client->pool->index, id, seals[k].hash);
		if (!winner || client->map[winner->slab->extent] || winner->slab->extent == last)
			continue;
		last = winner->slab->extent;
		want++;
	}
	return want > op->nr_stash && kvc_stash_fill(op, client->pool->cache[id]->pages, want);
}

/*
 * [3], sealing, [5] held. Enter all or none. First come the references to pages whose hashes are
 * there, which may be refused; then the others, which cannot be: as long as this client is sealing,
 * no hash appears but its own.
 */
static int enter_all(struct kvc_client *client, u32 id, struct kvc_seal *seals, u32 n,
		     struct kvc_op *op)
{
	struct kvc_index *index = &client->pool->index;
	struct kvc_entry *winner;
	struct kvc_list cached;
	u32 k, duplicates = 0;
	u64 stamp = ++index->stamp;
	u8 class;
	int r = 0;

	for (k = 0; k < n && !r; k++) {
		breathe(index, k);
		winner = kvc_find(index, id, seals[k].hash);
		r = winner ? duplicate(client, &seals[k], winner, op) : 0;
	}
	if (r) {
		kvc_list_init(&cached);
		for (k--; k-- > 0;) {
			if (seals[k].state & SEAL_DUPLICATE)
				undo_duplicate(client, &seals[k], &cached, op);
			if (k % SEAL_STEP)
				continue;
			kvc_cache_entries(&cached, stamp);
			breathe(index, k);
		}
		return r;
	}
	for (k = 0; k < n; k++) {
		breathe(index, k);
		class = seals[k].class;
		if (!(seals[k].state & SEAL_DUPLICATE)) {
			winner = kvc_find(index, id, seals[k].hash);
			if (winner)
				duplicate(client, &seals[k], winner, op);
			else
				class = enter(client, &seals[k], stamp);
		}
		duplicates += !!(seals[k].state & SEAL_DUPLICATE);
		kvc_hook_page_seal(client->pool->id, kvc_client_id(client), id,
				   client->share[id].page_size, seals[k].was, seals[k].page,
				   kvc_tag(seals[k].hash), seals[k].depth, class);
		(void)class; /* where there is no hook */
	}
	index->seals += n;
	index->duplicates += duplicates;
	return 0;
}

/* Finish: KVC_MORE, or 0 and pages are sealed or duplicates, or an errno and all are private again.
 */
static int finish(struct kvc_client *client, struct kvc_seal *seals, u32 n, struct kvc_op *op)
{
	struct kvc_index *index = &client->pool->index;
	struct kvc_record *record;
	u32 k, id;
	int r;

again:
	kvc_lock_take(&client->lock);
	id = kvc_record_of(client, seals[0].was)->cache;
	kvc_lock_take(&client->pool->sealing);
	kvc_lock_take(&index->lock);
	if (op->flags & KVC_OP_PINNED)
		r = -EBUSY;
	else if (kvc_grow_need(index, n, op))
		r = KVC_MORE;
	else if (!(op->flags & KVC_OP_NOTABLE) && want_records(client, id, seals, n, op))
		r = KVC_MORE;
	else
		r = enter_all(client, id, seals, n, op);
	kvc_retire(index, op);
	kvc_lock_drop(&index->lock);
	kvc_lock_drop(&client->pool->sealing);
	if (r == -EDQUOT || r == -ENOSPC) {
		/* Whatever is held only as a spare goes first. */
		kvc_lock_drop(&client->lock);
		if (kvc_take_spare(client->pool, KVC_NONE, r == -ENOSPC, false, op))
			goto again;
		kvc_lock_take(&client->lock);
	}
	if (r < 0)
		restore(client, seals, n);
	for (k = 0; k < n && !r; k++) {
		record = kvc_record_of(client, seals[k].was);
		if (!(seals[k].state & SEAL_DUPLICATE) && record->owner)
			kvc_settle(client, record, op);
	}
	kvc_lock_drop(&client->lock);
	return r;
}

/* A duplicate goes back to its slab as by FREE; zapped it is already. */
static void hand_back(struct kvc_client *client, u64 page, struct kvc_op *op)
{
	struct kvc_pool *pool = client->pool;
	u32 i = kvc_handle_index(page);
	struct kvc_record *record;
	struct kvc_share *share;
	struct kvc_slab *slab;
	bool own;

	kvc_lock_take(&client->lock);
	record = kvc_record_of(client, page);
	share = &client->share[record->cache];
	slab = record->slab;
	own = record->owner;
	record->refs[i] = 0;
	record->nr_sealing--;
	share->frees++;
	op->flags |= KVC_OP_FREED;
	kvc_hook_page_free(pool->id, kvc_client_id(client), record->cache, share->page_size, page,
			   KVC_LEFT_DUPLICATE, 0);
	kvc_hook_pages_free(pool->id, kvc_client_id(client), record->cache, share->page_size, &page, 1,
			    KVC_LEFT_DUPLICATE);
	kvc_page_leave(slab, i);
	if (own) {
		if (!slab->nr_free) {
			kvc_list_unlink(&record->node);
			kvc_list_add(&record->node, &share->room);
		}
		kvc_ring_put(slab, i);
		share->nr_free++;
		kvc_account(slab, -1, -1, 0, 0);
	}
	kvc_settle(client, record, op);
	kvc_lock_drop(&client->lock);
	if (own)
		return;
	/* The page is moving, so the slab stays. */
	kvc_lock_take(&pool->lock);
	kvc_page_back(slab, i, false, KVC_ZAP_SEAL, op);
	kvc_lock_drop(&pool->lock);
}

int kvc_seal(struct kvc_client *client, struct kvc_seal *seals, u32 n, struct kvc_op *op)
{
	bool zaps;
	u32 k;
	int r;

	if (op->phase) {
		kvc_collect(client->pool, client, NULL, op);
		if (op->phase == KVC_PHASE_END)
			return kvc_op_end(client->pool, op, op->result);
	} else if (n - 1 >= KVC_BATCH_MAX) {
		return -EINVAL;
	} else {
		r = prepare(seals, n);
		if (r)
			return r;
		kvc_lock_take(&client->lock);
		r = mark(client, seals, n);
		if (!r)
			begin(client, seals, n);
		kvc_lock_drop(&client->lock);
		if (r)
			return r;
		op->phase = KVC_PHASE_WORK;
	}
	if (op->cursor < n) {
		kvc_lock_take(&client->lock);
		zaps = zap_some(client, seals, n, op);
		kvc_lock_drop(&client->lock);
		if (zaps)
			return KVC_MORE;
	}
	r = finish(client, seals, n, op);
	if (r == KVC_MORE)
		return r;
	for (k = 0; k < n && !r; k++)
		if (seals[k].state & SEAL_DUPLICATE)
			hand_back(client, seals[k].was, op);
	return kvc_op_end(client->pool, op, r);
}
