// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "generate.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEFAULT_PING_MS 15000

static void mark_dirty(struct gen *g)
{
	if (g->dirty)
		return;
	g->dirty = true;
	g->next_dirty = g->app->dirty;
	g->app->dirty = g;
}

static void unmark_dirty(struct gen *g)
{
	struct gen **at;

	if (!g->dirty)
		return;
	for (at = &g->app->dirty; *at != g; at = &(*at)->next_dirty)
		;
	*at = g->next_dirty;
	g->dirty = false;
}

static void gen_free(struct gen *g)
{
	struct app *a = g->app;
	uint32_t i;

	unmark_dirty(g);
	loop_timer_stop(&g->ping);
	*g->prev = g->next;
	if (g->next)
		g->next->prev = g->prev;
	for (i = 0; i < g->n_choices; i++) {
		buf_free(&g->choices[i].text);
		free(g->choices[i].tokens);
		free(g->choices[i].tops);
	}
	free(g->choices);
	gen_params_free(&g->p);
	free(g);
	app_progress(a);
}

static void free_if_over(struct gen *g)
{
	if (!g->x && !g->n_running && !g->busy)
		gen_free(g);
}

static void cancel_choices(struct gen *g)
{
	uint32_t i;

	g->busy++;
	for (i = 0; i < g->n_choices; i++)
		if (g->choices[i].request)
			kvslab_sched_cancel(g->app->stepper.sched, g->choices[i].request);
	g->busy--;
}

/* ---- what the scheduler tells ---- */

static void fail(struct gen *g, const struct api_error *e)
{
	if (!g->failed)
		g->error = *e;
	g->failed = true;
	mark_dirty(g);
}

static void no_memory(struct choice *c)
{
	struct api_error e;

	api_fail(&e, 503, NULL, "no memory for the answer; try again");
	fail(c->gen, &e);
	c->ended = true;
	kvslab_sched_cancel(c->gen->app->stepper.sched, c->request);
}

static void count_token(struct choice *c)
{
	struct metrics *m = &c->gen->app->metrics;
	struct exchange *x = c->gen->x;
	uint64_t now = loop_now(c->gen->app->loop);

	m->generation_total++;
	if (c->last)
		histogram_add(&m->itl, (double)(now - c->last) / 1e9);
	else if (x)
		histogram_add(&m->ttft, (double)(now - x->start) / 1e9);
	c->last = now;
}

/* A token with its log probability and those of the likeliest, which the scheduler has for it now. */
static int note_token(struct choice *c, uint32_t id, float logprob)
{
	uint32_t cap = c->cap_tokens ? 2 * c->cap_tokens : 32, most = c->gen->p.top_logprobs, n = 0;
	const struct kvslab_top *top = NULL;
	struct gen_token *t;
	struct kvslab_top *tops;

	if (!c->gen->p.logprobs)
		return 0;
	if (c->n_noted == c->cap_tokens) {
		t = realloc(c->tokens, cap * sizeof(*t));
		if (!t)
			return -ENOMEM;
		c->tokens = t;
		if (most) {
			tops = realloc(c->tops, (size_t)cap * most * sizeof(*tops));
			if (!tops)
				return -ENOMEM;
			c->tops = tops;
		}
		c->cap_tokens = cap;
	}
	if (c->request)
		top = kvslab_request_top(c->request, &n);
	if (n > most)
		n = most;
	if (n)
		memcpy(c->tops + (size_t)c->n_noted * most, top, n * sizeof(*top));
	c->tokens[c->n_noted++] = (struct gen_token){ id, logprob, n, c->text.n };
	return 0;
}

static void finish_text(struct choice *c)
{
	char *to;

	if (c->ended)
		return;
	to = buf_room(&c->text, 16);
	if (!to)
		return;
	c->text.n += tok_stream_end(&c->stream, to);
	if (c->n_noted)
		c->tokens[c->n_noted - 1].text_end = c->text.n;
	stop_end(&c->stop, c->text.n);
}

static void end_choice(struct choice *c)
{
	struct kvslab_request_info info;

	kvslab_request_info(c->request, &info);
	c->cached_tokens = info.cached_tokens;
	c->ended = true;
	c->finish = "stop";
	kvslab_sched_cancel(c->gen->app->stepper.sched, c->request);
}

/* ---- echo: the prompt is the text's beginning ---- */

/* Its text is given out once each of its tokens has its log probability, where those are wanted. */
static void echo_whole(struct choice *c)
{
	c->stop.from = c->stop.safe = c->text.n;
	mark_dirty(c->gen);
}

