// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Encoding by hand: merges, scores, special tokens in text, broken UTF-8. And its cost. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include "runtime/model/tok_impl.h"
#include "tests/lib/tap.h"
#include "tests/lib/vocab.h"

#define NONE UINT32_MAX

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

/* The ids of @text are want[], ended by NONE. */
static void is_n(const struct tokenizer *t, const char *text, size_t n, unsigned int flags,
		 const uint32_t *want)
{
	struct tok_ids ids = { 0 };
	size_t i, same = 0;
	int err = tok_encode(t, text, n, flags, &ids);
	char shown[61];

	for (i = 0; i < n && i < 60; i++)
		shown[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
	shown[i] = 0;
	for (i = 0; i < ids.n && want[i] != NONE; i++)
		same += ids.id[i] == want[i];
	if (!ok(!err && same == ids.n && want[same] == NONE, "\"%s\" with flags %u", shown,
		flags)) {
		printf("#");
		for (i = 0; i < ids.n; i++)
			printf(" %u", ids.id[i]);
		printf("\n");
	}
	tok_ids_free(&ids);
}

#define is(t, text, flags, ...) \
	is_n(t, text, strlen(text), flags, (const uint32_t[]){ __VA_ARGS__, NONE })

static uint32_t find(const struct tokenizer *t, const char *text)
{
	int64_t id = tok_find(t, text, strlen(text));

	if (id < 0)
		printf("# no token \"%s\"\n", text);
	return (uint32_t)id;
}

/* Ids of single bytes in the small byte-level vocabulary are the bytes. */
static void test_bpe(void)
{
	struct tokenizer *t;
	struct gguf_write w;
	uint32_t hello, world;

	gw_init(&w);
	vocab_bpe(&w, "smollm");
	t = open_end(&w);
	hello = find(t, "hello");
	world = find(t, "\xc4\xa0wor");
	is(t, "hello", 0, hello);
	is(t, "hell", 0, find(t, "hell"));
	is(t, "hel", 0, find(t, "he"), 'l');
	is(t, "hello world", 0, hello, world, 'l', 'd');
	is(t, "hello  world", 0, hello, ' ', world, 'l', 'd');
	is(t, "   ", 0, find(t, "\xc4\xa0\xc4\xa0"), ' ');
	is(t, "    ", 0, find(t, "\xc4\xa0\xc4\xa0"), find(t, "\xc4\xa0\xc4\xa0"));
	is(t, "llll", 0, find(t, "ll"), find(t, "ll"));
	is(t, "12", 0, '1', '2');
	is(t, "\n\n", 0, find(t, "\xc4\x8a\xc4\x8a"));
	is(t, "hi's", 0, find(t, "hi"), '\'', 's');
	is(t, "\xc3\xa3", 0, 0xc3, 0xa3);
	is(t, "\xff", 0, 0xef, 0xbf, 0xbd);
	is(t, "a\xc3", 0, 'a', 0xef, 0xbf, 0xbd);
	is(t, "\xc0\xaf", 0, 0xef, 0xbf, 0xbd, 0xef, 0xbf, 0xbd);
	is(t, "\xed\xa0\x80", 0, 0xef, 0xbf, 0xbd, 0xef, 0xbf, 0xbd, 0xef, 0xbf, 0xbd);
	is(t, "\xf4\x90\x80\x80", 0, 0xef, 0xbf, 0xbd, 0xef, 0xbf, 0xbd, 0xef, 0xbf, 0xbd, 0xef,
	   0xbf, 0xbd);
	is_n(t, "a\0b", 3, 0, (const uint32_t[]){ 'a', 0, 'b', NONE });
	tok_close(t);
	gw_init(&w);
	vocab_bpe(&w, "gpt-2");
	t = open_end(&w);
	is(t, "12", 0, find(t, "12"));
	is(t, " 12", 0, ' ', find(t, "12"));
	tok_close(t);
}

static void test_special(void)
{
	struct tokenizer *t;
	struct gguf_write w;

	gw_init(&w);
	vocab_bpe(&w, "smollm");
	gw_value_bool(&w, "tokenizer.ggml.add_bos_token", 1);
	t = open_end(&w);
	is(t, "<|im_end|>", TOK_SPECIAL, BPE_IM_END);
	is(t, "<|im_end|>", 0, '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>');
	is(t, "hi<|im_end|>hi", TOK_SPECIAL, find(t, "hi"), BPE_IM_END, find(t, "hi"));
	is(t, "<|im_start|>x", TOK_SPECIAL, BPE_LONG);
	is(t, "<|im_start|>y", TOK_SPECIAL, BPE_IM_START, 'y');
	is(t, "<|im_start|><|im_start|>x<|im_start|>", TOK_SPECIAL, BPE_IM_START, BPE_LONG,
	   BPE_IM_START);
	is(t, "<|im_start|", TOK_SPECIAL, '<', '|', 'i', 'm', '_', 's', 't', 'a', 'r', 't', '|');
	is(t, "<<|im_end|>>", TOK_SPECIAL, '<', BPE_IM_END, '>');
	is(t, "a[user]b", 0, 'a', BPE_USER, 'b');
	is(t, "a[user]<|im_end|>", 0, 'a', BPE_USER, '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|',
	   '>');
	is(t, "he[user]llo", TOK_SPECIAL, find(t, "he"), BPE_USER, find(t, "ll"), 'o');
	is(t, "<|im_end|>", TOK_SPECIAL | TOK_BOS, BPE_IM_START, BPE_IM_END);
	is(t, "", TOK_BOS, BPE_IM_START);
	ok(tok_piece(t, BPE_USER, false).n == 6, "a user-defined token is text");
	tok_close(t);
}

/* The longest token takes its place first, even to the right of a shorter one that overlaps it. */
static void test_longest(void)
{
	static const char *const token[] = { "a", "b", "c", "d", "ab", "bcd", "aa", "aaa" };
	static const int32_t type[] = { 1, 1, 1, 1, 3, 3, 3, 3 };
	struct tokenizer *t;
	struct gguf_write w;
	int i;

	gw_init(&w);
	gw_value_str(&w, "tokenizer.ggml.model", "gpt2");
	gw_array(&w, "tokenizer.ggml.tokens", 8, 8);
	for (i = 0; i < 8; i++)
		gw_text(&w.values, token[i], strlen(token[i]));
	gw_array(&w, "tokenizer.ggml.token_type", 5, 8);
	gw_bytes(&w.values, type, sizeof(type));
	gw_array(&w, "tokenizer.ggml.merges", 8, 0);
	t = open_end(&w);
	is(t, "abcd", TOK_SPECIAL, 0, 5);
	is(t, "abc", TOK_SPECIAL, 4, 2);
	is(t, "ababcdab", TOK_SPECIAL, 4, 0, 5, 4);
	is(t, "aaaa", TOK_SPECIAL, 7, 0);
	is(t, "aaaaa", TOK_SPECIAL, 7, 6);
	is(t, "aab", TOK_SPECIAL, 0, 4);
	is(t, "abcd", 0, 0, 1, 2, 3);
	tok_close(t);
}

static void test_spm(void)
{
	struct tokenizer *t;
	struct gguf_write w;
	uint32_t space, b0 = SPM_BYTES;

	gw_init(&w);
	vocab_spm(&w, true);
	t = open_end(&w);
	space = find(t, "\xe2\x96\x81");
	is(t, "", 0, NONE);
	is(t, "a", 0,
	   find(t, "\xe2\x96\x81"
		   "a"));
	is(t, "b", 0, space, find(t, "b"));
	/* bc (-1.5) before ab (-2), then abc (-3) */
	is(t, "babc", 0, space, find(t, "b"), find(t, "abc"));
	/* sb has the score of bc and a higher id: the left one is first */
	is(t, "sbc", 0, space, find(t, "sb"), find(t, "c"));
	is(t, "ab", 0,
	   find(t, "\xe2\x96\x81"
		   "ab"));
	is(t, "b ab", 0, space, find(t, "b"),
	   find(t, "\xe2\x96\x81"
		   "ab"));
	is(t, "b  b", 0, space, find(t, "b"), find(t, "\xe2\x96\x81\xe2\x96\x81"), find(t, "b"));
	is(t, "\xc3\xa9", 0, space, find(t, "\xc3\xa9"));
	is(t, "\xc3\xa8", 0, space, b0 + 0xc3, b0 + 0xa8);
	is(t, "\n", 0, space, find(t, "\n"));
	is(t, "\xff", 0, space, b0 + 0xff);
	is(t,
	   "\xf0"
	   "abc",
	   0, space, b0 + 0xf0, b0 + 'a', b0 + 'b', b0 + 'c');
	is(t, "x", 0, space, b0 + 'x');
	/* <, s> and so <s> could be merged: a control token may not come out of plain text */
	is(t, "<s>", 0, space, find(t, "<"), find(t, "s>"));
	is(t, "<s>", TOK_SPECIAL, SPM_BOS);
	is(t, "<s>b</s>b", TOK_SPECIAL, SPM_BOS, space, find(t, "b"), SPM_EOS, space, find(t, "b"));
	is(t, "b[user]b", 0, space, find(t, "b"), find(t, "[user]"), space, find(t, "b"));
	is(t, "b", TOK_BOS, SPM_BOS, space, find(t, "b"));
	is(t, "", TOK_BOS, SPM_BOS);
	is(t, "<0x41>", 0, space, find(t, "<"), b0 + '0', b0 + 'x', b0 + '4', b0 + '1',
	   find(t, ">"));
	tok_close(t);
	gw_init(&w);
	vocab_spm(&w, false);
	gw_value_bool(&w, "tokenizer.ggml.add_space_prefix", 0);
	gw_value_bool(&w, "tokenizer.ggml.add_bos_token", 0);
	gw_value_bool(&w, "tokenizer.ggml.add_eos_token", 1);
	t = open_end(&w);
	is(t, "b", 0, find(t, "b"));
	is(t, "b", TOK_BOS, find(t, "b"), SPM_EOS);
	is(t, "b\xc3\xa8", 0, find(t, "b"), SPM_UNK);
	is(t, "xy", 0, SPM_UNK, SPM_UNK);
	tok_close(t);
}

static void strings(struct gguf_write *w, const char *key, const char *const *s, uint64_t n)
{
	uint64_t i;

	gw_array(w, key, 8, n);
	for (i = 0; i < n; i++)
		gw_text(&w->values, s[i], strlen(s[i]));
}

/* Words that are tokens, whatever merges say, and what merges make that is no text. */
static void test_whole(void)
{
	static const char *const tokens[] = { "a",   "b",   "c",   "ab",    "abc",
					      "<s>", "ctl", "cba", "<|u|>", "[INST]" },
				 *const merges[] = { "b c", "a b", "c b", "cb a" };
	static const int32_t type[] = { 1, 1, 1, 1, 1, 3, 3, 3, 4, 4 };
	static const char *const pre[] = { "llama-bpe", "qwen2" };
	struct tok_ids ids = { 0 };
	struct tokenizer *t;
	struct gguf_write w;
	size_t i, k;

	for (i = 0; i < 4; i++) {
		gw_init(&w);
		gw_value_str(&w, "tokenizer.ggml.model", "gpt2");
		gw_value_str(&w, "tokenizer.ggml.pre", pre[i % 2]);
		strings(&w, "tokenizer.ggml.tokens", tokens, 10);
		gw_array(&w, "tokenizer.ggml.token_type", 5, 10);
		for (k = 0; k < 10; k++)
			gw_bytes(&w.values, &type[k], 4);
		strings(&w, "tokenizer.ggml.merges", merges, 4);
		gw_value_u32(&w, "tokenizer.ggml.bos_token_id", 5);
		if (i >= 2)
			gw_value_bool(&w, "tokenizer.ggml.add_bos_token", i == 3);
		t = open_end(&w);
		/* the merges make a+bc of it, and bc is no token */
		if (i % 2)
			is(t, "abc", 0, 0, 1, 2);
		else
			is(t, "abc", 0, 4);
		is(t, "ab", 0, 3);
		is(t, "abca", 0, 0, 1, 2, 0);
		is(t, "ctl", 0, 2); /* 't' and 'l' are no tokens and left out */
		is(t, "cba", 0, 2, 1, 0);
		is(t, "ctl", TOK_SPECIAL, 6);
		is(t, "a<|u|>b[INST]", 0, 0, 8, 1, 9);
		is(t, "a<|u|>b[INST]", TOK_MESSAGE, 0, 1);
		is(t, "<|u|>", TOK_MESSAGE | TOK_SPECIAL, 8);
		ids.n = 0;
		ok(!tok_encode(t, "", 0, TOK_BOS, &ids) && ids.n == (i == 0 || i == 3),
		   "BOS by default with llama-bpe alone");
		tok_close(t);
	}
	tok_ids_free(&ids);
}

/* The words of a text, joined by '|'. */
struct cut {
	char text[200];
	size_t n;
};

static int add_word(void *arg, const char *word, uint32_t n)
{
	struct cut *c = arg;

	if (c->n + n + 1 > sizeof(c->text))
		return -EFBIG;
	memcpy(c->text + c->n, word, n);
	c->n += n;
	c->text[c->n++] = '|';
	return 0;
}

static int count_word(void *arg, const char *word, uint32_t n)
{
	(void)word;
	(void)n;
	++*(int *)arg;
	return 0;
}

static void test_words(void)
{
	static const struct {
		const char *pre, *text, *want;
	} cases[] = {
		{ "llama-bpe", "It's 12345 o'CLOCK!\n\n  x",
		  "It|'s| |123|45| o|'C"
		  "LOCK|!\n\n| | x|" },
		{ "qwen2", "It's 123", "It|'s| |1|2|3|" },
		{ "deepseek-r1-qwen", "a 12", "a| |1|2|" },
		/* U+017F is no s, whatever its case folds to */
		{ "llama-bpe", "it'\xc5\xbf it'S", "it|'\xc5\xbf| it|'S|" },
		{ "llama-bpe", "(x) \t\n .\r\n", "(x|)| \t\n| .\r\n|" },
		{ "qwen2", "  a   ", " | a|   |" },
		/* U+180E is no white space; U+0085 is */
		{ "qwen2",
		  "a\xe1\xa0\x8e"
		  "b\xc2\x85"
		  "c",
		  "a|\xe1\xa0\x8e"
		  "b|\xc2\x85"
		  "c|" },
	};
	const uint32_t n = 1u << 24;
	struct model_error e;
	struct tok_split *s;
	struct cut c;
	char *spaces;
	int count = 0;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		c.n = 0;
		if (!ok(!tok_split_open(&s, (struct gguf_str){ cases[i].pre, strlen(cases[i].pre) },
					&e),
			"%s", cases[i].pre))
			continue;
		ok(!tok_split_run(s, cases[i].text, (uint32_t)strlen(cases[i].text), add_word,
				  &c) &&
			   c.n == strlen(cases[i].want) && !memcmp(c.text, cases[i].want, c.n),
		   "its words");
		if (c.n != strlen(cases[i].want) || memcmp(c.text, cases[i].want, c.n))
			printf("# %.*s\n", (int)c.n, c.text);
		tok_split_close(s);
	}
	/* more steps back than PCRE2 takes unless told to */
	spaces = malloc(n);
	memset(spaces, ' ', n);
	spaces[n - 1] = 'a';
	ok(!tok_split_open(&s, (struct gguf_str){ "llama-bpe", 9 }, &e) &&
		   !tok_split_run(s, spaces, n, count_word, &count) && count == 2,
	   "sixteen million spaces are one word");
	tok_split_close(s);
	free(spaces);
}

