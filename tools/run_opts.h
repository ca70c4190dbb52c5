/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* What `run` is asked to do. */
#ifndef TOOLS_RUN_OPTS_H
#define TOOLS_RUN_OPTS_H

#include "engine.h"
#include "prompts.h"
#include "runtime/model/stop.h"

struct run_opts {
	struct engine_opts engine;
	/* its bias points into @biases */
	struct kvslab_sampling sampling;
	uint32_t *bias_tokens;
	float *biases;
	struct stop_text *stops;
	uint32_t n_stops;
	uint32_t max_tokens;
	bool ignore_eos, chat, interactive, json;
	const char *chat_template; /* NULL: the file's */
	const char *system; /* NULL: the file's default */
	const char *json_path;
	struct prompts prompts;
};

/* Ends the command at what is wrong. */
void run_parse(struct run_opts *o, int argc, char **argv);
void run_opts_free(struct run_opts *o);
/* What only the vocabulary tells. -1 after a message. */
int run_check(const struct run_opts *o, const struct tokenizer *t);

#endif
