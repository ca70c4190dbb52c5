// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* What the maps hold, as text and as one JSON object. */
#ifdef KVSLAB_TRACE
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bpf/maps.h"
#include "msg.h"
#include "pool.h"
#include "trace.h"

#define U(x) ((json_int_t)(x))

static const char *const commands[] = { [1] = "CACHE", "ALLOC",	 "FREE",	 "GET",
					"SEAL",	       "LOOKUP", "STAT",	 "SLABS",
					"EXPORT",      "EVENTS", [0x10] = "NOP", [0x81] = "CREATE",
					"SET",	       "LIST",	 "DESTROY" };
static const char *const ends[KVB_ENDS] = { "private", "duplicate", "evicted", "reclaimed",
					    "with pool" };

static int map_of(const struct bpf_object *object, const char *name)
{
	return bpf_object__find_map_fd_by_name(object, name);
}

/* The field's usual form: a line for each power of two up to the last that is not empty. */
static int print_hist(const struct kvb_hist *h, const char *unit)
{
	static const char stars[] = "****************************************";
	unsigned long long low, high;
	uint64_t most = 1;
	int i, last = -1, err;

	for (i = 0; i < KVB_SLOTS; i++) {
		if (h->slots[i])
			last = i;
		if (h->slots[i] > most)
			most = h->slots[i];
	}
	err = out_text("%*s%-12s : count    distribution\n", 9, "", unit);
	for (i = 0; i <= last && !err; i++) {
		low = i ? 1ull << i : 0;
		high = (2ull << i) - 1;
		err = out_text("%10llu -> %-10llu : %-8" PRIu64 " |%-40.*s|\n", low, high,
			       (uint64_t)h->slots[i], (int)(h->slots[i] * 40 / most), stars);
	}
	return err;
}

static json_t *json_hist(const struct kvb_hist *h)
{
	json_t *slots = json_array();
	int i, last = KVB_SLOTS - 1;

	while (last >= 0 && !h->slots[last])
		last--;
	for (i = 0; i <= last; i++)
		json_array_append_new(slots, json_integer(U(h->slots[i])));
	return json_pack("{s:I,s:I,s:o}", "count", U(h->count), "sum", U(h->sum), "log2", slots);
}

static json_t *frag_row(const struct trace_opts *o, const void *key, const void *value)
{
	const struct kvb_cache *k = key;
	const struct kvb_frag *f = value;
	int64_t private = (int64_t)(f->allocs - f->frees - f->duplicates - f->seals);
	int64_t indexed = (int64_t)(f->seals - f->evictions),
		slabs = (int64_t)(f->slabs_new - f->slabs_freed);
	int64_t size = f->page_size, per = size ? KVSLAB_CMD_EXTENT / size : 0;
	int64_t empty = slabs * per - private - indexed,
		tail = slabs * (KVSLAB_CMD_EXTENT - per * size);

	if (o->json)
		return json_pack(
			"{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}",
			"pool", U(k->pool), "cache", U(k->cache), "page_size", U(size), "allocs",
			U(f->allocs), "frees", U(f->frees), "releases", U(f->releases), "seals",
			U(f->seals), "duplicates", U(f->duplicates), "evictions", U(f->evictions),
			"slabs_new", U(f->slabs_new), "slabs_freed", U(f->slabs_freed),
			"slabs_taken", U(f->slabs_taken), "refused", U(f->refused), "private",
			U(private), "indexed", U(indexed), "slabs", U(slabs), "empty", U(empty),
			"tail_bytes", U(tail));
	out_text("pool %u cache %u (%" PRId64
		 " bytes): %llu allocs, %llu frees, %llu releases, %llu seals, "
		 "%llu duplicates, %llu evictions, %llu refused\n"
		 "  since then: %+" PRId64 " slabs, %+" PRId64 " private, %+" PRId64
		 " sealed or cached, %+" PRId64 " free or quarantined, %+" PRId64
		 " bytes of tails; %llu slabs changed hands\n",
		 k->pool, k->cache, size, f->allocs, f->frees, f->releases, f->seals, f->duplicates,
		 f->evictions, f->refused, slabs, private, indexed, empty, tail, f->slabs_taken);
	if (slabs > 0)
		out_text("  fragmentation %.1f%%\n",
			 100.0 * (1 - (double)((private + indexed) * size) /
					      ((double)slabs * KVSLAB_CMD_EXTENT)));
	return NULL;
}

