// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* What the maps hold, as text and as one JSON object. */
#ifdef KVSLAB_TRACE
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "msg.h"
#include "pool.h"
#include "trace_print.h"

#define U(x) ((json_int_t)(x))

static const char *const commands[TRACE_COMMANDS] = {
	[1] = "CACHE", "ALLOC",	 "FREE",   "GET",	    "SEAL",   "LOOKUP", "STAT", "SLABS",
	"EXPORT",      "EVENTS", "IMPORT", "DEPOSIT",    "RECEIVE", [0x10] = "NOP", [0x81] = "CREATE", "SET",    "LIST",	"DESTROY"
};
const char *const trace_ends[KVB_ENDS] = { "private", "duplicate", "evicted", "reclaimed", "with pool" };
const char *const trace_hows[] = { "allocated", "sealed", "looked up", "got" };

const char *const trace_whys[KVB_WHYS] = { "page", "slab", "reclaim", "pool" };
const char *const trace_losses[KVB_LOSTS] = { "full", "unknown", "stacks" };
static const char *const prefix_whats[KVB_PREFIX_WHATS] = { "whole", "partly", "none",	     "regret", "asked",
							    "found", "seals",  "duplicates", "again" };

const char *trace_command(uint32_t nr)
{
	return nr < TRACE_COMMANDS && commands[nr] ? commands[nr] : "other";
}

struct trace_printer *trace_printer_new(const struct trace_opts *o, const struct trace_loaded *l,
					struct trace_names *names)
{
	struct trace_printer *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->o = o;
	p->l = l;
	p->names = names;
	if (o->what == TRACE_FRAG && trace_stat(&p->base, l)) {
		free(p);
		return NULL;
	}
	if (o->what == TRACE_LEAKS)
		p->places = trace_places_new();
	return p;
}

void trace_printer_free(struct trace_printer *p)
{
	if (!p)
		return;
	trace_caches_free(&p->base);
	trace_places_free(p->places);
	free(p);
}

bool trace_wanted(const struct trace_printer *p, uint32_t pool)
{
	return !p->o->pool || pool == p->o->pool_id;
}

/* The field's usual form: a line for each power of two up to the last that is not empty. */
static void print_hist(const struct trace_hist *h, const char *unit)
{
	static const char stars[] = "****************************************";
	uint64_t most = 1, n;
	unsigned long long low, high;
	int i, last = -1;

	for (i = 0; i < KVB_SLOTS; i++) {
		/* 0 and 1 share a line. */
		n = h->slots[i] + (i == 1 ? h->slots[0] : 0);
		if (n)
			last = i;
		if (n > most)
			most = n;
	}
	if (last == 0)
		last = 1;
	out_text("%*s%-12s : count    distribution\n", 9, "", unit);
	for (i = 1; i <= last; i++) {
		n = h->slots[i] + (i == 1 ? h->slots[0] : 0);
		low = i > 1 ? 1ull << (i - 1) : 0;
		high = (1ull << i) - 1;
		out_text("%10llu -> %-10llu : %-8" PRIu64 " |%-40.*s|\n", low, high, n,
			 (int)(n * 40 / most), stars);
	}
}

/* log2: how many values had so many bits. */
static json_t *json_hist(const struct trace_hist *h)
{
	json_t *slots = json_array();
	int i, last = KVB_SLOTS - 1;

	while (last >= 0 && !h->slots[last])
		last--;
	for (i = 0; i <= last; i++)
		json_array_append_new(slots, json_integer(U(h->slots[i])));
	return json_pack("{s:I,s:I,s:o}", "count", U(h->count), "sum", U(h->sum), "log2", slots);
}

/* A row with the labels that all have. */
json_t *trace_row(struct trace_printer *p, uint32_t pool)
{
	return json_pack("{s:s,s:I}", "pool", trace_name(p->names, pool), "pool_id", U(pool));
}

void trace_set(json_t *row, const char *name, uint64_t n)
{
	json_object_set_new(row, name, json_integer(U(n)));
}

