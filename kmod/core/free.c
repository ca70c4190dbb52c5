// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * FREE, GET, and where a page is.
 *
 * FREE first marks the whole batch in the client's records, so that a wrong handle, or one that
 * stands there too often, changes nothing. Then references go and pages of own slabs return to
 * their rings, all under the client's lock. Private pages in other slabs are zapped first, a few
 * slabs at a time.
 */
#include "state.h"

/* What @record says of the page, or NULL: the client does not hold it. */
static inline u32 *held_in(struct kvc_record *record, u64 handle)
{
	u32 index = kvc_handle_index(handle);

	if (unlikely(!record || index >= record->pages || !record->refs[index]))
		return NULL;
	if (unlikely(record->slab->page[index].generation != kvc_handle_generation(handle)))
		return NULL;
	return &record->refs[index];
}

static u32 *held(const struct kvc_client *client, u64 handle, struct kvc_record **record)
{
	*record = kvc_record_of(client, handle);
	return held_in(*record, handle);
}

static void unmark(struct kvc_client *client, const u64 *pages, u32 n)
{
	struct kvc_record *record;
	u32 *refs;

	while (n--) {
		record = kvc_record_of(client, pages[n]);
		refs = &record->refs[kvc_handle_index(pages[n])];
		if (*refs == KVC_HELD_LEAVING)
			*refs = KVC_HELD_PRIVATE;
		else if (!(*refs)++)
			record->nr_refd++;
	}
}

/* [3] held. Mark private pages leaving and take references off the records. Returns the references,
 * or an errno. */
static int mark(struct kvc_client *client, const u64 *pages, u32 n)
{
	struct kvc_record *record = NULL;
	u64 extent = ~0ull;
	u32 k, *refs;
	int sealed = 0;

	for (k = 0; k < n; k++) {
		/* Pages that were allocated together often lie together. */
		if (pages[k] >> 38 != extent) {
			extent = pages[k] >> 38;
			record = kvc_record_of(client, pages[k]);
		}
		refs = held_in(record, pages[k]);
		if (unlikely(!refs || *refs > KVC_HELD_PRIVATE)) {
			unmark(client, pages, k);
			return refs ? -EBADF : kvc_not_held(record, pages[k]);
		}
		if (likely(*refs == KVC_HELD_PRIVATE)) {
			*refs = KVC_HELD_LEAVING;
			continue;
		}
		sealed++;
		if (!--*refs)
			record->nr_refd--;
	}
	return sealed;
}

/* [3] held. The references that mark() took off the records go. */
static void leave_sealed(struct kvc_client *client, const u64 *pages, u32 n)
{
	struct kvc_index *index = &client->pool->index;
	struct kvc_record *record;
	struct kvc_list cached;
	u32 k, i;

	kvc_list_init(&cached);
	kvc_lock_take(&index->lock);
	for (k = 0; k < n; k++) {
		record = kvc_record_of(client, pages[k]);
		i = kvc_handle_index(pages[k]);
		if (record->refs[i] == KVC_HELD_LEAVING)
			continue;
		kvc_unref(&record->slab->entry[i], 1, &cached);
		client->share[record->cache].frees++;
		client->share[record->cache].nr_refs--;
		kvc_hook_page_free(client->pool->id, kvc_client_id(client), record->cache,
				   record->slab->cache->page_size, pages[k], KVC_LEFT_REFERENCE,
				   record->slab->entry[i].refs);
		kvc_hook_pages_free(client->pool->id, kvc_client_id(client), record->cache,
				    record->slab->cache->page_size, pages + k, 1, KVC_LEFT_REFERENCE);
	}
	kvc_cache_entries(&cached, ++index->stamp);
	kvc_lock_drop(&index->lock);
}

/* [3] held. Hooks are told of pages[from .. to), which have left one slab. */
static inline void told_leaving(const struct kvc_client *client, const struct kvc_share *share,
				const struct kvc_record *record, const u64 *pages, u32 from, u32 to)
{
	/* Where there is no hook: */
	(void)client, (void)share, (void)record, (void)pages;
	if (from < to)
		kvc_hook_pages_free(client->pool->id, kvc_client_id(client), record->cache,
				    share->page_size, pages + from, to - from, KVC_LEFT_PRIVATE);
}

