// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Calls on pages of a node: a command each, and what it means for the table of what is held. */
#include <errno.h>
#include <string.h>

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

int device_alloc(struct pool_device *d, uint32_t id, kvslab_handle *pages, uint32_t n,
		 uint32_t flags)
{
	struct kvslab_args_alloc args = {
		.pages = (uintptr_t)pages, .cache = id, .count = n, .flags = flags
	};
	uint32_t size = page_size(d, id);
	int rc, i;

	if (!count_ok(n) || !size)
		return -EINVAL;
	if (held_room(&d->held, n))
		return -ENOMEM;
	rc = command(d, KVSLAB_CMD_ALLOC, &args, sizeof(args));
	if (shortage(rc) && pool_ring_push(d->ring))
		rc = command(d, KVSLAB_CMD_ALLOC, &args, sizeof(args));
	for (i = 0; i < rc; i++)
		held_add_private(&d->held, pages[i], size);
	return rc;
}

int device_free(struct pool_device *d, const kvslab_handle *pages, uint32_t n)
{
	struct kvslab_args_pages args = { .pages = (uintptr_t)pages, .count = n };
	uint32_t i;
	int rc;

	if (!count_ok(n))
		return -EINVAL;
	rc = command(d, KVSLAB_CMD_FREE, &args, sizeof(args));
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
	struct kvslab_args_seal args = { .seals = (uintptr_t)seals, .count = n };
	kvslab_handle was[KVSLAB_BATCH_MAX];
	uint32_t size = 0, i;
	int rc;

	if (!count_ok(n))
		return -EINVAL;
	for (i = 0; i < n; i++)
		was[i] = seals[i].page;
	rc = command(d, KVSLAB_CMD_SEAL, &args, sizeof(args));
	if (rc < 0)
		return rc;
	/* They are of one cache. First all out, then in: so there is room. */
	for (i = 0; i < n; i++) {
		const struct held_page *p = held_find(&d->held, was[i]);

		if (p)
			size = p->size;
		held_drop(&d->held, was[i]);
	}
	for (i = 0; i < n; i++)
		held_add_ref(&d->held, seals[i].page, size);
	return 0;
}

int device_lookup(struct pool_device *d, uint32_t id, const struct kvslab_hash *hashes, uint32_t n,
		  kvslab_handle *pages)
{
	struct kvslab_args_lookup args = {
		.hashes = (uintptr_t)hashes, .pages = (uintptr_t)pages, .cache = id, .count = n
	};
	uint32_t size = page_size(d, id);
	int rc, i;

	if (!count_ok(n) || !size)
		return -EINVAL;
	if (held_room(&d->held, n))
		return -ENOMEM;
	rc = command(d, KVSLAB_CMD_LOOKUP, &args, sizeof(args));
	for (i = 0; i < rc; i++)
		held_add_ref(&d->held, pages[i], size);
	return rc;
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
