// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#ifdef KVSLAB_TRACE
#include "trace_read.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace.h"

int trace_map(const struct trace_loaded *l, const char *name)
{
	return bpf_object__find_map_fd_by_name(l->object, name);
}

static int by_key(const void *a, const void *b)
{
	const uint32_t *x = ((const struct trace_count *)a)->key, *y = ((const struct trace_count *)b)->key;
	int i;

	for (i = 0; i < TRACE_WORDS; i++)
		if (x[i] != y[i])
			return x[i] < y[i] ? -1 : 1;
	return 0;
}

/* Room for one more in a list of @n elements; room doubles at each power of two. */
static void *one_more(void *list, size_t n, size_t size)
{
	return n & (n - 1) ? list : reallocarray(list, n ? 2 * n : 1, size);
}

int trace_counts(struct trace_counts *c, const struct trace_loaded *l, const char *name, unsigned int words)
{
	uint32_t key[TRACE_WORDS], *at = NULL;
	int fd = trace_map(l, name);
	struct trace_count *more;
	uint64_t value;

	memset(c, 0, sizeof(*c));
	if (fd < 0)
		return -ENOENT;
	for (; !bpf_map_get_next_key(fd, at, key); at = key) {
		if (bpf_map_lookup_elem(fd, key, &value))
			continue;
		more = one_more(c->list, c->n, sizeof(*c->list));
		if (!more) {
			trace_counts_free(c);
			return -ENOMEM;
		}
		c->list = more;
		memset(&more[c->n], 0, sizeof(*more));
		memcpy(more[c->n].key, key, words * sizeof(*key));
		more[c->n++].value = value;
	}
	if (c->n)
		qsort(c->list, c->n, sizeof(*c->list), by_key);
	return 0;
}

int trace_hists(struct trace_hists *h, const struct trace_loaded *l, const char *name, unsigned int words)
{
	struct trace_hist *more, *last = NULL;
	struct trace_counts c;
	int err = trace_counts(&c, l, name, words + 1);
	uint32_t slot;
	size_t i;

	memset(h, 0, sizeof(*h));
	for (i = 0; i < c.n && !err; i++) {
		slot = c.list[i].key[words];
		if (!last || memcmp(last->key, c.list[i].key, words * sizeof(*last->key))) {
			more = one_more(h->list, h->n, sizeof(*h->list));
			if (!more) {
				err = -ENOMEM;
				break;
			}
			h->list = more;
			last = &more[h->n++];
			memset(last, 0, sizeof(*last));
			memcpy(last->key, c.list[i].key, words * sizeof(*last->key));
		}
		if (slot == KVB_SUM) {
			last->sum = c.list[i].value;
		} else if (slot < KVB_SLOTS) {
			last->slots[slot] = c.list[i].value;
			last->count += c.list[i].value;
		}
	}
	trace_counts_free(&c);
	if (err)
		trace_hists_free(h);
	return err;
}

uint64_t trace_value(const struct trace_counts *c, const uint32_t *key)
{
	const struct trace_count *found =
		c->n ? bsearch(key, c->list, c->n, sizeof(*c->list), by_key) : NULL;

	return found ? found->value : 0;
}

void trace_counts_free(struct trace_counts *c)
{
	free(c->list);
	memset(c, 0, sizeof(*c));
}

void trace_hists_free(struct trace_hists *h)
{
	free(h->list);
	memset(h, 0, sizeof(*h));
}

void trace_lost(const struct trace_loaded *l, uint64_t *lost)
{
	int fd = trace_map(l, "lost_total");
	uint32_t i;

	for (i = 0; i < KVB_LOSTS; i++)
		if (bpf_map_lookup_elem(fd, &i, &lost[i]))
			lost[i] = 0;
}
#endif