/*
 * [3] held. Leaving pages of one own slab, from pages[*k] on, return to its ring. Moves *k behind
 * them (and behind pages of the same slab that are not leaving).
 */
static void leave_run(struct kvc_client *client, struct kvc_record *record, const u64 *pages, u32 n,
		      u32 *k, struct kvc_op *op)
{
	struct kvc_share *share = &client->share[record->cache];
	struct kvc_slab *slab = record->slab;
	u32 i, left = 0, tail = slab->head + slab->nr_free, size = slab->pages;
	u32 from = *k;
	u64 same = pages[*k] >> 38;
	bool full = !slab->nr_free;

	if (tail >= size)
		tail -= size;
	do {
		i = kvc_handle_index(pages[*k]);
		if (unlikely(record->refs[i] != KVC_HELD_LEAVING)) {
			told_leaving(client, share, record, pages, from, *k);
			from = *k + 1;
			continue;
		}
		record->refs[i] = 0;
		kvc_hook_page_free(client->pool->id, kvc_client_id(client), record->cache,
				   share->page_size, pages[*k], KVC_LEFT_PRIVATE, 0);
		kvc_page_leave(slab, i);
		kvc_write(slab->page[i].state, KVC_FREE);
		slab->page[tail].ring = i;
		if (++tail == size)
			tail = 0;
		left++;
	} while (++*k < n && pages[*k] >> 38 == same);
	told_leaving(client, share, record, pages, from, *k);
	if (unlikely(!left))
		return;
	slab->nr_free += left;
	share->nr_free += left;
	share->nr_private -= left;
	share->frees += left;
	record->nr_private -= left;
	if (!record->nr_private && !record->nr_sealing) {
		if (!kvc_keep_spare(share, record))
			kvc_settle(client, record, op);
	} else if (full) {
		kvc_list_unlink(&record->node);
		kvc_list_add(&record->node, &share->room);
	}
}

/* [3] held. Pages of own slabs return to their rings. Returns whether others wait to leave. */
static bool leave_own(struct kvc_client *client, const u64 *pages, u32 n, struct kvc_op *op)
{
	struct kvc_record *record;
	bool others = false;
	u32 k = 0;

	while (k < n) {
		record = kvc_record_of(client, pages[k]);
		/* It goes with the last page that the client held in the slab. */
		if (unlikely(!record)) {
			k++;
		} else if (likely(record->owner)) {
			leave_run(client, record, pages, n, &k, op);
		} else {
			if (record->refs[kvc_handle_index(pages[k])] == KVC_HELD_LEAVING)
				others = true;
			else
				kvc_settle(client, record, op);
			k++;
		}
	}
	return others;
}

/* [3] held. Begin to move leaving pages of other slabs, from pages[op->cursor] on, as many as op
 * can carry. */
static void leave_others(struct kvc_client *client, const u64 *pages, u32 n, struct kvc_op *op)
{
	struct kvc_record *record;
	struct kvc_share *share;
	u32 i;

	for (; op->cursor < n; op->cursor++) {
		record = kvc_record_of(client, pages[op->cursor]);
		i = kvc_handle_index(pages[op->cursor]);
		if (!record || i >= record->pages || record->refs[i] != KVC_HELD_LEAVING)
			continue;
		if (record->owner) { /* it was not when the call began */
			u32 k = op->cursor;

			leave_run(client, record, pages, op->cursor + 1, &k, op);
			continue;
		}
		if (!kvc_zap_page(op, record->slab, i, KVC_ZAP_FREE, KVC_ZAPS))
			return;
		share = &client->share[record->cache];
		record->refs[i] = 0;
		kvc_write(record->slab->page[i].state, KVC_MOVING);
		kvc_hook_page_free(client->pool->id, kvc_client_id(client), record->cache,
				   share->page_size, pages[op->cursor], KVC_LEFT_PRIVATE, 0);
		kvc_hook_pages_free(client->pool->id, kvc_client_id(client), record->cache,
				    share->page_size, pages + op->cursor, 1, KVC_LEFT_PRIVATE);
		kvc_page_leave(record->slab, i);
		kvc_account(record->slab, 0, 1, 0, 0);
		record->nr_private--;
		share->nr_private--;
		share->frees++;
		kvc_settle(client, record, op);
	}
}

