/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * Numeric kernels: every operation on weights, activations and KV pages, declared once. What each must
 * compute, to the bit, is docs/numerics.md. A kernel knows shapes and strides; no model, no pool, no thread.
 *
 * Threads: every call is reentrant. Calls that split work take a half-open range and write only inside it.
 * Nothing here allocates or fails; shapes are the caller's duty (asserted in debug builds).
 */
#ifndef KVSLAB_KERNELS_H
#define KVSLAB_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KERN_TILE_ROWS 16 /* rows of a tile of repacked quantised weights */
#define KERN_BLOCK 32 /* columns of a quantisation block */
#define KERN_ATTN_TILE 32 /* keys of an attention tile */
#define KERN_HEAD_DIM_MAX 256
#define KERN_ALIGN 64 /* bytes: alignment of every buffer handed to a kernel */

/* Numbers are GGUF's tensor types. */
enum kern_type {
	KERN_F32 = 0,
	KERN_F16 = 1,
	KERN_Q4_0 = 2,
	KERN_Q4_1 = 3,
	KERN_Q5_0 = 6,
	KERN_Q5_1 = 7,
	KERN_Q8_0 = 8,
	KERN_Q4_K = 12,
	KERN_Q5_K = 13,
	KERN_Q6_K = 14,
	KERN_IQ4_NL = 20,
	KERN_BF16 = 30,
};

/*
 * A weight matrix, rows x cols, repacked. Quantised types: tiles of 16 rows x 32 columns (256 for Q4_K, Q5_K, Q6_K),
 * tile after tile along the columns; per tile scales and minima, then the integers, columns in pairs (2j, 2j+1) so
 * that one 32-bit lane is one row's pair after widening; rows padded to 16 with zeros; layout.h has the bytes, as
 * many as the file's. F32, F16, BF16: row-major, columns padded to 8 with zeros. The caller owns @data,
 * KERN_ALIGN-aligned.
 */
struct kern_weight {
	enum kern_type type;
	uint32_t rows, cols;
	void *data;
};

#define KERN_TYPES "F32, F16, BF16, Q8_0, Q6_K, Q5_K, Q5_1, Q5_0, Q4_K, Q4_1, Q4_0, IQ4_NL" /* those supported */

bool kern_type_supported(uint32_t ggml_type);
bool kern_type_quantised(enum kern_type type);
/* The largest quantised activation that products with weights of this type take: 4095, 16383 or 32767; 0 for types that
 * are not quantised. Where several read the same activations, the least of those above 0 counts for all. */
uint32_t kern_type_levels(enum kern_type type);
/* Columns of a block of the file: a row is a whole number of them. */
uint32_t kern_type_block(enum kern_type type);
const char *kern_type_name(uint32_t ggml_type); /* "Q8_0"; also names types that are not supported */
/* Bytes of one row of @cols columns in a GGUF file; 0 if cols does not fit the type's block. */
size_t kern_row_bytes(enum kern_type type, uint32_t cols);
/* Bytes of the repacked matrix. */
size_t kern_weight_bytes(enum kern_type type, uint32_t rows, uint32_t cols);
/* Fill rows [r0, r1) from the file's matrix at @src; r0 a multiple of KERN_TILE_ROWS, r1 too or == rows. @map: which of
 * the file's rows becomes row r; NULL: the same. */
void kern_repack(const struct kern_weight *w, const void *src, const uint32_t *map, uint32_t r0, uint32_t r1);
/* One row as f32: y[cols]. For embedding tables. */
void kern_row_get(const struct kern_weight *w, uint32_t row, float *y);

/*
 * Activations of n rows as a product wants them. f32 [n][cols padded to 8, pad zero] for F32/F16/BF16
 * weights; q [n][cols] int16, d [n][cols/32], s [n][cols/32] for quantised ones. Buffers are the caller's,
 * those of a kind that no consumer needs may be NULL. Row strides, in elements: ld, ld, ld/32, ld/32.
 */
struct kern_act {
	const float *f;
	int16_t *q;
	float *d;
	float *s;
	uint32_t cols, ld; /* ld a multiple of 32, >= cols */
	uint32_t levels; /* for quantise: the largest q, see kern_type_levels */
};

/* A run of queries of one sequence, at consecutive positions, against its pages. One layer. */
struct kern_attn {
	const float *q; /* [n_q][n_heads * head_dim], row stride q_ld floats, after RoPE */
	float *out; /* the same shape and stride; not q itself */
	uint32_t q_ld;
	uint32_t n_q, pos0; /* query i is at position pos0 + i and sees keys 0 .. pos0 + i, */
	uint32_t window; /* of these the last so many; 0: all */
	uint32_t n_heads, n_kv_heads, head_dim; /* n_heads a multiple of n_kv_heads; head_dim a multiple of 8 */
	float scale;
	float softcap; /* scores s become softcap * tanh(s / softcap); 0: they stay */
	bool kv_f32; /* else f16 */
	/* Pages of this layer's group: page b holds positions b*page_tokens .. ; enough for pos0 + n_q keys. */
	const void *const *pages;
	uint32_t page_tokens;
	/* Inside a page, bytes: K of (this layer, head h, token t) is at
	 * layer_offset + h * head_stride + t * head_dim * size; V the same + v_offset. */
	size_t layer_offset, v_offset, head_stride;
};

