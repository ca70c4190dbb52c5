// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * Every operation of every implementation against float64, within bounds that follow from the definition: so many
 * roundings of at most EPS each. The worst share of each bound that was seen is printed.
 */
#include "kern_test.h"

static const struct kern_ops *ops;
static double worst; /* share of the bound */

static int within(double got, double want, double bound)
{
	double share = bound > 0 ? fabs(got - want) / bound : got == want ? 0 : INFINITY;

	if (!(share <= worst))
		worst = share;
	return share <= 1;
}

static double half(uint16_t h)
{
	return ldexp((h & 0x3ff) | (h & 0x7c00 ? 0x400 : 0), (h >> 10 & 31 ? h >> 10 & 31 : 1) - 25) * (h & 0x8000 ? -1 : 1);
}

/* Element (r, c) of a file's matrix; for quantised types also its block's integer, scale and minimum. */
static double element(enum kern_type type, const uint8_t *file, uint32_t cols, uint32_t r, uint32_t c, int *q, double *d,
		      double *m)
{
	const uint8_t *row = file + r * kern_row_bytes(type, cols);
	uint16_t h;
	uint32_t u;
	float x;

	*m = 0;
	switch ((uint32_t)type) {
	case KERN_F32:
		memcpy(&x, row + c * 4, 4);
		return x;
	case KERN_F16:
		memcpy(&h, row + c * 2, 2);
		return half(h);
	case KERN_BF16:
		memcpy(&h, row + c * 2, 2);
		u = (uint32_t)h << 16;
		memcpy(&x, &u, 4);
		return x;
	}
	format_read(type, row, c, half, q, d, m);
	return *d * *q + *m;
}

static int product(enum kern_type type)
{
	uint32_t rows = between(1, 40), n = between(1, 9), r, t, i;
	uint32_t cols = some_cols(type, 1, 50, 700), parts = type == KERN_Q6_K ? 3 : 2;
	uint32_t ld = (cols + KERN_BLOCK - 1) / KERN_BLOCK * KERN_BLOCK;
	uint8_t *file = file_matrix(type, rows, cols, PLAIN);
	struct kern_weight w = weight_from(type, rows, cols, file);
	float *in = values_of(PLAIN, (size_t)n * cols), *y = floats((size_t)n * rows);
	struct act x = act_new(ops, kern_type_levels(type), n, cols, ld, in);
	int good = 1;

	ops->product(&w, 0, rows, &x.a, n, y, rows);
	for (t = 0; t < n; t++) {
		for (r = 0; r < rows; r++) {
			double want = 0, magnitude = 0, coarse = 0, exact = 0, d = 0, m = 0, v, s = 0;
			int q = 0;

			for (i = 0; i < cols; i++) {
				double xi = in[(size_t)t * cols + i];

				v = element(type, file, cols, r, i, &q, &d, &m);
				want += v * xi;
				if (!kern_type_quantised(type)) {
					magnitude += fabs(v * xi);
					continue;
				}
				if (i % 32 == 0)
					s = 0;
				exact += d * q * x.a.d[((size_t)t * ld + i) / 32] * x.a.q[(size_t)t * ld + i];
				exact += m * x.a.d[((size_t)t * ld + i) / 32] * x.a.q[(size_t)t * ld + i];
				s += x.a.d[((size_t)t * ld + i) / 32] * x.a.q[(size_t)t * ld + i];
				magnitude += fabs(d * q * xi);
				/* an integer is off by half a step, and by the rounding of x * r */
				coarse += fabs(v) * x.a.d[((size_t)t * ld + i) / 32] * 0.501;
				if (i % 32 == 31)
					magnitude += fabs(m * s);
			}
			v = y[(size_t)t * rows + r];
			if (!kern_type_quantised(type)) {
				good &= within(v, want, (cols / 8 + 5) * EPS * magnitude + 1e-45);
			} else {
				/* two roundings of the terms, one a scale and a minimum of the chain */
				good &= within(v, exact, ((double)parts * cols / 32 + 4) * EPS * magnitude * 1.001 + 1e-45);
				good &= fabs(v - want) <= coarse + ((double)parts * cols / 32 + 4) * EPS * magnitude * 1.001;
			}
		}
	}
	act_free(&x), free(w.data), free(file), free(in), free(y);
	return good;
}

static int quantise(void)
{
	uint32_t cols = KERN_BLOCK * between(1, 8), levels = below(3) ? below(2) ? 4095 : 16383 : 32767, i, b;
	float *x = values_of(WIDE, cols);
	struct act a = act_new(ops, levels, 1, cols, cols, x);
	int good = 1;

	for (b = 0; b < cols / 32; b++) {
		double amax = 0, sum = 0;
		int top = 0;

		for (i = b * 32; i < b * 32 + 32; i++)
			amax = fmax(amax, fabs(x[i]));
		good &= within(a.a.d[b], amax / levels, amax / levels * EPS);
		for (i = b * 32; i < b * 32 + 32; i++) {
			good &= within(a.a.q[i] * (double)a.a.d[b], x[i], a.a.d[b] * (0.5 + 3 * EPS * levels));
			sum += a.a.q[i];
			top = abs(a.a.q[i]) > top ? abs(a.a.q[i]) : top;
		}
		good &= top == (int)levels;
		good &= within(a.a.s[b], sum * a.a.d[b], fabs(sum * a.a.d[b]) * EPS);
	}
	act_free(&a), free(x);
	return good;
}

