// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "trace.h"

#include <string.h>

#include "args.h"
#include "msg.h"
#include "pool.h"

const char *const trace_names[TRACE_N + 1] = { "frag",	"latency", "lifetime",
					       "leaks", "prefix",  NULL };

enum { OPT_POOL = 0x100, OPT_INTERVAL, OPT_COUNT, OPT_JSON, OPT_AGE, OPT_RECORD, OPT_PINNED };

static const struct argp_option options[] = {
	{ "pool", OPT_POOL, "NAME", 0, "this pool alone (default: all)", 0 },
	{ "interval", OPT_INTERVAL, "SECONDS", 0, "time from one print to the next (default: 5)",
	  0 },
	{ "count", OPT_COUNT, "N", 0, "prints before the end; 0: until a signal (default: 0)", 0 },
	{ "age", OPT_AGE, "SECONDS", 0, "leaks: pages held for at least so long (default: 10)", 0 },
	{ "record", OPT_RECORD, "FILE", 0,
	  "frag: write the counts and all slabs there, for kvslab map and top --from; goes on with a file that is there "
	  "(default: print)", 0 },
	{ "pinned", OPT_PINNED, "FOLDER", 0,
	  "read the maps that are pinned there, as bpftool does, in place of programs of its own (default: its own)", 0 },
	{ "json", OPT_JSON, NULL, 0, "print JSON, one object a line (default: text)", 0 },
	{ 0 }
};

struct parsing {
	struct trace_opts o;
	bool named;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct parsing *p = state->input;

	switch (key) {
	case OPT_POOL:
		pool_check_name(arg);
		p->o.pool = arg;
		return 0;
	case OPT_INTERVAL:
		p->o.interval = (uint32_t)arg_u64("--interval", arg, 1, 86400);
		return 0;
	case OPT_COUNT:
		p->o.count = arg_u64("--count", arg, 0, UINT32_MAX);
		return 0;
	case OPT_AGE:
		p->o.age = (uint32_t)arg_u64("--age", arg, 0, 31536000);
		return 0;
	case OPT_RECORD:
		p->o.record = arg;
		return 0;
	case OPT_PINNED:
		p->o.pinned = arg;
		return 0;
	case OPT_JSON:
		p->o.json = true;
		return 0;
	case ARGP_KEY_ARG:
		if (p->named)
			die("\"%s\" is one word too many; one trace at a time", arg);
		p->o.what = (enum trace_what)arg_word("what to trace", arg, trace_names);
		p->named = true;
		return 0;
	case ARGP_KEY_SUCCESS:
		if (p->o.record && p->o.what != TRACE_FRAG)
			die("--record goes with frag alone; it keeps what kvslab map draws");
		if (p->o.record && p->o.pinned)
			die("--record takes counts of its own; leave --pinned out");
		if (p->o.record && p->o.json)
			die("--record prints nothing; give either --record or --json");
		return 0;
	case ARGP_KEY_NO_ARGS:
		die("what to trace is not given; give frag, latency, lifetime, leaks or prefix, or --help");
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
	options,
	parse,
	"frag|latency|lifetime|leaks|prefix",
	"What happens in the pools of the kernel, counted by eBPF programs from now on.\v"
	"frag: pages and slabs, and what of the memory is empty; latency: time of commands; lifetime: of pages, by how "
	"they end; leaks: pages held long, by whom, from where; prefix: hits, evictions, regret.\n\n"
	"It needs the module and CAP_BPF with CAP_PERFMON. Beside each result stands what was lost.",
	NULL,
	NULL,
	NULL
};

int cmd_trace(int argc, char **argv)
{
	struct parsing p = { .o = { .interval = 5, .age = 10 } };

	argp_parse(&argp, argc, argv, 0, NULL, &p);
	return trace_run(&p.o);
}

#ifndef KVSLAB_TRACE
int trace_run(const struct trace_opts *o)
{
	(void)o;
	msg("this command was built without eBPF; install clang, llvm, libbpf-dev and bpftool, and build it again");
	return 1;
}
#endif
