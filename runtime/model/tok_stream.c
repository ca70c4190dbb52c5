// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Tokens to text as they come, character by character. */
#include <string.h>
#include "tok_impl.h"
#include "utf8.h"

static const char bad[] = "\xef\xbf\xbd";

void tok_stream_init(struct tok_stream *s, const struct tokenizer *t)
{
	memset(s, 0, sizeof(*s));
	s->t = t;
}

/* One more byte; what is complete, or cannot become so, goes to @out. */
static size_t feed(struct tok_stream *s, uint8_t b, char *out)
{
	size_t n = 0, good;

	s->held[s->n_held++] = b;
	good = utf8_prefix(s->held, s->n_held);
	if (good && good < s->n_held) {
		/* What was held ends here broken; b may begin anew. */
		memcpy(out, bad, 3);
		n = 3;
		s->held[0] = b;
		s->n_held = 1;
		good = utf8_prefix(s->held, 1);
	}
	if (!good) {
		memcpy(out + n, bad, 3);
		s->n_held = 0;
		return n + 3;
	}
	if (s->n_held < utf8_length(s->held[0]))
		return n;
	memcpy(out + n, s->held, s->n_held);
	n += s->n_held;
	s->n_held = 0;
	return n;
}

size_t tok_stream_next(struct tok_stream *s, uint32_t id, char *out)
{
	struct gguf_str p = tok_piece(s->t, id, false);
	size_t n = 0;
	uint64_t i = 0;

	if (!p.n)
		return 0;
	if (!s->started && s->t->add_space && p.s[0] == ' ')
		i = 1;
	s->started = true;
	for (; i < p.n; i++)
		n += feed(s, (uint8_t)p.s[i], out + n);
	return n;
}

size_t tok_stream_end(struct tok_stream *s, char *out)
{
	if (!s->n_held)
		return 0;
	s->n_held = 0;
	memcpy(out, bad, 3);
	return 3;
}
