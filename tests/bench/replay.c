// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * replay [--blocks N,N,...] [--policy lru|keep_prefixes] [--requests N] [--json] TRACE
 *
 * Replays a trace of prompts onto a pool and prints which share of their blocks the pool had. TRACE has a JSON object
 * a line, as Mooncake's: "hash_ids" names the blocks of a prompt (512 tokens each, the last one maybe fewer), equal
 * where everything up to their end is equal. A block is a page. Each request looks its chain up, allocates what is
 * missing, seals it, and drops everything before the next one comes. Answers are not in the trace's blocks.
 *
 * N blocks: rounded down to whole extents of 512; "inf" is room for all. A hit is a block that LOOKUP found, so
 * that all before it were there too. The core is compiled with hooks here, so that a policy gives the classes as it does
 * in the kernel (replay_hooks.h).
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/keep_prefixes.h"
#include "core.h"
#include "kvslab.h"
#include "tests/bench/replay_hooks.h"

#define BLOCK 4096 /* bytes of a page; nothing is written to it */
#define BLOCKS_EXTENT (KVSLAB_EXTENT_SIZE / BLOCK)
#define SIZES_MAX 32
#define TOKENS 512

u32 (*replay_class)(u32 depth, u32 hits, u32 class);

struct request {
	uint64_t *block;
	uint32_t n;
};

struct trace {
	const char *path;
	struct request *request;
	size_t n;
	uint64_t blocks; /* asked for, in all */
	uint32_t longest; /* blocks of a request */
};

struct size {
	uint64_t blocks;
	bool inf;
};

struct counts {
	uint64_t asked, hits, evictions, kept;
};

__attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *fmt, ...)
{
	va_list ap;

	fputs("replay: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(2);
}

static void *must(void *mem)
{
	if (!mem)
		fail("out of memory");
	return mem;
}

static void read_request(struct trace *t, size_t line, const char *text)
{
	struct request *r = &t->request[t->n];
	json_error_t error;
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error), *ids, *id;
	size_t i;

	if (!root)
		fail("%s:%zu: not JSON: %s", t->path, line, error.text);
	ids = json_object_get(root, "hash_ids");
	if (!json_is_array(ids) || !json_array_size(ids))
		fail("%s:%zu: no list \"hash_ids\" of the prompt's blocks", t->path, line);
	if (json_array_size(ids) > KVSLAB_BATCH_MAX)
		fail("%s:%zu: %zu blocks; a request may have %d", t->path, line, json_array_size(ids), KVSLAB_BATCH_MAX);
	r->n = json_array_size(ids);
	r->block = must(malloc(r->n * sizeof(*r->block)));
	json_array_foreach(ids, i, id) {
		if (!json_is_integer(id) || json_integer_value(id) < 0)
			fail("%s:%zu: hash_ids[%zu] is not a whole number from 0 on", t->path, line, i);
		r->block[i] = json_integer_value(id);
	}
	json_decref(root);
	t->blocks += r->n;
	if (r->n > t->longest)
		t->longest = r->n;
	t->n++;
}

static void read_trace(struct trace *t, size_t most)
{
	FILE *f = fopen(t->path, "r");
	char *text = NULL;
	size_t line = 0, room = 0, size = 0;

	if (!f)
		fail("%s: %s", t->path, strerror(errno));
	while (t->n < most && getline(&text, &size, f) > 0) {
		line++;
		if (text[strspn(text, " \t\r\n")] == '\0')
			continue;
		if (t->n == room) {
			room = room ? 2 * room : 1024;
			t->request = must(realloc(t->request, room * sizeof(*t->request)));
		}
		read_request(t, line, text);
	}
	if (ferror(f))
		fail("%s: %s", t->path, strerror(errno));
	fclose(f);
	free(text);
	if (!t->n)
		fail("%s: no request in it", t->path);
}

