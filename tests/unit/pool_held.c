// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* The table of what a client of a node holds, against a list. */
#include <string.h>

#include "runtime/pool/held.h"
#include "tests/lib/tap.h"

#define PAGES 700
#define STEPS 400000

static struct {
	uint64_t page;
	uint32_t refs;
	int held;
} list[PAGES];

/* Handles that lie close together, as those of a slab do, and some that differ in their generation alone. */
static uint64_t handle(int i)
{
	return (uint64_t)(i / 512) << 38 | (uint64_t)(i / 4 % 128) << 28 | (uint64_t)(i % 4 + 1);
}

static int equal(const struct pool_held *h)
{
	uint64_t private_pages = 0, refs = 0;
	uint32_t n = 0;
	int i;

	for (i = 0; i < PAGES; i++) {
		const struct held_page *p = held_find(h, list[i].page);

		if (!p != !list[i].held || (p && (p->refs != list[i].refs || p->size != 4096u * (uint32_t)(i + 1))))
			return 0;
		n += list[i].held != 0;
		refs += list[i].refs;
		private_pages += list[i].held && !list[i].refs;
	}
	return h->n == n && h->refs == refs && h->private_pages == private_pages;
}

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(argc, argv);
	struct pool_held h = { 0 };
	int i, step, bad = 0, most = 0;

	for (i = 0; i < PAGES; i++)
		list[i].page = handle(i);
	ok(!held_find(&h, 1) && !held_find(&h, 0), "nothing in an empty one");
	held_drop(&h, 1);
	ok(h.n == 0, "nothing to drop there");
	for (step = 0; step < STEPS && !bad; step++) {
		/* Grows and shrinks by turns. */
		int fill = step / 5000 % 2 ? 3 : 6;

		i = (int)(rnd(&seed) % PAGES);
		if (rnd(&seed) % 10 < (unsigned int)fill) {
			bad |= held_room(&h, 1) != 0;
			if (!list[i].held && rnd(&seed) % 2) {
				held_add_private(&h, list[i].page, 4096u * (uint32_t)(i + 1));
				list[i].held = 1;
			} else if (!list[i].held || list[i].refs) {
				held_add_ref(&h, list[i].page, 4096u * (uint32_t)(i + 1));
				list[i].held = 1;
				list[i].refs++;
			}
		} else {
			held_drop(&h, list[i].page);
			if (list[i].held && list[i].refs < 2)
				list[i].held = 0;
			list[i].refs -= list[i].refs > 0;
		}
		most = (int)h.n > most ? (int)h.n : most;
		if (step % 97 == 0)
			bad |= !equal(&h);
	}
	ok(!bad && equal(&h), "%d additions and removals, up to %d pages", step, most);
	for (i = 0; i < PAGES; i++)
		while (held_find(&h, list[i].page))
			held_drop(&h, list[i].page);
	ok(!h.n && !h.refs && !h.private_pages, "empty again");
	held_free(&h);
	return done();
}
