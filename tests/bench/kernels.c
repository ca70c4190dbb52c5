// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * Speed of the kernels on one core: products of one token from memory beside a plain read of the same memory,
 * products of many tokens, attention, and the small operations. Best of several rounds, all in one run.
 *
 *     build/bench-kernels [c|avx2|auto] [MiB of weights, 96] [rounds, 7]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "kvslab_kernels.h"

#define ROWS 1536
#define COLS 576
#define WIDE 768 /* of types with blocks of 256 */
#define TOKENS 512

static const struct kern_ops *ops;
static int rounds = 7;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *room(size_t bytes)
{
	size_t size = (bytes + (2u << 20) - 1) >> 21 << 21;
	void *p = aligned_alloc(2u << 20, size);

	if (!p) {
		fprintf(stderr, "bench-kernels: no memory for %zu bytes\n", size);
		exit(1);
	}
	madvise(p, size, MADV_HUGEPAGE);
	return p;
}

static float *random_floats(size_t n)
{
	float *x = room(n * 4);
	uint32_t z = 1;
	size_t i;

	for (i = 0; i < n; i++) {
		z = z * 1664525 + 1013904223;
		x[i] = (float)(z >> 8) * 0x1p-23f - 1;
	}
	return x;
}

/* Sums of 64-bit words, in as many chains as the core wants. */
static uint64_t plain_read(const void *p, size_t bytes)
{
	const uint64_t(*v)[8] = p;
	uint64_t s[8] = { 0 }, sum = 0;
	size_t i;
	int j;

	for (i = 0; i < bytes / 64; i++) {
		__builtin_prefetch((const char *)v[i] + 2048);
		for (j = 0; j < 8; j++)
			s[j] += v[i][j];
	}
	for (j = 0; j < 8; j++)
		sum += s[j];
	return sum;
}

/* @n matrices of ROWS x COLS that begin with a copy of random bytes with harmless scales. */
static void weights(struct kern_weight *w, size_t n, enum kern_type type, char *data)
{
	uint32_t cols = kern_type_block(type) > KERN_BLOCK ? WIDE : COLS;
	size_t row = kern_row_bytes(type, cols), size = kern_weight_bytes(type, ROWS, cols), i, b;
	size_t block = kern_row_bytes(type, kern_type_block(type));
	/* Of the f16 scales in a block. */
	size_t scale = type == KERN_Q6_K ? 208 : 0, two = type == KERN_Q4_1 || type == KERN_Q5_1 || type == KERN_Q4_K || type == KERN_Q5_K;
	uint8_t *file = malloc(row * ROWS);
	uint16_t h;
	float x;

	if (!file)
		exit(1);
	for (i = 0; i < row * ROWS; i++)
		file[i] = (uint8_t)rand();
	if (kern_type_quantised(type)) {
		for (b = 0; b < row * ROWS; b += block) {
			h = kern_f16_from_f32(0.01f);
			memcpy(file + b + scale, &h, 2);
			if (two)
				memcpy(file + b + 2, &h, 2);
		}
	} else {
		size_t each = type == KERN_F32 ? 4 : 2;

		for (i = 0; i < row * ROWS; i += each) {
			x = (float)(rand() % 2000 - 1000) * 1e-3f;
			h = kern_f16_from_f32(x);
			if (type == KERN_F32)
				memcpy(file + i, &x, 4);
			else if (type == KERN_F16)
				memcpy(file + i, &h, 2);
			else
				memcpy(file + i, (char *)&x + 2, 2);
		}
	}
	for (i = 0; i < n; i++) {
		w[i] = (struct kern_weight){ .type = type, .rows = ROWS, .cols = cols, .data = data + i * size };
		if (i)
			memcpy(w[i].data, w[0].data, size);
		else
			kern_repack(w, file, NULL, 0, ROWS);
	}
	free(file);
}

