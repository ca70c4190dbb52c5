// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* kvslab run: prompts in, one continuous batch, answers out. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "args.h"
#include "msg.h"
#include "run.h"

#define PAUSE_US 5000 /* between tries while other clients of the pool hold its memory */
#define WAIT_MS 100
#define TELL_S 2.0

volatile sig_atomic_t run_interrupted;

static void on_signal(int sig)
{
	run_interrupted = sig;
}

/* The first signal cancels; a second one kills. What our starter ignores stays ignored. */
static void catch_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM };
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND | SA_RESTART };
	struct sigaction old;
	size_t i;

	for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (!sigaction(signals[i], NULL, &old) && old.sa_handler != SIG_IGN)
			sigaction(signals[i], &sa, NULL);
}

double run_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void on_token(struct kvslab_request *request, uint32_t token, float logprob, void *data)
{
	struct run *r;
	struct answer *a = data;
	int rc;

	(void)logprob;
	r = a->owner;
	if (a->error[0])
		return;
	rc = answer_token(&r->answers, a, token);
	if (rc < 0)
		snprintf(a->error, sizeof(a->error), "no memory for the answer; give fewer prompts or a smaller -n");
	if (rc)
		kvslab_sched_cancel(r->sched, request);
}

void run_failed(const struct kvslab_request_info *info, char *why, size_t size)
{
	if (info->finish != KVSLAB_FINISH_ERROR || why[0])
		return;
	if (info->error == -EDOM)
		snprintf(why, size, "the model gave a value that is not finite; the file may be damaged");
	else
		snprintf(why, size, "%s", kvslab_strerror(info->error));
}

static void on_done(struct kvslab_request *request, void *data)
{
	struct answer *a = data;
	struct run *r = a->owner;

	kvslab_request_info(request, &a->info);
	run_failed(&a->info, a->error, sizeof(a->error));
	answer_done(&r->answers, a);
}

void run_refused(struct run *r, size_t n, int err, char *why, size_t size)
{
	const struct engine *e = &r->engine;
	const struct kvslab_geometry *g = &e->geometry;

	if (err == -EMSGSIZE)
		snprintf(why, size, "the prompt has %zu tokens and the model's context holds %u; shorten it", n,
			 e->executor->context);
	else if (err == -EFBIG && r->o.engine.node)
		snprintf(why, size,
			 "the prompt has %zu tokens and the pool %s of %llu MiB holds %llu at most; let kvslab pool set "
			 "--max %lluM, or shorten it",
			 n, r->o.engine.node, (unsigned long long)(e->pool_bytes >> 20),
			 (unsigned long long)engine_pool_tokens(e),
			 (unsigned long long)(engine_pool_need(g, 1, n + 1) >> 20));
	else if (err == -EFBIG)
		snprintf(why, size,
			 "the prompt has %zu tokens and the pool of %llu MiB holds %llu at most; give --pool "
			 "embedded:%lluM or more, or shorten it",
			 n, (unsigned long long)(e->pool_bytes >> 20), (unsigned long long)engine_pool_tokens(e),
			 (unsigned long long)(engine_pool_need(g, 1, n + 1) >> 20));
	else
		snprintf(why, size, "the prompt of %zu tokens is refused: %s", n, kvslab_strerror(err));
}

void run_request(struct run *r, struct kvslab_request_opts *o, const struct tok_ids *ids)
{
	size_t n = 0;

	o->tokens = ids->id;
	o->n_tokens = (uint32_t)ids->n;
	o->max_tokens = r->o.max_tokens;
	o->sampling = r->o.sampling;
	if (!r->o.ignore_eos) {
		o->stop = tok_stops(r->engine.tok, &n);
		o->n_stop = (uint32_t)n;
	}
}

static void add(struct run *r, struct answer *a)
{
	struct kvslab_request_opts o = { .on_token = on_token, .on_done = on_done, .data = a };
	int err;

	a->owner = r;
	if (a->prompt->error[0]) {
		snprintf(a->error, sizeof(a->error), "%s", a->prompt->error);
		answer_done(&r->answers, a);
		return;
	}
	run_request(r, &o, &a->prompt->ids);
	err = a->prompt->ids.n > UINT32_MAX ? -EMSGSIZE : kvslab_sched_add(r->sched, &o, &a->request);
	if (err) {
		run_refused(r, a->prompt->ids.n, err, a->error, sizeof(a->error));
		answer_done(&r->answers, a);
	}
}

static void cancel_all(struct run *r, const char *error)
{
	struct answer *a;

	for (a = r->answers.a; a < r->answers.a + r->answers.n; a++) {
		if (a->done)
			continue;
		if (error)
			snprintf(a->error, sizeof(a->error), "%s", error);
		kvslab_sched_cancel(r->sched, a->request);
	}
}

