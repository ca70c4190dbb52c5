// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* From a row's logits to what the row asked for: a token, probabilities, the likeliest tokens. */
#include <string.h>

#include "cpu_impl.h"

static float logprob_of(const struct cpu *c, const float *logits, uint32_t token)
{
	float top, sum = kern_logsum(c->ops, logits, c->m->vocab, &top);

	return (logits[token] - top) - sum;
}

static void likeliest(const struct cpu *c, struct kvslab_row *row, const float *logits)
{
	uint32_t ids[KVSLAB_TOP_MAX], i;
	float top, sum = kern_logsum(c->ops, logits, c->m->vocab, &top);

	if (row->n_top > c->m->vocab)
		row->n_top = c->m->vocab;
	kern_top(logits, c->m->vocab, row->n_top, ids);
	for (i = 0; i < row->n_top; i++)
		row->top[i] = (struct kvslab_top){ ids[i], (logits[ids[i]] - top) - sum };
}

void cpu_sample(struct cpu *c, uint32_t thread, uint32_t r, const float *logits)
{
	const struct kvslab_run *run = c->rows[r].run;
	struct kvslab_row *row = c->rows[r].row;
	const struct kvslab_sampling *s = &run->sampling;
	const struct kern_sampling ks = { .temperature = s->temperature, .top_k = s->top_k, .top_p = s->top_p,
					  .min_p = s->min_p, .choice = s->choice, .seed = s->seed };
	/* The token drawn stands one position after the row. */
	const struct kern_adjust ka = { .bias_tokens = s->bias_tokens, .bias = s->bias, .n_bias = s->n_bias,
					.repetition = s->repetition_penalty, .presence = s->presence_penalty,
					.frequency = s->frequency_penalty, .tokens = run->tokens,
					.n_tokens = run->tokens ? row->pos + 1 : 0,
					.n_prompt = run->n_prompt <= row->pos ? run->n_prompt : row->pos + 1 };
	uint32_t vocab = c->m->vocab, *scratch = c->scratch + (size_t)thread * SCRATCH * vocab;
	float *adjusted = (float *)(scratch + 2 * (size_t)vocab);

	if (row->logits)
		memcpy(row->logits, logits, vocab * sizeof(*logits));
	row->result = kern_sample(c->ops, logits, vocab, &ks, (uint64_t)row->pos + 1, row->target, scratch, &row->logprob);
	if (row->result < 0)
		return;
	if (row->n_top)
		likeliest(c, row, logits);
	if (row->target >= 0 || !kern_adjusts(&ka))
		return;
	kern_adjust(adjusted, logits, vocab, &ka, scratch);
	row->result = kern_sample(c->ops, adjusted, vocab, &ks, (uint64_t)row->pos + 1, -1, scratch, NULL);
	if (row->result >= 0)
		row->logprob = logprob_of(c, logits, (uint32_t)row->result);
}
