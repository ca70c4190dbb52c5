// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* kvslab export: figures of all pools of this host over HTTP, for Prometheus. Read anew for each scrape. */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
#include "export.h"
#include "msg.h"
#include "pool.h"
#include "runtime/serve/http.h"
#include "serve.h"

#define DEF_LISTEN "127.0.0.1:9400"
#define DEF_AGE 600
#define STR_(x) #x
#define STR(x) STR_(x)

enum { KEY_LISTEN = 0x100, KEY_AGE };

struct export_opts {
	char host[256];
	uint16_t port;
	uint32_t age;
};

static const struct argp_option options[] = {
	{ "listen", KEY_LISTEN, "HOST:PORT", 0, "Serve there (default: " DEF_LISTEN ")", 0 },
	{ "age", KEY_AGE, "SECONDS", 0, "Tell of pages held for longer than this (default: " STR(DEF_AGE) ")", 0 },
	{ 0 }
};

/* HOST:PORT, [HOST]:PORT or PORT. */
static void parse_listen(struct export_opts *o, const char *arg)
{
	const char *colon = strrchr(arg, ':'), *host = colon ? arg : "127.0.0.1";
	size_t n = colon ? (size_t)(colon - arg) : strlen(host);

	if (n > 1 && *host == '[' && host[n - 1] == ']') {
		host++;
		n -= 2;
	} else if (memchr(host, ':', n)) {
		die("--listen %s: put an IPv6 address in brackets, as in [::1]:9400", arg);
	}
	if (!n || n >= sizeof(o->host))
		die("--listen is \"%s\"; give HOST:PORT, as in " DEF_LISTEN, arg);
	memcpy(o->host, host, n);
	o->host[n] = 0;
	o->port = (uint16_t)arg_u64("--listen's port", colon ? colon + 1 : arg, 0, 65535);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct export_opts *o = state->input;

	switch (key) {
	case KEY_LISTEN:
		parse_listen(o, arg);
		return 0;
	case KEY_AGE:
		o->age = (uint32_t)arg_u64("--age", arg, 0, 31536000);
		return 0;
	case ARGP_KEY_ARG:
		die("\"%s\" is one word too many; all pools are told of", arg);
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
	options, parse, "",
	"Serves figures of all pools of the kernel in Prometheus' text format, at /metrics.\v"
	"What the module says of the pools that may be opened, and, with CAP_BPF and CAP_PERFMON, what the eBPF programs count from "
	"now on: commands, lifetimes, prefixes, and who holds pages for long. monitoring/ has alert rules and a dashboard.",
	NULL, NULL, NULL
};

struct exporter {
	struct kvslab_loop *loop;
	struct http_server http;
	struct loop_wake signalled;
	struct export_trace *trace; /* or NULL */
};

static struct loop_wake *signal_wake;
static volatile sig_atomic_t stop_signals;

static void on_signal(int sig)
{
	(void)sig;
	stop_signals++;
	loop_wake(signal_wake);
}

static void signalled(struct loop_wake *w)
{
	struct exporter *x = (struct exporter *)((char *)w - offsetof(struct exporter, signalled));

	if (!x->http.stopping)
		http_server_stop(&x->http);
	if (stop_signals > 1)
		http_server_abort(&x->http);
}

static void answer(struct http_conn *c, int status, const char *fields, const char *text)
{
	http_answer(c, status, "text/plain; charset=utf-8", fields, text, strlen(text));
}

static void metrics(struct exporter *x, struct http_conn *c)
{
	struct prom p = { .family = "" };
	int err = export_stat(&p);

	prom_family(&p, "kvslab_trace_loaded", "gauge", "1: eBPF programs count what happens.");
	prom_value(&p, NULL, x->trace != NULL);
	if (!err && x->trace)
		err = export_trace(x->trace, &p);
	if (err || p.text.failed)
		answer(c, 500, NULL, err && err != -ENOMEM ? "the programs' figures cannot be read\n" : "no memory\n");
	else
		http_answer(c, 200, "text/plain; version=0.0.4; charset=utf-8", NULL, p.text.b, p.text.n);
	buf_free(&p.text);
}

static bool is(const struct http_text *t, const char *path)
{
	return t->n == strlen(path) && !memcmp(t->s, path, t->n);
}

static bool head(struct http_conn *c, const struct http_head *h, void **exchange)
{
	*exchange = NULL;
	if (!is(&h->path, "/metrics") && !is(&h->path, "/"))
		answer(c, 404, NULL, "there is nothing here; figures are at /metrics\n");
	else if (h->kind != HTTP_KIND_GET && h->kind != HTTP_KIND_HEAD)
		answer(c, 405, "Allow: GET, HEAD\r\n", "only GET and HEAD\n");
	else if (h->path.n > 1)
		metrics(http_conn_server(c)->data, c);
	else
		answer(c, 200, NULL, "kvslab export: figures are at /metrics\n");
	return false;
}

/* head() has answered already. */
static void request(struct http_conn *c, struct buf *body)
{
	(void)c;
	buf_free(body);
}

static void refuse(struct http_conn *c, int status, const char *why)
{
	answer(c, status, NULL, why);
}

static void nothing(struct http_conn *c)
{
	(void)c;
}

static const struct http_ops ops = { .head = head, .request = request, .refuse = refuse, .room = nothing, .gone = nothing };

static int start(struct exporter *x, const struct export_opts *o)
{
	const struct http_limits limits = { .body = 1, .conns = 64 };
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	char where[300], why[400] = "";
	int err, fd;

	if (access(POOL_CONTROL, F_OK))
		return pool_told(-ENOTCONN, "kvslab export");
	err = kvslab_loop_open(&x->loop, KVSLAB_LOOP_AUTO);
	if (err) {
		x->loop = NULL;
		msg("the event loop cannot start: %s", strerror(-err));
		return 1;
	}
	http_server_init(&x->http, x->loop, &ops, &limits);
	x->http.data = x;
	x->signalled.woken = signalled;
	loop_wake_open(x->loop, &x->signalled);
	signal_wake = &x->signalled;
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
	fd = serve_listen_tcp(o->host, o->port, where, sizeof(where));
	if (fd < 0)
		return 1;
	x->trace = export_trace_open(o->age, why, sizeof(why));
	if (!x->trace)
		msg("no figures of eBPF programs: %s; what the module says of its pools is there", why);
	err = http_server_listen(&x->http, fd);
	if (err) {
		close(fd);
		msg("%s cannot be served: %s", where, strerror(-err));
		return 1;
	}
	msg("%s/metrics", where);
	return 0;
}

int cmd_export(int argc, char **argv)
{
	static struct exporter x; /* the signal handlers outlive the call */
	struct export_opts o = { .age = DEF_AGE };
	int status, n = 0;

	parse_listen(&o, DEF_LISTEN);
	argp_parse(&argp, argc, argv, 0, NULL, &o);
	status = start(&x, &o);
	while (!status && n >= 0 && !http_server_closed(&x.http))
		n = kvslab_loop_step(x.loop, -1);
	if (n < 0) {
		msg("the event loop failed: %s", strerror(-n));
		status = 1;
	}
	export_trace_close(x.trace);
	if (x.loop)
		kvslab_loop_close(x.loop);
	return status;
}
