// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* leaks: what is held, gathered by who holds it and where it was taken. */
#ifdef KVSLAB_TRACE
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace.h"
#include "trace_read.h"

#define PAGE_SHIFT 28 /* of a handle: below lies the generation */

static int by_place(const void *a, const void *b)
{
	const struct trace_site *x = a, *y = b;

#define BY(member)                  \
	if (x->member != y->member) \
	return x->member < y->member ? -1 : 1
	BY(pool);
	BY(client);
	BY(pid);
	BY(stack);
	BY(how);
	BY(cache);
	BY(since);
	BY(page);
	return 0;
}

static int by_age(const void *a, const void *b)
{
	const struct trace_site *x = a, *y = b;

	BY(since);
	return by_place(a, b);
}

static int add(struct trace_sites *s, size_t *room, const struct trace_site *site)
{
	struct trace_site *more;

	if (s->n == *room) {
		more = reallocarray(s->list, *room * 2 + 64, sizeof(*more));
		if (!more)
			return -ENOMEM;
		s->list = more;
		*room = *room * 2 + 64;
	}
	s->list[s->n++] = *site;
	return 0;
}

/* The sorted list, with one element for each place. */
static void gather(struct trace_sites *s)
{
	struct trace_site *to = s->list, *from;
	size_t i, n = 0;

	if (!s->n)
		return;
	qsort(s->list, s->n, sizeof(*s->list), by_place);
	for (i = 0; i < s->n; i++) {
		from = &s->list[i];
		if (n && to[n - 1].pool == from->pool && to[n - 1].client == from->client &&
		    to[n - 1].pid == from->pid && to[n - 1].stack == from->stack &&
		    to[n - 1].how == from->how && to[n - 1].cache == from->cache)
			to[n - 1].pages += from->pages;
		else
			to[n++] = *from;
	}
	s->n = n;
	qsort(s->list, s->n, sizeof(*s->list), by_age);
}

static int add_privates(struct trace_sites *s, size_t *room, int fd, uint64_t before)
{
	struct kvb_privates w;
	struct trace_site site;
	uint32_t key, *at = NULL, i;
	int err = 0;

	for (; !err && !bpf_map_get_next_key(fd, at, &key); at = &key) {
		if (bpf_map_lookup_elem(fd, &key, &w))
			continue;
		for (i = 0; i < KVB_WINDOW && !err; i++) {
			const struct kvb_private *p = &w.page[i];

			if (!p->since || p->since > before)
				continue;
			site = (struct trace_site){
				.pool = w.pool,
				.client = p->client,
				.cache = w.cache,
				.page_size = w.page_size,
				.pid = p->pid,
				.stack = p->stack,
				.pages = 1,
				.since = p->since,
				.page = ((uint64_t)key * KVB_WINDOW + i) << PAGE_SHIFT,
			};
			err = add(s, room, &site);
		}
	}
	return err;
}

static int add_references(struct trace_sites *s, size_t *room, int fd, uint64_t before)
{
	struct kvb_reference key, *at = NULL;
	struct trace_site site;
	struct kvb_held h;
	int err = 0;

	for (; !err && !bpf_map_get_next_key(fd, at, &key); at = &key) {
		if (bpf_map_lookup_elem(fd, &key, &h) || h.since > before)
			continue;
		site = (struct trace_site){
			.pool = key.pool,
			.client = key.client,
			.cache = h.cache,
			.page_size = h.page_size,
			.pid = h.pid,
			.stack = h.stack,
			.how = h.taken == KVB_BY_SEAL	? TRACE_SEALED :
			       h.taken == KVB_BY_LOOKUP ? TRACE_LOOKED_UP :
							  TRACE_GOT,
			.pages = h.count,
			.since = h.since,
			.page = key.page << PAGE_SHIFT,
		};
		err = add(s, room, &site);
	}
	return err;
}

int trace_sites(struct trace_sites *s, const struct trace_loaded *l, uint64_t before)
{
	size_t room = 0;
	int err;

	memset(s, 0, sizeof(*s));
	err = add_privates(s, &room, trace_map(l, "privates"), before);
	if (!err)
		err = add_references(s, &room, trace_map(l, "references"), before);
	if (err)
		trace_sites_free(s);
	else
		gather(s);
	return err;
}

void trace_sites_free(struct trace_sites *s)
{
	free(s->list);
	memset(s, 0, sizeof(*s));
}

void trace_comm(const struct trace_loaded *l, uint32_t pool, uint32_t client, char comm[16])
{
	struct kvb_client key = { pool, client };
	struct kvb_client_info info = { 0 };

	bpf_map_lookup_elem(trace_map(l, "clients"), &key, &info);
	memcpy(comm, info.comm, sizeof(info.comm));
}

void trace_stack(const struct trace_loaded *l, int32_t stack, uint64_t *frames)
{
	if (stack < 0 || bpf_map_lookup_elem(trace_map(l, "stacks"), &stack, frames))
		memset(frames, 0, KVB_FRAMES * sizeof(*frames));
}
#endif
