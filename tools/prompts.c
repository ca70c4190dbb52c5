// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "prompts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvslab.h"
#include "msg.h"

#define FILE_MAX ((size_t)1 << 30) /* bytes of text; far beyond any context */

static int no_memory(void)
{
	msg("no memory for the prompts; give fewer or shorter ones");
	return -1;
}

int prompts_add(struct prompts *ps, const char *text, size_t n)
{
	struct prompt *p;
	size_t cap;

	if (ps->n == ps->cap) {
		cap = ps->cap ? 2 * ps->cap : 16;
		p = realloc(ps->p, cap * sizeof(*p));
		if (!p)
			return no_memory();
		ps->p = p;
		ps->cap = cap;
	}
	p = &ps->p[ps->n];
	memset(p, 0, sizeof(*p));
	p->text = malloc(n + 1);
	if (!p->text)
		return no_memory();
	memcpy(p->text, text, n);
	p->text[n] = 0;
	p->n = n;
	ps->n++;
	return 0;
}

void prompts_free(struct prompts *ps)
{
	size_t i;

	for (i = 0; i < ps->n; i++) {
		tok_ids_free(&ps->p[i].ids);
		free(ps->p[i].text);
	}
	free(ps->p);
	memset(ps, 0, sizeof(*ps));
}

char *read_file(const char *path, size_t *n)
{
	FILE *f = strcmp(path, "-") ? fopen(path, "re") : stdin;
	size_t cap = 1 << 16, got;
	char *s = NULL, *t;

	*n = 0;
	if (!f)
		goto unreadable;
	for (;;) {
		t = realloc(s, cap);
		if (!t) {
			msg("no memory for %s; give a smaller file", path);
			goto fail;
		}
		s = t;
		errno = 0;
		got = fread(s + *n, 1, cap - *n - 1, f);
		*n += got;
		if (ferror(f))
			goto unreadable;
		if (!got)
			break;
		if (*n > FILE_MAX) {
			msg("%s is larger than %zu MiB; split it", path, FILE_MAX >> 20);
			goto fail;
		}
		if (cap - *n < cap / 2)
			cap *= 2;
	}
	s[*n] = 0;
	if (f != stdin)
		fclose(f);
	return s;
unreadable:
	msg("%s cannot be read: %s; check the name and its permissions", path, strerror(errno));
fail:
	if (f && f != stdin)
		fclose(f);
	free(s);
	return NULL;
}

int prompts_read(struct prompts *ps, const char *path)
{
	size_t n, before = ps->n, len, next;
	char *text = read_file(path, &n), *line, *end;
	int err = -1;

	if (!text)
		return -1;
	for (line = text; line < text + n; line += next) {
		end = memchr(line, '\n', (size_t)(text + n - line));
		len = (size_t)((end ? end : text + n) - line);
		next = len + 1;
		if (len && line[len - 1] == '\r')
			len--;
		if (len && prompts_add(ps, line, len))
			goto out;
	}
	if (ps->n == before)
		msg("%s has no prompt in it; write one on each line", path);
	else
		err = 0;
out:
	free(text);
	return err;
}

bool adds_bos(const struct tokenizer *t)
{
	struct tok_ids ids = { NULL, 0, 0 };
	bool adds;

	adds = !tok_encode(t, "", 0, TOK_BOS, &ids) && ids.n && tok_bos(t) == (int64_t)ids.id[0];
	tok_ids_free(&ids);
	return adds;
}

static void encode_chat(struct prompt *p, const struct tokenizer *t, const struct chat_template *chat,
			const char *system)
{
	struct chat_message m[] = { { "system", system, system ? strlen(system) : 0 }, { "user", p->text, p->n } };
	struct model_error e = { "" };

	if (chat_encode(chat, t, m + !system, 1 + !!system, &p->ids, &e))
		snprintf(p->error, sizeof(p->error), "%s", e.text);
}

void prompt_encode(struct prompt *p, const struct tokenizer *t, const struct chat_template *chat,
		   const char *system)
{
	int err = 0;

	if (chat)
		encode_chat(p, t, chat, system);
	else
		err = tok_encode(t, p->text, p->n, TOK_BOS, &p->ids);
	if (err)
		snprintf(p->error, sizeof(p->error), "%zu bytes of text cannot be turned into tokens: %s", p->n,
			 kvslab_strerror(err));
	else if (!p->error[0] && !p->ids.n)
		snprintf(p->error, sizeof(p->error), "the prompt is empty; give at least one character");
}
