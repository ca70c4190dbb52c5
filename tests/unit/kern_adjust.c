// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Biases, penalties and the likeliest tokens against a plain restatement of docs/numerics.md. */
#include "kern_test.h"

#define LIST_MAX 300

struct lists {
	uint32_t tokens[LIST_MAX], bias_tokens[LIST_MAX];
	float bias[LIST_MAX];
};

static struct kern_adjust any(uint32_t n, struct lists *l)
{
	struct kern_adjust a = { .tokens = l->tokens, .bias_tokens = l->bias_tokens, .bias = l->bias };
	uint32_t i;

	a.n_tokens = below(LIST_MAX);
	a.n_prompt = below(a.n_tokens + 1);
	a.n_bias = below(3) ? 0 : below(LIST_MAX);
	for (i = 0; i < LIST_MAX; i++) {
		l->tokens[i] = below(n);
		l->bias_tokens[i] = below(n);
		l->bias[i] = value(PLAIN) * 20;
	}
	if (below(2))
		a.repetition = below(4) ? 0.5f + (float)below(100) / 50 : 1;
	if (below(2))
		a.presence = value(PLAIN);
	if (below(2))
		a.frequency = value(PLAIN);
	return a;
}

/* Token by token, each counted anew. */
static float restated(const float *logits, uint32_t t, const struct kern_adjust *a)
{
	uint32_t i, seen = 0, said = 0;
	float x = logits[t];

	for (i = 0; i < a->n_bias; i++)
		if (a->bias_tokens[i] == t)
			x += a->bias[i];
	for (i = 0; i < a->n_tokens; i++) {
		seen += a->tokens[i] == t;
		said += a->tokens[i] == t && i >= a->n_prompt;
	}
	if (seen && a->repetition != 0)
		x = x > 0 ? x / a->repetition : x * a->repetition;
	if (said) {
		volatile float f = a->frequency * (float)said; /* rounded: no fma */

		x -= f;
		x -= a->presence;
	}
	return x;
}

static int adjusts(void)
{
	uint32_t n = between(1, below(2) ? 40 : 3000), *scratch = buffer(4 * n), i;
	float *x = values_of(PLAIN, n), *y = floats(n), want;
	struct lists l;
	struct kern_adjust a = any(n, &l);
	int good = 1;

	for (i = 0; i < n; i++)
		scratch[i] = (uint32_t)rnd(&seed); /* what others left there */
	kern_adjust(y, x, n, &a, scratch);
	for (i = 0; i < n && good; i++) {
		want = restated(x, i, &a);
		good = !memcmp(&y[i], &want, sizeof(want)) || (y[i] == 0 && want == 0);
		if (!good)
			printf("# token %u of %u: %a, not %a\n", i, n, y[i], want);
	}
	if (!kern_adjusts(&a))
		good &= !memcmp(x, y, n * sizeof(*x));
	free(x), free(y), free(scratch);
	return good;
}

static const float *rank_logits;

static int by_rank(const void *p, const void *q)
{
	uint32_t i = *(const uint32_t *)p, j = *(const uint32_t *)q;

	if (rank_logits[i] != rank_logits[j])
		return rank_logits[i] > rank_logits[j] ? -1 : 1;
	return i < j ? -1 : i > j;
}

static int tops(void)
{
	uint32_t n = between(1, 3000), k = below(n < 30 ? n + 1 : 31), *all = buffer(4 * n), ids[32], i;
	float *x = values_of(PLAIN, n);
	int good;

	for (i = 0; i < n; i++) {
		all[i] = i;
		if (below(2))
			x[i] = rintf(x[i] * 4); /* ties */
	}
	rank_logits = x;
	qsort(all, n, sizeof(*all), by_rank);
	kern_top(x, n, k, ids);
	good = !memcmp(ids, all, k * sizeof(*ids));
	free(x), free(all);
	return good;
}

int main(int argc, char **argv)
{
	struct kern_adjust none = { .n_tokens = 3, .n_prompt = 1, .repetition = 1 };
	int i, good;

	seed = tap_seed(argc, argv);
	for (i = 0, good = 1; i < 2000 && good; i++)
		good = adjusts();
	ok(good, "biases and penalties are those of the restatement, to the bit");
	for (i = 0, good = 1; i < 500 && good; i++)
		good = tops();
	ok(good, "the likeliest are those of a whole sort");
	ok(!kern_adjusts(&none), "a repetition penalty of 1 is none");
	none.presence = -1;
	ok(kern_adjusts(&none), "a negative penalty is one");
	return done();
}
