// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * Ids equal to those that the peer gave (tests/peer/record_tokens.py, where the lines' form is
 * described), and text that comes back: decode(encode(x)) is x.
 */
#include <ctype.h>
#include <string.h>
#include "runtime/model/tokenizer.h"
#include "tests/lib/tap.h"
#include "tests/lib/vocab.h"

#define FOLDER "tests/data/"

/* Of the long made texts, under ASan one in so many. */
#ifdef __SANITIZE_ADDRESS__
#define MADE_EACH 5
#else
#define MADE_EACH 1
#endif

enum family {
	BPE,
	SPM, /* without a space before the text */
	SPM_PREFIX,
};

struct text {
	char *s;
	size_t n, cap;
};

static void add(struct text *t, const void *p, size_t n)
{
	if (!t->s || t->n + n > t->cap) {
		t->cap = (t->n + n) * 2 + 16;
		t->s = realloc(t->s, t->cap);
		if (!t->s)
			abort();
	}
	memcpy(t->s + t->n, p, n);
	t->n += n;
}

static void add_char(struct text *t, uint32_t c)
{
	uint8_t b[4] = { (uint8_t)c };
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4, i;

	for (i = n - 1; i > 0; i--, c >>= 6)
		b[i] = (uint8_t)(0x80 | (c & 0x3f));
	if (n > 1)
		b[0] = (uint8_t)((0xf00u >> n & 0xff) | c);
	add(t, b, n);
}

static void make_word(struct text *t, uint64_t s, uint64_t n)
{
	uint64_t z = 0, i;
	char c;

	for (i = 0; i < n; i++) {
		if (i % 8 == 0)
			z = rnd(&s);
		c = (char)('a' + (z >> 8 * (i % 8) & 0xff) % 26);
		add(t, &c, 1);
	}
}

static void make_chars(struct text *t, uint64_t first, uint64_t last)
{
	/* "a@1@!@ @a @1\n@  @@s", with @ the character */
	static const char *const before[] = { "a", "1", "!", " ", "a ", "1\n", "  ", "" };
	uint64_t c;
	int i;

	for (c = first; c <= last; c++) {
		if (c >= 0xd800 && c < 0xe000)
			continue;
		for (i = 0; i < 8; i++) {
			add(t, before[i], strlen(before[i]));
			add_char(t, (uint32_t)c);
		}
		add(t, "s", 1);
	}
}

static void make_mixture(struct text *t, uint64_t s, int64_t n)
{
	static const uint32_t span[][2] = {
		{ 0x20, 0x7e },	      { 0x30, 0x39 },	    { 0x41, 0x5a },
		{ 0x61, 0x7a },	      { 0x09, 0x0d },	    { 0x20, 0x20 },
		{ 0xa0, 0xff },	      { 0x300, 0x36f },	    { 0x370, 0x5ff },
		{ 0x600, 0x6ff },     { 0x900, 0xdff },	    { 0xe00, 0xe7f },
		{ 0x1100, 0x11ff },   { 0x1680, 0x180f },   { 0x2000, 0x206f },
		{ 0x2150, 0x218f },   { 0x2460, 0x24ff },   { 0x3000, 0x30ff },
		{ 0x4e00, 0x9fff },   { 0xac00, 0xd7a3 },   { 0xfe00, 0xfffd },
		{ 0x1f000, 0x1faff }, { 0x1d400, 0x1d7ff }, { 0x20000, 0x2a6df },
		{ 0xe0000, 0xe01ff },
	};
	static const char *const broken[] = { "\x80",	      "\xff",	  "\xc3",    "\xe2\x82",
					      "\xf0\x9f\x98", "\xfe\xfe", "\xbf\xbf" };
	const uint64_t spans = sizeof(span) / sizeof(span[0]);

	while (n > 0) {
		uint64_t z = rnd(&s), kind = z % (spans + 1), run = 1 + (z >> 32) % 7;

		n -= (int64_t)run;
		while (run--) {
			z = rnd(&s);
			if (kind == spans)
				add(t, broken[z % 7], strlen(broken[z % 7]));
			else
				add_char(t, span[kind][0] + (uint32_t)(z % (span[kind][1] -
									    span[kind][0] + 1)));
		}
	}
}

