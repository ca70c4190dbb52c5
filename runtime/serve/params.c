// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "params.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

#define DEFAULT_COMPLETION_TOKENS 16 /* OpenAI's */
#define MAX_TOKENS (1 << 30)
#define SALT_MAX 256
#define NAME_MAX_BYTES 1024

/* Fields of OpenAI's and vLLM's requests that change an answer and that this server cannot honour. */
static const struct {
	const char *name;
	const char *harmless; /* a string that asks for nothing; NULL: none */
} unbuilt[] = {
	{ "tools", NULL },	       { "tool_choice", "none" },	 { "functions", NULL },
	{ "function_call", "none" },   { "suffix", NULL },		 { "prediction", NULL },
	{ "audio", NULL },	       { "web_search_options", NULL },	 { "logits_processors", NULL },
	{ "guided_json", NULL },       { "guided_regex", NULL },	 { "guided_choice", NULL },
	{ "guided_grammar", NULL },    { "structured_outputs", NULL },	 { "use_beam_search", NULL },
	{ "prompt_logprobs", NULL },   { "allowed_token_ids", NULL },	 { "bad_words", NULL },
	{ "continue_final_message", NULL }, { "chat_template", NULL },	 { "documents", NULL },
	{ "truncate_prompt_tokens", NULL }, { "include_stop_str_in_output", NULL },
};

/* false, 0, "", [] and {} ask for nothing. */
static bool asks(const json_t *j, const char *harmless)
{
	if (json_is_string(j))
		return json_string_length(j) && (!harmless || strcmp(json_string_value(j), harmless));
	if (json_is_array(j))
		return json_array_size(j);
	if (json_is_object(j))
		return json_object_size(j);
	return !json_is_false(j) && !(json_is_number(j) && json_number_value(j) == 0);
}

static int check_unbuilt(const json_t *o, struct api_error *e)
{
	const json_t *j, *type;
	size_t i;

	for (i = 0; i < sizeof(unbuilt) / sizeof(unbuilt[0]); i++) {
		j = json_field(o, unbuilt[i].name);
		if (j && asks(j, unbuilt[i].harmless))
			return api_fail(e, 400, unbuilt[i].name, "%s is not supported by this server; leave it out",
					unbuilt[i].name);
	}
	j = json_field(o, "response_format");
	type = json_object_get(j, "type");
	if (j && !(json_is_string(type) && !strcmp(json_string_value(type), "text")))
		return api_fail(e, 400, "response_format",
				"response_format is not supported by this server but {\"type\": \"text\"}; leave it out");
	return 0;
}

static int parse_model(const json_t *o, const struct api_model *m, struct api_error *e)
{
	const char *name = NULL;
	size_t n = 0;

	if (json_text(o, "model", NAME_MAX_BYTES, &name, &n, e))
		return -1;
	if (!name || (n == strlen(m->name) && !memcmp(name, m->name, n)))
		return 0;
	api_fail(e, 404, "model", "the model \"%.200s\" does not exist; this server has \"%.200s\"", name, m->name);
	snprintf(e->code, sizeof(e->code), "model_not_found");
	return -1;
}

static int json_float(const json_t *o, const char *name, double min, double max, float *out, struct api_error *e)
{
	double v = (double)*out;

	if (json_number_in(o, name, min, max, &v, e))
		return -1;
	*out = (float)v;
	return 0;
}

/* {"token id": number, ...} */
static int parse_bias(struct gen_params *p, const json_t *o, const struct api_model *m, struct api_error *e)
{
	const json_t *j = json_field(o, "logit_bias");
	uint32_t vocab = tok_vocab(m->tok), n = 0;
	unsigned long id;
	const char *key;
	json_t *value;
	char *end;

	if (!j)
		return 0;
	if (!json_is_object(j) || json_object_size(j) > BIASES_MAX)
		return api_fail(e, 400, "logit_bias", "logit_bias must be an object of at most %d token ids with numbers",
				BIASES_MAX);
	p->bias_tokens = calloc(json_object_size(j) + 1, sizeof(*p->bias_tokens));
	p->bias = calloc(json_object_size(j) + 1, sizeof(*p->bias));
	if (!p->bias_tokens || !p->bias)
		return api_fail(e, 503, NULL, "no memory; try again");
	json_object_foreach((json_t *)j, key, value) {
		id = strtoul(key, &end, 10);
		if (*key < '0' || *key > '9' || *end || id >= vocab)
			return api_fail(e, 400, "logit_bias", "logit_bias has \"%.40s\", which is no token id from 0 to %u", key,
					vocab - 1);
		if (!json_is_number(value) || !(json_number_value(value) >= -100 && json_number_value(value) <= 100))
			return api_fail(e, 400, "logit_bias", "logit_bias of token %lu must be a number from -100 to 100", id);
		p->bias_tokens[n] = (uint32_t)id;
		p->bias[n++] = (float)json_number_value(value);
	}
	p->sampling.bias_tokens = p->bias_tokens;
	p->sampling.bias = p->bias;
	p->sampling.n_bias = n;
	return 0;
}

