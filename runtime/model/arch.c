// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* What a file says of its architecture: which one, its shape, its rotations. Every number is checked before it is believed. */
#include "arch.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define DIM_MAX (1u << 17)
#define CONTEXT_MAX (1u << 24)
#define SUPPORTED "llama, qwen2, qwen3, gemma3"

static const struct arch archs[] = {
	{ .name = "llama" },
	{ .name = "qwen2", .neox = true },
	{ .name = "qwen3", .neox = true, .qk_norm = true },
	{ .name = "gemma3", .neox = true, .qk_norm = true, .post_norm = true, .gelu = true, .scale_embed = true,
	  .pattern = 6, .local_base = 10000 },
};

struct reader {
	const struct gguf *g;
	const struct arch *arch;
	struct model_error *e;
	char key[128]; /* the last one asked for */
};

static const char *key(struct reader *r, const char *name)
{
	snprintf(r->key, sizeof(r->key), "%s.%s", r->arch->name, name);
	return r->key;
}

static int get_u32(struct reader *r, const char *name, uint64_t max, bool required, uint64_t fallback, uint32_t *out)
{
	const struct gguf_value *v = gguf_find(r->g, key(r, name));
	uint64_t x = fallback;

	if (!v && required)
		return model_fail(r->e, -EINVAL, "the model file has no '%s': it is damaged or not a language model; fetch it again", r->key);
	if (v && v->kind == GGUF_ARRAY)
		return model_fail(r->e, -EOPNOTSUPP, "'%s' differs from layer to layer: such models are not supported", r->key);
	if (v && !gguf_u64(r->g, r->key, &x))
		return model_fail(r->e, -EINVAL, "'%s' is not a whole number: the file is damaged; fetch it again", r->key);
	if (x < 1 || x > max)
		return model_fail(r->e, -EINVAL, "'%s' is %" PRIu64 ", supported are 1 to %" PRIu64, r->key, x, max);
	*out = (uint32_t)x;
	return 0;
}

/* @out keeps its value where the file has none. */
static int get_f64(struct reader *r, const char *name, double lo, double hi, double *out)
{
	const struct gguf_value *v = gguf_find(r->g, key(r, name));
	double x;

	if (!v)
		return 0;
	if (!gguf_f64(r->g, r->key, &x))
		return model_fail(r->e, -EINVAL, "'%s' is not a number: the file is damaged; fetch it again", r->key);
	if (!(x >= lo && x <= hi))
		return model_fail(r->e, -EINVAL, "'%s' is %g, supported are %g to %g", r->key, x, lo, hi);
	*out = x;
	return 0;
}

static int get_f32(struct reader *r, const char *name, double lo, double hi, float *out)
{
	double x = *out;
	int err = get_f64(r, name, lo, hi, &x);

	*out = (float)x;
	return err;
}

static int read_shape(struct reader *r, struct model *m)
{
	struct model_error *e = r->e;
	uint32_t value_length;
	double eps = 0;
	int err;

	if ((err = get_u32(r, "block_count", ARCH_LAYERS_MAX, true, 0, &m->n_layers)) ||
	    (err = get_u32(r, "context_length", CONTEXT_MAX, true, 0, &m->context)) ||
	    (err = get_u32(r, "embedding_length", DIM_MAX, true, 0, &m->dim)) ||
	    (err = get_u32(r, "feed_forward_length", DIM_MAX, true, 0, &m->ffn)) ||
	    (err = get_u32(r, "attention.head_count", 1024, true, 0, &m->n_heads)) ||
	    (err = get_u32(r, "attention.head_count_kv", 1024, false, m->n_heads, &m->n_kv_heads)) ||
	    (err = get_u32(r, "attention.key_length", KERN_HEAD_DIM_MAX, false, m->dim / m->n_heads, &m->head_dim)) ||
	    (err = get_u32(r, "attention.value_length", KERN_HEAD_DIM_MAX, false, m->head_dim, &value_length)) ||
	    (err = get_u32(r, "rope.dimension_count", KERN_HEAD_DIM_MAX, false, m->head_dim, &m->rope_dim)))
		return err;
	if (gguf_find(r->g, key(r, "expert_count")))
		return model_fail(e, -EOPNOTSUPP, "the model is a mixture of experts ('%s'), which is not supported; supported are dense models", r->key);
	if (m->head_dim % 8)
		return model_fail(e, -EOPNOTSUPP, "a head has %u values; supported are multiples of 8 up to %u", m->head_dim,
				  KERN_HEAD_DIM_MAX);
	if (value_length != m->head_dim)
		return model_fail(e, -EOPNOTSUPP, "a key has %u values and a value %u; supported are models where both are the same",
				  m->head_dim, value_length);
	if (m->n_heads % m->n_kv_heads)
		return model_fail(e, -EINVAL, "%u heads cannot share %u key/value heads evenly: the file is damaged", m->n_heads,
				  m->n_kv_heads);
	if (m->rope_dim % 2 || m->rope_dim > m->head_dim)
		return model_fail(e, -EINVAL, "'%s.rope.dimension_count' is %u, a head has %u values: the file is damaged",
				  r->arch->name, m->rope_dim, m->head_dim);
	if ((err = get_f64(r, "attention.layer_norm_rms_epsilon", 1e-30, 0.999, &eps)))
		return err;
	if (!(eps > 0))
		return model_fail(e, -EINVAL, "'%s' is missing: the file is damaged; fetch it again", r->key);
	m->eps = (float)eps;
	m->embed_scale = r->arch->scale_embed ? sqrtf((float)m->dim) : 1;
	m->attn_scale = 1.0f / sqrtf((float)m->head_dim);
	/* The one Gemma 3 whose heads are not what its scale comes from, and whose file does not say so. */
	if (r->arch->pattern && m->n_layers == 62)
		m->attn_scale = 1.0f / sqrtf((float)(m->dim / m->n_heads));
	if ((err = get_f32(r, "attention.scale", 1e-6, 1e6, &m->attn_scale)) ||
	    (err = get_f32(r, "attn_logit_softcapping", 0, 1e6, &m->attn_softcap)))
		return err;
	return get_f32(r, "final_logit_softcapping", 0, 1e6, &m->final_softcap);
}

