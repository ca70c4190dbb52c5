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

#include "answers.h"
#include "args.h"
#include "engine.h"
#include "msg.h"

#define DEF_MAX_TOKENS 128
#define DEF_TEMP 0.7
#define DEF_TOP_K 40
#define DEF_TOP_P 0.95
#define DEF_SEED 0
#define MAX_BATCH 4096
#define MAX_STEP_TOKENS 65536
#define MAX_TOKENS 1000000000
#define PAUSE_US 5000 /* between tries while other clients of the pool hold its memory */
#define WAIT_MS 100
#define TELL_S 2.0

enum {
	KEY_TEMP = 0x100,
	KEY_TOP_K,
	KEY_TOP_P,
	KEY_SEED,
	KEY_IGNORE_EOS,
	KEY_CHAT,
	KEY_JSON,
	KEY_POOL,
	KEY_MAX_BATCH,
	KEY_STEP_TOKENS,
};

struct run {
	struct engine_opts engine_opts;
	struct kvslab_sampling sampling;
	uint32_t max_tokens;
	bool ignore_eos, use_chat, json;
	const char *json_path;

	struct prompts prompts;
	struct engine engine;
	struct chat_template *chat;
	struct kvslab_sched *sched;
	struct answers answers;
	struct outfile file;
	double seconds;
	bool told_wait;
};

static volatile sig_atomic_t interrupted; /* the signal */

