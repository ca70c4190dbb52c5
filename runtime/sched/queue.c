// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Doubly linked lists of requests. */
#include "sched.h"

static bool before(const struct kvslab_request *a, const struct kvslab_request *b)
{
	if (a->priority != b->priority)
		return a->priority > b->priority;
	return a->arrival < b->arrival;
}

static void link_before(struct queue *q, struct kvslab_request *r, struct kvslab_request *next)
{
	r->next = next;
	r->prev = next ? next->prev : q->last;
	if (r->prev)
		r->prev->next = r;
	else
		q->first = r;
	if (next)
		next->prev = r;
	else
		q->last = r;
	q->n++;
}

/* A new arrival goes to the end at once; one that returns is old, so the search starts at the
 * front. */
void queue_insert(struct queue *q, struct kvslab_request *r)
{
	struct kvslab_request *next = NULL;

	if (q->last && before(r, q->last))
		for (next = q->first; !before(r, next); next = next->next)
			;
	link_before(q, r, next);
}

void queue_append(struct queue *q, struct kvslab_request *r)
{
	link_before(q, r, NULL);
}

void queue_remove(struct queue *q, struct kvslab_request *r)
{
	if (r->prev)
		r->prev->next = r->next;
	else
		q->first = r->next;
	if (r->next)
		r->next->prev = r->prev;
	else
		q->last = r->prev;
	r->prev = NULL;
	r->next = NULL;
	q->n--;
}
