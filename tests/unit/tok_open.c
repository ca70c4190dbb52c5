// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Opening tokenizers: what is refused has its own sentence; ids, stops and types are the file's. */
#include <errno.h>
#include <string.h>
#include "runtime/model/tok_impl.h"
#include "tests/lib/tap.h"
#include "tests/lib/vocab.h"

/* Opens and forgets the file at once: the tokenizer must need nothing of it. */
static int open_end(struct gguf_write *w, struct tokenizer **t, struct model_error *e)
{
	struct gguf g;
	uint8_t *file;
	size_t n;
	int err;

	file = gw_end(w, &n);
	e->text[0] = 0;
	err = gguf_parse(&g, file, n, "x.gguf", e);
	if (!err) {
		err = tok_open(t, &g, e);
		gguf_close(&g);
	}
	memset(file, 0x55, n);
	free(file);
	return err;
}

static void refuse(struct gguf_write *w, int want, const char *word)
{
	struct tokenizer *t;
	struct model_error e;
	int err = open_end(w, &t, &e);

	ok(err == want && strstr(e.text, word) && !strncmp(e.text, "x.gguf: ", 8), "%d %s", err,
	   e.text);
	if (!err)
		tok_close(t);
}

static void strings(struct gguf_write *w, const char *key, const char *const *s, uint64_t n)
{
	uint64_t i;

	gw_array(w, key, 8, n);
	for (i = 0; i < n; i++)
		gw_text(&w->values, s[i], strlen(s[i]));
}

static void numbers(struct gguf_write *w, const char *key, uint32_t kind, const void *p, uint64_t n)
{
	gw_array(w, key, kind, n);
	gw_bytes(&w->values, p, n * 4);
}

static const char *const abc[] = { "a", "b", "c", "ab", "<x>" };
static const char *const merges[] = { "a b" };

/* A tokenizer of five tokens, without what @less names. */
static void small(struct gguf_write *w, const char *model, const char *less)
{
	static const int32_t type[] = { 1, 1, 1, 1, 3 };
	static const float score[] = { -1, -2, -3, -4, 0 };

	gw_init(w);
	if (model)
		gw_value_str(w, "tokenizer.ggml.model", model);
	if (strcmp(less, "tokens") != 0)
		strings(w, "tokenizer.ggml.tokens", abc, 5);
	if (strcmp(less, "types") != 0)
		numbers(w, "tokenizer.ggml.token_type", 5, type, 5);
	if (strcmp(less, "merges") != 0)
		strings(w, "tokenizer.ggml.merges", merges, 1);
	if (strcmp(less, "scores") != 0)
		numbers(w, "tokenizer.ggml.scores", 6, score, 5);
	if (strcmp(less, "unk") != 0)
		gw_value_u32(w, "tokenizer.ggml.unknown_token_id", 4);
}

