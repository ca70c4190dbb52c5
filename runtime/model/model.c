// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* From a GGUF file's tensors to repacked weights. Every shape is checked before it is believed. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch.h"
#include "load.h"

#define VOCAB_MAX (1u << 22)

/* What is filled while a file is read: weights are laid out first, then backed by one mapping. */
struct loader {
	const struct gguf *g;
	struct model *m;
	const struct arch *arch;
	struct model_error *e;
	bool *used; /* [n_tensors]: taken */
	size_t bytes; /* of the mapping so far */
	struct load_weight *list;
	uint32_t n_list, n_cap;
	uint32_t *pairs; /* [n_heads * head_dim]: where rows of query and key matrices are in the file; NULL: in order */
};

/* The public structure first, so that a pointer to one is a pointer to the other. */
struct model_full {
	struct model m;
	struct load_map map;
	float **vectors; /* norms and biases */
	uint32_t n_vectors;
};

static const struct gguf_tensor *take(struct loader *l, const char *name, bool required, uint64_t rows, uint64_t cols)
{
	const struct gguf_tensor *t = gguf_tensor(l->g, name);

	if (!t) {
		if (required)
			model_fail(l->e, -EINVAL, "the model file has no tensor '%s': it is damaged or of another kind; fetch it again", name);
		return NULL;
	}
	if (t->dims[0] != cols || t->dims[1] != rows || t->dims[2] != 1 || t->dims[3] != 1) {
		model_fail(l->e, -EINVAL, "tensor '%s' is %" PRIu64 " x %" PRIu64 ", the model needs %" PRIu64 " x %" PRIu64
			   ": the file is damaged; fetch it again", name, t->dims[1], t->dims[0], rows, cols);
		return NULL;
	}
	if (!kern_type_supported(t->type)) {
		model_fail(l->e, -EOPNOTSUPP, "tensor '%s' has type %s, which is not supported; supported are: " KERN_TYPES,
			   name, kern_type_name(t->type));
		return NULL;
	}
	l->used[t - l->g->tensors] = true;
	return t;
}

static int take_weight(struct loader *l, const char *name, struct kern_weight *w, const uint32_t *map, uint32_t rows, uint32_t cols)
{
	const struct gguf_tensor *t = take(l, name, true, rows, cols);
	void *list;

	if (!t)
		return -EINVAL;
	if (!kern_row_bytes(t->type, cols))
		return model_fail(l->e, -EINVAL, "tensor '%s' of type %s has rows of %u values, which its blocks of %u do not fit: the file is damaged",
				  name, kern_type_name(t->type), cols, kern_type_block(t->type));
	if (l->n_list == l->n_cap) {
		l->n_cap = l->n_cap ? 2 * l->n_cap : 64;
		list = realloc(l->list, l->n_cap * sizeof(*l->list));
		if (!list)
			return model_fail(l->e, -ENOMEM, "no memory for the list of %u tensors", l->n_cap);
		l->list = list;
	}
	w->type = t->type;
	w->rows = rows;
	w->cols = cols;
	l->list[l->n_list].w = w;
	l->list[l->n_list].t = t;
	l->list[l->n_list].map = map;
	l->list[l->n_list++].offset = l->bytes;
	l->bytes += (kern_weight_bytes(w->type, rows, cols) + KERN_ALIGN - 1) & ~(size_t)(KERN_ALIGN - 1);
	return 0;
}