/* What make_text() draws from: lines of files that do not change, and the texts of the lines so
 * far. */
struct pool {
	struct text *item;
	size_t n, cap;
};

static void pool_add(struct pool *p, const void *s, size_t n)
{
	if (p->n == p->cap) {
		p->cap = p->cap * 2 + 256;
		p->item = realloc(p->item, p->cap * sizeof(*p->item));
		if (!p->item)
			abort();
	}
	p->item[p->n] = (struct text){ 0 };
	add(&p->item[p->n++], s, n);
}

static void pool_free(struct pool *p)
{
	size_t i;

	for (i = 0; i < p->n; i++)
		free(p->item[i].s);
	free(p->item);
}

static void prose_open(struct pool *p)
{
	static const char *const names[] = { "LICENSES/GPL-2.0.txt", "LICENSES/LGPL-2.1.txt",
					     FOLDER "text.txt" };
	struct text all = { 0 };
	size_t i, from, got;
	char buf[4096];
	FILE *f;

	add(&all, "", 0);
	for (i = 0; i < 3; i++) {
		f = fopen(names[i], "r");
		while (f && (got = fread(buf, 1, sizeof(buf), f)))
			add(&all, buf, got);
		if (f)
			fclose(f);
	}
	for (i = from = 0; i <= all.n; i++)
		if (i == all.n || all.s[i] == '\n') {
			pool_add(p, all.s + from, i - from);
			from = i + 1;
		}
	free(all.s);
}

static void make_text(struct text *t, uint64_t s, uint64_t n, const struct pool *prose,
		      const struct pool *hard)
{
	static const char *const between[] = { " ", "\n", "", "\n\n", "  ", "\t", " ", "\r\n" };
	const struct text *x;
	uint64_t z;

	while (t->n < n) {
		z = rnd(&s);
		x = z % 8 < 4 ? &prose->item[(z >> 8) % prose->n] : &hard->item[(z >> 8) % hard->n];
		if (z % 8 < 7)
			add(t, x->s, x->n);
		else
			make_mixture(t, z, 20);
		add(t, between[(z >> 40) % 8], strlen(between[(z >> 40) % 8]));
	}
}

static uint64_t fnv(const struct tok_ids *ids)
{
	uint64_t h = 0xcbf29ce484222325u;
	size_t i;
	int b;

	for (i = 0; i < ids->n; i++)
		for (b = 0; b < 32; b += 8)
			h = (h ^ (ids->id[i] >> b & 0xff)) * 0x100000001b3u;
	return h;
}

/* "..." with \xNN; returns what follows it. */
static char *unquote(char *p, struct text *t)
{
	char c;

	for (p++; *p != '"'; p++) {
		if (*p == '\\') {
			c = (char)strtoul((char[]){ p[2], p[3], 0 }, NULL, 16);
			p += 3;
		} else {
			c = *p;
		}
		add(t, &c, 1);
	}
	return p + 1;
}

static int valid(const struct text *t)
{
	size_t i, k, len;
	uint8_t b;

	for (i = 0; i < t->n; i += len) {
		b = (uint8_t)t->s[i];
		len = b < 0x80 ? 1 : b < 0xc2 ? 0 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : b < 0xf5 ? 4 : 0;
		if (!len || len > t->n - i)
			return 0;
		for (k = 1; k < len; k++)
			if ((t->s[i + k] & 0xc0) != 0x80)
				return 0;
	}
	return 1;
}

