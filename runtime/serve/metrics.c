// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "metrics.h"

#include <string.h>

static const double first_token[] = { .001, .005, .01, .02, .04, .06, .08, .1, .25, .5,	 .75, 1,
				      2.5,  5,	  7.5, 10,  20,	 40,  80,  160, 640, 2560 };
static const double between_tokens[] = { .001, .0025, .005, .01, .025, .05, .075, .1, .15, .2, .3, .4,
					 .5,   .75,   1,    2.5, 5,    7.5, 10,	  20, 40,  80 };
static const double whole[] = { .3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680 };
static const double tokens[] = { 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000 };

/* Each a quarter more than the one before, from 0.2 ms. */
static const double steps[] = { .0002, .00025, .00031, .00039, .00049, .00061, .00076, .00095, .0012, .0015, .0019, .0023, .0029,
				.0036, .0045,  .0057,  .0071,  .0089,  .011,   .014,   .017,   .022,  .027,  .034,  .042,  .053,
				.066,  .083,   .1,     .13,    .16,    .2,     .25,    .32,    .4,    .5,    .75,   1,     5 };

#define BOUNDS(a) { .bounds = (a), .n = sizeof(a) / sizeof((a)[0]) }

void metrics_init(struct metrics *m)
{
	*m = (struct metrics){
		.ttft = BOUNDS(first_token),
		.itl = BOUNDS(between_tokens),
		.e2e = BOUNDS(whole),
		.step = BOUNDS(steps),
		.prompt_tokens = BOUNDS(tokens),
		.generation_tokens = BOUNDS(tokens),
	};
}

void histogram_add(struct histogram *h, double v)
{
	uint32_t i;

	for (i = 0; i < h->n && v > h->bounds[i]; i++)
		;
	h->counts[i]++;
	h->sum += v;
}

struct text {
	struct buf *b;
	struct buf label; /* model_name="..." */
};

static void head(struct text *t, const char *name, const char *type, const char *help)
{
	buf_print(t->b, "# HELP kvslab:%s %s\n# TYPE kvslab:%s %s\n", name, help, name, type);
}

static void value(struct text *t, const char *name, const char *label, const char *of, double v)
{
	buf_print(t->b, "kvslab:%s{%.*s", name, (int)t->label.n, t->label.b);
	if (label)
		buf_print(t->b, ",%s=\"%s\"", label, of);
	buf_text(t->b, "} ");
	buf_number(t->b, v);
	buf_text(t->b, "\n");
}

static void one(struct text *t, const char *name, const char *type, const char *help, double v)
{
	head(t, name, type, help);
	value(t, name, NULL, NULL, v);
}

static void histogram(struct text *t, const char *name, const char *help, const struct histogram *h)
{
	uint64_t n = 0;
	uint32_t i;

	head(t, name, "histogram", help);
	for (i = 0; i <= h->n; i++) {
		n += h->counts[i];
		buf_print(t->b, "kvslab:%s_bucket{%.*s,le=\"", name, (int)t->label.n, t->label.b);
		if (i < h->n)
			buf_number(t->b, h->bounds[i]);
		else
			buf_text(t->b, "+Inf");
		buf_print(t->b, "\"} %llu\n", (unsigned long long)n);
	}
	buf_print(t->b, "kvslab:%s_sum{%.*s} ", name, (int)t->label.n, t->label.b);
	buf_number(t->b, h->sum);
	buf_print(t->b, "\nkvslab:%s_count{%.*s} %llu\n", name, (int)t->label.n, t->label.b, (unsigned long long)n);
}

static void pool(struct text *t, const struct metrics_now *now)
{
	const struct kvslab_stat *p = &now->pool;
	double used = (double)(p->private_pages + p->moving + p->sealed);
	double pages_an_extent = p->extents ? (double)(p->free + p->private_pages + p->moving + p->sealed + p->cached +
						       p->quarantined) / (double)p->extents : 0;
	double most = pages_an_extent * (double)(p->max ? p->max : p->arena_extents);

	head(t, "pages", "gauge", "Pages in slabs, by state.");
	value(t, "pages", "state", "free", (double)p->free);
	value(t, "pages", "state", "private", (double)p->private_pages);
	value(t, "pages", "state", "moving", (double)p->moving);
	value(t, "pages", "state", "sealed", (double)p->sealed);
	value(t, "pages", "state", "cached", (double)p->cached);
	value(t, "pages", "state", "quarantined", (double)p->quarantined);
	one(t, "page_size_bytes", "gauge", "Bytes of a page.", (double)now->page_size);
	one(t, "kv_cache_usage_perc", "gauge", "Pages in use, private or sealed, of those that the pool can hold; 1 is all.",
	    most > 0 ? used / most : 0);
	head(t, "extents", "gauge", "Extents of 2 MiB: with a slab of the pool, held against its limit, the limit.");
	value(t, "extents", "kind", "slabs", (double)p->extents);
	value(t, "extents", "kind", "held", (double)p->held);
	value(t, "extents", "kind", "max", (double)(p->max ? p->max : p->arena_extents));
	head(t, "fragmentation", "gauge", "Share of the bytes of the pool's extents that holds nothing, by kind.");
	value(t, "fragmentation", "kind", "partial", p->frag_partial);
	value(t, "fragmentation", "kind", "tail", p->frag_tail);
	value(t, "fragmentation", "kind", "quarantine", p->frag_quarantine);
	one(t, "internal_waste", "gauge", "Tokens that pages of running sequences could still take, of those allocated.",
	    now->sched.allocated_tokens ? (double)now->sched.unused_tokens / (double)now->sched.allocated_tokens : 0);
	one(t, "page_allocations_total", "counter", "Pages allocated.", (double)p->allocs);
	one(t, "page_evictions_total", "counter", "Cached pages whose memory was taken.", (double)p->evictions);
	one(t, "page_seals_total", "counter", "Pages sealed.", (double)p->seals);
}