static void check(int r, const char *call, size_t i)
{
	if (r < 0)
		fail("request %zu: %s: %s", i, call, kvslab_strerror(r));
}

static struct kvslab_hash hash_of(uint64_t block)
{
	struct kvslab_hash hash = { { 0 } };

	memcpy(hash.b, &block, sizeof(block));
	return hash;
}

static uint32_t replay_request(struct kvslab_pool *pool, uint32_t cache, const struct request *q, size_t i)
{
	static struct kvslab_hash hash[KVSLAB_BATCH_MAX];
	static struct kvslab_seal seal[KVSLAB_BATCH_MAX];
	static kvslab_handle page[KVSLAB_BATCH_MAX];
	uint32_t k, found;
	int r;

	for (k = 0; k < q->n; k++)
		hash[k] = hash_of(q->block[k]);
	r = kvslab_lookup(pool, cache, hash, q->n, page);
	check(r, "lookup", i);
	found = r;
	if (found < q->n) {
		check(kvslab_alloc(pool, cache, page + found, q->n - found, 0), "alloc", i);
		memset(seal, 0, sizeof(seal));
		for (k = found; k < q->n; k++) {
			seal[k].page = page[k];
			seal[k].hash = hash[k];
			if (k)
				seal[k].parent = hash[k - 1];
			else
				seal[k].flags = KVSLAB_SEAL_ROOT;
			seal[k].depth = k;
		}
		check(kvslab_seal(pool, seal + found, q->n - found), "seal", i);
		for (k = found; k < q->n; k++)
			page[k] = seal[k].page;
	}
	check(kvslab_free(pool, page, q->n), "free", i);
	return found;
}

static void replay(const struct trace *t, uint64_t blocks, struct counts *c)
{
	struct kvslab_pool_opts opts = { .low = 1000, .high = 1000 };
	struct kvslab_cache cache;
	struct kvslab_pool *pool;
	struct kvslab_stat stat;
	char spec[64];
	size_t i;

	memset(c, 0, sizeof(*c));
	snprintf(spec, sizeof(spec), "embedded:%" PRIu64, blocks * BLOCK);
	check(kvslab_pool_open(&pool, spec, &opts), "pool_open", 0);
	check(kvslab_cache_open(pool, BLOCK, &cache), "cache_open", 0);
	for (i = 0; i < t->n; i++) {
		c->asked += t->request[i].n;
		c->hits += replay_request(pool, cache.id, &t->request[i], i);
	}
	check(kvslab_stat(pool, &stat), "stat", i);
	if (stat.lookup_hits != c->hits || stat.lookup_asked != c->asked || stat.lookups != t->n)
		fail("the pool counted %" PRIu64 " hits of %" PRIu64 " where there were %" PRIu64 " of %" PRIu64,
		     stat.lookup_hits, stat.lookup_asked, c->hits, c->asked);
	c->evictions = stat.evictions;
	c->kept = stat.cached;
	kvslab_pool_close(pool);
}

static uint64_t number(const char *what, const char *text, char **end)
{
	uint64_t n;

	errno = 0;
	n = strtoull(text, end, 10);
	if (errno || *end == text || *text < '0' || *text > '9' || !n || n > (1ull << 28))
		fail("%s: \"%s\": a number from 1 to %llu is wanted", what, text, 1ull << 28);
	return n;
}

/* Whole extents, of which the longest prompt must not need all. */
static uint64_t round_blocks(const struct trace *t, uint64_t blocks)
{
	uint64_t n = blocks / BLOCKS_EXTENT * BLOCKS_EXTENT;

	if (n < t->longest)
		fail("%" PRIu64 " blocks are %" PRIu64 " in whole extents of %u, but the longest prompt has %u",
		     blocks, n, BLOCKS_EXTENT, t->longest);
	return n;
}

