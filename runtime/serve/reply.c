// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Answers as OpenAI's clients read them: whole objects, and chunks of a stream. */
#include "generate.h"

#include <math.h>
#include <string.h>

static void head(struct buf *b, const struct gen *g, bool chunk)
{
	const struct api_model *m = &g->app->engine.model;

	buf_print(b, "{\"id\":\"%s-", g->p.chat ? "chatcmpl" : "cmpl");
	buf_text(b, g->x->id);
	buf_print(b, "\",\"object\":\"%s\",\"created\":%llu,\"model\":",
		  !g->p.chat ? "text_completion" : chunk ? "chat.completion.chunk" : "chat.completion",
		  (unsigned long long)g->created);
	buf_json(b, m->name, strlen(m->name));
	buf_print(b, ",\"system_fingerprint\":\"%s\",\"choices\":[", m->fingerprint);
}

static void usage(struct buf *b, const struct gen *g)
{
	size_t completion = 0, cached = 0;
	uint32_t i;

	for (i = 0; i < g->n_choices; i++) {
		completion += g->choices[i].n_tokens;
		if (i % g->p.n == 0)
			cached += g->choices[i].cached_tokens;
	}
	buf_print(b,
		  "{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,\"total_tokens\":%zu,\"prompt_tokens_details\":"
		  "{\"cached_tokens\":%zu}}",
		  g->p.prompt_tokens, completion, g->p.prompt_tokens + completion, cached);
}

/* ---- log probabilities of tokens [from, to) of a choice ---- */

static struct gguf_str piece(const struct gen *g, uint32_t id)
{
	return tok_piece(g->app->engine.model.tok, id, true);
}

static void token_text(struct buf *b, const struct gen *g, uint32_t id)
{
	struct gguf_str s = piece(g, id);

	buf_json(b, s.s, s.n);
}

static const struct kvslab_top *tops_of(const struct gen *g, const struct choice *c, uint32_t i)
{
	return c->tops + (size_t)i * g->p.top_logprobs;
}

/* The members of an object, without its end. */
static void chat_token(struct buf *b, const struct gen *g, uint32_t id, float logprob)
{
	struct gguf_str s = piece(g, id);
	size_t k;

	buf_text(b, "{\"token\":");
	token_text(b, g, id);
	buf_text(b, ",\"logprob\":");
	buf_float(b, logprob);
	buf_text(b, ",\"bytes\":[");
	for (k = 0; k < s.n; k++)
		buf_print(b, k ? ",%u" : "%u", (uint8_t)s.s[k]);
	buf_text(b, "]");
}

static void chat_logprobs(struct buf *b, const struct gen *g, const struct choice *c, uint32_t from, uint32_t to)
{
	uint32_t i, k;

	buf_text(b, "{\"content\":[");
	for (i = from; i < to; i++) {
		buf_add(b, ",", i > from);
		chat_token(b, g, c->tokens[i].id, c->tokens[i].logprob);
		buf_text(b, ",\"top_logprobs\":[");
		for (k = 0; k < c->tokens[i].n_top; k++) {
			buf_add(b, ",", k > 0);
			chat_token(b, g, tops_of(g, c, i)[k].token, tops_of(g, c, i)[k].logprob);
			buf_text(b, "}");
		}
		buf_text(b, "]}");
	}
	buf_text(b, "],\"refusal\":null}");
}

static size_t chars(const char *s, size_t n)
{
	size_t i, count = 0;

	for (i = 0; i < n; i++)
		count += ((uint8_t)s[i] & 0xc0) != 0x80;
	return count;
}

/* The likeliest, and the one that stands there if it is none of them. Tokens are the keys: of several with the same text
 * the likeliest stays. */
static void text_tops(struct buf *b, const struct gen *g, const struct choice *c, uint32_t i)
{
	const struct gen_token *t = &c->tokens[i];
	size_t key[KVSLAB_TOP_MAX + 1], n[KVSLAB_TOP_MAX + 1], keys = 0, undo, k, m;

	if (isnan(t->logprob)) {
		buf_text(b, "null");
		return;
	}
	buf_text(b, "{");
	for (k = 0; k <= t->n_top; k++) {
		const struct kvslab_top last = { t->id, t->logprob }, *top = k < t->n_top ? &tops_of(g, c, i)[k] : &last;

		undo = b->n;
		buf_add(b, ",", keys > 0);
		key[keys] = b->n;
		token_text(b, g, top->token);
		n[keys] = b->n - key[keys];
		if (b->failed)
			return;
		for (m = 0; m < keys; m++)
			if (n[m] == n[keys] && !memcmp(b->b + key[m], b->b + key[keys], n[m]))
				break;
		if (m < keys) {
			b->n = undo;
			continue;
		}
		keys++;
		buf_text(b, ":");
		buf_float(b, top->logprob);
	}
	buf_text(b, "}");
}

