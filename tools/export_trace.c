// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "export.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef KVSLAB_TRACE
#include "trace_print.h"

#define NS 1e-9
#define US 1e-6

struct export_trace {
	struct trace_loaded l[TRACE_N];
	unsigned int n; /* loaded, in their order */
	uint32_t age;
};

struct export_trace *export_trace_open(uint32_t age, char *why, size_t n)
{
	const char *lacks = trace_lacks();
	struct export_trace *t;

	if (lacks) {
		snprintf(why, n, "without %s", lacks);
		return NULL;
	}
	t = calloc(1, sizeof(*t));
	if (!t) {
		snprintf(why, n, "no memory");
		return NULL;
	}
	t->age = age;
	for (; t->n < TRACE_N; t->n++)
		if (trace_load(&t->l[t->n], (enum trace_what)t->n, why, n)) {
			export_trace_close(t);
			return NULL;
		}
	return t;
}

void export_trace_close(struct export_trace *t)
{
	if (!t)
		return;
	while (t->n)
		trace_unload(&t->l[--t->n]);
	free(t);
}

/* What a scrape needs. */
struct scrape {
	const struct export_trace *t;
	struct prom *p;
	struct trace_names names;
};

/* What a label of a key is called, and its words, NULL: a number. */
struct meaning {
	const char *name;
	const char *const *words;
	uint32_t n;
};

static const char *const prefix_events[KVB_PREFIX_WHATS] = { "lookup_whole", "lookup_partly", "lookup_none",
							     "lookup_regret", "page_asked",   "page_found",
							     "seal",	    "seal_duplicate", "seal_again" };
static const struct meaning m_cache = { "cache", NULL, 0 };
static const struct meaning m_event = { "event", trace_whats, KVB_WHATS };
static const struct meaning m_ended = { "ended", trace_ends, KVB_ENDS };
static const struct meaning m_prefix = { "event", prefix_events, KVB_PREFIX_WHATS };
static const struct meaning m_priority = { "priority", NULL, 0 };
static const struct meaning m_why = { "why", trace_whys, KVB_WHYS };
static const struct meaning m_command = { "command", NULL, 1 }; /* by trace_command() */

/* The first word of a key is always the pool. */
static void labels_of(struct scrape *s, struct prom_label *out, char text[][40], const uint32_t *key,
		      const struct meaning *const *meanings)
{
	unsigned int i = 0;

	snprintf(text[0], sizeof(text[0]), "%s", trace_name(&s->names, key[0]));
	out[0] = (struct prom_label){ "pool", text[0] };
	for (; meanings[i]; i++) {
		const struct meaning *m = meanings[i];
		uint32_t k = key[i + 1];

		if (m == &m_command)
			snprintf(text[i + 1], sizeof(text[0]), "%s", trace_command(k));
		else if (m->words && k < m->n)
			snprintf(text[i + 1], sizeof(text[0]), "%s", m->words[k]);
		else
			snprintf(text[i + 1], sizeof(text[0]), "%u", k);
		out[i + 1] = (struct prom_label){ m->name, text[i + 1] };
	}
	out[i + 1] = (struct prom_label){ 0 };
}

static unsigned int words_of(const struct meaning *const *meanings)
{
	unsigned int n = 1;

	while (*meanings++)
		n++;
	return n;
}

#define MEANINGS(...) ((const struct meaning *const[]){ __VA_ARGS__ __VA_OPT__(,) NULL })

/* @extra: a word of the key behind the labels, that is always 0. */
static int counter(struct scrape *s, enum trace_what what, const char *map, unsigned int extra, const char *name,
		   const char *help, const struct meaning *const *meanings)
{
	struct prom_label labels[PROM_LABELS];
	struct trace_counts c = { 0 };
	char text[PROM_LABELS][40];
	int err = trace_counts(&c, &s->t->l[what], map, words_of(meanings) + extra);
	size_t i;

	if (err)
		return err;
	prom_family(s->p, name, "counter", help);
	for (i = 0; i < c.n; i++) {
		labels_of(s, labels, text, c.list[i].key, meanings);
		prom_value(s->p, labels, (double)c.list[i].value);
	}
	trace_counts_free(&c);
	return 0;
}

static int histogram(struct scrape *s, enum trace_what what, const char *map, const char *name, const char *help,
		     const struct meaning *const *meanings, double unit, unsigned int low, unsigned int high)
{
	struct prom_label labels[PROM_LABELS];
	struct trace_hists h = { 0 };
	char text[PROM_LABELS][40];
	int err = trace_hists(&h, &s->t->l[what], map, words_of(meanings));
	size_t i;

	if (err)
		return err;
	prom_family(s->p, name, "histogram", help);
	for (i = 0; i < h.n; i++) {
		labels_of(s, labels, text, h.list[i].key, meanings);
		prom_hist(s->p, labels, h.list[i].slots, KVB_SLOTS, h.list[i].sum, unit, low, high);
	}
	trace_hists_free(&h);
	return 0;
}