static void report(const struct trace *t, const char *policy, const struct size *s, bool json)
{
	uint64_t blocks = s->blocks;
	struct counts c;
	char name[32];

	replay(t, blocks, &c);
	if (json) {
		printf("{\"policy\": \"%s\", \"blocks\": %" PRIu64 ", \"requests\": %zu, \"asked\": %" PRIu64
		       ", \"hits\": %" PRIu64 ", \"evictions\": %" PRIu64 ", \"kept\": %" PRIu64 "}\n",
		       policy, blocks, t->n, c.asked, c.hits, c.evictions, c.kept);
	} else {
		snprintf(name, sizeof(name), s->inf ? "inf" : "%" PRIu64, blocks);
		printf("%-14s %8s %9" PRIu64 " %9" PRIu64 " %7.2f%% %10" PRIu64 "\n", policy, name, c.asked, c.hits,
		       100.0 * c.hits / c.asked, c.evictions);
	}
	fflush(stdout);
}

/* "N,N,...,inf" as sizes of pools, for which a trace with this much in it is played. Returns how many. */
static uint32_t read_sizes(const struct trace *t, const char *text, struct size *size)
{
	const char *at;
	uint32_t n = 0;
	char *end;

	for (at = text; *at && n < SIZES_MAX; at = end + (*end == ',')) {
		size[n].inf = !strncmp(at, "inf", 3);
		if (size[n].inf) {
			end = (char *)at + 3;
			size[n].blocks = (t->blocks + BLOCKS_EXTENT - 1) / BLOCKS_EXTENT * BLOCKS_EXTENT;
		} else {
			size[n].blocks = round_blocks(t, number("--blocks", at, &end));
		}
		if (*end && *end != ',')
			fail("--blocks: \"%s\": numbers with commas between, or inf", text);
		n++;
	}
	if (*at)
		fail("--blocks: more than %d sizes", SIZES_MAX);
	return n;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "blocks", required_argument, NULL, 'b' }, { "policy", required_argument, NULL, 'p' },
		{ "requests", required_argument, NULL, 'r' }, { "json", no_argument, NULL, 'j' }, { 0 }
	};
	static const char *const policies[] = { "lru", "keep_prefixes" };
	const char *sizes = "1024,5120,10240,30720,51200,102400,inf", *only = NULL;
	struct size size[SIZES_MAX];
	struct trace t = { 0 };
	size_t most = SIZE_MAX, i;
	uint32_t n_sizes, k;
	bool json = false;
	char *end;
	int o;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (o) {
		case 'b':
			sizes = optarg;
			break;
		case 'p':
			only = optarg;
			break;
		case 'r':
			most = number("--requests", optarg, &end);
			if (*end)
				fail("--requests: \"%s\" is no number", optarg);
			break;
		case 'j':
			json = true;
			break;
		default:
			return 2;
		}
	}
	if (argc - optind != 1)
		fail("usage: replay [--blocks N,N,...,inf] [--policy lru|keep_prefixes] [--requests N] [--json] TRACE");
	if (only && strcmp(only, policies[0]) && strcmp(only, policies[1]))
		fail("--policy: \"%s\" is neither lru nor keep_prefixes", only);
	t.path = argv[optind];
	read_trace(&t, most);
	n_sizes = read_sizes(&t, sizes, size);
	if (!json)
		printf("%zu requests, %" PRIu64 " blocks of %d tokens\n%-14s %8s %9s %9s %8s %10s\n", t.n, t.blocks,
		       TOKENS, "policy", "pool", "asked", "found", "rate", "evicted");
	for (i = 0; i < sizeof(policies) / sizeof(*policies); i++) {
		if (only && strcmp(only, policies[i]))
			continue;
		replay_class = i ? keep_prefixes_class : NULL;
		for (k = 0; k < n_sizes; k++)
			report(&t, policies[i], &size[k], json);
	}
	for (i = 0; i < t.n; i++)
		free(t.request[i].block);
	free(t.request);
	return 0;
}