/* The place in the prompt's text at which its next token ends. */
static int note_prompt(struct choice *c, uint32_t pos, float logprob)
{
	const struct gen_params *p = &c->gen->p;
	uint32_t id = p->prompts[c->prompt].id[pos];
	char *to = buf_room(&c->text, 3 * tok_piece_max(c->stream.t) + 16); /* and not kept */

	if (!to)
		return -ENOMEM;
	c->echoed += tok_stream_next(&c->echo, id, to);
	if (note_token(c, id, logprob))
		return -ENOMEM;
	c->tokens[c->n_noted - 1].text_end =
		c->echoed < c->text.n && pos + 1 < p->prompts[c->prompt].n ? c->echoed : c->text.n;
	if (pos + 1 == p->prompts[c->prompt].n)
		echo_whole(c);
	return 0;
}

static int begin_echo(struct choice *c)
{
	const struct gen_params *p = &c->gen->p;

	buf_add(&c->text, p->texts[c->prompt], p->text_n[c->prompt]);
	if (c->text.failed)
		return -ENOMEM;
	if (p->logprobs)
		return note_prompt(c, 0, NAN);
	echo_whole(c);
	return 0;
}

static void on_score(struct kvslab_request *request, uint32_t pos, float logprob, void *data)
{
	struct choice *c = data;

	(void)request;
	if (!c->ended && !c->gen->failed && note_prompt(c, pos, logprob))
		no_memory(c);
}

static void on_token(struct kvslab_request *request, uint32_t id, float logprob, void *data)
{
	struct choice *c = data;
	struct gen *g = c->gen;
	char *to;

	(void)request;
	if (c->ended || g->failed)
		return;
	count_token(c);
	to = buf_room(&c->text, 3 * tok_piece_max(c->stream.t) + 16);
	if (!to) {
		no_memory(c);
		return;
	}
	c->text.n += tok_stream_next(&c->stream, id, to);
	if (note_token(c, id, logprob)) {
		no_memory(c);
		return;
	}
	c->n_tokens++;
	if (c->n_tokens <= g->p.min_tokens)
		c->stop.from = c->stop.safe = c->text.n;
	else
		stop_scan(&c->stop, g->p.stops, g->p.n_stops, c->text.b, c->text.n);
	if (c->stop.stopped)
		end_choice(c);
	if (g->streaming || c->ended)
		mark_dirty(g);
}

static void request_failed(struct gen *g, int error)
{
	struct api_error e;

	if (error == -EDOM)
		api_fail(&e, 500, NULL, "the model gave a value that is not finite; its file may be damaged");
	else
		api_fail(&e, 500, NULL, "the request failed: %s", kvslab_strerror(error));
	fail(g, &e);
}

static void on_done(struct kvslab_request *request, void *data)
{
	struct choice *c = data;
	struct gen *g = c->gen;
	struct kvslab_request_info info;

	kvslab_request_info(request, &info);
	c->request = NULL;
	c->done = true;
	c->cached_tokens = info.cached_tokens;
	g->n_running--;
	g->app->active--;
	finish_text(c);
	if (c->ended)
		; /* finish is set */
	else if (info.finish == KVSLAB_FINISH_STOP)
		c->finish = "stop";
	else if (info.finish == KVSLAB_FINISH_LENGTH)
		c->finish = "length";
	else
		c->finish = "abort";
	if (info.finish == KVSLAB_FINISH_ERROR && !c->ended)
		request_failed(g, info.error);
	if (c->text.failed)
		request_failed(g, -ENOMEM);
	if (g->x)
		mark_dirty(g);
	else
		free_if_over(g);
}

/* ---- what the client is told ---- */

static void count_end(struct gen *g, enum metric_finish failed)
{
	struct metrics *m = &g->app->metrics;
	struct exchange *x = g->x;
	struct choice *c;

	x->finish = "";
	for (c = g->choices; c < g->choices + g->n_choices; c++) {
		x->completion_tokens += c->n_tokens;
		if (c->index % g->p.n == 0)
			x->cached_tokens += c->cached_tokens;
		x->finish = c->finish ? c->finish : "abort";
		m->finished[failed != METRIC_FINISHES ? failed :
			    !strcmp(x->finish, "length") ? METRIC_LENGTH : METRIC_STOP]++;
		histogram_add(&m->generation_tokens, c->n_tokens);
	}
	histogram_add(&m->e2e, (double)(loop_now(g->app->loop) - x->start) / 1e9);
}

