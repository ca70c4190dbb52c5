// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * SentencePiece-style BPE: spaces written as U+2581, characters merged by the score of what they
 * become, what is no token given as bytes. Control, unknown and byte tokens never come out of
 * merging, whatever the text says.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tok_impl.h"

#define SPACE "\xe2\x96\x81"

static int by_score(const void *a, const void *b, void *arg)
{
	const float *score = arg;
	float x = score[*(const uint32_t *)a], y = score[*(const uint32_t *)b];

	return (x < y) - (x > y);
}

static int load_scores(struct tokenizer *t, const struct gguf *g, struct model_error *e)
{
	const struct gguf_value *v = gguf_find(g, "tokenizer.ggml.scores");
	uint32_t *order, i;
	float *score;
	double x;
	int err = -ENOMEM;

	if (!v || v->kind != GGUF_ARRAY || v->count != t->n ||
	    !(v->item == GGUF_F32 || v->item == GGUF_F64))
		return model_fail(
			e, -EBADMSG,
			"%s: 'tokenizer.ggml.scores' must be a list of %u numbers, one for each token: convert the model again",
			g->path, t->n);
	t->score_rank = malloc(t->n * sizeof(*t->score_rank));
	order = malloc(t->n * sizeof(*order));
	score = malloc(t->n * sizeof(*score));
	if (!t->score_rank || !order || !score) {
		model_fail(e, err, "%s: no memory for the tokenizer's scores", g->path);
		goto out;
	}
	for (i = 0; i < t->n; i++) {
		gguf_item_f64(v, i, &x);
		score[i] = isnan(x) ? -INFINITY : (float)x;
		order[i] = i;
	}
	qsort_r(order, t->n, sizeof(*order), by_score, score);
	for (i = 0; i < t->n; i++)
		t->score_rank[order[i]] = i && score[order[i]] == score[order[i - 1]]
						  ? t->score_rank[order[i - 1]]
						  : i;
	err = 0;
out:
	free(order);
	free(score);
	return err;
}

int tok_load_spm(struct tokenizer *t, const struct gguf *g, struct model_error *e)
{
	char name[8];
	uint32_t b;
	int err;

	err = load_scores(t, g, e);
	if (err)
		return err;
	for (b = 0; b < 256; b++) {
		snprintf(name, sizeof(name), "<0x%02X>", b);
		t->byte_token[b] = tok_strings_find(&t->strings, name, 6);
		if (t->byte_token[b] == TOK_NONE && t->unk < 0)
			return model_fail(
				e, -EOPNOTSUPP,
				"%s: the tokenizer has neither a token '%s' nor one for what is unknown, so it cannot write every text: convert the model again",
				g->path, name);
	}
	return 0;
}

static uint32_t text_token(const struct tokenizer *t, const char *text, uint32_t n)
{
	uint32_t id = n <= t->longest ? tok_strings_find(&t->strings, text, n) : TOK_NONE;

	return id != TOK_NONE && tok_is_text(t, id) ? id : TOK_NONE;
}

static bool spm_pair(const struct tokenizer *t, const char *text, const struct tok_symbol *a,
		     const struct tok_symbol *b, uint32_t *rank, uint32_t *id)
{
	*id = text_token(t, text + a->at, a->n + b->n);
	if (*id == TOK_NONE)
		return false;
	*rank = t->score_rank[*id];
	return true;
}

/* By the first byte alone, so that broken UTF-8 falls into the same pieces as with the peer. */
static uint32_t char_length(uint8_t b, uint32_t left)
{
	uint32_t n = b < 0xc0 ? 1 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;

	return n < left ? n : left;
}

static int put_bytes(const struct tokenizer *t, const char *p, uint32_t n, struct tok_ids *ids)
{
	uint32_t i;
	int err = 0;

	for (i = 0; i < n; i++)
		if (t->byte_token[(uint8_t)p[i]] == TOK_NONE)
			return tok_append(ids, (uint32_t)t->unk);
	for (i = 0; i < n && !err; i++)
		err = tok_append(ids, t->byte_token[(uint8_t)p[i]]);
	return err;
}

int tok_encode_spm(const struct tokenizer *t, struct tok_merge *m, const char *text, uint32_t n,
		   bool prefix, struct tok_ids *ids)
{
	char *buf = malloc(((size_t)n + 1) * 3);
	const struct tok_symbol *s;
	uint32_t i, len, k = 0;
	int err = 0;

	if (!buf)
		return -ENOMEM;
	if (prefix) {
		memcpy(buf, SPACE, 3);
		k = 3;
	}
	for (i = 0; i < n; i++) {
		if (text[i] == ' ') {
			memcpy(buf + k, SPACE, 3);
			k += 3;
		} else {
			buf[k++] = text[i];
		}
	}
	m->n = 0;
	for (i = 0; i < k && !err; i += len) {
		len = char_length((uint8_t)buf[i], k - i);
		err = tok_merge_add(m, i, len, text_token(t, buf + i, len));
	}
	if (!err)
		err = tok_merge_run(m, t, buf, spm_pair);
	for (i = 0; i != TOK_NONE && m->n && !err; i = s->next) {
		s = &m->symbol[i];
		err = s->id != TOK_NONE ? tok_append(ids, s->id)
					: put_bytes(t, buf + s->at, s->n, ids);
	}
	free(buf);
	return err;
}
