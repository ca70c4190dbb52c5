// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "vocab.h"

static char *readable(const char *path)
{
	return access(path, R_OK) ? NULL : strdup(path);
}

static char *cached(const char *name)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	char path[4096];

	if (cache && *cache)
		snprintf(path, sizeof(path), "%s/kvslab/%s", cache, name);
	else
		snprintf(path, sizeof(path), "%s/.cache/kvslab/%s", home ? home : "", name);
	return readable(path);
}

char *vocab_real_path(void)
{
	const char *set = getenv("KVSLAB_TEST_MODEL");

	return set ? readable(set) : cached("SmolLM2-135M-Instruct.Q4_1.gguf");
}

char *vocab_path(const char *name)
{
	const char *set = getenv("KVSLAB_TEST_VOCABS");
	char path[4096];

	if (set)
		snprintf(path, sizeof(path), "%s/%s.gguf", set, name);
	else
		snprintf(path, sizeof(path), "vocab/%s.gguf", name);
	return set ? readable(path) : cached(path);
}

char *vocab_tiny_path(void)
{
	const char *set = getenv("KVSLAB_TEST_TINY");

	return readable(set ? set : "../shared/models/stories260K-f32.gguf");
}

/* Computed as GPT-2 does: the unprintable ones counted from 256. */
void vocab_byte_text(unsigned int b, char *s)
{
	unsigned int c = b, other = 256, i;

	for (i = 0; i <= b; i++) {
		if ((i >= '!' && i <= '~') || (i >= 0xa1 && i <= 0xac) || i >= 0xae)
			c = i;
		else
			c = other++;
	}
	if (c < 0x80) {
		s[0] = (char)c;
		s[1] = 0;
	} else {
		s[0] = (char)(0xc0 | c >> 6);
		s[1] = (char)(0x80 | (c & 0x3f));
		s[2] = 0;
	}
}

static void put(struct gguf_write *w, const char *s)
{
	gw_text(&w->values, s, strlen(s));
}

static int pair_rank(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	uint32_t r = ((x >> 8) * 40503 + (x & 255) * 9973) % 65536,
		 s = ((y >> 8) * 40503 + (y & 255) * 9973) % 65536;

	return r != s ? (r > s) - (r < s) : (x > y) - (x < y);
}

void vocab_pairs(struct gguf_write *w, const char *pre)
{
	static uint32_t pairs[65536];
	char byte[256][3], s[8];
	uint32_t i;

	for (i = 0; i < 256; i++)
		vocab_byte_text(i, byte[i]);
	for (i = 0; i < 65536; i++)
		pairs[i] = i;
	qsort(pairs, 65536, sizeof(*pairs), pair_rank);
	gw_value_str(w, "tokenizer.ggml.model", "gpt2");
	gw_value_str(w, "tokenizer.ggml.pre", pre);
	gw_array(w, "tokenizer.ggml.tokens", 8, 256 + 65536);
	for (i = 0; i < 256; i++)
		put(w, byte[i]);
	for (i = 0; i < 65536; i++) {
		snprintf(s, sizeof(s), "%s%s", byte[pairs[i] >> 8], byte[pairs[i] & 255]);
		put(w, s);
	}
	gw_array(w, "tokenizer.ggml.merges", 8, 65536);
	for (i = 0; i < 65536; i++) {
		snprintf(s, sizeof(s), "%s %s", byte[pairs[i] >> 8], byte[pairs[i] & 255]);
		put(w, s);
	}
}

