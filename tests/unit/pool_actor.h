/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * A client that does random things to a pool and knows what must come of them: what it holds, and
 * what is written in each page. Used by one thread; several of them on several clients of one pool.
 */
#ifndef POOL_ACTOR_H
#define POOL_ACTOR_H

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "kvslab.h"
#include "tests/lib/tap.h"

#define ACTOR_HELD 96
#define ACTOR_CACHES 3
#define ACTOR_CHAIN 6

/* A chain is a number in base 4 with a leading 1: so few that clients meet. Content of a private
 * page is random. */
struct held {
	kvslab_handle page;
	uint64_t content; /* what the page's first and last words are */
	uint32_t cache; /* index into the actor's caches */
	uint32_t refs; /* 0: private */
};

struct actor {
	struct kvslab_pool *client;
	struct kvslab_cache cache[ACTOR_CACHES];
	uint32_t caches;
	uint64_t seed, tag; /* tag: of the pool; one pool's bytes never show in another's page */
	struct held held[ACTOR_HELD];
	uint32_t n;
	uint64_t calls, bad, shared, found, refused;
	char first[160]; /* the first thing that was wrong */
};

__attribute__((format(printf, 2, 3))) static void wrong(struct actor *a, const char *fmt, ...)
{
	va_list ap;

	if (!a->bad++) {
		va_start(ap, fmt);
		vsnprintf(a->first, sizeof(a->first), fmt, ap);
		va_end(ap);
	}
}

static uint32_t below(struct actor *a, uint32_t n)
{
	return (uint32_t)(rnd(&a->seed) % n);
}

static struct kvslab_hash actor_hash(const struct actor *a, uint32_t cache, uint64_t chain)
{
	uint64_t s = chain * 8 + cache, w[4];
	struct kvslab_hash h;
	int i;

	for (i = 0; i < 4; i++)
		w[i] = rnd(&s) ^ a->tag;
	memcpy(h.b, w, sizeof(h.b));
	return h;
}

static uint64_t chain_content(const struct actor *a, uint32_t cache, uint64_t chain)
{
	return a->tag ^ (chain << 8 | cache << 4 | 1);
}

static uint32_t chain_depth(uint64_t chain)
{
	uint32_t depth = 0;

	for (; chain >= 16; chain /= 4)
		depth++;
	return depth;
}

static uint64_t *last_word(void *page, uint32_t size)
{
	return (uint64_t *)((uint8_t *)page + size) - 1;
}

static void actor_write(struct actor *a, struct held *h, uint64_t content)
{
	uint64_t *at = kvslab_page_rw(a->client, h->page);

	if (!at) {
		wrong(a, "no address of a private page %llx", (unsigned long long)h->page);
		return;
	}
	h->content = content;
	*at = content;
	*last_word(at, a->cache[h->cache].page_size) = content;
}

static void actor_verify(struct actor *a, const struct held *h)
{
	const uint64_t *at = kvslab_page_ro(a->client, h->page);

	if (!at)
		wrong(a, "no address of page %llx", (unsigned long long)h->page);
	else if (*at != h->content ||
		 *last_word((void *)(uintptr_t)at, a->cache[h->cache].page_size) != h->content)
		wrong(a, "page %llx holds %llx, not %llx", (unsigned long long)h->page,
		      (unsigned long long)*at, (unsigned long long)h->content);
	if (h->refs && kvslab_page_rw(a->client, h->page))
		wrong(a, "a sealed page can be written");
}

static struct held *actor_find(struct actor *a, kvslab_handle page)
{
	uint32_t i;

	for (i = 0; i < a->n; i++)
		if (a->held[i].page == page)
			return &a->held[i];
	return NULL;
}

/* One more reference on a sealed page, maybe the first one. */
static void actor_reference(struct actor *a, kvslab_handle page, uint32_t cache, uint64_t content)
{
	struct held *h = actor_find(a, page);

	if (h && (!h->refs || h->content != content || h->cache != cache))
		wrong(a, "page %llx came twice", (unsigned long long)page);
	if (!h) {
		h = &a->held[a->n++];
		*h = (struct held){ page, content, cache, 0 };
	}
	h->refs++;
	actor_verify(a, h);
}

