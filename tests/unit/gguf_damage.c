// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * Damaged files: each is refused with a sentence or gives objects that work; none crashes, hangs or
 * asks for much memory. gguf_damage [SEED [ROUNDS]]: 500 rounds, 10,000 with KVSLAB_LONG set. A
 * round's damage depends on SEED plus its number alone: to repeat round 37 of seed 5, run it with
 * seed 42 and one round.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "tests/lib/model_use.h"
#include "tests/lib/tap.h"
#include "tests/lib/vocab.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#define TEMPLATE \
	"{{ '<|im_start|>system\nHi<|im_end|>\n' }}{% for m in messages %}{{ m.content }}{% endfor %}"

static uint64_t running; /* seed of this round, for the message of a crash */
static const char *running_file = "";

const char *__asan_default_options(void);
void __asan_on_error(void);

const char *__asan_default_options(void)
{
	return "max_allocation_size_mb=512";
}

static void say_where(void)
{
	char line[160];
	int n = snprintf(line, sizeof(line), "# it was seed %llu, one round, file \"%s\"\n",
			 (unsigned long long)running, running_file);

	if (write(STDOUT_FILENO, line, (size_t)n) < 0)
		_exit(3);
}

void __asan_on_error(void)
{
	say_where();
}

static void on_signal(int sig)
{
	say_where();
	signal(sig, SIG_DFL);
	raise(sig);
}

/* A good file and the places in it where a wrong number hurts. */
struct sample {
	const char *name;
	uint8_t *b;
	size_t n;
	size_t header; /* bytes before the tensors' data */
	bool file; /* mapped copy-on-write, too large to be copied each time */
	int fd;
	struct {
		size_t at;
		uint8_t size;
	} * field;
	size_t n_fields, cap;
};

static void field(struct sample *s, const void *p, uint8_t size)
{
	size_t at = (size_t)((const uint8_t *)p - s->b);

	if (s->n_fields == s->cap) {
		s->cap = s->cap * 2 + 64;
		s->field = realloc(s->field, s->cap * sizeof(*s->field));
		if (!s->field)
			abort();
	}
	s->field[s->n_fields].at = at;
	s->field[s->n_fields++].size = size;
}

static int survey(struct sample *s)
{
	struct model_error e;
	struct gguf g;
	uint64_t i, k;

	if (gguf_parse(&g, s->b, s->n, s->name, &e)) {
		printf("# %s\n", e.text);
		return -1;
	}
	field(s, s->b + 4, 4);
	field(s, s->b + 8, 8);
	field(s, s->b + 16, 8);
	s->header = s->n;
	for (i = 0; i < g.n_values; i++) {
		const struct gguf_value *v = &g.values[i];
		const uint8_t *end = (const uint8_t *)v->key.s + v->key.n, *cursor = v->data;

		field(s, v->key.s - 8, 8);
		field(s, end, 4);
		if (v->kind == GGUF_ARRAY) {
			field(s, end + 4, 4);
			field(s, end + 8, 8);
		}
		for (k = 0; k < v->count && (v->kind == GGUF_STRING || v->item == GGUF_STRING);
		     k++) {
			/* of long lists only some */
			if (v->count < 100 || k % 101 == 0)
				field(s, cursor, 8);
			gguf_next_string(&cursor);
		}
		if (v->kind != GGUF_STRING && v->kind != GGUF_ARRAY)
			field(s, v->data, 1);
	}
	for (i = 0; i < g.n_tensors; i++) {
		const struct gguf_tensor *t = &g.tensors[i];
		const uint8_t *end = (const uint8_t *)t->name.s + t->name.n;

		field(s, t->name.s - 8, 8);
		field(s, end, 4);
		for (k = 0; k <= t->n_dims; k++)
			field(s, end + 4 + 8 * k, k < t->n_dims ? 8 : 4);
		field(s, end + 8 + 8 * t->n_dims, 8);
		if ((size_t)((const uint8_t *)t->data - s->b) < s->header)
			s->header = (size_t)((const uint8_t *)t->data - s->b);
	}
	gguf_close(&g);
	return 0;
}

