// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* From a request's path to whoever answers it. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generate.h"
#include "page.h"

enum route_kind {
	ROUTE_PAGE,
	ROUTE_HEALTH,
	ROUTE_VERSION,
	ROUTE_METRICS,
	ROUTE_POOL,
	ROUTE_MODELS,
	ROUTE_MODEL, /* what follows the path is a model's name */
	ROUTE_COMPLETIONS,
	ROUTE_CHAT,
	ROUTE_TOKENIZE,
	ROUTE_DETOKENIZE,
};

struct route {
	const char *path;
	enum route_kind kind;
	bool post;
	bool guarded; /* needs a key, where there are keys */
	bool always; /* also without a model */
};

static const struct route routes[] = {
	{ "/", ROUTE_PAGE, false, false, true },
	{ "/health", ROUTE_HEALTH, false, false, true },
	{ "/version", ROUTE_VERSION, false, false, true },
	{ "/metrics", ROUTE_METRICS, false, false, true },
	{ "/pool", ROUTE_POOL, false, true, false },
	{ "/v1/models", ROUTE_MODELS, false, true, false },
	{ "/v1/models/", ROUTE_MODEL, false, true, false },
	{ "/v1/completions", ROUTE_COMPLETIONS, true, true, false },
	{ "/v1/chat/completions", ROUTE_CHAT, true, true, false },
	{ "/tokenize", ROUTE_TOKENIZE, true, true, false },
	{ "/detokenize", ROUTE_DETOKENIZE, true, true, false },
};

static const struct route *find(const struct http_text *path)
{
	size_t i, n;

	for (i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
		n = strlen(routes[i].path);
		if (routes[i].kind == ROUTE_MODEL ? path->n > n : path->n == n)
			if (!memcmp(path->s, routes[i].path, n))
				return &routes[i];
	}
	return NULL;
}

/* ---- a request's name ---- */

