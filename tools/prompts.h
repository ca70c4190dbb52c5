/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* Prompts from the command line and from files, and their tokens. */
#ifndef TOOLS_PROMPTS_H
#define TOOLS_PROMPTS_H

#include <stddef.h>

#include "runtime/model/chat.h"
#include "runtime/model/tokenizer.h"

struct prompt {
	char *text; /* owned */
	size_t n;
	struct tok_ids ids;
	char error[512]; /* why it cannot be run; empty: it can */
};

struct prompts {
	struct prompt *p;
	size_t n, cap;
};

/* -1 after a message. */
int prompts_add(struct prompts *ps, const char *text, size_t n);
/* One prompt a line; empty lines are left out, so is a carriage return at a line's end. "-" is standard input. */
int prompts_read(struct prompts *ps, const char *path);
void prompts_free(struct prompts *ps);

/* As a user's message in the template where @chat is given, after @system if that is not NULL, else the plain text after BOS as the file says.
 * What goes wrong is the prompt's own error. */
void prompt_encode(struct prompt *p, const struct tokenizer *t, const struct chat_template *chat,
		   const char *system);

/* Whether a text of this model begins with BOS. */
bool adds_bos(const struct tokenizer *t);

/* A whole file ("-": standard input), terminated by a 0 that does not count. NULL after a message. */
char *read_file(const char *path, size_t *n);

#endif
