// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * Pre-tokenizers: a chain of patterns, each cutting what the one before left into its matches and
 * what lies between. A pattern sees only its own piece, so a look-ahead ends with it.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <errno.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>
#include "tok_impl.h"
#include "tok_unicode.h"
#include "utf8.h"

#define CHAIN_MAX 4

/* White space by the property of that name; PCRE2's \s takes U+180E too. */
#define WS \
	"\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

static const char words[] = "'(?:[stmd]|re|ve|ll)"
			    "| ?\\p{L}+"
			    "| ?\\p{N}+"
			    "| ?[^" WS "\\p{L}\\p{N}]+"
			    "|[" WS "]+(?![^" WS "])"
			    "|[" WS "]+";

/* A word takes one character before it that is neither letter, digit nor line end; line ends go
 * with the white space before them, and with punctuation. @digits: how many make a word. Case is
 * written out: without regard to case, U+017F would be an s. */
#define LINES(digits)                                         \
	"'(?:[sSdDmMtT]|[rR][eE]|[vV][eE]|[lL][lL])"          \
	"|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"                      \
	"|\\p{N}" digits "| ?[^" WS "\\p{L}\\p{N}]+[\\r\\n]*" \
	"|[" WS "]*[\\r\\n]+"                                 \
	"|[" WS "]+(?![^" WS "])"                             \
	"|[" WS "]+"

static const struct {
	const char *name;
	const char *pattern[CHAIN_MAX];
	unsigned int traits;
} known[] = {
	{ "gpt-2", { words }, 0 },
	{ "smollm", { "\\p{N}", words }, 0 },
	{ "default", { "[\\p{P}$+<=>^~|]+", words, "\\p{N}+", "[0-9]{3}" }, 0 },
	{ "llama-bpe", { LINES("{1,3}") }, TOK_SPLIT_WHOLE | TOK_SPLIT_BOS },
	{ "qwen2", { LINES("") }, 0 },
	{ "deepseek-r1-qwen", { LINES("") }, 0 },
};

const char *const tok_split_names =
	"'gpt-2', 'smollm', 'default', 'llama-bpe', 'qwen2' and 'deepseek-r1-qwen'";

struct tok_split {
	uint32_t n;
	unsigned int traits;
	pcre2_code *code[CHAIN_MAX];
};

unsigned int tok_split_traits(const struct tok_split *s)
{
	return s->traits;
}

void tok_split_close(struct tok_split *s)
{
	uint32_t i;

	if (!s)
		return;
	for (i = 0; i < s->n; i++)
		pcre2_code_free(s->code[i]);
	free(s);
}

int tok_split_open(struct tok_split **out, struct gguf_str name, struct model_error *e)
{
	struct tok_split *s;
	PCRE2_UCHAR why[120];
	PCRE2_SIZE where;
	size_t k;
	int err;

	for (k = 0; k < sizeof(known) / sizeof(known[0]); k++)
		if (name.n == strlen(known[k].name) && !memcmp(name.s, known[k].name, name.n))
			break;
	if (k == sizeof(known) / sizeof(known[0]))
		return -EOPNOTSUPP;
	s = calloc(1, sizeof(*s));
	if (!s)
		return model_fail(e, -ENOMEM, "no memory for a pre-tokenizer");
	s->traits = known[k].traits;
	for (; s->n < CHAIN_MAX && known[k].pattern[s->n]; s->n++) {
		s->code[s->n] =
			pcre2_compile((PCRE2_SPTR)known[k].pattern[s->n], PCRE2_ZERO_TERMINATED,
				      PCRE2_UTF | PCRE2_UCP, &err, &where, NULL);
		if (s->code[s->n])
			continue;
		pcre2_get_error_message(err, why, sizeof(why));
		tok_split_close(s);
		return model_fail(
			e, -EINVAL,
			"PCRE2 does not take the pattern of pre-tokenizer '%s': %s: it must have "
			"been built with Unicode",
			known[k].name, why);
	}
	*out = s;
	return 0;
}