static int parse_sampling(struct gen_params *p, const json_t *o, const struct api_model *m, uint64_t random,
			  struct api_error *e)
{
	double temperature = (double)m->sampling.temperature, top_p = (double)m->sampling.top_p;
	int64_t top_k = m->sampling.top_k, seed = 0;

	p->sampling = m->sampling;
	if (json_number_in(o, "temperature", 0, 100, &temperature, e) || json_number_in(o, "top_p", 0, 1, &top_p, e) ||
	    json_int(o, "top_k", -1, UINT32_MAX, &top_k, e) || json_int(o, "seed", INT64_MIN, INT64_MAX, &seed, e))
		return -1;
	if (json_float(o, "min_p", 0, 1, &p->sampling.min_p, e) ||
	    json_float(o, "presence_penalty", -2, 2, &p->sampling.presence_penalty, e) ||
	    json_float(o, "frequency_penalty", -2, 2, &p->sampling.frequency_penalty, e) ||
	    json_float(o, "repetition_penalty", 0.01, 100, &p->sampling.repetition_penalty, e) || parse_bias(p, o, m, e))
		return -1;
	p->sampling.temperature = (float)temperature;
	/* 0 means all to whoever draws; to OpenAI's clients it means the likeliest alone */
	p->sampling.top_p = top_p > 0 ? (float)top_p : 1e-6f;
	p->sampling.top_k = top_k > 0 ? (uint32_t)top_k : 0;
	p->sampling.seed = json_field(o, "seed") ? (uint64_t)seed : m->has_seed ? m->sampling.seed : random;
	return 0;
}

static int add_stop(struct gen_params *p, const json_t *j, struct api_error *e)
{
	struct stop_text *t = &p->stops[p->n_stops];

	if (!json_is_string(j) || !json_string_length(j) || json_string_length(j) > STOP_BYTES_MAX)
		return api_fail(e, 400, "stop", "stop must be a string of 1 to %d bytes, or an array of them", STOP_BYTES_MAX);
	if (p->n_stops == STOPS_MAX)
		return api_fail(e, 400, "stop", "stop has more than %d strings", STOPS_MAX);
	t->n = json_string_length(j);
	t->s = malloc(t->n);
	if (!t->s)
		return api_fail(e, 503, NULL, "no memory; try again");
	memcpy(t->s, json_string_value(j), t->n);
	p->n_stops++;
	return 0;
}

static int parse_stops(struct gen_params *p, const json_t *o, const struct api_model *m, struct api_error *e)
{
	const json_t *j = json_field(o, "stop"), *ids = json_field(o, "stop_token_ids");
	struct tok_ids list = { NULL, 0, 0 };
	size_t i;
	int rc;

	if (json_is_string(j) && add_stop(p, j, e))
		return -1;
	if (j && !json_is_string(j) && !json_is_array(j))
		return api_fail(e, 400, "stop", "stop is %s; it must be a string or an array of strings", json_kind(j));
	for (i = 0; i < json_array_size(j); i++)
		if (add_stop(p, json_array_get(j, i), e))
			return -1;
	if (!ids)
		return 0;
	if (!json_is_array(ids) || json_array_size(ids) > STOP_IDS_MAX)
		return api_fail(e, 400, "stop_token_ids", "stop_token_ids must be an array of at most %d token ids",
				STOP_IDS_MAX);
	rc = prompt_ids(m, ids, "stop_token_ids", &list, e);
	if (!rc && list.n)
		memcpy(p->stop_ids, list.id, list.n * sizeof(*list.id));
	p->n_stop_ids = rc ? 0 : (uint32_t)list.n;
	tok_ids_free(&list);
	return rc;
}