/* A norm or a bias: a vector, always f32 in such files. @map as of a weight. */
static int take_vector(struct loader *l, const char *name, bool required, const uint32_t *map, uint32_t n, float **vector)
{
	struct model_full *full = (struct model_full *)l->m;
	const struct gguf_tensor *t;
	float **list, *v;

	if (!required && !gguf_tensor(l->g, name))
		return 0;
	t = take(l, name, true, 1, n);
	if (!t)
		return -EINVAL;
	if (t->type != KERN_F32)
		return model_fail(l->e, -EOPNOTSUPP, "tensor '%s' has type %s; supported is F32", name, kern_type_name(t->type));
	list = realloc(full->vectors, (full->n_vectors + 1) * sizeof(*list));
	if (list)
		full->vectors = list;
	v = malloc(n * sizeof(*v));
	if (!list || !v) {
		free(v);
		return model_fail(l->e, -ENOMEM, "no memory for tensor '%s'", name);
	}
	full->vectors[full->n_vectors++] = *vector = v;
	for (uint32_t i = 0; i < n; i++)
		memcpy(v + i, (const float *)t->data + (map ? map[i] : i), sizeof(*v));
	return 0;
}

static int take_layer(struct loader *l, uint32_t i)
{
	struct model *m = l->m;
	struct model_layer *y = &m->layers[i];
	uint32_t q = m->n_heads * m->head_dim, kv = m->n_kv_heads * m->head_dim;
	bool post = l->arch->post_norm, qk = l->arch->qk_norm;
	const struct {
		const char *name;
		struct kern_weight *w;
		float **bias;
		const uint32_t *map;
		uint32_t rows, cols;
	} weights[] = {
		{ "attn_q", &y->wq, &y->bq, l->pairs, q, m->dim },
		{ "attn_k", &y->wk, &y->bk, l->pairs, kv, m->dim },
		{ "attn_v", &y->wv, &y->bv, NULL, kv, m->dim },
		{ "attn_output", &y->wo, &y->bo, NULL, m->dim, q },
		{ "ffn_gate", &y->gate, &y->bgate, NULL, m->ffn, m->dim },
		{ "ffn_up", &y->up, &y->bup, NULL, m->ffn, m->dim },
		{ "ffn_down", &y->down, &y->bdown, NULL, m->dim, m->ffn },
	};
	const struct {
		const char *name;
		float **norm;
		const uint32_t *map;
		uint32_t n;
		bool there;
	} norms[] = {
		{ "attn_norm", &y->attn_norm, NULL, m->dim, true },
		{ "ffn_norm", &y->ffn_norm, NULL, m->dim, true },
		{ "attn_q_norm", &y->q_norm, l->pairs, m->head_dim, qk },
		{ "attn_k_norm", &y->k_norm, l->pairs, m->head_dim, qk },
		{ "post_attention_norm", &y->post_attn_norm, NULL, m->dim, post },
		{ "post_ffw_norm", &y->post_ffn_norm, NULL, m->dim, post },
	};
	char name[64];
	int r;

	for (size_t k = 0; k < sizeof(norms) / sizeof(norms[0]); k++) {
		snprintf(name, sizeof(name), "blk.%u.%s.weight", i, norms[k].name);
		if (norms[k].there && (r = take_vector(l, name, true, norms[k].map, norms[k].n, norms[k].norm)))
			return r;
	}
	for (size_t k = 0; k < sizeof(weights) / sizeof(weights[0]); k++) {
		snprintf(name, sizeof(name), "blk.%u.%s.weight", i, weights[k].name);
		r = take_weight(l, name, weights[k].w, weights[k].map, weights[k].rows, weights[k].cols);
		if (r)
			return r;
		snprintf(name, sizeof(name), "blk.%u.%s.bias", i, weights[k].name);
		r = take_vector(l, name, false, weights[k].map, weights[k].rows, weights[k].bias);
		if (r)
			return r;
	}
	return 0;
}

/* The rows of pairs (i, i + rope_dim / 2) of each head, as the kernels want them: one after the other. */
static int map_pairs(struct loader *l)
{
	const struct model *m = l->m;
	uint32_t n = m->n_heads * m->head_dim, i, at;

	if (!l->arch->neox)
		return 0;
	l->pairs = malloc(n * sizeof(*l->pairs));
	if (!l->pairs)
		return model_fail(l->e, -ENOMEM, "no memory for the order of %u rows", n);
	for (i = 0; i < n; i++) {
		at = i % m->head_dim;
		if (at < m->rope_dim)
			at = at / 2 + at % 2 * (m->rope_dim / 2);
		l->pairs[i] = i - i % m->head_dim + at;
	}
	return 0;
}