static void test_lists(void)
{
	static const char *const twice[] = { "a", "b", "a" }, *const no_space[] = { "a b", "ab" },
				 *const half[] = { "a " };
	static const int32_t seven[] = { 1, 1, 1, 1, 7 }, negative[] = { 1, 1, 1, 1, -1 };
	static const float two[] = { 1, 2 };
	const char *long_token[1];
	struct gguf_write w;
	char *text;

	small(&w, NULL, "");
	refuse(&w, -EOPNOTSUPP, "'tokenizer.ggml.model' is missing");
	small(&w, "bert", "");
	refuse(&w, -EOPNOTSUPP, "tokenizer 'bert' is not supported, 'gpt2' and 'llama' are");
	small(&w, "gpt2x", "");
	refuse(&w, -EOPNOTSUPP, "'gpt2x'");
	small(&w, "gpt2", "tokens");
	refuse(&w, -EBADMSG, "'tokenizer.ggml.tokens' must be a list of 1 to");
	small(&w, "gpt2", "tokens");
	strings(&w, "tokenizer.ggml.tokens", abc, 0);
	refuse(&w, -EBADMSG, "list of 1 to");
	small(&w, "gpt2", "tokens");
	numbers(&w, "tokenizer.ggml.tokens", 5, seven, 5);
	refuse(&w, -EBADMSG, "list of 1 to");
	small(&w, "gpt2", "tokens");
	strings(&w, "tokenizer.ggml.tokens", twice, 3);
	refuse(&w, -EBADMSG, "tokens 0 and 2 are both 'a'");
	text = malloc(65537);
	memset(text, 'q', 65536);
	text[65536] = 0;
	long_token[0] = text;
	small(&w, "gpt2", "tokens");
	strings(&w, "tokenizer.ggml.tokens", long_token, 1);
	refuse(&w, -EBADMSG, "token 0 has 65536 bytes, 65535 are allowed");
	text[257] = 0;
	gw_init(&w);
	gw_value_str(&w, "tokenizer.ggml.model", "gpt2");
	strings(&w, "tokenizer.ggml.tokens", long_token, 1);
	numbers(&w, "tokenizer.ggml.token_type", 5, (int32_t[]){ 3 }, 1);
	refuse(&w, -EOPNOTSUPP, "special token 0 has 257 bytes, 256 are supported");
	free(text);
	small(&w, "gpt2", "types");
	numbers(&w, "tokenizer.ggml.token_type", 5, seven, 4);
	refuse(&w, -EBADMSG, "'tokenizer.ggml.token_type' must be a list of 5 numbers");
	small(&w, "gpt2", "types");
	numbers(&w, "tokenizer.ggml.token_type", 5, seven, 5);
	refuse(&w, -EBADMSG, "gives token 4 a type outside 0 to 6");
	small(&w, "llama", "types");
	numbers(&w, "tokenizer.ggml.token_type", 5, negative, 5);
	refuse(&w, -EBADMSG, "gives token 4 a type outside 0 to 6");
	small(&w, "gpt2", "merges");
	refuse(&w, -EBADMSG, "has no list 'tokenizer.ggml.merges'");
	small(&w, "gpt2", "merges");
	strings(&w, "tokenizer.ggml.merges", no_space, 2);
	refuse(&w, -EBADMSG, "merge 1 of 'tokenizer.ggml.merges' is not two pieces");
	small(&w, "gpt2", "merges");
	strings(&w, "tokenizer.ggml.merges", half, 1);
	refuse(&w, -EBADMSG, "merge 0 of");
	small(&w, "llama", "scores");
	refuse(&w, -EBADMSG, "'tokenizer.ggml.scores' must be a list of 5 numbers");
	small(&w, "llama", "scores");
	numbers(&w, "tokenizer.ggml.scores", 6, two, 2);
	refuse(&w, -EBADMSG, "list of 5 numbers");
	small(&w, "llama", "scores");
	numbers(&w, "tokenizer.ggml.scores", 5, seven, 5);
	refuse(&w, -EBADMSG, "list of 5 numbers");
	small(&w, "llama", "unk");
	refuse(&w, -EOPNOTSUPP, "neither a token '<0x00>' nor one for what is unknown");
}

static void test_pre(void)
{
	static const char *const good[] = { "gpt-2",	 "smollm", "default",
					    "llama-bpe", "qwen2",  "deepseek-r1-qwen" };
	struct gguf_write w;
	struct tokenizer *t;
	struct model_error e;
	size_t i;

	small(&w, "gpt2", "");
	gw_value_str(&w, "tokenizer.ggml.pre", "tekken");
	refuse(&w, -EOPNOTSUPP,
	       "pre-tokenizer 'tekken' is not supported, 'gpt-2', 'smollm', 'default', "
	       "'llama-bpe', 'qwen2' and 'deepseek-r1-qwen' are");
	small(&w, "gpt2", "");
	gw_value_u32(&w, "tokenizer.ggml.pre", 1);
	refuse(&w, -EBADMSG, "'tokenizer.ggml.pre' is no string");
	for (i = 0; i < 6; i++) {
		small(&w, "gpt2", "");
		gw_value_str(&w, "tokenizer.ggml.pre", good[i]);
		if (ok(!open_end(&w, &t, &e), "pre-tokenizer %s %s", good[i], e.text))
			tok_close(t);
	}
	small(&w, "gpt2", "");
	if (ok(!open_end(&w, &t, &e), "no pre-tokenizer is the default %s", e.text))
		tok_close(t);
	small(&w, "llama", "");
	gw_value_str(&w, "tokenizer.ggml.pre", "whatever");
	if (ok(!open_end(&w, &t, &e), "the other family has no pre-tokenizer %s", e.text))
		tok_close(t);
}