/* Which layers see a window: where the architecture alternates all but each pattern-th, else all. */
static int read_window(struct reader *r, struct model *m)
{
	uint32_t pattern = r->arch->pattern, i;
	const struct gguf_value *v;
	uint64_t window = 0, on;

	if (gguf_find(r->g, key(r, "attention.sliding_window")) && !gguf_u64(r->g, r->key, &window))
		return model_fail(r->e, -EINVAL, "'%s' is not a whole number: the file is damaged; fetch it again", r->key);
	m->window = window < m->context ? (uint32_t)window : 0;
	v = gguf_find(r->g, key(r, "attention.sliding_window_pattern"));
	if (v && v->kind == GGUF_ARRAY) {
		for (i = 0; i < m->n_layers; i++) {
			if (v->count != m->n_layers || !gguf_item_u64(v, i, &on) || on > 1)
				return model_fail(r->e, -EINVAL, "'%s' has not one truth value a layer: the file is damaged; fetch it again", r->key);
			m->local[i] = on;
		}
		return 0;
	}
	if (v && (!gguf_u64(r->g, r->key, &on) || !on || on > ARCH_LAYERS_MAX))
		return model_fail(r->e, -EINVAL, "'%s' is not a whole number from 1 to %u: the file is damaged; fetch it again", r->key,
				  ARCH_LAYERS_MAX);
	if (v)
		pattern = (uint32_t)on;
	for (i = 0; i < m->n_layers; i++)
		m->local[i] = pattern ? i % pattern < pattern - 1 : m->window > 0;
	return 0;
}

static double yarn_dim(const struct model *m, double turns, double context, double base)
{
	return m->rope_dim * log(context / (turns * 2 * M_PI)) / (2 * log(base));
}

static int scale_yarn(struct reader *r, struct model *m, double factor, double base)
{
	double context = m->context, attn = 1, ext = 1, fast = 32, slow = 1, low, high, k;
	struct model_rope *rope = &m->rope[0];
	uint32_t i;
	int err;

	if ((err = get_f64(r, "rope.scaling.original_context_length", 1, CONTEXT_MAX, &context)) ||
	    (err = get_f64(r, "rope.scaling.attn_factor", 1e-3, 1e3, &attn)) ||
	    (err = get_f64(r, "rope.scaling.yarn_attn_factor", 1e-3, 1e3, &attn)) ||
	    (err = get_f64(r, "rope.scaling.yarn_ext_factor", 0, 1, &ext)) ||
	    (err = get_f64(r, "rope.scaling.yarn_beta_fast", 1e-3, 1e6, &fast)) ||
	    (err = get_f64(r, "rope.scaling.yarn_beta_slow", 1e-3, 1e6, &slow)))
		return err;
	low = fmax(0, floor(yarn_dim(m, fast, context, base)));
	high = fmin(m->rope_dim - 1, ceil(yarn_dim(m, slow, context, base)));
	for (i = 0; i < m->rope_dim / 2; i++) {
		k = (1 - fmin(1, fmax(0, (i - low) / fmax(0.001, high - low)))) * ext;
		rope->freq[i] = rope->freq[i] / factor * (1 - k) + rope->freq[i] * k;
	}
	rope->scale = ext > 0 ? attn * (1 + 0.1 * log(factor)) : attn;
	return 0;
}

static bool text_is(const struct gguf_str *s, const char *text)
{
	return s->n == strlen(text) && !memcmp(s->s, text, s->n);
}

