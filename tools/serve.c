// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* kvslab serve: the model is loaded in a thread while the server already says so; then requests until a signal. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
#include "msg.h"
#include "runtime/serve/app.h"
#include "serve.h"

#define RESERVED_FILES 64 /* beside connections */

struct serve {
	struct serve_opts opts;
	char *name; /* of the model; owned */
	struct kvslab_loop *loop;
	struct app_log log;
	struct app app;
	bool has_app, listens_unix;
	/* The loader's until loaded wakes. */
	pthread_t loader;
	bool loading;
	struct loop_wake loaded;
	struct engine engine;
	struct chat_template *chat;
	struct model_error chat_error;
	int load_error;
	struct loop_wake signalled;
	struct loop_timer grace;
	bool failed;
};

/* Set by handlers, read and cleared by the loop. */
static volatile sig_atomic_t stop_signals, hangups;
static struct loop_wake *signal_wake;

static void on_signal(int sig)
{
	if (sig == SIGHUP)
		hangups = 1;
	else
		stop_signals++;
	loop_wake(signal_wake);
}

static void say(struct serve *s, enum kvslab_log_level level, const char *what)
{
	if (log_begin(&s->log, level, what))
		log_end(&s->log);
}

static void grace_over(struct loop_timer *t)
{
	struct serve *s = (struct serve *)((char *)t - offsetof(struct serve, grace));

	say(s, KVSLAB_LOG_WARNING, "the grace is over; what still runs is cancelled");
	app_abort(&s->app);
}

static void stop(struct serve *s)
{
	if (s->app.state >= APP_STOPPING)
		return;
	if (log_begin(&s->log, KVSLAB_LOG_INFO, "stopping")) {
		log_value(&s->log, "grace_s", "%u", s->opts.grace_s);
		log_value(&s->log, "running", "%u", s->app.active);
		log_end(&s->log);
	}
	loop_timer_set(s->loop, &s->grace, loop_now(s->loop) + s->opts.grace_s * (uint64_t)1000000000);
	app_stop(&s->app);
}

static void signalled(struct loop_wake *w)
{
	struct serve *s = (struct serve *)((char *)w - offsetof(struct serve, signalled));
	int err;

	if (hangups) {
		hangups = 0;
		err = log_reopen(&s->log);
		if (err)
			msg("%s cannot be opened: %s; the log goes on where it was", s->log.path, strerror(-err));
		else
			say(s, KVSLAB_LOG_INFO, "log reopened");
	}
	if (stop_signals)
		stop(s);
	if (stop_signals > 1)
		app_abort(&s->app);
}

static void catch_signals(struct serve *s)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	signal_wake = &s->signalled;
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* ---- the model ---- */

static void *load(void *arg)
{
	struct serve *s = arg;

	s->load_error = engine_open_rest(&s->engine, &s->opts.engine);
	loop_wake(&s->loaded);
	return NULL;
}

static void describe(struct serve *s, struct app_engine *e)
{
	struct api_model *m = &e->model;
	size_t i;

	e->sched.kv = s->engine.kv;
	e->sched.executor = s->engine.executor;
	e->sched.max_batch = s->opts.engine.max_batch;
	e->sched.step_tokens = s->opts.engine.step_tokens;
	e->pool = s->engine.pool;
	e->max_batch = s->opts.engine.max_batch;
	m->name = s->name;
	m->tok = s->engine.tok;
	m->chat = s->chat;
	snprintf(m->chat_error, sizeof(m->chat_error), "%s", s->chat_error.text);
	m->context = s->engine.executor->context;
	m->pool_tokens = engine_pool_tokens(&s->engine);
	m->pool_bytes = s->engine.pool_bytes;
	m->sampling = s->opts.sampling;
	m->has_seed = s->opts.has_seed;
	m->max_tokens = s->opts.max_tokens;
	snprintf(m->fingerprint, sizeof(m->fingerprint), "fp_");
	for (i = 0; i < 8; i++)
		snprintf(m->fingerprint + 3 + 2 * i, 3, "%02x", s->engine.model->digest[i]);
}