static void test_ids(void)
{
	static const char *const keys[] = { "tokenizer.ggml.bos_token_id",
					    "tokenizer.ggml.eos_token_id",
					    "tokenizer.ggml.eot_token_id" };
	struct tok_ids ids = { 0 };
	struct gguf_write w;
	struct tokenizer *t;
	struct model_error e;
	size_t i, n;

	for (i = 0; i < 3; i++) {
		small(&w, "gpt2", "");
		gw_value_u32(&w, keys[i], 5);
		refuse(&w, -EBADMSG, "must be a token's number, below 5");
		small(&w, "gpt2", "");
		gw_value_str(&w, keys[i], "1");
		refuse(&w, -EBADMSG, "must be a token's number, below 5");
	}
	small(&w, "gpt2", "");
	gw_value_u32(&w, keys[0], UINT32_MAX);
	gw_value_u32(&w, keys[1], UINT32_MAX);
	gw_value_bool(&w, "tokenizer.ggml.add_bos_token", 1);
	gw_value_bool(&w, "tokenizer.ggml.add_eos_token", 1);
	if (ok(!open_end(&w, &t, &e), "-1 says none %s", e.text)) {
		ok(tok_bos(t) == -1 && tok_eos(t) == -1, "none");
		ok(!tok_encode(t, "ab", 2, TOK_BOS, &ids) && ids.n == 1 && ids.id[0] == 3,
		   "none is added");
		tok_stops(t, &n);
		ok(!n, "none stops");
		ok(tok_vocab(t) == 5 && tok_find(t, "ab", 2) == 3 && tok_find(t, "abc", 3) == -1 &&
			   tok_find(t, "", 0) == -1,
		   "find by text");
		ok(!tok_piece(t, 5, true).n && !tok_piece(t, UINT32_MAX, true).n,
		   "ids beyond the vocabulary are empty");
		ok(!tok_piece(t, 4, false).n && tok_piece(t, 4, true).n == 3,
		   "a control token's text only when asked for");
		ok(tok_piece_max(t) == 3, "longest piece");
		tok_close(t);
	}
	small(&w, "gpt2", "");
	gw_value_u32(&w, keys[0], 0);
	gw_value_u32(&w, keys[1], 1);
	gw_value_u32(&w, keys[2], 0);
	gw_value_bool(&w, "tokenizer.ggml.add_bos_token", 1);
	gw_value_bool(&w, "tokenizer.ggml.add_eos_token", 1);
	if (ok(!open_end(&w, &t, &e), "ids %s", e.text)) {
		const uint32_t *stops = tok_stops(t, &n);

		ids.n = 0;
		ok(!tok_encode(t, "ab", 2, TOK_BOS, &ids) && ids.n == 3 && ids.id[0] == 0 &&
			   ids.id[1] == 3 && ids.id[2] == 1,
		   "BOS and EOS are added where the file says so");
		ids.n = 0;
		ok(!tok_encode(t, "", 0, TOK_BOS, &ids) && ids.n == 2, "to empty text too");
		ids.n = 0;
		ok(!tok_encode(t, NULL, 0, 0, &ids) && !ids.n, "and not where the caller does not");
		ok(n == 2 && stops[0] == 0 && stops[1] == 1, "eos and eot stop");
		tok_close(t);
	}
	tok_ids_free(&ids);
}

static void stops_are(const char *what, const char *const *tokens, uint64_t n, const char *key,
		      uint32_t id, const uint32_t *want, size_t n_want)
{
	struct gguf_write w;
	struct tokenizer *t;
	struct model_error e;
	size_t have, i, same;

	gw_init(&w);
	gw_value_str(&w, "tokenizer.ggml.model", "gpt2");
	strings(&w, "tokenizer.ggml.tokens", tokens, n);
	strings(&w, "tokenizer.ggml.merges", merges, 1);
	if (key)
		gw_value_u32(&w, key, id);
	if (!ok(!open_end(&w, &t, &e), "%s %s", what, e.text))
		return;
	tok_stops(t, &have);
	for (i = same = 0; i < have && i < n_want; i++)
		same += tok_stops(t, &have)[i] == want[i];
	ok(have == n_want && same == have, "%s: %zu stop", what, have);
	for (i = same = 0; i < n_want; i++)
		same += !tok_piece(t, want[i], false).n;
	ok(same == n_want, "they are control tokens, though the file has no types");
	tok_close(t);
}

