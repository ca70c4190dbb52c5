// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "top.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "args.h"
#include "map_cells.h"
#include "msg.h"

#define TEXT_W 100 /* columns of a text */

enum { OPT_POOL = 0x100, OPT_INTERVAL, OPT_COUNT, OPT_ONCE, OPT_JSON, OPT_FROM, OPT_SORT };

static const struct argp_option options[] = {
	{ "pool", OPT_POOL, "NAME", 0, "This pool alone (default: all)", 0 },
	{ "interval", OPT_INTERVAL, "SECONDS", 0, "Time from one look to the next (default: 2)", 0 },
	{ "count", OPT_COUNT, "N", 0, "Looks before the end; 0: until a key or a signal (default: 0)", 0 },
	{ "once", OPT_ONCE, NULL, 0, "One look, as text; of a recording its end (default: live)", 0 },
	{ "json", OPT_JSON, NULL, 0, "Print JSON, an object for each look, one a line (default: not)", 0 },
	{ "sort", OPT_SORT, "BY", 0, "Sort pools and clients by name, held, cached or private (default: name)", 0 },
	{ "from", OPT_FROM, "RECORDING", 0,
	  "Show what `kvslab trace frag --record' wrote (default: the pools as they are now)", 0 },
	{ 0 }
};

struct parsing {
	struct top_opts o;
	struct top_view v;
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
		p->o.interval = arg_real("--interval", arg, 0.1, 86400);
		return 0;
	case OPT_COUNT:
		p->o.count = arg_u64("--count", arg, 0, UINT32_MAX);
		p->o.counted = true;
		return 0;
	case OPT_ONCE:
		p->o.once = true;
		return 0;
	case OPT_JSON:
		p->o.json = true;
		return 0;
	case OPT_SORT:
		p->v.sort = (enum snap_sort)arg_word("--sort", arg, snap_sort_names);
		return 0;
	case OPT_FROM:
		p->o.from = arg;
		return 0;
	case ARGP_KEY_ARG:
		die("\"%s\" is one word too many; a pool is named with --pool", arg);
	case ARGP_KEY_SUCCESS:
		if (p->o.once && p->o.counted)
			die("--once is one look; give either --once or --count N");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
	options, parse, "",
	"The pools of the kernel, live: who holds what, and a map of how full the slabs are.\v"
	"On a terminal h tells the keys. Where its output goes to a file or a pipe it prints text, a block for each look.\n\n"
	"It needs the module, or a recording. With CAP_BPF and CAP_PERFMON, as root has them, it shows rates of caches too.",
	NULL, NULL, NULL
};

static int open_recording(struct top_source *t)
{
	const char *path = t->o->from;

	t->file = fopen(path, "re");
	if (!t->file) {
		msg("%s cannot be read: %s; name a file that kvslab trace frag --record wrote", path, strerror(errno));
		return -errno;
	}
	if (!record_open(&t->record, t->file))
		return 0;
	msg("%s cannot be read: %s", path, t->record.why);
	return -EINVAL;
}

/* Leaves the pool that is wanted, to which the others give way. */
static void only(struct snap *s, const char *name)
{
	uint32_t i, n = 0;
	struct snap_pool p;

	for (i = 0; name && i < s->n; i++)
		if (!strncmp(s->pools[i].v.pool.name, name, KVSLAB_NAME_SIZE)) {
			p = s->pools[n];
			s->pools[n++] = s->pools[i];
			s->pools[i] = p;
		}
	if (!name || n == s->n)
		return;
	for (i = n; i < s->n; i++) {
		struct snap rest = { .n = 1, .pools = malloc(sizeof(*rest.pools)) };

		if (!rest.pools)
			break;
		rest.pools[0] = s->pools[i];
		memset(&s->pools[i], 0, sizeof(s->pools[i]));
		snap_free(&rest);
	}
	s->n = n;
}

static int next_sample(struct top_source *t, struct snap *s)
{
	struct record_begin b;
	int rc;

	do {
		rc = record_next(&t->record, &b, s);
	} while (rc == RECORD_BEGIN);
	if (rc < 0) {
		msg("%s: %s", t->o->from, strerror(-rc));
		return rc;
	}
	if (rc == RECORD_END)
		return 0;
	only(s, t->o->pool);
	return 1;
}

int top_next(struct top_source *t, struct snap *s)
{
	size_t n;
	int err;

	if (t->file)
		return next_sample(t, s);
	err = snap_take(s, t->o->pool);
	if (err) {
		msg("kvslab top: %s", strerror(-err));
		return err;
	}
	snap_counts_read(t->counts, s);
	n = strlen(s->missing);
	if (t->missing[0])
		snprintf(s->missing + n, sizeof(s->missing) - n, "%s%s", n ? "; " : "", t->missing);
	return 1;
}