static const struct argp_option options[] = {
	{ 0, 0, 0, 0, "Prompts:", 1 },
	{ "prompt", 'p', "PROMPT", 0, "A prompt; may be given several times", 0 },
	{ "file", 'f', "FILE", 0, "A prompt on each line of FILE; -: standard input; may be given several times", 0 },
	{ "chat", KEY_CHAT, 0, 0, "Each prompt is a user's message in the model's chat template (default: plain text)",
	  0 },
	{ 0, 0, 0, 0, "Answers:", 2 },
	{ "max-tokens", 'n', "N", 0, "Tokens of an answer at most (default: " STR(DEF_MAX_TOKENS) ")", 0 },
	{ "temp", KEY_TEMP, "T", 0, "Temperature; 0: the likeliest token (default: " STR(DEF_TEMP) ")", 0 },
	{ "top-k", KEY_TOP_K, "K", 0, "Draw from the K likeliest tokens; 0: from all (default: " STR(DEF_TOP_K) ")", 0 },
	{ "top-p", KEY_TOP_P, "P", 0,
	  "Draw from the fewest tokens whose share reaches P; 1: from all (default: " STR(DEF_TOP_P) ")", 0 },
	{ "seed", KEY_SEED, "S", 0, "The same seed draws the same answers (default: " STR(DEF_SEED) ")", 0 },
	{ "ignore-eos", KEY_IGNORE_EOS, 0, 0, "Go on after a token that ends an answer (default: stop there)", 0 },
	{ "json", KEY_JSON, "FILE", OPTION_ARG_OPTIONAL,
	  "Print JSON objects, one a line; with =FILE write them there, beside the text (default: text)", 0 },
	{ 0, 0, 0, 0, "Batch and memory:", 3 },
	{ "pool", KEY_POOL, "POOL", 0,
	  "The pool of pages: embedded:SIZE, or the node of one in the kernel, /dev/kvslab/NAME (default: embedded, what "
	  "--max-batch sequences of half the context need, at most a quarter of memory)", 0 },
	{ "max-batch", KEY_MAX_BATCH, "N", 0, "Prompts running at once (default: " STR(DEF_MAX_BATCH) ")", 0 },
	{ "step-tokens", KEY_STEP_TOKENS, "N", 0, "Tokens computed in a step (default: " STR(DEF_STEP_TOKENS) ")", 0 },
	{ 0 }
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct run *r = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &r->engine_opts;
		return 0;
	case 'p':
		if (prompts_add(&r->prompts, arg, strlen(arg)))
			exit(1);
		return 0;
	case 'f':
		if (prompts_read(&r->prompts, arg))
			exit(1);
		return 0;
	case KEY_CHAT:
		r->use_chat = true;
		return 0;
	case 'n':
		r->max_tokens = (uint32_t)arg_u64("-n", arg, 1, MAX_TOKENS);
		return 0;
	case KEY_TEMP:
		r->sampling.temperature = (float)arg_real("--temp", arg, 0, 100);
		return 0;
	case KEY_TOP_K:
		r->sampling.top_k = (uint32_t)arg_u64("--top-k", arg, 0, UINT32_MAX);
		return 0;
	case KEY_TOP_P:
		r->sampling.top_p = (float)arg_real("--top-p", arg, 0.000001, 1);
		return 0;
	case KEY_SEED:
		r->sampling.seed = arg_u64("--seed", arg, 0, UINT64_MAX);
		return 0;
	case KEY_IGNORE_EOS:
		r->ignore_eos = true;
		return 0;
	case KEY_JSON:
		r->json = !arg;
		r->json_path = arg;
		return 0;
	case KEY_POOL:
		engine_pool_arg(&r->engine_opts, arg);
		return 0;
	case KEY_MAX_BATCH:
		r->engine_opts.max_batch = (uint32_t)arg_u64("--max-batch", arg, 1, MAX_BATCH);
		return 0;
	case KEY_STEP_TOKENS:
		r->engine_opts.step_tokens = (uint32_t)arg_u64("--step-tokens", arg, 1, MAX_STEP_TOKENS);
		return 0;
	case ARGP_KEY_ARG:
		die("\"%s\" belongs to no option; give a prompt as -p PROMPT", arg);
	case ARGP_KEY_SUCCESS:
		if (!r->prompts.n)
			die("no prompt is given; give -p PROMPT, or -f FILE with one on each line");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = { { &engine_argp, 0, NULL, 10 }, { 0 } };
static const struct argp argp = {
	options, parse, NULL, "Run prompts through a model as one continuous batch.", children, NULL, NULL
};

static void on_signal(int sig)
{
	interrupted = sig;
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

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void on_token(struct kvslab_request *request, uint32_t token, float logprob, void *data)
{
	struct run *r;
	struct answer *a = data;

	(void)logprob;
	r = a->owner;
	if (!a->error[0] && answer_token(&r->answers, a, token)) {
		snprintf(a->error, sizeof(a->error), "no memory for the answer; give fewer prompts or a smaller -n");
		kvslab_sched_cancel(r->sched, request);
	}
}

static void on_done(struct kvslab_request *request, void *data)
{
	struct answer *a = data;
	struct run *r = a->owner;

	kvslab_request_info(request, &a->info);
	if (a->info.finish == KVSLAB_FINISH_ERROR && !a->error[0]) {
		if (a->info.error == -EDOM)
			snprintf(a->error, sizeof(a->error),
				 "the model gave a value that is not finite; the file may be damaged");
		else
			snprintf(a->error, sizeof(a->error), "%s", kvslab_strerror(a->info.error));
	}
	answer_done(&r->answers, a);
}

/* Why the scheduler refused, with numbers. */
static void refused(struct run *r, struct answer *a, int err)
{
	const struct engine *e = &r->engine;
	const struct kvslab_geometry *g = &e->geometry;
	size_t n = a->prompt->ids.n;

	if (err == -EMSGSIZE)
		snprintf(a->error, sizeof(a->error),
			 "the prompt has %zu tokens and the model's context holds %u; shorten it", n,
			 e->executor->context);
	else if (err == -EFBIG && r->engine_opts.node)
		snprintf(a->error, sizeof(a->error),
			 "the prompt has %zu tokens and the pool %s of %llu MiB holds %llu at most; let kvslab pool set "
			 "--max %lluM, or shorten it",
			 n, r->engine_opts.node, (unsigned long long)(e->pool_bytes >> 20),
			 (unsigned long long)engine_pool_tokens(e),
			 (unsigned long long)(engine_pool_need(g, 1, n + 1) >> 20));
	else if (err == -EFBIG)
		snprintf(a->error, sizeof(a->error),
			 "the prompt has %zu tokens and the pool of %llu MiB holds %llu at most; give --pool "
			 "embedded:%lluM or more, or shorten it",
			 n, (unsigned long long)(e->pool_bytes >> 20), (unsigned long long)engine_pool_tokens(e),
			 (unsigned long long)(engine_pool_need(g, 1, n + 1) >> 20));
	else
		snprintf(a->error, sizeof(a->error), "the prompt of %zu tokens is refused: %s", n,
			 kvslab_strerror(err));
}

static void add(struct run *r, struct answer *a)
{
	struct kvslab_request_opts o = {
		.tokens = a->prompt->ids.id,
		.n_tokens = (uint32_t)a->prompt->ids.n,
		.max_tokens = r->max_tokens,
		.sampling = r->sampling,
		.on_token = on_token,
		.on_done = on_done,
		.data = a,
	};
	size_t n = 0;
	int err;

	a->owner = r;
	if (a->prompt->error[0]) {
		snprintf(a->error, sizeof(a->error), "%s", a->prompt->error);
		answer_done(&r->answers, a);
		return;
	}
	if (!r->ignore_eos) {
		o.stop = tok_stops(r->engine.tok, &n);
		o.n_stop = (uint32_t)n;
	}
	err = a->prompt->ids.n > UINT32_MAX ? -EMSGSIZE : kvslab_sched_add(r->sched, &o, &a->request);
	if (err) {
		refused(r, a, err);
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

	if (!r->told_wait && now() - since > TELL_S) {
		msg("waiting: %s", kvslab_sched_reason(r->sched));
		r->told_wait = true;
	}
	usleep(PAUSE_US);
	if (!interrupted)
		poll(&p, 1, WAIT_MS);
}

static void step_all(struct run *r)
{
	double start = now(), stalled = 0;
	char why[400];
	int n;

	while (r->answers.n_done < r->answers.n) {
		if (interrupted || r->answers.broken) {
			cancel_all(r, NULL);
			break;
		}
		n = kvslab_sched_step(r->sched);
		if (n == -EAGAIN && r->engine_opts.node) {
			stalled = stalled > 0 ? stalled : now();
			wait_for_room(r, stalled);
			continue;
		}
		stalled = 0;
		if (n > 0 || r->answers.n_done == r->answers.n)
			continue;
		snprintf(why, sizeof(why), "the batch came to a halt: %s",
			 n == -EAGAIN ? kvslab_sched_reason(r->sched) :
			 n ? kvslab_strerror(n) : "nothing to do while prompts wait");
		cancel_all(r, why);
		break;
	}
	r->seconds = now() - start;
}

static int open_all(struct run *r)
{
	struct kvslab_sched_opts so = {
		.max_batch = r->engine_opts.max_batch,
		.step_tokens = r->engine_opts.step_tokens,
	};
	struct engine *e = &r->engine;
	struct model_error me = { "" };
	size_t i;
	int err;

	if (engine_open_file(e, r->engine_opts.model))
		return -1;
	if (r->use_chat && chat_open(&r->chat, &e->file, &me)) {
		msg("%s", me.text);
		return -1;
	}
	for (i = 0; i < r->prompts.n; i++)
		prompt_encode(&r->prompts.p[i], e->tok, r->chat);
	if (engine_open_rest(e, &r->engine_opts))
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
	prompts_free(&r->prompts);
	outfile_abort(&r->file);
}

static int run(struct run *r)
{
	struct answers *as = &r->answers;
	struct kvslab_sched_stat sched;
	struct kvslab_stat pool;
	size_t i;
	int err;

	if (r->json_path) {
		if (outfile_open(&r->file, r->json_path))
			return 1;
		as->file = &r->file;
	}
	if (open_all(r) || answers_init(as, &r->prompts, r->engine.tok))
		return 1;
	as->format = r->json ? ANSWER_JSON : r->prompts.n == 1 && isatty(STDOUT_FILENO) ? ANSWER_STREAM : ANSWER_TEXT;
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
	struct run r = {
		.max_tokens = DEF_MAX_TOKENS,
		.sampling = { .temperature = (float)DEF_TEMP, .top_k = DEF_TOP_K, .top_p = (float)DEF_TOP_P,
			      .seed = DEF_SEED },
	};
	int status;

	argp_parse(&argp, argc, argv, 0, NULL, &r);
	status = run(&r);
	close_all(&r);
	if (interrupted) {
		/* so that a shell's loop ends too */
		fflush(stdout);
		signal(interrupted, SIG_DFL);
		raise(interrupted);
	}
	return status;
}