static int parse_logprobs(struct gen_params *p, const json_t *o, struct api_error *e)
{
	int64_t top = 0;

	if (p->chat) {
		if (json_bool(o, "logprobs", &p->logprobs, e) ||
		    json_int(o, "top_logprobs", 0, TOP_LOGPROBS_MAX, &top, e))
			return -1;
		if (top && !p->logprobs)
			return api_fail(e, 400, "top_logprobs", "top_logprobs needs logprobs to be true");
	} else {
		if (json_int(o, "logprobs", 0, TOP_LOGPROBS_MAX, &top, e))
			return -1;
		p->logprobs = json_field(o, "logprobs") != NULL;
	}
	p->top_logprobs = (uint32_t)top;
	return 0;
}

static int parse_lengths(struct gen_params *p, const json_t *o, const struct api_model *m, struct api_error *e)
{
	int64_t n = 1, max = -1, min = 0, best_of = -1, priority = 0;

	if (json_int(o, "n", 1, CHOICES_MAX, &n, e) || json_int(o, "best_of", 1, CHOICES_MAX, &best_of, e) ||
	    json_int(o, "max_tokens", p->echo ? 0 : 1, MAX_TOKENS, &max, e) || json_int(o, "min_tokens", 0, MAX_TOKENS, &min, e) ||
	    json_int(o, "priority", 0, KVSLAB_PRIORITIES - 1, &priority, e))
		return -1;
	if (p->chat && json_int(o, "max_completion_tokens", 1, MAX_TOKENS, &max, e))
		return -1;
	if (best_of >= 0 && best_of != n)
		return api_fail(e, 400, "best_of", "best_of is not supported by this server; leave it out");
	p->n = (uint32_t)n;
	p->priority = (uint8_t)priority;
	if (max < 0) {
		p->whole_context = p->chat && !m->max_tokens;
		max = m->max_tokens ? m->max_tokens : p->chat ? 0 : DEFAULT_COMPLETION_TOKENS;
	}
	p->max_tokens = (uint32_t)max;
	p->min_tokens = (uint32_t)min;
	if (!p->whole_context && min > max)
		return api_fail(e, 400, "min_tokens", "min_tokens is %lld and max_tokens is %lld", (long long)min,
				(long long)max);
	return 0;
}

static int parse_stream(struct gen_params *p, const json_t *o, struct api_error *e)
{
	const json_t *options = json_field(o, "stream_options");

	if (json_bool(o, "stream", &p->stream, e))
		return -1;
	if (!options)
		return 0;
	if (!p->stream)
		return api_fail(e, 400, "stream_options", "stream_options needs stream to be true");
	if (!json_is_object(options))
		return api_fail(e, 400, "stream_options", "stream_options is %s; it must be an object", json_kind(options));
	return json_bool(options, "include_usage", &p->include_usage, e);
}

static int parse_names(struct gen_params *p, const json_t *o, struct api_error *e)
{
	const char *salt = NULL, *user = NULL;
	size_t n = 0;

	if (json_text(o, "cache_salt", SALT_MAX, &salt, &n, e))
		return -1;
	if (salt) {
		p->salt = malloc(n);
		if (!p->salt)
			return api_fail(e, 503, NULL, "no memory; try again");
		memcpy(p->salt, salt, n);
		p->salt_n = n;
	}
	if (json_text(o, "user", 4096, &user, &n, e))
		return -1;
	if (user)
		snprintf(p->user, sizeof(p->user), "%s", user);
	return 0;
}

/* ---- prompts ---- */

static int check_prompt(const struct gen_params *p, const struct api_model *m, size_t n, struct api_error *e)
{
	const char *name = p->chat ? "messages" : "prompt";
	uint64_t need = (uint64_t)n + p->max_tokens;

	if (!n)
		return api_fail(e, 400, name, "the prompt is empty; give at least one character");
	if (n + p->whole_context > m->context || need > m->context) {
		api_fail(e, 400, name,
			 "the prompt has %zu tokens, and with %u to be generated that is more than the model's context of %u "
			 "tokens; shorten it or lower max_tokens", n, p->whole_context ? 1 : p->max_tokens, m->context);
		snprintf(e->code, sizeof(e->code), "context_length_exceeded");
		return -1;
	}
	if (n > m->pool_tokens || need > m->pool_tokens + 1) {
		api_fail(e, 400, name,
			 "the prompt has %zu tokens, and with %u to be generated that is more than the %llu that the whole "
			 "pool of %llu MiB can hold; shorten it, lower max_tokens, or start the server with a larger --pool",
			 n, p->whole_context ? 1 : p->max_tokens, (unsigned long long)m->pool_tokens,
			 (unsigned long long)(m->pool_bytes >> 20));
		snprintf(e->code, sizeof(e->code), "context_length_exceeded");
		return -1;
	}
	return 0;
}

