// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Clients, and their records of slabs: made when the client gets its first page in a slab, gone
 * with the last, or with the ownership. */
#include "state.h"

size_t kvc_record_size(u32 pages)
{
	size_t size = sizeof(struct kvc_record) + pages * sizeof(u32);

	return (size + KVC_ALIGN - 1) & ~(size_t)(KVC_ALIGN - 1);
}

/* The client's record of @slab, if need be a new one from op's stash; NULL if that is empty. */
struct kvc_record *kvc_record_get(struct kvc_client *client, struct kvc_slab *slab,
				  struct kvc_op *op)
{
	struct kvc_record *record = client->map[slab->extent];

	if (record || !op->stash)
		return record;
	record = (struct kvc_record *)op->stash;
	op->stash = op->stash->next;
	op->nr_stash--;
	memset(record, 0, sizeof(struct kvc_table));
	record->slab = slab;
	record->client = client;
	record->extent = slab->extent;
	record->pages = slab->pages;
	record->cache = slab->cache->id;
	kvc_list_add(&record->node, &client->share[record->cache].guest);
	client->map[slab->extent] = record;
	return record;
}

static bool empty(const struct kvc_record *record)
{
	return !record->nr_private && !record->nr_sealing && !record->nr_refd;
}

/* The slab of an empty record may be gone already. */
static void forget(struct kvc_client *client, struct kvc_record *record, struct kvc_op *op)
{
	kvc_list_unlink(&record->node);
	client->map[record->extent] = NULL;
	kvc_table_free(op, record);
}

/* [4] held too: the client becomes the owner of an ownerless slab that is in no bin. */
void kvc_own(struct kvc_client *client, struct kvc_record *record)
{
	struct kvc_slab *slab = record->slab;
	struct kvc_share *share = &client->share[record->cache];

	slab->owner = record;
	kvc_write(slab->owner_id, kvc_client_id(client));
	slab->last = client->serial;
	record->owner = true;
	share->nr_own++;
	share->nr_free += slab->nr_free;
	share->nr_spares += slab->nr_free == slab->pages;
	kvc_list_unlink(&record->node);
	kvc_list_add(&record->node, slab->nr_free ? &share->room : &share->full);
}

/* The record of a slab that the client owns no more, or in which it holds less than before. */
void kvc_guest(struct kvc_client *client, struct kvc_record *record, struct kvc_op *op)
{
	if (empty(record)) {
		forget(client, record, op);
		return;
	}
	kvc_list_unlink(&record->node);
	kvc_list_add(&record->node, &client->share[record->cache].guest);
}

/*
 * To be called when pages of @record stopped being private: without any the client keeps the slab
 * only if all of it is free, and only so many of those.
 */
void kvc_settle(struct kvc_client *client, struct kvc_record *record, struct kvc_op *op)
{
	struct kvc_share *share = &client->share[record->cache];
	struct kvc_slab *slab = record->slab;
	struct kvc_cache *cache;

	if (!record->owner) {
		if (empty(record))
			forget(client, record, op);
		return;
	}
	if (record->nr_private || record->nr_sealing)
		return;
	cache = slab->cache;
	if (kvc_keep_spare(share, record))
		return;
	share->nr_free -= slab->nr_free;
	kvc_lock_take(&cache->lock);
	kvc_disown(share, record);
	if (slab->nr_free == slab->pages && !cache->pinned) {
		kvc_slab_dead(slab, NULL, op);
	} else {
		kvc_bin_add(slab);
		kvc_account(slab, -1, 0, 0, 0);
	}
	kvc_lock_drop(&cache->lock);
	kvc_guest(client, record, op);
}

/* What to say of a handle that the client does not hold. */
int kvc_not_held(const struct kvc_record *record, u64 handle)
{
	u32 index = kvc_handle_index(handle), generation = kvc_handle_generation(handle);
	const struct kvc_slab *slab;
	u32 now;

	if (!record || index >= record->pages || !generation)
		return -EBADF;
	slab = record->slab;
	now = kvc_read(slab->page[index].generation);
	if (((generation - slab->epoch) & KVC_GENERATION_MASK) <
	    ((now - slab->epoch) & KVC_GENERATION_MASK))
		return -ESTALE;
	return -EBADF;
}

size_t kvc_client_size(struct kvc_pool *pool)
{
	return sizeof(struct kvc_client) + pool->arena->nr * sizeof(struct kvc_record *);
}

static int client_init(void *mem, struct kvc_pool *pool, const struct kvc_client *twin,
		       struct kvc_client **out)
{
	struct kvc_client *client = mem;
	struct kvc_share *share;
	u32 i;
	int r = 0;

	kvc_lock_init(&client->lock);
	client->pool = pool;
	client->arena = pool->arena;
	for (i = 0; i < KVC_CACHES_MAX; i++) {
		share = &client->share[i];
		kvc_list_init(&share->room);
		kvc_list_init(&share->full);
		kvc_list_init(&share->guest);
	}
	kvc_lock_take(&pool->lock);
	if (pool->ending) {
		r = -EINVAL;
		goto out;
	}
	for (i = 0; i < KVC_CACHES_MAX && pool->cache[i]; i++) {
		share = &client->share[i];
		share->pages = pool->cache[i]->pages;
		share->spares_max = kvc_spares_max(pool, share->pages);
		share->page_size = pool->cache[i]->page_size;
		share->pinned = pool->cache[i]->pinned;
	}
	client->serial = twin ? twin->serial : ++pool->serial;
	if (!kvc_client_id(client))
		client->serial = ++pool->serial;
	client->tell = pool->untold;
	kvc_list_add_tail(&client->node, &pool->clients);
	pool->nr_clients++;
	*out = client;
	kvc_hook_client(pool->id, kvc_client_id(client), true, 0, 0);
out:
	kvc_lock_drop(&pool->lock);
	return r;
}

