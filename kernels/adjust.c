// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Logits on their way to a draw: what the caller adds to them, what was said before, which are largest. */
#include <string.h>

#include "kvslab_kernels.h"

#define DONE UINT32_MAX /* no count is as large */

static bool penalises(const struct kern_adjust *a)
{
	return a->n_tokens && ((a->repetition != 0 && a->repetition != 1) || a->presence != 0 || a->frequency != 0);
}

bool kern_adjusts(const struct kern_adjust *a)
{
	return a->n_bias || penalises(a);
}

static float penalise(float x, const struct kern_adjust *a, uint32_t count)
{
	float f;

	if (a->repetition != 0 && a->repetition != 1)
		x = x > 0 ? x / a->repetition : x * a->repetition;
	if (!count)
		return x;
	f = a->frequency * (float)count;
	x = x - f;
	return x - a->presence;
}

void kern_adjust(float *y, const float *logits, uint32_t n, const struct kern_adjust *a, uint32_t *scratch)
{
	uint32_t i, t;

	memcpy(y, logits, n * sizeof(*y));
	for (i = 0; i < a->n_bias; i++)
		y[a->bias_tokens[i]] += a->bias[i];
	if (!penalises(a))
		return;
	for (i = 0; i < a->n_tokens; i++)
		scratch[a->tokens[i]] = 0;
	for (i = a->n_prompt; i < a->n_tokens; i++)
		scratch[a->tokens[i]]++;
	for (i = 0; i < a->n_tokens; i++) {
		t = a->tokens[i];
		if (scratch[t] == DONE)
			continue;
		y[t] = penalise(y[t], a, scratch[t]);
		scratch[t] = DONE;
	}
}

void kern_top(const float *logits, uint32_t n, uint32_t k, uint32_t *ids)
{
	uint32_t got = 0, i, j;

	for (i = 0; i < n && k; i++) {
		if (got == k && !(logits[i] > logits[ids[k - 1]]))
			continue;
		j = got < k ? got++ : k - 1;
		for (; j && logits[i] > logits[ids[j - 1]]; j--)
			ids[j] = ids[j - 1];
		ids[j] = i;
	}
}