static void end_with_error(struct gen *g)
{
	struct exchange *x = g->x;
	struct buf b = { .n = 0 };

	cancel_choices(g);
	count_end(g, METRIC_ERROR);
	g->x = NULL;
	x->gen = NULL;
	if (g->streaming) {
		buf_text(&b, "data: ");
		api_error_json(&b, &g->error);
		buf_text(&b, "\n\ndata: [DONE]\n\n");
		http_stream_add(x->c, b.b, b.n);
		buf_free(&b);
		exchange_stream_end(x);
	} else {
		exchange_fail(x, &g->error);
	}
	free_if_over(g);
}

static bool all_done(const struct gen *g)
{
	uint32_t i;

	for (i = 0; i < g->n_choices; i++)
		if (!g->choices[i].done)
			return false;
	return true;
}

static void end_whole(struct gen *g)
{
	struct exchange *x = g->x;
	struct buf b = { .n = 0 };

	count_end(g, METRIC_FINISHES);
	reply_whole(&b, g);
	g->x = NULL;
	x->gen = NULL;
	exchange_answer(x, 200, "application/json", NULL, &b);
	free_if_over(g);
}

static void end_stream(struct gen *g)
{
	struct exchange *x = g->x;
	struct buf b = { .n = 0 };

	count_end(g, METRIC_FINISHES);
	if (g->p.include_usage)
		reply_usage_chunk(&b, g);
	buf_text(&b, "data: [DONE]\n\n");
	http_stream_add(x->c, b.b, b.n);
	buf_free(&b);
	g->x = NULL;
	x->gen = NULL;
	exchange_stream_end(x);
	free_if_over(g);
}

static void arm_ping(struct gen *g)
{
	unsigned int ms = g->app->opts.ping_ms ? g->app->opts.ping_ms : DEFAULT_PING_MS;

	loop_timer_set(g->app->loop, &g->ping, loop_now(g->app->loop) + ms * (uint64_t)1000000);
}

static void pump_stream(struct gen *g)
{
	struct http_conn *conn = g->x->c;
	struct buf b = { .n = 0 };
	bool finished = true, sent = false;
	struct choice *c;

	for (c = g->choices; c < g->choices + g->n_choices && http_backlog(conn) < HTTP_STREAM_HIGH; c++) {
		if (c->finished || (c->stop.safe == c->sent_text && !c->done && !c->ended))
			continue;
		b.n = 0;
		reply_chunk(&b, g, c);
		http_stream_add(conn, b.b, b.n);
		sent = true;
	}
	if (b.failed) {
		buf_free(&b);
		http_drop(conn);
		return;
	}
	buf_free(&b);
	for (c = g->choices; c < g->choices + g->n_choices; c++)
		finished &= c->finished;
	if (finished)
		end_stream(g);
	else if (sent)
		arm_ping(g);
}

void gen_pump(struct gen *g)
{
	unmark_dirty(g);
	if (!g->x)
		return;
	if (g->failed)
		end_with_error(g);
	else if (g->streaming)
		pump_stream(g);
	else if (all_done(g))
		end_whole(g);
}

void gen_pump_dirty(struct app *a)
{
	while (a->dirty)
		gen_pump(a->dirty);
}

static void ping(struct loop_timer *t)
{
	struct gen *g = (struct gen *)((char *)t - offsetof(struct gen, ping));

	if (!g->x)
		return;
	if (http_backlog(g->x->c) < HTTP_STREAM_HIGH)
		http_stream_add(g->x->c, ": ping\n\n", 8);
	arm_ping(g);
}

void gen_gone(struct gen *g)
{
	count_end(g, METRIC_ABORT);
	g->x = NULL;
	loop_timer_stop(&g->ping);
	cancel_choices(g);
	free_if_over(g);
}

void gen_abort(struct gen *g, const struct api_error *e)
{
	if (!g->x)
		return;
	fail(g, e);
	gen_pump(g);
}

/* ---- start ---- */