static bool good_id(const struct http_text *t)
{
	size_t i;

	if (!t || !t->n || t->n > 64)
		return false;
	for (i = 0; i < t->n; i++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", t->s[i]))
			return false;
	return true;
}

static struct exchange *exchange_new(struct app *a, struct http_conn *c, const struct http_head *h)
{
	static const char *const methods[] = { "GET", "HEAD", "POST", "other" };
	const struct http_text *id = h ? http_field(h, "x-request-id") : NULL;
	struct exchange *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->app = a;
	x->c = c;
	x->start = loop_now(a->loop);
	if (good_id(id))
		snprintf(x->id, sizeof(x->id), "%.*s", (int)id->n, id->s);
	else
		snprintf(x->id, sizeof(x->id), "%08x%08llx", a->boot, (unsigned long long)a->next_id++);
	snprintf(x->method, sizeof(x->method), "%s", h ? methods[h->kind] : "-");
	snprintf(x->path, sizeof(x->path), "%.*s", h ? (int)h->path.n : 1, h ? h->path.s : "-");
	return x;
}

/* ---- keys ---- */

static bool is_key(const struct http_text *given, const char *key)
{
	unsigned char a[crypto_generichash_BYTES], b[crypto_generichash_BYTES];

	/* Of equal length, and compared in a time that does not depend on where they differ. */
	crypto_generichash(a, sizeof(a), (const unsigned char *)given->s, given->n, NULL, 0);
	crypto_generichash(b, sizeof(b), (const unsigned char *)key, strlen(key), NULL, 0);
	return !sodium_memcmp(a, b, sizeof(a));
}

static bool let_in(const struct app *a, const struct http_head *h)
{
	static const char scheme[] = "bearer ";
	const struct http_text *field = http_field(h, "authorization");
	struct http_text prefix, key;
	bool yes = false;
	size_t i;

	if (!a->opts.n_keys)
		return true;
	if (!field || field->n < sizeof(scheme))
		return false;
	prefix = (struct http_text){ field->s, sizeof(scheme) - 1 };
	key = (struct http_text){ field->s + sizeof(scheme) - 1, field->n - (sizeof(scheme) - 1) };
	if (!http_text_is(&prefix, scheme))
		return false;
	for (i = 0; i < a->opts.n_keys; i++)
		yes |= is_key(&key, a->opts.keys[i]);
	return yes;
}

/* ---- small answers ---- */

static void no_memory(struct http_conn *c)
{
	static const char text[] = "{\"error\":{\"message\":\"no memory; try again\",\"type\":\"server_error\",\"param\":null,"
				   "\"code\":null}}\n";

	http_answer(c, 503, "application/json", "Retry-After: 1\r\n", text, sizeof(text) - 1);
}

static void model_json(struct buf *b, const struct app *a)
{
	const struct api_model *m = &a->engine.model;

	buf_text(b, "{\"id\":");
	buf_json(b, m->name, strlen(m->name));
	buf_print(b, ",\"object\":\"model\",\"created\":%llu,\"owned_by\":\"kvslab\",\"root\":",
		  (unsigned long long)a->started);
	buf_json(b, m->name, strlen(m->name));
	buf_print(b, ",\"parent\":null,\"max_model_len\":%u}", m->context);
}

static int hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Whether the path's last part, decoded, is the model's name. */
static bool names_model(const struct http_text *path, size_t prefix, const char *name)
{
	size_t i, k = 0;
	char c;

	for (i = prefix; i < path->n; i++, k++) {
		c = path->s[i];
		if (c == '%' && i + 2 < path->n && hex(path->s[i + 1]) >= 0 && hex(path->s[i + 2]) >= 0) {
			c = (char)(hex(path->s[i + 1]) << 4 | hex(path->s[i + 2]));
			i += 2;
		}
		if (!name[k] || name[k] != c)
			return false;
	}
	return !name[k];
}

static void health(struct exchange *x)
{
	static const char *const states[] = { "loading", "ok", "stopping", "stopping" };
	struct app *a = x->app;
	struct buf b = { .n = 0 };

	buf_print(&b, "{\"status\":\"%s\"}\n", states[a->state]);
	exchange_answer(x, a->state == APP_READY ? 200 : 503, "application/json", NULL, &b);
}

static void metrics(struct exchange *x)
{
	struct app *a = x->app;
	struct metrics_now now = { .model = a->opts.model };
	struct buf b = { .n = 0 };

	now.connections = a->http.n_conns;
	now.accepted = a->http.accepted;
	now.turned_away = a->http.turned_away;
	if (a->has_engine) {
		now.ready = !kvslab_stat(a->engine.pool, &now.pool);
		kvslab_sched_stat(a->stepper.sched, &now.sched);
		now.max_batch = a->engine.max_batch;
		now.page_size = kvslab_kv_geometry(a->engine.sched.kv)->page_size;
		now.executor_seconds = a->stepper.times.executor;
		now.between_seconds = a->stepper.times.between;
	}
	metrics_text(&b, &a->metrics, &now);
	exchange_answer(x, 200, "text/plain; version=0.0.4; charset=utf-8", NULL, &b);
}

/* What the page at / shows. */
static void pool(struct exchange *x)
{
	struct buf b = { .n = 0 };

	overview_json(&b, x->app);
	exchange_answer(x, 200, "application/json", "Cache-Control: no-store\r\n", &b);
}

/* ---- requests with a body ---- */

struct api_job {
	struct prep_job job; /* first */
	struct exchange *x; /* NULL: the client has gone */
	struct app *app;
	enum route_kind kind;
	uint64_t random;
	struct buf body, out;
	struct gen_params params;
	struct api_error error;
	int rc;
};

static void job_run(struct prep_job *job)
{
	struct api_job *j = (struct api_job *)job;
	const struct api_model *m = &j->app->engine.model;

	if (j->kind == ROUTE_TOKENIZE)
		j->rc = api_tokenize(&j->out, m, j->body.b, j->body.n, &j->error);
	else if (j->kind == ROUTE_DETOKENIZE)
		j->rc = api_detokenize(&j->out, m, j->body.b, j->body.n, &j->error);
	else
		j->rc = gen_params_parse(&j->params, m, j->kind == ROUTE_CHAT, j->body.b, j->body.n, j->random, &j->error);
}

static void job_done(struct prep_job *job)
{
	struct api_job *j = (struct api_job *)job;
	struct exchange *x = j->x;
	struct app *a = j->app;

	a->jobs--;
	if (x) {
		x->job = NULL;
		if (!j->rc && a->state >= APP_CLOSING)
			j->rc = api_fail(&j->error, 503, NULL, "the server is stopping");
		if (j->rc)
			exchange_fail(x, &j->error);
		else if (j->kind == ROUTE_TOKENIZE || j->kind == ROUTE_DETOKENIZE)
			exchange_answer(x, 200, "application/json", NULL, &j->out);
		else
			gen_start(x, &j->params);
	}
	gen_params_free(&j->params);
	buf_free(&j->body);
	buf_free(&j->out);
	free(j);
	app_progress(a);
}

static void request(struct http_conn *c, struct buf *body)
{
	struct exchange *x = http_exchange(c);
	struct api_job *j = calloc(1, sizeof(*j));
	struct api_error e;

	if (!j) {
		api_fail(&e, 503, NULL, "no memory; try again");
		exchange_fail(x, &e);
		return;
	}
	j->job.run = job_run;
	j->job.done = job_done;
	j->x = x;
	j->app = x->app;
	j->kind = x->route->kind;
	j->random = app_random();
	j->body = *body;
	memset(body, 0, sizeof(*body));
	x->job = j;
	x->app->jobs++;
	prep_add(&x->app->prep, &j->job);
}

/* ---- routing ---- */

static int check(struct app *a, const struct route *r, const struct http_head *h, struct api_error *e)
{
	if (!r)
		return api_fail(e, 404, NULL, "there is no %.*s here; see /v1/models, /v1/completions, /v1/chat/completions, "
				"/tokenize, /detokenize, /health, /metrics, /version", (int)(h->path.n < 200 ? h->path.n : 200),
				h->path.s);
	if (r->post ? h->kind != HTTP_KIND_POST : h->kind != HTTP_KIND_GET && h->kind != HTTP_KIND_HEAD) {
		api_fail(e, 405, NULL, "%s takes %s", r->path, r->post ? "POST" : "GET");
		e->allow = r->post ? "POST" : "GET, HEAD";
		return -1;
	}
	if (r->guarded && !let_in(a, h)) {
		api_fail(e, 401, NULL, "a valid key is needed; give it as \"Authorization: Bearer KEY\"");
		snprintf(e->code, sizeof(e->code), "invalid_api_key");
		return -1;
	}
	if (r->always)
		return 0;
	if (!a->has_engine)
		return api_fail(e, 503, NULL, "the model is being loaded; try again");
	if (a->state != APP_READY && r->post)
		return api_fail(e, 503, NULL, "the server is stopping");
	return 0;
}

static bool head(struct http_conn *c, const struct http_head *h, void **exchange)
{
	struct app *a = http_conn_server(c)->data;
	const struct route *r = find(&h->path);
	struct exchange *x = exchange_new(a, c, h);
	struct buf b = { .n = 0 };
	struct api_error e;

	if (!x) {
		no_memory(c);
		return false;
	}
	if (check(a, r, h, &e)) {
		exchange_fail(x, &e);
		return false;
	}
	x->route = r;
	switch (r->kind) {
	case ROUTE_PAGE:
		buf_add(&b, page_html, page_html_size);
		exchange_answer(x, 200, "text/html; charset=utf-8", a->page_fields, &b);
		return false;
	case ROUTE_HEALTH:
		health(x);
		return false;
	case ROUTE_VERSION:
		buf_print(&b, "{\"version\":\"%s\"}\n", kvslab_version());
		break;
	case ROUTE_METRICS:
		metrics(x);
		return false;
	case ROUTE_POOL:
		pool(x);
		return false;
	case ROUTE_MODELS:
		buf_text(&b, "{\"object\":\"list\",\"data\":[");
		model_json(&b, a);
		buf_text(&b, "]}\n");
		break;
	case ROUTE_MODEL:
		if (!names_model(&h->path, strlen(r->path), a->engine.model.name)) {
			api_fail(&e, 404, "model", "this model does not exist; this server has \"%.200s\"", a->engine.model.name);
			snprintf(e.code, sizeof(e.code), "model_not_found");
			exchange_fail(x, &e);
			return false;
		}
		model_json(&b, a);
		buf_text(&b, "\n");
		break;
	default:
		*exchange = x;
		return true;
	}
	exchange_answer(x, 200, "application/json", NULL, &b);
	return false;
}

static void refuse(struct http_conn *c, int status, const char *why)
{
	struct exchange *x = http_exchange(c);
	struct api_error e;

	if (!x)
		x = exchange_new(http_conn_server(c)->data, c, NULL);
	if (!x) {
		no_memory(c);
		return;
	}
	api_fail(&e, status, NULL, "%s", why);
	exchange_fail(x, &e);
}

static void room(struct http_conn *c)
{
	struct exchange *x = http_exchange(c);

	if (x && x->gen)
		gen_pump(x->gen);
}

static void gone(struct http_conn *c)
{
	struct exchange *x = http_exchange(c);
	struct app *a = x->app;

	if (x->job)
		x->job->x = NULL;
	if (x->gen)
		gen_gone(x->gen);
	exchange_gone(x);
	gen_pump_dirty(a);
}

const struct http_ops app_http_ops = { head, request, refuse, room, gone };
