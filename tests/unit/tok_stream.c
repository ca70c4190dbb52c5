// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Streams of tokens give whole characters only, whichever way they are cut, and U+FFFD for what is
 * none. */
#include <string.h>
#include "runtime/model/tokenizer.h"
#include "tests/lib/tap.h"
#include "tests/lib/vocab.h"

#define BAD "\xef\xbf\xbd"

static struct tokenizer *open_end(struct gguf_write *w)
{
	struct tokenizer *t = NULL;
	struct model_error e;
	struct gguf g;
	size_t n;
	uint8_t *f = gw_end(w, &n);

	if (gguf_parse(&g, f, n, "x", &e) || tok_open(&t, &g, &e)) {
		printf("Bail out! %s\n", e.text);
		exit(1);
	}
	gguf_close(&g);
	free(f);
	return t;
}

/* The tokens that stand for bytes: one each, or two where a coin says so. In the vocabulary of
 * pairs, ids of bytes are the bytes. */
static size_t cut(const struct tokenizer *t, const uint8_t *b, size_t n, uint64_t *seed,
		  uint32_t *ids)
{
	char s[8];
	size_t i, k = 0;

	for (i = 0; i < n; i++) {
		if (seed && i + 1 < n && rnd(seed) & 1) {
			vocab_byte_text(b[i], s);
			vocab_byte_text(b[i + 1], s + strlen(s));
			ids[k++] = (uint32_t)tok_find(t, s, strlen(s));
			i++;
		} else {
			ids[k++] = b[i];
		}
	}
	return k;
}

/* Each piece out is whole characters; returns all of them. */
static size_t stream(const struct tokenizer *t, const uint32_t *ids, size_t n, char *out, int *torn)
{
	struct tok_stream s;
	size_t i, k = 0, got;

	tok_stream_init(&s, t);
	for (i = 0; i < n; i++) {
		got = tok_stream_next(&s, ids[i], out + k);
		if (got && (((uint8_t)out[k] & 0xc0) == 0x80 || (uint8_t)out[k + got - 1] >= 0xc0))
			*torn = 1;
		if (got > 3 * tok_piece(t, ids[i], false).n + 16)
			*torn = 1;
		k += got;
	}
	got = tok_stream_end(&s, out + k);
	if (tok_stream_end(&s, out + k + got))
		*torn = 1;
	return k + got;
}

/* The Unicode Standard's own examples of maximal subparts (tables 3-8 to 3-11), and a few more. */
static const struct {
	const char *in, *out;
} broken[] = {
	{ "\xc0\xaf\xe0\x80\xbf\xf0\x81\x82"
	  "A",
	  BAD BAD BAD BAD BAD BAD BAD BAD "A" },
	{ "\xed\xa0\x80\xed\xbf\xbf\xed\xaf"
	  "A",
	  BAD BAD BAD BAD BAD BAD BAD BAD "A" },
	{ "\xf4\x91\x92\x93\xff"
	  "A\x80\xbf"
	  "B",
	  BAD BAD BAD BAD BAD "A" BAD BAD "B" },
	{ "\xe1\x80\xe2\xf0\x91\x92\xf1\xbf"
	  "A",
	  BAD BAD BAD BAD "A" },
	{ "a\xf1\x80\x80\xe1\x80\xc2"
	  "b\x80"
	  "c\x80\xbf"
	  "d",
	  "a" BAD BAD BAD "b" BAD "c" BAD BAD "d" },
	{ "\xf0\x9f\x98", BAD },
	{ "\xc3", BAD },
	{ "\xc3\xc3\xa9", BAD "\xc3\xa9" },
	{ "\xe2\x82\xe2\x82\xac", BAD "\xe2\x82\xac" },
	{ "\xff\xfe", BAD BAD },
	{ "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80" },
	{ "\xf4\x8f\xbf\xbf\xf4\x90", "\xf4\x8f\xbf\xbf" BAD BAD },
};

static void test_broken(const struct tokenizer *t, uint64_t *seed)
{
	uint32_t ids[64];
	char out[256];
	size_t i, n, k;
	int round, torn, bad;

	for (i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		for (round = torn = bad = 0; round < 30; round++) {
			k = cut(t, (const uint8_t *)broken[i].in, strlen(broken[i].in),
				round ? seed : NULL, ids);
			n = stream(t, ids, k, out, &torn);
			bad += n != strlen(broken[i].out) || memcmp(out, broken[i].out, n) != 0;
		}
		ok(!bad && !torn, "broken %zu, cut 30 ways", i);
	}
}

