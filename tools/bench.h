/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * kvslab bench: what bench.c parses and the two benchmarks run. A benchmark prints each figure as it has it, on
 * stdout, one line each: a JSON object (with "bench" and "name", its unit in the key, as in "ns_per_page", and a
 * "ratio" where two things are compared), or the same for people without @json. It returns 0, or 1 after a
 * message on stderr (msg.h).
 */
#ifndef TOOLS_BENCH_H
#define TOOLS_BENCH_H

#include <stdbool.h>
#include <stdint.h>

struct bench_opts {
	bool json;
	const char *model; /* bench model: path of the GGUF file; never NULL there */
	uint32_t threads; /* 0: the cores that this process may run on */
	const char *kernels; /* a name of kvslab_kernels.h, or "auto" */
};

int bench_pool(const struct bench_opts *opts);
int bench_model(const struct bench_opts *opts);

/* kvslab bench serve, with options of its own: argv[0] is its name. Exit status. */
int cmd_bench_serve(int argc, char **argv);

#endif