static int read_factors(struct reader *r, struct model *m)
{
	const struct gguf_tensor *t = gguf_tensor(r->g, "rope_freqs.weight");
	uint32_t i;
	float f;

	if (!t)
		return 0;
	if (t->type != KERN_F32 || t->n_dims != 1 || t->dims[0] != m->rope_dim / 2)
		return model_fail(r->e, -EOPNOTSUPP, "tensor 'rope_freqs.weight' has type %s and %" PRIu64 " values in its rows; supported are F32 and %u",
				  kern_type_name(t->type), t->dims[0], m->rope_dim / 2);
	for (i = 0; i < m->rope_dim / 2; i++) {
		memcpy(&f, (const char *)t->data + i * sizeof(f), sizeof(f));
		if (!(f >= 1e-6f && f <= 1e6f))
			return model_fail(r->e, -EINVAL, "factor %u of tensor 'rope_freqs.weight' is %g, supported are 1e-6 to 1e6", i, f);
		m->rope[0].freq[i] /= f;
	}
	return 0;
}

static int read_rope(struct reader *r, struct model *m)
{
	double base = 10000, local, factor = 1;
	struct gguf_str type;
	uint32_t i;
	int err;

	if ((err = get_f64(r, "rope.freq_base", 1, 1e12, &base)))
		return err;
	local = r->arch->local_base > 0 ? r->arch->local_base : base;
	if ((err = get_f64(r, "rope.freq_base_swa", 1, 1e12, &local)) ||
	    (err = get_f64(r, "rope.scale_linear", 1e-3, 1e6, &factor)) ||
	    (err = get_f64(r, "rope.scaling.factor", 0, 1e6, &factor)))
		return err;
	for (i = 0; i < m->rope_dim / 2; i++) {
		m->rope[0].freq[i] = pow(base, -2.0 * i / m->rope_dim);
		m->rope[1].freq[i] = pow(local, -2.0 * i / m->rope_dim);
	}
	m->rope[0].scale = m->rope[1].scale = 1;
	if ((err = read_factors(r, m)))
		return err;
	if (!(factor > 0))
		factor = 1; /* some files say 0 for none */
	if (!gguf_string(r->g, key(r, "rope.scaling.type"), &type))
		type = (struct gguf_str){ factor == 1 ? "none" : "linear", factor == 1 ? 4 : 6 };
	if (text_is(&type, "linear")) {
		for (i = 0; i < m->rope_dim / 2; i++)
			m->rope[0].freq[i] /= factor;
	} else if (text_is(&type, "yarn")) {
		if ((err = scale_yarn(r, m, factor, base)))
			return err;
	} else if (!text_is(&type, "none")) {
		return model_fail(r->e, -EOPNOTSUPP,
				  "the model scales its positions in a way ('%s.rope.scaling.type' is '%.*s') that is not supported; supported are: none, linear, yarn",
				  r->arch->name, (int)(type.n < 64 ? type.n : 64), type.s);
	}
	if (!(r->arch->local_base > 0))
		m->rope[1] = m->rope[0];
	return 0;
}

/* Whatever keys depend on beside the weights. */
static void name_keys(const struct reader *r, struct model *m)
{
	crypto_generichash_state h;
	const float numbers[] = { m->eps, m->embed_scale, m->attn_scale, m->attn_softcap };
	const uint32_t counts[] = { m->rope_dim, m->head_dim, m->window, r->arch->neox };

	crypto_generichash_init(&h, NULL, 0, sizeof(m->rope_key));
	crypto_generichash_update(&h, (const void *)r->arch->name, strlen(r->arch->name) + 1);
	crypto_generichash_update(&h, (const void *)numbers, sizeof(numbers));
	crypto_generichash_update(&h, (const void *)counts, sizeof(counts));
	crypto_generichash_update(&h, (const void *)m->local, m->n_layers * sizeof(*m->local));
	for (int i = 0; i < 2; i++) {
		crypto_generichash_update(&h, (const void *)m->rope[i].freq, m->rope_dim / 2 * sizeof(double));
		crypto_generichash_update(&h, (const void *)&m->rope[i].scale, sizeof(double));
	}
	crypto_generichash_final(&h, m->rope_key, sizeof(m->rope_key));
}

int arch_read(struct model *m, const struct gguf *g, const struct arch **arch, struct model_error *e)
{
	struct reader r = { .g = g, .e = e };
	struct gguf_str name;
	int err;

	if (!gguf_string(g, "general.architecture", &name))
		return model_fail(e, -EINVAL, "the model file does not name its architecture ('general.architecture'): it is damaged or not a model; fetch it again");
	for (size_t i = 0; i < sizeof(archs) / sizeof(*archs); i++)
		if (text_is(&name, archs[i].name))
			r.arch = &archs[i];
	if (!r.arch)
		return model_fail(e, -EOPNOTSUPP, "architecture '%.*s' is not supported; supported are: " SUPPORTED,
				  (int)(name.n < 64 ? name.n : 64), name.s);
	*arch = r.arch;
	m->arch = r.arch->name;
	m->gelu = r.arch->gelu;
	if ((err = read_shape(&r, m)) || (err = read_window(&r, m)) || (err = read_rope(&r, m)))
		return err;
	name_keys(&r, m);
	return 0;
}
