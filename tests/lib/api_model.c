// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "api_model.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/vocab.h"

static const char template[] =
	"{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
	"{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

void api_model_open(struct api_model *m)
{
	struct model_error e = { "" };
	struct chat_template *chat;
	struct tokenizer *tok;
	struct gguf_write w;
	struct gguf g;
	uint8_t *file;
	size_t n;

	memset(m, 0, sizeof(*m));
	gw_init(&w);
	vocab_bpe(&w, "smollm");
	gw_value_str(&w, "tokenizer.chat_template", template);
	file = gw_end(&w, &n);
	if (gguf_parse(&g, file, n, "x", &e) || tok_open(&tok, &g, &e) || chat_open(&chat, &g, &e))
		abort();
	gguf_close(&g);
	free(file);
	m->name = "the/model";
	m->tok = tok;
	m->chat = chat;
	m->context = 1000;
	m->pool_tokens = 500;
	m->pool_bytes = 8u << 20;
	m->sampling.temperature = 0.7f;
	m->sampling.top_p = 0.95f;
	m->sampling.top_k = 40;
}

void api_model_close(struct api_model *m)
{
	tok_close((struct tokenizer *)m->tok);
	chat_close((struct chat_template *)m->chat);
}
