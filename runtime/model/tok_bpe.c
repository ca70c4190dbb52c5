// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Byte-level BPE: words by the pre-tokenizer, in each word merges by rank. */
#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include "tok_impl.h"
#include "utf8.h"

#define TOK_WHOLE_MAX 512u /* bytes of a word that is looked up as a whole */

#define DAMAGED ": the file is damaged, fetch it again"

static uint32_t pair_slot(const struct tokenizer *t, uint64_t both)
{
	uint64_t h = (both ^ both >> 29) * t->pair_key;

	return (uint32_t)((h ^ h >> 32) * t->pair_key >> 32) & t->pair_mask;
}

static struct tok_pair *pair_place(const struct tokenizer *t, uint64_t both)
{
	uint32_t i = pair_slot(t, both);

	while (t->pairs[i].both != UINT64_MAX && t->pairs[i].both != both)
		i = (i + 1) & t->pair_mask;
	return &t->pairs[i];
}

static int no_memory(const struct gguf *g, struct model_error *e)
{
	return model_fail(e, -ENOMEM, "%s: no memory for the tokenizer's merges", g->path);
}

static int load_merge(struct tokenizer *t, const struct gguf *g, uint32_t rank,
		      struct gguf_str merge, char *both, struct model_error *e)
{
	const char *space = merge.n > 1 ? memchr(merge.s + 1, ' ', merge.n - 1) : NULL;
	uint32_t a, b, result, n_a;
	struct tok_pair *p;

	if (!space || space == merge.s + merge.n - 1)
		return model_fail(
			e, -EBADMSG,
			"%s: merge %u of 'tokenizer.ggml.merges' is not two pieces with a space between" DAMAGED,
			g->path, rank);
	n_a = (uint32_t)(space - merge.s);
	memcpy(both, merge.s, n_a);
	memcpy(both + n_a, space + 1, merge.n - n_a - 1);
	if (tok_strings_add(&t->strings, merge.s, n_a, &a) < 0 ||
	    tok_strings_add(&t->strings, space + 1, merge.n - n_a - 1, &b) < 0 ||
	    tok_strings_add(&t->strings, both, merge.n - 1, &result) < 0)
		return no_memory(g, e);
	p = pair_place(t, (uint64_t)a << 32 | b);
	if (p->both == UINT64_MAX)
		*p = (struct tok_pair){ (uint64_t)a << 32 | b, rank, result };
	return 0;
}

static int load_merges(struct tokenizer *t, const struct gguf *g, struct model_error *e)
{
	const struct gguf_value *v = gguf_find(g, "tokenizer.ggml.merges");
	uint64_t i, size = 16;
	const uint8_t *cursor;
	struct gguf_str s;
	char *both;
	int err = 0;

	if (!v || v->kind != GGUF_ARRAY || v->item != GGUF_STRING)
		return model_fail(
			e, -EBADMSG,
			"%s: has no list 'tokenizer.ggml.merges', which a tokenizer 'gpt2' needs: convert the model again",
			g->path);
	if (v->count > TOK_VOCAB_MAX)
		return model_fail(e, -EOPNOTSUPP, "%s: has %" PRIu64 " merges, %u are supported",
				  g->path, v->count, TOK_VOCAB_MAX);
	while (size < 2 * v->count)
		size *= 2;
	t->pair_mask = (uint32_t)size - 1;
	t->pairs = malloc(size * sizeof(*t->pairs));
	both = malloc(2 * TOK_PIECE_MAX);
	if (!t->pairs || !both) {
		free(both);
		return no_memory(g, e);
	}
	memset(t->pairs, 0xff, size * sizeof(*t->pairs));
	randombytes_buf(&t->pair_key, sizeof(t->pair_key));
	t->pair_key |= 1;
	for (i = 0, cursor = v->data; i < v->count && !err; i++) {
		s = gguf_next_string(&cursor);
		if (s.n > TOK_PIECE_MAX)
			err = model_fail(e, -EBADMSG,
					 "%s: merge %" PRIu64 " has %" PRIu64
					 " bytes, %u are allowed" DAMAGED,
					 g->path, i, s.n, TOK_PIECE_MAX);
		else
			err = load_merge(t, g, (uint32_t)i, s, both, e);
	}
	free(both);
	return err;
}