/* Writes keys (RoPE applied here) and values of consecutive positions of one sequence into its pages. */
struct kern_append {
	const float *k, *v; /* [n][n_kv_heads * head_dim], row strides k_ld, v_ld floats */
	uint32_t k_ld, v_ld;
	uint32_t n, pos0;
	uint32_t n_kv_heads, head_dim, rope_dim;
	const float *rope; /* the table, see kern_rope_table */
	bool kv_f32;
	void *const *pages; /* writable, indexed by pos / page_tokens */
	uint32_t page_tokens;
	size_t layer_offset, v_offset, head_stride;
};

/* One implementation of the operations; all give the same bits. */
struct kern_ops {
	const char *name; /* "c", "avx2", "avxvnni", "avx512" */

	/* Fill q, d, s of @n rows from x [n][cols], row stride a->ld. */
	void (*quantise)(const struct kern_act *a, const float *x, uint32_t n);
	/* y[t][r] for t in [0, n), r in [r0, r1): row stride ldy floats. r0 a multiple of 16; r1 too, or rows. */
	void (*product)(const struct kern_weight *w, uint32_t r0, uint32_t r1, const struct kern_act *x,
			uint32_t n, float *y, size_t ldy);
	/* y[n] = x * scale * w; y may be x. */
	void (*rmsnorm)(float *y, const float *x, const float *w, uint32_t n, float eps);
	/* Rotate @heads heads of one row in place; @rope the table's row of this position. */
	void (*rope)(float *x, uint32_t heads, uint32_t head_dim, uint32_t rope_dim, const float *rope);
	void (*append)(const struct kern_append *a, uint32_t i0, uint32_t i1); /* rows [i0, i1) of the run */
	/* Queries [i0, i1) of the run for all query heads of kv head @kvh. */
	void (*attention)(const struct kern_attn *a, uint32_t kvh, uint32_t i0, uint32_t i1);
	void (*swiglu)(float *y, const float *g, const float *u, uint32_t n); /* y may be g */
	void (*geglu)(float *y, const float *g, const float *u, uint32_t n); /* the same with GELU */
	void (*softcap)(float *x, uint32_t n, float cap); /* x = cap * tanh(x / cap) */
	void (*add)(float *x, const float *y, uint32_t n); /* x += y */
	void (*exp)(float *x, uint32_t n); /* in place; for tests and sampling */
	float (*max)(const float *x, uint32_t n, bool *finite); /* n >= 1; *finite: all of them are */
	float (*expsum)(const float *x, uint32_t n, float sub); /* lane sum of exp(x_i - sub) */
};

/* "c", "avx2", "avxvnni" (AVX2 and AVX-VNNI), "avx512" (with VNNI) or "auto", the best this machine has. NULL: no such
 * name, or the CPU lacks it. */
const struct kern_ops *kern_ops_get(const char *name);

/* Row @pos of the table: rope_dim floats, cos and sin of pair i at [2i], [2i + 1]. Fills [0, n_pos). */
void kern_rope_table(float *table, uint32_t n_pos, uint32_t rope_dim, double base);
/* The same with the angle of pair i at position 1 given, and cosines and sines multiplied by @scale. */
void kern_rope_table_of(float *table, uint32_t n_pos, uint32_t rope_dim, const double *freq, double scale);

/* How to draw one token; zero-initialised means greedy. */
struct kern_sampling {
	float temperature; /* 0: greedy */
	uint32_t top_k; /* 0: all */
	float top_p; /* 0 or >= 1: all */
	float min_p; /* 0: all; else candidates at least this share as likely as the likeliest */
	uint32_t choice;
	uint64_t seed;
};

/* What is done to logits before one is drawn; all zero: nothing. */
struct kern_adjust {
	const uint32_t *bias_tokens; /* [n_bias], below the vocabulary's size */
	const float *bias; /* [n_bias] */
	uint32_t n_bias;
	float repetition; /* 0 or 1: none */
	float presence, frequency; /* 0: none */
	const uint32_t *tokens; /* [n_tokens]: the prompt, n_prompt of them, then the answer so far */
	uint32_t n_prompt, n_tokens;
};

bool kern_adjusts(const struct kern_adjust *a);
/* y[n] = logits[n], adjusted. @scratch: n uint32_t. */
void kern_adjust(float *y, const float *logits, uint32_t n, const struct kern_adjust *a, uint32_t *scratch);

/* log(sum of exp(logit - *top)), *top the largest; a token's log probability is (logit - *top) - that. All finite. */
float kern_logsum(const struct kern_ops *ops, const float *logits, uint32_t n, float *top);
/* The ids of the @k largest logits (k <= n), the smaller id first among equals. */
void kern_top(const float *logits, uint32_t n, uint32_t k, uint32_t *ids);

/*
 * Draw the token at @position from logits[n]. @scratch: 2 * n uint32_t. Returns the id, or -EDOM if a logit is
 * not finite. *logprob (may be NULL): log probability of the drawn token; of @target when that is >= 0.
 */
int kern_sample(const struct kern_ops *ops, const float *logits, uint32_t n, const struct kern_sampling *s,
		uint64_t position, int64_t target, uint32_t *scratch, float *logprob);

uint16_t kern_f16_from_f32(float x);
float kern_f16_to_f32(uint16_t h);

#endif
