// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Events: who is told of what became free, and of watermarks.
 *
 * A pool with a waiter that was not told is *untold*. While it is, FREE finds its client's flag
 * tell set, and whatever gives pages back sets KVC_OP_FREED; an extent that becomes free, or a slab
 * that nobody holds any more or only as a spare, sets the arena's attention, which every call looks at. So does a
 * watermark that is crossed. Where none of this is, a call reads two words that it had at hand.
 *
 * Nothing gets lost: ALLOC enters the list of waiters first and counts what there is once more. A
 * page that came back before was counted; whoever gives one back later takes a lock that the count
 * took, and so sees the flag.
 */
#include "state.h"

/* [2] held. */
static void raise_event(struct kvc_client *client, u8 event)
{
	u8 events = client->events;

	if (event != KVC_EVENT_ROOM)
		events &= ~(KVC_EVENT_PRESSURE | KVC_EVENT_RELIEF);
	client->events = events | event;
}

static void wake(struct kvc_pool *pool, struct kvc_op *op)
{
	u32 i;

	for (i = 0; i < op->nr_wakes; i++)
		if (op->wake[i] == pool->id)
			return;
	op->wake[op->nr_wakes++] = pool->id;
}

static struct kvc_client *first_waiter(struct kvc_pool *pool)
{
	return container_of(pool->waiters.next, struct kvc_client, waiter);
}

/* [2] held. */
static void set_untold(struct kvc_pool *pool, bool untold)
{
	struct kvc_arena *arena = pool->arena;
	struct kvc_client *client;
	struct kvc_list *l;

	if (pool->untold != untold) {
		kvc_write(pool->untold, untold);
		kvc_lock_take(&arena->lock);
		kvc_write(arena->untold, arena->untold + (untold ? 1 : -1));
		kvc_lock_drop(&arena->lock);
	}
	if (!untold)
		return;
	/* Each client's lock orders this before the waiter counts that client's pages. */
	kvc_list_for(l, &pool->clients) {
		client = container_of(l, struct kvc_client, node);
		kvc_lock_take(&client->lock);
		client->tell = true;
		kvc_lock_drop(&client->lock);
	}
}

/* [2] held. Tell the first waiter. */
static void tell_first(struct kvc_pool *pool, struct kvc_op *op)
{
	pool->told = true;
	set_untold(pool, false);
	raise_event(first_waiter(pool), KVC_EVENT_ROOM);
	wake(pool, op);
}

/* [2] held. Clients learn of the pool's pressure or relief. */
static void tell_pressure(struct kvc_pool *pool, bool pressure, struct kvc_op *op)
{
	struct kvc_list *l;

	pool->told_pressure = pressure;
	kvc_list_for(l, &pool->clients)
		raise_event(container_of(l, struct kvc_client, node),
			    pressure ? KVC_EVENT_PRESSURE : KVC_EVENT_RELIEF);
	wake(pool, op);
}

/* @freed: a page of this pool came back. */
static void tell_pool(struct kvc_pool *pool, bool freed, struct kvc_op *op)
{
	struct kvc_arena *arena = pool->arena;
	struct kvc_client *first;
	bool pressure;
	u64 extents;

	kvc_lock_take(&pool->lock);
	kvc_lock_take(&arena->lock);
	pressure = pool->pressure;
	extents = arena->freed;
	kvc_lock_drop(&arena->lock);
	if (pressure != pool->told_pressure)
		tell_pressure(pool, pressure, op);
	if (pool->untold) {
		first = first_waiter(pool);
		/* What an ALLOC that failed gives back is not news for it. */
		if ((freed && first != op->waiter) || extents != first->seen)
			tell_first(pool, op);
	}
	kvc_lock_drop(&pool->lock);
}

/* At the end of a call: events that it brought, or that others left to be told. */
void kvc_tell(struct kvc_pool *pool, struct kvc_op *op)
{
	struct kvc_arena *arena = pool->arena;
	struct kvc_list *l;

	if (op->flags & KVC_OP_FREED && kvc_read(pool->untold))
		tell_pool(pool, true, op);
	if (likely(!kvc_read(arena->attention)))
		return;
	kvc_lock_take(&arena->pools);
	kvc_lock_take(&arena->lock);
	kvc_write(arena->attention, 0);
	kvc_lock_drop(&arena->lock);
	kvc_list_for(l, &arena->list) {
		if (op->nr_wakes == KVC_WAKES) {
			/* The next call tells the rest. */
			kvc_lock_take(&arena->lock);
			kvc_write(arena->attention, 1);
			kvc_lock_drop(&arena->lock);
			break;
		}
		tell_pool(container_of(l, struct kvc_pool, node), false, op);
	}
	kvc_lock_drop(&arena->pools);
}

/* FREE found its client's flag set. */
void kvc_tell_freed(struct kvc_client *client, struct kvc_op *op)
{
	struct kvc_pool *pool = client->pool;

	kvc_lock_take(&pool->lock);
	kvc_lock_take(&client->lock);
	client->tell = pool->untold;
	kvc_lock_drop(&client->lock);
	kvc_lock_drop(&pool->lock);
	op->flags |= KVC_OP_FREED;
	kvc_tell(pool, op);
}

/* An ALLOC found nothing: the client waits, behind those who do already. The caller tries once
 * more. */
void kvc_wait(struct kvc_client *client)
{
	struct kvc_pool *pool = client->pool;
	struct kvc_arena *arena = pool->arena;

	kvc_lock_take(&pool->lock);
	if (!client->waits) {
		kvc_list_add_tail(&client->waiter, &pool->waiters);
		kvc_write(client->waits, true);
	}
	kvc_lock_take(&arena->lock);
	client->seen = arena->freed;
	kvc_lock_drop(&arena->lock);
	if (first_waiter(pool) == client)
		pool->told = false;
	set_untold(pool, !pool->told);
	kvc_lock_drop(&pool->lock);
}

/* The client has allocated, or ends. It is the next one's turn. */
void kvc_wait_end(struct kvc_client *client, struct kvc_op *op)
{
	struct kvc_pool *pool = client->pool;
	bool first;

	kvc_lock_take(&pool->lock);
	if (client->waits) {
		first = first_waiter(pool) == client;
		kvc_list_unlink(&client->waiter);
		kvc_write(client->waits, false);
		if (first && kvc_list_empty(&pool->waiters)) {
			pool->told = false;
			set_untold(pool, false);
		} else if (first) {
			tell_first(pool, op);
		}
	}
	kvc_lock_drop(&pool->lock);
}

u32 kvc_events(struct kvc_client *client, bool clear)
{
	struct kvc_pool *pool = client->pool;
	u32 events;

	kvc_lock_take(&pool->lock);
	events = client->events;
	if (clear)
		client->events = 0;
	kvc_lock_drop(&pool->lock);
	return events;
}
