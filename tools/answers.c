// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "answers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "msg.h"

/* Of a prompt, in the line above its answer: a longer one is shown by its beginning and its end. */
#define HEADER_BYTES 76
#define HEADER_END 44
#define HEADER_WORD 12

static const char *const finish_names[] = {
	[KVSLAB_FINISH_NONE] = "error",	    [KVSLAB_FINISH_STOP] = "stop",   [KVSLAB_FINISH_LENGTH] = "length",
	[KVSLAB_FINISH_CANCEL] = "cancel", [KVSLAB_FINISH_ERROR] = "error",
};

int answers_init(struct answers *as, const struct prompts *ps, const struct tokenizer *t)
{
	size_t i;

	as->a = calloc(ps->n, sizeof(*as->a));
	if (!as->a) {
		msg("no memory for %zu answers; give fewer prompts", ps->n);
		return -1;
	}
	as->n = ps->n;
	for (i = 0; i < ps->n; i++) {
		as->a[i].prompt = &ps->p[i];
		as->a[i].index = i;
		tok_stream_init(&as->a[i].stream, t);
		/* an answer goes on from its prompt, so its first piece keeps its space */
		as->a[i].stream.started = true;
	}
	return 0;
}

void answers_free(struct answers *as)
{
	size_t i;

	for (i = 0; i < as->n; i++)
		free(as->a[i].text);
	free(as->a);
	memset(as, 0, sizeof(*as));
}

static void print_bytes(struct answers *as, const void *s, size_t n)
{
	if (n && !as->broken && out_bytes(s, n))
		as->broken = true;
}

static int make_room(struct answer *a, size_t more)
{
	size_t cap = a->cap ? a->cap : 1024;
	char *t;

	while (cap < a->n + more)
		cap *= 2;
	if (cap == a->cap)
		return 0;
	t = realloc(a->text, cap);
	if (!t)
		return -ENOMEM;
	a->text = t;
	a->cap = cap;
	return 0;
}

/* What is safe to show, as it comes. */
static void show(struct answers *as, struct answer *a)
{
	if (as->format == ANSWER_STREAM)
		print_bytes(as, a->text + a->shown, a->scan.safe - a->shown);
	a->shown = a->scan.safe;
}

int answer_token(struct answers *as, struct answer *a, uint32_t id)
{
	size_t n;

	if (make_room(a, 3 * tok_piece_max(a->stream.t) + 16))
		return -ENOMEM;
	n = tok_stream_next(&a->stream, id, a->text + a->n);
	a->n += n;
	stop_scan(&a->scan, as->stops, as->n_stops, a->text, a->n);
	show(as, a);
	if (a->scan.stopped)
		a->n = a->scan.safe;
	return a->scan.stopped;
}

/* A place near @at to cut a text: after a space if there is one, else between two characters. */
static size_t cut(const char *s, size_t at)
{
	size_t i;

	for (i = at; i && at - i < HEADER_WORD; i--)
		if (s[i - 1] == ' ')
			return i;
	for (i = at; i && ((unsigned char)s[i] & 0xc0) == 0x80; i--)
		;
	return i;
}

/* Prints "[index] prompt" on one line. */
static void print_header(struct answers *as, const struct answer *a)
{
	const char *s = a->prompt->text;
	size_t n = 0, end = a->prompt->n, tail;

	while (n < end && s[n] != '\n')
		n++;
	end = n;
	tail = end;
	if (end > HEADER_BYTES) {
		n = cut(s, HEADER_BYTES - HEADER_END);
		tail = cut(s, end - HEADER_END);
	}
	if (!as->broken && out_text("[%zu] %.*s%s%.*s%s\n", a->index, (int)n, s, tail < end ? "... " : "",
				    (int)(end - tail), s + tail, end < a->prompt->n ? " ..." : ""))
		as->broken = true;
}

static void print_text(struct answers *as, struct answer *a)
{
	if (as->format == ANSWER_STREAM) {
		show(as, a);
		print_bytes(as, "\n", 1);
		return;
	}
	if (as->n > 1)
		print_header(as, a);
	print_bytes(as, a->text, a->n);
	print_bytes(as, "\n\n", as->n > 1 ? 2 : 1);
}

