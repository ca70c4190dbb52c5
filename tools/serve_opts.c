// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "msg.h"
#include "prompts.h"
#include "serve.h"

#define DEF_HOST "127.0.0.1"
#define DEF_PORT 8080
#define DEF_QUEUE 256
#define DEF_GRACE 30
#define DEF_PING 15
#define DEF_CONNECTIONS 4096
#define DEF_BODY 4194304
#define DEF_TEMP 0.7
#define DEF_TOP_K 40
#define DEF_TOP_P 0.95
#define MAX_BATCH 4096
#define MAX_STEP_TOKENS 65536
#define MAX_TOKENS 1000000000

enum {
	KEY_ALIAS = 0x100,
	KEY_HOST,
	KEY_PORT,
	KEY_UNIX,
	KEY_API_KEY,
	KEY_API_KEY_FILE,
	KEY_MAX_QUEUE,
	KEY_MAX_CONNECTIONS,
	KEY_MAX_BODY,
	KEY_GRACE,
	KEY_PING,
	KEY_LOOP,
	KEY_LOG_FILE,
	KEY_LOG_LEVEL,
	KEY_TEMP,
	KEY_TOP_K,
	KEY_TOP_P,
	KEY_SEED,
	KEY_POOL,
	KEY_MAX_BATCH,
	KEY_STEP_TOKENS,
	KEY_TEMPLATE,
};

static const struct argp_option options[] = {
	{ 0, 0, 0, 0, "Serving:", 1 },
	{ "alias", KEY_ALIAS, "NAME", 0, "What clients call the model (default: its file's name without .gguf)", 0 },
	{ "host", KEY_HOST, "ADDRESS", 0, "Listen there; 0.0.0.0: everywhere (default: " DEF_HOST ")", 0 },
	{ "port", KEY_PORT, "N", 0, "On this port; 0: one that is free (default: " STR(DEF_PORT) ")", 0 },
	{ "unix", KEY_UNIX, "PATH", 0, "Listen on this socket; on a port only if that is given too (default: none)", 0 },
	{ "api-key", KEY_API_KEY, "KEY", 0,
	  "Let in whoever has this key; may be given several times (default: everyone)", 0 },
	{ "api-key-file", KEY_API_KEY_FILE, "FILE", 0, "The same with a key on each line of FILE (default: none)", 0 },
	{ "max-queue", KEY_MAX_QUEUE, "N", 0,
	  "Answers that may wait while others run; more are refused (default: " STR(DEF_QUEUE) ")", 0 },
	{ "max-connections", KEY_MAX_CONNECTIONS, "N", 0, "Connections at once (default: " STR(DEF_CONNECTIONS) ")", 0 },
	{ "max-body", KEY_MAX_BODY, "SIZE", 0, "Bytes of a request (default: " STR(DEF_BODY) ")", 0 },
	{ "grace", KEY_GRACE, "S", 0,
	  "Seconds for running answers to end after SIGTERM or SIGINT (default: " STR(DEF_GRACE) ")", 0 },
	{ "ping", KEY_PING, "S", 0,
	  "Seconds after which a stream without news says that it lives (default: " STR(DEF_PING) ")", 0 },
	{ "loop", KEY_LOOP, "KIND", 0, "auto, io_uring or epoll (default: auto)", 0 },
	{ "log-file", KEY_LOG_FILE, "FILE", 0,
	  "Append the log to FILE, opened anew at SIGHUP (default: standard error)", 0 },
	{ "log-level", KEY_LOG_LEVEL, "LEVEL", 0, "error, warning, info or debug (default: info)", 0 },
	{ "chat-template", KEY_TEMPLATE, "NAME", 0,
	  "Chats in this form: chatml, llama3, gemma, mistral or deepseek-r1 (default: the one that the file's own template "
	  "is)", 0 },
	{ 0, 0, 0, 0, "Answers, where a request does not say:", 2 },
	{ "max-tokens", 'n', "N", 0,
	  "Tokens of an answer at most (default: 16 for completions, for chats what the context leaves)", 0 },
	{ "temp", KEY_TEMP, "T", 0, "Temperature; 0: the likeliest token (default: " STR(DEF_TEMP) ")", 0 },
	{ "top-k", KEY_TOP_K, "K", 0, "Draw from the K likeliest tokens; 0: from all (default: " STR(DEF_TOP_K) ")", 0 },
	{ "top-p", KEY_TOP_P, "P", 0,
	  "Draw from the fewest tokens whose share reaches P; 1: from all (default: " STR(DEF_TOP_P) ")", 0 },
	{ "seed", KEY_SEED, "S", 0, "The same seed draws the same answers (default: another for each request)", 0 },
	{ 0, 0, 0, 0, "Batch and memory:", 3 },
	{ "pool", KEY_POOL, "POOL", 0,
	  "The pool of pages: embedded:SIZE, or the node of one in the kernel, /dev/kvslab/NAME (default: embedded, what "
	  "--max-batch sequences of half the context need, at most a quarter of memory)", 0 },
	{ "max-batch", KEY_MAX_BATCH, "N", 0, "Answers running at once (default: " STR(DEF_MAX_BATCH) ")", 0 },
	{ "step-tokens", KEY_STEP_TOKENS, "N", 0, "Tokens computed in a step (default: " STR(DEF_STEP_TOKENS) ")", 0 },
	{ 0 }
};