int kvc_client_init(void *mem, struct kvc_pool *pool, struct kvc_client **out)
{
	return client_init(mem, pool, NULL, out);
}

int kvc_client_init_as(void *mem, struct kvc_pool *pool, const struct kvc_client *twin,
		       struct kvc_client **out)
{
	return client_init(mem, pool, twin, out);
}

/* The dead client's sealed pages in one slab lose its references. A stamp of their own: to sort all
 * that it held would take long under the lock. */
static void exit_refs(struct kvc_record *record)
{
	struct kvc_index *index = &record->client->pool->index;
	struct kvc_list cached;
	u64 handle;
	u32 i;

	kvc_list_init(&cached);
	kvc_lock_take(&index->lock);
	for (i = 0; i < record->pages; i++) {
		if (!record->refs[i] || record->refs[i] > KVC_REFS_MAX)
			continue;
		kvc_unref(&record->slab->entry[i], record->refs[i], &cached);
		record->client->share[record->cache].nr_refs -= record->refs[i];
		kvc_hook_page_free(record->slab->pool->id, kvc_client_id(record->client),
				   record->cache, record->slab->cache->page_size,
				   kvc_page_handle(record->slab, i), KVC_LEFT_REFERENCE,
				   record->slab->entry[i].refs);
		handle = kvc_page_handle(record->slab, i);
		(void)handle; /* where there is no hook */
		kvc_hook_pages_free(record->slab->pool->id, kvc_client_id(record->client),
				    record->cache, record->slab->cache->page_size, &handle, 1,
				    KVC_LEFT_REFERENCE);
		record->refs[i] = 0;
	}
	kvc_cache_entries(&cached, ++index->stamp);
	kvc_lock_drop(&index->lock);
	record->nr_refd = 0;
}

/* False: zap what op has first. */
static bool exit_record(struct kvc_client *client, struct kvc_record *record, struct kvc_op *op)
{
	struct kvc_share *share = &client->share[record->cache];
	struct kvc_slab *slab = record->slab;
	u64 handle;
	u32 i;

	if (record->owner && slab->nr_free == slab->pages)
		share->nr_spares--;
	if (record->nr_refd)
		exit_refs(record);
	if (!record->owner && record->nr_private && op->nr_zaps == KVC_ZAPS)
		return false;
	for (i = 0; record->nr_private; i++) {
		if (!record->refs[i])
			continue;
		record->refs[i] = 0;
		record->nr_private--;
		share->nr_private--;
		share->frees++;
		handle = kvc_page_handle(slab, i);
		(void)handle; /* where there is no hook */
		kvc_hook_page_free(slab->pool->id, kvc_client_id(client), record->cache,
				   share->page_size, handle, KVC_LEFT_PRIVATE, 0);
		kvc_hook_pages_free(slab->pool->id, kvc_client_id(client), record->cache,
				    share->page_size, &handle, 1, KVC_LEFT_PRIVATE);
		kvc_page_leave(slab, i);
		if (record->owner) {
			kvc_ring_put(slab, i);
			share->nr_free++;
		} else {
			kvc_write(slab->page[i].state, KVC_MOVING);
			kvc_zap_page(op, slab, i, KVC_ZAP_FREE, KVC_ZAPS);
			kvc_account(slab, 0, 1, 0, 0);
		}
	}
	kvc_settle(client, record, op);
	return true;
}

static bool exit_share(struct kvc_client *client, struct kvc_share *share, struct kvc_op *op)
{
	struct kvc_list *lists[3] = { &share->room, &share->full, &share->guest };
	u32 i;

	/* From here on settling keeps no spares. */
	share->spares_max = 0;
	for (i = 0; i < 3; i++)
		if (!kvc_list_empty(lists[i]))
			return exit_record(
				client, container_of(lists[i]->next, struct kvc_record, node), op);
	return true;
}

static bool nothing_left(const struct kvc_share *share)
{
	return kvc_list_empty(&share->room) && kvc_list_empty(&share->full) &&
	       kvc_list_empty(&share->guest);
}

static void hook_exit(struct kvc_client *client)
{
	struct kvc_client_stat stat;

	kvc_client_stat(client, &stat);
	kvc_hook_client(client->pool->id, stat.id, false, stat.private_pages, stat.references);
}

int kvc_client_exit(struct kvc_client *client, struct kvc_op *op)
{
	struct kvc_pool *pool = client->pool;
	bool left, go_on = true;
	u32 i;

	if (op->phase)
		kvc_collect(pool, NULL, NULL, op);
	if (op->phase == KVC_PHASE_END)
		return kvc_op_end(pool, op, op->result);
	if (op->phase == KVC_PHASE_NEW)
		hook_exit(client);
	op->phase = KVC_PHASE_WORK;
	op->flags |= KVC_OP_FREED;
	for (i = 0; i < KVC_CACHES_MAX && go_on; i++) {
		do {
			kvc_lock_take(&client->lock);
			go_on = exit_share(client, &client->share[i], op);
			left = !nothing_left(&client->share[i]);
			kvc_lock_drop(&client->lock);
		} while (go_on && left);
	}
	if (!go_on) {
		kvc_more(op);
		return KVC_MORE;
	}
	kvc_wait_end(client, op);
	kvc_lock_take(&pool->lock);
	kvc_list_unlink(&client->node);
	pool->nr_clients--;
	for (i = 0; i < KVC_CACHES_MAX; i++) {
		pool->allocs += client->share[i].allocs;
		pool->frees += client->share[i].frees;
	}
	kvc_lock_drop(&pool->lock);
	return kvc_op_end(pool, op, 0);
}
