// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Sampling against a plain restatement that sorts everything; its statistics; the numbers behind it. */
#include <errno.h>

#include "kern_test.h"
#include "philox.h"

static const struct kern_ops *ops;
static const float *order_logits;

static int by_rank(const void *a, const void *b)
{
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;

	if (order_logits[i] != order_logits[j])
		return order_logits[i] > order_logits[j] ? -1 : 1;
	return i < j ? -1 : i > j;
}

/* docs/numerics.md, line by line. */
static int restated(const float *logits, uint32_t n, const struct kern_sampling *s, uint64_t position)
{
	uint32_t *ids = buffer(n * 4), i, kept = n, words[4] = { (uint32_t)position, (uint32_t)(position >> 32), s->choice, 0 };
	uint64_t *w = buffer(n * 8), sum = 0, run;
	float *x = floats(n);
	int id;

	for (i = 0; i < n; i++)
		ids[i] = i;
	order_logits = logits;
	qsort(ids, n, sizeof(*ids), by_rank);
	if (s->temperature == 0) {
		id = (int)ids[0];
		goto out;
	}
	for (i = 0; i < n; i++)
		x[i] = (logits[ids[i]] - logits[ids[0]]) / s->temperature;
	ops->exp(x, n);
	for (i = 0; i < n; i++)
		w[i] = (uint64_t)floor((double)x[i] * 0x1p40);
	for (i = n; i-- && s->min_p > 0;)
		if (w[i] < (uint64_t)floor((double)s->min_p * (double)w[0]))
			w[i] = 0;
	if (s->top_k && s->top_k < n)
		kept = s->top_k;
	for (i = 0; i < kept; i++)
		sum += w[i];
	if (s->top_p > 0 && s->top_p < 1) {
		double want = ceil((double)s->top_p * (double)sum);

		for (i = 0, run = 0; i < kept; i++)
			if ((run += w[i]) >= (uint64_t)want)
				break;
		kept = i + 1;
		sum = run;
	}
	philox4x32_10(words, (uint32_t)s->seed, (uint32_t)(s->seed >> 32));
	for (i = 0, run = 0; i < kept - 1; i++) {
		run += w[i];
		unsigned __int128 left = (unsigned __int128)run << 24, right = (unsigned __int128)sum * (words[0] >> 8);

		if (left > right)
			break;
	}
	id = (int)ids[i];
out:
	free(ids), free(w), free(x);
	return id;
}

static float *random_logits(uint32_t n)
{
	float *x = floats(n), spread = below(3) ? 12 : below(2) ? 0.1f : 60;
	uint32_t i, how = below(4);

	for (i = 0; i < n; i++) {
		x[i] = value(PLAIN) * spread;
		if (how == 0) /* many ties */
			x[i] = rintf(x[i]);
		if (how == 1) /* steep */
			x[i] = -x[i] * x[i];
		if (how == 2 && !below(3)) /* zeros of both signs */
			x[i] = below(2) ? 0.0f : -0.0f;
	}
	return x;
}

static int against_restated(void)
{
	uint32_t n = below(3) ? between(1, 200) : between(1, 20000), *scratch = buffer(8 * n), i;
	float *x = random_logits(n), lp;
	struct kern_sampling s = { 0 };
	int good = 1, got, want;

	for (i = 0; i < 8 && good; i++) {
		uint64_t position = below(2) ? below(5000) : rnd(&seed);

		s.temperature = below(5) ? ldexpf(1.0f + (float)below(100) / 100, (int)below(8) - 5) : 0;
		if (!below(20))
			s.temperature = below(2) ? 1e-38f : 1e30f;
		s.top_k = below(2) ? 0 : between(1, below(2) ? 50 : n + 5);
		s.top_p = below(2) ? 0 : below(5) ? (float)between(1, 1000) / 1000 : below(2) ? 1e-30f : 0x1.fffffep-1f;
		s.min_p = below(2) ? 0 : below(4) ? (float)below(1000) / 1000 : below(2) ? 1 : 1e-12f;
		s.choice = below(3);
		s.seed = rnd(&seed);
		got = kern_sample(ops, x, n, &s, position, -1, scratch, below(2) ? &lp : NULL);
		want = restated(x, n, &s, position);
		good = got == want;
		if (!good)
			printf("# n %u temperature %g top_k %u top_p %g min_p %g: %d, not %d\n", n, s.temperature, s.top_k,
			       s.top_p, s.min_p, got, want);
	}
	free(x), free(scratch);
	return good;
}

static int log_probability(void)
{
	uint32_t n = between(1, 5000), *scratch = buffer(8 * n), i, target = below(n);
	float *x = random_logits(n), lp, drawn;
	struct kern_sampling s = { .temperature = 0.7f, .seed = rnd(&seed) };
	double sum = 0, top = -1e30, want;
	int id, good;

	for (i = 0; i < n; i++)
		top = fmax(top, x[i]);
	for (i = 0; i < n; i++)
		sum += exp(x[i] - top);
	kern_sample(ops, x, n, &s, 3, target, scratch, &lp);
	want = x[target] - top - log(sum);
	good = fabs(lp - want) <= EPS * (n / 8 + 200) + fabs(want) * 3 * EPS;
	id = kern_sample(ops, x, n, &s, 3, -1, scratch, &drawn);
	want = x[id] - top - log(sum);
	good &= fabs(drawn - want) <= EPS * (n / 8 + 200) + fabs(want) * 3 * EPS;
	free(x), free(scratch);
	return good;
}

