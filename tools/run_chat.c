// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * kvslab run --chat -i: a conversation. Each turn's prompt begins with the tokens of all before it, so that its pages
 * are in the pool and only what is new is computed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lines.h"
#include "msg.h"
#include "run.h"

static struct lines input; /* static: the handlers wake who waits for it */

struct talk {
	struct run *r;
	size_t turns;
	bool terminal; /* somebody types, and reads */
	struct chat_message *m; /* contents are owned */
	size_t n, cap;
	struct tok_ids ids; /* of the messages so far, with the last answer as it was drawn */
	bool ids_stand; /* they are those of the text */

	/* the answer that is being drawn */
	struct prompt prompt;
	struct answer answer;
	struct answers out; /* of that one */
};

static int no_memory(void)
{
	msg("no memory for the conversation; end it and begin anew");
	return -1;
}

/* Takes @text over. */
static int say(struct talk *t, const char *role, char *text, size_t n)
{
	size_t cap = t->cap ? 2 * t->cap : 16;
	struct chat_message *m;

	if (t->n == t->cap) {
		m = realloc(t->m, cap * sizeof(*m));
		if (!m) {
			free(text);
			return no_memory();
		}
		t->m = m;
		t->cap = cap;
	}
	t->m[t->n++] = (struct chat_message){ role, text, n };
	return 0;
}

static void unsay(struct talk *t)
{
	free((char *)t->m[--t->n].content);
}

static int say_copy(struct talk *t, const char *role, const char *text, size_t n)
{
	char *s = malloc(n + 1);

	if (!s)
		return no_memory();
	memcpy(s, text, n);
	s[n] = 0;
	return say(t, role, s, n);
}

/* A message: a line, or several of which all but the last end in a backslash. NULL: the end, with *n > 0 where the
 * message is to be dropped and the next one read. */
static char *read_message(struct talk *t, size_t *n)
{
	char *text = NULL, *p;
	const char *line;
	ssize_t got;

	*n = 0;
	do {
		if (t->terminal)
			fputs(text ? "... " : "> ", stderr);
		got = lines_next(&input, &line);
		if (got < 0)
			break;
		p = realloc(text, *n + (size_t)got + 2);
		if (!p) {
			got = -ENOMEM;
			break;
		}
		text = p;
		memcpy(text + *n, line, (size_t)got);
		*n += (size_t)got;
		if (got && line[got - 1] == '\\')
			text[*n - 1] = '\n';
	} while (got && line[got - 1] == '\\');
	if (got >= 0 || (got == -ENODATA && text))
		return text;
	free(text);
	*n = 0;
	if (got == -EINTR && run_interrupted == SIGINT) {
		run_interrupted = 0;
		fputs("\n", stderr);
		*n = 1;
	} else if (got == -ENODATA) {
		if (run_interrupted == SIGINT)
			run_interrupted = 0; /* what it would drop is the end that was typed after it */
	} else if (got == -ENOMEM) {
		no_memory();
	} else if (got != -EINTR) {
		msg("standard input cannot be read: %s", strerror((int)-got));
	}
	return NULL;
}

static void on_token(struct kvslab_request *request, uint32_t token, float logprob, void *data)
{
	struct talk *t = data;
	int rc;

	(void)logprob;
	rc = tok_append(&t->ids, token);
	if (!rc)
		rc = answer_token(&t->out, &t->answer, token);
	if (rc < 0)
		snprintf(t->answer.error, sizeof(t->answer.error), "no memory for the answer");
	if (rc)
		kvslab_sched_cancel(t->r->sched, request);
}

static void on_done(struct kvslab_request *request, void *data)
{
	struct talk *t = data;
	struct answer *a = &t->answer;

	kvslab_request_info(request, &a->info);
	run_failed(&a->info, a->error, sizeof(a->error));
	/* a character that is not whole was drawn, and will be another text in the next prompt */
	t->ids_stand = !a->scan.stopped && !a->stream.n_held;
	answer_done(&t->out, a);
}

static void tell(struct talk *t, double seconds)
{
	const struct kvslab_request_info *info = &t->answer.info;

	msg("turn %zu: %zu tokens of prompt, %u of them in the pool, %zu computed; %u tokens of answer in %.1f s%s",
	    t->answer.index,
	    t->prompt.ids.n, info->cached_tokens, t->prompt.ids.n - info->cached_tokens, info->completion_tokens, seconds,
	    info->finish == KVSLAB_FINISH_LENGTH ? ", cut at its limit" :
	    run_interrupted			 ? ", stopped" :
						   "");
}

