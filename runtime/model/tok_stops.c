// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * Tokens that end an answer. Files rarely name all of them, so texts that are used for nothing else
 * count too; such a token is a control token, whatever type the file gives it. The list is the
 * peer's, so that answers end where its do.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tok_impl.h"

/* Texts that count where the file does not have @key; with no key: always. */
static const struct {
	const char *key;
	const char *text[11];
} known[] = {
	{ NULL,
	  { "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>",
	    "<|endoftext|>", "<|eom_id|>", "<EOT>", "_<EOT>" } },
	{ NULL, { "<|end_of_text|>", "<end_of_utterance>" } },
	{ "tokenizer.ggml.eot_token_id",
	  { "<\xef\xbd\x9c"
	    "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>" } },
	{ "tokenizer.ggml.eom_token_id", { NULL } },
	{ "tokenizer.ggml.fim_pad_token_id", { "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>" } },
	{ "tokenizer.ggml.fim_rep_token_id",
	  { "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>" } },
	{ "tokenizer.ggml.fim_sep_token_id", { "<|file_sep|>" } },
};

#define KNOWN (sizeof(known) / sizeof(known[0]))
#define TEXTS (sizeof(known[0].text) / sizeof(known[0].text[0]))

static void add(struct tokenizer *t, uint32_t id)
{
	size_t i;

	for (i = 0; i < t->n_stops && t->stops[i] < id; i++)
		;
	if (i < t->n_stops && t->stops[i] == id)
		return;
	memmove(t->stops + i + 1, t->stops + i, (t->n_stops - i) * sizeof(*t->stops));
	t->stops[i] = id;
	t->n_stops++;
}

static bool is_stop(const struct tokenizer *t, int64_t id)
{
	size_t i;

	for (i = 0; i < t->n_stops; i++)
		if (t->stops[i] == id)
			return true;
	return false;
}

/* In the harmony format <|end|> ends a message, not the answer. */
static void drop_harmony_end(struct tokenizer *t)
{
	int64_t end = tok_find(t, "<|end|>", 7);
	size_t i;

	if (!is_stop(t, end) || !is_stop(t, tok_find(t, "<|return|>", 10)) ||
	    !is_stop(t, tok_find(t, "<|call|>", 8)))
		return;
	for (i = 0; t->stops[i] != end; i++)
		;
	memmove(t->stops + i, t->stops + i + 1, (--t->n_stops - i) * sizeof(*t->stops));
	t->type[end] = TOK_TYPE_USER;
}

int tok_load_stops(struct tokenizer *t, const struct gguf *g, struct model_error *e)
{
	int64_t id;
	size_t i, k;
	int err;

	t->stops = malloc((KNOWN * (TEXTS + 1) + 1) * sizeof(*t->stops));
	if (!t->stops)
		return model_fail(e, -ENOMEM, "%s: no memory for the tokenizer", g->path);
	for (i = 0; i < KNOWN; i++) {
		id = -1;
		err = known[i].key ? tok_load_id(t, g, known[i].key, &id, e) : 0;
		if (err)
			return err;
		if (id >= 0) {
			add(t, (uint32_t)id);
			continue;
		}
		for (k = 0; k < TEXTS && known[i].text[k]; k++) {
			id = tok_find(t, known[i].text[k], strlen(known[i].text[k]));
			if (id < 0)
				continue;
			t->type[id] = TOK_TYPE_CONTROL;
			add(t, (uint32_t)id);
		}
	}
	if (t->eos >= 0)
		add(t, (uint32_t)t->eos);
	drop_harmony_end(t);
	return 0;
}