static void text_logprobs(struct buf *b, const struct gen *g, struct choice *c, uint32_t from, uint32_t to)
{
	size_t start;
	uint32_t i;

	buf_text(b, "{\"tokens\":[");
	for (i = from; i < to; i++) {
		buf_add(b, ",", i > from);
		token_text(b, g, c->tokens[i].id);
	}
	buf_text(b, "],\"token_logprobs\":[");
	for (i = from; i < to; i++) {
		buf_add(b, ",", i > from);
		buf_float(b, c->tokens[i].logprob);
	}
	buf_text(b, g->p.top_logprobs ? "],\"top_logprobs\":[" : "],\"top_logprobs\":null");
	for (i = from; i < to && g->p.top_logprobs; i++) {
		buf_add(b, ",", i > from);
		text_tops(b, g, c, i);
	}
	buf_text(b, g->p.top_logprobs ? "],\"text_offset\":[" : ",\"text_offset\":[");
	for (i = from; i < to; i++) {
		start = i ? c->tokens[i - 1].text_end : 0;
		buf_print(b, i > from ? ",%zu" : "%zu", c->sent_chars);
		c->sent_chars += chars(c->text.b + start, c->tokens[i].text_end - start);
	}
	buf_text(b, "]}");
}

static void logprobs(struct buf *b, struct gen *g, struct choice *c, uint32_t from, uint32_t to)
{
	if (!g->p.logprobs)
		buf_text(b, "null");
	else if (g->p.chat)
		chat_logprobs(b, g, c, from, to);
	else
		text_logprobs(b, g, c, from, to);
}

/* Tokens whose text lies in the first @safe bytes. */
static uint32_t tokens_in(const struct choice *c, uint32_t from, size_t safe)
{
	while (from < c->n_noted && c->tokens[from].text_end <= safe)
		from++;
	return from;
}

static void finish(struct buf *b, const struct choice *c, bool is_end)
{
	if (is_end)
		buf_print(b, "\"%s\"", c->finish ? c->finish : "abort");
	else
		buf_text(b, "null");
}

/* ---- whole ---- */

static void whole_choice(struct buf *b, struct gen *g, struct choice *c)
{
	buf_print(b, "{\"index\":%u,", c->index);
	if (g->p.chat) {
		buf_text(b, "\"message\":{\"role\":\"assistant\",\"content\":");
		buf_json(b, c->text.b, c->stop.safe);
		buf_text(b, ",\"refusal\":null}");
	} else {
		buf_text(b, "\"text\":");
		buf_json(b, c->text.b, c->stop.safe);
	}
	buf_text(b, ",\"logprobs\":");
	logprobs(b, g, c, 0, g->p.logprobs ? tokens_in(c, 0, c->stop.safe) : 0);
	buf_text(b, ",\"finish_reason\":");
	finish(b, c, true);
	buf_text(b, "}");
}

void reply_whole(struct buf *b, struct gen *g)
{
	uint32_t i;

	head(b, g, false);
	for (i = 0; i < g->n_choices; i++) {
		buf_add(b, ",", i > 0);
		whole_choice(b, g, &g->choices[i]);
	}
	buf_text(b, "],\"usage\":");
	usage(b, g);
	buf_text(b, "}");
}

/* ---- chunks ---- */

static void delta(struct buf *b, const struct gen *g, const struct choice *c, const char *text, size_t n)
{
	if (!g->p.chat) {
		buf_text(b, "\"text\":");
		buf_json(b, text, n);
		return;
	}
	buf_text(b, c->began ? "\"delta\":{" : "\"delta\":{\"role\":\"assistant\",");
	if (n || !c->began) {
		buf_text(b, "\"content\":");
		buf_json(b, text, n);
	}
	buf_text(b, "}");
}

static void one_chunk(struct buf *b, struct gen *g, struct choice *c, size_t to, uint32_t token_to, bool is_end)
{
	buf_text(b, "data: ");
	head(b, g, true);
	buf_print(b, "{\"index\":%u,", c->index);
	delta(b, g, c, c->text.b ? c->text.b + c->sent_text : "", to - c->sent_text);
	buf_text(b, ",\"logprobs\":");
	logprobs(b, g, c, c->sent_tokens, token_to);
	buf_text(b, ",\"finish_reason\":");
	finish(b, c, is_end);
	buf_text(b, g->p.include_usage ? "}],\"usage\":null}\n\n" : "}]}\n\n");
	c->began = true;
	c->sent_text = to;
	c->sent_tokens = token_to;
}

void reply_chunk(struct buf *b, struct gen *g, struct choice *c)
{
	bool is_end = c->done || c->ended;
	uint32_t tokens;

	/* A chat's role comes alone, as its clients know it. */
	if (g->p.chat && !c->began)
		one_chunk(b, g, c, 0, 0, false);
	tokens = g->p.logprobs ? tokens_in(c, c->sent_tokens, c->stop.safe) : 0;
	if (c->stop.safe > c->sent_text || tokens > c->sent_tokens)
		one_chunk(b, g, c, c->stop.safe, tokens, !g->p.chat && is_end);
	else if (!g->p.chat && is_end)
		one_chunk(b, g, c, c->stop.safe, tokens, true);
	if (g->p.chat && is_end)
		one_chunk(b, g, c, c->stop.safe, tokens, true);
	c->finished = is_end;
}

void reply_usage_chunk(struct buf *b, const struct gen *g)
{
	buf_text(b, "data: ");
	head(b, g, true);
	buf_text(b, "],\"usage\":");
	usage(b, g);
	buf_text(b, "}\n\n");
}
