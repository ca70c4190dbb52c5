// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "bench_list.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { FREE, PRIVATE, CHECKED };

struct node {
	uint32_t prev, next; /* of the free list; node 0 is its head */
	uint32_t generation; /* 28 bits */
	uint32_t state;
};

struct bench_list {
	_Alignas(64) atomic_flag lock;
	_Alignas(64) uint32_t free;
	uint32_t pages;
	struct node *nodes; /* [pages + 1] */
};

#define GENERATION_BITS 28
#define GENERATION_MASK ((1u << GENERATION_BITS) - 1)

static void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

static void lock(struct bench_list *l)
{
	while (atomic_flag_test_and_set_explicit(&l->lock, memory_order_acquire))
		relax();
}

static void unlock(struct bench_list *l)
{
	atomic_flag_clear_explicit(&l->lock, memory_order_release);
}

static void append(struct bench_list *l, uint32_t i)
{
	struct node *head = &l->nodes[0];

	l->nodes[i].prev = head->prev;
	l->nodes[i].next = 0;
	l->nodes[head->prev].next = i;
	head->prev = i;
}

struct bench_list *bench_list_open(uint32_t pages)
{
	struct bench_list *l = aligned_alloc(64, sizeof(*l));
	uint32_t i;

	if (!l)
		return NULL;
	atomic_flag_clear(&l->lock);
	l->pages = l->free = pages;
	l->nodes = calloc((size_t)pages + 1, sizeof(*l->nodes));
	if (!l->nodes) {
		free(l);
		return NULL;
	}
	for (i = 1; i <= pages; i++)
		append(l, i);
	return l;
}

void bench_list_close(struct bench_list *l)
{
	if (!l)
		return;
	free(l->nodes);
	free(l);
}

int bench_list_alloc(struct bench_list *l, uint64_t *pages, uint32_t n)
{
	struct node *head = &l->nodes[0], *node;
	uint32_t i, at;

	lock(l);
	if (l->free < n) {
		unlock(l);
		return -ENOSPC;
	}
	at = head->next;
	for (i = 0; i < n; i++) {
		node = &l->nodes[at];
		node->state = PRIVATE;
		pages[i] = (uint64_t)at << GENERATION_BITS | node->generation;
		at = node->next;
	}
	head->next = at;
	l->nodes[at].prev = 0;
	l->free -= n;
	unlock(l);
	return (int)n;
}

/* A page that stands twice is found by the mark that its first place left. */
static int check(struct bench_list *l, uint64_t page)
{
	uint64_t i = page >> GENERATION_BITS;
	struct node *node;

	if (!i || i > l->pages)
		return -EBADF;
	node = &l->nodes[i];
	if (node->generation != (page & GENERATION_MASK))
		return -ESTALE;
	if (node->state != PRIVATE)
		return -EBADF;
	node->state = CHECKED;
	return 0;
}

int bench_list_free(struct bench_list *l, const uint64_t *pages, uint32_t n)
{
	struct node *node;
	uint32_t i, k;
	int rc = 0;

	lock(l);
	for (i = 0; i < n && !rc; i++)
		rc = check(l, pages[i]);
	if (rc) {
		for (k = 0; k + 1 < i; k++)
			l->nodes[pages[k] >> GENERATION_BITS].state = PRIVATE;
		unlock(l);
		return rc;
	}
	for (i = 0; i < n; i++) {
		node = &l->nodes[pages[i] >> GENERATION_BITS];
		node->state = FREE;
		node->generation = (node->generation + 1) & GENERATION_MASK;
		append(l, (uint32_t)(pages[i] >> GENERATION_BITS));
	}
	l->free += n;
	unlock(l);
	return 0;
}

uint32_t bench_list_count(struct bench_list *l)
{
	uint32_t n;

	lock(l);
	n = l->free;
	unlock(l);
	return n;
}
