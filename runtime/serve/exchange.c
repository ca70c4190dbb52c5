// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* The end of an exchange, in all its forms, with its line in the log. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"

static void log_exchange(struct exchange *x, const char *what)
{
	struct app_log *log = x->app->log;
	double ms = (double)(loop_now(x->app->loop) - x->start) / 1e6;
	/* An open page asks for it all the time. */
	bool often = x->status == 200 && !strcmp(x->path, "/pool");

	if (!log_begin(log, x->status >= 500 ? KVSLAB_LOG_WARNING : often ? KVSLAB_LOG_DEBUG : KVSLAB_LOG_INFO, what))
		return;
	log_text(log, "id", x->id);
	log_text(log, "peer", http_peer(x->c));
	log_text(log, "method", x->method);
	log_text(log, "path", x->path);
	if (x->status)
		log_value(log, "status", "%d", x->status);
	log_value(log, "ms", "%.3f", ms);
	if (x->prompt_tokens) {
		log_value(log, "prompt_tokens", "%zu", x->prompt_tokens);
		log_value(log, "cached_tokens", "%zu", x->cached_tokens);
		log_value(log, "completion_tokens", "%zu", x->completion_tokens);
	}
	if (x->finish)
		log_text(log, "finish", x->finish);
	if (x->user[0])
		log_text(log, "user", x->user);
	log_end(log);
}

static void over(struct exchange *x, const char *what)
{
	log_exchange(x, what);
	free(x);
}

static void count(struct exchange *x, int status)
{
	x->status = status;
	x->app->metrics.http[status / 100 % 6]++;
}

void exchange_answer(struct exchange *x, int status, const char *type, const char *fields, struct buf *body)
{
	struct http_conn *c = x->c;
	char all[1024];

	count(x, status);
	snprintf(all, sizeof(all), "X-Request-Id: %s\r\n%s", x->id, fields ? fields : "");
	over(x, "request");
	if (body && body->failed)
		http_drop(c); /* no memory for the answer */
	http_answer(c, status, type, all, body ? body->b : "", body ? body->n : 0);
	if (body)
		buf_free(body);
}

void exchange_fail(struct exchange *x, const struct api_error *e)
{
	struct buf b = { .n = 0 };
	char fields[128] = "";
	int n = 0;

	if (e->status == 429 || e->status == 503)
		n = snprintf(fields, sizeof(fields), "Retry-After: %u\r\n", app_retry_after(x->app));
	if (e->status == 401)
		snprintf(fields + n, sizeof(fields) - (size_t)n, "WWW-Authenticate: Bearer\r\n");
	if (e->status == 405)
		snprintf(fields + n, sizeof(fields) - (size_t)n, "Allow: %s\r\n", e->allow ? e->allow : "");
	api_error_json(&b, e);
	buf_text(&b, "\n");
	exchange_answer(x, e->status, "application/json", fields, &b);
}

void exchange_stream(struct exchange *x)
{
	char fields[160];

	count(x, 200);
	snprintf(fields, sizeof(fields), "X-Request-Id: %s\r\nCache-Control: no-store\r\nX-Accel-Buffering: no\r\n", x->id);
	http_stream(x->c, 200, "text/event-stream; charset=utf-8", fields);
}

void exchange_stream_end(struct exchange *x)
{
	struct http_conn *c = x->c;

	over(x, "request");
	http_stream_end(c);
}

void exchange_gone(struct exchange *x)
{
	over(x, "client gone");
}