/* A character of the same length in UTF-8 and of class @class under every version of Unicode. */
static const char *stand_in(enum tok_class class, size_t n)
{
	static const char *const of[][3] = {
		[LETTER] = { "\xce\xb1", "\xe4\xb8\x80", "\xf0\xa0\x80\x80" },
		[NUMBER] = { "\xd9\xa1", "\xe0\xb9\x91", "\xf0\x90\x84\x87" },
		[PUNCT] = { "\xc2\xa1", "\xe3\x80\x81", "\xf0\x90\x84\x80" },
		[OTHER] = { "\xc2\xa4", "\xe2\x86\x90", "\xf0\x9f\x98\x80" },
	};

	return of[class][n - 2];
}

/* Replaces the characters whose class depends on the library's version of Unicode. */
static void reclass(char *text, uint32_t n)
{
	uint32_t i, len, cp, lo, hi, mid;

	for (i = 0; i < n; i += len) {
		len = (uint32_t)utf8_decode((const uint8_t *)text + i, n - i, &cp);
		if (!len)
			len = 1;
		if (len < 2)
			continue;
		lo = 0;
		hi = sizeof(tok_reclassed) / sizeof(tok_reclassed[0]);
		while (lo < hi) {
			mid = (lo + hi) / 2;
			if (cp > tok_reclassed[mid].to)
				lo = mid + 1;
			else
				hi = mid;
		}
		if (lo < sizeof(tok_reclassed) / sizeof(tok_reclassed[0]) &&
		    cp >= tok_reclassed[lo].from)
			memcpy(text + i, stand_in(tok_reclassed[lo].class, len), len);
	}
}

struct run {
	const struct tok_split *s;
	pcre2_match_data *match;
	pcre2_match_context *context;
	const char *seen; /* what the patterns see */
	const char *text; /* what is given out */
	tok_word_fn word;
	void *arg;
};

static int cut(struct run *r, uint32_t stage, uint32_t at, uint32_t end)
{
	const PCRE2_SIZE *ov = pcre2_get_ovector_pointer(r->match);
	uint32_t from, to;
	int rc, err;

	if (stage == r->s->n)
		return r->word(r->arg, r->text + at, end - at);
	while (at < end) {
		rc = pcre2_match(r->s->code[stage], (PCRE2_SPTR)r->seen + at, end - at, 0,
				 PCRE2_NO_UTF_CHECK, r->match, r->context);
		if (rc == PCRE2_ERROR_NOMATCH)
			return cut(r, stage + 1, at, end);
		if (rc < 0)
			return rc == PCRE2_ERROR_NOMEMORY || rc == PCRE2_ERROR_HEAPLIMIT ? -ENOMEM
											 : -EIO;
		from = at + (uint32_t)ov[0];
		to = at + (uint32_t)ov[1];
		err = from > at ? cut(r, stage + 1, at, from) : 0;
		if (!err)
			err = cut(r, stage + 1, from, to);
		if (err)
			return err;
		at = to;
	}
	return 0;
}

int tok_split_run(const struct tok_split *s, const char *text, uint32_t n, tok_word_fn word,
		  void *arg)
{
	struct run r = { .s = s, .text = text, .word = word, .arg = arg };
	char *seen = malloc(n ? n : 1);
	int err = -ENOMEM;

	r.match = pcre2_match_data_create(1, NULL);
	r.context = pcre2_match_context_create(NULL);
	if (!seen || !r.match || !r.context)
		goto out;
	/* A run of white space costs a step a character, and the text's length is limited already.
	 */
	pcre2_set_match_limit(r.context, UINT32_MAX);
	memcpy(seen, text, n);
	reclass(seen, n);
	r.seen = seen;
	err = cut(&r, 0, 0, n);
out:
	pcre2_match_context_free(r.context);
	pcre2_match_data_free(r.match);
	free(seen);
	return err;
}