static json_t *latency_row(const struct trace_opts *o, const void *key, const void *value)
{
	const struct kvb_command *k = key;
	const struct kvb_latency *l = value;
	const char *name =
		k->command < sizeof(commands) / sizeof(*commands) ? commands[k->command] : NULL;

	if (o->json)
		return json_pack("{s:I,s:s,s:I,s:o}", "pool", U(k->pool), "command",
				 name ? name : "other", "errors", U(l->errors), "ns",
				 json_hist(&l->ns));
	out_text("pool %u %s: %llu commands, %llu failed, %.1f us each\n", k->pool,
		 name ? name : "other", l->ns.count, l->errors,
		 l->ns.count ? (double)l->ns.sum / (double)l->ns.count / 1e3 : 0);
	print_hist(&l->ns, "nsecs");
	return NULL;
}

static json_t *lifetime_row(const struct trace_opts *o, const void *key, const void *value)
{
	const struct kvb_end *k = key;
	const struct kvb_hist *h = value;
	const char *name = k->ended < KVB_ENDS ? ends[k->ended] : "other";

	if (o->json)
		return json_pack("{s:I,s:I,s:s,s:o}", "pool", U(k->pool), "cache", U(k->cache),
				 "ended", name, "us", json_hist(h));
	out_text("pool %u cache %u, ended %s: %llu pages\n", k->pool, k->cache, name, h->count);
	print_hist(h, "usecs");
	return NULL;
}

static uint64_t sum(const __u64 *v, int n)
{
	uint64_t s = 0;

	while (n--)
		s += v[n];
	return s;
}

static json_t *prefix_row(const struct trace_opts *o, const void *key, const void *value)
{
	const struct kvb_cache *k = key;
	const struct kvb_prefix *p = value;
	json_t *evicted, *sealed;
	int i;

	if (o->json) {
		evicted = json_array();
		sealed = json_array();
		for (i = 0; i < KVB_CLASSES; i++) {
			json_array_append_new(evicted,
					      json_pack("[I,I,I,I]", U(p->evicted[i][0]),
							U(p->evicted[i][1]), U(p->evicted[i][2]),
							U(p->evicted[i][3])));
			json_array_append_new(sealed, json_integer(U(p->sealed[i])));
		}
		return json_pack(
			"{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:o,s:o,s:o,s:o}", "pool",
			U(k->pool), "cache", U(k->cache), "lookups", U(p->lookups), "asked",
			U(p->asked), "found", U(p->found), "whole", U(p->whole), "partly",
			U(p->partly), "none", U(p->none), "seals", U(p->seals), "duplicates",
			U(p->duplicates), "regret", U(p->regret), "again", U(p->again), "evicted",
			evicted, "sealed", sealed, "run", json_hist(&p->run), "age",
			json_hist(&p->age));
	}
	out_text(
		"pool %u cache %u: %llu lookups (%llu whole, %llu partly, %llu nothing), %llu of %llu pages found "
		"(%.1f%%)\n  %llu seals, %llu duplicates; regret: %llu lookups ended at an evicted page, %llu were "
		"sealed again\n",
		k->pool, k->cache, p->lookups, p->whole, p->partly, p->none, p->found, p->asked,
		p->asked ? 100.0 * (double)p->found / (double)p->asked : 0, p->seals, p->duplicates,
		p->regret, p->again);
	for (i = 0; i < KVB_CLASSES; i++)
		if (p->sealed[i] || sum(p->evicted[i], KVB_WHYS))
			out_text(
				"  priority %d: %llu sealed; evicted for a page %llu, for a slab %llu, by the system "
				"%llu, with the pool %llu\n",
				i, p->sealed[i], p->evicted[i][0], p->evicted[i][1],
				p->evicted[i][2], p->evicted[i][3]);
	print_hist(&p->run, "pages found");
	return NULL;
}

/* Where an address lies: FILE+0xOFFSET, while the process lives; else the address alone. */
static void place(uint32_t pid, uint64_t address, char *text, size_t n)
{
	unsigned long long from, to, offset;
	char path[64], line[512], file[256];
	FILE *f;

	snprintf(text, n, "%#llx", (unsigned long long)address);
	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%llx-%llx %*s %llx %*s %*s %255[^\n]", &from, &to, &offset,
			   file) != 4)
			continue;
		if (address < from || address >= to)
			continue;
		snprintf(text, n, "%#llx %s+%#llx", (unsigned long long)address, file,
			 (unsigned long long)(address - from + offset));
		break;
	}
	if (f)
		fclose(f);
}

