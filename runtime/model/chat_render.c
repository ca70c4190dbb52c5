// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Messages to the pieces of a prompt, form by form. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "chat_impl.h"
#include "utf8.h"

#define ROLE_MAX 64

struct pieces {
	struct chat_piece *p;
	size_t n, cap;
	int err; /* the first; nothing is added after it */
};

static void add(struct pieces *ps, bool special, const char *text, size_t n)
{
	struct chat_piece *p = ps->n ? &ps->p[ps->n - 1] : NULL;
	char *q;

	if (ps->err || (!n && !special))
		return;
	if (special || !p || p->special) {
		if (ps->n == ps->cap) {
			p = realloc(ps->p, (ps->cap * 2 + 8) * sizeof(*p));
			if (!p)
				goto no_memory;
			ps->p = p;
			ps->cap = ps->cap * 2 + 8;
		}
		p = &ps->p[ps->n++];
		*p = (struct chat_piece){ .special = special };
	}
	q = realloc(p->text, p->n + n + 1);
	if (!q)
		goto no_memory;
	p->text = q;
	memcpy(q + p->n, text, n);
	p->n += n;
	q[p->n] = 0;
	return;
no_memory:
	ps->err = -ENOMEM;
}

static void mark(struct pieces *ps, const char *text)
{
	add(ps, true, text, strlen(text));
}

static void text(struct pieces *ps, const char *s)
{
	add(ps, false, s, strlen(s));
}

/* The mark just added is what stands behind an answer. */
static void ends_answer(struct pieces *ps)
{
	if (!ps->err)
		ps->p[ps->n - 1].ends_answer = true;
}

static bool is(const struct chat_message *m, const char *role)
{
	return !strcmp(m->role, role);
}

/* White space as Python's str.strip() has it. */
static bool is_white(uint32_t c)
{
	return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
	       c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
	       c == 0x202f || c == 0x205f || c == 0x3000;
}

static struct gguf_str trimmed(struct gguf_str s)
{
	size_t len, i, end = 0;
	uint32_t cp;

	for (; s.n; s.s += len, s.n -= len) {
		len = utf8_decode((const uint8_t *)s.s, s.n, &cp);
		if (!len || !is_white(cp))
			break;
	}
	for (i = 0; i < s.n; i += len) {
		len = utf8_decode((const uint8_t *)s.s + i, s.n - i, &cp);
		if (!len || !is_white(cp))
			end = i + (len ? len : 1);
		len = len ? len : 1;
	}
	return (struct gguf_str){ s.s, end };
}

/* Behind the last </think>. */
static struct gguf_str thoughtless(struct gguf_str s)
{
	static const char end[] = "</think>";
	const char *hit;

	while ((hit = memmem(s.s, s.n, end, sizeof(end) - 1))) {
		s.n -= (uint64_t)(hit + sizeof(end) - 1 - s.s);
		s.s = hit + sizeof(end) - 1;
	}
	return s;
}

static struct gguf_str answer(const struct chat_template *c, struct gguf_str s)
{
	struct gguf_str all = s;

	if (c->drop_thoughts)
		s = thoughtless(s);
	if (c->form == CHAT_CHATML)
		for (; s.n < all.n && s.n && *s.s == '\n'; s.s++)
			s.n--;
	return c->trim && c->form != CHAT_CHATML && c->form != CHAT_DEEPSEEK ? trimmed(s) : s;
}

/* What a message says in the prompt. */
static struct gguf_str content(const struct chat_template *c, const struct chat_message *m,
			       bool earlier)
{
	struct gguf_str s = { m->content, m->n };

	if (is(m, "assistant"))
		return earlier || c->form != CHAT_CHATML ? answer(c, s) : s;
	return c->trim && (c->form == CHAT_LLAMA3 || c->form == CHAT_GEMMA) ? trimmed(s) : s;
}

static void add_str(struct pieces *ps, struct gguf_str s)
{
	add(ps, false, s.s, s.n);
}

static void chatml_turn(struct pieces *ps, const char *role, struct gguf_str s)
{
	mark(ps, IM_START);
	text(ps, role);
	text(ps, "\n");
	add_str(ps, s);
	mark(ps, IM_END);
	if (!strcmp(role, "assistant"))
		ends_answer(ps);
	text(ps, "\n");
}

static void chatml(struct pieces *ps, const struct chat_template *c, const struct chat_message *m,
		   size_t n)
{
	size_t i, last_user = n;

	for (i = 0; i < n; i++)
		if (is(&m[i], "user"))
			last_user = i;
	if (c->has_system && n && !is(&m[0], "system"))
		chatml_turn(ps, "system", (struct gguf_str){ c->system, c->n_system });
	for (i = 0; i < n; i++)
		chatml_turn(ps, m[i].role, content(c, &m[i], last_user < n && i < last_user));
	mark(ps, IM_START);
	text(ps, c->think ? "assistant\n<think>\n" : "assistant\n");
}

static void llama3_head(struct pieces *ps, const char *role)
{
	mark(ps, "<|start_header_id|>");
	text(ps, role);
	mark(ps, "<|end_header_id|>");
	text(ps, "\n\n");
}

static void llama3(struct pieces *ps, const struct chat_template *c, const struct chat_message *m,
		   size_t n)
{
	size_t i = 0;

	if (c->has_system) {
		llama3_head(ps, "system");
		add(ps, false, c->system, c->n_system);
		if (n && is(&m[0], "system"))
			add_str(ps, content(c, &m[i++], true));
		mark(ps, "<|eot_id|>");
	}
	for (; i < n; i++) {
		llama3_head(ps, m[i].role);
		add_str(ps, content(c, &m[i], true));
		mark(ps, "<|eot_id|>");
		if (is(&m[i], "assistant"))
			ends_answer(ps);
	}
	llama3_head(ps, "assistant");
}

