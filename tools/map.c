// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* kvslab map: the slabs of the kernel's pools as a picture, now or over a recording. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "map_svg.h"
#include "msg.h"
#include "outfile.h"
#include "record.h"
#include "snap_take.h"

enum { OPT_SVG = 0x100, OPT_POOL, OPT_FROM };

struct map_opts {
	const char *svg, *pool, *from;
};

static const struct argp_option options[] = {
	{ "svg", OPT_SVG, "FILE", 0, "Where to put the picture; it appears whole or not at all (required)", 0 },
	{ "pool", OPT_POOL, "NAME", 0, "This pool alone (default: all)", 0 },
	{ "from", OPT_FROM, "RECORDING", 0,
	  "Draw what `kvslab trace frag --record' wrote, with time on the other axis (default: the pools as they are now)", 0 },
	{ 0 }
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct map_opts *o = state->input;

	switch (key) {
	case OPT_SVG:
		o->svg = arg;
		return 0;
	case OPT_POOL:
		pool_check_name(arg);
		o->pool = arg;
		return 0;
	case OPT_FROM:
		o->from = arg;
		return 0;
	case ARGP_KEY_ARG:
		die("\"%s\" is one word too many; the picture's file is given as --svg FILE", arg);
	case ARGP_KEY_SUCCESS:
		if (!o->svg)
			die("no file is named; give --svg FILE");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
	options, parse, "--svg FILE",
	"A picture of the slabs of the kernel's pools: how full each is, and of what.\v"
	"Colours follow the reader's choice of light or dark. It needs the module, or a recording.",
	NULL, NULL, NULL
};

static int draw_now(const struct map_opts *o, FILE *f)
{
	struct snap s;
	int err;

	if (snap_ready(o->pool))
		return -1;
	err = snap_take(&s, o->pool);
	if (!err && s.missing[0])
		msg("%s; what is left out is not in the picture", s.missing);
	if (!err)
		err = map_svg(f, &s, "kvslab map");
	if (err)
		msg("kvslab map: %s", strerror(-err));
	snap_free(&s);
	return err;
}

/* Puts the pools of that name first; how many. The others stay behind them, to be freed with them. */
static uint32_t first_of(struct snap *s, const char *only)
{
	struct snap_pool spare;
	uint32_t i, n = 0;

	for (i = 0; i < s->n; i++)
		if (!strncmp(s->pools[i].v.pool.name, only, KVSLAB_NAME_SIZE)) {
			spare = s->pools[n];
			s->pools[n++] = s->pools[i];
			s->pools[i] = spare;
		}
	return n;
}

/* All samples of the file to @each; what the last recorder said of its interval. */
static int each_sample(struct record *r, const struct map_opts *o, struct map_film *m,
		       int (*each)(struct map_film *m, const struct snap *s), uint64_t *step)
{
	struct record_begin b;
	struct snap s, shown;
	int rc, err = 0;

	while (!err && (rc = record_next(r, &b, &s)) != RECORD_END) {
		if (rc < 0)
			return rc;
		if (rc == RECORD_BEGIN) {
			*step = b.interval;
			continue;
		}
		shown = s;
		if (o->pool)
			shown.n = first_of(&s, o->pool);
		err = each(m, &shown);
		snap_free(&s);
	}
	return err;
}

static int draw_recording(const struct map_opts *o, FILE *f)
{
	FILE *in = fopen(o->from, "re");
	struct map_film *m = map_film_new();
	uint64_t step = 0, size;
	struct record r;
	const char *base = strrchr(o->from, '/');
	char source[200];
	int err;

	if (!in) {
		msg("%s cannot be read: %s; name a file that kvslab trace frag --record wrote", o->from, strerror(errno));
		map_film_free(m);
		return -1;
	}
	err = record_open(&r, in);
	if (err) {
		msg("%s cannot be read: %s", o->from, r.why);
		goto out;
	}
	err = m ? each_sample(&r, o, m, map_film_measure, &step) : -ENOMEM;
	if (err)
		goto told;
	if (r.why[0])
		msg("%s: %s", o->from, r.why);
	if (!map_film_pools(m)) {
		msg(o->pool ? "%s has no sample of pool %s" : "%s has no sample", o->from, o->pool);
		err = -ENOENT;
		goto out;
	}
	size = r.at;
	err = record_open(&r, in);
	r.size = size;
	if (!err)
		err = each_sample(&r, o, m, map_film_add, &step);
	snprintf(source, sizeof(source), "recorded in %.100s", base ? base + 1 : o->from);
	if (!err)
		err = map_film_svg(f, m, source, step);
told:
	if (err)
		msg("%s: %s", o->from, strerror(-err));
out:
	map_film_free(m);
	fclose(in);
	return err;
}

int cmd_map(int argc, char **argv)
{
	struct map_opts o = { 0 };
	struct outfile out;

	argp_parse(&argp, argc, argv, 0, NULL, &o);
	if (outfile_open(&out, o.svg))
		return 1;
	if (o.from ? draw_recording(&o, out.f) : draw_now(&o, out.f)) {
		outfile_abort(&out);
		return 1;
	}
	return outfile_commit(&out) ? 1 : 0;
}