static void actor_alloc(struct actor *a)
{
	uint32_t cache = below(a, a->caches), n = 1 + below(a, 8), i;
	uint32_t flags = below(a, 4) ? 0 : KVSLAB_PARTIAL;
	kvslab_handle pages[8];
	int rc;

	if (a->n + n > ACTOR_HELD)
		return;
	rc = kvslab_alloc(a->client, a->cache[cache].id, pages, n, flags);
	if (rc == -ENOSPC || rc == -EDQUOT) {
		a->refused++;
		return;
	}
	if (rc != (int)n && !(flags && rc > 0 && rc < (int)n)) {
		wrong(a, "alloc of %u: %d", n, rc);
		return;
	}
	for (i = 0; i < (uint32_t)rc; i++) {
		struct held *h = &a->held[a->n];

		if (actor_find(a, pages[i]))
			wrong(a, "page %llx was given out twice", (unsigned long long)pages[i]);
		*h = (struct held){ pages[i], 0, cache, 0 };
		actor_write(a, h, rnd(&a->seed) << 4);
		a->n++;
	}
}

static void actor_drop(struct actor *a, uint32_t i)
{
	if (a->held[i].refs > 1)
		a->held[i].refs--;
	else
		a->held[i] = a->held[--a->n];
}

static void actor_free(struct actor *a)
{
	kvslab_handle pages[16];
	uint32_t n = 0, i, first, k;
	int rc;

	if (!a->n)
		return;
	first = below(a, a->n);
	k = 1 + below(a, 12);
	for (i = first; i < a->n && n < k; i++)
		pages[n++] = a->held[i].page;
	if (!below(a, 8)) {
		/* The last one once more than it is held: nothing may change. */
		struct held *h = &a->held[first + n - 1];

		k = h->refs ? h->refs : 1;
		if (k < 4) {
			for (i = 0; i < k; i++)
				pages[n + i] = h->page;
			rc = kvslab_free(a->client, pages, n + k);
			if (rc != -EBADF && rc != -ESTALE)
				wrong(a, "freeing too often: %d", rc);
			actor_verify(a, h);
		}
	}
	for (i = 0; i < n; i++)
		if (actor_find(a, pages[i]))
			actor_verify(a, actor_find(a, pages[i]));
	rc = kvslab_free(a->client, pages, n);
	if (rc)
		wrong(a, "free of %u: %d", n, rc);
	for (i = n; i > 0; i--)
		actor_drop(a, first + i - 1);
	/* A page that is no longer held, or has an old generation. */
	if (!actor_find(a, pages[0])) {
		rc = kvslab_free(a->client, pages, 1);
		if (rc != -EBADF && rc != -ESTALE)
			wrong(a, "freeing again: %d", rc);
		if (kvslab_page_ro(a->client, pages[0]))
			wrong(a, "the address of a page that is not held");
	}
}

static void actor_get(struct actor *a)
{
	struct held *h;
	int rc;

	if (!a->n)
		return;
	h = &a->held[below(a, a->n)];
	if (h->refs > 20)
		return;
	rc = kvslab_get(a->client, &h->page, 1);
	if (h->refs ? rc != 0 : rc != -EBADF && rc != -EINVAL)
		wrong(a, "get of a page with %u references: %d", h->refs, rc);
	if (h->refs)
		h->refs++;
}

/* Which chain a sealed page ends: the content tells. */
static uint64_t held_chain(const struct actor *a, const struct held *h)
{
	return (h->content ^ a->tag) >> 8;
}

