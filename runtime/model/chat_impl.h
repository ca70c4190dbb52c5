/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* The inside of chat templates. Read-only once open. */
#ifndef MODEL_CHAT_IMPL_H
#define MODEL_CHAT_IMPL_H

#include "chat.h"

enum chat_form {
	CHAT_CHATML,
	CHAT_LLAMA3,
	CHAT_GEMMA,
	CHAT_MISTRAL,
	CHAT_DEEPSEEK,
	CHAT_FORMS,
};

#define CHAT_MARKS 4

#define IM_START "<|im_start|>"
#define IM_END "<|im_end|>"
#define DEEPSEEK_USER "<\xef\xbd\x9cUser\xef\xbd\x9c>"
#define DEEPSEEK_ASSISTANT "<\xef\xbd\x9c" "Assistant\xef\xbd\x9c>"
#define DEEPSEEK_END "<\xef\xbd\x9c" "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"

struct chat_template {
	enum chat_form form;
	char *system; /* the default system prompt (Llama 3: what stands before every one) */
	size_t n_system;
	bool has_system;
	char *eos; /* the text that ends an answer of Mistral's */
	bool bos; /* the template writes BOS */
	bool trim; /* white space around messages goes (Mistral: around answers) */
	bool drop_thoughts; /* of earlier answers, all up to </think> */
	bool think; /* answers begin with <think> */
	/* Mistral's spaces: after [INST], before [/INST], before an answer, after its end; a mark for
	 * system prompts, and a space behind it; else whether they go with the last message */
	bool inst_space, close_space, answer_space, eos_space, system_mark, system_space, system_last;
};

/* The texts that a turn is marked with, for the form; ends with NULL or at CHAT_MARKS. */
extern const char *const chat_marks[CHAT_FORMS][CHAT_MARKS];
extern const char *const chat_form_names[CHAT_FORMS];

#endif
