// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * Any text through tokenizers of both families. The first byte chooses the tokenizer and the flags.
 * Checked: the words of a pre-tokenizer are the text; merging by the heap gives what merging by
 * looking at all pairs gives; valid text comes back; the stream's output is valid UTF-8.
 */
#include <stdlib.h>
#include <string.h>
#include "runtime/model/tok_impl.h"
#include "runtime/model/utf8.h"
#include "tests/lib/vocab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(what) ((what) ? (void)0 : abort())

enum {
	BPE_SMOLLM,
	BPE_GPT2,
	BPE_DEFAULT,
	PAIRS,
	SPM,
	SPM_NO_BYTES,
	BPE_LLAMA,
	BPE_QWEN2,
	TOKENIZERS,
};

static struct tokenizer *tokenizers[TOKENIZERS];

static struct tokenizer *open_one(int kind)
{
	struct tokenizer *t;
	struct model_error e;
	struct gguf_write w;
	struct gguf g;
	uint8_t *f;
	size_t n;

	gw_init(&w);
	switch (kind) {
	case BPE_SMOLLM:
		vocab_bpe(&w, "smollm");
		break;
	case BPE_GPT2:
		vocab_bpe(&w, "gpt-2");
		break;
	case BPE_DEFAULT:
		vocab_bpe(&w, NULL);
		break;
	case BPE_LLAMA:
		vocab_bpe(&w, "llama-bpe");
		break;
	case BPE_QWEN2:
		vocab_bpe(&w, "qwen2");
		break;
	case PAIRS:
		vocab_pairs(&w, "smollm");
		break;
	default:
		vocab_spm(&w, kind == SPM);
	}
	f = gw_end(&w, &n);
	CHECK(!gguf_parse(&g, f, n, "x", &e) && !tok_open(&t, &g, &e));
	gguf_close(&g);
	free(f);
	return t;
}

struct join {
	char *text;
	uint32_t n;
};

static int append(void *arg, const char *word, uint32_t n)
{
	struct join *j = arg;

	CHECK(n > 0);
	memcpy(j->text + j->n, word, n);
	j->n += n;
	return 0;
}

static bool is_valid(const char *text, size_t n)
{
	uint32_t cp;
	size_t i, len;

	for (i = 0; i < n; i += len) {
		len = utf8_decode((const uint8_t *)text + i, n - i, &cp);
		if (!len)
			return false;
	}
	return true;
}

/* The pairs are found as the encoder finds them, but all of them are looked at before each merge.
 */
static bool pair_of(const struct tokenizer *t, const char *text, const struct tok_symbol *a,
		    const struct tok_symbol *b, uint32_t *rank, uint32_t *id)
{
	uint64_t both = (uint64_t)a->id << 32 | b->id;
	uint32_t i;

	if (t->family == TOK_BPE) {
		for (i = 0; i <= t->pair_mask; i++)
			if (t->pairs[i].both == both && both != UINT64_MAX) {
				*rank = t->pairs[i].rank;
				*id = t->pairs[i].result;
				return true;
			}
		return false;
	}
	for (i = 0; i < t->n; i++) {
		struct gguf_str s = tok_strings_get(&t->strings, i);

		if (tok_is_text(t, i) && s.n == a->n + b->n && !memcmp(s.s, text + a->at, s.n)) {
			*rank = t->score_rank[i];
			*id = i;
			return true;
		}
	}
	return false;
}

static uint32_t merge_slowly(const struct tokenizer *t, const char *text, struct tok_symbol *s,
			     uint32_t n)
{
	uint32_t i, best, rank, id, best_rank, best_id;

	for (;;) {
		for (i = 0, best = TOK_NONE; i + 1 < n; i++)
			if (pair_of(t, text, &s[i], &s[i + 1], &rank, &id) &&
			    (best == TOK_NONE || rank < best_rank)) {
				best = i;
				best_rank = rank;
				best_id = id;
			}
		if (best == TOK_NONE)
			return n;
		s[best].n += s[best + 1].n;
		s[best].id = best_id;
		memmove(&s[best + 1], &s[best + 2], (--n - best - 1) * sizeof(*s));
	}
}