/* Valid text in all cuts of a few characters, and in random cuts of many. */
static void test_valid(const struct tokenizer *t, uint64_t *seed)
{
	static const char text[] =
		"a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z\xef\xbf\xbd\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf";
	uint32_t ids[sizeof(text)];
	char out[sizeof(text) + 16];
	int round, torn = 0, bad = 0;
	size_t n, k;

	for (round = 0; round < 2000; round++) {
		k = cut(t, (const uint8_t *)text, sizeof(text) - 1, round ? seed : NULL, ids);
		n = stream(t, ids, k, out, &torn);
		bad += n != sizeof(text) - 1 || memcmp(out, text, n) != 0;
	}
	ok(!bad && !torn, "valid text, cut 2,000 ways");
}

/* Random bytes: what comes out is valid, and what was valid in it is kept in order. */
static void test_random(const struct tokenizer *t, uint64_t *seed)
{
	static const uint8_t likely[] = { 0x61, 0x80, 0xbf, 0xc2, 0xe0, 0xa0, 0xed,
					  0x9f, 0xf0, 0x90, 0xf4, 0x8f, 0xff, 0xe2 };
	int round, torn = 0, differ = 0, ascii = 0;
	uint32_t one[40], other[40];
	char a[400], b[400];
	uint8_t in[40];
	size_t i, n, k;

	for (round = 0; round < 20000; round++) {
		size_t len = rnd(seed) % 40, count = 0, got = 0;

		for (i = 0; i < len; i++) {
			in[i] = likely[rnd(seed) % sizeof(likely)];
			count += in[i] < 0x80;
		}
		n = stream(t, one, cut(t, in, len, NULL, one), a, &torn);
		k = stream(t, other, cut(t, in, len, seed, other), b, &torn);
		differ += n != k || memcmp(a, b, n) != 0;
		for (i = 0; i < n; i++)
			got += (uint8_t)a[i] < 0x80;
		ascii += got != count;
	}
	ok(!differ, "20,000 random strings: cuts change nothing");
	ok(!ascii && !torn, "no ASCII is swallowed, nothing is torn");
}

static void test_space(void)
{
	struct tok_stream s;
	struct gguf_write w;
	struct tokenizer *t;
	uint32_t a, two;
	char out[64];

	gw_init(&w);
	vocab_spm(&w, true);
	t = open_end(&w);
	a = (uint32_t)tok_find(t,
			       "\xe2\x96\x81"
			       "a",
			       4);
	two = (uint32_t)tok_find(t, "\xe2\x96\x81\xe2\x96\x81", 6);
	tok_stream_init(&s, t);
	ok(!tok_stream_next(&s, SPM_BOS, out), "a control token gives nothing");
	ok(tok_stream_next(&s, a, out) == 1 && out[0] == 'a', "the first space goes");
	ok(tok_stream_next(&s, a, out) == 2 && !memcmp(out, " a", 2), "the second stays");
	tok_stream_init(&s, t);
	ok(tok_stream_next(&s, two, out) == 1 && out[0] == ' ', "of two spaces one goes");
	tok_stream_init(&s, t);
	s.started = true;
	ok(tok_stream_next(&s, a, out) == 2, "none where text goes on");
	tok_stream_init(&s, t);
	ok(!tok_stream_next(&s, SPM_BYTES + 0xe2, out) &&
		   !tok_stream_next(&s, SPM_BYTES + 0x82, out) &&
		   tok_stream_next(&s, SPM_BYTES + 0xac, out) == 3 &&
		   !memcmp(out, "\xe2\x82\xac", 3),
	   "a character of byte tokens");
	tok_stream_init(&s, t);
	ok(!tok_stream_next(&s, SPM_BYTES + 0xe2, out) && tok_stream_next(&s, a, out) == 5 &&
		   !memcmp(out, BAD " a", 5),
	   "and one that breaks off");
	ok(!tok_stream_next(&s, tok_vocab(t), out) && !tok_stream_next(&s, UINT32_MAX, out),
	   "ids beyond give nothing");
	tok_close(t);
	gw_init(&w);
	vocab_spm(&w, true);
	gw_value_bool(&w, "tokenizer.ggml.add_space_prefix", 0);
	t = open_end(&w);
	tok_stream_init(&s, t);
	ok(tok_stream_next(&s, a, out) == 2, "the space stays where encoding adds none");
	tok_close(t);
}

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(argc, argv);
	struct tokenizer *t;
	struct gguf_write w;

	gw_init(&w);
	vocab_pairs(&w, "gpt-2");
	t = open_end(&w);
	test_broken(t, &seed);
	test_valid(t, &seed);
	test_random(t, &seed);
	test_space();
	tok_close(t);
	return done();
}
