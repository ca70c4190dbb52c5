/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* What the two ways of `run` share: a batch of prompts (run.c), a conversation (run_chat.c). */
#ifndef TOOLS_RUN_H
#define TOOLS_RUN_H

#include <signal.h>

#include "answers.h"
#include "engine.h"
#include "run_opts.h"

struct run {
	struct run_opts o;
	struct engine engine;
	struct chat_template *chat;
	struct kvslab_sched *sched;
	struct answers answers;
	struct outfile file;
	double seconds;
	double stalled; /* since when other clients hold the pool's memory; 0: they do not */
	bool told_wait;
};

extern volatile sig_atomic_t run_interrupted; /* the signal that came; 0: none */

double run_now(void); /* seconds */
/* One step of the batch. 1: go on; 0: there was nothing to do; -1: it came to a halt, @why says how. */
int run_step(struct run *r, char *why, size_t size);
/* Everything of a request but its callbacks. @ids stay the caller's. */
void run_request(struct run *r, struct kvslab_request_opts *o, const struct tok_ids *ids);
/* Why the scheduler refused a prompt of @n tokens, with numbers; or why a request failed. */
void run_refused(struct run *r, size_t n, int err, char *why, size_t size);
void run_failed(const struct kvslab_request_info *info, char *why, size_t size);

/* A conversation on standard input. The exit status. */
int run_chat(struct run *r);

#endif
