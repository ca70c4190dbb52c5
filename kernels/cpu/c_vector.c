// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Operations on single rows: norm, rotation, exp and what is made of it. */
#include "c.h"
#include "impl.h"

void c_rmsnorm(float *y, const float *x, const float *w, uint32_t n, float eps)
{
	float scale = 1.0f / sqrtf(dot(x, x, n) / (float)n + eps);
	uint32_t i;

	for (i = 0; i < n; i++)
		y[i] = (x[i] * scale) * w[i];
}

void c_rope(float *x, uint32_t heads, uint32_t head_dim, uint32_t rope_dim, const float *rope)
{
	uint32_t h, i;

	for (h = 0; h < heads; h++, x += head_dim) {
		for (i = 0; i < rope_dim; i += 2) {
			float x0 = x[i], x1 = x[i + 1], c = rope[i], s = rope[i + 1];

			x[i] = fmaf(x0, c, -(x1 * s));
			x[i + 1] = fmaf(x0, s, x1 * c);
		}
	}
}

void c_swiglu(float *y, const float *g, const float *u, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		y[i] = g[i] / (1.0f + exp_one(-g[i])) * u[i];
}

void c_geglu(float *y, const float *g, const float *u, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		y[i] = gelu_one(g[i]) * u[i];
}

void c_softcap(float *x, uint32_t n, float cap)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		x[i] = tanh_one(x[i] / cap) * cap;
}

void c_add(float *x, const float *y, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		x[i] += y[i];
}

void c_exp(float *x, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		x[i] = exp_one(x[i]);
}

float c_max(const float *x, uint32_t n, bool *finite)
{
	float m = -INFINITY;
	uint32_t i;

	*finite = true;
	for (i = 0; i < n; i++) {
		if (!isfinite(x[i]))
			*finite = false;
		if (x[i] > m)
			m = x[i];
	}
	return m + 0.0f;
}

float c_expsum(const float *x, uint32_t n, float sub)
{
	float acc[8] = { 0 };
	uint32_t i;

	for (i = 0; i < n; i++)
		acc[i & 7] += exp_one(x[i] - sub);
	return tree(acc);
}

const struct kern_ops kern_ops_c = {
	.name = "c",
	.quantise = c_quantise,
	.product = c_product,
	.rmsnorm = c_rmsnorm,
	.rope = c_rope,
	.append = c_append,
	.attention = c_attention,
	.swiglu = c_swiglu,
	.geglu = c_geglu,
	.softcap = c_softcap,
	.add = c_add,
	.exp = c_exp,
	.max = c_max,
	.expsum = c_expsum,
};
