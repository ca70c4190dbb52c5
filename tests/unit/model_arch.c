// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* What a file says of its architecture: read as it stands, and refused with a sentence that names what and what would do. */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "runtime/model/model.h"
#include "tests/lib/gguf_write.h"
#include "tests/lib/tap.h"

static struct model m; /* what shape_of() read */
static struct model_error error;

struct setting {
	const char *key; /* after the architecture's name and a dot */
	uint32_t kind; /* 0: whole, 1: number, 2: text, 3: none at all */
	double number;
	const char *text;
};

static void put(struct gguf_write *w, const char *arch, const struct setting *s)
{
	char key[128];

	snprintf(key, sizeof(key), "%s.%s", arch, s->key);
	if (s->kind == 0)
		gw_value_u32(w, key, (uint32_t)s->number);
	else if (s->kind == 1)
		gw_value_f32(w, key, (float)s->number);
	else if (s->kind == 2)
		gw_value_str(w, key, s->text);
}

/* A small file of @arch with @n settings more, or other ones; @factors: of rope_freqs.weight, or NULL. */
static int shape_of(const char *arch, const struct setting *set, size_t n, const float *factors)
{
	static const struct setting base[] = {
		{ "block_count", 0, 7, NULL },		     { "context_length", 0, 4096, NULL },
		{ "embedding_length", 0, 64, NULL },	     { "feed_forward_length", 0, 96, NULL },
		{ "attention.head_count", 0, 4, NULL },	     { "attention.head_count_kv", 0, 2, NULL },
		{ "attention.key_length", 0, 32, NULL },     { "attention.layer_norm_rms_epsilon", 1, 1e-5, NULL },
		{ "rope.freq_base", 1, 50000, NULL },
	};
	const uint64_t dims[2] = { 64, 10 }, half = 16;
	static float embed[640];
	struct gguf_write w;
	struct gguf g;
	uint8_t *file;
	size_t size, i, k;
	int r;

	gw_init(&w);
	gw_value_str(&w, "general.architecture", arch);
	for (i = 0; i < sizeof(base) / sizeof(*base); i++) {
		for (k = 0; k < n && strcmp(set[k].key, base[i].key); k++)
			;
		if (k == n)
			put(&w, arch, &base[i]);
	}
	for (k = 0; k < n; k++)
		put(&w, arch, &set[k]);
	gw_tensor(&w, "token_embd.weight", 0, 2, dims, embed, sizeof(embed));
	if (factors)
		gw_tensor(&w, "rope_freqs.weight", 0, 1, &half, factors, 64);
	file = gw_end(&w, &size);
	r = gguf_parse(&g, file, size, "memory", &error);
	if (r) {
		printf("# %s\n", error.text);
		exit(1);
	}
	error.text[0] = 0;
	r = model_shape(&m, &g, &error);
	gguf_close(&g);
	free(file);
	return r;
}

/* Refused with words that the message has. */
static void refused(const char *arch, struct setting s, int want, const char *word, const char *other)
{
	int r = shape_of(arch, &s, 1, NULL);

	ok(r == want && strstr(error.text, word) && strstr(error.text, other), "%s", r ? error.text : "not refused");
}

static bool near(double a, double b)
{
	return fabs(a - b) <= 1e-12 * fabs(b);
}

/* Every pair's angle is as linear scaling, or none, has it. */
static bool angles(const struct model_rope *rope, double base, double factor)
{
	for (int i = 0; i < 16; i++)
		if (!near(rope->freq[i], pow(base, -i / 16.0) / factor))
			return false;
	return true;
}

static void test_rotations(void)
{
	static const struct setting linear[] = { { "rope.scaling.type", 2, 0, "linear" }, { "rope.scaling.factor", 1, 8, NULL } };
	static const struct setting yarn[] = { { "rope.scaling.type", 2, 0, "yarn" },
					       { "rope.scaling.factor", 1, 4, NULL },
					       { "rope.scaling.original_context_length", 0, 1024, NULL } };
	float factors[16];
	uint8_t key[32];
	bool good = true;
	double low, high, k;
	int i;

	ok(!shape_of("llama", NULL, 0, NULL) && angles(&m.rope[0], 50000, 1) && m.rope[0].scale == 1, "plain rotation");
	memcpy(key, m.rope_key, sizeof(key));
	ok(!shape_of("llama", linear, 2, NULL) && angles(&m.rope[0], 50000, 8), "linear scaling");
	ok(memcmp(key, m.rope_key, sizeof(key)), "other keys have another name");
	ok(!shape_of("llama", linear + 1, 1, NULL) && angles(&m.rope[0], 50000, 8), "a factor alone is linear");
	ok(!shape_of("llama", NULL, 0, NULL) && !memcmp(key, m.rope_key, sizeof(key)), "the same ones the same");
	ok(!shape_of("gemma3", linear, 2, NULL) && angles(&m.rope[0], 50000, 8) && angles(&m.rope[1], 10000, 1),
	   "local layers of gemma3 have their own base and no scaling");
	for (i = 0; i < 16; i++)
		factors[i] = 1 + (float)i / 4;
	ok(!shape_of("llama", NULL, 0, factors), "factors");
	for (i = 0; i < 16; i++)
		good &= near(m.rope[0].freq[i], pow(50000, -i / 16.0) / factors[i]);
	ok(good && memcmp(key, m.rope_key, sizeof(key)), "each pair is divided by its own");
	factors[3] = NAN;
	ok(shape_of("llama", NULL, 0, factors) && strstr(error.text, "factor 3"), "%s", error.text);

	ok(!shape_of("llama", yarn, 3, NULL), "YaRN");
	/* pairs by how often they turn within the first context: over 32 times as they are, under once four times slower */
	low = floor(32 * log(1024 / (32 * 2 * M_PI)) / (2 * log(50000)));
	high = ceil(32 * log(1024 / (2 * M_PI)) / (2 * log(50000)));
	for (good = true, i = 0; i < 16; i++) {
		k = fmin(1, fmax(0, (i - low) / (high - low)));
		good &= near(m.rope[0].freq[i], pow(50000, -i / 16.0) * (1 - k + k / 4));
	}
	ok(good && m.rope[0].freq[0] == 1 && near(m.rope[0].freq[15], pow(50000, -15 / 16.0) / 4), "quick pairs stay, slow ones are stretched");
	ok(near(m.rope[0].scale, 0.1 * log(4) + 1), "and the scores grow");
}