static int rmsnorm(void)
{
	uint32_t n = between(1, 1500), i;
	float *x = values_of(PLAIN, n), *w = values_of(PLAIN, n), *y = floats(n);
	double ss = 0, v;
	int good = 1;

	ops->rmsnorm(y, x, w, n, 1e-5f);
	for (i = 0; i < n; i++)
		ss += (double)x[i] * x[i];
	for (i = 0; i < n; i++) {
		v = x[i] / sqrt(ss / n + 1e-5f) * w[i];
		/* half of the sum's error survives the root */
		good &= within(y[i], v, fabs(v) * EPS * ((n / 8 + 5) / 2.0 + 6));
	}
	free(x), free(w), free(y);
	return good;
}

/* Distance from the exact value, in units of the last place of the result. */
static double exp_ulps(float x, float y)
{
	double e = exp((double)x), ulp = ldexp(1, (e > 0x1p-126 ? ilogb(e) : -126) - 23);

	return fabs(y - e) / ulp;
}

static int exponential(void)
{
	float x[512], y[512];
	double most = 0;
	int i, k;

	for (k = 0; k < 1000; k++) {
		for (i = 0; i < 512; i++)
			y[i] = x[i] = below(4) ? value(PLAIN) * (below(2) ? 88 : 2) : value(WIDE);
		ops->exp(y, 512);
		for (i = 0; i < 512; i++) {
			if (x[i] < -87) {
				if (y[i] != 0)
					return 0;
			} else if (x[i] <= 88) {
				most = fmax(most, exp_ulps(x[i], y[i]));
			}
		}
	}
	printf("# exp: at most %.3f ulp\n", most);
	worst = fmax(worst, most);
	return most < 1;
}

static int gate(void)
{
	uint32_t n = between(1, 300), i;
	float *g = values_of(PLAIN, n), *u = values_of(PLAIN, n), *y = floats(n);
	double v;
	int good = 1;

	for (i = 0; i < n; i++)
		g[i] *= 40;
	ops->swiglu(y, g, u, n);
	for (i = 0; i < n; i++) {
		v = g[i] / (1 + exp(-(double)g[i])) * u[i];
		good &= within(y[i], v, fabs(v) * EPS * 6 + 1e-45);
	}
	for (i = 0; i < n; i++)
		g[i] /= 5;
	ops->geglu(y, g, u, n);
	for (i = 0; i < n; i++) {
		double z = sqrt(2 / M_PI) * (g[i] + 0.044715 * pow(g[i], 3));

		v = g[i] / (1 + exp(-2 * z)) * u[i];
		/* the exponent's roundings */
		good &= within(y[i], v, fabs(v) * EPS * (6 + 8 * fabs(z)) + 1e-36);
	}
	memcpy(y, g, n * 4);
	ops->softcap(y, n, 3);
	for (i = 0; i < n; i++)
		good &= within(y[i], 3 * tanh(g[i] / 3.0), fabs(3 * tanh(g[i] / 3.0)) * EPS * 12);
	memcpy(y, g, n * 4);
	ops->add(y, u, n);
	for (i = 0; i < n; i++)
		good &= y[i] == g[i] + u[i];
	free(g), free(u), free(y);
	return good;
}

static int sums(void)
{
	uint32_t n = between(1, 3000), i;
	float *x = values_of(PLAIN, n), top, s;
	double want = 0, most = -1;
	bool finite;
	int good;

	for (i = 0; i < n; i++) {
		x[i] *= 20;
		most = fmax(most, x[i]);
	}
	top = ops->max(x, n, &finite);
	good = finite && (n == 1 ? top == x[0] : top == fmax(most, -1e9) || most < 0);
	s = ops->expsum(x, n, 20);
	for (i = 0; i < n; i++)
		want += exp((double)x[i] - 20);
	/* the argument's rounding, one unit of exp, the chain */
	good &= within(s, want, want * EPS * (40 + 3 + n / 8 + 4));
	free(x);
	return good;
}