static void bench_products(size_t mib)
{
	static const enum kern_type types[] = { KERN_Q8_0, KERN_Q6_K, KERN_Q5_K, KERN_Q5_1, KERN_Q5_0, KERN_Q4_K, KERN_Q4_1,
						KERN_Q4_0, KERN_IQ4_NL, KERN_F16, KERN_BF16, KERN_F32 };
	char *data = room((mib << 20) + (8u << 20));
	float *x = random_floats(TOKENS * WIDE), *y = random_floats((size_t)TOKENS * ROWS);
	struct kern_act a = { .f = x, .cols = COLS, .ld = COLS, .levels = 4095 };
	uint64_t sink = 0;
	size_t i, k, n, size;
	int r, t;

	a.q = room(TOKENS * WIDE * 2);
	a.d = room(TOKENS * WIDE / 8);
	a.s = room(TOKENS * WIDE / 8);
	ops->quantise(&a, x, TOKENS);
	printf("%-6s%34s%45s\n", "", "GB/s of weights, by tokens", "GMAC/s, by tokens");
	printf("%-6s%8s%8s%8s%8s%8s%8s%8s%8s%8s\n", "", "read", "1", "ratio", "2", "4", "4", "8", "16", "512");
	for (i = 0; i < sizeof(types) / sizeof(*types); i++) {
		static const int tokens[] = { 1, 2, 4, 8, 16, TOKENS };
		double best_read = 1e9, best[6] = { 1e9, 1e9, 1e9, 1e9, 1e9, 1e9 }, t0;
		struct kern_weight *w;

		a.cols = a.ld = kern_type_block(types[i]) > KERN_BLOCK ? WIDE : COLS;
		ops->quantise(&a, x, TOKENS);
		size = kern_weight_bytes(types[i], ROWS, a.cols);
		n = (mib << 20) / size ? (mib << 20) / size : 1;
		w = malloc(n * sizeof(*w));
		if (!w)
			exit(1);
		weights(w, n, types[i], data);
		for (r = 0; r < rounds; r++) {
			t0 = now();
			sink += plain_read(data, n * size);
			best_read = fmin(best_read, now() - t0);
			for (t = 0; t < 6; t++) {
				size_t count = tokens[t] == TOKENS ? n / 40 + 1 : tokens[t] > 4 ? n / 4 + 1 : n;

				t0 = now();
				for (k = 0; k < count; k++)
					ops->product(&w[k], 0, ROWS, &a, (uint32_t)tokens[t], y, ROWS);
				best[t] = fmin(best[t], (now() - t0) / (double)count);
			}
		}
		best_read /= (double)n;
		printf("%-6s%8.1f%8.1f%8.2f%8.1f%8.1f", kern_type_name(types[i]), (double)size / best_read * 1e-9,
		       (double)size / best[0] * 1e-9, best_read / best[0], (double)size / best[1] * 1e-9,
		       (double)size / best[2] * 1e-9);
		for (t = 2; t < 6; t++)
			printf("%8.1f", (double)ROWS * a.cols * tokens[t] / best[t] * 1e-9);
		printf("\n");
		free(w);
	}
	__asm__ volatile("" : : "r"(sink));
	free(data), free(x), free(y), free(a.q), free(a.d), free(a.s);
}

/* One kv head, @ratio query heads, the last @n_q of @keys positions. */
static void bench_attention(uint32_t dim, uint32_t ratio, uint32_t keys, uint32_t n_q, bool f32)
{
	uint32_t page_tokens = 15, n_pages = (keys + page_tokens - 1) / page_tokens, i;
	size_t row = (size_t)dim * (f32 ? 4 : 2), half = page_tokens * row, pairs = 0;
	float *q = random_floats((size_t)n_q * ratio * dim), *out = random_floats((size_t)n_q * ratio * dim);
	const void **pages = malloc(n_pages * sizeof(*pages));
	char *data = room(n_pages * half * 2);
	double best = 1e9, t0, one;
	int r, k, repeat;

	if (!pages)
		exit(1);
	for (i = 0; i < n_pages * half * 2 / (f32 ? 4 : 2); i++) {
		float v = (float)(rand() % 2000 - 1000) * 1e-3f;

		if (f32)
			((float *)data)[i] = v;
		else
			((uint16_t *)data)[i] = kern_f16_from_f32(v);
	}
	for (i = 0; i < n_pages; i++)
		pages[i] = data + i * half * 2;
	struct kern_attn a = {
		.q = q, .out = out, .q_ld = ratio * dim, .n_q = n_q, .pos0 = keys - n_q, .n_heads = ratio,
		.n_kv_heads = 1, .head_dim = dim, .scale = 0.1f, .kv_f32 = f32, .pages = pages,
		.page_tokens = page_tokens, .v_offset = half, .head_stride = half,
	};
	for (i = 0; i < n_q; i++)
		pairs += (size_t)(a.pos0 + i + 1) * ratio;
	repeat = (int)(20000000 / (pairs * dim)) + 1;
	for (r = 0; r < rounds; r++) {
		t0 = now();
		for (k = 0; k < repeat; k++)
			ops->attention(&a, 0, 0, n_q);
		one = (now() - t0) / repeat;
		best = fmin(best, one);
	}
	printf("%-4s%6u%6u%8u%8u%12.1f%14.1f%12.1f\n", f32 ? "f32" : "f16", dim, ratio, keys, n_q, best * 1e6,
	       2.0 * (double)pairs * dim / best * 1e-9, (double)keys * 2 * (double)row / best * 1e-9);
	free(q), free(out), free(pages), free(data);
}

