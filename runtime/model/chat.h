/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * Chat templates: recognised from the file's own template text, built here in C. Only ChatML so far:
 * "<|im_start|>ROLE\nCONTENT<|im_end|>\n" for each message, then "<|im_start|>assistant\n". What else a template of that
 * form may do (tools, trimming, old thoughts left out) is not done.
 */
#ifndef MODEL_CHAT_H
#define MODEL_CHAT_H

#include "gguf.h"

struct chat_message {
	const char *role; /* "system", "user", "assistant" */
	const char *content;
	size_t n; /* bytes of content */
};

struct chat_template;

/* Keeps its own copies. -EOPNOTSUPP: no template in the file, or one that is not known; -EBADMSG; -ENOMEM. */
int chat_open(struct chat_template **c, const struct gguf *g, struct model_error *e);
void chat_close(struct chat_template *c);

/*
 * The prompt as pieces, so that a special token's text inside a message stays text: pieces with @special are
 * to be encoded with TOK_SPECIAL, the others without. The file's default system prompt comes first where it has
 * one and the messages begin with another than a system one. Ends where the assistant's answer begins. Special pieces
 * are those tokens and nothing else, so the ids are the same as of the whole text (where no message holds such texts).
 * -EINVAL: a role that is empty, long or not of one line; -ENOMEM.
 */
struct chat_piece {
	char *text; /* owned by the array */
	size_t n;
	bool special;
};

int chat_render(const struct chat_template *c, const struct chat_message *messages, size_t n_messages,
		struct chat_piece **pieces, size_t *n_pieces, struct model_error *e);
void chat_pieces_free(struct chat_piece *pieces, size_t n);
/* The file's default system prompt; n is 0 where it has none. */
struct gguf_str chat_system(const struct chat_template *c);

#endif