static void gemma(struct pieces *ps, const struct chat_template *c, const struct chat_message *m,
		  size_t n)
{
	bool system = n && is(&m[0], "system");
	size_t i;

	for (i = system; i < n; i++) {
		mark(ps, "<start_of_turn>");
		text(ps, is(&m[i], "assistant") ? "model\n" : "user\n");
		if (system && i == 1) {
			add(ps, false, m[0].content, m[0].n);
			text(ps, "\n\n");
		}
		add_str(ps, content(c, &m[i], true));
		mark(ps, "<end_of_turn>");
		if (is(&m[i], "assistant"))
			ends_answer(ps);
		text(ps, "\n");
	}
	mark(ps, "<start_of_turn>");
	text(ps, "model\n");
}

static void mistral(struct pieces *ps, const struct chat_template *c, const struct chat_message *m,
		    size_t n)
{
	bool system = n && is(&m[0], "system");
	size_t i, with; /* the message that the system's text goes with */

	with = c->system_last ? n - 1 : 1;
	if (system && c->system_mark) {
		mark(ps, "[SYSTEM_PROMPT]");
		text(ps, c->system_space ? " " : "");
		add(ps, false, m[0].content, m[0].n);
		mark(ps, "[/SYSTEM_PROMPT]");
		with = 0;
	}
	for (i = system; i < n; i++) {
		if (is(&m[i], "assistant")) {
			text(ps, c->answer_space ? " " : "");
			add_str(ps, content(c, &m[i], true));
			mark(ps, c->eos);
			ends_answer(ps);
			text(ps, c->eos_space ? " " : "");
			continue;
		}
		mark(ps, "[INST]");
		text(ps, c->inst_space ? " " : "");
		if (system && i == with) {
			add(ps, false, m[0].content, m[0].n);
			text(ps, "\n\n");
		}
		add_str(ps, content(c, &m[i], true));
		text(ps, c->close_space ? " " : "");
		mark(ps, "[/INST]");
	}
}

static void deepseek(struct pieces *ps, const struct chat_template *c, const struct chat_message *m,
		     size_t n)
{
	size_t i, system = n;

	for (i = 0; i < n; i++)
		if (is(&m[i], "system"))
			system = i; /* the last one stands before all */
	if (system < n)
		add(ps, false, m[system].content, m[system].n);
	for (i = 0; i < n; i++) {
		if (is(&m[i], "user")) {
			mark(ps, DEEPSEEK_USER);
			add(ps, false, m[i].content, m[i].n);
		} else if (is(&m[i], "assistant")) {
			mark(ps, DEEPSEEK_ASSISTANT);
			add_str(ps, content(c, &m[i], true));
			mark(ps, DEEPSEEK_END);
			ends_answer(ps);
		}
	}
	mark(ps, DEEPSEEK_ASSISTANT);
	if (c->think)
		text(ps, "<think>\n");
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

/* Forms that know three roles: a system message first, then user and assistant in turn. */
static int check_turns(const struct chat_template *c, const struct chat_message *m, size_t n,
		       struct model_error *e)
{
	bool in_turn = c->form != CHAT_DEEPSEEK, system = n && is(&m[0], "system");
	const char *want;
	size_t i;

	for (i = 0; i < n; i++) {
		if (!is(&m[i], "system") && !is(&m[i], "user") && !is(&m[i], "assistant"))
			return model_fail(
				e, -EINVAL,
				"message %zu: the chat template %s has no role \"%s\"; give \"system\", \"user\" or \"assistant\"",
				i, chat_name(c), m[i].role);
		want = (i - system) % 2 ? "assistant" : "user";
		if (in_turn && i >= system && !is(&m[i], want))
			return model_fail(
				e, -EINVAL,
				"message %zu: the role is \"%s\" where the chat template %s takes \"%s\"; user and assistant take turns, after at most one system message",
				i, m[i].role, chat_name(c), want);
	}
	/* a system prompt stands inside of the user's message there */
	if (in_turn && n && (system ? n - 1 : n) % 2 == 0 && c->form == CHAT_MISTRAL)
		return model_fail(
			e, -EINVAL,
			"message %zu is the last; the chat template %s takes one of the user there",
			n - 1, chat_name(c));
	if (in_turn && system && n == 1)
		return model_fail(
			e, -EINVAL,
			"a system message alone is no chat under the template %s; add the user's",
			chat_name(c));
	return 0;
}

int chat_render(const struct chat_template *c, const struct chat_message *messages,
		size_t n_messages, struct chat_piece **pieces, size_t *n_pieces,
		struct model_error *e)
{
	static void (*const render[CHAT_FORMS])(struct pieces *, const struct chat_template *,
						const struct chat_message *, size_t) = {
		[CHAT_CHATML] = chatml,	  [CHAT_LLAMA3] = llama3,     [CHAT_GEMMA] = gemma,
		[CHAT_MISTRAL] = mistral, [CHAT_DEEPSEEK] = deepseek,
	};
	struct pieces ps = { 0 };
	size_t i;
	int err = 0;

	for (i = 0; i < n_messages && !err; i++)
		err = check_role(messages[i].role, i, e);
	if (!err && c->form != CHAT_CHATML && c->form != CHAT_LLAMA3)
		err = check_turns(c, messages, n_messages, e);
	if (err)
		return err;
	render[c->form](&ps, c, messages, n_messages);
	if (ps.err) {
		chat_pieces_free(ps.p, ps.n);
		return model_fail(e, ps.err, "no memory for a chat of %zu messages", n_messages);
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
