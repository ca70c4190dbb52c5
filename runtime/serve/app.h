/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * The server: HTTP, the API, and a scheduler that the loop steps. All of it in the loop's thread, but for the threads of
 * prep.h and stepper.h.
 *
 * Life: app_open() and app_listen() serve 503 while the model is loaded elsewhere; app_ready() with what was loaded;
 * app_stop() takes no new requests and lets the others end; app_done() tells when all is over; app_close().
 */
#ifndef SERVE_APP_H
#define SERVE_APP_H

#include "http.h"
#include "log.h"
#include "metrics.h"
#include "overview.h"
#include "page.h"
#include "params.h"
#include "prep.h"
#include "stepper.h"

struct gen;

struct app_opts {
	const char *const *keys; /* [n_keys]: any of them lets a client in; none: everyone */
	size_t n_keys;
	uint32_t max_queue; /* choices that may wait beside those that run */
	struct http_limits limits;
	unsigned int ping_ms; /* a stream that has nothing to say for so long says that it lives; 0: 15 s */
	const char *model; /* its name, known before it is loaded */
};

/* What app_ready() is given; all of it outlives the app. */
struct app_engine {
	struct kvslab_sched_opts sched;
	struct kvslab_pool *pool;
	struct api_model model;
	uint32_t max_batch;
};

enum app_state {
	APP_LOADING,
	APP_READY,
	APP_STOPPING, /* requests that came before are still answered */
	APP_CLOSING, /* connections end */
};

struct app {
	struct kvslab_loop *loop;
	struct app_opts opts;
	struct app_log *log;
	enum app_state state;
	bool has_engine;
	struct app_engine engine;
	struct http_server http;
	struct prep prep;
	struct stepper stepper;
	struct metrics metrics;
	char page_fields[PAGE_FIELDS]; /* the page's header lines */
	struct map map; /* of the pool, for the page */
	struct gen *gens; /* all that are not over */
	struct gen *dirty; /* something happened to them in this step */
	uint32_t active; /* choices that the scheduler has */
	uint32_t jobs; /* with prep */
	uint64_t started; /* s since 1970 */
	uint64_t next_id;
	uint32_t boot; /* random: part of ids */
	struct loop_timer closing; /* connections that do not end by themselves */
};

int app_open(struct app *a, struct kvslab_loop *loop, struct app_log *log, const struct app_opts *opts);
int app_listen(struct app *a, int fd);
int app_ready(struct app *a, const struct app_engine *engine);
void app_stop(struct app *a);
/* No more patience: what runs is cancelled and told so. */
void app_abort(struct app *a);
bool app_done(const struct app *a);
void app_close(struct app *a);

/* ---- between the server's own files ---- */

struct route;

struct exchange {
	struct app *app;
	struct http_conn *c;
	const struct route *route;
	struct gen *gen;
	struct api_job *job;
	uint64_t start; /* ns */
	int status; /* of the answer; 0: none has begun */
	char id[72];
	char method[8], path[120]; /* for the log; cut */
	/* for the log, of requests that generate */
	size_t prompt_tokens, cached_tokens, completion_tokens;
	const char *finish;
	char user[65];
};

/* Each of these ends the exchange: @x is gone. @body is emptied. */
void exchange_answer(struct exchange *x, int status, const char *type, const char *fields, struct buf *body);
void exchange_fail(struct exchange *x, const struct api_error *e);
void exchange_stream_end(struct exchange *x);
/* Begins a stream of events. */
void exchange_stream(struct exchange *x);
/* The client went away. */
void exchange_gone(struct exchange *x);

extern const struct http_ops app_http_ops;

/* Called when something ended: a stopping server may be at its end. */
void app_progress(struct app *a);
uint64_t app_random(void);
unsigned int app_retry_after(const struct app *a);

#endif
