// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "engine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "args.h"
#include "msg.h"

enum {
	KEY_THREADS = 0x200,
	KEY_KV_TYPE,
	KEY_PAGE_TOKENS,
	KEY_KERNELS,
	KEY_MLOCK,
};

#define MODEL_OPTION { "model", 'm', "MODEL", 0, "The model, a GGUF file (required)", 0 }

static const struct argp_option engine_options[] = {
	{ 0, 0, 0, 0, "Model and machine:", 10 },
	MODEL_OPTION,
	{ "threads", KEY_THREADS, "CORES", 0,
	  "Compute on this many cores (default: all that this process may run on)", 0 },
	{ "kv-type", KEY_KV_TYPE, "TYPE", 0, "Keep keys and values as f16 or f32 (default: f16)", 0 },
	{ "page-tokens", KEY_PAGE_TOKENS, "N", 0,
	  "Tokens in a page, or auto: the count that wastes least (default: auto)", 0 },
	{ "kernels", KEY_KERNELS, "SET", 0,
	  "auto, c, avx2, avxvnni or avx512; all give the same answers to the bit (default: auto)", 0 },
	{ "mlock", KEY_MLOCK, 0, 0, "Lock the weights in memory, so that they are never swapped out (default: no)", 0 },
	{ 0 }
};

static const struct argp_option file_options[] = { MODEL_OPTION, { 0 } };

