// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * kvslab bench model: decode of 1 and 16 sequences and prefill of 512 tokens on the CPU executor, and the rate at which
 * the same threads read memory of the weights' size, measured in turns in the same run. A figure counts only if the
 * answers behind it agree: what a sequence gives alone, in the batch of 16, and after prefill in other chunks.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "bench.h"
#include "cpu/workers.h"
#include "kvslab.h"
#include "model/model.h"
#include "msg.h"

#define ROUNDS 5
#define BATCH 16
#define PROMPT 32 /* tokens before a decode is measured */
#define DECODE 48 /* tokens decoded in a round */
#define PREFILL 512

enum figure {
	READ,
	DECODE_1,
	DECODE_16,
	PREFILL_512,
	FIGURES,
};

struct bench {
	const struct bench_opts *opts;
	struct gguf gguf;
	struct model *m;
	struct kvslab_pool *pool;
	struct kvslab_kv *kv;
	struct kvslab_executor *ex;
	struct workers *w; /* for the plain read */
	uint64_t *memory;
	size_t memory_size;
	uint64_t sums[256];
	double sample[FIGURES][ROUNDS]; /* bytes/s, tokens/s */
	uint32_t prefill;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef uint64_t vec __attribute__((vector_size(32)));

/* Compiled for AVX2 too, else the additions and not the memory are the limit. */
__attribute__((target_clones("avx2", "default"))) static uint64_t read_all(const vec *p, size_t n)
{
	vec s[8] = { { 0 } };

	for (size_t i = 0; i < n; i += 8)
#pragma GCC unroll 8
		for (int k = 0; k < 8; k++)
			s[k] += p[i + k];
#pragma GCC unroll 8
	for (int k = 1; k < 8; k++)
		s[0] += s[k];
	return s[0][0] + s[0][1] + s[0][2] + s[0][3];
}

static void read_part(void *arg, struct workers *w, uint32_t thread)
{
	struct bench *b = arg;
	uint32_t lo, hi;

	workers_split(w, thread, (uint32_t)(b->memory_size / 4096), 1, &lo, &hi);
	b->sums[thread % 256] = read_all((const vec *)(b->memory + (size_t)lo * 512), (size_t)(hi - lo) * 128);
}

static double measure_read(struct bench *b)
{
	double t = now();

	for (int i = 0; i < 4; i++) {
		workers_start(b->w, read_part, b);
		workers_done(b->w, true);
	}
	return 4 * (double)b->memory_size / (now() - t);
}

static int run_batch(struct bench *b, struct kvslab_batch *batch)
{
	int r = b->ex->ops->submit(b->ex, batch);

	if (r)
		return r;
	b->ex->ops->complete(b->ex, true);
	if (batch->error)
		return batch->error;
	return 0;
}

static void point_run(struct kvslab_run *run, struct kvslab_seq *seq, struct kvslab_kv *kv)
{
	for (uint32_t g = 0; g < kvslab_kv_geometry(kv)->groups; g++) {
		run->pages_ro[g] = kvslab_seq_pages_ro(seq, g);
		run->pages_rw[g] = kvslab_seq_pages_rw(seq, g);
	}
}

/* Compute what is known and not yet committed, @chunk tokens a step; the last row's greedy token goes to *next. */
static int prefill(struct bench *b, struct kvslab_seq *seq, uint32_t chunk, uint32_t *next)
{
	struct kvslab_row *rows = calloc(chunk, sizeof(*rows));
	struct kvslab_run run = { .rows = rows };
	struct kvslab_batch batch = { .runs = &run, .n_runs = 1 };
	uint32_t length = kvslab_seq_length(seq), pos;
	int r = rows ? kvslab_seq_reserve(seq, length) : -ENOMEM;

	while (!r && (pos = kvslab_seq_committed(seq)) < length) {
		run.n_rows = length - pos < chunk ? length - pos : chunk;
		for (uint32_t i = 0; i < run.n_rows; i++)
			rows[i] = (struct kvslab_row){ .token = kvslab_seq_tokens(seq)[pos + i], .pos = pos + i, .target = -1 };
		if (pos + run.n_rows == length)
			rows[run.n_rows - 1].flags = KVSLAB_ROW_LOGITS;
		point_run(&run, seq, b->kv);
		r = run_batch(b, &batch);
		if (!r && pos + run.n_rows == length) {
			if (rows[run.n_rows - 1].result < 0)
				r = rows[run.n_rows - 1].result;
			else
				*next = (uint32_t)rows[run.n_rows - 1].result;
		}
		if (!r)
			r = kvslab_seq_commit(seq, pos + run.n_rows);
	}
	free(rows);
	return r;
}

/* @steps greedy tokens of each of n sequences; next[i] is the first to append. */
static int decode(struct bench *b, struct kvslab_seq **seq, uint32_t n, uint32_t steps, uint32_t *next)
{
	struct kvslab_row rows[BATCH];
	struct kvslab_run runs[BATCH];
	struct kvslab_batch batch = { .runs = runs, .n_runs = n };
	int r;

	for (uint32_t s = 0; s < steps; s++) {
		for (uint32_t i = 0; i < n; i++) {
			uint32_t pos = kvslab_seq_length(seq[i]);

			r = kvslab_seq_append(seq[i], &next[i], 1);
			if (!r)
				r = kvslab_seq_reserve(seq[i], pos + 1);
			if (r)
				return r;
			rows[i] = (struct kvslab_row){ .token = next[i], .pos = pos, .flags = KVSLAB_ROW_LOGITS, .target = -1 };
			runs[i] = (struct kvslab_run){ .rows = &rows[i], .n_rows = 1 };
			point_run(&runs[i], seq[i], b->kv);
		}
		r = run_batch(b, &batch);
		if (r)
			return r;
		for (uint32_t i = 0; i < n; i++) {
			if (rows[i].result < 0)
				return rows[i].result;
			next[i] = (uint32_t)rows[i].result;
			r = kvslab_seq_commit(seq[i], rows[i].pos + 1);
			if (r)
				return r;
		}
	}
	return 0;
}

/* A sequence of @n tokens that depend on @k alone. */
static int prompt(struct bench *b, uint32_t k, uint32_t n, struct kvslab_seq **seq)
{
	int r = kvslab_seq_open(seq, b->kv, NULL, 0);
	uint32_t x = 12345 + k * 7919;

	for (uint32_t i = 0; !r && i < n; i++) {
		uint32_t token;

		x = x * 1664525 + 1013904223;
		token = (x >> 8) % b->m->vocab;
		r = kvslab_seq_append(*seq, &token, 1);
	}
	return r;
}

/* Sequences k, k+1, ..; decodes, keeps the rate, and leaves sequence k's tokens in @answer. */
static int measure_decode(struct bench *b, uint32_t n, double *rate, uint32_t *answer)
{
	struct kvslab_seq *seq[BATCH] = { 0 };
	uint32_t next[BATCH];
	double t;
	int r = 0;

	for (uint32_t i = 0; !r && i < n; i++) {
		r = prompt(b, i, PROMPT, &seq[i]);
		if (!r)
			r = prefill(b, seq[i], PROMPT, &next[i]);
	}
	t = now();
	if (!r)
		r = decode(b, seq, n, DECODE, next);
	*rate = n * DECODE / (now() - t);
	if (!r)
		memcpy(answer, kvslab_seq_tokens(seq[0]) + PROMPT, DECODE * sizeof(*answer));
	for (uint32_t i = 0; i < n; i++)
		if (seq[i])
			kvslab_seq_close(seq[i]);
	return r;
}

static int measure_prefill(struct bench *b, uint32_t chunk, double *rate, uint32_t *next)
{
	struct kvslab_seq *seq = NULL;
	int r = prompt(b, 99, b->prefill, &seq);
	double t = now();

	if (!r)
		r = prefill(b, seq, chunk, next);
	*rate = b->prefill / (now() - t);
	if (seq)
		kvslab_seq_close(seq);
	return r;
}

/* One round of everything; 0, -errno, or 1 after a message: the answers differ. */
static int measure(struct bench *b, int round)
{
	static const uint32_t odd_chunk = 97;
	uint32_t alone[DECODE], batched[DECODE], whole, parts;
	double ignored;
	int r;

	b->sample[READ][round] = measure_read(b);
	if ((r = measure_decode(b, 1, &b->sample[DECODE_1][round], alone)) ||
	    (r = measure_decode(b, BATCH, &b->sample[DECODE_16][round], batched)) ||
	    (r = measure_prefill(b, PREFILL, &b->sample[PREFILL_512][round], &whole)))
		return r;
	if (round == 0 && (r = measure_prefill(b, odd_chunk, &ignored, &parts)))
		return r;
	if (memcmp(alone, batched, sizeof(alone)) || (round == 0 && whole != parts)) {
		msg("a sequence gave other tokens in a batch than alone: this is a bug, the figures do not count; report it with the model and the CPU");
		return 1;
	}
	return 0;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Bytes of weights that one decoded token reads. */
static double token_bytes(const struct model *m)
{
	double bytes = (double)m->weight_bytes;

	if (m->output.data != m->embed.data)
		bytes -= (double)kern_weight_bytes(m->embed.type, m->embed.rows, m->embed.cols);
	return bytes;
}

static int report(struct bench *b)
{
	static const char *const names[] = { "read", "decode_1", "decode_16", "prefill_512" };
	double med[FIGURES];
	int r = 0;

	for (int f = 0; f < FIGURES; f++) {
		double *s = b->sample[f];

		qsort(s, ROUNDS, sizeof(*s), by_value);
		med[f] = s[ROUNDS / 2];
	}
	for (int f = 0; !r && f < FIGURES; f++) {
		double *s = b->sample[f], share = med[DECODE_1] * token_bytes(b->m) / med[READ];

		if (f == READ && b->opts->json)
			r = out_json(json_pack("{ss ss sf sf sf sI}", "bench", "model", "name", names[f], "gb_per_s", med[f] / 1e9, "min",
					       s[0] / 1e9, "max", s[ROUNDS - 1] / 1e9, "bytes", (json_int_t)b->memory_size));
		else if (f == READ)
			r = out_text("%-12s %9.1f GB/s    [%.1f - %.1f] over %.0f MB\n", names[f], med[f] / 1e9, s[0] / 1e9,
				     s[ROUNDS - 1] / 1e9, (double)b->memory_size / 1e6);
		else if (b->opts->json && f == DECODE_1)
			r = out_json(json_pack("{ss ss sf sf sf sf}", "bench", "model", "name", names[f], "tokens_per_s", med[f], "min", s[0],
					       "max", s[ROUNDS - 1], "ratio", share));
		else if (b->opts->json)
			r = out_json(json_pack("{ss ss sf sf sf}", "bench", "model", "name", names[f], "tokens_per_s", med[f], "min", s[0],
					       "max", s[ROUNDS - 1]));
		else if (f == DECODE_1)
			r = out_text("%-12s %9.1f tokens/s [%.1f - %.1f] %.0f%% of the read rate\n", names[f], med[f], s[0],
				     s[ROUNDS - 1], 100 * share);
		else
			r = out_text("%-12s %9.1f tokens/s [%.1f - %.1f]\n", names[f], med[f], s[0], s[ROUNDS - 1]);
	}
	return r ? 1 : 0;
}

static int open_all(struct bench *b, struct model_error *e)
{
	struct kvslab_kv_opts kv = { .geometry = { .kv_type = KVSLAB_KV_F16 } };
	struct cpu_opts cpu = { .threads = b->opts->threads, .max_rows = PREFILL, .max_runs = BATCH };
	uint64_t tokens, pages;
	char spec[64];
	int r = gguf_open(&b->gguf, b->opts->model, e);

	if (r)
		return r;
	r = model_open(&b->m, &b->gguf, NULL, e);
	gguf_close(&b->gguf);
	if (r)
		return r;
	b->prefill = b->m->context < PREFILL ? b->m->context : PREFILL;
	if (b->m->context < PROMPT + DECODE + 1)
		return model_fail(e, -EINVAL, "the model's context is %u tokens, the benchmark needs %d", b->m->context,
				  PROMPT + DECODE + 1);
	cpu.ops = kern_ops_get(b->opts->kernels);
	if (!cpu.ops)
		return model_fail(e, -EINVAL, "kernels '%s' are not there on this machine; use --kernels auto", b->opts->kernels);
	kv.geometry.layers = b->m->n_layers;
	kv.geometry.kv_heads = b->m->n_kv_heads;
	kv.geometry.head_dim = b->m->head_dim;
	r = kvslab_geometry_init(&kv.geometry);
	if (r)
		return model_fail(e, r, "no page geometry for this model: %s", kvslab_strerror(r));
	cpu.geometry = &kv.geometry;
	tokens = BATCH * (PROMPT + DECODE) + 2 * PREFILL;
	pages = (tokens / kv.geometry.page_tokens + 2 * BATCH) * kv.geometry.groups;
	snprintf(spec, sizeof(spec), "embedded:%lluM", (unsigned long long)(2 * (pages / kv.geometry.pages_per_slab + 4)));
	memcpy(kv.model_digest, b->m->digest, sizeof(kv.model_digest));
	if ((r = kvslab_pool_open(&b->pool, spec, NULL)) || (r = kvslab_kv_open(&b->kv, b->pool, &kv)))
		return model_fail(e, r, "cannot open a pool of %s: %s", spec, kvslab_strerror(r));
	if ((r = cpu_open(&b->ex, b->m, &cpu, e)))
		return r;
	if ((r = workers_open(&b->w, b->opts->threads)))
		return model_fail(e, r, "cannot start worker threads");
	b->memory_size = ((size_t)token_bytes(b->m) + (2u << 20) - 1) & ~(size_t)((2u << 20) - 1);
	b->memory = aligned_alloc(2u << 20, b->memory_size);
	if (!b->memory)
		return model_fail(e, -ENOMEM, "no memory for a plain read of %zu bytes", b->memory_size);
	madvise(b->memory, b->memory_size, MADV_HUGEPAGE);
	memset(b->memory, 1, b->memory_size);
	return 0;
}

int bench_model(const struct bench_opts *opts)
{
	struct bench *b = calloc(1, sizeof(*b));
	struct model_error e = { "" };
	int r;

	if (!b) {
		msg("no memory for the benchmark");
		return 1;
	}
	b->opts = opts;
	r = open_all(b, &e);
	if (r)
		msg("%s", e.text);
	for (int i = 0; !r && i < ROUNDS; i++) {
		r = measure(b, i);
		if (r < 0)
			msg("the benchmark stopped: %s", kvslab_strerror(r));
	}
	if (!r)
		r = report(b);
	free(b->memory);
	if (b->w)
		workers_close(b->w);
	if (b->ex)
		b->ex->ops->close(b->ex);
	if (b->kv)
		kvslab_kv_close(b->kv);
	if (b->pool)
		kvslab_pool_close(b->pool);
	if (b->m)
		model_close(b->m);
	free(b);
	return r ? 1 : 0;
}
