/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * What a client of a node holds, as its library knows it: so that kvslab_page_rw() and _ro() need no
 * command. Filled from the answers of the module, used by the client's one thread.
 *
 * A hash table with open addresses. Its key is the whole handle, generation included: a client holds
 * a page under one generation only, so an old handle is just not found.
 */
#ifndef POOL_HELD_H
#define POOL_HELD_H

#include <stdint.h>

struct held_page {
	uint64_t page; /* 0: an empty place */
	uint32_t refs; /* 0: private */
	uint32_t size; /* bytes */
};

struct pool_held {
	struct held_page *slot; /* [1 << bits] */
	uint32_t bits, n;
	uint64_t private_pages, refs;
};

void held_free(struct pool_held *held);
/* Room for @n more pages, so that the next n additions cannot fail. -ENOMEM. */
int held_room(struct pool_held *held, uint32_t n);
/* NULL: the client does not hold it. */
const struct held_page *held_find(const struct pool_held *held, uint64_t page);
void held_add_private(struct pool_held *held, uint64_t page, uint32_t size);
/* One reference. */
void held_add_ref(struct pool_held *held, uint64_t page, uint32_t size);
/* The private page, or one reference. */
void held_drop(struct pool_held *held, uint64_t page);

#endif
