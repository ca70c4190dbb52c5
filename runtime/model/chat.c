// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Which template a file has, and what is particular to it. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "chat_impl.h"
#include "chat_literal.h"

#define SYSTEM IM_START "system\n"
#define DATES "Cutting Knowledge Date: December 2023\nToday Date: "

const char *const chat_names = "chatml, llama3, gemma, mistral and deepseek-r1";

const char *const chat_form_names[CHAT_FORMS] = {
	[CHAT_CHATML] = "chatml",   [CHAT_LLAMA3] = "llama3",	     [CHAT_GEMMA] = "gemma",
	[CHAT_MISTRAL] = "mistral", [CHAT_DEEPSEEK] = "deepseek-r1",
};

const char *const chat_marks[CHAT_FORMS][CHAT_MARKS] = {
	[CHAT_CHATML] = { IM_START, IM_END },
	[CHAT_LLAMA3] = { "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>" },
	[CHAT_GEMMA] = { "<start_of_turn>", "<end_of_turn>" },
	[CHAT_MISTRAL] = { "[INST]", "[/INST]" },
	[CHAT_DEEPSEEK] = { DEEPSEEK_USER, DEEPSEEK_ASSISTANT },
};

static bool has(const char *s, size_t n, const char *what)
{
	return memmem(s, n, what, strlen(what)) != NULL;
}

static int keep_system(struct chat_template *c, const char *text, size_t n)
{
	free(c->system);
	c->system = malloc(n + 1);
	if (!c->system)
		return -ENOMEM;
	if (n)
		memcpy(c->system, text, n);
	c->n_system = n;
	c->has_system = true;
	return 0;
}

/* A text that is a whole system message holds the default one. */
static int look_for_system(struct chat_template *c, const char *text, size_t n)
{
	const char *from = memmem(text, n, SYSTEM, strlen(SYSTEM)), *to;

	if (!from || c->has_system)
		return 0;
	from += strlen(SYSTEM);
	to = memmem(from, (size_t)(text + n - from), IM_END, strlen(IM_END));
	return to ? keep_system(c, from, (size_t)(to - from)) : 0;
}

/* "26 Jul 2024" */
static bool is_date(const char *s, size_t n)
{
	static const char form[] = "00 Aaa 0000";
	size_t i;

	if (n != sizeof(form) - 1)
		return false;
	for (i = 0; i < n; i++)
		if (form[i] == ' '   ? s[i] != ' '
		    : form[i] == '0' ? s[i] < '0' || s[i] > '9'
				     : (s[i] | 0x20) < 'a' || (s[i] | 0x20) > 'z')
			return false;
	return true;
}

/* What the texts of a template say. */
struct seen {
	bool mark[CHAT_FORMS][CHAT_MARKS];
	bool sep; /* Phi-4's */
	bool sys; /* Llama 2's */
	bool dates;
	char date[12];
};

static bool begins(const char *s, size_t n, const char *with)
{
	return n >= strlen(with) && !memcmp(s, with, strlen(with));
}

static bool ends(const char *s, size_t n, const char *with)
{
	return n >= strlen(with) && !memcmp(s + n - strlen(with), with, strlen(with));
}

static int look_at(struct chat_template *c, struct seen *seen, const char *s, size_t n)
{
	size_t f, k;

	for (f = 0; f < CHAT_FORMS; f++)
		for (k = 0; k < CHAT_MARKS && chat_marks[f][k]; k++)
			seen->mark[f][k] |= has(s, n, chat_marks[f][k]);
	seen->sep |= has(s, n, "<|im_sep|>");
	seen->sys |= has(s, n, "<<SYS>>");
	seen->dates |= has(s, n, "Cutting Knowledge Date: December 2023");
	if (!seen->date[0] && is_date(s, n))
		memcpy(seen->date, s, n);
	c->drop_thoughts |= has(s, n, "</think>");
	c->think |= ends(s, n, IM_START "assistant\n<think>\n") ||
		    ends(s, n, DEEPSEEK_ASSISTANT "<think>\n");
	c->inst_space |= has(s, n, "[INST] ");
	c->close_space |= has(s, n, " [/INST]");
	c->answer_space |= n == 1 && *s == ' ';
	c->system_mark |= begins(s, n, "[SYSTEM_PROMPT]");
	c->system_space |= has(s, n, "[SYSTEM_PROMPT] ");
	return look_for_system(c, s, n);
}