static void sched(struct text *t, const struct metrics_now *now)
{
	const struct kvslab_sched_stat *s = &now->sched;
	bool full = s->running >= now->max_batch;

	one(t, "num_requests_running", "gauge", "Sequences in the batch.", s->running);
	one(t, "num_requests_waiting", "gauge", "Sequences that wait to be run.", s->waiting);
	head(t, "num_requests_waiting_by_reason", "gauge", "The same by what they wait for: a place in the batch, or pages.");
	value(t, "num_requests_waiting_by_reason", "reason", "batch", full ? s->waiting : 0);
	value(t, "num_requests_waiting_by_reason", "reason", "pages", full ? 0 : s->waiting);
	one(t, "num_preemptions_total", "counter", "Sequences that gave their pages back to be computed again.",
	    (double)s->preemptions);
	one(t, "prefix_cache_queries_total", "counter", "Tokens of prompts that were looked for in the pool.",
	    (double)s->prefix_queries);
	one(t, "prefix_cache_hits_total", "counter", "Those that were found.", (double)s->prefix_hits);
	one(t, "steps_total", "counter", "Steps of the batch.", (double)s->steps);
	one(t, "step_tokens_total", "counter", "Tokens computed, of prompts and of answers.", (double)s->rows);
	one(t, "step_executor_seconds_total", "counter", "Time in which the executor ran steps.", now->executor_seconds);
	one(t, "step_between_seconds_total", "counter", "Time between steps in which sequences were running.",
	    now->between_seconds);
}

void metrics_text(struct buf *b, const struct metrics *m, const struct metrics_now *now)
{
	static const char *const finishes[] = { "stop", "length", "abort", "error" };
	static const char *const classes[] = { "", "1xx", "2xx", "3xx", "4xx", "5xx" };
	struct text t = { .b = b };
	int i;

	buf_text(&t.label, "model_name=");
	buf_json(&t.label, now->model, strlen(now->model));
	if (now->ready) {
		sched(&t, now);
		pool(&t, now);
	}
	one(&t, "prompt_tokens_total", "counter", "Tokens of prompts of requests that were run.", (double)m->prompt_total);
	one(&t, "generation_tokens_total", "counter", "Tokens generated.", (double)m->generation_total);
	head(&t, "request_success_total", "counter", "Answers, by how they ended.");
	for (i = 0; i < METRIC_FINISHES; i++)
		value(&t, "request_success_total", "finished_reason", finishes[i], (double)m->finished[i]);
	histogram(&t, "time_to_first_token_seconds", "From a request's arrival to its first token.", &m->ttft);
	histogram(&t, "inter_token_latency_seconds", "From a token to the next.", &m->itl);
	histogram(&t, "e2e_request_latency_seconds", "From a request's arrival to its end.", &m->e2e);
	histogram(&t, "step_seconds", "From a step's beginning to the next one's, while sequences are running.", &m->step);
	histogram(&t, "request_prompt_tokens", "Tokens of a request's prompts.", &m->prompt_tokens);
	histogram(&t, "request_generation_tokens", "Tokens of an answer.", &m->generation_tokens);
	head(&t, "http_responses_total", "counter", "Answers of the server, by kind of status.");
	for (i = 2; i < 6; i++)
		value(&t, "http_responses_total", "status", classes[i], (double)m->http[i]);
	one(&t, "requests_refused_full_total", "counter", "Requests refused because the queue was full.",
	    (double)m->refused_full);
	one(&t, "connections", "gauge", "Connections open.", (double)now->connections);
	one(&t, "connections_accepted_total", "counter", "Connections accepted.", (double)now->accepted);
	one(&t, "connections_turned_away_total", "counter", "Connections closed at once, for lack of room.",
	    (double)now->turned_away);
	b->failed |= t.label.failed;
	buf_free(&t.label);
}
