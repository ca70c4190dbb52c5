/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* What is counted, and its text for Prometheus. Names are vLLM's with the prefix kvslab: in place of theirs. */
#ifndef SERVE_METRICS_H
#define SERVE_METRICS_H

#include "buf.h"
#include "kvslab.h"

#define HISTOGRAM_MAX 40

struct histogram {
	const double *bounds; /* [n], rising */
	uint32_t n;
	uint64_t counts[HISTOGRAM_MAX + 1]; /* the last: above all bounds */
	double sum;
};

void histogram_add(struct histogram *h, double v);

enum metric_finish {
	METRIC_STOP,
	METRIC_LENGTH,
	METRIC_ABORT, /* the client went away, or the server stopped */
	METRIC_ERROR,
	METRIC_FINISHES,
};

struct metrics {
	struct histogram ttft, itl, e2e, step, prompt_tokens, generation_tokens;
	uint64_t prompt_total, generation_total;
	uint64_t finished[METRIC_FINISHES];
	uint64_t http[6]; /* answers by the status's first digit */
	uint64_t refused_full; /* 429 */
};

void metrics_init(struct metrics *m);

/* What others know, gathered for one text. */
struct metrics_now {
	const char *model;
	struct kvslab_stat pool;
	struct kvslab_sched_stat sched;
	uint32_t max_batch;
	uint64_t page_size;
	double executor_seconds, between_seconds; /* of steps, in sum */
	uint64_t connections, accepted, turned_away;
	bool ready; /* pool and sched are filled */
};

void metrics_text(struct buf *b, const struct metrics *m, const struct metrics_now *now);

#endif