/* What is seen in the template's code, not in its texts. */
static void look_at_code(struct chat_template *c, struct gguf_str t)
{
	c->bos = has(t.s, t.n, "bos_token");
	c->trim = has(t.s, t.n, "|trim") || has(t.s, t.n, "| trim");
	c->system_last = has(t.s, t.n, "loop.last");
	c->eos_space = has(t.s, t.n, "eos_token + ' '") || has(t.s, t.n, "eos_token + \" \"");
	if (c->eos_space)
		c->answer_space = false; /* the lone space is that one */
}

static int look(struct chat_template *c, struct seen *seen, struct gguf_str t)
{
	struct chat_scan s = { .p = t.s, .end = t.s + t.n, .text = malloc(t.n + 1) };
	int err = s.text ? 0 : -ENOMEM;
	size_t n;

	while (!err && chat_next_text(&s, &n))
		err = look_at(c, seen, s.text, n);
	free(s.text);
	look_at_code(c, t);
	return err;
}

/* The form whose marks are all there, CHAT_FORMS if none. */
static enum chat_form form_of(const struct seen *seen)
{
	enum chat_form f;
	size_t k;

	for (f = 0; f < CHAT_FORMS; f++) {
		for (k = 0; k < CHAT_MARKS && chat_marks[f][k] && seen->mark[f][k]; k++)
			;
		if ((k < CHAT_MARKS && chat_marks[f][k]) || (f == CHAT_CHATML && seen->sep) ||
		    (f == CHAT_MISTRAL && seen->sys))
			continue;
		return f;
	}
	return CHAT_FORMS;
}