static int print_latency(struct trace_printer *p)
{
	struct trace_hists h = { 0 };
	struct trace_counts errors = { 0 };
	int err = trace_hists(&h, p->l, "command_seconds", 2);
	const char *name;
	uint64_t failed;
	json_t *row;
	size_t i;

	if (!err)
		err = trace_counts(&errors, p->l, "command_errors_total", 3);
	for (i = 0; i < h.n && !err; i++) {
		if (!trace_wanted(p, h.list[i].key[0]))
			continue;
		name = trace_command(h.list[i].key[1]);
		failed = trace_value(&errors, h.list[i].key);
		if (p->o->json) {
			row = trace_row(p, h.list[i].key[0]);
			json_object_set_new(row, "command", json_string(name));
			trace_set(row, "errors", failed);
			json_object_set_new(row, "ns", json_hist(&h.list[i]));
			json_array_append_new(p->rows, row);
			continue;
		}
		out_text("%s, %s: %" PRIu64 " commands, %" PRIu64 " failed, %.1f us each\n",
			 trace_name(p->names, h.list[i].key[0]), name, h.list[i].count, failed,
			 h.list[i].count ? (double)h.list[i].sum / (double)h.list[i].count / 1e3 : 0);
		print_hist(&h.list[i], "nsecs");
	}
	trace_counts_free(&errors);
	trace_hists_free(&h);
	return err;
}

static int print_lifetime(struct trace_printer *p)
{
	struct trace_hists h = { 0 };
	int err = trace_hists(&h, p->l, "page_lifetime_seconds", 3);
	const char *name;
	json_t *row;
	size_t i;

	for (i = 0; i < h.n && !err; i++) {
		if (!trace_wanted(p, h.list[i].key[0]))
			continue;
		name = h.list[i].key[2] < KVB_ENDS ? trace_ends[h.list[i].key[2]] : "other";
		if (p->o->json) {
			row = trace_row(p, h.list[i].key[0]);
			trace_set(row, "cache", h.list[i].key[1]);
			json_object_set_new(row, "ended", json_string(name));
			json_object_set_new(row, "us", json_hist(&h.list[i]));
			json_array_append_new(p->rows, row);
			continue;
		}
		out_text("%s, cache %u, ended %s: %" PRIu64 " pages\n", trace_name(p->names, h.list[i].key[0]),
			 h.list[i].key[1], name, h.list[i].count);
		print_hist(&h.list[i], "usecs");
	}
	trace_hists_free(&h);
	return err;
}

/* What prefix counts of one cache. */
struct prefix {
	uint32_t key[TRACE_WORDS]; /* pool, cache */
	uint64_t n[KVB_PREFIX_WHATS], sealed[KVB_CLASSES], evicted[KVB_CLASSES][KVB_WHYS];
	const struct trace_hist *run, *age;
};

static const struct trace_hist *hist_of(const struct trace_hists *h, const uint32_t *key)
{
	static const struct trace_hist none;
	size_t i;

	for (i = 0; i < h->n; i++)
		if (h->list[i].key[0] == key[0] && h->list[i].key[1] == key[1])
			return &h->list[i];
	return &none;
}

static void prefix_json(struct trace_printer *p, const struct prefix *x)
{
	json_t *row = trace_row(p, x->key[0]), *evicted = json_array(), *sealed = json_array();
	int i;

	trace_set(row, "cache", x->key[1]);
	trace_set(row, "lookups", x->n[KVB_WHOLE] + x->n[KVB_PARTLY] + x->n[KVB_NONE]);
	for (i = 0; i < KVB_PREFIX_WHATS; i++)
		trace_set(row, prefix_whats[i], x->n[i]);
	for (i = 0; i < KVB_CLASSES; i++) {
		json_array_append_new(sealed, json_integer(U(x->sealed[i])));
		json_array_append_new(evicted, json_pack("[I,I,I,I]", U(x->evicted[i][0]), U(x->evicted[i][1]),
							 U(x->evicted[i][2]), U(x->evicted[i][3])));
	}
	json_object_set_new(row, "sealed", sealed);
	json_object_set_new(row, "evicted", evicted);
	json_object_set_new(row, "run", json_hist(x->run));
	json_object_set_new(row, "age", json_hist(x->age));
	json_array_append_new(p->rows, row);
}