/* A tensor that we would ignore would make the answers wrong in silence. */
static int refuse_rest(struct loader *l)
{
	for (uint64_t i = 0; i < l->g->n_tensors; i++) {
		struct gguf_str n = l->g->tensors[i].name;

		/* arch.c has read it. */
		if (n.n == 17 && !memcmp(n.s, "rope_freqs.weight", 17))
			continue;
		if (!l->used[i])
			return model_fail(l->e, -EOPNOTSUPP,
					  "the model has a tensor '%.*s' that architecture %s, as supported here, does not use",
					  (int)(n.n < 100 ? n.n : 100), n.s, l->arch->name);
	}
	return 0;
}

static int read_vocab(struct model *m, const struct gguf *g, struct model_error *e)
{
	const struct gguf_tensor *t = gguf_tensor(g, "token_embd.weight");

	if (!t || t->dims[1] < 2 || t->dims[1] > VOCAB_MAX)
		return model_fail(e, -EINVAL, "the model file has no tensor 'token_embd.weight' with 2 to %u rows: it is damaged or of another kind; fetch it again",
				  VOCAB_MAX);
	m->vocab = (uint32_t)t->dims[1];
	return 0;
}

int model_shape(struct model *m, const struct gguf *g, struct model_error *e)
{
	const struct arch *arch;
	int r;

	memset(m, 0, sizeof(*m));
	r = arch_read(m, g, &arch, e);
	return r ? r : read_vocab(m, g, e);
}

int model_open(struct model **out, const struct gguf *g, const struct model_opts *opts, struct model_error *e)
{
	static const struct model_opts plain;
	struct model_full *full = calloc(1, sizeof(*full));
	struct loader l = { .g = g, .e = e };
	struct model *m;
	int r;

	if (!full)
		return model_fail(e, -ENOMEM, "no memory for the model");
	l.m = m = &full->m;
	l.used = calloc(g->n_tensors + 1, sizeof(*l.used));
	if (!l.used) {
		r = model_fail(e, -ENOMEM, "no memory for %" PRIu64 " tensors", g->n_tensors);
		goto fail;
	}
	if ((r = arch_read(m, g, &l.arch, e)) || (r = read_vocab(m, g, e)) || (r = map_pairs(&l)))
		goto fail;
	m->layers = calloc(m->n_layers, sizeof(*m->layers));
	if (!m->layers) {
		r = model_fail(e, -ENOMEM, "no memory for %u layers", m->n_layers);
		goto fail;
	}
	if ((r = take_weight(&l, "token_embd.weight", &m->embed, NULL, m->vocab, m->dim)) ||
	    (r = take_vector(&l, "output_norm.weight", true, NULL, m->dim, &m->output_norm)))
		goto fail;
	if (gguf_tensor(g, "output.weight") && (r = take_weight(&l, "output.weight", &m->output, NULL, m->vocab, m->dim)))
		goto fail;
	for (uint32_t i = 0; i < m->n_layers; i++) {
		r = take_layer(&l, i);
		if (r)
			goto fail;
	}
	if ((r = refuse_rest(&l)))
		goto fail;
	r = load_weights(g, l.list, l.n_list, l.bytes, &full->map, m->digest, opts ? opts : &plain, e);
	if (r)
		goto fail;
	m->weight_bytes = l.bytes;
	if (!m->output.data)
		m->output = m->embed;
	free(l.list);
	free(l.used);
	free(l.pairs);
	*out = m;
	return 0;
fail:
	free(l.list);
	free(l.used);
	free(l.pairs);
	model_close(m);
	return r;
}

void model_close(struct model *m)
{
	struct model_full *full = (struct model_full *)m;

	if (!m)
		return;
	for (uint32_t i = 0; i < full->n_vectors; i++)
		free(full->vectors[i]);
	free(full->vectors);
	free(m->layers);
	load_unmap(&full->map);
	free(full);
}
