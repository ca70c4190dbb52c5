// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* From a GGUF file of architecture llama to repacked weights. Every shape is checked before it is believed. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "model.h"

#define HUGE_SIZE (2ul << 20)
#define LAYERS_MAX 1024
#define DIM_MAX (1u << 17)
#define VOCAB_MAX (1u << 22)
#define CONTEXT_MAX (1u << 24)

/* What is filled while a file is read: weights are laid out first, then backed by one mapping. */
struct loader {
	struct gguf *g;
	struct model *m;
	struct model_error *e;
	bool *used; /* [n_tensors]: taken */
	size_t bytes; /* of the mapping so far */
	struct {
		struct kern_weight *w;
		const struct gguf_tensor *t;
		size_t offset;
	} *list;
	uint32_t n_list, n_cap;
};

struct model_map {
	void *base;
	size_t size;
};

/* The public structure first, so that a pointer to one is a pointer to the other. */
struct model_full {
	struct model m;
	struct model_map map;
};

static int get_u32(struct loader *l, const char *key, uint64_t max, bool required, uint64_t fallback, uint32_t *out)
{
	const struct gguf_value *v = gguf_find(l->g, key);
	uint64_t x = fallback;

	if (!v && required)
		return model_fail(l->e, -EINVAL, "the model file has no '%s': it is damaged or not a language model; fetch it again", key);
	if (v && v->kind == GGUF_ARRAY)
		return model_fail(l->e, -EOPNOTSUPP, "'%s' differs from layer to layer: such models are not supported", key);
	if (v && !gguf_u64(l->g, key, &x))
		return model_fail(l->e, -EINVAL, "'%s' is not a whole number: the file is damaged; fetch it again", key);
	if (x < 1 || x > max)
		return model_fail(l->e, -EINVAL, "'%s' is %" PRIu64 ", supported are 1 to %" PRIu64, key, x, max);
	*out = (uint32_t)x;
	return 0;
}

static int refuse_key(struct loader *l, const char *key, const char *what)
{
	if (!gguf_find(l->g, key))
		return 0;
	return model_fail(l->e, -EOPNOTSUPP, "the model uses %s ('%s'), which is not supported", what, key);
}

static int read_scaling(struct loader *l)
{
	struct gguf_str s;

	if (gguf_string(l->g, "llama.rope.scaling.type", &s) && !(s.n == 4 && !memcmp(s.s, "none", 4)))
		return model_fail(l->e, -EOPNOTSUPP,
				  "the model scales its positions ('llama.rope.scaling.type' is '%.*s'); supported is 'none'",
				  (int)(s.n < 64 ? s.n : 64), s.s);
	return 0;
}

static int read_shape(struct loader *l)
{
	struct model *m = l->m;
	struct model_error *e = l->e;
	struct gguf_str arch;
	uint64_t window;
	double f;
	int r;

	if (!gguf_string(l->g, "general.architecture", &arch))
		return model_fail(e, -EINVAL, "the model file does not name its architecture ('general.architecture'): it is damaged or not a model; fetch it again");
	if (arch.n != 5 || memcmp(arch.s, "llama", 5))
		return model_fail(e, -EOPNOTSUPP, "architecture '%.*s' is not supported; supported is: llama",
				  (int)(arch.n < 64 ? arch.n : 64), arch.s);
	if ((r = get_u32(l, "llama.block_count", LAYERS_MAX, true, 0, &m->n_layers)) ||
	    (r = get_u32(l, "llama.context_length", CONTEXT_MAX, true, 0, &m->context)) ||
	    (r = get_u32(l, "llama.embedding_length", DIM_MAX, true, 0, &m->dim)) ||
	    (r = get_u32(l, "llama.feed_forward_length", DIM_MAX, true, 0, &m->ffn)) ||
	    (r = get_u32(l, "llama.attention.head_count", 1024, true, 0, &m->n_heads)) ||
	    (r = get_u32(l, "llama.attention.head_count_kv", 1024, false, m->n_heads, &m->n_kv_heads)) ||
	    (r = get_u32(l, "llama.attention.key_length", KERN_HEAD_DIM_MAX, false, m->dim / m->n_heads, &m->head_dim)) ||
	    (r = get_u32(l, "llama.rope.dimension_count", KERN_HEAD_DIM_MAX, false, m->head_dim, &m->rope_dim)) ||
	    (r = refuse_key(l, "llama.expert_count", "a mixture of experts")) || (r = read_scaling(l)))
		return r;
	if (gguf_u64(l->g, "llama.attention.sliding_window", &window) && window && window < m->context)
		return model_fail(e, -EOPNOTSUPP, "the model attends to a sliding window of %" PRIu64
				  " tokens; supported is full attention", window);
	if (m->head_dim % 8)
		return model_fail(e, -EOPNOTSUPP, "a head has %u values; supported are multiples of 8 up to %u", m->head_dim,
				  KERN_HEAD_DIM_MAX);
	if (m->n_heads % m->n_kv_heads)
		return model_fail(e, -EINVAL, "%u heads cannot share %u key/value heads evenly: the file is damaged", m->n_heads,
				  m->n_kv_heads);
	if (m->rope_dim % 2 || m->rope_dim > m->head_dim)
		return model_fail(e, -EINVAL, "'llama.rope.dimension_count' is %u, a head has %u values: the file is damaged",
				  m->rope_dim, m->head_dim);
	if (!gguf_f64(l->g, "llama.attention.layer_norm_rms_epsilon", &f) || !(f > 0 && f < 1))
		return model_fail(e, -EINVAL, "'llama.attention.layer_norm_rms_epsilon' is missing or not between 0 and 1: the file is damaged; fetch it again");
	m->eps = (float)f;
	m->rope_base = 10000;
	if (gguf_f64(l->g, "llama.rope.freq_base", &f)) {
		if (!(f >= 1 && f < 1e12))
			return model_fail(e, -EINVAL, "'llama.rope.freq_base' is %g, supported are 1 to 1e12", f);
		m->rope_base = f;
	}
	return 0;
}

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