static void bench_small(void)
{
	uint32_t n = 49152, i;
	float *x = random_floats(n), *y = random_floats(n), *w = random_floats(n), p;
	uint32_t *scratch = room(8 * n);
	struct kern_sampling plain = { .temperature = 1 }, usual = { .temperature = 0.7f, .top_k = 40, .top_p = 0.95f };
	struct kern_sampling greedy = { 0 };
	struct kern_act a = { .cols = 576, .ld = 576, .levels = 4095, .q = room(n * 2), .d = room(n), .s = room(n) };
	bool finite;
	double t0;
	int r;

	for (i = 0; i < n; i++)
		x[i] *= 12;
#define TIME(name, per, call)                                                                          \
	do {                                                                                           \
		double best_ = 1e9;                                                                    \
		for (r = 0; r < rounds * 3; r++) {                                                     \
			t0 = now();                                                                    \
			call;                                                                          \
			best_ = fmin(best_, now() - t0);                                               \
		}                                                                                      \
		printf("%-28s%10.1f us%10.3f ns each\n", name, best_ * 1e6, best_ * 1e9 / (per));      \
	} while (0)
	TIME("rmsnorm, 576 at a time", n, for (i = 0; i + 576 <= n; i += 576) ops->rmsnorm(y + i, x + i, w, 576, 1e-5f));
	TIME("quantise", n, ops->quantise(&a, x, n / 576));
	TIME("swiglu", n, ops->swiglu(y, x, w, n));
	TIME("add", n, ops->add(y, x, n));
	TIME("max", n, ops->max(x, n, &finite));
	TIME("expsum", n, ops->expsum(x, n, 12));
	TIME("sample greedy", n, kern_sample(ops, x, n, &greedy, 0, -1, scratch, NULL));
	TIME("sample 1.0", n, kern_sample(ops, x, n, &plain, 0, -1, scratch, NULL));
	TIME("sample 0.7, 40, 0.95", n, kern_sample(ops, x, n, &usual, 0, -1, scratch, NULL));
	TIME("the same and logprob", n, kern_sample(ops, x, n, &usual, 0, -1, scratch, &p));
	free(x), free(y), free(w), free(scratch), free(a.q), free(a.d), free(a.s);
}

int main(int argc, char **argv)
{
	size_t mib = argc > 2 ? strtoul(argv[2], NULL, 0) : 96;

	if (argc > 3)
		rounds = atoi(argv[3]);
	ops = kern_ops_get(argc > 1 ? argv[1] : "auto");
	if (!ops || !mib || rounds < 1) {
		fprintf(stderr, "usage: bench-kernels [c|avx2|auto] [MiB of weights] [rounds]\n");
		return 1;
	}
	printf("kernels %s, %zu MiB of weights, %u x %u\n", ops->name, mib, ROWS, COLS);
	bench_products(mib);
	printf("\n%-4s%6s%6s%8s%8s%12s%14s%12s\n", "kv", "dim", "ratio", "keys", "queries", "us", "GMAC/s", "GB/s of KV");
	bench_attention(64, 3, 1000, 1, false);
	bench_attention(64, 3, 1000, 1, true);
	bench_attention(64, 1, 1000, 1, false);
	bench_attention(128, 4, 4000, 1, false);
	bench_attention(64, 3, 512, 512, false);
	bench_attention(64, 3, 512, 512, true);
	bench_attention(128, 4, 512, 512, false);
	bench_attention(8, 2, 512, 512, true);
	printf("\n");
	bench_small();
	return 0;
}