static error_t engine_parse(int key, char *arg, struct argp_state *state)
{
	static const char *const kv_types[] = { "f16", "f32", NULL };
	static const char *const kernels[] = { "auto", "c", "avx2", "avxvnni", "avx512", NULL };
	struct engine_opts *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		o->kv_type = KVSLAB_KV_F16;
		o->kernels = "auto";
		o->max_batch = DEF_MAX_BATCH;
		o->step_tokens = DEF_STEP_TOKENS;
		return 0;
	case 'm':
		if (o->model)
			die("-m is given twice (%s, %s); a command runs one model", o->model, arg);
		o->model = arg;
		return 0;
	case KEY_THREADS:
		o->threads = (uint32_t)arg_u64("--threads", arg, 1, MAX_THREADS);
		return 0;
	case KEY_KV_TYPE:
		o->kv_type = arg_word("--kv-type", arg, kv_types) ? KVSLAB_KV_F32 : KVSLAB_KV_F16;
		return 0;
	case KEY_PAGE_TOKENS:
		o->page_tokens = strcmp(arg, "auto") ?
			(uint32_t)arg_u64("--page-tokens", arg, 1, MAX_PAGE_TOKENS) : 0;
		return 0;
	case KEY_KERNELS:
		o->kernels = kernels[arg_word("--kernels", arg, kernels)];
		return 0;
	case KEY_MLOCK:
		o->mlock = true;
		return 0;
	case ARGP_KEY_SUCCESS:
		if (!o->model)
			die("no model is given; name a GGUF file with -m MODEL");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp engine_argp = { engine_options, engine_parse, NULL, NULL, NULL, NULL, NULL };
const struct argp file_argp = { file_options, engine_parse, NULL, NULL, NULL, NULL, NULL };

int engine_open_file(struct engine *e, const char *model)
{
	struct model_error err = { "" };

	if (gguf_open(&e->file, model, &err)) {
		msg("%s", err.text);
		return -1;
	}
	e->has_file = true;
	if (tok_open(&e->tok, &e->file, &err)) {
		msg("%s", err.text);
		return -1;
	}
	return 0;
}

uint64_t engine_pool_need(const struct kvslab_geometry *g, uint64_t sequences, uint64_t tokens)
{
	uint64_t blocks = (tokens + g->page_tokens - 1) / g->page_tokens;
	uint64_t pages = sequences * blocks * g->groups;

	return (pages + g->pages_per_slab - 1) / g->pages_per_slab * KVSLAB_EXTENT_SIZE;
}

/* max_batch sequences of half the context, at most a quarter of memory. */
static uint64_t default_pool(const struct engine *e, const struct engine_opts *o)
{
	uint64_t need = engine_pool_need(&e->geometry, o->max_batch, (e->model->context + 1) / 2);
	uint64_t most = memory_limit() / 4 / KVSLAB_EXTENT_SIZE * KVSLAB_EXTENT_SIZE;
	uint64_t least = engine_pool_need(&e->geometry, 1, o->least_tokens);

	if (need > most)
		need = most;
	if (need < least)
		need = least;
	return need < KVSLAB_EXTENT_SIZE ? KVSLAB_EXTENT_SIZE : need;
}

uint64_t engine_pool_tokens(const struct engine *e)
{
	const struct kvslab_geometry *g = &e->geometry;

	return e->pool_bytes / KVSLAB_EXTENT_SIZE * g->pages_per_slab / g->groups * g->page_tokens;
}

static int open_geometry(struct engine *e, const struct engine_opts *o)
{
	struct kvslab_geometry *g = &e->geometry;
	int err;

	g->layers = e->model->n_layers;
	g->kv_heads = e->model->n_kv_heads;
	g->head_dim = e->model->head_dim;
	g->kv_type = o->kv_type;
	g->page_tokens = o->page_tokens;
	err = kvslab_geometry_init(g);
	if (err == -E2BIG && o->page_tokens)
		msg("--page-tokens %u: that many tokens of this model exceed an extent of %u MiB; give fewer, or auto",
		    o->page_tokens, KVSLAB_EXTENT_SIZE >> 20);
	else if (err)
		msg("the model's keys and values (%u layers, %u heads of %u) fit no page: %s", g->layers, g->kv_heads,
		    g->head_dim, kvslab_strerror(err));
	return err ? -1 : 0;
}

void engine_pool_arg(struct engine_opts *o, const char *arg)
{
	static const char prefix[] = "embedded:";

	o->node = NULL;
	if (*arg == '/')
		o->node = arg;
	else if (!strncmp(arg, prefix, strlen(prefix)))
		o->pool = arg_size("--pool", arg + strlen(prefix));
	else
		die("--pool is \"%s\"; give embedded:SIZE, as in embedded:512M, or a pool's node, as in "
		    "/dev/kvslab/chat", arg);
}

/* What the pool has to say on the way. */
static void pool_says(void *data, enum kvslab_log_level level, const char *text)
{
	struct engine *e = data;

	if (level == KVSLAB_LOG_DEBUG)
		return;
	e->pool_said |= level == KVSLAB_LOG_ERROR;
	msg("%s", text);
}

static int open_node(struct engine *e, const char *path)
{
	struct kvslab_pool_opts opts = { .log = pool_says, .log_data = e };
	struct kvslab_stat stat;
	int err = kvslab_pool_open(&e->pool, path, &opts);

	if (!err)
		err = kvslab_stat(e->pool, &stat);
	if (err) {
		if (!e->pool_said)
			msg("the pool %s cannot be opened: %s", path, kvslab_strerror(err));
		return -1;
	}
	e->pool_bytes = (stat.max < stat.arena_extents ? stat.max : stat.arena_extents) * KVSLAB_EXTENT_SIZE;
	return 0;
}

static int open_embedded(struct engine *e, const struct engine_opts *o)
{
	char spec[64];
	int err;

	e->pool_bytes = o->pool ? o->pool : default_pool(e, o);
	if (e->pool_bytes < KVSLAB_EXTENT_SIZE) {
		msg("--pool is %llu bytes, less than one extent; give embedded:%uM or more",
		    (unsigned long long)e->pool_bytes, KVSLAB_EXTENT_SIZE >> 20);
		return -1;
	}
	snprintf(spec, sizeof(spec), "embedded:%llu", (unsigned long long)e->pool_bytes);
	err = kvslab_pool_open(&e->pool, spec, NULL);
	if (err)
		msg("a pool of %llu MiB cannot be opened: %s", (unsigned long long)(e->pool_bytes >> 20),
		    kvslab_strerror(err));
	return err ? -1 : 0;
}

static int open_pool(struct engine *e, const struct engine_opts *o)
{
	struct kvslab_kv_opts kv = { .geometry = e->geometry };
	int err;

	if (o->node ? open_node(e, o->node) : open_embedded(e, o))
		return -1;
	memcpy(kv.model_digest, e->model->digest, sizeof(kv.model_digest));
	kv.rope = e->model->rope_key;
	kv.rope_size = sizeof(e->model->rope_key);
	err = kvslab_kv_open(&e->kv, e->pool, &kv);
	if (err) {
		msg("the pool cannot hold the model's pages of %u KiB: %s", e->geometry.page_size >> 10,
		    kvslab_strerror(err));
		return -1;
	}
	return 0;
}

/* A line that is written over, for who watches a terminal while a model of gigabytes loads. */
struct progress {
	struct timespec start;
	int percent; /* shown last; -1: nothing is shown */
};

static void load_progress(void *data, uint64_t done, uint64_t total)
{
	struct progress *p = data;
	int percent = total ? (int)(done * 100 / total) : 100;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (percent == p->percent || (p->percent < 0 && now.tv_sec - p->start.tv_sec < 2))
		return;
	p->percent = percent;
	fprintf(stderr, "\rkvslab: loading the model, %d%%", percent);
}

static void load_said(const struct progress *p)
{
	if (p->percent >= 0)
		fprintf(stderr, "\r%*s\r", 40, "");
}

int engine_open_rest(struct engine *e, const struct engine_opts *o)
{
	struct progress p = { .percent = -1 };
	struct model_opts load = {
		.threads = o->threads,
		.lock = o->mlock,
		.progress = isatty(STDERR_FILENO) ? load_progress : NULL,
		.data = &p,
	};
	struct model_error err = { "" };
	struct cpu_opts cpu = {
		.threads = o->threads,
		.max_rows = o->step_tokens,
		.max_runs = o->max_batch,
		.kv_type = o->kv_type,
		.geometry = &e->geometry,
	};
	int opened;

	clock_gettime(CLOCK_MONOTONIC, &p.start);
	cpu.ops = kern_ops_get(o->kernels);
	if (!cpu.ops) {
		msg("--kernels %s: this CPU lacks what they need; give auto or c", o->kernels);
		return -1;
	}
	opened = model_open(&e->model, &e->file, &load, &err);
	load_said(&p);
	if (opened) {
		msg("%s", err.text);
		return -1;
	}
	gguf_close(&e->file);
	e->has_file = false;
	if (open_geometry(e, o))
		return -1;
	if (cpu_open(&e->executor, e->model, &cpu, &err)) {
		msg("%s", err.text);
		return -1;
	}
	return open_pool(e, o);
}

void engine_close(struct engine *e)
{
	if (e->kv)
		kvslab_kv_close(e->kv);
	if (e->pool)
		kvslab_pool_close(e->pool);
	if (e->executor)
		e->executor->ops->close(e->executor);
	if (e->model)
		model_close(e->model);
	if (e->tok)
		tok_close(e->tok);
	if (e->has_file)
		gguf_close(&e->file);
	memset(e, 0, sizeof(*e));
}
