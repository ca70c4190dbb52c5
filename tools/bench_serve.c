// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* kvslab bench serve: clients of any OpenAI-compatible server, each a thread, and how long it let them wait. */
#include <argp.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "args.h"
#include "bench.h"
#include "msg.h"
#include "serve_client.h"

#define DEF_URL "http://127.0.0.1:8080"
#define DEF_CLIENTS 16
#define DEF_REQUESTS 64
#define DEF_PROMPT_TOKENS 128
#define DEF_TOKENS 64
#define DEF_SHARED 0
#define PROBE_WORDS 200
#define STACK_BYTES (256 << 10)
#define REASONS 8

enum {
	KEY_URL = 0x100,
	KEY_KEY,
	KEY_CLIENTS,
	KEY_REQUESTS,
	KEY_PROMPT,
	KEY_TOKENS,
	KEY_SHARED,
	KEY_JSON,
};

struct series {
	double *v; /* owned */
	size_t n, cap;
};

struct reason {
	char text[160];
	uint32_t n;
};

struct bench_serve {
	const char *url, *key;
	uint32_t clients, requests, prompt_tokens, tokens, shared;
	bool json;
	struct client_target target;
	char *model; /* owned */
	double words_a_token;
	uint64_t seed;
	/* Under the lock. */
	pthread_mutex_t lock;
	uint32_t next, good, bad;
	uint64_t prompt_sum, cached_sum, completion_sum;
	struct series first, between, whole; /* seconds */
	struct reason reasons[REASONS];
};