static json_t *ms(uint64_t from, uint64_t to, uint64_t parts)
{
	return from && to && parts ? json_number((double)(to - from) / (double)parts / 1e6) : json_null();
}

static json_t *object(const struct answer *a)
{
	const struct kvslab_request_info *info = &a->info;
	uint32_t drawn = info->completion_tokens;
	enum kvslab_finish finish = a->error[0]	    ? KVSLAB_FINISH_ERROR :
				    a->scan.stopped ? KVSLAB_FINISH_STOP :
						      info->finish;
	json_t *o = json_object();

	json_object_set_new(o, "index", json_integer((json_int_t)a->index));
	json_object_set_new(o, "prompt", json_bytes(a->prompt->text, a->prompt->n));
	json_object_set_new(o, "text", json_bytes(a->text ? a->text : "", a->n));
	json_object_set_new(o, "prompt_tokens", json_integer((json_int_t)a->prompt->ids.n));
	json_object_set_new(o, "cached_tokens", json_integer(info->cached_tokens));
	json_object_set_new(o, "completion_tokens", json_integer(drawn));
	json_object_set_new(o, "finish_reason", json_string(finish_names[finish]));
	json_object_set_new(o, "ttft_ms", ms(info->t_added, info->t_first, 1));
	json_object_set_new(o, "tpot_ms", ms(info->t_first, info->t_last, drawn ? drawn - 1 : 0));
	if (a->error[0])
		json_object_set_new(o, "error", json_bytes(a->error, strlen(a->error)));
	return o;
}

static void emit(struct answers *as, json_t *o)
{
	if (as->broken)
		json_decref(o);
	else if (as->file ? outfile_json(as->file, o) : out_json(o))
		as->broken = true;
}

void answer_done(struct answers *as, struct answer *a)
{
	a->done = true;
	a->request = NULL;
	as->n_done++;
	if (!a->error[0] && !a->scan.stopped && !make_room(a, 16)) {
		a->n += tok_stream_end(&a->stream, a->text + a->n);
		stop_end(&a->scan, a->n);
	}
	if (a->error[0]) {
		as->failed = true;
		if (as->format != ANSWER_JSON)
			msg("prompt %zu: %s", a->index, a->error);
	} else if (as->format != ANSWER_JSON) {
		print_text(as, a);
	}
	if (as->format == ANSWER_JSON || as->file)
		for (; as->n_json < as->n && as->a[as->n_json].done; as->n_json++)
			emit(as, object(&as->a[as->n_json]));
}

void answers_summary(struct answers *as, const struct kvslab_stat *pool, const struct kvslab_sched_stat *sched,
		     double seconds)
{
	uint64_t drawn = 0;
	json_t *o, *p, *f;
	size_t i;

	if (as->format != ANSWER_JSON && !as->file)
		return;
	for (i = 0; i < as->n; i++)
		drawn += as->a[i].info.completion_tokens;
	o = json_object();
	p = json_object();
	f = json_object();
	json_object_set_new(p, "free", json_integer((json_int_t)pool->free));
	json_object_set_new(p, "private", json_integer((json_int_t)pool->private_pages));
	json_object_set_new(p, "sealed", json_integer((json_int_t)pool->sealed));
	json_object_set_new(p, "cached", json_integer((json_int_t)pool->cached));
	json_object_set_new(p, "quarantined", json_integer((json_int_t)pool->quarantined));
	json_object_set_new(p, "extents", json_integer((json_int_t)pool->extents));
	json_object_set_new(f, "partial", json_number(pool->frag_partial));
	json_object_set_new(f, "tail", json_number(pool->frag_tail));
	json_object_set_new(f, "quarantine", json_number(pool->frag_quarantine));
	json_object_set_new(p, "fragmentation", f);
	json_object_set_new(o, "pool", p);
	json_object_set_new(o, "steps", json_integer((json_int_t)sched->steps));
	json_object_set_new(o, "tokens_per_second", json_number(seconds > 0 ? (double)drawn / seconds : 0));
	json_object_set_new(o, "preemptions", json_integer((json_int_t)sched->preemptions));
	emit(as, o);
}
