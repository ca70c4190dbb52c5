// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* kvslab bench: options of the two benchmarks. */
#include "bench.h"

#include <string.h>

#include "args.h"
#include "engine.h"
#include "msg.h"

enum {
	KEY_JSON = 0x100,
	KEY_THREADS,
	KEY_KERNELS,
};

enum what {
	NOTHING,
	POOL,
	MODEL,
};

struct bench {
	struct bench_opts opts;
	enum what what;
};

static const struct argp_option options[] = {
	{ "json", KEY_JSON, 0, 0, "Print JSON objects, one a line (default: text)", 0 },
	{ 0, 0, 0, 0, "For bench model:", 2 },
	{ "model", 'm', "MODEL", 0, "The model, a GGUF file (required)", 0 },
	{ "threads", KEY_THREADS, "CORES", 0,
	  "Compute on this many cores (default: all that this process may run on)", 0 },
	{ "kernels", KEY_KERNELS, "SET", 0, "auto, c, avx2, avxvnni or avx512 (default: auto)", 0 },
	{ 0 }
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	static const char *const kernels[] = { "auto", "c", "avx2", "avxvnni", "avx512", NULL };
	static const char *const whats[] = { "pool", "model", NULL }; /* serve is seen before */
	struct bench *b = state->input;

	switch (key) {
	case KEY_JSON:
		b->opts.json = true;
		return 0;
	case 'm':
		b->opts.model = arg;
		return 0;
	case KEY_THREADS:
		b->opts.threads = (uint32_t)arg_u64("--threads", arg, 1, MAX_THREADS);
		return 0;
	case KEY_KERNELS:
		b->opts.kernels = kernels[arg_word("--kernels", arg, kernels)];
		return 0;
	case ARGP_KEY_ARG:
		if (b->what)
			die("\"%s\" is one word too many; give pool or model", arg);
		b->what = arg_word("what to measure", arg, whats) ? MODEL : POOL;
		return 0;
	case ARGP_KEY_SUCCESS:
		if (!b->what)
			die("what to measure is not given; give pool or model");
		if (b->what == MODEL && !b->opts.model)
			die("no model is given; name a GGUF file with -m MODEL");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	options, parse, "pool|model|serve",
	"Measure the allocator beside a plain linked list (pool), or a model's prefill and decoding beside the "
	"memory's bandwidth (model), or a server (serve; see `kvslab bench serve --help').", NULL, NULL, NULL
};

int cmd_bench(int argc, char **argv)
{
	struct bench b = { .opts.kernels = "auto" };
	char name[] = "kvslab bench serve";

	if (argc > 1 && !strcmp(argv[1], "serve")) {
		argv[1] = name;
		return cmd_bench_serve(argc - 1, argv + 1);
	}
	argp_parse(&argp, argc, argv, 0, NULL, &b);
	return b.what == POOL ? bench_pool(&b.opts) : bench_model(&b.opts);
}