int tok_load_bpe(struct tokenizer *t, const struct gguf *g, struct model_error *e)
{
	struct gguf_str pre = { "default", 7 };
	uint8_t c[4];
	uint32_t b;
	int err;

	if (gguf_find(g, "tokenizer.ggml.pre") && !gguf_string(g, "tokenizer.ggml.pre", &pre))
		return model_fail(e, -EBADMSG, "%s: 'tokenizer.ggml.pre' is no string" DAMAGED,
				  g->path);
	err = tok_split_open(&t->split, pre, e);
	if (err == -EOPNOTSUPP)
		return model_fail(
			e, err,
			"%s: pre-tokenizer '%.*s' is not supported, %s are: use a model with one of them",
			g->path, (int)(pre.n < 80 ? pre.n : 80), pre.s, tok_split_names);
	if (err)
		return err;
	if (tok_split_traits(t->split) & TOK_SPLIT_BOS &&
	    !gguf_find(g, "tokenizer.ggml.add_bos_token"))
		t->add_bos = t->bos >= 0;
	for (b = 0; b < 256; b++)
		if (tok_strings_add(&t->strings, (char *)c,
				    utf8_encode(tok_byte_char((uint8_t)b), c),
				    &t->byte_char[b]) < 0)
			return no_memory(g, e);
	return load_merges(t, g, e);
}

static bool bpe_pair(const struct tokenizer *t, const char *text, const struct tok_symbol *a,
		     const struct tok_symbol *b, uint32_t *rank, uint32_t *id)
{
	const struct tok_pair *p = pair_place(t, (uint64_t)a->id << 32 | b->id);

	(void)text;
	if (p->both == UINT64_MAX)
		return false;
	*rank = p->rank;
	*id = p->result;
	return true;
}

struct words {
	const struct tokenizer *t;
	struct tok_merge *m;
	struct tok_ids *ids;
};

/* A string that only merges name is no token: its bytes are given one by one. A byte that is none
 * either is left out, as the peer does; bytes that no character of UTF-8 has are the usual ones,
 * U+001D is one in the wild. */
static int put_bytes(const struct words *w, const char *bytes, uint32_t n)
{
	uint32_t i, id;
	int err = 0;

	for (i = 0; i < n && !err; i++) {
		id = w->t->byte_char[(uint8_t)bytes[i]];
		if (id < w->t->n)
			err = tok_append(w->ids, id);
	}
	return err;
}

/* Control and unknown tokens never come out of text, whatever merges a file has: TOK_NONE then. */
static uint32_t text_token(const struct tokenizer *t, uint32_t id)
{
	return id < t->n && t->type[id] != TOK_TYPE_CONTROL && t->type[id] != TOK_TYPE_UNKNOWN
		       ? id
		       : TOK_NONE;
}

/* The token that the word is as a whole. */
static uint32_t whole_word(const struct tokenizer *t, const char *word, uint32_t n)
{
	char text[2 * TOK_WHOLE_MAX];
	uint32_t i, k = 0;

	if (n > TOK_WHOLE_MAX)
		return TOK_NONE;
	for (i = 0; i < n; i++)
		k += (uint32_t)utf8_encode(tok_byte_char((uint8_t)word[i]), (uint8_t *)text + k);
	return text_token(t, tok_strings_find(&t->strings, text, k));
}

static int encode_word(void *arg, const char *word, uint32_t n)
{
	const struct words *w = arg;
	const struct tok_symbol *s;
	uint32_t i;
	int err = 0;

	if (tok_split_traits(w->t->split) & TOK_SPLIT_WHOLE) {
		i = whole_word(w->t, word, n);
		if (i != TOK_NONE)
			return tok_append(w->ids, i);
	}
	w->m->n = 0;
	for (i = 0; i < n && !err; i++)
		err = tok_merge_add(w->m, i, 1, w->t->byte_char[(uint8_t)word[i]]);
	if (!err)
		err = tok_merge_run(w->m, w->t, word, bpe_pair);
	for (i = 0; i != TOK_NONE && n && !err; i = s->next) {
		s = &w->m->symbol[i];
		err = text_token(w->t, s->id) != TOK_NONE ? tok_append(w->ids, s->id)
							  : put_bytes(w, word + s->at, s->n);
	}
	return err;
}

/* Each byte that is part of no well-formed character becomes U+FFFD. */
static uint32_t well_formed(const char *text, uint32_t n, char *out)
{
	uint32_t i, len, k = 0, cp;

	for (i = 0; i < n; i += len) {
		len = (uint32_t)utf8_decode((const uint8_t *)text + i, n - i, &cp);
		if (len) {
			memcpy(out + k, text + i, len);
			k += len;
		} else {
			len = 1;
			memcpy(out + k, "\xef\xbf\xbd", 3);
			k += 3;
		}
	}
	return k;
}

int tok_encode_bpe(const struct tokenizer *t, struct tok_merge *m, const char *text, uint32_t n,
		   struct tok_ids *ids)
{
	struct words w = { t, m, ids };
	char *buf = malloc((size_t)n * 3 + 1);
	int err;

	if (!buf)
		return -ENOMEM;
	err = tok_split_run(t->split, buf, well_formed(text, n, buf), encode_word, &w);
	free(buf);
	return err;
}