/* The sites of one client that took in one way are told as one. */
static bool told(const struct trace_sites *s, size_t i)
{
	const struct trace_site *a = &s->list[i], *b;
	size_t k;

	for (k = 0; k < i; k++) {
		b = &s->list[k];
		if (a->pool == b->pool && a->client == b->client && a->pid == b->pid && a->how == b->how)
			return true;
	}
	return false;
}

static int leaks(struct scrape *s)
{
	const struct trace_loaded *l = &s->t->l[TRACE_LEAKS];
	struct timespec now;
	struct trace_sites sites;
	char client[12], pid[12], comm[17] = "";
	uint64_t ns, least = (uint64_t)s->t->age * 1000000000, pages;
	size_t i, k;
	int err;

	clock_gettime(CLOCK_MONOTONIC, &now);
	ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	err = trace_sites(&sites, l, ns > least ? ns - least : 0);
	if (err)
		return err;
	prom_family(s->p, "kvslab_long_held_pages", "gauge",
		    "Pages and references held for longer than --age; kvslab trace leaks has the stacks.");
	for (i = 0; i < sites.n; i++) {
		const struct trace_site *a = &sites.list[i];

		if (told(&sites, i))
			continue;
		for (pages = 0, k = i; k < sites.n; k++) {
			const struct trace_site *b = &sites.list[k];

			if (a->pool == b->pool && a->client == b->client && a->pid == b->pid && a->how == b->how)
				pages += b->pages;
		}
		snprintf(client, sizeof(client), "%u", a->client);
		snprintf(pid, sizeof(pid), "%u", a->pid);
		trace_comm(l, a->pool, a->client, comm);
		prom_value(s->p, (struct prom_label[]){ { "pool", trace_name(&s->names, a->pool) }, { "client", client },
							{ "pid", pid }, { "command", comm }, { "how", trace_hows[a->how] },
							{ 0 } },
			   (double)pages);
	}
	trace_sites_free(&sites);
	return 0;
}

static void losses(struct scrape *s)
{
	uint64_t lost[KVB_LOSTS];
	unsigned int i, k;

	prom_family(s->p, "kvslab_trace_lost_total", "counter",
		    "What the programs' figures leave out: no room in a map, begun before them, stacks.");
	for (i = 0; i < TRACE_N; i++) {
		trace_lost(&s->t->l[i], lost);
		for (k = 0; k < KVB_LOSTS; k++)
			prom_value(s->p, (struct prom_label[]){ { "trace", trace_names[i] }, { "why", trace_losses[k] }, { 0 } },
				   (double)lost[k]);
	}
}

int export_trace(const struct export_trace *t, struct prom *p)
{
	struct scrape s = { .t = t, .p = p };
	int err;

	trace_names_read(&s.names);
	err = counter(&s, TRACE_FRAG, "pages_total", 0, "kvslab_page_events_total",
		      "Pages, slabs and ALLOCs to which it happened.", MEANINGS(&m_cache, &m_event));
	if (!err)
		err = histogram(&s, TRACE_LATENCY, "command_seconds", "kvslab_command_seconds", "Time of commands.",
				MEANINGS(&m_command), NS, 8, 34);
	if (!err)
		err = counter(&s, TRACE_LATENCY, "command_errors_total", 1, "kvslab_command_errors_total",
			      "Commands that failed.", MEANINGS(&m_command));
	if (!err)
		err = histogram(&s, TRACE_LIFETIME, "page_lifetime_seconds", "kvslab_page_lifetime_seconds",
				"From a page's ALLOC to its end.", MEANINGS(&m_cache, &m_ended), US, 6, 40);
	if (!err)
		err = leaks(&s);
	if (!err)
		err = counter(&s, TRACE_PREFIX, "prefix_total", 0, "kvslab_prefix_events_total",
			      "LOOKUPs by what they found, the pages, and seals.", MEANINGS(&m_cache, &m_prefix));
	if (!err)
		err = histogram(&s, TRACE_PREFIX, "lookup_found_pages", "kvslab_lookup_found_pages",
				"Pages that a LOOKUP found.", MEANINGS(&m_cache), 1, 0, 16);
	if (!err)
		err = counter(&s, TRACE_PREFIX, "sealed_total", 0, "kvslab_sealed_pages_total",
			      "Pages sealed, by priority class.", MEANINGS(&m_cache, &m_priority));
	if (!err)
		err = counter(&s, TRACE_PREFIX, "evicted_total", 0, "kvslab_evicted_pages_total",
			      "Pages evicted, by priority class and by what for.", MEANINGS(&m_cache, &m_priority, &m_why));
	if (!err)
		losses(&s);
	trace_names_free(&s.names);
	return err;
}

#else

struct export_trace *export_trace_open(uint32_t age, char *why, size_t n)
{
	(void)age;
	snprintf(why, n, "this command was built without eBPF");
	return NULL;
}

int export_trace(const struct export_trace *t, struct prom *p)
{
	(void)t, (void)p;
	return -EOPNOTSUPP;
}

void export_trace_close(struct export_trace *t)
{
	(void)t;
}
#endif
