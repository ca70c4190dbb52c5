/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * A model (arch.c lists the architectures), its weights repacked, and the executor that runs it on the CPU.
 * The file may be closed after model_open (the tokenizer keeps its own copies).
 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "gguf.h"
#include "kvslab.h"
#include "kvslab_kernels.h"

#define ARCH_LAYERS_MAX 1024

/* Vectors marked "or NULL" are there where the file has them. */
struct model_layer {
	float *attn_norm, *ffn_norm; /* [dim] */
	float *q_norm, *k_norm; /* [head_dim] or NULL */
	float *post_attn_norm, *post_ffn_norm; /* [dim] or NULL */
	struct kern_weight wq; /* [n_heads * head_dim][dim] */
	struct kern_weight wk, wv; /* [n_kv_heads * head_dim][dim] */
	struct kern_weight wo; /* [dim][n_heads * head_dim] */
	struct kern_weight gate, up; /* [ffn][dim] */
	struct kern_weight down; /* [dim][ffn] */
	float *bq, *bk, *bv, *bo, *bgate, *bup, *bdown; /* [rows of the weight] or NULL */
};

/* Angles of the pairs at position 1, and what cosines and sines are multiplied with. */
struct model_rope {
	double freq[KERN_HEAD_DIM_MAX / 2]; /* [rope_dim / 2] */
	double scale;
};

struct model {
	/* read from the file's values (model_shape) */
	const char *arch;
	uint32_t n_layers, dim, n_heads, n_kv_heads, head_dim, ffn, vocab, context, rope_dim;
	uint32_t window; /* keys that a local layer sees; 0: all */
	bool local[ARCH_LAYERS_MAX];
	bool gelu;
	float eps, embed_scale, attn_scale;
	float attn_softcap, final_softcap; /* 0: none */
	struct model_rope rope[2]; /* [1]: of local layers */
	uint8_t rope_key[32]; /* names whatever keys depend on beside the weights; kvslab_kv_opts.rope */
	/* read from its tensors */
	struct kern_weight embed; /* [vocab][dim] */
	struct kern_weight output; /* [vocab][dim]; shares embed's data when the file ties them */
	float *output_norm; /* [dim] */
	struct model_layer *layers;
	uint8_t digest[32];
	uint64_t weight_bytes; /* of everything repacked */
};

/* The first part alone, for a look at a file; @m is filled, nothing to close. Errors as model_open's. */
int model_shape(struct model *m, const struct gguf *g, struct model_error *e);
struct model_opts {
	uint32_t threads; /* that repack; 0: the cores we may run on */
	bool lock; /* the weights in memory (mlock) */
	/* Called now and then by the caller's thread while it waits; the last time with @done == @total. */
	void (*progress)(void *data, uint64_t done, uint64_t total);
	void *data;
};

/* Reads and repacks; @opts NULL: all zero. -EOPNOTSUPP: architecture, tensor type or shape we do not run; -ENOMEM: it does not fit. */
int model_open(struct model **m, const struct gguf *g, const struct model_opts *opts, struct model_error *e);
void model_close(struct model *m);

struct cpu_opts {
	uint32_t threads; /* 0: the cores we may run on */
	uint32_t max_rows; /* of a batch; 0: 512 */
	uint32_t max_runs; /* 0: 32 */
	enum kvslab_kv_type kv_type; /* 0: f16 */
	const struct kern_ops *ops; /* NULL: the best */
	const struct kvslab_geometry *geometry; /* where values lie in a page; copied */
};

/* The model must outlive it. */
int cpu_open(struct kvslab_executor **ex, const struct model *m, const struct cpu_opts *opts, struct model_error *e);

#endif