static uint64_t extreme(uint64_t *seed, uint64_t old, size_t size)
{
	const uint64_t v[] = { 0,
			       1,
			       2,
			       7,
			       255,
			       256,
			       65535,
			       1u << 20,
			       INT32_MAX,
			       1u << 31,
			       UINT32_MAX,
			       1ull << 32,
			       INT64_MAX,
			       1ull << 63,
			       UINT64_MAX,
			       UINT64_MAX - 7,
			       UINT64_MAX / 8 + 1,
			       size,
			       size - 1,
			       size + 1,
			       size / 2,
			       old + 1,
			       old - 1,
			       old * 2,
			       old ^ 32,
			       ~old,
			       rnd(seed),
			       rnd(seed) & 0xff };

	return v[rnd(seed) % (sizeof(v) / sizeof(v[0]))];
}

/* Copies one name's bytes over another's, so that they are twice there or wrong. */
static void copy_name(const struct sample *s, uint8_t *b, size_t n, uint64_t *seed)
{
	size_t from = s->field[rnd(seed) % s->n_fields].at + 8,
	       to = s->field[rnd(seed) % s->n_fields].at + 8, k = 1 + rnd(seed) % 40;

	if (from + k <= n && to + k <= n)
		memmove(b + to - 8, b + from - 8, k + 8);
}

/* One damage; the size may change, never above @cap. */
static size_t damage(const struct sample *s, uint8_t *b, size_t n, size_t cap, uint64_t *seed)
{
	size_t at = rnd(seed) % s->header, len, to, i;
	uint64_t v = 0;

	if (at >= n)
		at = n ? rnd(seed) % n : 0;
	switch (rnd(seed) % 25) {
	case 0:
		return rnd(seed) % 4 ? (size_t)(rnd(seed) % (n + 1)) : at;
	case 1:
	case 10:
		if (n)
			b[at] ^= (uint8_t)(1u << rnd(seed) % 8);
		return n;
	case 2:
		if (n)
			b[at] = (uint8_t)rnd(seed);
		return n;
	case 3:
		copy_name(s, b, n, seed);
		return n;
	case 4: /* a stretch over another */
		len = 1 + rnd(seed) % 200;
		to = rnd(seed) % s->header;
		if (at + len <= n && to + len <= n)
			memmove(b + to, b + at, len);
		return n;
	case 5: /* a stretch put in, or taken out */
		len = 1 + rnd(seed) % 100;
		if (s->file || at + len > n)
			return n;
		if (rnd(seed) & 1) {
			memmove(b + at, b + at + len, n - at - len);
			return n - len;
		}
		if (n + len > cap)
			return n;
		memmove(b + at + len, b + at, n - at);
		return n + len;
	case 6: /* some bytes of a string or number, its length left alone */
	case 7:
	case 8:
	case 9:
	case 20 ... 24:
		at = s->field[rnd(seed) % s->n_fields].at + 8;
		for (len = 1 + rnd(seed) % 4; len && at + len <= n; len--)
			b[at + len - 1] = rnd(seed) & 1 ? (uint8_t)rnd(seed) : b[rnd(seed) % n];
		return n;
	default: /* a number that means something */
		i = rnd(seed) % s->n_fields;
		if (s->field[i].at + s->field[i].size > n)
			return n;
		memcpy(&v, b + s->field[i].at, s->field[i].size);
		v = extreme(seed, v, n);
		memcpy(b + s->field[i].at, &v, s->field[i].size);
		return n;
	}
}

static void one_round(const struct sample *s, uint64_t seed, struct use_tally *sum)
{
	size_t cap = s->file ? s->n : s->n + 400, n = s->n;
	uint8_t *b, *exact;
	int k = rnd(&seed) % 4 ? 1 : 2 + (int)(rnd(&seed) % 3);

	if (s->file) {
		b = mmap(NULL, s->n, PROT_READ | PROT_WRITE, MAP_PRIVATE, s->fd, 0);
		if (b == MAP_FAILED)
			abort();
	} else {
		b = malloc(cap);
		memcpy(b, s->b, n);
	}
	while (k--)
		n = damage(s, b, n, cap, &seed);
	if (s->file) {
		use_model(b, n, &seed, sum);
		munmap(b, s->n);
		return;
	}
	/* a block of just this size, so that ASan sees one byte too far */
	exact = malloc(n ? n : 1);
	memcpy(exact, b, n);
	free(b);
	use_model(exact, n, &seed, sum);
	free(exact);
}

