// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Calls on pages of a node: a command each, and what it means for the table of what is held. */
#include <errno.h>
#include <string.h>

#include "batch.h"
#include "device.h"
#include "kmod/uapi/kvslab.h"
#include "ring.h"

/* What is handed through unchanged. */
_Static_assert(KVSLAB_PARTIAL == KVSLAB_ALLOC_PARTIAL && KVSLAB_SEAL_ROOT == KVSLAB_SEAL_FIRST,
	       "flags");
_Static_assert(sizeof(struct kvslab_seal) == sizeof(struct kvslab_seal_entry) &&
		       offsetof(struct kvslab_seal, page) ==
			       offsetof(struct kvslab_seal_entry, page) &&
		       offsetof(struct kvslab_seal, hash) ==
			       offsetof(struct kvslab_seal_entry, hash) &&
		       offsetof(struct kvslab_seal, parent) ==
			       offsetof(struct kvslab_seal_entry, parent) &&
		       offsetof(struct kvslab_seal, depth) ==
			       offsetof(struct kvslab_seal_entry, depth) &&
		       offsetof(struct kvslab_seal, priority) ==
			       offsetof(struct kvslab_seal_entry, priority) &&
		       offsetof(struct kvslab_seal, flags) ==
			       offsetof(struct kvslab_seal_entry, flags),
	       "seals");

static int command(struct pool_device *d, unsigned int cmd, void *args, uint32_t size)
{
	return d->wire->ops->command(d->wire, cmd, args, size);
}

static bool count_ok(uint32_t n)
{
	return n && n <= KVSLAB_BATCH_MAX;
}

/* Bytes of a page of cache @id, or 0. Another client may have opened it. */
static uint32_t page_size(struct pool_device *d, uint32_t id)
{
	struct kvslab_stat_cache caches[DEVICE_CACHES];
	struct kvslab_args_stat args = { .caches = (uintptr_t)caches, .nr_caches = DEVICE_CACHES };
	struct kvslab_cache cache;
	uint32_t i;

	if (id >= DEVICE_CACHES)
		return 0;
	if (d->page_size[id] || command(d, KVSLAB_CMD_STAT, &args, sizeof(args)))
		return d->page_size[id];
	for (i = 0; i < args.nr_caches && i < DEVICE_CACHES; i++)
		if (caches[i].id == id)
			device_cache_open(d, caches[i].page_size, &cache);
	return d->page_size[id];
}

static bool shortage(int err)
{
	return err == -ENOSPC || err == -EDQUOT;
}

/* A call on its way. */
struct device_call {
	union {
		struct kvslab_args_events events;
		struct kvslab_args_alloc alloc;
		struct kvslab_args_lookup lookup;
		struct kvslab_args_seal seal;
	} args;
	struct ring_call sent;
	uint32_t size; /* of a page */
};

/* Before any is sent: room in the table, so that an answer is never one too many. */
static int prepare(struct pool_device *d, struct device_call *dc, const struct pool_call *c, uint32_t *room)
{
	if (c->kind != POOL_EVENTS && !count_ok(c->n))
		return -EINVAL;
	dc->sent.args = &dc->args;
	switch (c->kind) {
	case POOL_EVENTS:
		dc->args.events = (struct kvslab_args_events){ 0 };
		dc->sent.cmd = KVSLAB_CMD_EVENTS;
		dc->sent.size = sizeof(dc->args.events);
		return 0;
	case POOL_SEAL:
		dc->args.seal = (struct kvslab_args_seal){ .seals = (uintptr_t)c->seals, .count = c->n };
		dc->sent.cmd = KVSLAB_CMD_SEAL;
		dc->sent.size = sizeof(dc->args.seal);
		return 0;
	case POOL_ALLOC:
		dc->args.alloc = (struct kvslab_args_alloc){
			.pages = (uintptr_t)c->pages, .cache = c->cache, .count = c->n, .flags = c->flags
		};
		dc->sent.cmd = KVSLAB_CMD_ALLOC;
		dc->sent.size = sizeof(dc->args.alloc);
		break;
	case POOL_LOOKUP:
		dc->args.lookup = (struct kvslab_args_lookup){ .hashes = (uintptr_t)c->hashes,
							       .pages = (uintptr_t)c->pages,
							       .cache = c->cache,
							       .count = c->n };
		dc->sent.cmd = KVSLAB_CMD_LOOKUP;
		dc->sent.size = sizeof(dc->args.lookup);
		break;
	}
	dc->size = page_size(d, c->cache);
	if (!dc->size)
		return -EINVAL;
	*room += c->n;
	return held_room(&d->held, *room) ? -ENOMEM : 0;
}

static void sealed(struct pool_device *d, const struct pool_call *c, const kvslab_handle *was)
{
	uint32_t size = 0, i;

	/* They are of one cache. First all out, then in: so there is room. */
	for (i = 0; i < c->n; i++) {
		const struct held_page *p = held_find(&d->held, was[i]);

		if (p)
			size = p->size;
		held_drop(&d->held, was[i]);
	}
	for (i = 0; i < c->n; i++)
		held_add_ref(&d->held, c->seals[i].page, size);
}