/* Whether the vocabulary has a token for each byte, so that the text can come back. */
static int has_bytes(const struct tokenizer *t, const struct text *x)
{
	int8_t known[256] = { 0 };
	char s[3];
	size_t i;

	for (i = 0; i < x->n; i++) {
		uint8_t b = (uint8_t)x->s[i];

		if (!known[b]) {
			vocab_byte_text(b, s);
			known[b] = tok_find(t, s, strlen(s)) >= 0 ? 1 : -1;
		}
		if (known[b] < 0)
			return 0;
	}
	return 1;
}

/* Both ways: all pieces at once, and by the stream. */
static int comes_back(const struct tokenizer *t, const struct text *x, const struct tok_ids *ids,
		      enum family family)
{
	struct text pieces = { 0 }, streamed = { 0 };
	char *out = malloc(3 * tok_piece_max(t) + 16);
	struct tok_stream s;
	size_t skip = family == SPM_PREFIX && x->n, i;
	int same;

	add(&pieces, "", 0);
	add(&streamed, "", 0);
	tok_stream_init(&s, t);
	for (i = 0; i < ids->n; i++) {
		struct gguf_str p = tok_piece(t, ids->id[i], true);

		add(&pieces, p.s, p.n);
		add(&streamed, out, tok_stream_next(&s, ids->id[i], out));
	}
	add(&streamed, out, tok_stream_end(&s, out));
	same = pieces.n == x->n + skip && !memcmp(pieces.s + skip, x->s, x->n) &&
	       streamed.n == x->n && !memcmp(streamed.s, x->s, x->n);
	free(pieces.s);
	free(streamed.s);
	free(out);
	return same;
}

/* U+2581 is SentencePiece's space and becomes one. */
static int can_come_back(const struct tokenizer *t, const struct text *x, enum family family)
{
	return valid(x) && (family ? !memmem(x->s, x->n, "\xe2\x96\x81", 3) : has_bytes(t, x));
}

struct tally {
	int same, differ, back, lost;
	struct pool prose, hard;
};

static void compare(const struct tokenizer *t, char *line, enum family family, struct tally *sum)
{
	struct tok_ids got = { 0 };
	struct text x = { 0 };
	char kind = line[0], *p = line + 4;
	unsigned int flags = (unsigned int)(line[2] - '0');
	unsigned long long a, b, count, hash;
	int same, err;
	size_t i;

	add(&x, "", 0);
	if (kind == 't') {
		p = unquote(p, &x);
		pool_add(&sum->hard, x.s, x.n);
	} else if (sscanf(p, "%llu %llu %llu %llx", &a, &b, &count, &hash) == 4) {
		(kind == 'w'   ? make_word(&x, a, b)
		 : kind == 'c' ? make_chars(&x, a, b)
		 : kind == 'm' ? make_mixture(&x, a, (int64_t)b)
			       : make_text(&x, a, b, &sum->prose, &sum->hard));
	} else {
		ok(0, "a line that cannot be read: %s", line);
		return;
	}
	err = tok_encode(t, x.s, x.n, (flags & 1 ? TOK_SPECIAL : 0) | (flags & 2 ? TOK_BOS : 0),
			 &got);
	same = !err;
	if (kind == 't') {
		for (i = 0; same && i < got.n; i++)
			same = *p == ' ' && strtoul(p, &p, 10) == got.id[i];
		same = same && (*p == '\n' || !*p);
	} else if (same) {
		same = got.n == count && fnv(&got) == hash;
	}
	sum->same += same;
	sum->differ += !same;
	if (!same) {
		line[strcspn(line, "\n")] = 0;
		printf("# differs (%d): %.600s\n#    here:", err, line);
		for (i = 0; i < got.n && i < 60; i++)
			printf(" %u", got.id[i]);
		printf("\n");
	}
	if (!flags && can_come_back(t, &x, family)) {
		sum->back++;
		if (!comes_back(t, &x, &got, family)) {
			sum->lost++;
			printf("# does not come back: %.600s\n", line);
		}
	}
	tok_ids_free(&got);
	free(x.s);
}