/* Other clients of the pool hold its memory. The pool's event may be of pages that this very try gave back, hence the
 * pause; where the system is short of memory it may not come at all, hence the limit. */
static void wait_for_room(struct run *r, double since)
{
	struct pollfd p = { .fd = kvslab_pool_fd(r->engine.pool), .events = POLLIN };

	if (!r->told_wait && run_now() - since > TELL_S) {
		msg("waiting: %s", kvslab_sched_reason(r->sched));
		r->told_wait = true;
	}
	usleep(PAUSE_US);
	if (!run_interrupted)
		poll(&p, 1, WAIT_MS);
}

int run_step(struct run *r, char *why, size_t size)
{
	int n = kvslab_sched_step(r->sched);

	if (n == -EAGAIN && r->o.engine.node) {
		r->stalled = r->stalled > 0 ? r->stalled : run_now();
		wait_for_room(r, r->stalled);
		return 1;
	}
	r->stalled = 0;
	if (n > 0)
		return 1;
	snprintf(why, size, "the batch came to a halt: %s",
		 n == -EAGAIN ? kvslab_sched_reason(r->sched) :
		 n ? kvslab_strerror(n) : "nothing to do while prompts wait");
	return n ? -1 : 0;
}

static void step_all(struct run *r)
{
	double start = run_now();
	char why[400];

	while (r->answers.n_done < r->answers.n) {
		if (run_interrupted || r->answers.broken) {
			cancel_all(r, NULL);
			break;
		}
		if (run_step(r, why, sizeof(why)) > 0 || r->answers.n_done == r->answers.n)
			continue;
		cancel_all(r, why);
		break;
	}
	r->seconds = run_now() - start;
}

static int open_all(struct run *r)
{
	struct kvslab_sched_opts so = {
		.max_batch = r->o.engine.max_batch,
		.step_tokens = r->o.engine.step_tokens,
	};
	struct engine *e = &r->engine;
	struct model_error me = { "" };
	size_t i;
	int err;

	if (engine_open_file(e, r->o.engine.model))
		return -1;
	if (r->o.chat && chat_open_as(&r->chat, &e->file, r->o.chat_template, &me)) {
		msg("%s", me.text);
		return -1;
	}
	if (run_check(&r->o, e->tok))
		return -1;
	for (i = 0; i < r->o.prompts.n && !r->o.interactive; i++)
		prompt_encode(&r->o.prompts.p[i], e->tok, r->chat, r->o.system);
	if (engine_open_rest(e, &r->o.engine))
		return -1;
	so.kv = e->kv;
	so.executor = e->executor;
	err = kvslab_sched_open(&r->sched, &so);
	if (err) {
		msg("the scheduler cannot start: %s", kvslab_strerror(err));
		return -1;
	}
	return 0;
}

static void close_all(struct run *r)
{
	if (r->sched)
		kvslab_sched_close(r->sched);
	if (r->chat)
		chat_close(r->chat);
	engine_close(&r->engine);
	answers_free(&r->answers);
	run_opts_free(&r->o);
	outfile_abort(&r->file);
}

static int run(struct run *r)
{
	struct answers *as = &r->answers;
	struct kvslab_sched_stat sched;
	struct kvslab_stat pool;
	size_t i;
	int err;

	if (r->o.json_path) {
		if (outfile_open(&r->file, r->o.json_path))
			return 1;
		as->file = &r->file;
	}
	if (open_all(r))
		return 1;
	if (r->o.interactive)
		return run_chat(r);
	if (answers_init(as, &r->o.prompts, r->engine.tok))
		return 1;
	as->stops = r->o.stops;
	as->n_stops = r->o.n_stops;
	as->format = r->o.json ? ANSWER_JSON : r->o.prompts.n == 1 && isatty(STDOUT_FILENO) ? ANSWER_STREAM : ANSWER_TEXT;
	catch_signals();
	for (i = 0; i < as->n; i++)
		add(r, &as->a[i]);
	step_all(r);
	kvslab_sched_stat(r->sched, &sched);
	err = kvslab_stat(r->engine.pool, &pool);
	if (err) {
		msg("the pool gives no figures: %s", kvslab_strerror(err));
		return 1;
	}
	answers_summary(as, &pool, &sched, r->seconds);
	if (as->broken || (as->file && outfile_commit(as->file)))
		return 1;
	return as->failed;
}

int cmd_run(int argc, char **argv)
{
	struct run r = { 0 };
	int status;

	run_parse(&r.o, argc, argv);
	status = run(&r);
	close_all(&r);
	if (run_interrupted) {
		/* so that a shell's loop ends too */
		fflush(stdout);
		signal(run_interrupted, SIG_DFL);
		raise(run_interrupted);
	}
	return status;
}
