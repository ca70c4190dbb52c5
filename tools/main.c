// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "kvslab.h"
#include "msg.h"

static const struct command {
	const char *name;
	int (*main)(int argc, char **argv);
	const char *what;
} commands[] = {
	{ "run", cmd_run, "run prompts through a model as one continuous batch" },
	{ "serve", cmd_serve, "serve a model over HTTP, as OpenAI's API has it" },
	{ "eval", cmd_eval, "perplexity of a text" },
	{ "tokenize", cmd_tokenize, "a text's tokens" },
	{ "inspect", cmd_inspect, "what a model file is, and whether it runs here" },
	{ "pool", cmd_pool, "pools in the kernel: made, looked at, changed, ended" },
	{ "top", cmd_top, "the kernel's pools, live: who holds what, and how full slabs are" },
	{ "map", cmd_map, "the same as a picture, now or over a recording" },
	{ "trace", cmd_trace, "what happens in the kernel's pools, told by eBPF programs" },
	{ "export", cmd_export, "figures of the kernel's pools over HTTP, for Prometheus" },
	{ "bench", cmd_bench, "speed of the allocator and of a model" },
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const struct command *find(const char *name)
{
	size_t i;

	for (i = 0; i < N_COMMANDS; i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	(void)state;
	if (key == ARGP_KEY_ARG)
		die("there is no command \"%s\"; the commands are run, serve, eval, tokenize, inspect, pool, top, map, trace and bench", arg);
	if (key == ARGP_KEY_NO_ARGS)
		die("no command is given; give run, serve, eval, tokenize, inspect, pool, top, map, trace or bench, or --help");
	return ARGP_ERR_UNKNOWN;
}

static char *filter(int key, const char *text, void *input)
{
	char *s;
	size_t n, i;
	FILE *f;

	(void)input;
	if (key != ARGP_KEY_HELP_POST_DOC)
		return (char *)text;
	f = open_memstream(&s, &n);
	if (!f)
		return (char *)text;
	fprintf(f, "Commands:\n");
	for (i = 0; i < N_COMMANDS; i++)
		fprintf(f, "  %-10s %s\n", commands[i].name, commands[i].what);
	fprintf(f, "\n`kvslab COMMAND --help' lists a command's options and their defaults.");
	if (fclose(f))
		return (char *)text;
	return s;
}

static const struct argp argp = { NULL, parse, "COMMAND [OPTION...]",
				  "Runs language models on slabs of KV-cache pages.\v ", NULL, filter, NULL };

static void print_version(FILE *stream, struct argp_state *state)
{
	(void)state;
	fprintf(stream, "kvslab %s\n", kvslab_version());
}

int main(int argc, char **argv)
{
	const struct command *c = argc > 1 ? find(argv[1]) : NULL;
	char name[64];

	out_init();
	argp_program_version_hook = print_version;
	argp_err_exit_status = 1;
	if (!c) {
		argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, NULL);
		return 1;
	}
	snprintf(name, sizeof(name), "kvslab %s", c->name);
	argv[1] = name;
	return c->main(argc - 1, argv + 1);
}