static void prefix_text(struct trace_printer *p, const struct prefix *x)
{
	uint64_t evicted;
	int i;

	out_text("%s, cache %u: %" PRIu64 " lookups (%" PRIu64 " found all, %" PRIu64 " a part, %" PRIu64
		 " nothing), %" PRIu64 " of %" PRIu64 " pages found (%.1f%%)\n  %" PRIu64 " seals, %" PRIu64
		 " of what was there; regret: %" PRIu64 " lookups ended at an evicted page, %" PRIu64
		 " evicted pages were sealed again\n",
		 trace_name(p->names, x->key[0]), x->key[1], x->n[KVB_WHOLE] + x->n[KVB_PARTLY] + x->n[KVB_NONE],
		 x->n[KVB_WHOLE], x->n[KVB_PARTLY], x->n[KVB_NONE], x->n[KVB_FOUND], x->n[KVB_ASKED],
		 x->n[KVB_ASKED] ? 100.0 * (double)x->n[KVB_FOUND] / (double)x->n[KVB_ASKED] : 0, x->n[KVB_SEALS],
		 x->n[KVB_DUPLICATES], x->n[KVB_REGRET], x->n[KVB_AGAIN]);
	for (i = 0; i < KVB_CLASSES; i++) {
		evicted = x->evicted[i][0] + x->evicted[i][1] + x->evicted[i][2] + x->evicted[i][3];
		if (x->sealed[i] || evicted)
			out_text("  priority %d: %" PRIu64 " sealed; evicted for a page %" PRIu64 ", for a slab %" PRIu64
				 ", by the system %" PRIu64 ", with the pool %" PRIu64 "\n",
				 i, x->sealed[i], x->evicted[i][0], x->evicted[i][1], x->evicted[i][2],
				 x->evicted[i][3]);
	}
	print_hist(x->run, "pages found");
	if (x->age->count)
		print_hist(x->age, "calls unused"); /* before it was evicted */
}

static void fill_prefix(struct prefix *x, const struct trace_counts *n, const struct trace_counts *sealed,
			const struct trace_counts *evicted)
{
	uint32_t *key = x->key, i, j;

	for (i = 0; i < KVB_PREFIX_WHATS; i++) {
		key[2] = i;
		x->n[i] = trace_value(n, key);
	}
	for (i = 0; i < KVB_CLASSES; i++) {
		key[2] = i;
		x->sealed[i] = trace_value(sealed, key);
		for (j = 0; j < KVB_WHYS; j++) {
			key[3] = j;
			x->evicted[i][j] = trace_value(evicted, key);
		}
		key[3] = 0;
	}
	key[2] = 0;
}

static int print_prefix(struct trace_printer *p)
{
	struct trace_counts n = { 0 }, sealed = { 0 }, evicted = { 0 };
	struct trace_hists run = { 0 }, age = { 0 };
	int err = trace_counts(&n, p->l, "prefix_total", 3);
	struct prefix x = { 0 };
	size_t i;

	if (!err)
		err = trace_counts(&sealed, p->l, "sealed_total", 3);
	if (!err)
		err = trace_counts(&evicted, p->l, "evicted_total", 4);
	if (!err)
		err = trace_hists(&run, p->l, "lookup_found_pages", 2);
	if (!err)
		err = trace_hists(&age, p->l, "evicted_age_calls", 2);
	for (i = 0; i < n.n && !err; i++) {
		if (i && n.list[i].key[0] == x.key[0] && n.list[i].key[1] == x.key[1])
			continue;
		x = (struct prefix){ .key = { n.list[i].key[0], n.list[i].key[1] } };
		if (!trace_wanted(p, x.key[0]))
			continue;
		fill_prefix(&x, &n, &sealed, &evicted);
		x.run = hist_of(&run, x.key);
		x.age = hist_of(&age, x.key);
		if (p->o->json)
			prefix_json(p, &x);
		else
			prefix_text(p, &x);
	}
	trace_counts_free(&n);
	trace_counts_free(&sealed);
	trace_counts_free(&evicted);
	trace_hists_free(&run);
	trace_hists_free(&age);
	return err;
}

int trace_print(struct trace_printer *p)
{
	static int (*const print[TRACE_N])(struct trace_printer *) = { trace_print_frag, print_latency, print_lifetime,
								       trace_print_leaks, print_prefix };
	uint64_t lost[KVB_LOSTS];
	int err;

	trace_names_read(p->names);
	p->rows = json_array();
	if (!p->rows)
		return -ENOMEM;
	err = print[p->o->what](p);
	if (err) {
		msg("kvslab trace: %s", strerror(-err));
		json_decref(p->rows);
		return err;
	}
	trace_lost(p->l, lost);
	if (p->o->json)
		return out_json(json_pack("{s:s,s:o,s:{s:I,s:I,s:I}}", "trace", trace_names[p->o->what], "rows", p->rows,
					  "lost", "full", U(lost[KVB_LOST_FULL]), "unknown", U(lost[KVB_LOST_UNKNOWN]),
					  "stacks", U(lost[KVB_LOST_STACKS])));
	json_decref(p->rows);
	return out_text("lost: %" PRIu64 " for want of room in a map, %" PRIu64 " begun before the trace, %" PRIu64
			" stacks\n\n",
			lost[KVB_LOST_FULL], lost[KVB_LOST_UNKNOWN], lost[KVB_LOST_STACKS]);
}
#endif