static void loaded(struct loop_wake *w)
{
	struct serve *s = (struct serve *)((char *)w - offsetof(struct serve, loaded));
	struct app_engine e;
	int err;

	pthread_join(s->loader, NULL);
	s->loading = false;
	memset(&e, 0, sizeof(e));
	if (s->load_error) {
		s->failed = true;
		app_abort(&s->app);
		return;
	}
	describe(s, &e);
	err = app_ready(&s->app, &e);
	if (err) {
		msg("the scheduler cannot start: %s", kvslab_strerror(err));
		s->failed = true;
		app_abort(&s->app);
		return;
	}
	if (log_begin(&s->log, KVSLAB_LOG_INFO, "ready")) {
		log_text(&s->log, "model", s->name);
		log_value(&s->log, "context", "%u", e.model.context);
		log_value(&s->log, "pool_mib", "%llu", (unsigned long long)(e.model.pool_bytes >> 20));
		log_value(&s->log, "page_tokens", "%u", s->engine.geometry.page_tokens);
		log_value(&s->log, "max_batch", "%u", e.max_batch);
		if (!e.model.chat)
			log_text(&s->log, "no_chats", e.model.chat_error);
		log_end(&s->log);
	}
}

/* ---- start and end ---- */

/* What the file is, before anybody is let in; its weights are loaded while others may ask how far we are. */
static int open_file(struct serve *s)
{
	if (engine_open_file(&s->engine, s->opts.engine.model))
		return -1;
	if (!chat_open_as(&s->chat, &s->engine.file, s->opts.chat_template, &s->chat_error))
		return 0;
	s->chat = NULL;
	if (!s->opts.chat_template)
		return 0;
	msg("%s", s->chat_error.text);
	return -1;
}

static char *model_name(const struct serve_opts *o)
{
	const char *base = strrchr(o->engine.model, '/');
	size_t n;

	if (o->alias)
		return strdup(o->alias);
	base = base ? base + 1 : o->engine.model;
	n = strlen(base);
	if (n > 5 && !strcmp(base + n - 5, ".gguf"))
		n -= 5;
	return strndup(base, n ? n : 1);
}

static int listen_on(struct serve *s, int fd, const char *where)
{
	int err;

	if (fd < 0)
		return -1;
	err = app_listen(&s->app, fd);
	if (err) {
		msg("%s cannot be served: %s", where, strerror(-err));
		close(fd);
		return -1;
	}
	if (log_begin(&s->log, KVSLAB_LOG_INFO, "listening")) {
		log_text(&s->log, "address", where);
		log_end(&s->log);
	}
	return 0;
}

static bool is_loopback(const char *host)
{
	return !strncmp(host, "127.", 4) || !strcmp(host, "::1") || !strcmp(host, "localhost");
}

static int listen_on_port(struct serve *s)
{
	char where[300];

	if (!s->opts.n_keys && !is_loopback(s->opts.host) &&
	    log_begin(&s->log, KVSLAB_LOG_WARNING, "everyone who reaches this address may use the model; give --api-key")) {
		log_text(&s->log, "host", s->opts.host);
		log_end(&s->log);
	}
	return listen_on(s, serve_listen_tcp(s->opts.host, s->opts.port, where, sizeof(where)), where);
}