void vocab_bpe(struct gguf_write *w, const char *pre)
{
	static const char *const special[] = { "<|endoftext|>", "<|im_start|>", "<|im_end|>",
					       "[user]", "<|im_start|>x" };
	static const char *const merge[] = { "l l",
					     "h e",
					     "he ll",
					     "hell o",
					     "\xc4\xa0 w",
					     "\xc4\xa0 \xc4\xa0",
					     "o r",
					     "\xc4\xa0w or",
					     "\xc3\xa3 \xc4\xa3",
					     "\xc4\x8a \xc4\x8a",
					     "h i",
					     "1 2" };
	const int n_special = sizeof(special) / sizeof(special[0]),
		  n_merge = sizeof(merge) / sizeof(merge[0]);
	char s[32], *space;
	int32_t type;
	int i;

	gw_value_str(w, "tokenizer.ggml.model", "gpt2");
	if (pre)
		gw_value_str(w, "tokenizer.ggml.pre", pre);
	gw_array(w, "tokenizer.ggml.tokens", 8, (uint64_t)(256 + n_special + n_merge));
	for (i = 0; i < 256; i++) {
		vocab_byte_text((unsigned int)i, s);
		put(w, s);
	}
	for (i = 0; i < n_special; i++)
		put(w, special[i]);
	for (i = 0; i < n_merge; i++) {
		strcpy(s, merge[i]);
		space = strchr(s, ' ');
		memmove(space, space + 1, strlen(space));
		put(w, s);
	}
	gw_array(w, "tokenizer.ggml.token_type", 5, (uint64_t)(256 + n_special + n_merge));
	for (i = 0; i < 256 + n_special + n_merge; i++) {
		type = i < BPE_END || i >= BPE_MERGED ? 1 : i == BPE_USER ? 4 : 3;
		gw_bytes(&w->values, &type, 4);
	}
	gw_array(w, "tokenizer.ggml.merges", 8, (uint64_t)n_merge);
	for (i = 0; i < n_merge; i++)
		put(w, merge[i]);
	gw_value_u32(w, "tokenizer.ggml.bos_token_id", BPE_IM_START);
	gw_value_u32(w, "tokenizer.ggml.eos_token_id", BPE_IM_END);
}

void vocab_spm(struct gguf_write *w, bool bytes)
{
	/* pieces with their scores; "s>" and "<s>" would merge to a control token if that were let
	 * happen */
	static const struct {
		const char *text;
		float score;
		int type;
	} piece[] = {
		{ "<unk>", 0, 2 },
		{ "<s>", 0, 3 },
		{ "</s>", 0, 3 },
		{ "\xe2\x96\x81", -20, 1 },
		{ "a", -21, 1 },
		{ "b", -22, 1 },
		{ "c", -23, 1 },
		{ "<", -24, 1 },
		{ "s", -25, 1 },
		{ ">", -26, 1 },
		{ "s>", -1, 1 },
		{ "ab", -2, 1 },
		{ "bc", -1.5f, 1 },
		{ "abc", -3, 1 },
		{ "\xe2\x96\x81"
		  "a",
		  -4, 1 },
		{ "\xe2\x96\x81\xe2\x96\x81", -5, 1 },
		{ "\xc3\xa9", -6, 1 },
		{ "[user]", 0, 4 },
		{ "\xe2\x96\x81"
		  "ab",
		  -2, 1 },
		{ "\n", -30, 1 },
		{ "sb", -1.5f, 1 },
	};
	const int n = sizeof(piece) / sizeof(piece[0]), total = n + (bytes ? 256 : 0);
	int32_t type;
	char s[8];
	int i, k;

	gw_value_str(w, "tokenizer.ggml.model", "llama");
	gw_array(w, "tokenizer.ggml.tokens", 8, (uint64_t)total);
	for (i = 0; i < n; i++) {
		for (k = 0; i == SPM_BYTES && bytes && k < 256; k++) {
			snprintf(s, sizeof(s), "<0x%02X>", (unsigned int)k);
			put(w, s);
		}
		put(w, piece[i].text);
	}
	gw_array(w, "tokenizer.ggml.scores", 6, (uint64_t)total);
	for (i = 0; i < n; i++) {
		float zero = 0;

		for (k = 0; i == SPM_BYTES && bytes && k < 256; k++)
			gw_bytes(&w->values, &zero, 4);
		gw_bytes(&w->values, &piece[i].score, 4);
	}
	gw_array(w, "tokenizer.ggml.token_type", 5, (uint64_t)total);
	for (i = 0; i < n; i++) {
		type = 6;
		for (k = 0; i == SPM_BYTES && bytes && k < 256; k++)
			gw_bytes(&w->values, &type, 4);
		type = piece[i].type;
		gw_bytes(&w->values, &type, 4);
	}
	gw_value_u32(w, "tokenizer.ggml.bos_token_id", SPM_BOS);
	gw_value_u32(w, "tokenizer.ggml.eos_token_id", SPM_EOS);
	gw_value_u32(w, "tokenizer.ggml.unknown_token_id", SPM_UNK);
}
