// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include "tok_impl.h"

static uint32_t hash(const struct tok_strings *s, const char *text, uint64_t n)
{
	uint64_t h;

	crypto_shorthash((uint8_t *)&h, (const uint8_t *)text, n, s->key);
	return (uint32_t)h;
}

static int room(void **p, uint32_t *cap, uint64_t want, size_t size)
{
	uint64_t c = *cap ? *cap : 256;
	void *q;

	if (want <= *cap)
		return 0;
	if (want >= TOK_NONE)
		return -EFBIG;
	while (c < want)
		c *= 2;
	c = c < TOK_NONE ? c : TOK_NONE;
	q = realloc(*p, c * size);
	if (!q)
		return -ENOMEM;
	*p = q;
	*cap = (uint32_t)c;
	return 0;
}

int tok_strings_init(struct tok_strings *s)
{
	memset(s, 0, sizeof(*s));
	if (sodium_init() < 0)
		return -EIO;
	randombytes_buf(s->key, sizeof(s->key));
	s->mask = 1023;
	s->slot = calloc(s->mask + 1, sizeof(*s->slot));
	if (!s->slot || room((void **)&s->at, &s->cap, 1024, sizeof(*s->at)) ||
	    room((void **)&s->text, &s->text_cap, 4096, 1)) {
		tok_strings_free(s);
		return -ENOMEM;
	}
	s->at[0] = 0;
	return 0;
}

void tok_strings_free(struct tok_strings *s)
{
	free(s->at);
	free(s->text);
	free(s->slot);
	memset(s, 0, sizeof(*s));
}

struct gguf_str tok_strings_get(const struct tok_strings *s, uint32_t id)
{
	return (struct gguf_str){ s->text + s->at[id], s->at[id + 1] - s->at[id] };
}

/* The slot that holds the string, or the free one where it would go. */
static uint32_t place(const struct tok_strings *s, const char *text, uint64_t n)
{
	uint32_t i = hash(s, text, n) & s->mask;
	struct gguf_str have;

	for (; s->slot[i]; i = (i + 1) & s->mask) {
		have = tok_strings_get(s, s->slot[i] - 1);
		if (have.n == n && !memcmp(have.s, text, n))
			break;
	}
	return i;
}

uint32_t tok_strings_find(const struct tok_strings *s, const char *text, uint64_t n)
{
	return n ? s->slot[place(s, text, n)] - 1 : TOK_NONE; /* a free slot is 0: TOK_NONE */
}

static int more_slots(struct tok_strings *s)
{
	uint32_t *old = s->slot, i, mask = s->mask * 2 + 1;
	struct gguf_str str;

	if (s->mask >= 1u << 30)
		return -EFBIG;
	s->slot = calloc((size_t)mask + 1, sizeof(*s->slot));
	if (!s->slot) {
		s->slot = old;
		return -ENOMEM;
	}
	s->mask = mask;
	free(old);
	for (i = 0; i < s->n; i++) {
		str = tok_strings_get(s, i);
		if (str.n)
			s->slot[place(s, str.s, str.n)] = i + 1;
	}
	return 0;
}

int tok_strings_add(struct tok_strings *s, const char *text, uint64_t n, uint32_t *id)
{
	uint32_t slot = n ? place(s, text, n) : 0;
	int err;

	if (n && s->slot[slot]) {
		*id = s->slot[slot] - 1;
		return 1;
	}
	if (n > UINT32_MAX)
		return -EFBIG;
	err = room((void **)&s->at, &s->cap, (uint64_t)s->n + 2, sizeof(*s->at));
	if (!err)
		err = room((void **)&s->text, &s->text_cap, s->used + n, 1);
	if (!err && (uint64_t)s->n * 2 >= s->mask) {
		err = more_slots(s);
		slot = n && !err ? place(s, text, n) : 0;
	}
	if (err)
		return err;
	if (n)
		memcpy(s->text + s->used, text, n);
	s->used += (uint32_t)n;
	*id = s->n++;
	s->at[s->n] = s->used;
	if (n)
		s->slot[slot] = *id + 1;
	return 0;
}
