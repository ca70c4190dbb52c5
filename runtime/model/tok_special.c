// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * Special tokens in text. The longest token takes its places first, left to right, then the next
 * one those that are left, and so on. Which tokens occur at all is found in one pass, so that the
 * many that do not cost nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tok_impl.h"

static int longest_first(const void *a, const void *b, void *arg)
{
	const struct tok_strings *s = arg;
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	uint64_t m = tok_strings_get(s, i).n, n = tok_strings_get(s, j).n;

	return m != n ? (m < n) - (m > n) : (i > j) - (i < j);
}

static int by_text(const void *a, const void *b, void *arg)
{
	const struct tok_strings *s = arg;
	struct gguf_str x = tok_strings_get(s, *(const uint32_t *)a),
			y = tok_strings_get(s, *(const uint32_t *)b);
	int c = memcmp(x.s, y.s, x.n < y.n ? x.n : y.n);

	return c ? c : (x.n > y.n) - (x.n < y.n);
}

static bool looked_for(const struct tokenizer *t, uint32_t id)
{
	return t->type[id] == TOK_TYPE_CONTROL || t->type[id] == TOK_TYPE_UNKNOWN ||
	       t->type[id] == TOK_TYPE_USER;
}

int tok_load_special(struct tokenizer *t)
{
	uint32_t id, n = 0, i, b;

	for (id = 0; id < t->n; id++)
		n += looked_for(t, id);
	t->special = malloc((n ? n : 1) * sizeof(*t->special));
	t->special_sorted = malloc((n ? n : 1) * sizeof(*t->special_sorted));
	if (!t->special || !t->special_sorted)
		return -ENOMEM;
	for (id = 0; id < t->n; id++)
		if (looked_for(t, id) && tok_strings_get(&t->strings, id).n)
			t->special[t->n_special++] = id;
	qsort_r(t->special, t->n_special, sizeof(*t->special), longest_first, &t->strings);
	memcpy(t->special_sorted, t->special, t->n_special * sizeof(*t->special));
	qsort_r(t->special_sorted, t->n_special, sizeof(*t->special_sorted), by_text, &t->strings);
	for (i = 0, b = 0; b < 256; b++) {
		t->special_first[b] = i;
		while (i < t->n_special &&
		       (uint8_t)tok_strings_get(&t->strings, t->special_sorted[i]).s[0] == b)
			i++;
	}
	t->special_first[256] = i;
	return 0;
}

/* Sets present[] for each special token that stands at text[0]. */
static void mark(const struct tokenizer *t, const uint8_t *text, uint32_t n, uint8_t *present)
{
	uint32_t lo = t->special_first[text[0]], hi = t->special_first[text[0] + 1], d, a, b, mid;
	struct gguf_str s;

	for (d = 1; lo < hi; d++) {
		if (tok_strings_get(&t->strings, t->special_sorted[lo]).n == d)
			present[t->special_sorted[lo++]] = 1;
		if (d == n)
			return;
		/* narrow to those whose byte d is the text's */
		for (a = lo, b = hi; a < b;) {
			mid = (a + b) / 2;
			s = tok_strings_get(&t->strings, t->special_sorted[mid]);
			if ((uint8_t)s.s[d] < text[d])
				a = mid + 1;
			else
				b = mid;
		}
		lo = a;
		for (b = hi; a < b;) {
			mid = (a + b) / 2;
			s = tok_strings_get(&t->strings, t->special_sorted[mid]);
			if ((uint8_t)s.s[d] <= text[d])
				a = mid + 1;
			else
				b = mid;
		}
		hi = a;
	}
}

struct list {
	struct tok_fragment *f;
	size_t n, cap;
};

static int put(struct list *l, uint32_t at, uint32_t n, uint32_t id)
{
	size_t cap = l->cap ? l->cap * 2 : 16;
	struct tok_fragment *p;

	if (id == TOK_NONE && !n)
		return 0;
	if (l->n == l->cap) {
		p = realloc(l->f, cap * sizeof(*p));
		if (!p)
			return -ENOMEM;
		l->f = p;
		l->cap = cap;
	}
	l->f[l->n++] = (struct tok_fragment){ at, n, id };
	return 0;
}

/* Cuts @id's text out of the fragments of @from. */
static int cut_out(const struct tokenizer *t, const char *text, uint32_t id,
		   const struct list *from, struct list *to)
{
	struct gguf_str s = tok_strings_get(&t->strings, id);
	const char *p, *end, *hit;
	size_t i;

	to->n = 0;
	for (i = 0; i < from->n; i++) {
		if (from->f[i].id != TOK_NONE) {
			if (put(to, from->f[i].at, from->f[i].n, from->f[i].id))
				return -ENOMEM;
			continue;
		}
		p = text + from->f[i].at;
		end = p + from->f[i].n;
		while ((hit = memmem(p, (size_t)(end - p), s.s, s.n))) {
			if (put(to, (uint32_t)(p - text), (uint32_t)(hit - p), TOK_NONE) ||
			    put(to, (uint32_t)(hit - text), (uint32_t)s.n, id))
				return -ENOMEM;
			p = hit + s.n;
		}
		if (put(to, (uint32_t)(p - text), (uint32_t)(end - p), TOK_NONE))
			return -ENOMEM;
	}
	return 0;
}

static bool framed(struct gguf_str s, const char *from, const char *to)
{
	size_t a = strlen(from), b = strlen(to);

	return s.n > a + b && !memcmp(s.s, from, a) && !memcmp(s.s + s.n - b, to, b);
}

/* Whether templates mark turns with such a text. */
static bool is_mark(struct gguf_str s)
{
	static const char *const marks[] = {
		"<start_of_turn>", "<end_of_turn>",    "[INST]", "[/INST]",
		"[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "<s>",	 "</s>"
	};
	size_t i;

	for (i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		if (s.n == strlen(marks[i]) && !memcmp(s.s, marks[i], s.n))
			return true;
	return framed(s, "<|", "|>") || framed(s, "<\xef\xbd\x9c", "\xef\xbd\x9c>");
}

static bool wanted(const struct tokenizer *t, uint32_t id, unsigned int flags)
{
	if (flags & TOK_SPECIAL)
		return true;
	return t->type[id] == TOK_TYPE_USER &&
	       !(flags & TOK_MESSAGE && is_mark(tok_strings_get(&t->strings, id)));
}

int tok_partition(const struct tokenizer *t, const char *text, uint32_t n, unsigned int flags,
		  struct tok_fragment **fragments, size_t *n_fragments)
{
	struct list a = { 0 }, b = { 0 }, swap;
	uint8_t *present = NULL;
	uint32_t i, id;
	int err;

	err = put(&a, 0, n, TOK_NONE);
	if (err || !t->n_special)
		goto out;
	err = -ENOMEM;
	present = calloc(t->n, 1);
	if (!present)
		goto out;
	for (i = 0; i < n; i++)
		mark(t, (const uint8_t *)text + i, n - i, present);
	for (i = 0; i < t->n_special; i++) {
		id = t->special[i];
		if (!present[id] || !wanted(t, id, flags))
			continue;
		err = cut_out(t, text, id, &a, &b);
		if (err)
			goto out;
		swap = a;
		a = b;
		b = swap;
	}
	err = 0;
out:
	free(present);
	free(b.f);
	if (err)
		free(a.f);
	*fragments = err ? NULL : a.f;
	*n_fragments = err ? 0 : a.n;
	return err;
}
