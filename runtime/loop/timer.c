// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "timer.h"

/* Two heaps of which neither has a sibling, into one; its place is left to the caller. */
static struct loop_timer *merge(struct loop_timer *a, struct loop_timer *b)
{
	struct loop_timer *t;

	if (b->due < a->due) {
		t = a;
		a = b;
		b = t;
	}
	b->next = a->child;
	if (b->next)
		b->next->prev = &b->next;
	b->prev = &a->child;
	a->child = b;
	return a;
}

/* Siblings into one heap: in pairs, and the pairs from the last to the first. NULL: there are none. */
static struct loop_timer *merge_all(struct loop_timer *first)
{
	struct loop_timer *pairs = NULL, *a, *b;

	while ((a = first)) {
		b = a->next;
		first = b ? b->next : NULL;
		a->next = NULL;
		if (b) {
			b->next = NULL;
			a = merge(a, b);
		}
		a->next = pairs;
		pairs = a;
	}
	a = pairs;
	if (!a)
		return NULL;
	pairs = a->next;
	a->next = NULL;
	while ((b = pairs)) {
		pairs = b->next;
		b->next = NULL;
		a = merge(a, b);
	}
	return a;
}

void timers_insert(struct loop_timer **heap, struct loop_timer *t)
{
	t->child = t->next = NULL;
	t->set = true;
	if (*heap)
		t = merge(*heap, t);
	t->next = NULL;
	t->prev = heap;
	*heap = t;
}

/* What lies under it is due no earlier than itself, so it may take its place. */
void timers_remove(struct loop_timer *t)
{
	struct loop_timer *heir = merge_all(t->child);

	if (heir) {
		heir->next = t->next;
		if (heir->next)
			heir->next->prev = &heir->next;
		heir->prev = t->prev;
	} else if (t->next) {
		t->next->prev = t->prev;
	}
	*t->prev = heir ? heir : t->next;
	t->set = false;
}