static int print_text(const struct snap *now, const struct snap *before, const struct top_view *v)
{
	struct top_view each = *v;
	struct snap part = *now;
	struct screen s;
	char *row;
	uint32_t i = 0;
	int y, err = 0;

	/* Each pool in turn is the one that the rest is about. */
	do {
		if (i < now->n)
			memcpy(each.pool, now->pools[i].v.pool.name, sizeof(each.pool));
		if (i + 1 < now->n)
			part.missing[0] = 0;
		else
			part = *now;
		if (screen_init(&s, TEXT_W, top_rows(&part, &each, TEXT_W)))
			return -ENOMEM;
		row = malloc((size_t)TEXT_W * 4 + 1);
		if (row)
			top_draw(&s, &part, before, &each);
		/* What all have in common is printed once. */
		for (y = i ? 2 + (int)now->n : 0; row && y < s.h && !err; y++) {
			screen_row(&s, y, row);
			err = out_text("%s\n", row);
		}
		if (!row)
			err = -ENOMEM;
		free(row);
		screen_free(&s);
		if (!err)
			err = out_text("\n");
	} while (!err && ++i < now->n);
	return err;
}

static int show(const struct top_source *t, struct snap *now, const struct snap *before, const struct top_view *v)
{
	snap_sort(now, v->sort, v->back);
	if (t->o->json)
		return out_json(top_json(now, before, v));
	return print_text(now, before, v);
}

/* Of a recording the end alone: the sample before it is only there for the rates. */
static int last_two(struct top_source *t, struct snap *now, struct snap *before)
{
	struct snap s;
	int rc;

	memset(now, 0, sizeof(*now));
	memset(before, 0, sizeof(*before));
	while ((rc = top_next(t, &s)) > 0) {
		snap_free(before);
		*before = *now;
		*now = s;
	}
	return rc < 0 ? rc : now->pools ? 1 : 0;
}

static int print_last(struct top_source *t, struct top_view *v)
{
	struct snap now, before;
	int rc = last_two(t, &now, &before);

	v->ended = true;
	if (rc > 0)
		rc = show(t, &now, before.pools ? &before : NULL, v);
	else if (!rc)
		msg("%s has no sample", t->o->from);
	if (!rc && t->record.why[0])
		msg("%s: %s", t->o->from, t->record.why);
	rc = rc || !now.pools;
	snap_free(&now);
	snap_free(&before);
	return rc ? 1 : 0;
}

int top_lines(struct top_source *t, struct top_view *v)
{
	struct snap now, before = { 0 };
	struct timespec wait = { .tv_sec = (time_t)t->o->interval,
				 .tv_nsec = (long)((t->o->interval - (double)(time_t)t->o->interval) * 1e9) };
	sigset_t set, old;
	uint64_t i;
	int rc, sig = 0;

	v->text = v->ascii = true;
	if (t->o->once && t->file)
		return print_last(t, v);
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, &old);
	for (i = 1;; i++) {
		rc = top_next(t, &now);
		if (rc <= 0)
			break;
		rc = show(t, &now, before.pools ? &before : NULL, v);
		snap_free(&before);
		before = now;
		/* A signal is answered with a last look, so that what happened up to it is told. */
		if (rc || sig > 0 || t->o->once || i == t->o->count)
			break;
		if (!t->file)
			sig = sigtimedwait(&set, NULL, &wait);
	}
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (!rc && t->file && !before.pools) {
		msg("%s has no sample", t->o->from);
		rc = -ENOENT;
	} else if (!rc && t->file && t->record.why[0]) {
		msg("%s: %s", t->o->from, t->record.why);
	}
	snap_free(&before);
	return rc ? 1 : 0;
}

int cmd_top(int argc, char **argv)
{
	struct parsing p = { .o = { .interval = 2 }, .v = { .tier = MAP_ANY_TIER } };
	struct top_source t = { .o = &p.o };
	int status;

	argp_parse(&argp, argc, argv, 0, NULL, &p);
	p.v.interval = p.o.interval;
	p.v.recording = p.o.from;
	if (p.o.from ? open_recording(&t) : snap_ready(p.o.pool)) {
		if (t.file)
			fclose(t.file);
		return 1;
	}
	/* Of one look there are no rates. */
	if (!p.o.from && !p.o.once)
		t.counts = snap_counts_open(SNAP_FRAG | SNAP_PREFIX, t.missing, sizeof(t.missing));
	if (p.o.json || p.o.once || !isatty(STDOUT_FILENO))
		status = top_lines(&t, &p.v);
	else
		status = top_screen(&t, &p.v);
	snap_counts_close(t.counts);
	if (t.file)
		fclose(t.file);
	return status;
}