static int free_rest(struct kvc_client *client, const u64 *pages, u32 n, struct kvc_op *op)
{
	kvc_lock_take(&client->lock);
	leave_others(client, pages, n, op);
	kvc_lock_drop(&client->lock);
	if (op->cursor < n) {
		kvc_more(op);
		return KVC_MORE;
	}
	return kvc_op_end(client->pool, op, op->result);
}

/* [3] held. Whether the batch lies in own slabs only, and so few that each of them may stay. */
static bool leaves_few(struct kvc_client *client, const u64 *pages, u32 n)
{
	struct kvc_record *record;
	struct kvc_share *share;
	u64 extent = ~0ull;
	u32 k, slabs = 0;

	for (k = 0; k < n; k++) {
		if (pages[k] >> 38 == extent)
			continue;
		extent = pages[k] >> 38;
		record = kvc_record_of(client, pages[k]);
		share = &client->share[record->cache];
		if (!record->owner || share->nr_spares + ++slabs > share->spares_max)
			return false;
	}
	return true;
}

/*
 * [3] held, the batch marked. Whether leaving asks the caller for nothing: no page lies in another
 * client's slab, and no more slabs become empty than may stay as spares.
 */
static bool leaves_at_once(struct kvc_client *client, const u64 *pages, u32 n)
{
	struct kvc_record *record;
	struct kvc_share *share;
	u32 k, whole = 0;

	if (likely(leaves_few(client, pages, n)))
		return true;
	for (k = 0; k < n; k++)
		kvc_record_of(client, pages[k])->nr_leaving = 0;
	for (k = 0; k < n; k++) {
		record = kvc_record_of(client, pages[k]);
		if (record->refs[kvc_handle_index(pages[k])] != KVC_HELD_LEAVING)
			continue;
		if (!record->owner)
			return false;
		if (++record->nr_leaving < record->nr_private || record->nr_sealing ||
		    record->nr_leaving + record->slab->nr_free < record->pages)
			continue;
		share = &client->share[record->cache];
		if (!share->pinned && share->nr_spares + ++whole > share->spares_max)
			return false;
	}
	return true;
}

int kvc_free(struct kvc_client *client, const u64 *pages, u32 n, struct kvc_op *op)
{
	bool others, tell;
	int r;

	if (unlikely(op->phase)) {
		kvc_collect(client->pool, client, NULL, op);
		if (op->phase == KVC_PHASE_END)
			return kvc_op_end(client->pool, op, op->result);
		return free_rest(client, pages, n, op);
	}
	if (unlikely(n - 1 >= KVC_BATCH_MAX))
		return -EINVAL;
	kvc_lock_take(&client->lock);
	r = mark(client, pages, n);
	if (unlikely(r < 0)) {
		kvc_lock_drop(&client->lock);
		return r;
	}
	if (unlikely(op->flags & KVC_OP_NOWAIT) && !leaves_at_once(client, pages, n)) {
		unmark(client, pages, n);
		kvc_lock_drop(&client->lock);
		return -EAGAIN;
	}
	if (r)
		leave_sealed(client, pages, n);
	others = leave_own(client, pages, n, op);
	tell = client->tell;
	kvc_lock_drop(&client->lock);
	if (likely(!others && !op->dead)) {
		if (unlikely(tell))
			kvc_tell_freed(client, op);
		else if (unlikely(kvc_read(client->arena->attention)))
			kvc_tell(client->pool, op);
		return 0;
	}
	op->flags |= KVC_OP_FREED;
	op->phase = KVC_PHASE_WORK;
	op->cursor = others ? 0 : n;
	return free_rest(client, pages, n, op);
}

/*
 * An ALLOC that failed gives back what it had. Its handles were not given out; but another thread
 * of the client may have guessed one, and what that freed is none of ours.
 */
int kvc_undo(struct kvc_client *client, u64 *pages, struct kvc_op *op)
{
	struct kvc_record *record;
	u32 k, n = 0, *refs;

	if (op->phase != KVC_PHASE_UNDO) {
		kvc_lock_take(&client->lock);
		for (k = 0; k < op->done; k++) {
			refs = held(client, pages[k], &record);
			if (!refs || *refs != KVC_HELD_PRIVATE)
				continue;
			*refs = KVC_HELD_LEAVING;
			client->share[record->cache].allocs--;
			client->share[record->cache].frees--;
			pages[n++] = pages[k];
		}
		op->done = n;
		op->cursor = 0;
		op->phase = KVC_PHASE_UNDO;
		if (n)
			op->flags |= KVC_OP_FREED;
		leave_own(client, pages, n, op);
		kvc_lock_drop(&client->lock);
	}
	return free_rest(client, pages, op->done, op);
}