static void test_stops(void)
{
	static const char *const some[] = { "x",
					    "<|eot_id|>",
					    "<|im_end|>",
					    "<|end|>",
					    "<end_of_turn>",
					    "<|endoftext|>",
					    "<|eom_id|>",
					    "<EOT>",
					    "_<EOT>",
					    "<|end_of_text|>",
					    "<end_of_utterance>",
					    "y" };
	static const char *const fim[] = { "<fim_pad>", "<reponame>", "<|file_sep|>",
					   "<fim_prefix>" };
	static const char *const harmony[] = { "<|end|>", "<|return|>", "<|call|>" };

	stops_are("by text", some, 12, NULL, 0, (uint32_t[]){ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }, 10);
	stops_are("by text and id", some, 12, "tokenizer.ggml.eot_token_id", 2,
		  (uint32_t[]){ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }, 10);
	stops_are("fill in the middle", fim, 4, NULL, 0, (uint32_t[]){ 0, 1, 2 }, 3);
	stops_are("a key goes before the text", fim, 4, "tokenizer.ggml.fim_rep_token_id", 2,
		  (uint32_t[]){ 0, 2 }, 2);
	stops_are("harmony", harmony, 3, NULL, 0, (uint32_t[]){ 1, 2 }, 2);
}

static void test_spm_defaults(void)
{
	static const char *const tokens[] = { "<unk>", "<s>", "</s>", "a" };
	static const int32_t special[] = { 2, 3, 3, 1 }, plain[] = { 1, 1, 1, 1 };
	static const float score[] = { 0, 0, 0, -1 };
	struct tok_ids ids = { 0 };
	struct gguf_write w;
	struct tokenizer *t;
	struct model_error e;

	gw_init(&w);
	gw_value_str(&w, "tokenizer.ggml.model", "llama");
	strings(&w, "tokenizer.ggml.tokens", tokens, 4);
	numbers(&w, "tokenizer.ggml.token_type", 5, special, 4);
	numbers(&w, "tokenizer.ggml.scores", 6, score, 4);
	if (ok(!open_end(&w, &t, &e), "SentencePiece without ids %s", e.text)) {
		ok(tok_bos(t) == 1 && tok_eos(t) == 2, "its own are taken");
		ok(!tok_encode(t, "a", 1, TOK_BOS, &ids) && ids.n == 3 && ids.id[0] == 1 &&
			   ids.id[1] == 0 && ids.id[2] == 3,
		   "BOS is added; the space is unknown");
		tok_close(t);
	}
	gw_init(&w);
	gw_value_str(&w, "tokenizer.ggml.model", "llama");
	strings(&w, "tokenizer.ggml.tokens", tokens, 4);
	numbers(&w, "tokenizer.ggml.token_type", 5, plain, 4);
	numbers(&w, "tokenizer.ggml.scores", 6, score, 4);
	refuse(&w, -EOPNOTSUPP, "nor one for what is unknown");
	tok_ids_free(&ids);
}

static void test_bytes(void)
{
	uint8_t seen[0x200] = { 0 };
	int b, bad = 0;
	char s[3];

	for (b = 0; b < 256; b++) {
		uint32_t c = tok_byte_char((uint8_t)b), text;

		vocab_byte_text((unsigned int)b, s);
		text = s[1] ? ((uint32_t)s[0] & 0x1f) << 6 | ((uint32_t)s[1] & 0x3f)
			    : (uint32_t)s[0];
		bad += c != text || c >= 0x200 || seen[c]++ || tok_char_byte(c) != b;
	}
	for (b = 0; b < 0x300; b++)
		bad += tok_char_byte((uint32_t)b) >= 0 && (b >= 0x200 || !seen[b]);
	ok(!bad, "bytes and their characters are one to one, and GPT-2's");
}

int main(void)
{
	test_lists();
	test_pre();
	test_ids();
	test_stops();
	test_spm_defaults();
	test_bytes();
	return done();
}