static json_t *leak_row(const struct trace_opts *o, const struct bpf_object *object,
			const struct kvb_holding *k, const struct kvb_held *h, double age)
{
	uint64_t stack[KVB_FRAMES] = { 0 };
	json_t *frames = json_array();
	char text[400];
	int i;

	if (h->stack >= 0)
		bpf_map_lookup_elem(map_of(object, "stacks"), &h->stack, stack);
	if (!o->json)
		out_text(
			"pool %u client %u pid %u (%.16s): page %#llx of %u bytes, %s, for %.1f s\n",
			k->pool, k->client, h->pid, h->comm, k->page, h->page_size,
			h->refs ? "sealed" : "private", age);
	for (i = 0; i < KVB_FRAMES && stack[i]; i++) {
		place(h->pid, stack[i], text, sizeof(text));
		if (o->json)
			json_array_append_new(frames, json_string(text));
		else
			out_text("    %s\n", text);
	}
	if (o->json)
		return json_pack("{s:I,s:I,s:I,s:s%,s:I,s:I,s:I,s:f,s:o}", "pool", U(k->pool),
				 "client", U(k->client), "pid", U(h->pid), "comm", h->comm,
				 strnlen(h->comm, sizeof(h->comm)), "page", U(k->page), "page_size",
				 U(h->page_size), "refs", U(h->refs), "age", age, "stack", frames);
	json_decref(frames);
	return NULL;
}

static int print_leaks(const struct trace_opts *o, const struct bpf_object *object, json_t *rows)
{
	struct kvb_holding key, *at = NULL;
	int fd = map_of(object, "held"), clients = map_of(object, "clients");
	struct kvb_client_held c;
	struct kvb_client owner;
	struct timespec now;
	struct kvb_held h;
	double age;
	json_t *row;

	clock_gettime(CLOCK_MONOTONIC, &now);
	for (; !bpf_map_get_next_key(fd, at, &key); at = &key) {
		if (bpf_map_lookup_elem(fd, &key, &h) || (o->pool && key.pool != o->pool_id))
			continue;
		owner.pool = key.pool;
		owner.client = key.client;
		if (!bpf_map_lookup_elem(clients, &owner, &c) && c.ended)
			continue;
		age = (double)now.tv_sec + (double)now.tv_nsec * 1e-9 - (double)h.since * 1e-9;
		if (age < o->age)
			continue;
		row = leak_row(o, object, &key, &h, age);
		if (row)
			json_array_append_new(rows, row);
	}
	return 0;
}

static int print_map(const struct trace_opts *o, int fd, size_t value_size, json_t *rows,
		     json_t *(*print)(const struct trace_opts *o, const void *key,
				      const void *value))
{
	uint32_t key[4], *at = NULL; /* the pool is the first member of all keys here */
	void *value = calloc(1, value_size);
	json_t *row;

	if (!value)
		return -ENOMEM;
	for (; !bpf_map_get_next_key(fd, at, key); at = key) {
		if (bpf_map_lookup_elem(fd, key, value) || (o->pool && key[0] != o->pool_id))
			continue;
		row = print(o, key, value);
		if (row)
			json_array_append_new(rows, row);
	}
	free(value);
	return 0;
}

int trace_print(const struct trace_opts *o, const struct bpf_object *object)
{
	json_t *rows = json_array();
	struct kvb_lost lost = { 0 };
	uint32_t zero = 0;
	int err = 0;

	switch (o->what) {
	case TRACE_FRAG:
		err = print_map(o, map_of(object, "caches"), sizeof(struct kvb_frag), rows,
				frag_row);
		break;
	case TRACE_LATENCY:
		err = print_map(o, map_of(object, "commands"), sizeof(struct kvb_latency), rows,
				latency_row);
		break;
	case TRACE_LIFETIME:
		err = print_map(o, map_of(object, "ends"), sizeof(struct kvb_hist), rows,
				lifetime_row);
		break;
	case TRACE_LEAKS:
		err = print_leaks(o, object, rows);
		break;
	default:
		err = print_map(o, map_of(object, "caches"), sizeof(struct kvb_prefix), rows,
				prefix_row);
	}
	bpf_map_lookup_elem(map_of(object, "lost"), &zero, &lost);
	if (err) {
		json_decref(rows);
		return err;
	}
	if (o->json)
		return out_json(json_pack("{s:s,s:o,s:{s:I,s:I,s:I,s:I}}", "trace",
					  trace_names[o->what], "rows", rows, "lost", "full",
					  U(lost.full), "unknown", U(lost.unknown), "outside",
					  U(lost.outside), "stacks", U(lost.stacks)));
	json_decref(rows);
	return out_text(
		"lost: %llu for want of room, %llu begun before the trace, %llu outside a command seen, %llu "
		"stacks\n\n",
		lost.full, lost.unknown, lost.outside, lost.stacks);
}
#endif
