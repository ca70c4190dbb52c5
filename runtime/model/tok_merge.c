// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * Merging of neighbours, best first. The heap holds each pair that was a candidate when it came up;
 * one whose symbols changed since is recognised by their length and dropped. At most three entries
 * a symbol ever enter it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tok_impl.h"

struct tok_candidate {
	uint64_t key; /* rank << 32 | left: the order */
	uint32_t n; /* bytes of both, when it was entered */
	uint32_t id; /* what they become */
};

int tok_merge_add(struct tok_merge *m, uint32_t at, uint32_t n, uint32_t id)
{
	uint32_t cap = m->cap ? m->cap * 2 : 64;
	struct tok_symbol *p;

	if (m->n == m->cap) {
		p = realloc(m->symbol, (size_t)cap * sizeof(*p));
		if (!p)
			return -ENOMEM;
		m->symbol = p;
		m->cap = cap;
	}
	m->symbol[m->n] = (struct tok_symbol){ at, n, m->n - 1, TOK_NONE, id };
	if (m->n)
		m->symbol[m->n - 1].next = m->n;
	m->n++;
	return 0;
}

static int push(struct tok_merge *m, struct tok_candidate c)
{
	size_t i = m->n_heap, cap = m->cap_heap ? m->cap_heap * 2 : 64, up;
	struct tok_candidate *p;

	if (i == m->cap_heap) {
		p = realloc(m->heap, cap * sizeof(*p));
		if (!p)
			return -ENOMEM;
		m->heap = p;
		m->cap_heap = cap;
	}
	m->n_heap++;
	for (; i; i = up) {
		up = (i - 1) / 2;
		m->steps++;
		if (m->heap[up].key <= c.key)
			break;
		m->heap[i] = m->heap[up];
	}
	m->heap[i] = c;
	return 0;
}

static struct tok_candidate pop(struct tok_merge *m)
{
	struct tok_candidate top = m->heap[0], last = m->heap[--m->n_heap];
	size_t i = 0, down;

	for (;; i = down) {
		down = 2 * i + 1;
		m->steps++;
		if (down >= m->n_heap)
			break;
		if (down + 1 < m->n_heap && m->heap[down + 1].key < m->heap[down].key)
			down++;
		if (m->heap[down].key >= last.key)
			break;
		m->heap[i] = m->heap[down];
	}
	m->heap[i] = last;
	return top;
}

static int consider(struct tok_merge *m, const struct tokenizer *t, const char *text,
		    tok_pair_fn pair, uint32_t left)
{
	const struct tok_symbol *a, *b;
	struct tok_candidate c;
	uint32_t rank;

	if (left == TOK_NONE || m->symbol[left].next == TOK_NONE)
		return 0;
	a = &m->symbol[left];
	b = &m->symbol[a->next];
	if (!pair(t, text, a, b, &rank, &c.id))
		return 0;
	c.key = (uint64_t)rank << 32 | left;
	c.n = a->n + b->n;
	return push(m, c);
}

int tok_merge_run(struct tok_merge *m, const struct tokenizer *t, const char *text,
		  tok_pair_fn pair)
{
	struct tok_symbol *a, *b;
	struct tok_candidate c;
	uint32_t i;
	int err;

	m->n_heap = 0;
	for (i = 0; i + 1 < m->n; i++) {
		err = consider(m, t, text, pair, i);
		if (err)
			return err;
	}
	while (m->n_heap) {
		c = pop(m);
		a = &m->symbol[(uint32_t)c.key];
		if (!a->n || a->next == TOK_NONE)
			continue;
		b = &m->symbol[a->next];
		if (a->n + b->n != c.n)
			continue;
		a->n = c.n;
		a->id = c.id;
		b->n = 0;
		a->next = b->next;
		if (a->next != TOK_NONE)
			m->symbol[a->next].prev = (uint32_t)c.key;
		err = consider(m, t, text, pair, a->prev);
		if (!err)
			err = consider(m, t, text, pair, (uint32_t)c.key);
		if (err)
			return err;
	}
	return 0;
}

void tok_merge_free(struct tok_merge *m)
{
	free(m->symbol);
	free(m->heap);
	memset(m, 0, sizeof(*m));
}
