/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* What `run` prints: an answer a prompt, as text or as JSON. */
#ifndef TOOLS_ANSWERS_H
#define TOOLS_ANSWERS_H

#include <stdbool.h>

#include "kvslab.h"
#include "outfile.h"
#include "prompts.h"
#include "runtime/model/stop.h"

struct answer {
	const struct prompt *prompt;
	size_t index;
	char *text; /* owned */
	size_t n, cap;
	struct tok_stream stream;
	struct stop_scan scan; /* over text; what lies beyond its safe part is not shown yet */
	size_t shown; /* bytes, of ANSWER_STREAM */
	struct kvslab_request *request; /* NULL before and after */
	void *owner; /* for the callbacks */
	struct kvslab_request_info info; /* once done */
	char error[512]; /* empty: none */
	bool done;
};

enum answer_format {
	ANSWER_TEXT, /* each when it is done, under a line with its number and prompt where there are several */
	ANSWER_STREAM, /* one prompt: as it comes */
	ANSWER_JSON, /* an object each, in input order */
};

struct answers {
	struct answer *a;
	size_t n, n_done, n_json; /* n_json: objects printed */
	const struct stop_text *stops; /* the caller's; set after answers_init */
	uint32_t n_stops;
	enum answer_format format;
	struct outfile *file; /* JSON objects go here beside the text; may be NULL */
	bool failed; /* of a prompt */
	bool broken; /* output cannot be written: no more of it */
};

int answers_init(struct answers *as, const struct prompts *ps, const struct tokenizer *t);
void answers_free(struct answers *as);
/* One more token. 1: a stop string is there, and the answer ends before it; -ENOMEM. */
int answer_token(struct answers *as, struct answer *a, uint32_t id);
/* It is complete: info or error is set. Prints what is due. */
void answer_done(struct answers *as, struct answer *a);

/* The last object: the pool and the batch as a whole. @seconds: from first step to last. */
void answers_summary(struct answers *as, const struct kvslab_stat *pool, const struct kvslab_sched_stat *sched,
		     double seconds);

#endif