static int take_weight(struct loader *l, const char *name, struct kern_weight *w, uint32_t rows, uint32_t cols)
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
	l->list[l->n_list++].offset = l->bytes;
	l->bytes += (kern_weight_bytes(w->type, rows, cols) + KERN_ALIGN - 1) & ~(size_t)(KERN_ALIGN - 1);
	return 0;
}

/* Norm weights: a vector, always f32 in such files. */
static int take_norm(struct loader *l, const char *name, float **norm)
{
	const struct gguf_tensor *t = take(l, name, true, 1, l->m->dim);

	if (!t)
		return -EINVAL;
	if (t->type != KERN_F32)
		return model_fail(l->e, -EOPNOTSUPP, "tensor '%s' has type %s; supported is F32", name, kern_type_name(t->type));
	*norm = malloc(l->m->dim * sizeof(float));
	if (!*norm)
		return model_fail(l->e, -ENOMEM, "no memory for tensor '%s'", name);
	memcpy(*norm, t->data, l->m->dim * sizeof(float));
	return 0;
}

static int take_layer(struct loader *l, uint32_t i)
{
	struct model *m = l->m;
	struct model_layer *y = &m->layers[i];
	uint32_t q = m->n_heads * m->head_dim, kv = m->n_kv_heads * m->head_dim;
	const struct {
		const char *name;
		struct kern_weight *w;
		uint32_t rows, cols;
	} weights[] = {
		{ "attn_q", &y->wq, q, m->dim },       { "attn_k", &y->wk, kv, m->dim },
		{ "attn_v", &y->wv, kv, m->dim },      { "attn_output", &y->wo, m->dim, q },
		{ "ffn_gate", &y->gate, m->ffn, m->dim }, { "ffn_up", &y->up, m->ffn, m->dim },
		{ "ffn_down", &y->down, m->dim, m->ffn },
	};
	char name[64];
	int r;

	snprintf(name, sizeof(name), "blk.%u.attn_norm.weight", i);
	if ((r = take_norm(l, name, &y->attn_norm)))
		return r;
	snprintf(name, sizeof(name), "blk.%u.ffn_norm.weight", i);
	if ((r = take_norm(l, name, &y->ffn_norm)))
		return r;
	for (size_t k = 0; k < sizeof(weights) / sizeof(weights[0]); k++) {
		snprintf(name, sizeof(name), "blk.%u.%s.weight", i, weights[k].name);
		r = take_weight(l, name, weights[k].w, weights[k].rows, weights[k].cols);
		if (r)
			return r;
	}
	return 0;
}