static int rope(void)
{
	uint32_t dim = 8 * between(1, 16), rope_dim = 2 * between(1, dim / 2), i, pos = between(0, 4000);
	float *table = floats((size_t)(pos + 1) * rope_dim), *row = table + (size_t)pos * rope_dim;
	float *x = values_of(PLAIN, dim), *y = floats(dim);
	double base = 10000 * (1 + 50.0 * below(3)), a, v;
	int good = 1;

	kern_rope_table(table, pos + 1, rope_dim, base);
	memcpy(y, x, dim * 4);
	ops->rope(y, 1, dim, rope_dim, row);
	for (i = 0; i < rope_dim; i += 2) {
		a = pos * pow(base, -(double)i / rope_dim);
		good &= within(row[i], cos(a), fabs(cos(a)) * EPS + 1e-12);
		good &= within(row[i + 1], sin(a), fabs(sin(a)) * EPS + 1e-12);
		v = fabs(x[i]) + fabs(x[i + 1]);
		good &= within(y[i], x[i] * cos(a) - x[i + 1] * sin(a), v * 2.5 * EPS);
		good &= within(y[i + 1], x[i] * sin(a) + x[i + 1] * cos(a), v * 2.5 * EPS);
	}
	good &= same(x + rope_dim, y + rope_dim, dim - rope_dim);
	free(table), free(x), free(y);
	return good;
}

/* What a page holds of row @at. */
static double stored(double x, bool f32)
{
	return f32 ? x : kern_f16_to_f32(kern_f16_from_f32((float)x));
}

static int attention(void)
{
	uint32_t dims[] = { 8, 24, 64, 128, 256 }, dim = dims[below(5)], kv_heads = between(1, 3), ratio = between(1, 5);
	uint32_t keys = between(1, 150), n_q = between(1, keys), h, i, j, d;
	bool f32 = below(2);
	size_t row = (size_t)kv_heads * dim, n = (size_t)n_q * row * ratio;
	float *k = values_of(PLAIN, keys * row), *v = values_of(PLAIN, keys * row), *q = values_of(PLAIN, n), *out = floats(n);
	/* Without rotation, so that the exact keys are known; rope has its own test. */
	struct kv kv = kv_new(ops, keys, kv_heads, ratio, dim, 0, f32, between(1, 40), k, v);
	uint32_t window = below(2) ? between(1, keys) : keys, low;
	float cap = below(2) ? (float)between(2, 30) : 0;
	double s[150], scale = kv.attn.scale;
	int good = 1;

	for (i = 0; i < n; i++)
		q[i] *= 8;
	kv.attn.q = q;
	kv.attn.out = out;
	kv.attn.n_q = n_q;
	kv.attn.pos0 = keys - n_q;
	kv.attn.window = window < keys ? window : 0;
	kv.attn.softcap = cap;
	for (h = 0; h < kv_heads; h++)
		ops->attention(&kv.attn, h, 0, n_q);
	for (i = 0; i < n_q; i++) {
		for (h = 0; h < kv_heads * ratio; h++) {
			const float *qr = q + (i * kv_heads * ratio + h) * dim;
			double sum = 0, most = 0, top = -INFINITY, m;

			low = kv.attn.pos0 + i + 1 > window ? kv.attn.pos0 + i + 1 - window : 0;
			for (j = low; j <= kv.attn.pos0 + i; j++) {
				for (s[j] = m = 0, d = 0; d < dim; d++) {
					double kd = stored(k[j * row + h / ratio * dim + d], f32);

					s[j] += qr[d] * kd * scale;
					m += fabs(qr[d] * kd) * scale;
				}
				most = fmax(most, m + 2 * cap);
				s[j] = cap > 0 ? tanh(s[j] / cap) * cap : s[j];
				top = fmax(top, s[j]);
			}
			for (j = low; j <= kv.attn.pos0 + i; j++)
				sum += s[j] = exp(s[j] - top);
			for (d = 0; d < dim; d++) {
				double o = 0;

				for (j = low; j <= kv.attn.pos0 + i; j++)
					o += s[j] / sum * stored(v[j * row + h / ratio * dim + d], f32);
				/* the scores' error acts on numerator and denominator; |v| <= 1 */
				good &= within(out[(i * kv_heads * ratio + h) * dim + d], o,
					       EPS * (2 * (dim / 8 + 6) * most + keys + 20));
			}
		}
	}
	kv_free(&kv), free(k), free(v), free(q), free(out);
	return good;
}

static int run(int times, int (*test)(void))
{
	int good = 1;

	worst = 0;
	while (times-- && good)
		good = test();
	return good;
}

int main(int argc, char **argv)
{
	static const char *const impl[] = { "c", "avx2", "avxvnni", "avx512" };
	unsigned int k, i, good;

	seed = tap_seed(argc, argv);
	for (k = 0; k < sizeof(impl) / sizeof(*impl); k++) {
		ops = kern_ops_get(impl[k]);
		if (!ops) {
			printf("# no %s on this CPU\n", impl[k]);
			continue;
		}
		for (i = 0; i < N_TYPES; i++) {
			int times = 20;

			worst = 0;
			for (good = 1; good && times--;)
				good = product(all_types[i]);
			ok(good, "%s: product %s (%.2f of the bound)", impl[k], kern_type_name(all_types[i]), worst);
		}
#define TEST(n, f) good = run(n, f), ok(good, "%s: " #f " (%.2f of the bound)", impl[k], worst)
		TEST(50, quantise);
		TEST(50, rmsnorm);
		TEST(1, exponential);
		TEST(50, gate);
		TEST(50, sums);
		TEST(30, rope);
		TEST(20, attention);
	}
	return done();
}
