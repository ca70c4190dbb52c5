// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* A prompt's pieces to ids, so that no message can forge a turn. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "chat_impl.h"

/* Whether a mark is one token of its own. */
static bool is_token(const struct tokenizer *t, const char *mark, size_t n)
{
	struct tok_ids ids = { NULL, 0, 0 };
	bool one = !tok_encode(t, mark, n, TOK_SPECIAL, &ids) && ids.n == 1;

	tok_ids_free(&ids);
	return one;
}

/* Where a mark is text like any other, no message may hold it. */
static int check_message(const char *mark, const struct chat_message *m, size_t n,
			 struct model_error *e)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (memmem(m[i].content, m[i].n, mark, strlen(mark)) || strstr(m[i].role, mark))
			return model_fail(
				e, -EINVAL,
				"message %zu holds '%s', which marks a turn and is no token of this model's own, so that the message could pass for another's: leave it out",
				i, mark);
	return 0;
}

static int append(char **text, size_t *n, const struct chat_piece *p)
{
	char *q = realloc(*text, *n + p->n + 1);

	if (!q)
		return -ENOMEM;
	memcpy(q + *n, p->text, p->n);
	*text = q;
	*n += p->n;
	return 0;
}

static int encode(const struct tokenizer *t, const struct chat_piece *p, size_t n,
		  const struct chat_message *m, size_t n_m, struct tok_ids *ids,
		  struct model_error *e)
{
	char *text = NULL; /* since the last token of a mark */
	size_t n_text = 0, i;
	bool own;
	int err = 0;

	for (i = 0; i < n && !err; i++) {
		own = p[i].special && is_token(t, p[i].text, p[i].n);
		if (p[i].special && !own)
			err = check_message(p[i].text, m, n_m, e);
		if (!err && !own) {
			err = append(&text, &n_text, &p[i]);
			continue;
		}
		if (!err)
			err = tok_encode(t, text, n_text, TOK_MESSAGE, ids);
		n_text = 0;
		if (!err)
			err = tok_encode(t, p[i].text, p[i].n, TOK_SPECIAL, ids);
	}
	if (!err)
		err = tok_encode(t, text, n_text, TOK_MESSAGE, ids);
	free(text);
	return err;
}

static int put_bos(const struct chat_template *c, const struct tokenizer *t, struct tok_ids *ids)
{
	size_t before = ids->n;
	int err = tok_encode(t, "", 0, TOK_BOS, ids);

	/* without the EOS that a file may want at a text's end */
	if (!err && ids->n > before && ids->id[before] == tok_bos(t))
		ids->n = before + 1;
	else
		ids->n = before;
	if (!err && ids->n == before && c->bos && tok_bos(t) >= 0)
		err = tok_append(ids, (uint32_t)tok_bos(t));
	return err;
}

static int fail(int err, size_t n, struct model_error *e)
{
	return model_fail(e, err, "a chat of %zu messages cannot be turned into tokens: %s", n,
			  err == -EFBIG ? "it is too long" : "no memory is left");
}

int chat_encode(const struct chat_template *c, const struct tokenizer *t,
		const struct chat_message *messages, size_t n_messages, struct tok_ids *ids,
		struct model_error *e)
{
	size_t n, before = ids->n;
	struct chat_piece *p;
	int err;

	err = chat_render(c, messages, n_messages, &p, &n, e);
	if (err)
		return err;
	err = put_bos(c, t, ids);
	if (!err)
		err = encode(t, p, n, messages, n_messages, ids, e);
	chat_pieces_free(p, n);
	if (err)
		ids->n = before;
	return err == -ENOMEM || err == -EFBIG ? fail(err, n_messages, e) : err;
}

/* The pieces' whole text: 0, or -ENOMEM. */
static int join(const struct chat_piece *p, size_t n, char **text, size_t *size)
{
	size_t i;
	int err = 0;

	*text = NULL;
	*size = 0;
	for (i = 0; i < n && !err; i++)
		err = append(text, size, &p[i]);
	return err;
}

/* Whether the text of all messages begins with the prompt that @m[n_before] answers, and the
 * answer. */
static int begins_with(const struct chat_template *c, const struct chat_message *m, size_t n_before,
		       const struct chat_piece *p, size_t n, struct model_error *e)
{
	size_t size = 0, size_before = 0, n_p;
	char *whole = NULL, *before = NULL;
	struct chat_piece *q;
	int err;

	err = chat_render(c, m, n_before, &q, &n_p, e);
	if (err)
		return err;
	err = join(q, n_p, &before, &size_before);
	if (!err)
		err = join(p, n, &whole, &size);
	if (!err)
		err = size >= size_before + m[n_before].n && before &&
		      !memcmp(whole, before, size_before) &&
		      !memcmp(whole + size_before, m[n_before].content, m[n_before].n);
	chat_pieces_free(q, n_p);
	free(before);
	free(whole);
	return err;
}

int chat_continue(const struct chat_template *c, const struct tokenizer *t,
		  const struct chat_message *messages, size_t n_messages, size_t n_before,
		  struct tok_ids *ids, struct model_error *e)
{
	size_t n, from, before = ids->n, answers = 0, i;
	struct tok_ids all = { NULL, 0, 0 };
	struct chat_piece *p;
	int keep, err = 0;

	err = chat_render(c, messages, n_messages, &p, &n, e);
	if (err)
		return err;
	keep = begins_with(c, messages, n_before, p, n, e);
	/* the mark behind that answer: the one of its number */
	for (i = 0; i <= n_before; i++)
		answers += !strcmp(messages[i].role, "assistant");
	for (from = 0; from < n && answers; from++)
		answers -= p[from].ends_answer;
	if (keep > 0 && from && !answers)
		err = encode(t, p + from - 1, n - from + 1, messages, n_messages, ids, e);
	chat_pieces_free(p, n);
	if (keep < 0)
		err = keep;
	if (err)
		ids->n = before;
	if (err == -ENOMEM || err == -EFBIG)
		return fail(err, n_messages, e);
	if (err || (keep > 0 && from))
		return err;
	err = chat_encode(c, t, messages, n_messages, &all, e);
	if (err) {
		tok_ids_free(&all);
		return err;
	}
	tok_ids_free(ids);
	*ids = all;
	return 0;
}
