// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Keys and values into pages, and attention over them. */
#include <assert.h>

#include "c.h"
#include "impl.h"

static void row_store(void *dst, const float *x, uint32_t n, bool f32)
{
	uint32_t i;

	if (f32) {
		memcpy(dst, x, n * sizeof(*x));
		return;
	}
	for (i = 0; i < n; i++)
		((uint16_t *)dst)[i] = kern_f16_from_f32(x[i]);
}

static void row_load(float *x, const void *src, uint32_t n, bool f32)
{
	uint32_t i;

	if (f32) {
		memcpy(x, src, n * sizeof(*x));
		return;
	}
	for (i = 0; i < n; i++)
		x[i] = kern_f16_to_f32(((const uint16_t *)src)[i]);
}

void c_append(const struct kern_append *a, uint32_t i0, uint32_t i1)
{
	size_t row_bytes = (size_t)a->head_dim * (a->kv_f32 ? 4 : 2);
	float k[KERN_HEAD_DIM_MAX];
	uint32_t i, h;

	assert(a->head_dim <= KERN_HEAD_DIM_MAX && a->rope_dim <= a->head_dim);
	for (i = i0; i < i1; i++) {
		uint32_t pos = a->pos0 + i;
		char *page = (char *)a->pages[pos / a->page_tokens] + a->layer_offset;

		for (h = 0; h < a->n_kv_heads; h++) {
			char *dst = page + h * a->head_stride + pos % a->page_tokens * row_bytes;

			memcpy(k, a->k + (size_t)i * a->k_ld + h * a->head_dim, a->head_dim * sizeof(*k));
			c_rope(k, 1, a->head_dim, a->rope_dim, a->rope + (size_t)pos * a->rope_dim);
			row_store(dst, k, a->head_dim, a->kv_f32);
			row_store(dst + a->v_offset, a->v + (size_t)i * a->v_ld + h * a->head_dim, a->head_dim,
				  a->kv_f32);
		}
	}
}

struct softmax {
	float m, l;
	float o[KERN_HEAD_DIM_MAX];
};

/* Keys [j0 + skip, j0 + n) of a tile, skip < n <= 32. */
static void tile(const struct kern_attn *a, uint32_t kvh, const float *q, uint32_t j0, uint32_t skip, uint32_t n,
		 bool first, struct softmax *st)
{
	float p[KERN_ATTN_TILE], row[KERN_HEAD_DIM_MAX], acc[8] = { 0 }, m = st->m, c;
	uint32_t j, d, run;

	for (j = skip; j < n; j++) {
		const void *k = page_rows(a, a->layer_offset, kvh, j0 + j, &run);

		row_load(row, k, a->head_dim, a->kv_f32);
		p[j] = dot(q, row, a->head_dim) * a->scale;
		if (a->softcap > 0)
			p[j] = tanh_one(p[j] / a->softcap) * a->softcap;
		if (p[j] > m)
			m = p[j];
	}
	c = first ? 0.0f : exp_one(st->m - m);
	for (j = skip; j < n; j++) {
		p[j] = exp_one(p[j] - m);
		acc[j & 7] += p[j];
	}
	st->l = fmaf(st->l, c, tree(acc));
	st->m = m;
	for (d = 0; d < a->head_dim; d++)
		st->o[d] *= c;
	for (j = skip; j < n; j++) {
		const void *v = page_rows(a, a->layer_offset + a->v_offset, kvh, j0 + j, &run);

		row_load(row, v, a->head_dim, a->kv_f32);
		for (d = 0; d < a->head_dim; d++)
			st->o[d] = fmaf(p[j], row[d], st->o[d]);
	}
}

void c_attention(const struct kern_attn *a, uint32_t kvh, uint32_t i0, uint32_t i1)
{
	uint32_t ratio = a->n_heads / a->n_kv_heads, i, h, j, j0, d, keys, low;
	struct softmax st;

	assert(a->head_dim % 8 == 0 && a->head_dim <= KERN_HEAD_DIM_MAX);
	for (i = i0; i < i1; i++) {
		keys = a->pos0 + i + 1;
		low = a->window && keys > a->window ? keys - a->window : 0;
		j0 = low / KERN_ATTN_TILE * KERN_ATTN_TILE;
		for (h = kvh * ratio; h < (kvh + 1) * ratio; h++) {
			size_t at = (size_t)i * a->q_ld + h * a->head_dim;

			st = (struct softmax){ .m = -INFINITY };
			for (j = j0; j < keys; j += KERN_ATTN_TILE)
				tile(a, kvh, a->q + at, j, low > j ? low - j : 0,
				     keys - j < KERN_ATTN_TILE ? keys - j : KERN_ATTN_TILE, j == j0, &st);
			for (d = 0; d < a->head_dim; d++)
				a->out[at + d] = st.o[d] / st.l;
		}
	}
}