/* For the message: whose template it may be. */
static const char *other_template(struct gguf_str t)
{
	static const struct {
		const char *mark, *name;
	} known[] = {
		{ "<|im_sep|>", "of the form that Phi-4 uses ('<|im_sep|>')" },
		{ "<<SYS>>", "that of Llama 2 ('<<SYS>>')" },
		{ "<|header_start|>", "that of Llama 4 ('<|header_start|>')" },
		{ "<|start|>", "of the harmony form ('<|start|>')" },
		{ "<|user|>", "of the form that Zephyr and Phi-3 use ('<|user|>')" },
		{ "<|START_OF_TURN_TOKEN|>", "that of Command R ('<|START_OF_TURN_TOKEN|>')" },
		{ "### Instruction", "of the Alpaca form ('### Instruction')" },
		{ "USER:", "of the Vicuna form ('USER:')" },
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
		return model_fail(
			e, -EOPNOTSUPP,
			"%s: the chat template is %s; %s are supported: give plain prompts, or name one of these with --chat-template",
			g->path, other, chat_names);
	return model_fail(
		e, -EOPNOTSUPP,
		"%s: the chat template (it begins '%.*s') is not known; %s are supported: give plain prompts, or name one of these with --chat-template",
		g->path, (int)(t.n < 60 ? t.n : 60), t.s, chat_names);
}

/* The text of the file's EOS; </s> where it has none. */
static char *eos_text(const struct gguf *g)
{
	const struct gguf_value *v = gguf_find(g, "tokenizer.ggml.tokens");
	struct gguf_str s = { "</s>", 4 };
	const uint8_t *cursor;
	uint64_t id, i;

	if (v && v->kind == GGUF_ARRAY && v->item == GGUF_STRING &&
	    gguf_u64(g, "tokenizer.ggml.eos_token_id", &id) && id < v->count)
		for (i = 0, cursor = v->data; i <= id; i++)
			s = gguf_next_string(&cursor);
	return strndup(s.s, s.n);
}

/* Llama 3.1's system message begins with two dates, whatever else it holds. */
static int take_dates(struct chat_template *c, const struct seen *seen)
{
	static const char fallback[] = "26 Jul 2024";
	char text[sizeof(DATES) + 16];
	int n = snprintf(text, sizeof(text), DATES "%s\n\n", seen->date[0] ? seen->date : fallback);

	return keep_system(c, text, (size_t)n);
}

static void defaults(struct chat_template *c, enum chat_form form)
{
	char *eos = c->eos;

	free(c->system);
	*c = (struct chat_template){
		.form = form,
		.eos = eos,
		.trim = form != CHAT_CHATML,
		.drop_thoughts = form == CHAT_DEEPSEEK,
		.inst_space = true,
		.answer_space = true,
		.system_last = true,
	};
}

/* The file's own, or CHAT_FORMS in c->form. */
static int from_file(struct chat_template *c, const struct gguf *g, struct gguf_str *t,
		     struct model_error *e)
{
	struct seen seen = { 0 };
	int err;

	c->form = CHAT_FORMS;
	*t = (struct gguf_str){ NULL, 0 };
	if (!gguf_find(g, "tokenizer.chat_template"))
		return 0;
	if (!gguf_string(g, "tokenizer.chat_template", t))
		return model_fail(
			e, -EBADMSG,
			"%s: 'tokenizer.chat_template' is no string: the file is damaged, fetch it again",
			g->path);
	err = look(c, &seen, *t);
	c->form = form_of(&seen);
	c->has_system = c->has_system && c->form == CHAT_CHATML;
	if (!err && c->form == CHAT_LLAMA3 && seen.dates)
		err = take_dates(c, &seen);
	if (err)
		return model_fail(e, err,
				  "%s: no memory for the chat template of %" PRIu64 " bytes",
				  g->path, t->n);
	return 0;
}

int chat_open_as(struct chat_template **out, const struct gguf *g, const char *name,
		 struct model_error *e)
{
	struct chat_template *c = calloc(1, sizeof(*c));
	enum chat_form form = CHAT_FORMS;
	struct gguf_str t;
	int err;

	if (c)
		c->eos = eos_text(g);
	if (!c || !c->eos) {
		chat_close(c);
		return model_fail(e, -ENOMEM, "%s: no memory for the chat template", g->path);
	}
	if (name)
		for (form = 0; form < CHAT_FORMS && strcmp(name, chat_form_names[form]); form++)
			;
	err = from_file(c, g, &t, e);
	if (err && !name)
		goto fail;
	if (name && form == CHAT_FORMS)
		err = model_fail(e, -EINVAL, "there is no chat template '%.40s'; there are %s",
				 name, chat_names);
	else if (name && (err || c->form != form))
		err = 0, defaults(c, form);
	else if (!t.s)
		err = model_fail(
			e, -EOPNOTSUPP,
			"%s: has no chat template ('tokenizer.chat_template' is missing); %s are supported: give plain prompts, or name one of these with --chat-template",
			g->path, chat_names);
	else if (c->form == CHAT_FORMS)
		err = refuse(g, t, e);
	if (err)
		goto fail;
	*out = c;
	return 0;
fail:
	chat_close(c);
	return err;
}

int chat_open(struct chat_template **c, const struct gguf *g, struct model_error *e)
{
	return chat_open_as(c, g, NULL, e);
}

void chat_close(struct chat_template *c)
{
	if (!c)
		return;
	free(c->system);
	free(c->eos);
	free(c);
}

const char *chat_name(const struct chat_template *c)
{
	return chat_form_names[c->form];
}

struct gguf_str chat_system(const struct chat_template *c)
{
	if (c->form != CHAT_CHATML)
		return (struct gguf_str){ NULL, 0 };
	return (struct gguf_str){ c->system, c->n_system };
}