static struct tokenizer *open_pairs(const char *pre)
{
	struct tokenizer *t = NULL;
	struct gguf_write w;
	struct model_error e;
	struct gguf g;
	uint8_t *file;
	size_t n;

	gw_init(&w);
	vocab_pairs(&w, pre);
	file = gw_end(&w, &n);
	if (!gguf_parse(&g, file, n, "pairs", &e)) {
		if (tok_open(&t, &g, &e))
			t = NULL;
		gguf_close(&g);
	}
	if (!t)
		printf("# %s\n", e.text);
	free(file);
	return t;
}

static void run_file(const char *name, struct tokenizer *t, enum family family, int at_least)
{
	struct tally sum = { 0 };
	char path[300], *line = NULL, pre[40];
	size_t cap = 0, made = 0;
	FILE *f;

	snprintf(path, sizeof(path), FOLDER "%s", name);
	f = fopen(path, "r");
	if (!ok(!!f, "%s is there (run from the project's root)", path)) {
		tok_close(t);
		return;
	}
	prose_open(&sum.prose);
	while (getline(&line, &cap, f) > 0) {
		if (line[0] == '#')
			continue;
		if (sscanf(line, "pre %39s", pre) == 1) {
			tok_close(t);
			t = open_pairs(pre);
			if (!ok(!!t, "pairs under %s", pre))
				break;
			continue;
		}
		if (line[0] != 't' && line[0] != 'm' && ++made % MADE_EACH)
			continue;
		compare(t, line, family, &sum);
	}
	ok(!sum.differ && sum.same >= at_least, "%s: %d as recorded, %d differ", name, sum.same,
	   sum.differ);
	ok(!sum.lost && sum.back * 3 > at_least, "%s: %d texts come back, %d do not", name,
	   sum.back, sum.lost);
	pool_free(&sum.prose);
	pool_free(&sum.hard);
	free(line);
	fclose(f);
	tok_close(t);
}

static void run_model(const char *name, char *path, enum family family, uint64_t *seed)
{
	struct tokenizer *t;
	struct model_error e;
	struct tally sum = { 0 };
	struct gguf g;
	int i, err;

	if (!path) {
		ok(1, "%s # SKIP the model file is not there", name);
		return;
	}
	if (!ok(!gguf_open(&g, path, &e), "%s opens %s", path, e.text))
		return;
	err = tok_open(&t, &g, &e);
	gguf_close(&g);
	free(path);
	if (!ok(!err, "its tokenizer opens %s", err ? e.text : ""))
		return;
	for (i = 0; i < 200; i++) {
		struct tok_ids ids = { 0 };
		struct text x = { 0 };

		make_mixture(&x, rnd(seed), 1 + (int64_t)(rnd(seed) % 200));
		if (can_come_back(t, &x, family)) {
			sum.back++;
			err = tok_encode(t, x.s, x.n, 0, &ids);
			sum.lost += err || !comes_back(t, &x, &ids, family);
		}
		tok_ids_free(&ids);
		free(x.s);
	}
	ok(!sum.lost && sum.back, "%s: %d random texts come back, %d do not", name, sum.back,
	   sum.lost);
	run_file(name, t, family, 600);
}

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(argc, argv);

	run_file("tokens-pairs.txt", NULL, BPE, 2800);
	run_model("tokens-smollm2.txt", vocab_real_path(), BPE, &seed);
	run_model("tokens-stories260k.txt", vocab_tiny_path(), SPM_PREFIX, &seed);
	run_model("tokens-llama-bpe.txt", vocab_path("llama-bpe"), BPE, &seed);
	run_model("tokens-qwen2.txt", vocab_path("qwen2"), BPE, &seed);
	run_model("tokens-deepseek-r1-qwen.txt", vocab_path("deepseek-r1-qwen"), BPE, &seed);
	run_model("tokens-llama-spm.txt", vocab_path("llama-spm"), SPM_PREFIX, &seed);
	run_model("tokens-gemma3.txt", vocab_path("gemma3"), SPM, &seed);
	return done();
}
