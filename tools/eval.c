// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* kvslab eval: perplexity of a text, through the same pages and executor as run. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "args.h"
#include "engine.h"
#include "msg.h"
#include "prompts.h"

#define DEF_CTX 512
#define MIN_CTX 4
#define MAX_CTX 16777216

enum {
	KEY_CTX = 0x100,
	KEY_JSON,
};

struct eval {
	struct engine_opts engine_opts;
	const char *path;
	uint32_t ctx;
	bool json;

	struct engine engine;
	struct tok_ids ids;
	struct kvslab_row *rows;
	uint64_t scored;
	double sum, squares; /* of the scored tokens' negative log probabilities */
};

static const struct argp_option options[] = {
	{ "file", 'f', "TEXT", 0, "The text; -: standard input (required)", 0 },
	{ "ctx", KEY_CTX, "N", 0, "Tokens in a chunk (default: " STR(DEF_CTX) ")", 0 },
	{ "json", KEY_JSON, 0, 0, "Print a JSON object (default: text)", 0 },
	{ 0 }
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct eval *v = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &v->engine_opts;
		return 0;
	case 'f':
		if (v->path)
			die("-f is given twice (%s, %s); give one text", v->path, arg);
		v->path = arg;
		return 0;
	case KEY_CTX:
		v->ctx = (uint32_t)arg_u64("--ctx", arg, MIN_CTX, MAX_CTX);
		return 0;
	case KEY_JSON:
		v->json = true;
		return 0;
	case ARGP_KEY_ARG:
		die("\"%s\" belongs to no option; give the text's file as -f FILE", arg);
	case ARGP_KEY_SUCCESS:
		if (!v->path)
			die("no text is given; name its file with -f TEXT");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = { { &engine_argp, 0, NULL, 10 }, { 0 } };
static const struct argp argp = {
	options, parse, NULL,
	"Perplexity of a text: chunks of --ctx tokens, the second half of each scored.", children, NULL, NULL
};

static int failed(const char *what, int err)
{
	msg("%s: %s", what, kvslab_strerror(err));
	return -1;
}

/* Rows [pos, pos + n) of the chunk: computed, their pages filled; log probabilities where a token is scored. */
static int run_rows(struct eval *v, struct kvslab_seq *seq, const uint32_t *chunk, uint32_t pos, uint32_t n)
{
	struct kvslab_executor *ex = v->engine.executor;
	struct kvslab_run run = { .rows = v->rows, .n_rows = n };
	struct kvslab_batch batch = { .runs = &run, .n_runs = 1 };
	uint32_t i, g;
	double nll;
	int err;

	for (i = 0; i < n; i++) {
		v->rows[i] = (struct kvslab_row){ .token = chunk[pos + i], .pos = pos + i, .target = -1 };
		if (pos + i >= v->ctx / 2 && pos + i + 1 < v->ctx) {
			v->rows[i].flags = KVSLAB_ROW_LOGITS;
			v->rows[i].target = (int32_t)chunk[pos + i + 1];
		}
	}
	for (g = 0; g < v->engine.geometry.groups; g++) {
		run.pages_ro[g] = kvslab_seq_pages_ro(seq, g);
		run.pages_rw[g] = kvslab_seq_pages_rw(seq, g);
	}
	err = ex->ops->submit(ex, &batch);
	if (err)
		return failed("the batch was refused", err);
	if (!ex->ops->complete(ex, true))
		return failed("the batch was lost", -EIO);
	if (batch.error)
		return failed("the batch failed", batch.error);
	for (i = 0; i < n; i++) {
		if (!(v->rows[i].flags & KVSLAB_ROW_LOGITS))
			continue;
		nll = -(double)v->rows[i].logprob;
		if (v->rows[i].result < 0 || !isfinite(nll)) {
			msg("the model gave a value that is not finite; the file may be damaged");
			return -1;
		}
		v->sum += nll;
		v->squares += nll * nll;
		v->scored++;
	}
	return 0;
}

static int run_chunk(struct eval *v, const uint32_t *chunk)
{
	uint32_t pos, n, most = v->engine.executor->max_rows;
	struct kvslab_seq *seq;
	int err;

	err = kvslab_seq_open(&seq, v->engine.kv, NULL, 0);
	if (err)
		return failed("no sequence", err);
	err = kvslab_seq_append(seq, chunk, v->ctx);
	if (!err)
		err = kvslab_seq_reserve(seq, v->ctx);
	if (err) {
		failed("no pages for a chunk", err);
		goto out;
	}
	for (pos = 0; pos < v->ctx && !err; pos += n) {
		n = v->ctx - pos < most ? v->ctx - pos : most;
		err = run_rows(v, seq, chunk, pos, n);
		if (!err) {
			err = kvslab_seq_commit(seq, pos + n);
			if (err)
				failed("a chunk's pages cannot be sealed", err);
		}
	}
out:
	kvslab_seq_close(seq);
	return err ? -1 : 0;
}

static void progress(const struct eval *v, uint64_t chunk, uint64_t chunks, bool tty)
{
	double ppl = exp(v->sum / (double)v->scored);

	if (tty)
		fprintf(stderr, "\rchunk %llu of %llu, perplexity so far %.4f%s", (unsigned long long)chunk,
			(unsigned long long)chunks, ppl, chunk == chunks ? "\n" : "");
	else
		fprintf(stderr, "chunk %llu of %llu, perplexity so far %.4f\n", (unsigned long long)chunk,
			(unsigned long long)chunks, ppl);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int report(const struct eval *v, uint64_t chunks, double seconds)
{
	double mean = v->sum / (double)v->scored;
	double var = v->squares / (double)v->scored - mean * mean;
	double ppl = exp(mean);
	/* of the mean, carried through exp */
	double err = v->scored > 1 && var > 0 ? ppl * sqrt(var / (double)(v->scored - 1)) : 0;
	double rate = (double)(chunks * v->ctx) / seconds;
	json_t *o;

	if (!v->json)
		return out_text("perplexity %.4f +/- %.4f (%llu tokens scored in %llu chunks of %u, %.1f tokens/s)\n",
				ppl, err, (unsigned long long)v->scored, (unsigned long long)chunks, v->ctx, rate);
	o = json_object();
	json_object_set_new(o, "perplexity", json_number(ppl));
	json_object_set_new(o, "stderr", json_number(err));
	json_object_set_new(o, "tokens", json_integer((json_int_t)v->ids.n));
	json_object_set_new(o, "scored_tokens", json_integer((json_int_t)v->scored));
	json_object_set_new(o, "chunks", json_integer((json_int_t)chunks));
	json_object_set_new(o, "ctx", json_integer(v->ctx));
	json_object_set_new(o, "tokens_per_second", json_number(rate));
	return out_json(o);
}

static int read_text(struct eval *v)
{
	char *text;
	size_t n;
	int err;

	text = read_file(v->path, &n);
	if (!text)
		return -1;
	err = tok_encode(v->engine.tok, text, n, TOK_BOS, &v->ids);
	free(text);
	if (err) {
		msg("%zu bytes of %s cannot be turned into tokens: %s", n, v->path, kvslab_strerror(err));
		return -1;
	}
	if (v->ids.n < v->ctx) {
		msg("%s has %zu tokens, fewer than one chunk of %u; give a longer text or a smaller --ctx", v->path,
		    v->ids.n, v->ctx);
		return -1;
	}
	return 0;
}

static int eval(struct eval *v)
{
	struct engine *e = &v->engine;
	bool tty = isatty(STDERR_FILENO), bos;
	uint64_t i, chunks;
	double start;

	if (engine_open_file(e, v->engine_opts.model) || read_text(v))
		return 1;
	v->engine_opts.max_batch = 1;
	v->engine_opts.least_tokens = v->ctx;
	v->engine_opts.step_tokens = v->ctx < DEF_STEP_TOKENS ? v->ctx : DEF_STEP_TOKENS;
	if (engine_open_rest(e, &v->engine_opts))
		return 1;
	if (v->ctx > e->executor->context) {
		msg("--ctx is %u and the model's context holds %u; give that or less", v->ctx, e->executor->context);
		return 1;
	}
	v->rows = calloc(e->executor->max_rows, sizeof(*v->rows));
	if (!v->rows) {
		msg("no memory for a batch of %u rows", e->executor->max_rows);
		return 1;
	}
	bos = adds_bos(e->tok);
	chunks = v->ids.n / v->ctx;
	start = now();
	for (i = 0; i < chunks; i++) {
		uint32_t *chunk = v->ids.id + i * v->ctx;

		if (bos)
			chunk[0] = (uint32_t)tok_bos(e->tok);
		if (run_chunk(v, chunk))
			return 1;
		progress(v, i + 1, chunks, tty);
	}
	return report(v, chunks, now() - start) != 0;
}

int cmd_eval(int argc, char **argv)
{
	struct eval v = { .ctx = DEF_CTX };
	int status;

	argp_parse(&argp, argc, argv, 0, NULL, &v);
	status = eval(&v);
	free(v.rows);
	tok_ids_free(&v.ids);
	engine_close(&v.engine);
	return status;
}