static const struct argp_option options[] = {
	{ "url", KEY_URL, "URL", 0, "The server (default: " DEF_URL ")", 0 },
	{ "api-key", KEY_KEY, "KEY", 0, "What it lets in (default: none)", 0 },
	{ "clients", KEY_CLIENTS, "N", 0, "Clients at once (default: " STR(DEF_CLIENTS) ")", 0 },
	{ "requests", KEY_REQUESTS, "N", 0, "Requests of all clients together (default: " STR(DEF_REQUESTS) ")", 0 },
	{ "prompt-tokens", KEY_PROMPT, "N", 0, "Tokens of a prompt, about (default: " STR(DEF_PROMPT_TOKENS) ")", 0 },
	{ "tokens", KEY_TOKENS, "N", 0, "Tokens of an answer (default: " STR(DEF_TOKENS) ")", 0 },
	{ "shared-prefix", KEY_SHARED, "N", 0,
	  "Tokens with which all prompts begin alike, about (default: " STR(DEF_SHARED) ")", 0 },
	{ "json", KEY_JSON, 0, 0, "Print JSON objects, one a line (default: text)", 0 },
	{ 0 }
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct bench_serve *b = state->input;

	switch (key) {
	case KEY_URL:
		b->url = arg;
		return 0;
	case KEY_KEY:
		b->key = arg;
		return 0;
	case KEY_CLIENTS:
		b->clients = (uint32_t)arg_u64("--clients", arg, 1, 100000);
		return 0;
	case KEY_REQUESTS:
		b->requests = (uint32_t)arg_u64("--requests", arg, 1, 100000000);
		return 0;
	case KEY_PROMPT:
		b->prompt_tokens = (uint32_t)arg_u64("--prompt-tokens", arg, 1, 1000000);
		return 0;
	case KEY_TOKENS:
		b->tokens = (uint32_t)arg_u64("--tokens", arg, 1, 1000000);
		return 0;
	case KEY_SHARED:
		b->shared = (uint32_t)arg_u64("--shared-prefix", arg, 0, 1000000);
		return 0;
	case KEY_JSON:
		b->json = true;
		return 0;
	case ARGP_KEY_ARG:
		die("\"%s\" belongs to no option; `kvslab bench serve --help' lists them", arg);
	case ARGP_KEY_SUCCESS:
		if (b->shared > b->prompt_tokens)
			die("--shared-prefix %u is longer than --prompt-tokens %u", b->shared, b->prompt_tokens);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = { options, parse, NULL,
				  "Drive an OpenAI-compatible server with many clients at once, and measure it.", NULL, NULL,
				  NULL };

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- prompts ---- */

static uint64_t draw(uint64_t *s)
{
	uint64_t z = (*s += 0x9e3779b97f4a7c15u);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* Appends @n words that nearly every tokenizer knows whole. */
static char *add_words(char *at, uint32_t n, uint64_t seed)
{
	static const char *const words[] = { "the", "of",   "and",  "to",   "in",   "is",   "that", "was",
					     "for", "on",   "are",  "with", "as",   "his",  "they", "be",
					     "at",  "one",  "have", "this", "from", "or",   "had",  "by",
					     "not", "word", "but",  "what", "some", "we",   "can",  "out" };

	for (; n; n--)
		at += sprintf(at, " %s", words[draw(&seed) % (sizeof(words) / sizeof(words[0]))]);
	return at;
}

/* A request's body; to be freed. */
static char *make_body(const struct bench_serve *b, uint32_t shared_words, uint32_t words, uint64_t seed, uint32_t tokens,
		       bool stream)
{
	char *prompt = malloc((size_t)(shared_words + words) * 6 + 1), *at = prompt, *s;
	json_t *o;

	if (!prompt)
		return NULL;
	*at = 0;
	at = add_words(at, shared_words, b->seed);
	add_words(at, words, seed);
	/* ignore_eos: so that answers are of equal length; min_tokens too, for servers that know only that */
	o = json_pack("{s:s, s:s, s:i, s:i, s:f, s:b, s:b}", "model", b->model, "prompt", prompt, "max_tokens", (int)tokens,
		      "min_tokens", (int)tokens, "temperature", 0.0, "ignore_eos", 1, "stream", (int)stream);
	if (o && stream)
		json_object_set_new(o, "stream_options", json_pack("{s:b}", "include_usage", 1));
	s = o ? json_dumps(o, JSON_COMPACT) : NULL;
	json_decref(o);
	free(prompt);
	return s;
}

/* ---- figures ---- */

static void add(struct series *s, double v)
{
	size_t cap = s->cap ? 2 * s->cap : 1024;
	double *p;

	if (s->n == s->cap) {
		p = realloc(s->v, cap * sizeof(*p));
		if (!p)
			die("no memory for the figures; give fewer --requests");
		s->v = p;
		s->cap = cap;
	}
	s->v[s->n++] = v;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double quantile(const struct series *s, double q)
{
	return s->n ? s->v[(size_t)ceil(q * (double)s->n) - 1] : 0;
}

static double mean(const struct series *s)
{
	double sum = 0;
	size_t i;

	for (i = 0; i < s->n; i++)
		sum += s->v[i];
	return s->n ? sum / (double)s->n : 0;
}

static void count_reason(struct bench_serve *b, const char *text)
{
	int i;

	b->bad++;
	for (i = 0; i < REASONS - 1 && b->reasons[i].n && strcmp(b->reasons[i].text, text); i++)
		;
	if (i == REASONS - 1)
		text = "other reasons";
	snprintf(b->reasons[i].text, sizeof(b->reasons[i].text), "%.150s", text);
	b->reasons[i].n++;
}

/* ---- a request ---- */

struct result {
	double start, first, last;
	struct series between;
	json_int_t prompt, cached, completion;
	json_int_t pieces; /* of text: what counts as tokens where the server does not tell how many there were */
	char why[160]; /* empty: it went well */
};

static void read_usage(struct result *r, const json_t *usage)
{
	r->prompt = json_integer_value(json_object_get(usage, "prompt_tokens"));
	r->completion = json_integer_value(json_object_get(usage, "completion_tokens"));
	r->cached = json_integer_value(json_object_get(json_object_get(usage, "prompt_tokens_details"), "cached_tokens"));
}

static void read_error(struct result *r, int status, const json_t *o)
{
	const char *text = json_string_value(json_object_get(json_object_get(o, "error"), "message"));

	/* numbers differ from one to the next: the reason is what comes before them */
	snprintf(r->why, sizeof(r->why), "%d: %.*s", status, (int)(text ? strcspn(text, "0123456789") : 0), text ? text : "");
}

/* True: the stream is over. */
static bool read_event(struct result *r, const char *data)
{
	const json_t *text;
	double t = now();
	json_t *o;

	if (!strcmp(data, "[DONE]"))
		return true;
	o = json_loads(data, 0, NULL);
	if (json_object_get(o, "error"))
		read_error(r, 200, o);
	text = json_object_get(json_array_get(json_object_get(o, "choices"), 0), "text");
	if (json_string_length(text)) {
		if (r->first > 0)
			add(&r->between, t - r->last);
		else
			r->first = t;
		r->last = t;
		r->pieces++;
	}
	if (json_is_object(json_object_get(o, "usage")))
		read_usage(r, json_object_get(o, "usage"));
	json_decref(o);
	return false;
}

static void ask(struct client *c, struct result *r, const char *body)
{
	const char *line;
	bool over = false;
	int status;
	json_t *o;
	char *s;

	r->start = now();
	status = client_ask(c, "/v1/completions", body, strlen(body));
	if (status < 0) {
		snprintf(r->why, sizeof(r->why), "%s", c->why);
		return;
	}
	if (status != 200) {
		s = client_rest(c);
		o = s ? json_loads(s, 0, NULL) : NULL;
		read_error(r, status, o);
		json_decref(o);
		free(s);
		return;
	}
	while (!over && (line = client_line(c)))
		if (!strncmp(line, "data:", 5))
			over = read_event(r, line + 5 + (line[5] == ' '));
	while (over && client_line(c))
		;
	if (!over && !r->why[0])
		snprintf(r->why, sizeof(r->why), "%s", c->why[0] ? c->why : "the stream ended without [DONE]");
	if (r->first <= 0)
		r->first = r->last = now();
}

static void note(struct bench_serve *b, struct result *r)
{
	size_t i;

	pthread_mutex_lock(&b->lock);
	if (r->why[0]) {
		count_reason(b, r->why);
	} else {
		b->good++;
		b->prompt_sum += (uint64_t)r->prompt;
		b->cached_sum += (uint64_t)r->cached;
		b->completion_sum += (uint64_t)(r->completion ? r->completion : r->pieces);
		add(&b->first, r->first - r->start);
		add(&b->whole, r->last - r->start);
		for (i = 0; i < r->between.n; i++)
			add(&b->between, r->between.v[i]);
	}
	pthread_mutex_unlock(&b->lock);
	free(r->between.v);
}

static void *client(void *arg)
{
	struct bench_serve *b = arg;
	uint32_t shared = (uint32_t)(b->shared * b->words_a_token);
	uint32_t words = (uint32_t)(b->prompt_tokens * b->words_a_token) - shared;
	struct client c;
	uint32_t i;
	char *body;

	client_init(&c, &b->target);
	for (;;) {
		struct result r = { .start = 0 };

		pthread_mutex_lock(&b->lock);
		i = b->next++;
		pthread_mutex_unlock(&b->lock);
		if (i >= b->requests)
			break;
		body = make_body(b, shared, words ? words : 1, b->seed + 1 + i, b->tokens, true);
		if (!body)
			die("no memory for a request; give shorter prompts");
		ask(&c, &r, body);
		free(body);
		note(b, &r);
	}
	client_free(&c);
	return NULL;
}

/* ---- the whole ---- */

/* The server's first model, and how many words make a token there. */
static int probe(struct bench_serve *b)
{
	const char *name;
	char *body = NULL, *text = NULL;
	json_t *o = NULL;
	struct client c;
	int status, rc = -1;
	json_int_t tokens;

	client_init(&c, &b->target);
	status = client_ask(&c, "/v1/models", NULL, 0);
	text = status == 200 ? client_rest(&c) : NULL;
	o = text ? json_loads(text, 0, NULL) : NULL;
	name = json_string_value(json_object_get(json_array_get(json_object_get(o, "data"), 0), "id"));
	if (!name) {
		if (status < 0)
			msg("%s does not answer: %s; start a server there, or give --url", b->url, c.why);
		else
			msg("%s/v1/models answers with status %d and names no model; give the --url of an OpenAI-compatible "
			    "server%s", b->url, status, status == 401 ? ", and --api-key" : "");
		goto out;
	}
	b->model = strdup(name);
	body = b->model ? make_body(b, 0, PROBE_WORDS, b->seed, 1, false) : NULL;
	status = body ? client_ask(&c, "/v1/completions", body, strlen(body)) : -1;
	free(text);
	text = status >= 0 ? client_rest(&c) : NULL;
	json_decref(o);
	o = text ? json_loads(text, 0, NULL) : NULL;
	tokens = json_integer_value(json_object_get(json_object_get(o, "usage"), "prompt_tokens"));
	if (status != 200 || tokens <= 0) {
		name = json_string_value(json_object_get(json_object_get(o, "error"), "message"));
		msg("%s/v1/completions gives status %d and no usage for a prompt of %d words: %s", b->url, status, PROBE_WORDS,
		    name ? name : "no reason");
		goto out;
	}
	b->words_a_token = (double)PROBE_WORDS / (double)tokens;
	rc = 0;
out:
	json_decref(o);
	free(text);
	free(body);
	client_free(&c);
	return rc;
}

static void print_series(const struct bench_serve *b, const char *name, const char *what, struct series *s)
{
	double ms[4];

	qsort(s->v, s->n, sizeof(*s->v), by_value);
	ms[0] = 1e3 * mean(s);
	ms[1] = 1e3 * quantile(s, 0.5);
	ms[2] = 1e3 * quantile(s, 0.9);
	ms[3] = 1e3 * quantile(s, 0.99);
	if (b->json)
		out_json(json_pack("{s:s, s:s, s:f, s:f, s:f, s:f}", "bench", "serve", "name", name, "mean_ms", ms[0], "p50_ms",
				   ms[1], "p90_ms", ms[2], "p99_ms", ms[3]));
	else
		out_text("%-22s %8.1f ms mean, %8.1f p50, %8.1f p90, %8.1f p99\n", what, ms[0], ms[1], ms[2], ms[3]);
}

static void print_all(struct bench_serve *b, double seconds)
{
	double rate = (double)b->completion_sum / seconds, prompts = (double)b->prompt_sum / seconds;
	json_t *o;
	int i;

	if (b->json) {
		o = json_pack("{s:s, s:s, s:i, s:i, s:i, s:f, s:f, s:f, s:I, s:I, s:I}", "bench", "serve", "name", "whole",
			      "clients", (int)b->clients, "requests", (int)b->good, "failed", (int)b->bad, "seconds", seconds,
			      "tokens_per_second", rate, "prompt_tokens_per_second", prompts, "completion_tokens",
			      (json_int_t)b->completion_sum, "prompt_tokens", (json_int_t)b->prompt_sum, "cached_tokens",
			      (json_int_t)b->cached_sum);
		out_json(o);
	} else {
		out_text("%u requests of %u clients in %.1f s, %u failed\n", b->good, b->clients, seconds, b->bad);
		out_text("%-22s %8.1f tokens/s (prompts: %.1f, %.0f%% of them cached)\n", "generated", rate, prompts,
			 b->prompt_sum ? 100.0 * (double)b->cached_sum / (double)b->prompt_sum : 0.0);
	}
	print_series(b, "ttft", "time to first token", &b->first);
	print_series(b, "inter_token", "inter-token latency", &b->between);
	print_series(b, "whole_request", "whole answer", &b->whole);
	for (i = 0; i < REASONS && b->reasons[i].n; i++) {
		if (b->json)
			out_json(json_pack("{s:s, s:s, s:s, s:i}", "bench", "serve", "name", "failed", "reason",
					   b->reasons[i].text, "requests", (int)b->reasons[i].n));
		else
			out_text("%u failed: %s\n", b->reasons[i].n, b->reasons[i].text);
	}
}

static int run(struct bench_serve *b)
{
	pthread_t *threads = calloc(b->clients, sizeof(*threads));
	uint32_t n = 0, i;
	pthread_attr_t attr;
	double start;

	if (!threads) {
		msg("no memory for %u clients; give fewer", b->clients);
		return -1;
	}
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	start = now();
	while (n < b->clients && !pthread_create(&threads[n], &attr, client, b))
		n++;
	for (i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	pthread_attr_destroy(&attr);
	free(threads);
	if (n < b->clients)
		msg("only %u of %u clients could be started; the system allows no more threads", n, b->clients);
	print_all(b, now() - start);
	return b->good ? 0 : -1;
}

int cmd_bench_serve(int argc, char **argv)
{
	struct bench_serve b = {
		.url = DEF_URL,
		.clients = DEF_CLIENTS,
		.requests = DEF_REQUESTS,
		.prompt_tokens = DEF_PROMPT_TOKENS,
		.tokens = DEF_TOKENS,
		.shared = DEF_SHARED,
		.lock = PTHREAD_MUTEX_INITIALIZER,
	};
	int rc;

	argp_parse(&argp, argc, argv, 0, NULL, &b);
	b.seed = (uint64_t)time(NULL) * 1000003u;
	rc = client_target(&b.target, b.url);
	b.target.key = b.key;
	if (!rc)
		rc = probe(&b);
	if (!rc)
		rc = run(&b);
	client_target_free(&b.target);
	free(b.model);
	free(b.first.v);
	free(b.between.v);
	free(b.whole.v);
	return rc != 0;
}
