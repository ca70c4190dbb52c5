/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * Chat templates: recognised from the file's own template text, or named by the caller; built here in C, no template is
 * ever run. Known are
 *
 *	chatml       <|im_start|>ROLE\nCONTENT<|im_end|>\n                              Qwen, SmolLM and many others
 *	llama3       <|start_header_id|>ROLE<|end_header_id|>\n\nCONTENT<|eot_id|>      with 3.1's dates where the file has them
 *	gemma        <start_of_turn>ROLE\nCONTENT<end_of_turn>\n                        the system's text begins the user's first
 *	mistral      [INST] CONTENT[/INST] CONTENT</s>                                  in the spacing that the file has
 *	deepseek-r1  <|User|>CONTENT<|Assistant|>CONTENT<|end_of_sentence|>             (bars and underscore of its own)
 *
 * Tools, documents and pictures are not done. Where a template writes today's date, the one that it falls back to is
 * written, so that a prompt is the same tomorrow.
 */
#ifndef MODEL_CHAT_H
#define MODEL_CHAT_H

#include "gguf.h"
#include "tokenizer.h"

struct chat_message {
	const char *role; /* "system", "user", "assistant" */
	const char *content;
	size_t n; /* bytes of content */
};

struct chat_template;

/* Keeps its own copies. -EOPNOTSUPP: no template in the file, or one that is not known; -EBADMSG; -ENOMEM. */
int chat_open(struct chat_template **c, const struct gguf *g, struct model_error *e);
/* The same by name; where the file's own is of that name, as the file has it. -EINVAL: no such name. */
int chat_open_as(struct chat_template **c, const struct gguf *g, const char *name, struct model_error *e);
void chat_close(struct chat_template *c);
const char *chat_name(const struct chat_template *c);
extern const char *const chat_names; /* for messages */

/*
 * The prompt as pieces, so that a special token's text inside a message stays text: pieces with @special are marks, one
 * each, the others text. The file's default system prompt comes first where it has one and the messages begin with
 * another than a system one. Ends where the assistant's answer begins. BOS is no part of it.
 * -EINVAL: a role that is empty, long or not of one line, or that the template does not take there; -ENOMEM.
 */
struct chat_piece {
	char *text; /* owned by the array */
	size_t n;
	bool special;
	bool ends_answer; /* a mark behind an assistant's message */
};

int chat_render(const struct chat_template *c, const struct chat_message *messages, size_t n_messages,
		struct chat_piece **pieces, size_t *n_pieces, struct model_error *e);
void chat_pieces_free(struct chat_piece *pieces, size_t n);

/*
 * Appends the prompt's ids: those of its whole text, BOS before them where template or file want it, but for texts of
 * special tokens inside messages, which stay text. What a message holds can therefore not begin or end a turn; where a
 * mark is no token of the file's, a message that holds its text is refused (-EINVAL).
 * -EINVAL, -ENOMEM, -EFBIG as of chat_render and tok_encode; @ids stays as it was then.
 */
int chat_encode(const struct chat_template *c, const struct tokenizer *t, const struct chat_message *messages,
		size_t n_messages, struct tok_ids *ids, struct model_error *e);
/*
 * The next turn of a conversation: @ids is the prompt of the first @n_before messages and what was drawn as an answer to
 * it, without a token that ended it; messages[n_before] is that answer. Where the whole prompt's text begins with theirs,
 * the ids stay and what follows is appended, so that nothing before it need be computed again; else (a template that
 * trims answers, leaves out thoughts or moves the system prompt) they are those of the whole prompt. Errors as above.
 */
int chat_continue(const struct chat_template *c, const struct tokenizer *t, const struct chat_message *messages,
		  size_t n_messages, size_t n_before, struct tok_ids *ids, struct model_error *e);

/* The file's default system prompt; n is 0 where it has none. */
struct gguf_str chat_system(const struct chat_template *c);

#endif
