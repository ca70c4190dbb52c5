/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* Opens whatever bytes there are as a model file, and uses all that came of it: for damaged files
 * and fuzzing. */
#ifndef MODEL_USE_H
#define MODEL_USE_H

#include <stdlib.h>
#include "runtime/model/chat.h"
#include "runtime/model/tokenizer.h"
#include "tap.h"

static uint64_t use_file(const struct gguf *g)
{
	uint64_t sum = 0, i, u;
	int64_t d;
	double x;
	bool b;

	for (i = 0; i < g->n_tensors; i++)
		if (g->tensors[i].size)
			sum += ((const uint8_t *)g->tensors[i].data)[0] +
			       ((const uint8_t *)g->tensors[i].data)[g->tensors[i].size - 1];
	for (i = 0; i < g->n_values; i++) {
		const struct gguf_value *v = &g->values[i];

		sum += gguf_item_u64(v, v->count - 1, &u) + gguf_item_i64(v, v->count / 2, &d) +
		       gguf_item_f64(v, 0, &x);
	}
	sum += gguf_bool(g, "yes", &b) + gguf_u64(g, "u64", &u) + (gguf_tensor(g, "rows") != NULL);
	return sum;
}

static void use_tokenizer(const struct tokenizer *t, uint64_t *seed)
{
	static const char text[] =
		"Hello  world \xf0\x9f\x98\x80 12 <|im_start|>x <s>[user]\n\n'll \xff\xc3 aaaabcabc hehehe";
	char *out = malloc(3 * tok_piece_max(t) + 16);
	struct tok_ids ids = { 0 };
	struct tok_stream s;
	size_t i, n;

	for (i = 0; i < 4; i++)
		if (tok_encode(t, text, sizeof(text) - 1, (unsigned int)i, &ids))
			abort();
	tok_stream_init(&s, t);
	for (i = 0; i < ids.n + 50; i++) {
		uint32_t id = i < ids.n ? ids.id[i] : (uint32_t)(rnd(seed) % (tok_vocab(t) + 2));

		n = tok_stream_next(&s, id, out);
		if (n > 3 * tok_piece(t, id, true).n + 16)
			abort();
	}
	tok_stream_end(&s, out);
	tok_stops(t, &n);
	for (i = 0; i < n; i++)
		if (tok_stops(t, &n)[i] >= tok_vocab(t))
			abort();
	if (tok_bos(t) >= tok_vocab(t) || tok_eos(t) >= tok_vocab(t) ||
	    tok_find(t, text, 5) >= tok_vocab(t))
		abort();
	tok_ids_free(&ids);
	free(out);
}

struct use_tally {
	int files, tokenizers, chats, refused, silent;
};

/* All that came of a file which was accepted; it is closed. A wrong answer ends the process. */
static void use_opened(struct gguf *g, uint64_t *seed, struct use_tally *sum)
{
	struct chat_message m = { "user", "Hello", 5 };
	struct chat_template *c;
	struct model_error e = { "" };
	struct chat_piece *p;
	struct tokenizer *t;
	size_t k;
	int err;

	sum->files++;
	if (use_file(g) == UINT64_MAX)
		abort();
	err = tok_open(&t, g, &e);
	sum->silent += err && !e.text[0];
	if (!err) {
		sum->tokenizers++;
		use_tokenizer(t, seed);
		tok_close(t);
	}
	e.text[0] = 0;
	err = chat_open(&c, g, &e);
	sum->silent += err && !e.text[0];
	if (!err) {
		sum->chats++;
		if (chat_render(c, &m, 1, &p, &k, &e))
			abort();
		chat_pieces_free(p, k);
		chat_close(c);
	}
	gguf_close(g);
}

static inline void use_model(const uint8_t *b, size_t n, uint64_t *seed, struct use_tally *sum)
{
	struct model_error e = { "" };
	struct gguf g;

	if (gguf_parse(&g, n ? b : NULL, n, "x.gguf", &e)) {
		sum->refused++;
		sum->silent += !e.text[0];
		return;
	}
	use_opened(&g, seed, sum);
}

#endif