static int not_finite(void)
{
	static const float bad[] = { NAN, INFINITY, -INFINITY };
	uint32_t n = between(1, 100), *scratch = buffer(8 * n);
	struct kern_sampling s = { .temperature = (float)below(2) };
	float *x = values_of(PLAIN, n), lp;
	int good;

	good = kern_sample(ops, x, n, &s, 0, -1, scratch, &lp) >= 0;
	x[below(n)] = bad[below(3)];
	good &= kern_sample(ops, x, n, &s, 0, -1, scratch, &lp) == -EDOM;
	free(x), free(scratch);
	return good;
}

/* Chi-square of 40,000 draws over 64 candidates; at 63 degrees of freedom one in 10^7 exceeds 135. */
static double chi_square(const struct kern_sampling *s, const double *p, const float *x, uint32_t n)
{
	uint32_t *scratch = buffer(8 * n), *count = buffer(4 * n), draws = 40000, i;
	uint64_t start = rnd(&seed);
	double chi = 0, e;

	memset(count, 0, 4 * n);
	for (i = 0; i < draws; i++)
		count[kern_sample(ops, x, n, s, start + i, -1, scratch, NULL)]++;
	for (i = 0; i < n; i++) {
		e = p[i] * draws;
		if (e == 0 && count[i])
			chi = INFINITY;
		else if (e)
			chi += (count[i] - e) * (count[i] - e) / e;
	}
	free(scratch), free(count);
	return chi;
}

static void statistics(void)
{
	float x[64];
	double p[64], sum = 0, chi;
	struct kern_sampling s = { .temperature = 2, .seed = rnd(&seed) };
	uint32_t i;

	for (i = 0; i < 64; i++) {
		x[i] = (float)(i * 37 % 64) / 12;
		sum += p[i] = exp(x[i] / 2);
	}
	for (i = 0; i < 64; i++)
		p[i] /= sum;
	chi = chi_square(&s, p, x, 64);
	ok(chi < 135, "%s: draws follow the probabilities (chi-square %.1f at 63)", ops->name, chi);

	/* the twenty largest are i * 37 % 64 >= 44 */
	for (sum = 0, i = 0; i < 64; i++)
		sum += p[i] = x[i] * 12 > 43.5 ? exp(x[i] / 2) : 0;
	for (i = 0; i < 64; i++)
		p[i] /= sum;
	s.top_k = 20;
	chi = chi_square(&s, p, x, 64);
	ok(chi < 70, "%s: with top_k (chi-square %.1f at 19)", ops->name, chi);
}

/* Different seeds, choices and positions draw apart from each other: agreement by chance alone. */
static int independence(void)
{
	uint32_t scratch[128], same_seed = 0, same_choice = 0, same_next = 0, i;
	float x[64] = { 0 };
	struct kern_sampling a = { .temperature = 1, .seed = rnd(&seed) }, b = a, c = a;

	b.seed ^= 1ull << below(64);
	c.choice = 1;
	for (i = 0; i < 6400; i++) {
		int id = kern_sample(ops, x, 64, &a, i, -1, scratch, NULL);

		same_seed += id == kern_sample(ops, x, 64, &b, i, -1, scratch, NULL);
		same_choice += id == kern_sample(ops, x, 64, &c, i, -1, scratch, NULL);
		same_next += id == kern_sample(ops, x, 64, &a, i + (1ull << 32), -1, scratch, NULL);
		if (id != kern_sample(ops, x, 64, &a, i, -1, scratch, NULL))
			return 0;
	}
	/* 100 expected, deviation 10 */
	return same_seed < 170 && same_choice < 170 && same_next < 170;
}

/* Where u * K is exactly the running sum of the first k, that is not yet exceeded: the next one is drawn. */
static int exact_borders(void)
{
	struct kern_sampling s = { .temperature = 1, .seed = rnd(&seed) };
	uint32_t scratch[8], found = 0;
	float x[4] = { 1, 1, 1, 1 };
	uint64_t position;

	for (position = 0; !found; position++) {
		uint32_t c[4] = { (uint32_t)position, 0, 0, 0 };

		philox4x32_10(c, (uint32_t)s.seed, (uint32_t)(s.seed >> 32));
		if (c[0] >> 8 & 0x3fffff || !(c[0] >> 30))
			continue;
		found = c[0] >> 30;
		if (kern_sample(ops, x, 4, &s, position, -1, scratch, NULL) != (int)found)
			return 0;
	}
	return 1;
}

static int philox_is(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0, uint32_t k1, const uint32_t want[4])
{
	uint32_t c[4] = { c0, c1, c2, c3 };

	philox4x32_10(c, k0, k1);
	return !memcmp(c, want, 16);
}

int main(int argc, char **argv)
{
	static const char *const impl[] = { "c", "avx2", "avxvnni", "avx512" };
	unsigned int k;
	int times, good;

	seed = tap_seed(argc, argv);
	/* from the authors' known-answer file */
	ok(philox_is(0, 0, 0, 0, 0, 0, (uint32_t[]){ 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 }) &&
		   philox_is(~0u, ~0u, ~0u, ~0u, ~0u, ~0u,
			     (uint32_t[]){ 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd }) &&
		   philox_is(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0,
			     (uint32_t[]){ 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 }),
	   "philox4x32-10 gives its published values");
	for (k = 0; k < sizeof(impl) / sizeof(*impl); k++) {
		ops = kern_ops_get(impl[k]);
		if (!ops) {
			printf("# no %s on this CPU\n", impl[k]);
			continue;
		}
#define TEST(n, f, what) \
	for (good = 1, times = n; times-- && good;) \
		good = f(); \
	ok(good, "%s: " what, impl[k])
		TEST(60, against_restated, "the same as a full sort gives");
		TEST(50, log_probability, "log probability of the drawn and of a given token");
		TEST(50, not_finite, "a logit that is not finite is refused");
		TEST(1, independence, "seed, choice and position draw apart");
		TEST(1, exact_borders, "a running sum that equals u * K is not beyond it");
		statistics();
	}
	return done();
}