static void test_limits(void)
{
	struct tok_ids ids = { 0 };
	struct tokenizer *t;
	struct gguf_write w;
	size_t n = TOK_TEXT_MAX + (size_t)1;
	char *text = mmap(NULL, n, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	gw_init(&w);
	vocab_bpe(&w, "smollm");
	t = open_end(&w);
	ok(!tok_encode(t, "hello", 5, 0, &ids) && ids.n == 1, "one token");
	ok(text != MAP_FAILED && tok_encode(t, text, n, 0, &ids) == -EFBIG && ids.n == 1,
	   "more than 256 MiB is refused and the ids stay");
	munmap(text, n);
	tok_ids_free(&ids);
	tok_close(t);
}

/* Heap moves for a word of @n bytes. */
static double steps(const struct tokenizer *t, const char *text, uint32_t n)
{
	struct tok_merge m = { 0 };
	struct tok_ids ids = { 0 };
	int err = t->family == TOK_BPE ? tok_encode_bpe(t, &m, text, n, &ids)
				       : tok_encode_spm(t, &m, text, n, true, &ids);
	double s = err ? INFINITY : (double)m.steps;

	tok_merge_free(&m);
	tok_ids_free(&ids);
	return s;
}

/* A vocabulary in which a run of a's merges 16 times over. */
static struct tokenizer *open_doubling(void)
{
	static char run[1 << 17];
	struct gguf_write w;
	int i;

	memset(run, 'a', sizeof(run));
	gw_init(&w);
	gw_value_str(&w, "tokenizer.ggml.model", "gpt2");
	gw_value_str(&w, "tokenizer.ggml.pre", "gpt-2");
	gw_array(&w, "tokenizer.ggml.tokens", 8, 15);
	for (i = 0; i < 15; i++)
		gw_text(&w.values, run, 1u << i);
	gw_array(&w, "tokenizer.ggml.merges", 8, 14);
	for (i = 0; i < 14; i++) {
		run[1 << i] = ' ';
		gw_text(&w.values, run, (2u << i) + 1);
		run[1 << i] = 'a';
	}
	return open_end(&w);
}

static void cost(const struct tokenizer *t, const char *what, const char *text)
{
	const uint32_t small = 1u << 14, large = 1u << 20;
	double a = steps(t, text, small) / (small * 14.0),
	       b = steps(t, text, large) / (large * 20.0);

	ok(a > 0 && b < 3 && b < 2 * a + 0.1,
	   "%s: %.2f and %.2f moves for each byte and level, at 16 KB and 1 MB", what, a, b);
}

static void test_cost(uint64_t *seed)
{
	struct tokenizer *pairs, *doubling, *spm;
	char *text = malloc(1u << 20);
	struct gguf_write w;
	uint32_t i;

	gw_init(&w);
	vocab_pairs(&w, "gpt-2");
	pairs = open_end(&w);
	doubling = open_doubling();
	gw_init(&w);
	vocab_spm(&w, true);
	spm = open_end(&w);
	memset(text, 'a', 1u << 20);
	cost(doubling, "one letter, merges upon merges", text);
	cost(pairs, "one letter", text);
	for (i = 0; i < 1u << 20; i++)
		text[i] = (char)('a' + rnd(seed) % 26);
	cost(pairs, "random letters", text);
	for (i = 0; i < 1u << 20; i++)
		text[i] = "abc"[i % 3];
	cost(spm, "abcabc", text);
	for (i = 0; i < 1u << 20; i++)
		text[i] = (char)('a' + rnd(seed) % 3);
	cost(spm, "random a, b, c", text);
	free(text);
	tok_close(pairs);
	tok_close(doubling);
	tok_close(spm);
}

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(argc, argv);

	test_bpe();
	test_special();
	test_longest();
	test_spm();
	test_whole();
	test_words();
	test_limits();
	test_cost(&seed);
	return done();
}
