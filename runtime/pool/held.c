// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "held.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BITS_MIN 8

static uint32_t home(const struct pool_held *held, uint64_t page)
{
	return (uint32_t)(page * 0x9e3779b97f4a7c15u >> (64 - held->bits));
}

static uint32_t mask(const struct pool_held *held)
{
	return (1u << held->bits) - 1;
}

/* Where the page is, or the empty place where it would be. */
static struct held_page *place(const struct pool_held *held, uint64_t page)
{
	uint32_t i = home(held, page);

	while (held->slot[i].page && held->slot[i].page != page)
		i = (i + 1) & mask(held);
	return &held->slot[i];
}

void held_free(struct pool_held *held)
{
	free(held->slot);
	memset(held, 0, sizeof(*held));
}

int held_room(struct pool_held *held, uint32_t n)
{
	struct pool_held grown = *held;
	uint64_t want = ((uint64_t)held->n + n) * 2;
	uint32_t i;

	if (held->slot && want <= 1ull << held->bits)
		return 0;
	if (grown.bits < BITS_MIN)
		grown.bits = BITS_MIN;
	while (want > 1ull << grown.bits)
		if (++grown.bits == 32)
			return -ENOMEM;
	grown.slot = calloc(1ull << grown.bits, sizeof(*grown.slot));
	if (!grown.slot)
		return -ENOMEM;
	for (i = 0; held->slot && i <= mask(held); i++)
		if (held->slot[i].page)
			*place(&grown, held->slot[i].page) = held->slot[i];
	free(held->slot);
	*held = grown;
	return 0;
}

const struct held_page *held_find(const struct pool_held *held, uint64_t page)
{
	const struct held_page *p;

	if (!page || !held->slot)
		return NULL;
	p = place(held, page);
	return p->page ? p : NULL;
}

void held_add_private(struct pool_held *held, uint64_t page, uint32_t size)
{
	struct held_page *p = place(held, page);

	held->n += !p->page;
	*p = (struct held_page){ .page = page, .size = size };
	held->private_pages++;
}

void held_add_ref(struct pool_held *held, uint64_t page, uint32_t size)
{
	struct held_page *p = place(held, page);

	held->n += !p->page;
	p->page = page;
	p->size = size;
	p->refs++;
	held->refs++;
}

/* What lies behind an emptied place up to the next empty one may have been pushed there by it. */
static void empty(struct pool_held *held, uint32_t i)
{
	uint32_t j = i, h;

	held->n--;
	for (;;) {
		held->slot[i].page = 0;
		held->slot[i].refs = 0;
		do {
			j = (j + 1) & mask(held);
			if (!held->slot[j].page)
				return;
			h = home(held, held->slot[j].page);
			/* It stays if its home lies cyclically in (i, j]. */
		} while (i <= j ? i < h && h <= j : i < h || h <= j);
		held->slot[i] = held->slot[j];
		i = j;
	}
}

void held_drop(struct pool_held *held, uint64_t page)
{
	struct held_page *p = held->slot ? place(held, page) : NULL;

	if (!p || !p->page)
		return;
	if (p->refs)
		held->refs--;
	else
		held->private_pages--;
	if (p->refs > 1)
		p->refs--;
	else
		empty(held, (uint32_t)(p - held->slot));
}
