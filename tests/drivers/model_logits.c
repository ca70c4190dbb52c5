// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Logits of every position of a sequence as raw f32 [positions][vocab], under settings that must not matter. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/model_util.h"
#include "tests/lib/tap.h"

struct args {
	const char *model, *ids, *logits;
	struct mu_opts engine;
	uint32_t chunk, batch;
	bool prefix;
	uint64_t seed;
};

static const char usage[] =
	"usage: model_logits MODEL --ids FILE --logits OUT [--kv-type f16|f32] [--page-tokens N] [--chunk N] [--threads N]\n"
	"                    [--kernels auto|c|avx2|avxvnni] [--batch N] [--prefix] [--seed N]\n"
	"  --batch N   beside N - 1 other sequences of random ids, lengths and chunks\n"
	"  --prefix    once to seal its pages, then again in a second sequence that finds them; its logits count\n";

__attribute__((noreturn)) static void bad(const char *what, const char *value)
{
	fprintf(stderr, "model_logits: %s '%s'\n%s", what, value, usage);
	exit(2);
}

static uint64_t number(const char *text, uint64_t max)
{
	char *end;
	unsigned long long v;

	errno = 0;
	v = strtoull(text, &end, 10);
	if (errno || end == text || *end || v > max)
		bad("not a number in range:", text);
	return v;
}

static void parse(struct args *a, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "ids", 1, 0, 'i' },	  { "logits", 1, 0, 'o' }, { "kv-type", 1, 0, 'k' }, { "page-tokens", 1, 0, 'p' },
		{ "chunk", 1, 0, 'c' },	  { "threads", 1, 0, 't' }, { "kernels", 1, 0, 'K' }, { "batch", 1, 0, 'b' },
		{ "prefix", 0, 0, 'P' },  { "seed", 1, 0, 's' },    { 0, 0, 0, 0 },
	};
	int c;

	*a = (struct args){ .batch = 1, .seed = 1 };
	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 'i':
			a->ids = optarg;
			break;
		case 'o':
			a->logits = optarg;
			break;
		case 'k':
			if (strcmp(optarg, "f16") && strcmp(optarg, "f32"))
				bad("unknown KV type", optarg);
			a->engine.kv_type = !strcmp(optarg, "f16") ? KVSLAB_KV_F16 : KVSLAB_KV_F32;
			break;
		case 'p':
			a->engine.page_tokens = (uint32_t)number(optarg, 1u << 20);
			break;
		case 'c':
			a->chunk = (uint32_t)number(optarg, 1u << 20);
			break;
		case 't':
			a->engine.threads = (uint32_t)number(optarg, 1024);
			break;
		case 'K':
			a->engine.kernels = optarg;
			break;
		case 'b':
			a->batch = (uint32_t)number(optarg, 32);
			break;
		case 'P':
			a->prefix = true;
			break;
		case 's':
			a->seed = number(optarg, UINT64_MAX);
			break;
		default:
			fputs(usage, stderr);
			exit(2);
		}
	}
	if (optind != argc - 1 || !a->ids || !a->logits || !a->batch)
		bad("needed: MODEL --ids --logits; at least one in a batch; got", optind < argc ? argv[optind] : "");
	a->model = argv[optind];
}

static uint32_t *read_ids(const char *path, uint32_t *n)
{
	FILE *f = fopen(path, "r");
	uint32_t *ids = NULL, cap = 0;
	unsigned int id;

	if (!f)
		mu_die("%s: %s", path, strerror(errno));
	*n = 0;
	while (fscanf(f, "%u", &id) == 1) {
		if (*n == cap) {
			cap = cap ? 2 * cap : 256;
			ids = realloc(ids, cap * sizeof(*ids));
			if (!ids)
				mu_die("no memory for %u ids", cap);
		}
		ids[(*n)++] = id;
	}
	if (!feof(f) || !*n)
		mu_die("%s: wanted token ids in decimal", path);
	fclose(f);
	return ids;
}

/* Streams 1 .. n-1: others, to be in the way. */
static void make_others(struct mu_stream *s, uint32_t n, const struct model *m, uint32_t longest, uint64_t *seed)
{
	for (uint32_t i = 1; i < n; i++) {
		uint32_t len = 1 + (uint32_t)(rnd(seed) % longest);
		uint32_t *ids = mu_alloc(len, sizeof(*ids));

		mu_random_ids(ids, len, m->vocab, seed);
		s[i] = (struct mu_stream){ .ids = ids, .n = len, .chunk = 1 + (uint32_t)(rnd(seed) % 40) };
	}
}

int main(int argc, char **argv)
{
	struct mu_stream *streams, first;
	struct mu_engine e;
	struct mu_model mm;
	struct args a;
	uint32_t *ids, n;
	float *logits;
	bool good;
	FILE *f;

	parse(&a, argc, argv);
	mu_model_open(&mm, a.model);
	ids = read_ids(a.ids, &n);
	a.engine.pool_bytes = 1u << 30;
	mu_engine_open(&e, &mm, &a.engine);
	logits = mu_alloc((size_t)n * mm.m->vocab, sizeof(*logits));
	streams = mu_alloc(a.batch, sizeof(*streams));
	streams[0] = (struct mu_stream){ .ids = ids, .n = n, .chunk = a.chunk, .logits = logits };
	make_others(streams, a.batch, mm.m, n, &a.seed);
	if (a.prefix) {
		first = streams[0];
		mu_run(&e, &first, 1);
		streams[0].match = true;
	}
	mu_run(&e, streams, a.batch);
	if (a.prefix) {
		printf("# the prefix gave %u of %u tokens\n", streams[0].found, n);
		kvslab_seq_close(first.seq);
	}
	for (uint32_t i = 0; i < a.batch; i++) {
		kvslab_seq_close(streams[i].seq);
		if (i)
			free((void *)streams[i].ids);
	}
	good = mu_engine_close(&e);
	f = fopen(a.logits, "wb");
	if (!f || fwrite(logits, sizeof(*logits) * mm.m->vocab, n, f) != n || fclose(f))
		mu_die("%s: %s", a.logits, strerror(errno));
	free(logits);
	free(streams);
	free(ids);
	mu_model_close(&mm);
	return good ? 0 : 1;
}