static void add_key(struct serve_opts *o, const char *s, size_t n)
{
	const char **keys = realloc(o->keys, (o->n_keys + 1) * sizeof(*keys));

	if (!n)
		die("an API key is empty; give at least one character");
	if (!keys)
		die("no memory for %zu API keys", o->n_keys + 1);
	o->keys = keys;
	keys[o->n_keys] = strndup(s, n);
	if (!keys[o->n_keys])
		die("no memory for %zu API keys", o->n_keys + 1);
	o->n_keys++;
}

static void add_key_file(struct serve_opts *o, const char *path)
{
	size_t n, len, before = o->n_keys;
	char *text = read_file(path, &n), *at, *end;

	if (!text)
		exit(1);
	for (at = text; at < text + n; at = end + 1) {
		end = memchr(at, '\n', (size_t)(text + n - at));
		if (!end)
			end = text + n;
		len = (size_t)(end - at);
		while (len && strchr(" \t\r", at[len - 1]))
			len--;
		if (len)
			add_key(o, at, len);
	}
	free(text);
	if (o->n_keys == before)
		die("%s has no key in it; write one on each line", path);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	static const char *const loops[] = { "auto", "io_uring", "epoll", NULL };
	static const char *const levels[] = { "error", "warning", "info", "debug", NULL };
	struct serve_opts *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->engine;
		return 0;
	case KEY_ALIAS:
		if (!*arg || strlen(arg) > 200)
			die("--alias has %zu bytes; give from 1 to 200", strlen(arg));
		o->alias = arg;
		return 0;
	case KEY_HOST:
		o->host = arg;
		return 0;
	case KEY_PORT:
		o->port = (uint16_t)arg_u64("--port", arg, 0, 65535);
		o->has_port = true;
		return 0;
	case KEY_UNIX:
		o->unix_path = arg;
		return 0;
	case KEY_API_KEY:
		add_key(o, arg, strlen(arg));
		return 0;
	case KEY_API_KEY_FILE:
		add_key_file(o, arg);
		return 0;
	case KEY_MAX_QUEUE:
		o->max_queue = (uint32_t)arg_u64("--max-queue", arg, 0, 1000000);
		return 0;
	case KEY_MAX_CONNECTIONS:
		o->max_conns = (uint32_t)arg_u64("--max-connections", arg, 1, 1000000);
		return 0;
	case KEY_MAX_BODY:
		o->max_body = arg_size("--max-body", arg);
		if (o->max_body > (uint64_t)1 << 30)
			die("--max-body is \"%s\"; give at most 1G", arg);
		return 0;
	case KEY_GRACE:
		o->grace_s = (uint32_t)arg_u64("--grace", arg, 0, 86400);
		return 0;
	case KEY_PING:
		o->ping_ms = (uint32_t)(arg_real("--ping", arg, 0.01, 86400) * 1000);
		return 0;
	case KEY_LOOP:
		o->loop = (enum kvslab_loop_kind)arg_word("--loop", arg, loops);
		return 0;
	case KEY_LOG_FILE:
		o->log_file = arg;
		return 0;
	case KEY_LOG_LEVEL:
		o->log_level = (enum kvslab_log_level)arg_word("--log-level", arg, levels);
		return 0;
	case 'n':
		o->max_tokens = (uint32_t)arg_u64("-n", arg, 1, MAX_TOKENS);
		return 0;
	case KEY_TEMP:
		o->sampling.temperature = (float)arg_real("--temp", arg, 0, 100);
		return 0;
	case KEY_TOP_K:
		o->sampling.top_k = (uint32_t)arg_u64("--top-k", arg, 0, UINT32_MAX);
		return 0;
	case KEY_TOP_P:
		o->sampling.top_p = (float)arg_real("--top-p", arg, 0.000001, 1);
		return 0;
	case KEY_SEED:
		o->sampling.seed = arg_u64("--seed", arg, 0, UINT64_MAX);
		o->has_seed = true;
		return 0;
	case KEY_TEMPLATE:
		o->chat_template = arg;
		return 0;
	case KEY_POOL:
		engine_pool_arg(&o->engine, arg);
		return 0;
	case KEY_MAX_BATCH:
		o->engine.max_batch = (uint32_t)arg_u64("--max-batch", arg, 1, MAX_BATCH);
		return 0;
	case KEY_STEP_TOKENS:
		o->engine.step_tokens = (uint32_t)arg_u64("--step-tokens", arg, 1, MAX_STEP_TOKENS);
		return 0;
	case ARGP_KEY_ARG:
		die("\"%s\" belongs to no option; `kvslab serve --help' lists them", arg);
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = { { &engine_argp, 0, NULL, 10 }, { 0 } };
static const struct argp argp = {
	options, parse, NULL,
	"Serve a model over HTTP, as OpenAI's API has it.\v"
	"Every option can also be given in the environment: --max-queue as KVSLAB_MAX_QUEUE; what the command line says "
	"counts.",
	children, NULL, NULL
};

void serve_parse(struct serve_opts *o, int argc, char **argv)
{
	const struct argp_option *const lists[] = { options, engine_argp.options, NULL };

	*o = (struct serve_opts){
		.sampling = { .temperature = (float)DEF_TEMP, .top_k = DEF_TOP_K, .top_p = (float)DEF_TOP_P },
		.host = DEF_HOST,
		.port = DEF_PORT,
		.max_queue = DEF_QUEUE,
		.max_conns = DEF_CONNECTIONS,
		.max_body = DEF_BODY,
		.grace_s = DEF_GRACE,
		.ping_ms = DEF_PING * 1000,
		.log_level = KVSLAB_LOG_INFO,
	};
	o->argv = serve_env(&argc, argv, lists, &o->n_env);
	/* argp puts the words in another order */
	argv = malloc((size_t)(argc + 1) * sizeof(*argv));
	if (!argv)
		die("no memory for the options");
	memcpy(argv, o->argv, (size_t)(argc + 1) * sizeof(*argv));
	argp_parse(&argp, argc, argv, 0, NULL, o);
	free(argv);
}

void serve_opts_free(struct serve_opts *o)
{
	while (o->n_keys)
		free((char *)o->keys[--o->n_keys]);
	free(o->keys);
	o->keys = NULL;
	for (; o->n_env; o->n_env--)
		free(o->argv[o->n_env]);
	free(o->argv);
	o->argv = NULL;
}
