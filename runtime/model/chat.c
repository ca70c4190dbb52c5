// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "chat.h"
#include "chat_literal.h"

#define START "<|im_start|>"
#define END "<|im_end|>"
#define SYSTEM START "system\n"
#define ROLE_MAX 64

struct chat_template {
	char *system; /* the default system prompt */
	size_t n_system;
	bool has_system;
};

static bool has(const char *s, size_t n, const char *what)
{
	return memmem(s, n, what, strlen(what)) != NULL;
}

/* A text that is a whole system message holds the default one. */
static int look_for_system(struct chat_template *c, const char *text, size_t n)
{
	const char *from = memmem(text, n, SYSTEM, strlen(SYSTEM)), *to;

	if (!from || c->has_system)
		return 0;
	from += strlen(SYSTEM);
	to = memmem(from, (size_t)(text + n - from), END, strlen(END));
	if (!to)
		return 0;
	c->n_system = (size_t)(to - from);
	c->system = malloc(c->n_system + 1);
	if (!c->system)
		return -ENOMEM;
	memcpy(c->system, from, c->n_system);
	c->has_system = true;
	return 0;
}

/* For the message: whose template it may be. */
static const char *other_template(struct gguf_str t)
{
	static const struct {
		const char *mark, *name;
	} known[] = {
		{ "<|im_sep|>", "of the form that Phi-4 uses ('<|im_sep|>')" },
		{ "<|start_header_id|>", "that of Llama 3 ('<|start_header_id|>')" },
		{ "<start_of_turn>", "that of Gemma ('<start_of_turn>')" },
		{ "<|start|>", "of the harmony form ('<|start|>')" },
		{ "[INST]", "that of Llama 2 or Mistral ('[INST]')" },
		{ "<|user|>", "of the form that Zephyr and Phi-3 use ('<|user|>')" },
		{ "<|START_OF_TURN_TOKEN|>", "that of Command R ('<|START_OF_TURN_TOKEN|>')" },
		{ "### Instruction", "of the Alpaca form ('### Instruction')" },
		{ "USER:", "of the Vicuna form ('USER:')" },
		{ "<\xef\xbd\x9cUser\xef\xbd\x9c>", "that of DeepSeek" },
	};
	size_t i;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (has(t.s, t.n, known[i].mark))
			return known[i].name;
	return NULL;
}

static int refuse(const struct gguf *g, struct gguf_str t, struct model_error *e)
{
	const char *other = other_template(t);

	if (other)
		return model_fail(e, -EOPNOTSUPP,
				  "%s: the chat template is %s; only ChatML ('" START
				  "') is supported: give plain prompts",
				  g->path, other);
	return model_fail(
		e, -EOPNOTSUPP,
		"%s: the chat template (it begins '%.*s') is not known; only ChatML ('" START
		"') is supported: give plain prompts",
		g->path, (int)(t.n < 60 ? t.n : 60), t.s);
}

int chat_open(struct chat_template **out, const struct gguf *g, struct model_error *e)
{
	const struct gguf_value *v = gguf_find(g, "tokenizer.chat_template");
	struct chat_scan s = { 0 };
	struct chat_template *c;
	bool start = false, end = false, sep = false;
	struct gguf_str t;
	size_t n;
	int err = 0;

	if (!v)
		return model_fail(
			e, -EOPNOTSUPP,
			"%s: has no chat template ('tokenizer.chat_template' is missing): give plain prompts",
			g->path);
	if (!gguf_string(g, "tokenizer.chat_template", &t))
		return model_fail(
			e, -EBADMSG,
			"%s: 'tokenizer.chat_template' is no string: the file is damaged, fetch it again",
			g->path);
	c = calloc(1, sizeof(*c));
	s.text = malloc(t.n + 1);
	if (!c || !s.text) {
		err = -ENOMEM;
		goto out;
	}
	s.p = t.s;
	s.end = t.s + t.n;
	while (!err && chat_next_text(&s, &n)) {
		start |= has(s.text, n, START);
		end |= has(s.text, n, END);
		sep |= has(s.text, n, "<|im_sep|>");
		err = look_for_system(c, s.text, n);
	}
out:
	free(s.text);
	if (err) {
		chat_close(c);
		return model_fail(e, err,
				  "%s: no memory for the chat template of %" PRIu64 " bytes",
				  g->path, t.n);
	}
	if (!start || !end || sep) {
		chat_close(c);
		return refuse(g, t, e);
	}
	*out = c;
	return 0;
}

void chat_close(struct chat_template *c)
{
	if (!c)
		return;
	free(c->system);
	free(c);
}

struct gguf_str chat_system(const struct chat_template *c)
{
	return (struct gguf_str){ c->system, c->n_system };
}

struct pieces {
	struct chat_piece *p;
	size_t n, cap;
};

static int add(struct pieces *ps, bool special, const char *text, size_t n)
{
	struct chat_piece *p = ps->n ? &ps->p[ps->n - 1] : NULL;
	char *q;

	if (special || !p || p->special) {
		if (ps->n == ps->cap) {
			p = realloc(ps->p, (ps->cap * 2 + 8) * sizeof(*p));
			if (!p)
				return -ENOMEM;
			ps->p = p;
			ps->cap = ps->cap * 2 + 8;
		}
		p = &ps->p[ps->n++];
		*p = (struct chat_piece){ .special = special };
	}
	q = realloc(p->text, p->n + n + 1);
	if (!q)
		return -ENOMEM;
	p->text = q;
	if (n)
		memcpy(q + p->n, text, n);
	p->n += n;
	q[p->n] = 0;
	return 0;
}

static int add_message(struct pieces *ps, const char *role, const char *content, size_t n)
{
	int err;

	err = add(ps, true, START, strlen(START));
	if (!err)
		err = add(ps, false, role, strlen(role));
	if (!err)
		err = add(ps, false, "\n", 1);
	if (!err)
		err = add(ps, false, content, n);
	if (!err)
		err = add(ps, true, END, strlen(END));
	return err ? err : add(ps, false, "\n", 1);
}

static int check_role(const char *role, size_t i, struct model_error *e)
{
	if (role && *role && strlen(role) <= ROLE_MAX && !strpbrk(role, "\n\r"))
		return 0;
	return model_fail(
		e, -EINVAL,
		"message %zu: a role is one line of 1 to %u bytes, such as \"system\", \"user\" or \"assistant\"",
		i, ROLE_MAX);
}

int chat_render(const struct chat_template *c, const struct chat_message *messages,
		size_t n_messages, struct chat_piece **pieces, size_t *n_pieces,
		struct model_error *e)
{
	struct pieces ps = { 0 };
	size_t i;
	int err = 0;

	for (i = 0; i < n_messages; i++) {
		err = check_role(messages[i].role, i, e);
		if (err)
			return err;
	}
	if (c->has_system && n_messages && strcmp(messages[0].role, "system") != 0)
		err = add_message(&ps, "system", c->system, c->n_system);
	for (i = 0; i < n_messages && !err; i++)
		err = add_message(&ps, messages[i].role, messages[i].content, messages[i].n);
	if (!err)
		err = add(&ps, true, START, strlen(START));
	if (!err)
		err = add(&ps, false, "assistant\n", 10);
	if (err) {
		chat_pieces_free(ps.p, ps.n);
		return model_fail(e, err, "no memory for a chat of %zu messages", n_messages);
	}
	*pieces = ps.p;
	*n_pieces = ps.n;
	return 0;
}

void chat_pieces_free(struct chat_piece *pieces, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		free(pieces[i].text);
	free(pieces);
}