/* A tensor that we would ignore would make the answers wrong in silence. */
static int refuse_rest(struct loader *l)
{
	for (uint64_t i = 0; i < l->g->n_tensors; i++) {
		struct gguf_str n = l->g->tensors[i].name;

		if (!l->used[i])
			return model_fail(l->e, -EOPNOTSUPP,
					  "the model has a tensor '%.*s' that architecture llama, as supported here, does not use",
					  (int)(n.n < 100 ? n.n : 100), n.s);
	}
	return 0;
}

static int back(struct loader *l)
{
	struct model_full *full = (struct model_full *)l->m;
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	size_t size = (l->bytes + HUGE_SIZE - 1) & ~(HUGE_SIZE - 1);
	uintptr_t start;
	uint8_t *base;

	if (l->bytes > memory)
		return model_fail(l->e, -ENOMEM, "the weights need %.1f GiB, this machine has %.1f GiB of memory; use a smaller model or a smaller tensor type",
				  (double)l->bytes / (1 << 30), (double)memory / (1 << 30));
	gguf_digest(l->g, l->m->digest); /* reads the whole file: not before we know that it fits */
	base = mmap(NULL, size + HUGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED)
		return model_fail(l->e, -ENOMEM, "no address space for %.1f GiB of weights: raise the limit (ulimit -v) or use a smaller model",
				  (double)l->bytes / (1 << 30));
	full->map.base = base;
	full->map.size = size + HUGE_SIZE;
	start = ((uintptr_t)base + HUGE_SIZE - 1) & ~(HUGE_SIZE - 1);
	madvise((void *)start, size, MADV_HUGEPAGE);
	for (uint32_t i = 0; i < l->n_list; i++) {
		struct kern_weight *w = l->list[i].w;

		w->data = (uint8_t *)start + l->list[i].offset;
		kern_repack(w, l->list[i].t->data, NULL, 0, w->rows);
		gguf_drop(l->g, l->list[i].t->data, l->list[i].t->size);
	}
	l->m->weight_bytes = l->bytes;
	return 0;
}

int model_open(struct model **out, struct gguf *g, struct model_error *e)
{
	struct model_full *full = calloc(1, sizeof(*full));
	struct loader l = { .g = g, .e = e };
	const struct gguf_tensor *t;
	struct model *m;
	int r;

	if (!full)
		return model_fail(e, -ENOMEM, "no memory for the model");
	l.m = m = &full->m;
	l.used = calloc(g->n_tensors + 1, sizeof(*l.used));
	r = l.used ? read_shape(&l) : model_fail(e, -ENOMEM, "no memory for %" PRIu64 " tensors", g->n_tensors);
	if (r)
		goto fail;
	r = -EINVAL;
	t = gguf_tensor(g, "token_embd.weight");
	if (!t || t->dims[1] < 2 || t->dims[1] > VOCAB_MAX) {
		r = model_fail(e, -EINVAL, "the model file has no tensor 'token_embd.weight' with 2 to %u rows: it is damaged or of another kind; fetch it again",
			       VOCAB_MAX);
		goto fail;
	}
	m->vocab = (uint32_t)t->dims[1];
	m->layers = calloc(m->n_layers, sizeof(*m->layers));
	if (!m->layers) {
		r = model_fail(e, -ENOMEM, "no memory for %u layers", m->n_layers);
		goto fail;
	}
	if ((r = take_weight(&l, "token_embd.weight", &m->embed, m->vocab, m->dim)) ||
	    (r = take_norm(&l, "output_norm.weight", &m->output_norm)))
		goto fail;
	if (gguf_tensor(g, "output.weight") && (r = take_weight(&l, "output.weight", &m->output, m->vocab, m->dim)))
		goto fail;
	for (uint32_t i = 0; i < m->n_layers; i++) {
		r = take_layer(&l, i);
		if (r)
			goto fail;
	}
	if ((r = refuse_rest(&l)))
		goto fail;
	r = back(&l);
	if (r)
		goto fail;
	if (!m->output.data)
		m->output = m->embed;
	free(l.list);
	free(l.used);
	*out = m;
	return 0;
fail:
	free(l.list);
	free(l.used);
	model_close(m);
	return r;
}

void model_close(struct model *m)
{
	struct model_full *full = (struct model_full *)m;

	if (!m)
		return;
	for (uint32_t i = 0; m->layers && i < m->n_layers; i++) {
		free(m->layers[i].attn_norm);
		free(m->layers[i].ffn_norm);
	}
	free(m->layers);
	free(m->output_norm);
	if (full->map.base)
		munmap(full->map.base, full->map.size);
	free(full);
}