int kvc_get(struct kvc_client *client, const u64 *pages, u32 n)
{
	struct kvc_index *index = &client->pool->index;
	struct kvc_record *record;
	u32 k, *refs;
	int r = 0;

	if (n - 1 >= KVC_BATCH_MAX)
		return -EINVAL;
	kvc_lock_take(&client->lock);
	for (k = 0; k < n; k++) {
		refs = held(client, pages[k], &record);
		if (refs && *refs <= KVC_REFS_MAX)
			continue;
		r = refs ? -EBADF : kvc_not_held(record, pages[k]);
		goto out;
	}
	kvc_lock_take(&index->lock);
	for (k = 0; k < n && !r; k++) {
		record = kvc_record_of(client, pages[k]);
		r = kvc_ref(&record->slab->entry[kvc_handle_index(pages[k])]);
	}
	if (r) /* the last one was not taken */
		for (k--; k-- > 0;) {
			record = kvc_record_of(client, pages[k]);
			record->slab->entry[kvc_handle_index(pages[k])].refs--;
		}
	kvc_lock_drop(&index->lock);
	for (k = 0; k < n && !r; k++) {
		++*held(client, pages[k], &record);
		client->share[record->cache].nr_refs++;
		kvc_hook_page_ref(client->pool->id, kvc_client_id(client), record->cache,
				  record->slab->cache->page_size, pages[k], KVC_REF_GET,
				  record->slab->entry[kvc_handle_index(pages[k])].refs);
	}
out:
	kvc_lock_drop(&client->lock);
	kvc_hook_get(client->pool->id, kvc_client_id(client), n, r);
	return r;
}

int kvc_page_at(struct kvc_pool *pool, struct kvc_client *client, u32 extent, u32 offset,
		struct kvc_at *at)
{
	struct kvc_arena *arena = pool->arena;
	struct kvc_record *record;
	struct kvc_slab *slab;
	u32 state = KVC_STATES;

	if (extent >= arena->nr || offset >= KVC_EXTENT_SIZE)
		return -ENXIO;
	kvc_lock_take(&arena->lock);
	slab = arena->extent[extent].slab;
	if (slab && slab->pool == pool && !slab->going) {
		at->size = slab->cache->page_size;
		at->index = offset / at->size;
		at->offset = at->index * at->size;
		if (at->index < slab->pages)
			state = kvc_read(slab->page[at->index].state);
	}
	kvc_lock_drop(&arena->lock);
	if (state == KVC_STATES)
		return -ENXIO;
	at->readable = state != KVC_MOVING && state != KVC_SEALING;
	at->sealing = state == KVC_SEALING;
	at->writable = false;
	if (!client || state != KVC_PRIVATE)
		return 0;
	/* Another slab may be there by now: then the caller has no lock, and gets what it asked for
	 * anyway. */
	kvc_lock_take(&client->lock);
	record = client->map[extent];
	if (record && at->index < record->pages) {
		at->writable = record->refs[at->index] == KVC_HELD_PRIVATE;
		at->sealing = record->refs[at->index] == KVC_HELD_SEALING;
	}
	kvc_lock_drop(&client->lock);
	return 0;
}

int kvc_where(struct kvc_client *client, u64 page, struct kvc_where *where)
{
	struct kvc_record *record;
	u32 *refs;
	int r = 0;

	kvc_lock_take(&client->lock);
	refs = held(client, page, &record);
	if (!refs) {
		r = kvc_not_held(record, page);
	} else if (*refs > KVC_HELD_PRIVATE) {
		r = -EBADF;
	} else {
		where->extent = kvc_handle_extent(page);
		where->size = record->slab->cache->page_size;
		where->offset = kvc_handle_index(page) * where->size;
		where->writable = *refs == KVC_HELD_PRIVATE;
	}
	kvc_lock_drop(&client->lock);
	return r;
}
