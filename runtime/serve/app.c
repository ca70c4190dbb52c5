// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include <errno.h>
#include <sodium.h>
#include <string.h>
#include <time.h>

#include "generate.h"

#define CLOSING_MS 3000 /* for connections to take their last bytes */

uint64_t app_random(void)
{
	uint64_t v;

	randombytes_buf(&v, sizeof(v));
	return v;
}

/* Seconds after which a place may be free: as long as an answer takes on the average. */
unsigned int app_retry_after(const struct app *a)
{
	const struct histogram *h = &a->metrics.e2e;
	uint64_t n = 0;
	double s;
	uint32_t i;

	for (i = 0; i <= h->n; i++)
		n += h->counts[i];
	s = n ? h->sum / (double)n : 1;
	return s < 1 ? 1 : s > 60 ? 60 : (unsigned int)s;
}

static void after_step(struct stepper *st)
{
	struct app *a = st->data;

	if (st->stepped)
		histogram_add(&a->metrics.step, st->times.last);
	gen_pump_dirty(a);
}

int app_open(struct app *a, struct kvslab_loop *loop, struct app_log *log, const struct app_opts *opts)
{
	int rc;

	if (sodium_init() < 0)
		return -ENOTSUP;
	memset(a, 0, sizeof(*a));
	a->loop = loop;
	a->log = log;
	a->opts = *opts;
	a->started = (uint64_t)time(NULL);
	a->boot = (uint32_t)app_random();
	metrics_init(&a->metrics);
	page_fields(a->page_fields);
	rc = prep_open(&a->prep, loop);
	if (rc)
		return rc;
	http_server_init(&a->http, loop, &app_http_ops, &opts->limits);
	a->http.data = a;
	return 0;
}

int app_listen(struct app *a, int fd)
{
	return http_server_listen(&a->http, fd);
}

int app_ready(struct app *a, const struct app_engine *engine)
{
	int rc;

	a->stepper.after = after_step;
	a->stepper.data = a;
	rc = stepper_open(&a->stepper, a->loop, &engine->sched);
	if (rc)
		return rc;
	a->engine = *engine;
	a->has_engine = true;
	if (a->state == APP_LOADING)
		a->state = APP_READY;
	return 0;
}

static void give_up_connections(struct loop_timer *t)
{
	struct app *a = (struct app *)((char *)t - offsetof(struct app, closing));

	http_server_abort(&a->http);
}

void app_progress(struct app *a)
{
	if (a->state != APP_STOPPING || a->gens || a->jobs)
		return;
	a->state = APP_CLOSING;
	a->closing.fired = give_up_connections;
	loop_timer_set(a->loop, &a->closing, loop_now(a->loop) + CLOSING_MS * (uint64_t)1000000);
	http_server_stop(&a->http);
}

void app_stop(struct app *a)
{
	if (a->state >= APP_STOPPING)
		return;
	a->state = APP_STOPPING;
	app_progress(a);
}

void app_abort(struct app *a)
{
	struct gen *g, *next;
	struct api_error e;

	app_stop(a);
	api_fail(&e, 503, NULL, "the server is stopping");
	for (g = a->gens; g; g = next) {
		next = g->next;
		gen_abort(g, &e);
	}
	gen_pump_dirty(a);
}

bool app_done(const struct app *a)
{
	return a->state == APP_CLOSING && http_server_closed(&a->http) && !a->gens && !a->jobs;
}

void app_close(struct app *a)
{
	loop_timer_stop(&a->closing);
	prep_close(&a->prep);
	if (a->has_engine)
		stepper_close(&a->stepper);
	a->has_engine = false;
}
