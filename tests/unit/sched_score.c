// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Prompts that are scored, and the likeliest tokens beside each: told once each and in order, whatever the chunks, the
 * prefixes in the pool and the preemptions. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "sched_host.h"

struct scored {
	const struct fake_exec *f;
	const uint32_t *tokens;
	uint32_t n, next; /* of the prompt; position to be told next */
	uint32_t wrong, answers, n_top, stop_at;
	bool done;
	struct kvslab_request_info info;
	struct kvslab_sched *sched;
};

static void check_top(struct scored *s, const struct kvslab_request *r, float logprob)
{
	uint32_t n, i;
	const struct kvslab_top *top = kvslab_request_top(r, &n);

	s->wrong += n != s->n_top;
	for (i = 0; i < n; i++)
		s->wrong += top[i].token != top[0].token + i || top[i].logprob != logprob - (float)i;
}

static void on_score(struct kvslab_request *r, uint32_t pos, float logprob, void *data)
{
	struct scored *s = data;

	s->wrong += pos != s->next++ || logprob != fake_prompt_score(s->f, s->tokens, pos + 1);
	check_top(s, r, logprob);
	if (s->next == s->stop_at)
		kvslab_sched_cancel(s->sched, r);
}

static void on_token(struct kvslab_request *r, uint32_t token, float logprob, void *data)
{
	struct scored *s = data;

	if (!s->answers++)
		s->wrong += token != fake_answer(s->f, s->tokens, s->n, NULL) || s->next != s->n;
	check_top(s, r, logprob);
}

static void on_done(struct kvslab_request *r, void *data)
{
	struct scored *s = data;
	uint32_t n;

	s->wrong += kvslab_request_top(r, &n) || n;
	kvslab_request_info(r, &s->info);
	s->done = true;
}

static int add(struct fake_host *h, struct scored *s, const uint32_t *tokens, uint32_t n, uint32_t max_tokens, uint32_t n_top)
{
	struct kvslab_request_opts o = { .tokens = tokens, .n_tokens = n, .max_tokens = max_tokens, .n_top = n_top,
					 .score_prompt = true, .on_score = on_score, .on_token = on_token,
					 .on_done = on_done, .data = s };

	*s = (struct scored){ .f = &h->f, .tokens = tokens, .n = n, .next = 1, .n_top = n_top, .sched = h->sched };
	return kvslab_sched_add(h->sched, &o, NULL);
}

static void fill(uint32_t *tokens, uint32_t n)
{
	while (n)
		tokens[--n] = (uint32_t)(rnd(&seed) % 1000);
}

static void alone(void)
{
	struct kvslab_sched_opts chunks = { .step_tokens = 64, .chunk_tokens = 7 };
	uint32_t tokens[100];
	struct scored a, b, c, d;
	struct fake_host h;

	open_host(&h, &chunks);
	fill(tokens, 100);
	ok(!add(&h, &a, tokens, 100, 0, 0) && !run_all(&h) && a.done && !a.wrong && a.next == 100 && !a.answers &&
		   a.info.finish == KVSLAB_FINISH_LENGTH,
	   "a prompt scored and nothing generated");
	ok(!add(&h, &b, tokens, 100, 5, KVSLAB_TOP_MAX) && !run_all(&h) && b.done && !b.wrong && b.next == 100 && b.answers == 5,
	   "the same prompt is in the pool, and is scored whole all the same, then answered");
	ok(!add(&h, &c, tokens, 1, 0, 1) && !run_all(&h) && c.done && !c.wrong && c.next == 1, "one token has no score");
	ok(!add(&h, &d, tokens, 100, 5, 2), "one more");
	d.stop_at = 50;
	ok(!run_all(&h) && d.done && !d.wrong && d.next == 50 && d.info.finish == KVSLAB_FINISH_CANCEL,
	   "cancelled while it is scored, it is told nothing more");
	ok(add(&h, &d, tokens, 100, 5, KVSLAB_TOP_MAX + 1) == -EINVAL, "more of the likeliest than there may be");
	close_host(&h);
}

/* Several that do not fit together, so that some are preempted half scored. */
static void preempted(void)
{
	struct kvslab_sched_opts small = { .step_tokens = 32, .chunk_tokens = 16 };
	uint32_t tokens[4][POOL_TOKENS / 3], i, preemptions = 0, n = POOL_TOKENS / 3;
	struct scored s[4];
	struct fake_host h;
	bool good = true;

	open_host(&h, &small);
	for (i = 0; i < 4; i++) {
		fill(tokens[i], n);
		good &= !add(&h, &s[i], tokens[i], n, 120, 3);
	}
	ok(good && !run_all(&h), "four prompts of a third of the pool each");
	for (i = 0; i < 4; i++) {
		good &= s[i].done && !s[i].wrong && s[i].next == n && s[i].answers == 120;
		preemptions += s[i].info.preemptions;
	}
	ok(good && preemptions, "each score is told once, and right; preempted %u times", preemptions);
	close_host(&h);
}

/* What is not a number, or beyond its limits, is refused before it reaches an executor. */
static void refusals(void)
{
	struct kvslab_sched_opts none = { 0 };
	uint32_t tokens[3] = { 1, 2, 3 }, beyond, i;
	float nan = NAN, one = 1;
	struct fake_host h;

	open_host(&h, &none);
	beyond = h.f.ex.vocab;
	{
		const struct kvslab_sampling bad[] = {
			{ .temperature = NAN }, { .temperature = -1 }, { .temperature = INFINITY }, { .top_p = -0.1f },
			{ .min_p = 1.5f }, { .min_p = -0.5f }, { .repetition_penalty = -1 }, { .repetition_penalty = INFINITY },
			{ .presence_penalty = NAN }, { .frequency_penalty = INFINITY },
			{ .n_bias = 1, .bias_tokens = tokens, .bias = &nan }, { .n_bias = 1, .bias_tokens = &beyond, .bias = &one },
			{ .n_bias = 1, .bias_tokens = tokens }, { .n_bias = 1, .bias = &one },
		};

		for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
			struct kvslab_request_opts o = { .tokens = tokens, .n_tokens = 3, .max_tokens = 1, .sampling = bad[i] };

			ok(kvslab_sched_add(h.sched, &o, NULL) == -EINVAL, "sampling %u is refused", i);
		}
	}
	close_host(&h);
}

int main(int argc, char **argv)
{
	seed = tap_seed(argc, argv);
	alone();
	preempted();
	refusals();
	return done();
}
