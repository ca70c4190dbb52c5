// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* An answer's least length: what the executor is told about the ids that would end it, token by token. */
#include <errno.h>
#include <string.h>

#include "sched_host.h"

struct seen {
	struct fake_host *h;
	uint32_t min, answers, wrong;
};

/* While a batch runs: the stop ids are banned before the caller's own bias, and only until the answer is long enough. */
static void during(void *data)
{
	struct seen *s = data;
	const struct kvslab_sampling *p;

	if (!s->h->f.running || !s->h->f.running->n_runs)
		return;
	p = &s->h->f.running->runs[0].sampling;
	if (s->answers >= s->min)
		s->wrong += p->n_bias != 1 || p->bias_tokens[0] != 7 || p->bias[0] != 0.5f;
	else
		s->wrong += p->n_bias != 3 || p->bias_tokens[0] != 3 || p->bias_tokens[1] != 4 || p->bias[0] != -1e30f ||
			    p->bias[1] != -1e30f || p->bias_tokens[2] != 7 || p->bias[2] != 0.5f;
}

static void on_token(struct kvslab_request *r, uint32_t token, float logprob, void *data)
{
	(void)r, (void)token, (void)logprob;
	((struct seen *)data)->answers++;
}

static void lengths(void)
{
	struct kvslab_sched_opts none = { 0 };
	uint32_t prompt[3] = { 10, 11, 12 }, stop[2] = { 3, 4 }, bias_tokens[1] = { 7 }, beyond;
	float bias[1] = { 0.5f };
	struct fake_host h;
	struct seen s;
	struct kvslab_request_opts o = { .tokens = prompt, .n_tokens = 3, .stop = stop, .n_stop = 2, .on_token = on_token,
					 .data = &s };

	open_host(&h, &none);
	beyond = h.f.ex.vocab;
	o.sampling = (struct kvslab_sampling){ .bias_tokens = bias_tokens, .bias = bias, .n_bias = 1 };
	h.f.during = during;
	h.f.data = &s;
	for (uint32_t min = 0; min < 8; min += 1 + min) {
		s = (struct seen){ .h = &h, .min = min };
		o.min_tokens = min;
		o.max_tokens = 8;
		ok(!kvslab_sched_add(h.sched, &o, NULL) && !run_all(&h) && s.answers == 8 && !s.wrong,
		   "%u tokens at least", min);
	}
	h.f.during = NULL;
	stop[1] = beyond;
	ok(kvslab_sched_add(h.sched, &o, NULL) == -EINVAL, "an id beyond the vocabulary cannot be kept away");
	close_host(&h);
}

int main(int argc, char **argv)
{
	seed = tap_seed(argc, argv);
	lengths();
	return done();
}