static int open_loop(struct serve *s)
{
	int err = kvslab_loop_open(&s->loop, s->opts.loop);
	struct kvslab_loop *uring;

	if (err) {
		msg("the event loop cannot start: %s; %s", strerror(-err),
		    err == -EMFILE || err == -ENFILE ? "allow more open files (ulimit -n)" : "give --loop auto or epoll");
		return -1;
	}
	if (s->opts.loop != KVSLAB_LOOP_AUTO || kvslab_loop_kind(s->loop) != KVSLAB_LOOP_EPOLL)
		return 0;
	err = kvslab_loop_open(&uring, KVSLAB_LOOP_URING);
	if (log_begin(&s->log, KVSLAB_LOG_WARNING, "io_uring is refused here; the event loop runs on epoll")) {
		log_text(&s->log, "reason", strerror(-err));
		log_end(&s->log);
	}
	if (!err)
		kvslab_loop_close(uring);
	return 0;
}

static int start(struct serve *s)
{
	unsigned long files = serve_raise_files();
	struct app_opts o = {
		.keys = s->opts.keys,
		.n_keys = s->opts.n_keys,
		.max_queue = s->opts.max_queue,
		.ping_ms = s->opts.ping_ms,
		.model = s->name,
		.limits = { .conns = s->opts.max_conns, .body = s->opts.max_body, .bodies = 16 * s->opts.max_body },
	};
	char where[300];
	int err;

	if (files > RESERVED_FILES && o.limits.conns > files - RESERVED_FILES)
		o.limits.conns = (unsigned int)(files - RESERVED_FILES);
	err = log_open(&s->log, s->opts.log_file, s->opts.log_level);
	if (err) {
		msg("--log-file %s cannot be opened: %s; give a file in a folder that may be written", s->opts.log_file,
		    strerror(-err));
		return -1;
	}
	if (open_file(s) || open_loop(s))
		return -1;
	err = app_open(&s->app, s->loop, &s->log, &o);
	if (err) {
		msg("the server cannot start: %s", strerror(-err));
		return -1;
	}
	s->has_app = true;
	s->signalled.woken = signalled;
	loop_wake_open(s->loop, &s->signalled);
	s->loaded.woken = loaded;
	loop_wake_open(s->loop, &s->loaded);
	s->grace.fired = grace_over;
	catch_signals(s);
	if (s->opts.unix_path) {
		if (listen_on(s, serve_listen_unix(s->opts.unix_path, where, sizeof(where)), where))
			return -1;
		s->listens_unix = true;
	}
	if ((!s->opts.unix_path || s->opts.has_port) && listen_on_port(s))
		return -1;
	if (pthread_create(&s->loader, NULL, load, s)) {
		msg("no thread can be started to load the model; allow more of them");
		return -1;
	}
	s->loading = true;
	return 0;
}

static void run(struct serve *s)
{
	int n = 0;

	/* A model that is being loaded cannot be let go in between. */
	while (n >= 0 && (!app_done(&s->app) || s->loading))
		n = kvslab_loop_step(s->loop, -1);
	if (n < 0) {
		msg("the event loop failed: %s", strerror(-n));
		s->failed = true;
	}
}

static void end(struct serve *s)
{
	if (s->loading)
		pthread_join(s->loader, NULL);
	if (s->has_app) {
		/* after a failed start, connections may be there */
		app_abort(&s->app);
		while (!app_done(&s->app) && kvslab_loop_step(s->loop, 1000) >= 0)
			;
		app_close(&s->app);
		loop_timer_stop(&s->grace);
	}
	if (s->loop)
		kvslab_loop_close(s->loop);
	if (s->chat)
		chat_close(s->chat);
	engine_close(&s->engine);
	if (s->listens_unix)
		unlink(s->opts.unix_path);
	if (!s->failed)
		say(s, KVSLAB_LOG_INFO, "stopped");
	log_close(&s->log);
	free(s->name);
	serve_opts_free(&s->opts);
}

int cmd_serve(int argc, char **argv)
{
	static struct serve s; /* the signal handlers outlive the call */

	serve_parse(&s.opts, argc, argv);
	s.log.fd = STDERR_FILENO;
	s.name = model_name(&s.opts);
	if (!s.name)
		die("no memory");
	if (start(&s))
		s.failed = true;
	else
		run(&s);
	end(&s);
	return s.failed;
}