static uint32_t local_layers(void)
{
	uint32_t mask = 0, i;

	for (i = 0; i < m.n_layers; i++)
		mask |= (uint32_t)m.local[i] << i;
	return mask;
}

static void test_windows(void)
{
	static const struct setting set[] = { { "attention.sliding_window", 0, 128, NULL },
					      { "attention.sliding_window_pattern", 0, 3, NULL } };
	static const struct setting wide = { "attention.sliding_window", 0, 4096, NULL };

	ok(!shape_of("llama", set, 1, NULL) && m.window == 128 && local_layers() == 0x7f, "all layers of a llama see the window");
	ok(!shape_of("llama", &wide, 1, NULL) && !m.window, "a window as wide as the context is none");
	ok(!shape_of("gemma3", set, 1, NULL) && m.window == 128 && local_layers() == 0x5f, "five of six layers of gemma3 do");
	ok(!shape_of("gemma3", set, 2, NULL) && local_layers() == 0x5b, "or two of three, where the file says so");
	ok(!shape_of("qwen3", NULL, 0, NULL) && !m.window && !local_layers(), "or none");
}

static void test_refused(void)
{
	refused("mamba", (struct setting){ "x", 3, 0, NULL }, -EOPNOTSUPP, "mamba", "llama, qwen2, qwen3, gemma3");
	refused("llama", (struct setting){ "rope.scaling.type", 2, 0, "longrope" }, -EOPNOTSUPP, "longrope", "none, linear, yarn");
	refused("qwen2", (struct setting){ "expert_count", 0, 8, NULL }, -EOPNOTSUPP, "qwen2.expert_count", "dense");
	refused("gemma3", (struct setting){ "attention.value_length", 0, 64, NULL }, -EOPNOTSUPP, "32", "64");
	refused("llama", (struct setting){ "attention.key_length", 0, 20, NULL }, -EOPNOTSUPP, "20", "multiples of 8");
	refused("llama", (struct setting){ "attention.key_length", 0, 512, NULL }, -EINVAL, "key_length", "1 to 256");
	refused("qwen3", (struct setting){ "block_count", 3, 0, NULL }, -EINVAL, "qwen3.block_count", "fetch it again");
	refused("qwen3", (struct setting){ "block_count", 0, 5000, NULL }, -EINVAL, "5000", "1 to 1024");
	refused("llama", (struct setting){ "attention.head_count_kv", 0, 3, NULL }, -EINVAL, "4 heads", "3 key/value heads");
	refused("llama", (struct setting){ "rope.dimension_count", 0, 64, NULL }, -EINVAL, "64", "32");
	refused("llama", (struct setting){ "attention.layer_norm_rms_epsilon", 3, 0, NULL }, -EINVAL, "epsilon", "missing");
	refused("llama", (struct setting){ "rope.freq_base", 1, -3, NULL }, -EINVAL, "-3", "1 to 1e+12");
	refused("llama", (struct setting){ "rope.freq_base", 2, 0, "big" }, -EINVAL, "freq_base", "not a number");
	refused("gemma3", (struct setting){ "attention.sliding_window", 2, 0, "big" }, -EINVAL, "sliding_window", "not a whole number");
	refused("gemma3", (struct setting){ "attention.sliding_window_pattern", 0, 0, NULL }, -EINVAL, "pattern", "1 to 1024");
	refused("gemma3", (struct setting){ "final_logit_softcapping", 1, INFINITY, NULL }, -EINVAL, "softcapping", "inf");
}

int main(void)
{
	ok(!shape_of("gemma3", NULL, 0, NULL) && m.embed_scale == 8 && m.gelu && m.attn_scale == 1 / sqrtf(32), "gemma3's scales");
	ok(!shape_of("qwen2", NULL, 0, NULL) && m.embed_scale == 1 && !m.gelu && m.vocab == 10 && m.head_dim == 32, "qwen2's shape");
	test_rotations();
	test_windows();
	test_refused();
	return done();
}