static int add_choice(struct gen *g, struct choice *c)
{
	const struct gen_params *p = &g->p;
	const struct api_model *m = &g->app->engine.model;
	struct kvslab_request_opts o = {
		.tokens = p->prompts[c->prompt].id,
		.n_tokens = (uint32_t)p->prompts[c->prompt].n,
		.max_tokens = p->max_tokens,
		.min_tokens = p->min_tokens,
		.priority = p->priority,
		.sampling = p->sampling,
		.salt = p->salt,
		.salt_size = p->salt_n,
		.n_top = p->top_logprobs,
		.score_prompt = p->echo && (p->logprobs || !p->max_tokens),
		.on_score = p->logprobs ? on_score : NULL,
		.on_token = on_token,
		.on_done = on_done,
		.data = c,
	};
	uint32_t stops[STOP_IDS_MAX + 64];
	const uint32_t *eos;
	size_t n = 0;
	int rc;

	if (p->whole_context)
		o.max_tokens = m->context - o.n_tokens;
	o.sampling.choice = c->index % p->n;
	eos = p->ignore_eos ? NULL : tok_stops(m->tok, &n);
	n = n > 64 ? 64 : n;
	if (n)
		memcpy(stops, eos, n * sizeof(*stops));
	memcpy(stops + n, p->stop_ids, p->n_stop_ids * sizeof(*stops));
	o.stop = stops;
	o.n_stop = (uint32_t)n + p->n_stop_ids;
	if (p->echo && begin_echo(c))
		return -ENOMEM;
	rc = kvslab_sched_add(g->app->stepper.sched, &o, &c->request);
	if (rc)
		return rc;
	g->n_running++;
	g->app->active++;
	return 0;
}

static bool queue_full(struct exchange *x, const struct gen_params *p)
{
	struct app *a = x->app;
	uint64_t n = (uint64_t)p->n_prompts * p->n, most = (uint64_t)a->engine.max_batch + a->opts.max_queue;
	struct api_error e;

	if (a->active + n <= most)
		return false;
	if (n > most) {
		api_fail(&e, 400, "n", "the request has %llu choices; this server runs or queues %llu at most",
			 (unsigned long long)n, (unsigned long long)most);
	} else {
		a->metrics.refused_full++;
		api_fail(&e, 429, NULL, "the queue is full: %u choices are running or waiting, and there is room for %llu; try "
			 "again later", a->active, (unsigned long long)most);
	}
	exchange_fail(x, &e);
	return true;
}

static struct gen *gen_new(struct exchange *x, struct gen_params *p)
{
	struct gen *g = calloc(1, sizeof(*g));
	struct app *a = x->app;
	uint32_t i;

	if (!g)
		return NULL;
	g->n_choices = (uint32_t)p->n_prompts * p->n;
	g->choices = calloc(g->n_choices, sizeof(*g->choices));
	if (!g->choices) {
		free(g);
		return NULL;
	}
	g->app = a;
	g->x = x;
	g->p = *p;
	memset(p, 0, sizeof(*p));
	g->created = (uint64_t)time(NULL);
	g->ping.fired = ping;
	for (i = 0; i < g->n_choices; i++) {
		g->choices[i].gen = g;
		g->choices[i].index = i;
		g->choices[i].prompt = i / g->p.n;
		tok_stream_init(&g->choices[i].stream, a->engine.model.tok);
		/* an answer goes on from its prompt, so its first piece keeps its space */
		g->choices[i].stream.started = true;
		tok_stream_init(&g->choices[i].echo, a->engine.model.tok);
	}
	g->next = a->gens;
	if (g->next)
		g->next->prev = &g->next;
	g->prev = &a->gens;
	a->gens = g;
	return g;
}

void gen_start(struct exchange *x, struct gen_params *p)
{
	struct app *a = x->app;
	struct api_error e;
	struct gen *g;
	uint32_t i;
	int rc = 0;

	if (queue_full(x, p)) {
		gen_params_free(p);
		return;
	}
	g = gen_new(x, p);
	if (!g) {
		gen_params_free(p);
		api_fail(&e, 503, NULL, "no memory; try again");
		exchange_fail(x, &e);
		return;
	}
	x->gen = g;
	x->prompt_tokens = g->p.prompt_tokens;
	snprintf(x->user, sizeof(x->user), "%s", g->p.user);
	a->metrics.prompt_total += g->p.prompt_tokens;
	histogram_add(&a->metrics.prompt_tokens, (double)g->p.prompt_tokens);
	g->busy++;
	for (i = 0; i < g->n_choices && !rc; i++)
		rc = add_choice(g, &g->choices[i]);
	g->busy--;
	if (rc) {
		api_fail(&e, rc == -ENOMEM || rc == -ESHUTDOWN ? 503 : rc == -EFBIG || rc == -EMSGSIZE ? 400 : 500, NULL, "%s",
			 kvslab_strerror(rc));
		fail(g, &e);
		gen_pump(g);
		return;
	}
	if (g->p.stream) {
		g->streaming = true;
		exchange_stream(x);
		arm_ping(g);
	}
	stepper_kick(&a->stepper);
}