/* Draws until the answer's end. */
static void draw(struct talk *t)
{
	struct kvslab_request_opts o = { .on_token = on_token, .on_done = on_done, .data = t };
	struct answer *a = &t->answer;
	struct run *r = t->r;
	char why[400];
	int err;

	run_request(r, &o, &t->prompt.ids);
	err = t->prompt.ids.n > UINT32_MAX ? -EMSGSIZE : kvslab_sched_add(r->sched, &o, &a->request);
	if (err) {
		run_refused(r, t->prompt.ids.n, err, a->error, sizeof(a->error));
		answer_done(&t->out, a);
	}
	while (!a->done) {
		if (run_interrupted || t->out.broken) {
			kvslab_sched_cancel(r->sched, a->request);
		} else if (run_step(r, why, sizeof(why)) <= 0 && !a->done) {
			snprintf(a->error, sizeof(a->error), "%s", why);
			kvslab_sched_cancel(r->sched, a->request);
		}
	}
}

/* The prompt of all messages, the last of which is the user's. */
static int next_prompt(struct talk *t)
{
	struct model_error e = { "" };
	size_t last = t->n > 2 ? t->n - 2 : 0; /* the answer before */
	int err;

	if (t->ids_stand && last && !strcmp(t->m[last].role, "assistant")) {
		err = chat_continue(t->r->chat, t->r->engine.tok, t->m, t->n, last, &t->ids, &e);
	} else {
		t->ids.n = 0;
		err = chat_encode(t->r->chat, t->r->engine.tok, t->m, t->n, &t->ids, &e);
	}
	if (err)
		msg("%s", e.text);
	return err;
}

/* One message and its answer. -1: the conversation cannot go on. */
static int turn(struct talk *t, char *text, size_t n)
{
	double start = run_now();
	struct answer *a = &t->answer;
	int rc = -1;

	if (say(t, "user", text, n))
		return -1;
	if (next_prompt(t)) {
		unsay(t);
		t->ids_stand = false;
		return 0;
	}
	t->prompt = (struct prompt){ 0 };
	t->prompt.ids.id = malloc(t->ids.n * sizeof(uint32_t));
	if (!t->prompt.ids.id)
		return no_memory();
	memcpy(t->prompt.ids.id, t->ids.id, t->ids.n * sizeof(uint32_t));
	t->prompt.ids.n = t->ids.n;
	t->out = (struct answers){ .a = a, .n = 1, .format = ANSWER_STREAM, .stops = t->r->o.stops,
				   .n_stops = t->r->o.n_stops };
	*a = (struct answer){ .prompt = &t->prompt, .index = ++t->turns };
	tok_stream_init(&a->stream, t->r->engine.tok);
	a->stream.started = true;
	draw(t);
	if (t->out.broken)
		goto out;
	rc = 0;
	if (a->error[0]) {
		/* answer_done() has told it; the message is taken back */
		unsay(t);
		t->ids_stand = false;
		goto out;
	}
	tell(t, run_now() - start);
	rc = say_copy(t, "assistant", a->text ? a->text : "", a->n);
	if (run_interrupted == SIGINT)
		run_interrupted = 0;
out:
	free(a->text);
	a->text = NULL;
	tok_ids_free(&t->prompt.ids);
	return rc;
}

static void on_signal(int sig)
{
	run_interrupted = sig;
	lines_wake(&input);
}

/* SIGINT ends an answer or drops what was typed, SIGTERM ends the conversation. */
static void catch_signals(void)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART }, old;

	if (!sigaction(SIGINT, NULL, &old) && old.sa_handler != SIG_IGN)
		sigaction(SIGINT, &sa, NULL);
	sa.sa_flags |= (int)SA_RESETHAND;
	if (!sigaction(SIGTERM, NULL, &old) && old.sa_handler != SIG_IGN)
		sigaction(SIGTERM, &sa, NULL);
}

int run_chat(struct run *r)
{
	struct talk t = { .r = r, .terminal = isatty(STDIN_FILENO) && isatty(STDERR_FILENO) };
	struct prompt *first = r->o.prompts.n ? r->o.prompts.p : NULL;
	int rc = r->o.system ? say_copy(&t, "system", r->o.system, strlen(r->o.system)) : 0;
	char *text;
	size_t n;
	int err;

	err = lines_init(&input, STDIN_FILENO, &run_interrupted);
	if (err) {
		msg("the conversation cannot begin: %s", strerror(-err));
		rc = 1;
	}
	catch_signals();
	while (!rc && run_interrupted != SIGTERM) {
		if (first) {
			text = first->text;
			n = first->n;
			first->text = NULL;
			first = NULL;
		} else {
			text = read_message(&t, &n);
		}
		if (!text && n)
			continue;
		if (!text)
			break;
		if (!n) {
			free(text);
			continue;
		}
		rc = turn(&t, text, n);
	}
	if (t.terminal)
		fputs("\n", stderr);
	while (t.n)
		unsay(&t);
	free(t.m);
	tok_ids_free(&t.ids);
	lines_free(&input);
	return rc != 0;
}