static void make(struct sample *s, bool bpe)
{
	static const float rows[64] = { 1 };
	struct gguf_write w;
	uint32_t kind;

	gw_init(&w);
	for (kind = 0; kind <= 12; kind++) {
		static const uint8_t size[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
		static const char bytes[16] = { 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0 };
		char key[8];

		if (!size[kind])
			continue;
		snprintf(key, sizeof(key), "k%u", kind);
		gw_key(&w, key, kind);
		gw_bytes(&w.values, bytes, size[kind]);
		snprintf(key, sizeof(key), "a%u", kind);
		gw_array(&w, key, kind, 2);
		gw_bytes(&w.values, bytes, 2u * size[kind]);
	}
	gw_value_u32(&w, "general.alignment", 32);
	if (bpe)
		vocab_bpe(&w, "smollm");
	else
		vocab_spm(&w, true);
	gw_value_str(&w, "tokenizer.chat_template", TEMPLATE);
	gw_tensor(&w, "rows", 0, 2, (uint64_t[]){ 32, 2 }, rows, 256);
	gw_tensor(&w, "q8", 8, 1, (uint64_t[]){ 32 }, rows, 34);
	gw_tensor(&w, "q4_k", 12, 4, (uint64_t[]){ 256, 1, 1, 1 }, rows, 144);
	s->b = gw_end(&w, &s->n);
	s->name = bpe ? "byte-level" : "SentencePiece";
}

static bool map(struct sample *s, char *path, const char *name)
{
	struct stat st;

	if (!path)
		return false;
	s->fd = open(path, O_RDONLY);
	if (s->fd < 0 || fstat(s->fd, &st))
		return false;
	s->n = (size_t)st.st_size;
	s->b = mmap(NULL, s->n, PROT_READ, MAP_PRIVATE, s->fd, 0);
	s->file = true;
	s->name = name;
	free(path);
	return s->b != MAP_FAILED;
}

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(argc, argv);
	long rounds = argc > 2 ? strtol(argv[2], NULL, 0) : getenv("KVSLAB_LONG") ? 10000 : 500, i;
	struct sample s[4] = { 0 };
	struct rlimit limit = { 2ul << 30, 2ul << 30 };
	struct use_tally sum = { 0 };
	int have = 2, k;

	make(&s[0], true);
	make(&s[1], false);
	if (map(&s[have], vocab_tiny_path(), "tiny"))
		have++;
	if (map(&s[have], vocab_real_path(), "real"))
		have++;
	for (k = 0; k < have; k++)
		if (!survey(&s[k]))
			ok(s[k].n_fields > 20, "%s has %zu bytes and %zu places to hurt", s[k].name,
			   s[k].n, s[k].n_fields);
		else if (!ok(0, "%s is a good file", s[k].name))
			return done();
	if (!SANITIZED)
		setrlimit(RLIMIT_AS, &limit);
	signal(SIGALRM, on_signal);
	signal(SIGABRT, on_signal);
	if (!SANITIZED) {
		signal(SIGSEGV, on_signal);
		signal(SIGBUS, on_signal);
	}
	for (i = 0; i < rounds; i++) {
		uint64_t z = seed + (uint64_t)i;

		running = z;
		/* the files made here most of the time; the real one, which is slow, seldom */
		z = rnd(&z) % 40;
		k = z == 0 ? have - 1 : z < 8 ? (have > 2 ? 2 : 0) : (int)(z & 1);
		running_file = s[k].name;
		alarm(60);
		one_round(&s[k], running, &sum);
	}
	alarm(0);
	ok(sum.files + sum.refused == rounds && !sum.silent,
	   "%ld rounds: %d files, %d tokenizers, %d templates worked, %d files were refused, %d without a word",
	   rounds, sum.files, sum.tokenizers, sum.chats, sum.refused, sum.silent);
	ok(rounds < 100 || (sum.refused * 5 > rounds && sum.tokenizers * 20 > rounds &&
			    sum.chats * 20 > rounds),
	   "both kinds were seen");
	for (k = 0; k < have; k++) {
		free(s[k].field);
		if (s[k].file)
			munmap(s[k].b, s[k].n);
		else
			free(s[k].b);
	}
	return done();
}
