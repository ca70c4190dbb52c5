// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * libFuzzer: bodies of requests. The first byte chooses the endpoint. What is refused has a status and a sentence, in an
 * error object that is JSON; what is taken keeps the limits.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/model/stop.h"
#include "tests/lib/api_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(what) ((what) ? (void)0 : abort())

static struct api_model m;

static void check_json(const struct buf *b)
{
	json_t *j;

	CHECK(!b->failed);
	j = json_loadb(b->b, b->n, JSON_ALLOW_NUL, NULL);
	CHECK(json_is_object(j));
	json_decref(j);
}

static void check_params(const struct gen_params *p)
{
	uint64_t most = m.context < m.pool_tokens + 1 ? m.context : m.pool_tokens + 1;
	struct stop_scan scan;
	size_t i, k;

	CHECK(p->n >= 1 && p->n_prompts >= 1 && p->n * p->n_prompts <= CHOICES_MAX);
	CHECK(p->n_stops <= STOPS_MAX && p->n_stop_ids <= STOP_IDS_MAX && p->priority < KVSLAB_PRIORITIES);
	CHECK(p->sampling.temperature >= 0 && p->sampling.top_p > 0 && p->sampling.top_p <= 1);
	CHECK(!p->max_tokens || p->min_tokens <= p->max_tokens);
	CHECK(p->sampling.min_p >= 0 && p->sampling.min_p <= 1 && p->sampling.repetition_penalty >= 0 &&
	      p->sampling.repetition_penalty <= 100 && p->sampling.presence_penalty >= -2 && p->sampling.presence_penalty <= 2 &&
	      p->sampling.frequency_penalty >= -2 && p->sampling.frequency_penalty <= 2 && p->sampling.n_bias <= BIASES_MAX);
	CHECK(p->top_logprobs <= TOP_LOGPROBS_MAX && (p->max_tokens || p->whole_context || p->echo));
	for (i = 0; i < p->sampling.n_bias; i++)
		CHECK(p->sampling.bias_tokens[i] < tok_vocab(m.tok) && p->sampling.bias[i] >= -100 && p->sampling.bias[i] <= 100);
	for (i = 0; i < p->n_prompts; i++) {
		CHECK(p->prompts[i].n && p->prompts[i].n + p->max_tokens <= most);
		for (k = 0; k < p->prompts[i].n; k++)
			CHECK(p->prompts[i].id[k] < tok_vocab(m.tok));
	}
	for (i = 0; i < p->n_stops; i++) {
		memset(&scan, 0, sizeof(scan));
		stop_scan(&scan, p->stops, p->n_stops, p->stops[i].s, p->stops[i].n);
		CHECK(scan.stopped);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *body = (const char *)data + 1;
	struct gen_params p;
	struct api_error e;
	struct buf b = { .n = 0 };
	int rc;

	if (!m.name)
		api_model_open(&m);
	if (!size)
		return 0;
	size--;
	memset(&p, 0, sizeof(p));
	memset(&e, 0, sizeof(e));
	switch (data[0] & 3) {
	case 0:
		rc = api_tokenize(&b, &m, body, size, &e);
		break;
	case 1:
		rc = api_detokenize(&b, &m, body, size, &e);
		break;
	default:
		rc = gen_params_parse(&p, &m, data[0] & 1, body, size, 1, &e);
		if (!rc)
			check_params(&p);
	}
	if (rc) {
		CHECK((e.status == 400 || e.status == 404) && e.message[0]);
		b.n = 0;
		api_error_json(&b, &e);
	}
	if (b.n)
		check_json(&b);
	gen_params_free(&p);
	buf_free(&b);
	return 0;
}
