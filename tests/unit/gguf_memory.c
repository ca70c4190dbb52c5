// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * Each allocation of the model's readers fails once, alone: the call says -ENOMEM with a sentence,
 * leaks nothing (the build with ASan sees to that), and leaves its arguments as they were. malloc
 * and its like are wrapped by the linker (mk/fuzz.mk).
 */
#include <errno.h>
#include <string.h>
#include "runtime/model/chat.h"
#include "runtime/model/tokenizer.h"
#include "tests/lib/tap.h"
#include "tests/lib/vocab.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

static long fail_in; /* this many allocations from now; 0: never */

static int fails(void)
{
	return fail_in && !--fail_in;
}

void *__wrap_malloc(size_t n)
{
	return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
	return fails() ? NULL : __real_realloc(p, n);
}

struct what {
	uint8_t *file;
	size_t n;
	struct gguf g;
	struct tokenizer *t;
	struct chat_template *c;
	struct model_error e;
};

static int parse(struct what *w)
{
	int err = gguf_parse(&w->g, w->file, w->n, "x.gguf", &w->e);

	if (!err)
		gguf_close(&w->g);
	return err;
}

static int tokenizer(struct what *w)
{
	struct tokenizer *t;
	int err = tok_open(&t, &w->g, &w->e);

	if (!err)
		tok_close(t);
	return err;
}

static int encode(struct what *w)
{
	static const char text[] =
		"[user]hello hello <|im_end|> world, 1 2 3 4 and more words than sixty-four bytes hold: "
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		"hehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehe"
		"hehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehehe";
	struct tok_ids ids = { 0 };
	int err = tok_encode(w->t, text, sizeof(text) - 1, TOK_SPECIAL | TOK_BOS, &ids);

	/* encode has no sentence of its own */
	snprintf(w->e.text, sizeof(w->e.text), "%s", err && ids.n ? "" : "ids are as they were");
	tok_ids_free(&ids);
	return err;
}

static int chat(struct what *w)
{
	struct chat_template *c;
	int err = chat_open(&c, &w->g, &w->e);

	if (!err)
		chat_close(c);
	return err;
}

static int render(struct what *w)
{
	struct chat_message m[4] = {
		{ "user", "a", 1 }, { "assistant", "b", 1 }, { "user", "c", 1 }, { "x", "", 0 }
	};
	struct chat_piece *p;
	size_t n;
	int err = chat_render(w->c, m, 4, &p, &n, &w->e);

	if (!err)
		chat_pieces_free(p, n);
	return err;
}

static void each(const char *name, int (*call)(struct what *), struct what *w)
{
	int err, bad = 0;
	long k;

	for (k = 1; k < 100000; k++) {
		w->e.text[0] = 0;
		fail_in = k;
		err = call(w);
		if (fail_in) { /* there was no k-th allocation */
			fail_in = 0;
			break;
		}
		bad += err != -ENOMEM || !w->e.text[0];
		if (err != -ENOMEM || !w->e.text[0])
			printf("# allocation %ld: %d \"%s\"\n", k, err, w->e.text);
	}
	ok(!err && !bad && k > 1, "%s: each of %ld allocations failed once", name, k - 1);
}

static void family(const char *name, bool bpe)
{
	struct what w = { 0 };
	struct gguf_write gw;
	int i;

	gw_init(&gw);
	if (bpe)
		vocab_bpe(&gw, "smollm");
	else
		vocab_spm(&gw, true);
	gw_value_str(&gw, "tokenizer.chat_template", "{{ '<|im_start|>system\nHi<|im_end|>\n' }}");
	for (i = 0; i < 70; i++) {
		char key[16];

		snprintf(key, sizeof(key), "t%d", i);
		gw_tensor(&gw, key, 0, 1, (uint64_t[]){ 8 }, "01234567012345670123456701234567",
			  32);
	}
	w.file = gw_end(&gw, &w.n);
	each("parse", parse, &w);
	if (ok(!gguf_parse(&w.g, w.file, w.n, "x.gguf", &w.e) && !tok_open(&w.t, &w.g, &w.e) &&
		       !chat_open(&w.c, &w.g, &w.e),
	       "%s opens", name)) {
		each("tokenizer", tokenizer, &w);
		each("chat", chat, &w);
		each("encode", encode, &w);
		each("render", render, &w);
		tok_close(w.t);
		chat_close(w.c);
		gguf_close(&w.g);
	}
	free(w.file);
}

int main(void)
{
	family("byte-level", true);
	family("SentencePiece", false);
	return done();
}