static bool slow_pair(const struct tokenizer *t, const char *text, const struct tok_symbol *a,
		      const struct tok_symbol *b, uint32_t *rank, uint32_t *id)
{
	return pair_of(t, text, a, b, rank, id);
}

/* Symbols of @text's bytes, merged both ways. */
static void compare_merges(const struct tokenizer *t, const char *text, uint32_t n)
{
	struct tok_symbol slow[48];
	struct tok_merge m = { 0 };
	uint32_t i, k, n_slow, id;

	n = n < 48 ? n : 48;
	for (i = 0; i < n; i++) {
		id = t->family == TOK_BPE ? t->byte_char[(uint8_t)text[i]]
					  : tok_strings_find(&t->strings, text + i, 1);
		slow[i] = (struct tok_symbol){ .at = i, .n = 1, .id = id };
		CHECK(!tok_merge_add(&m, i, 1, id));
	}
	n_slow = merge_slowly(t, text, slow, n);
	CHECK(!tok_merge_run(&m, t, text, slow_pair));
	for (i = 0, k = 0; n && i != TOK_NONE; i = m.symbol[i].next, k++)
		CHECK(k < n_slow && m.symbol[i].at == slow[k].at && m.symbol[i].n == slow[k].n &&
		      m.symbol[i].id == slow[k].id);
	CHECK(k == n_slow);
	tok_merge_free(&m);
}

/* Same ids from all tokens at once and one by one; text that can come back does. */
static void check_text(const struct tokenizer *t, const char *text, size_t n, unsigned int flags,
		       bool comes_back)
{
	size_t max = tok_piece_max(t), k = 0, p = 0, i;
	struct tok_ids ids = { 0 };
	struct tok_stream s;
	char *out, *pieces;

	CHECK(!tok_encode(t, text, n, flags, &ids));
	out = malloc((ids.n + 1) * (3 * max + 16));
	pieces = malloc(ids.n * max + 1);
	tok_stream_init(&s, t);
	for (i = 0; i < ids.n; i++) {
		struct gguf_str piece = tok_piece(t, ids.id[i], true);

		CHECK(ids.id[i] < tok_vocab(t));
		memcpy(pieces + p, piece.s, piece.n);
		p += piece.n;
		k += tok_stream_next(&s, ids.id[i], out + k);
		CHECK(is_valid(out, k));
	}
	k += tok_stream_end(&s, out + k);
	CHECK(is_valid(out, k));
	if (comes_back)
		CHECK(p == n && !memcmp(pieces, text, n));
	free(pieces);
	free(out);
	tok_ids_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct tokenizer *t;
	const char *text = (const char *)data + 1;
	struct join j;
	int kind;

	if (!size)
		return 0;
	for (kind = 0; kind < TOKENIZERS && !tokenizers[kind]; kind++)
		tokenizers[kind] = open_one(kind);
	kind = data[0] / 4 % TOKENIZERS;
	t = tokenizers[kind];
	size--;
	check_text(t, text, size, data[0] & 3,
		   (kind <= PAIRS || kind == BPE_QWEN2 ||
		    (kind == BPE_LLAMA && !(data[0] & TOK_BOS))) &&
			   is_valid(text, size));
	if (kind != PAIRS)
		compare_merges(t, text, (uint32_t)size);
	if (t->family == TOK_BPE && is_valid(text, size)) {
		j.text = malloc(size + 1);
		j.n = 0;
		CHECK(!tok_split_run(t->split, text, (uint32_t)size, append, &j));
		CHECK(j.n == size && !memcmp(j.text, text, size));
		free(j.text);
	}
	return 0;
}
