/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * A request that generates: its choices in the scheduler, their texts, and what of them the client was given.
 *
 * Tokens come in callbacks of the scheduler, which only note them (and cancel a choice at a stop string); the client is
 * given them after the step, by gen_pump(), as fast as he takes them. So a slow reader costs the memory of his own text,
 * and nothing else.
 */
#ifndef SERVE_GENERATE_H
#define SERVE_GENERATE_H

#include "app.h"
#include "runtime/model/stop.h"

struct gen_token { /* kept where log probabilities are wanted */
	uint32_t id;
	float logprob; /* NaN: none, of a prompt's first */
	uint32_t n_top; /* the likeliest in its place, in the choice's tops */
	size_t text_end; /* bytes of the choice's text with this token */
};

struct choice {
	struct gen *gen;
	uint32_t index, prompt;
	struct kvslab_request *request; /* NULL: not in the scheduler any more */
	struct buf text; /* with echo it begins with the prompt */
	struct tok_stream stream;
	struct tok_stream echo; /* of the prompt, to find where its tokens end */
	size_t echoed;
	struct stop_scan stop;
	struct gen_token *tokens; /* [n_noted] with logprobs */
	struct kvslab_top *tops; /* [n_noted][top_logprobs] */
	uint32_t n_noted, cap_tokens; /* also those of an echoed prompt */
	uint32_t n_tokens; /* of the answer */
	uint32_t cached_tokens;
	uint64_t last; /* ns: of the last token */
	bool ended; /* by a stop string or a stop token of ours: the scheduler's word comes later */
	bool done;
	const char *finish; /* "stop", "length", "abort"; NULL: none yet */
	/* what the client has */
	bool began, finished;
	size_t sent_text, sent_chars;
	uint32_t sent_tokens;
};

struct gen {
	struct app *app;
	struct gen *next, **prev; /* of the app's */
	struct gen *next_dirty;
	bool dirty;
	struct exchange *x; /* NULL: the client has gone */
	struct gen_params p;
	struct choice *choices;
	uint32_t n_choices;
	uint32_t n_running; /* in the scheduler */
	uint32_t busy; /* not to be freed: somebody goes through its choices */
	bool streaming, failed;
	struct api_error error; /* with failed */
	uint64_t created; /* s since 1970 */
	struct loop_timer ping;
};

/* Starts it, or answers with an error; takes what is in @p. */
void gen_start(struct exchange *x, struct gen_params *p);
/* The client has gone: whatever it holds is given back. */
void gen_gone(struct gen *g);
/* Gives the client what there is, while he takes it; at the end of all, ends the exchange and frees the generation. */
void gen_pump(struct gen *g);
/* Cancels it and tells the client. */
void gen_abort(struct gen *g, const struct api_error *e);
void gen_pump_dirty(struct app *a);

/* reply.c: its JSON. */
void reply_whole(struct buf *b, struct gen *g);
/* One event of a stream: the text of @c that is safe and was not sent, its end if that is reached; marks it as sent. */
void reply_chunk(struct buf *b, struct gen *g, struct choice *c);
void reply_usage_chunk(struct buf *b, const struct gen *g);

#endif
