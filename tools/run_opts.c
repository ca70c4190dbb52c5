// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "run_opts.h"

#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "msg.h"

#define DEF_MAX_TOKENS 128
#define DEF_TEMP 0.7
#define DEF_TOP_K 40
#define DEF_TOP_P 0.95
#define DEF_SEED 0
#define MAX_BATCH 4096
#define MAX_STEP_TOKENS 65536
#define MAX_TOKENS 1000000000
#define MAX_BIASES 1024
#define MAX_STOPS 16

enum {
	KEY_TEMP = 0x100,
	KEY_TOP_K,
	KEY_TOP_P,
	KEY_SEED,
	KEY_IGNORE_EOS,
	KEY_CHAT,
	KEY_TEMPLATE,
	KEY_SYSTEM,
	KEY_MIN_P,
	KEY_REPETITION,
	KEY_PRESENCE,
	KEY_FREQUENCY,
	KEY_BIAS,
	KEY_STOP,
	KEY_JSON,
	KEY_POOL,
	KEY_MAX_BATCH,
	KEY_STEP_TOKENS,
};

static const struct argp_option options[] = {
	{ 0, 0, 0, 0, "Prompts:", 1 },
	{ "prompt", 'p', "PROMPT", 0, "A prompt; may be given several times", 0 },
	{ "file", 'f', "FILE", 0, "A prompt on each line of FILE; -: standard input; may be given several times", 0 },
	{ "chat", KEY_CHAT, 0, 0, "Each prompt is a user's message in the model's chat template (default: plain text)",
	  0 },
	{ "chat-template", KEY_TEMPLATE, "NAME", 0,
	  "Chat in this form: chatml, llama3, gemma, mistral or deepseek-r1 (default: the one that the file's own template "
	  "has)", 0 },
	{ "system", KEY_SYSTEM, "TEXT", 0, "The chat's system message (default: the file's, if it has one)", 0 },
	{ "interactive", 'i', 0, 0, "A conversation: a message a line from standard input, until its end; needs --chat", 0 },
	{ 0, 0, 0, 0, "Answers:", 2 },
	{ "max-tokens", 'n', "N", 0, "Tokens of an answer at most (default: " STR(DEF_MAX_TOKENS) "; with -i: what the context leaves)", 0 },
	{ "temp", KEY_TEMP, "T", 0, "Temperature; 0: the likeliest token (default: " STR(DEF_TEMP) ")", 0 },
	{ "top-k", KEY_TOP_K, "K", 0, "Draw from the K likeliest tokens; 0: from all (default: " STR(DEF_TOP_K) ")", 0 },
	{ "top-p", KEY_TOP_P, "P", 0,
	  "Draw from the fewest tokens whose share reaches P; 1: from all (default: " STR(DEF_TOP_P) ")", 0 },
	{ "min-p", KEY_MIN_P, "P", 0,
	  "Draw from tokens at least P times as likely as the likeliest; 0: from all (default: 0)", 0 },
	{ "repetition-penalty", KEY_REPETITION, "R", 0,
	  "Divide logits above 0 of tokens of prompt and answer by R, multiply those below (default: 1)", 0 },
	{ "presence-penalty", KEY_PRESENCE, "X", 0, "Take X off the logits of tokens of the answer (default: 0)", 0 },
	{ "frequency-penalty", KEY_FREQUENCY, "X", 0,
	  "Take X off for each time that a token stands in the answer (default: 0)", 0 },
	{ "logit-bias", KEY_BIAS, "ID=X", 0, "Add X to the logit of token ID; may be given several times (default: none)", 0 },
	{ "stop", KEY_STOP, "TEXT", 0, "End an answer before TEXT; may be given several times (default: none)", 0 },
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

static void *more(void *p, size_t n, size_t size)
{
	/* room for the powers of two */
	if (n & (n - 1))
		return p;
	p = realloc(p, (n ? 2 * n : 1) * size);
	if (!p)
		die("no memory for the options; give fewer");
	return p;
}

static void add_bias(struct run_opts *o, const char *arg)
{
	struct kvslab_sampling *s = &o->sampling;
	const char *is = strchr(arg, '=');
	char id[16];

	if (!is || is == arg || (size_t)(is - arg) >= sizeof(id))
		die("--logit-bias is \"%s\"; give a token's id and what to add, as in 13=-100", arg);
	memcpy(id, arg, (size_t)(is - arg));
	id[is - arg] = 0;
	if (s->n_bias == MAX_BIASES)
		die("--logit-bias is given more than %d times; give fewer", MAX_BIASES);
	o->bias_tokens = more(o->bias_tokens, s->n_bias, sizeof(*o->bias_tokens));
	o->biases = more(o->biases, s->n_bias, sizeof(*o->biases));
	o->bias_tokens[s->n_bias] = (uint32_t)arg_u64("--logit-bias's token", id, 0, UINT32_MAX - 1);
	o->biases[s->n_bias++] = (float)arg_real("--logit-bias", is + 1, -1000, 1000);
	s->bias_tokens = o->bias_tokens;
	s->bias = o->biases;
}

static void add_stop(struct run_opts *o, char *arg)
{
	if (!*arg)
		die("--stop is empty; give a text, or leave it out");
	if (o->n_stops == MAX_STOPS)
		die("--stop is given more than %d times; give fewer", MAX_STOPS);
	o->stops = more(o->stops, o->n_stops, sizeof(*o->stops));
	o->stops[o->n_stops++] = (struct stop_text){ arg, strlen(arg) };
}

/* What goes with what. */
static void check(const struct run_opts *o)
{
	if (o->chat_template && !o->chat)
		die("--chat-template %s is given without --chat; add it", o->chat_template);
	if (o->system && !o->chat)
		die("--system is given without --chat; add it");
	if (o->interactive && !o->chat)
		die("-i is a conversation; give --chat too");
	if (o->interactive && (o->json || o->json_path))
		die("-i prints no JSON; give one of -i and --json");
	if (o->interactive && o->prompts.n > 1)
		die("-i takes one prompt at most, the first message; it got %zu", o->prompts.n);
	if (!o->prompts.n && !o->interactive)
		die("no prompt is given; give -p PROMPT, or -f FILE with one on each line");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct run_opts *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->engine;
		return 0;
	case 'p':
		if (prompts_add(&o->prompts, arg, strlen(arg)))
			exit(1);
		return 0;
	case 'f':
		if (prompts_read(&o->prompts, arg))
			exit(1);
		return 0;
	case KEY_CHAT:
		o->chat = true;
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
	case KEY_TEMPLATE:
		o->chat_template = arg;
		return 0;
	case KEY_SYSTEM:
		o->system = arg;
		return 0;
	case 'i':
		o->interactive = true;
		return 0;
	case KEY_MIN_P:
		o->sampling.min_p = (float)arg_real("--min-p", arg, 0, 1);
		return 0;
	case KEY_REPETITION:
		o->sampling.repetition_penalty = (float)arg_real("--repetition-penalty", arg, 0.001, 100);
		return 0;
	case KEY_PRESENCE:
		o->sampling.presence_penalty = (float)arg_real("--presence-penalty", arg, -100, 100);
		return 0;
	case KEY_FREQUENCY:
		o->sampling.frequency_penalty = (float)arg_real("--frequency-penalty", arg, -100, 100);
		return 0;
	case KEY_BIAS:
		add_bias(o, arg);
		return 0;
	case KEY_STOP:
		add_stop(o, arg);
		return 0;
	case KEY_SEED:
		o->sampling.seed = arg_u64("--seed", arg, 0, UINT64_MAX);
		return 0;
	case KEY_IGNORE_EOS:
		o->ignore_eos = true;
		return 0;
	case KEY_JSON:
		o->json = !arg;
		o->json_path = arg;
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
		die("\"%s\" belongs to no option; give a prompt as -p PROMPT", arg);
	case ARGP_KEY_SUCCESS:
		check(o);
		if (!o->max_tokens)
			o->max_tokens = o->interactive ? MAX_TOKENS : DEF_MAX_TOKENS;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = { { &engine_argp, 0, NULL, 10 }, { 0 } };
static const struct argp argp = {
	options, parse, NULL, "Run prompts through a model as one continuous batch.", children, NULL, NULL
};

void run_parse(struct run_opts *o, int argc, char **argv)
{
	*o = (struct run_opts){
		.sampling = { .temperature = (float)DEF_TEMP, .top_k = DEF_TOP_K, .top_p = (float)DEF_TOP_P,
			      .seed = DEF_SEED },
	};
	argp_parse(&argp, argc, argv, 0, NULL, o);
}

void run_opts_free(struct run_opts *o)
{
	free(o->bias_tokens);
	free(o->biases);
	free(o->stops);
	prompts_free(&o->prompts);
}

int run_check(const struct run_opts *o, const struct tokenizer *t)
{
	uint32_t i;

	for (i = 0; i < o->sampling.n_bias; i++)
		if (o->bias_tokens[i] >= tok_vocab(t)) {
			msg("--logit-bias names token %u; the model's are 0 to %u", o->bias_tokens[i], tok_vocab(t) - 1);
			return -1;
		}
	return 0;
}