static int add_prompt(struct gen_params *p, const struct api_model *m, const json_t *j, struct api_error *e)
{
	struct tok_ids *ids = &p->prompts[p->n_prompts];
	struct buf text = { .n = 0 };

	if (!json_is_string(j) && !json_is_array(j))
		return api_fail(e, 400, "prompt", "prompt is %s; it must be a string, an array of token ids, or an array of "
				"such", json_kind(j));
	p->n_prompts++; /* freed from now on */
	if (json_is_string(j) ? prompt_text(m, json_string_value(j), json_string_length(j), TOK_BOS, ids, e) :
				prompt_ids(m, j, "prompt", ids, e))
		return -1;
	p->prompt_tokens += ids->n;
	if (check_prompt(p, m, ids->n, e))
		return -1;
	if (!p->echo)
		return 0;
	if (json_is_string(j))
		buf_add(&text, json_string_value(j), json_string_length(j));
	else
		ids_text(m, ids, false, &text);
	if (text.failed)
		return api_fail(e, 503, NULL, "no memory for the prompt; try again");
	p->texts[p->n_prompts - 1] = text.b;
	p->text_n[p->n_prompts - 1] = text.n;
	return 0;
}

static int parse_prompts(struct gen_params *p, const struct api_model *m, const json_t *o, struct api_error *e)
{
	const json_t *j = json_field(o, p->chat ? "messages" : "prompt");
	bool several = json_is_array(j) && !p->chat && !json_is_integer(json_array_get(j, 0));
	size_t n = several ? json_array_size(j) : 1, i;

	if (!j)
		return api_fail(e, 400, p->chat ? "messages" : "prompt", "%s is missing", p->chat ? "messages" : "prompt");
	if (!n || n * p->n > CHOICES_MAX)
		return api_fail(e, 400, "prompt", "%zu prompts with n = %u are %zu choices; there must be from 1 to %d", n, p->n,
				n * p->n, CHOICES_MAX);
	p->prompts = calloc(n, sizeof(*p->prompts));
	p->texts = calloc(n, sizeof(*p->texts));
	p->text_n = calloc(n, sizeof(*p->text_n));
	if (!p->prompts || !p->texts || !p->text_n)
		return api_fail(e, 503, NULL, "no memory for %zu prompts; try again", n);
	if (p->chat) {
		p->n_prompts = 1;
		if (prompt_messages(m, o, &p->prompts[0], e))
			return -1;
		p->prompt_tokens = p->prompts[0].n;
		return check_prompt(p, m, p->prompts[0].n, e);
	}
	for (i = 0; i < n; i++)
		if (add_prompt(p, m, several ? json_array_get(j, i) : j, e))
			return -1;
	return 0;
}

int gen_params_parse(struct gen_params *p, const struct api_model *m, bool chat, const char *body, size_t n, uint64_t random,
		     struct api_error *e)
{
	json_t *o = json_body(body, n, e);
	int rc = -1;

	if (!o)
		return -1;
	p->chat = chat;
	if (!chat && json_bool(o, "echo", &p->echo, e))
		goto out;
	if (parse_model(o, m, e) || check_unbuilt(o, e) || parse_stream(p, o, e) || parse_lengths(p, o, m, e) ||
	    parse_sampling(p, o, m, random, e) || parse_stops(p, o, m, e) || parse_logprobs(p, o, e) ||
	    json_bool(o, "ignore_eos", &p->ignore_eos, e) || parse_names(p, o, e))
		goto out;
	rc = parse_prompts(p, m, o, e);
out:
	json_decref(o);
	return rc;
}

void gen_params_free(struct gen_params *p)
{
	size_t i;

	for (i = 0; i < p->n_stops; i++)
		free(p->stops[i].s);
	for (i = 0; i < p->n_prompts; i++) {
		tok_ids_free(&p->prompts[i]);
		free(p->texts ? p->texts[i] : NULL);
	}
	free(p->prompts);
	free(p->texts);
	free(p->text_n);
	free(p->salt);
	free(p->bias_tokens);
	free(p->bias);
	memset(p, 0, sizeof(*p));
}
