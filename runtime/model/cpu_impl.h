/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* The inside of the executor on the CPU: cpu.c runs batches, cpu_sample.c draws from their logits. */
#ifndef MODEL_CPU_IMPL_H
#define MODEL_CPU_IMPL_H

#include <stdatomic.h>

#include "cpu/workers.h"
#include "model.h"

#define SCRATCH 3 /* vocabularies a thread: kern_sample()'s two, and adjusted logits */

/* Buffers that rows pass through between products: shared, or one set a worker when rows are few. */
struct stage {
	float *x; /* [rows][dim] the residual stream */
	float *h; /* [rows][dim_ld] normed */
	float *a; /* [rows][ffn_ld] gated */
	struct kern_act act_h, act_a, act_o; /* what products read: of h, of a, of the attention's output */
};

struct row_ref {
	struct kvslab_run *run;
	struct kvslab_row *row;
};

struct attn_item {
	uint32_t run, kv_head, q0, q1;
};

struct cpu {
	struct kvslab_executor base;
	const struct model *m;
	const struct kern_ops *ops;
	struct workers *w;
	struct kvslab_geometry geo;
	uint32_t dim_ld, q_ld, ffn_ld; /* padded to KERN_BLOCK */

	/* of a batch */
	struct kvslab_batch *batch; /* running, or NULL */
	uint32_t n_rows, n_want, n_items;
	struct row_ref *rows; /* [max_rows], runs one after the other */
	uint32_t *run_row; /* [max_runs]: first row of a run */
	uint32_t *want; /* [max_rows]: rows whose logits are wanted */
	struct attn_item *items;
	atomic_uint *next_item; /* [layers] of attention */
	atomic_uint *next_tile; /* [n_products]: one counter for each product of a step */
	uint32_t n_products;

	struct stage shared, *own; /* own: [workers] */
	float *q, *k, *v; /* [rows][q_ld], [rows][kv width] */
	float *o; /* [rows][q_ld] attention's output */
	float *gate, *up; /* [rows][ffn] */
	float *y; /* [rows][dim] what a product adds to the residual */
	float *logits; /* [LOGIT_ROWS][vocab] */
	float *last; /* [LOGIT_ROWS][dim_ld] */
	struct kern_act act_last;
	uint32_t *scratch; /* [workers][SCRATCH * vocab] */
	float *rope[2]; /* [rope_rows][rope_dim]; [1]: of local layers, may be the same */
	uint32_t rope_rows;
};

/* Results of row @r of the batch from its logits, which stay; by worker @thread. */
void cpu_sample(struct cpu *c, uint32_t thread, uint32_t r, const float *logits);

#endif
