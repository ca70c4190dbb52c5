/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * Requests' bodies, checked and turned into tokens. Pure: no connection, no scheduler; any thread, while the model is
 * open. What is out of range, of the wrong kind, or not built is told with the field's name.
 */
#ifndef SERVE_PARAMS_H
#define SERVE_PARAMS_H

#include "error.h"
#include "kvslab.h"
#include "runtime/model/chat.h"
#include "runtime/model/stop.h"
#include "runtime/model/tokenizer.h"

#define STOPS_MAX 16
#define STOP_BYTES_MAX 256
#define STOP_IDS_MAX 64
#define CHOICES_MAX 128 /* of a request: prompts times n */
#define TOP_LOGPROBS_MAX KVSLAB_TOP_MAX
#define BIASES_MAX 1024
#define MESSAGES_MAX 4096

/* What a request is checked against. Read-only while requests are served. */
struct api_model {
	const char *name; /* as clients call it */
	const struct tokenizer *tok;
	const struct chat_template *chat; /* NULL: chat_error says why */
	char chat_error[512];
	uint32_t context;
	uint64_t pool_tokens; /* of one sequence that the whole pool can hold */
	uint64_t pool_bytes;
	char fingerprint[24]; /* of the weights and what computes with them */
	/* for requests that do not say */
	struct kvslab_sampling sampling;
	bool has_seed; /* sampling.seed is to be used; else each request draws one */
	uint32_t max_tokens; /* 0: 16 for completions, what the context leaves for chats */
};

struct gen_params {
	bool chat;
	bool stream, include_usage;
	bool ignore_eos, echo;
	bool logprobs;
	uint32_t top_logprobs;
	uint32_t n; /* choices a prompt */
	uint32_t max_tokens; /* what was asked for, or the default; of each choice; 0 only with echo, or whole_context */
	bool whole_context; /* no limit but that */
	uint32_t min_tokens;
	uint8_t priority;
	struct kvslab_sampling sampling; /* choice is set by whoever runs them; its lists are those below */
	uint32_t *bias_tokens; /* [sampling.n_bias]; owned */
	float *bias;
	struct stop_text stops[STOPS_MAX];
	uint32_t n_stops;
	uint32_t stop_ids[STOP_IDS_MAX]; /* beside those that end an answer */
	uint32_t n_stop_ids;
	char *salt;
	size_t salt_n;
	char user[65]; /* for the log; cut */
	struct tok_ids *prompts;
	char **texts; /* [n_prompts] with echo: the prompts as text */
	size_t *text_n;
	size_t n_prompts;
	size_t prompt_tokens; /* of all prompts */
};

/* Zeroed before; free it whatever the outcome. 0, or -1 with @e filled. @random: for requests without a seed. */
int gen_params_parse(struct gen_params *p, const struct api_model *m, bool chat, const char *body, size_t n, uint64_t random,
		     struct api_error *e);
void gen_params_free(struct gen_params *p);

/* POST /tokenize and /detokenize: the answer's JSON goes to @out. */
int api_tokenize(struct buf *out, const struct api_model *m, const char *body, size_t n, struct api_error *e);
int api_detokenize(struct buf *out, const struct api_model *m, const char *body, size_t n, struct api_error *e);

/* prompts.c: shared by the above */
struct json_t;
int prompt_text(const struct api_model *m, const char *s, size_t n, unsigned int flags, struct tok_ids *ids,
		struct api_error *e);
int prompt_ids(const struct api_model *m, const struct json_t *array, const char *name, struct tok_ids *ids,
	       struct api_error *e);
int prompt_messages(const struct api_model *m, const struct json_t *o, struct tok_ids *ids, struct api_error *e);
/* The text of ids, in @out; special tokens as their text with @special. */
void ids_text(const struct api_model *m, const struct tok_ids *ids, bool special, struct buf *out);

#endif
