// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* kvslab trace frag --record: samples of STAT, SLABS and the counts of frag, until the count or a signal. */
#ifdef KVSLAB_TRACE
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "msg.h"
#include "record.h"
#include "snap_take.h"
#include "trace.h"

static int sample(const struct trace_opts *o, const struct snap_counts *counts, struct record_writer *w)
{
	struct snap s;
	int err = snap_take(&s, o->pool);

	if (err) {
		msg("kvslab trace: %s", strerror(-err));
		return err;
	}
	snap_counts_read(counts, &s);
	if (s.missing[0] && !w->samples)
		msg("%s; they are left out", s.missing);
	err = record_write(w, &s);
	snap_free(&s);
	return err;
}

int trace_record(const struct trace_opts *o)
{
	struct timespec wait = { .tv_sec = o->interval };
	struct record_writer w;
	struct snap_counts *counts;
	sigset_t set, old;
	char why[240];
	int err, sig = 0;

	counts = snap_counts_open(SNAP_FRAG, why, sizeof(why));
	if (!counts) {
		msg("kvslab trace: %s", why);
		return 1;
	}
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, &old);
	err = record_create(&w, o->record, (uint64_t)o->interval * 1000000000);
	if (!err) {
		msg("recording into %s; Ctrl-C ends it", o->record);
		for (;;) {
			err = sample(o, counts, &w);
			if (err || sig > 0 || w.samples == o->count)
				break;
			sig = sigtimedwait(&set, NULL, &wait);
		}
		if (record_close(&w) && !err)
			err = -1;
		msg("%" PRIu64 " samples are in %s", w.samples, o->record);
	}
	sigprocmask(SIG_SETMASK, &old, NULL);
	snap_counts_close(counts);
	return err ? 1 : 0;
}
#endif
