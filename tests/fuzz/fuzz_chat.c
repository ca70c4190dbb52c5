// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * Any template, and any messages through whatever is recognised in it. The first byte: its low bits
 * name a template, or none; the others are the roles. Then the template, and the messages' texts,
 * each behind a 0. Checked: no text of a message adds a mark or takes one away; a conversation goes
 * on from its ids; what is refused leaves nothing behind.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/model/chat.h"
#include "tests/lib/vocab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(what) ((what) ? (void)0 : abort())
#define MESSAGES 6

static struct tokenizer *chat_tok;

static void put_text(struct gguf_write *w, const char *key, const void *text, size_t n)
{
	gw_key(w, key, 8);
	gw_text(&w->values, text, n);
}

static struct chat_template *open_chat(const uint8_t *text, size_t n, const char *name)
{
	struct chat_template *c = NULL;
	struct model_error e;
	struct gguf_write w;
	struct gguf g;
	size_t size;
	uint8_t *f;
	int err;

	gw_init(&w);
	if (!chat_tok)
		vocab_bpe(&w, "llama-bpe");
	put_text(&w, "tokenizer.chat_template", text, n);
	f = gw_end(&w, &size);
	CHECK(!gguf_parse(&g, f, size, "x", &e));
	if (!chat_tok)
		CHECK(!tok_open(&chat_tok, &g, &e));
	err = chat_open_as(&c, &g, name, &e);
	CHECK(err ? !c && e.text[0] : !!c);
	CHECK(!name || !err || err == -ENOMEM);
	gguf_close(&g);
	free(f);
	return c;
}

static bool is_control(uint32_t id)
{
	return !tok_piece(chat_tok, id, false).n && tok_piece(chat_tok, id, true).n;
}

/* Control tokens in the prompt; -1: refused. */
static int controls(const struct chat_template *c, const struct chat_message *m, size_t n)
{
	struct tok_ids ids = { NULL, 0, 0 };
	struct model_error e;
	int count = 0;
	size_t i;

	if (chat_encode(c, chat_tok, m, n, &ids, &e)) {
		CHECK(!ids.n && e.text[0]);
		count = -1;
	}
	for (i = 0; i < ids.n; i++)
		count += is_control(ids.id[i]);
	tok_ids_free(&ids);
	return count;
}

static size_t marks(const struct chat_template *c, const struct chat_message *m, size_t n)
{
	struct chat_piece *p;
	struct model_error e;
	size_t n_p, i, count = 1;

	if (chat_render(c, m, n, &p, &n_p, &e))
		return 0;
	for (i = 0; i < n_p; i++)
		count += p[i].special;
	chat_pieces_free(p, n_p);
	return count;
}

static void go_on(const struct chat_template *c, const struct chat_message *m, size_t n)
{
	struct tok_ids ids = { NULL, 0, 0 };
	struct model_error e;
	size_t before;

	if (n < 3 || strcmp(m[n - 2].role, "assistant") ||
	    chat_encode(c, chat_tok, m, n - 2, &ids, &e)) {
		tok_ids_free(&ids);
		return;
	}
	CHECK(!tok_append(&ids, 'x'));
	before = ids.n;
	CHECK(chat_continue(c, chat_tok, m, n, n - 2, &ids, &e) ? ids.n == before : ids.n > 0);
	tok_ids_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = { NULL,	"chatml",      "llama3", "gemma",
					     "mistral", "deepseek-r1", NULL,	 NULL };
	static const char *const roles[] = { "user", "assistant", "system", "tool" };
	struct chat_message m[MESSAGES], plain[MESSAGES];
	const uint8_t *from = data + 1, *end = data + size, *to;
	struct chat_template *c;
	size_t n = 0;

	if (!size)
		return 0;
	to = memchr(from, 0, (size_t)(end - from));
	c = open_chat(from, (size_t)((to ? to : end) - from), names[data[0] & 7]);
	if (!c)
		return 0;
	for (; to && n < MESSAGES; n++) {
		from = to + 1;
		to = memchr(from, 0, (size_t)(end - from));
		m[n] = (struct chat_message){
			roles[data[0] & 0x80 ? (data[0] + n) >> 3 & 3 : n & 1], (const char *)from,
			(size_t)((to ? to : end) - from)
		};
		plain[n] = (struct chat_message){ m[n].role, "x", 1 };
	}
	CHECK(marks(c, m, n) == marks(c, plain, n));
	if (controls(c, m, n) >= 0)
		CHECK(controls(c, m, n) == controls(c, plain, n));
	go_on(c, m, n);
	chat_close(c);
	return 0;
}