/* Seal up to three private pages, each the child of the one before, under a parent that is held. */
static void actor_seal(struct actor *a)
{
	struct kvslab_seal seals[3] = { 0 };
	uint64_t chains[3], chain = 1, parent;
	uint32_t at[3], n = 0, want = 1 + below(a, 3), i, cache, start;
	int rc;

	if (!a->n)
		return;
	start = below(a, a->n);
	for (i = 0; i < a->n; i++)
		if (!a->held[(start + i) % a->n].refs)
			break;
	if (i == a->n)
		return;
	cache = a->held[(start + i) % a->n].cache;
	for (i = 0; i < a->n && n < want; i++)
		if (!a->held[(start + i) % a->n].refs && a->held[(start + i) % a->n].cache == cache)
			at[n++] = (start + i) % a->n;
	if (below(a, 3)) {
		struct held *h = &a->held[below(a, a->n)];

		if (h->refs && h->cache == cache && chain_depth(held_chain(a, h)) + 4 < ACTOR_CHAIN)
			chain = held_chain(a, h);
	}
	for (i = 0; i < n; i++) {
		parent = chain;
		chain = chain * 4 + below(a, 4);
		chains[i] = chain;
		actor_write(a, &a->held[at[i]], chain_content(a, cache, chain));
		seals[i].page = a->held[at[i]].page;
		seals[i].hash = actor_hash(a, cache, chain);
		seals[i].parent = actor_hash(a, cache, parent);
		seals[i].depth = chain_depth(chain);
		seals[i].priority = (uint8_t)below(a, KVSLAB_PRIORITIES);
		seals[i].flags = parent == 1 ? KVSLAB_SEAL_ROOT : 0;
	}
	rc = kvslab_seal(a->client, seals, n);
	if (rc == -ENOSPC || rc == -EDQUOT) {
		/* One of the hashes is cached in an extent that may not be held now: all are
		 * private still. */
		a->refused++;
		for (i = 0; i < n; i++) {
			if (seals[i].page != a->held[at[i]].page)
				wrong(a, "a seal that failed changed a handle");
			actor_write(a, &a->held[at[i]], rnd(&a->seed) << 4);
		}
		return;
	}
	if (rc) {
		wrong(a, "seal of %u: %d", n, rc);
		return;
	}
	/* From the highest place down, so that the places below stay right. */
	for (want = n; want > 0; want--) {
		uint32_t top = 0;

		for (i = 1; i < n; i++)
			if (at[i] != UINT32_MAX && (at[top] == UINT32_MAX || at[i] > at[top]))
				top = i;
		a->held[at[top]] = a->held[--a->n];
		at[top] = UINT32_MAX;
	}
	for (i = 0; i < n; i++)
		actor_reference(a, seals[i].page, cache, chain_content(a, cache, chains[i]));
	a->shared += n;
}

/* Returns the length of the run that it asked for and @got what came, for a model that knows what
 * is held. */
static void actor_lookup(struct actor *a, uint32_t *cache, uint64_t *chains, uint32_t *n, int *got)
{
	struct kvslab_hash hashes[ACTOR_CHAIN];
	kvslab_handle pages[ACTOR_CHAIN];
	uint64_t chain = 1;
	uint32_t i;

	*n = 1 + below(a, ACTOR_CHAIN);
	*cache = below(a, a->caches);
	*got = -1;
	if (a->n + *n > ACTOR_HELD)
		return;
	for (i = 0; i < *n; i++) {
		chain = chain * 4 + below(a, 4);
		chains[i] = chain;
		hashes[i] = actor_hash(a, *cache, chain);
	}
	*got = kvslab_lookup(a->client, a->cache[*cache].id, hashes, *n, pages);
	if (*got < 0 || *got > (int)*n) {
		wrong(a, "lookup of %u: %d", *n, *got);
		return;
	}
	for (i = 0; i < (uint32_t)*got; i++)
		actor_reference(a, pages[i], *cache, chain_content(a, *cache, chains[i]));
	a->found += (uint64_t)*got;
}

static void actor_open(struct actor *a, struct kvslab_pool *client, uint64_t tag, uint64_t seed)
{
	static const uint32_t sizes[ACTOR_CACHES] = { 340 << 10, 2 << 20, 16 << 10 };
	uint32_t i;

	memset(a, 0, sizeof(*a));
	a->client = client;
	a->seed = seed;
	a->tag = tag;
	a->caches = ACTOR_CACHES;
	for (i = 0; i < a->caches; i++)
		if (kvslab_cache_open(client, sizes[i], &a->cache[i]))
			wrong(a, "no cache of %u bytes", sizes[i]);
}

/* Anything but a lookup. */
static void actor_step(struct actor *a)
{
	a->calls++;
	switch (below(a, 6)) {
	case 0:
	case 1:
		actor_alloc(a);
		break;
	case 2:
	case 3:
		actor_free(a);
		break;
	case 4:
		actor_seal(a);
		break;
	case 5:
		actor_get(a);
		break;
	}
}

static void actor_free_all(struct actor *a)
{
	while (a->n) {
		int rc = kvslab_free(a->client, &a->held[a->n - 1].page, 1);

		if (rc) {
			wrong(a, "free at the end: %d", rc);
			return;
		}
		actor_drop(a, a->n - 1);
	}
}

#endif