/* What an answer means for the table. */
static int answered(struct pool_device *d, const struct device_call *dc, const struct pool_call *c,
		    const kvslab_handle *was)
{
	int rc = dc->sent.result, i;

	if (c->kind == POOL_EVENTS) {
		if (rc < 0 && d->ring)
			pool_ring_tell(d->ring);
		return rc < 0 ? rc : (int)dc->args.events.events;
	}
	if (c->kind == POOL_SEAL && rc >= 0)
		sealed(d, c, was);
	for (i = 0; i < rc && c->kind == POOL_ALLOC; i++)
		held_add_private(&d->held, c->pages[i], dc->size);
	for (i = 0; i < rc && c->kind == POOL_LOOKUP; i++)
		held_add_ref(&d->held, c->pages[i], dc->size);
	return rc;
}

static void send_all(struct pool_device *d, struct device_call *calls, uint32_t n, bool ring)
{
	struct ring_call *sent[RING_CALLS] = { NULL };
	uint32_t i;

	for (i = 0; i < n; i++)
		sent[i] = &calls[i].sent;
	if (ring && pool_ring_calls(d->ring, sent, n))
		return;
	for (i = 0; i < n; i++)
		calls[i].sent.result =
			command(d, calls[i].sent.cmd, calls[i].sent.args, calls[i].sent.size);
}

/* At most RING_CALLS. */
static void call_some(struct pool_device *d, struct pool_call *calls, uint32_t n, bool ring)
{
	struct device_call dc[RING_CALLS];
	struct pool_call *call[RING_CALLS];
	kvslab_handle was[KVSLAB_BATCH_MAX];
	uint32_t i, k, at = 0, room = 0;

	for (i = 0; i < n; i++) {
		struct pool_call *c = &calls[i];

		if (ring && c->kind == POOL_EVENTS && !pool_ring_told(d->ring)) {
			c->result = 0;
			continue;
		}
		c->result = prepare(d, &dc[at], c, &room);
		for (k = 0; !c->result && c->kind == POOL_SEAL && k < c->n; k++)
			was[k] = c->seals[k].page;
		if (!c->result)
			call[at++] = c;
	}
	if (at)
		send_all(d, dc, at, ring);
	for (i = 0; i < at; i++) {
		if (call[i]->kind == POOL_ALLOC && shortage(dc[i].sent.result) && pool_ring_push(d->ring))
			send_all(d, &dc[i], 1, false);
		call[i]->result = answered(d, &dc[i], call[i], was);
	}
}

void device_calls(struct pool_device *d, struct pool_call *calls, uint32_t n)
{
	uint32_t at, k;

	for (at = 0; at < n; at += k) {
		k = n - at < RING_CALLS ? n - at : RING_CALLS;
		call_some(d, calls + at, k, d->ring != NULL);
	}
}

int device_alloc(struct pool_device *d, uint32_t id, kvslab_handle *pages, uint32_t n,
		 uint32_t flags)
{
	struct pool_call c = { POOL_ALLOC, .cache = id, .pages = pages, .n = n, .flags = flags };

	call_some(d, &c, 1, false);
	return c.result;
}

int device_free(struct pool_device *d, const kvslab_handle *pages, uint32_t n)
{
	struct kvslab_args_pages args = { .pages = (uintptr_t)pages, .count = n };
	uint32_t i, tries = 3;
	int rc;

	if (!count_ok(n))
		return -EINVAL;
	/* Who gives pages back has forgotten them: a moment without memory must not leave them here. */
	do
		rc = command(d, KVSLAB_CMD_FREE, &args, sizeof(args));
	while (rc == -ENOMEM && --tries);
	if (rc < 0)
		return rc;
	for (i = 0; i < n; i++)
		held_drop(&d->held, pages[i]);
	return 0;
}

int device_get(struct pool_device *d, const kvslab_handle *pages, uint32_t n)
{
	struct kvslab_args_pages args = { .pages = (uintptr_t)pages, .count = n };
	const struct held_page *p;
	uint32_t i;
	int rc;

	if (!count_ok(n))
		return -EINVAL;
	rc = command(d, KVSLAB_CMD_GET, &args, sizeof(args));
	if (rc < 0)
		return rc;
	for (i = 0; i < n; i++) {
		p = held_find(&d->held, pages[i]);
		if (p)
			held_add_ref(&d->held, pages[i], p->size);
	}
	return 0;
}

int device_seal(struct pool_device *d, struct kvslab_seal *seals, uint32_t n)
{
	struct pool_call c = { POOL_SEAL, .seals = seals, .n = n };

	call_some(d, &c, 1, false);
	return c.result;
}

int device_lookup(struct pool_device *d, uint32_t id, const struct kvslab_hash *hashes, uint32_t n,
		  kvslab_handle *pages)
{
	struct pool_call c = { POOL_LOOKUP, .cache = id, .hashes = hashes, .pages = pages, .n = n };

	call_some(d, &c, 1, false);
	return c.result;
}

void *device_page(struct pool_device *d, kvslab_handle page, bool write)
{
	const struct held_page *p = held_find(&d->held, page);
	size_t at;

	if (!p || (write && p->refs))
		return NULL;
	at = (size_t)KVSLAB_HANDLE_EXTENT(page) * KVSLAB_EXTENT_SIZE +
	     (size_t)KVSLAB_HANDLE_INDEX(page) * p->size;
	return at + p->size <= d->arena_size ? (write ? d->rw : d->ro) + at : NULL;
}
