// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* The tokenizer as its users see it: open, encode, look at tokens. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "tok_impl.h"
#include "utf8.h"

#define DAMAGED ": the file is damaged, fetch it again"

static int load_tokens(struct tokenizer *t, const struct gguf *g, struct model_error *e)
{
	const struct gguf_value *v = gguf_find(g, "tokenizer.ggml.tokens");
	const uint8_t *cursor;
	struct gguf_str s;
	uint32_t id;
	uint64_t i;
	int err;

	if (!v || v->kind != GGUF_ARRAY || v->item != GGUF_STRING || !v->count ||
	    v->count > TOK_VOCAB_MAX)
		return model_fail(
			e, -EBADMSG,
			"%s: 'tokenizer.ggml.tokens' must be a list of 1 to %u strings: convert the model again",
			g->path, TOK_VOCAB_MAX);
	for (i = 0, cursor = v->data; i < v->count; i++) {
		s = gguf_next_string(&cursor);
		if (s.n > TOK_PIECE_MAX)
			return model_fail(e, -EBADMSG,
					  "%s: token %" PRIu64 " has %" PRIu64
					  " bytes, %u are allowed" DAMAGED,
					  g->path, i, s.n, TOK_PIECE_MAX);
		t->longest = s.n > t->longest ? (uint32_t)s.n : t->longest;
		err = tok_strings_add(&t->strings, s.s, s.n, &id);
		if (err == 1)
			return model_fail(e, -EBADMSG,
					  "%s: tokens %u and %" PRIu64 " are both '%.*s'" DAMAGED,
					  g->path, id, i, (int)(s.n < 80 ? s.n : 80), s.s);
		if (err)
			return model_fail(e, err,
					  "%s: no memory for the tokenizer's %" PRIu64 " tokens",
					  g->path, v->count);
	}
	t->n = (uint32_t)v->count;
	return 0;
}

static int load_types(struct tokenizer *t, const struct gguf *g, struct model_error *e)
{
	const struct gguf_value *v = gguf_find(g, "tokenizer.ggml.token_type");
	uint64_t type = TOK_TYPE_NORMAL;
	struct gguf_str s;
	uint32_t i;

	t->type = malloc(t->n);
	if (!t->type)
		return model_fail(e, -ENOMEM, "%s: no memory for the tokenizer", g->path);
	if (v && (v->kind != GGUF_ARRAY || v->count != t->n))
		return model_fail(
			e, -EBADMSG,
			"%s: 'tokenizer.ggml.token_type' must be a list of %u numbers, one for each token: convert the model again",
			g->path, t->n);
	for (i = 0; i < t->n; i++) {
		if (v && (!gguf_item_u64(v, i, &type) || type > TOK_TYPE_BYTE))
			return model_fail(
				e, -EBADMSG,
				"%s: 'tokenizer.ggml.token_type' gives token %u a type outside 0 to %u" DAMAGED,
				g->path, i, TOK_TYPE_BYTE);
		s = tok_strings_get(&t->strings, i);
		if ((type == TOK_TYPE_CONTROL || type == TOK_TYPE_UNKNOWN ||
		     type == TOK_TYPE_USER) &&
		    s.n > TOK_SPECIAL_MAX)
			return model_fail(e, -EOPNOTSUPP,
					  "%s: special token %u has %" PRIu64
					  " bytes, %u are supported: use another model",
					  g->path, i, s.n, TOK_SPECIAL_MAX);
		t->type[i] = (uint8_t)type;
	}
	return 0;
}

int tok_load_id(const struct tokenizer *t, const struct gguf *g, const char *key, int64_t *id,
		struct model_error *e)
{
	const struct gguf_value *v = gguf_find(g, key);
	int64_t n;

	if (!v)
		return 0;
	/* -1, in whichever width, is how files say that there is none */
	if (v->kind == GGUF_ARRAY || !gguf_item_i64(v, 0, &n) ||
	    ((n < -1 || n >= t->n) && n != UINT32_MAX && n != UINT16_MAX))
		return model_fail(
			e, -EBADMSG,
			"%s: '%s' must be a token's number, below %u: convert the model again",
			g->path, key, t->n);
	*id = n < t->n ? n : -1;
	return 0;
}

