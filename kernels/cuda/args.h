/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * What each kernel takes: one structure, by value. The map of this folder, read by the kernels (CUDA C, or C++ under the
 * harness) and by whoever launches them (C). Shapes stand beside the pointers; all pointers are the device's.
 *
 * What differs from step to step lies in device memory (cu_step, cu_row, cu_run, tables, items), so that a launch that was
 * recorded once serves again: a grid may be larger than the step, and whatever finds itself beyond a count returns.
 * What a kernel computes is docs/numerics.md; where its bits may differ from the CPU's says the part on CUDA there.
 */
#ifndef KERNELS_CUDA_ARGS_H
#define KERNELS_CUDA_ARGS_H

#include <stdint.h>

#define CU_TOKENS 8 /* rows of activations that one block of a product multiplies at a time */
#define CU_TILE_ROWS 16 /* rows of a tile of weights; query rows of a fragment */
#define CU_SPLIT 256 /* keys of a split of attention, by absolute position */

struct cu_step {
	uint32_t n_rows, n_want, n_items, n_merges;
};

struct cu_row {
	uint32_t token, pos;
	uint32_t run; /* index */
	uint32_t stored; /* not 0: its keys and values are in their page */
};

/* Rows row0 .. of one sequence at positions pos0 ..; its pages: of group g, block b at tables[table + g * blocks + b]. */
struct cu_run {
	uint32_t row0, n_rows, pos0;
	uint32_t table, blocks;
	uint32_t pad[3];
};

/* Sixteen query rows m0 .. of a run for each kv head: row m is query m / ratio, head m % ratio of the kv head's. One warp
 * takes all splits one after the other (split < 0), or one split, whose part goes to place `part`. */
struct cu_item {
	uint32_t run, m0;
	int32_t split;
	uint32_t part;
};

/* Parts part .. part + n - 1 of the sixteen query rows, splits in ascending order. */
struct cu_merge {
	uint32_t run, m0, part, n;
};

/* x[row][dim] = the embedding of the row's token, times scale. */
struct cu_embed {
	const uint32_t *count;
	const struct cu_row *rows; /* [count] */
	const void *w; /* repacked [vocab][dim] */
	float *x; /* [count][dim] */
	uint32_t type, dim;
	float scale;
};

/* y[i] = norm of x[index[i]], or of x[i]. Each row consists of `heads` vectors of n. */
struct cu_norm {
	const uint32_t *count;
	const uint32_t *index; /* [count] or NULL */
	const float *x, *w; /* [..][ldx], [n] */
	float *y; /* [count][ldy]; may be x */
	uint32_t n, ldx, ldy, heads;
	float eps;
};

struct cu_quantise {
	const uint32_t *count;
	const float *x; /* [count][ld] */
	int16_t *q; /* [count][ld] */
	float *d, *s; /* [count][ld / 32] */
	uint32_t cols, ld, levels;
};

/* y[t][r] = w[r] . x[t] (+ bias[r]) */
struct cu_product {
	const uint32_t *count;
	const void *w; /* repacked [rows][cols] */
	const float *f; /* [count][ld], for F32, F16 and BF16; padding zero */
	const int16_t *q; /* [count][ld], for the others */
	const float *d, *s; /* [count][ld / 32] */
	const float *bias; /* [rows] or NULL */
	float *y; /* [count][ldy] */
	uint32_t rows, cols, ld, ldy;
};

/* Norms and rotates queries in place, norms and rotates keys, and writes keys and values into their pages. */
struct cu_store {
	const uint32_t *count;
	const struct cu_row *rows;
	const struct cu_run *runs;
	const uint64_t *tables;
	float *q; /* [count][q_ld] */
	const float *k, *v; /* [count][kv_ld] */
	const float *q_norm, *k_norm; /* [head_dim] or NULL */
	const float *rope; /* [positions][rope_dim] */
	uint64_t layer_offset, v_offset, head_stride; /* bytes */
	uint32_t q_ld, kv_ld, n_heads, n_kv_heads, head_dim, rope_dim, page_tokens, group, kv_f32;
	float eps;
};

struct cu_attention {
	const struct cu_step *step;
	const struct cu_item *items; /* [n_items] */
	const struct cu_merge *merges; /* [n_merges] */
	const struct cu_run *runs;
	const uint64_t *tables;
	const float *q; /* [rows][ld] */
	float *out; /* [rows][ld]; not q */
	float *parts; /* [part][n_kv_heads][16][head_dim + 2]: o, m, l */
	uint64_t layer_offset, v_offset, head_stride; /* bytes */
	uint32_t ld, n_heads, n_kv_heads, head_dim, page_tokens, group, window;
	float scale, softcap;
};

/* y = silu(g) * u, or gelu(g) * u */
struct cu_gate {
	const uint32_t *count;
	const float *g, *u; /* [count][n] */
	float *y; /* [count][ldy] */
	uint32_t n, ldy, gelu;
};

struct cu_add { /* x += y */
	const uint32_t *count;
	float *x; /* [count][ldx] */
	const float *y; /* [count][ldy] */
	uint32_t n, ldx, ldy;
};

struct cu_softcap { /* x = cap * tanh(x / cap) */
	const uint32_t *count;
	float *x; /* [count][n] */
	uint32_t n;
	float cap;
};

struct cu_draw {
	uint64_t seed, position; /* of the token being drawn */
	float temperature, top_p, min_p;
	uint32_t top_k, choice;
	int32_t target; /* whose log probability is wanted; -1: the drawn one's */
	uint32_t skip; /* not 0: the host draws this one */
	uint32_t pad;
};

struct cu_drawn {
	int32_t result; /* the token, or -EDOM */
	float logprob;
};

struct cu_sample {
	const uint32_t *count;
	const float *logits; /* [count][vocab] */
	const struct cu_draw *draws; /* [count] */
	struct cu_drawn *drawn; /* [count] */
	uint32_t vocab;
};

/* Pages from one place to another, bytes a multiple of 16. */
struct cu_copy {
	const uint64_t *to, *from; /* [n] addresses */
	uint64_t bytes; /* of each */
	uint32_t n;
};

/* Keys (or values) of one layer of tokens [t0, t0 + n) of a sequence, [n][n_kv_heads][head bytes] at `flat`. */
struct cu_tokens {
	const uint64_t *table; /* pages, by t / page_tokens */
	void *flat;
	uint64_t offset, head_stride; /* bytes; of the layer's keys, or of its values */
	uint32_t t0, n, n_kv_heads, head_bytes, page_tokens; /* head_bytes a multiple of 16 */
};

#endif