static int load_ids(struct tokenizer *t, const struct gguf *g, struct model_error *e)
{
	int err;

	/* SentencePiece's own numbers, where the file has no other. */
	t->unk = t->family == TOK_SPM && t->type[0] == TOK_TYPE_UNKNOWN ? 0 : -1;
	t->bos = t->family == TOK_SPM && t->n > 1 && t->type[1] == TOK_TYPE_CONTROL ? 1 : -1;
	t->eos = t->family == TOK_SPM && t->n > 2 && t->type[2] == TOK_TYPE_CONTROL ? 2 : -1;
	err = tok_load_id(t, g, "tokenizer.ggml.bos_token_id", &t->bos, e);
	if (!err)
		err = tok_load_id(t, g, "tokenizer.ggml.eos_token_id", &t->eos, e);
	if (!err)
		err = tok_load_id(t, g, "tokenizer.ggml.unknown_token_id", &t->unk, e);
	t->add_bos = t->add_space = t->family == TOK_SPM;
	gguf_bool(g, "tokenizer.ggml.add_bos_token", &t->add_bos);
	gguf_bool(g, "tokenizer.ggml.add_eos_token", &t->add_eos);
	if (t->family == TOK_SPM)
		gguf_bool(g, "tokenizer.ggml.add_space_prefix", &t->add_space);
	t->add_bos = t->add_bos && t->bos >= 0;
	t->add_eos = t->add_eos && t->eos >= 0;
	return err;
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Writes the bytes of a token, never more than its text has. */
static size_t write_piece(const struct tokenizer *t, uint32_t id, char *out)
{
	struct gguf_str s = tok_strings_get(&t->strings, id);
	uint64_t i, len;
	size_t n = 0;
	uint32_t cp;
	int b;

	if (t->type[id] == TOK_TYPE_BYTE && s.n == 6 && !memcmp(s.s, "<0x", 3) &&
	    hex(s.s[3]) >= 0 && hex(s.s[4]) >= 0) {
		*out = (char)(hex(s.s[3]) * 16 + hex(s.s[4]));
		return 1;
	}
	if (!tok_is_text(t, id) || t->type[id] == TOK_TYPE_USER) {
		if (s.n)
			memcpy(out, s.s, s.n);
		return s.n;
	}
	for (i = 0; i < s.n; i += len) {
		len = utf8_decode((const uint8_t *)s.s + i, s.n - i, &cp);
		b = !len ? -1 : t->family == TOK_BPE ? tok_char_byte(cp) : cp == 0x2581 ? ' ' : -1;
		if (!len)
			len = 1;
		if (b >= 0) {
			out[n++] = (char)b;
		} else {
			memcpy(out + n, s.s + i, len);
			n += len;
		}
	}
	return n;
}

static int load_pieces(struct tokenizer *t, const struct gguf *g, struct model_error *e)
{
	uint32_t i, n = 0, len;

	t->piece_at = malloc((t->n + 1) * sizeof(*t->piece_at));
	t->piece = malloc(t->strings.at[t->n] + 1);
	if (!t->piece_at || !t->piece)
		return model_fail(e, -ENOMEM, "%s: no memory for the tokenizer's pieces", g->path);
	for (i = 0; i < t->n; i++) {
		t->piece_at[i] = n;
		len = (uint32_t)write_piece(t, i, t->piece + n);
		t->piece_max = len > t->piece_max ? len : t->piece_max;
		n += len;
	}
	t->piece_at[t->n] = n;
	return 0;
}

static int load_family(struct tokenizer *t, const struct gguf *g, struct model_error *e)
{
	struct gguf_str s = { "", 0 };

	gguf_string(g, "tokenizer.ggml.model", &s);
	if (s.n == 4 && !memcmp(s.s, "gpt2", 4))
		t->family = TOK_BPE;
	else if (s.n == 5 && !memcmp(s.s, "llama", 5))
		t->family = TOK_SPM;
	else if (!s.n)
		return model_fail(
			e, -EOPNOTSUPP,
			"%s: has no tokenizer ('tokenizer.ggml.model' is missing): use a file that has one",
			g->path);
	else
		return model_fail(
			e, -EOPNOTSUPP,
			"%s: tokenizer '%.*s' is not supported, 'gpt2' and 'llama' are: use a model with one of them",
			g->path, (int)(s.n < 80 ? s.n : 80), s.s);
	return 0;
}

int tok_open(struct tokenizer **out, const struct gguf *g, struct model_error *e)
{
	struct tokenizer *t = calloc(1, sizeof(*t));
	int err;

	if (!t || tok_strings_init(&t->strings)) {
		free(t);
		return model_fail(e, -ENOMEM, "%s: no memory for the tokenizer", g->path);
	}
	err = load_family(t, g, e);
	if (!err)
		err = load_tokens(t, g, e);
	if (!err)
		err = load_types(t, g, e);
	if (!err)
		err = load_ids(t, g, e);
	if (!err)
		err = t->family == TOK_BPE ? tok_load_bpe(t, g, e) : tok_load_spm(t, g, e);
	if (!err)
		err = tok_load_stops(t, g, e);
	if (!err)
		err = load_pieces(t, g, e);
	if (!err && tok_load_special(t))
		err = model_fail(e, -ENOMEM, "%s: no memory for the tokenizer's special tokens",
				 g->path);
	if (err) {
		tok_close(t);
		return err;
	}
	*out = t;
	return 0;
}

void tok_close(struct tokenizer *t)
{
	if (!t)
		return;
	tok_strings_free(&t->strings);
	tok_split_close(t->split);
	free(t->type);
	free(t->piece_at);
	free(t->piece);
	free(t->stops);
	free(t->special);
	free(t->special_sorted);
	free(t->pairs);
	free(t->score_rank);
	free(t);
}

int tok_append(struct tok_ids *ids, uint32_t id)
{
	size_t cap = ids->cap ? ids->cap * 2 : 64;
	uint32_t *p;

	if (ids->n == ids->cap) {
		p = realloc(ids->id, cap * sizeof(*p));
		if (!p)
			return -ENOMEM;
		ids->id = p;
		ids->cap = cap;
	}
	ids->id[ids->n++] = id;
	return 0;
}

static int encode_fragments(const struct tokenizer *t, const char *text,
			    const struct tok_fragment *f, size_t n, struct tok_ids *ids)
{
	struct tok_merge m = { 0 };
	bool after_special = true;
	size_t i;
	int err = 0;

	for (i = 0; i < n && !err; i++) {
		if (f[i].id != TOK_NONE)
			err = tok_append(ids, f[i].id);
		else if (t->family == TOK_BPE)
			err = tok_encode_bpe(t, &m, text + f[i].at, f[i].n, ids);
		else
			err = tok_encode_spm(t, &m, text + f[i].at, f[i].n,
					     t->add_space && after_special, ids);
		after_special = f[i].id != TOK_NONE;
	}
	tok_merge_free(&m);
	return err;
}

int tok_encode(const struct tokenizer *t, const char *text, size_t n, unsigned int flags,
	       struct tok_ids *ids)
{
	struct tok_fragment *f = NULL;
	size_t before = ids->n, n_f = 0;
	int err = 0;

	if (n > TOK_TEXT_MAX)
		return -EFBIG;
	if (n)
		err = tok_partition(t, text, (uint32_t)n, flags, &f, &n_f);
	if (!err && flags & TOK_BOS && t->add_bos)
		err = tok_append(ids, (uint32_t)t->bos);
	if (!err)
		err = encode_fragments(t, text, f, n_f, ids);
	if (!err && flags & TOK_BOS && t->add_eos)
		err = tok_append(ids, (uint32_t)t->eos);
	if (err)
		ids->n = before;
	free(f);
	return err;
}

void tok_ids_free(struct tok_ids *ids)
{
	free(ids->id);
	memset(ids, 0, sizeof(*ids));
}

uint32_t tok_vocab(const struct tokenizer *t)
{
	return t->n;
}

struct gguf_str tok_piece(const struct tokenizer *t, uint32_t id, bool special)
{
	if (id >= t->n ||
	    (!special && (t->type[id] == TOK_TYPE_CONTROL || t->type[id] == TOK_TYPE_UNKNOWN)))
		return (struct gguf_str){ "", 0 };
	return (struct gguf_str){ t->piece + t->piece_at[id],
				  t->piece_at[id + 1] - t->piece_at[id] };
}

int64_t tok_bos(const struct tokenizer *t)
{
	return t->bos;
}

int64_t tok_eos(const struct tokenizer *t)
{
	return t->eos;
}

int64_t tok_find(const struct tokenizer *t, const char *text, size_t n)
{
	uint32_t id = tok_strings_find(&t->strings, text, n);

	return id < t->n ? (int64_t)id : -1;
}

const uint32_t *tok_stops(const struct tokenizer *t, size_t *n)
{
	*n = t->n_stops;
	return t->stops;
}

size_t tok_piece_max(const struct tokenizer *t)
{
	return t->piece_max;
}
