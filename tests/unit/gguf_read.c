// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Reading GGUF: values and tensors come back as written; each kind of bad file has its own message.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "tests/lib/gguf_write.h"
#include "tests/lib/tap.h"
#include "runtime/model/gguf.h"

static uint64_t seed;

static void write_good(struct gguf_write *w)
{
	static const float rows[64] = { 1.5f, [63] = -2 };
	static const uint8_t q8[34] = { 7 };
	uint8_t b = 200;
	int8_t i8 = -5;
	uint16_t u16 = 60000;
	int16_t i16 = -30000;
	int32_t i32 = -70000, list[3] = { -1, 0, 5 };
	int64_t i64 = INT64_MIN;
	double f64 = 1e-300;

	gw_init(w);
	gw_key(w, "u8", 0);
	gw_bytes(&w->values, &b, 1);
	gw_key(w, "i8", 1);
	gw_bytes(&w->values, &i8, 1);
	gw_key(w, "u16", 2);
	gw_bytes(&w->values, &u16, 2);
	gw_key(w, "i16", 3);
	gw_bytes(&w->values, &i16, 2);
	gw_value_u32(w, "u32", 4000000000u);
	gw_key(w, "i32", 5);
	gw_bytes(&w->values, &i32, 4);
	gw_value_f32(w, "f32", 0.25f);
	gw_value_bool(w, "yes", 1);
	gw_value_bool(w, "no", 0);
	gw_value_str(w, "text", "h\xc3\xa9llo");
	gw_value_str(w, "empty", "");
	gw_key(w, "u64", 10);
	gw_u64(&w->values, UINT64_MAX);
	gw_key(w, "i64", 11);
	gw_bytes(&w->values, &i64, 8);
	gw_key(w, "f64", 12);
	gw_bytes(&w->values, &f64, 8);
	gw_array(w, "words", 8, 3);
	gw_text(&w->values, "a", 1);
	gw_text(&w->values, "", 0);
	gw_text(&w->values, "ccc", 3);
	gw_array(w, "list", 5, 3);
	gw_bytes(&w->values, list, sizeof(list));
	gw_array(w, "none", 8, 0);
	gw_tensor(w, "rows", 0, 2, (uint64_t[]){ 32, 2 }, rows, sizeof(rows));
	gw_tensor(w, "q8", 8, 1, (uint64_t[]){ 32 }, q8, sizeof(q8));
	gw_tensor(w, "future", 1000, 1, (uint64_t[]){ 5 }, "x", 1);
}

static void test_read(uint32_t version)
{
	struct gguf_write w;
	struct gguf g;
	struct model_error e;
	const struct gguf_tensor *t;
	const struct gguf_value *v;
	struct gguf_str s;
	const uint8_t *cursor;
	uint64_t u;
	int64_t i;
	double d;
	bool b;
	size_t n;
	uint8_t *file;

	write_good(&w);
	w.version = version;
	file = gw_end(&w, &n);
	if (!ok(!gguf_parse(&g, file, n, "good", &e), "version %u is read: %s", version, e.text))
		return;
	ok(g.version == version && g.n_values == 17 && g.n_tensors == 3, "version and counts");
	ok(gguf_u64(&g, "u8", &u) && u == 200, "u8");
	ok(!gguf_u64(&g, "i8", &u), "a negative value is no u64");
	ok(gguf_item_i64(gguf_find(&g, "i8"), 0, &i) && i == -5, "i8");
	ok(gguf_u64(&g, "u16", &u) && u == 60000, "u16");
	ok(gguf_item_i64(gguf_find(&g, "i16"), 0, &i) && i == -30000, "i16");
	ok(gguf_u64(&g, "u32", &u) && u == 4000000000u, "u32");
	ok(gguf_item_i64(gguf_find(&g, "i32"), 0, &i) && i == -70000, "i32");
	ok(gguf_u64(&g, "u64", &u) && u == UINT64_MAX, "u64");
	ok(!gguf_item_i64(gguf_find(&g, "u64"), 0, &i), "2^64-1 is no i64");
	ok(gguf_item_i64(gguf_find(&g, "i64"), 0, &i) && i == INT64_MIN, "i64");
	ok(gguf_f64(&g, "f32", &d) && d == 0.25, "f32");
	ok(gguf_f64(&g, "f64", &d) && d == 1e-300, "f64");
	ok(gguf_f64(&g, "i32", &d) && d == -70000, "an integer where a number is wanted");
	ok(gguf_bool(&g, "yes", &b) && b && gguf_bool(&g, "no", &b) && !b, "bool");
	ok(!gguf_bool(&g, "u8", &b) && !gguf_u64(&g, "yes", &u) && !gguf_f64(&g, "text", &d) &&
		   !gguf_string(&g, "u32", &s) && !gguf_string(&g, "words", &s) &&
		   !gguf_u64(&g, "list", &u),
	   "another kind is not taken");
	ok(gguf_string(&g, "text", &s) && s.n == 6 && !memcmp(s.s, "h\xc3\xa9llo", 6), "string");
	ok(gguf_string(&g, "empty", &s) && !s.n, "empty string");
	ok(!gguf_find(&g, "u3") && !gguf_find(&g, "u322") && !gguf_find(&g, "") &&
		   !gguf_u64(&g, "zz", &u),
	   "absent keys");
	v = gguf_find(&g, "words");
	ok(v && v->kind == GGUF_ARRAY && v->item == GGUF_STRING && v->count == 3,
	   "array of strings");
	cursor = v->data;
	s = gguf_next_string(&cursor);
	ok(s.n == 1 && s.s[0] == 'a', "its first");
	s = gguf_next_string(&cursor);
	ok(!s.n, "its second");
	s = gguf_next_string(&cursor);
	ok(s.n == 3 && !memcmp(s.s, "ccc", 3), "its third");
	v = gguf_find(&g, "list");
	ok(v && gguf_item_i64(v, 0, &i) && i == -1 && gguf_item_i64(v, 2, &i) && i == 5 &&
		   !gguf_item_i64(v, 3, &i) && gguf_item_f64(v, 0, &d) && d == -1 &&
		   !gguf_item_u64(v, 0, &u),
	   "items of an array");
	ok(gguf_find(&g, "none")->count == 0, "empty array");
	t = gguf_tensor(&g, "rows");
	ok(t && t->n_dims == 2 && t->dims[0] == 32 && t->dims[1] == 2 && t->dims[2] == 1 &&
		   t->dims[3] == 1 && t->size == 256 && ((const float *)t->data)[63] == -2,
	   "tensor");
	t = gguf_tensor(&g, "q8");
	ok(t && t->type == 8 && t->size == 34 && *(const uint8_t *)t->data == 7,
	   "quantised tensor");
	t = gguf_tensor(&g, "future");
	ok(t && t->type == 1000 && !t->size && !gguf_type(1000) &&
		   !strcmp(gguf_type_name(1000), "unknown"),
	   "a type that we do not know passes with size 0");
	ok(!gguf_tensor(&g, "row") && !gguf_tensor(&g, "rowsx"), "absent tensors");
	gguf_close(&g);
	free(file);
}

/* One file, one change; the message must have the word. */
static void refuse(const uint8_t *file, size_t n, int want, const char *word, const char *what)
{
	void *copy = malloc(n ? n : 1);
	struct gguf g;
	struct model_error e = { "" };
	int err;

	memcpy(copy, file, n);
	err = gguf_parse(&g, n ? copy : NULL, n, "x.gguf", &e);
	ok(err == want && strstr(e.text, word) && !strncmp(e.text, "x.gguf: ", 8), "%s: %d %s",
	   what, err, e.text);
	if (!err)
		gguf_close(&g);
	free(copy);
}

static uint8_t *good(size_t *n)
{
	struct gguf_write w;

	write_good(&w);
	return gw_end(&w, n);
}

static void test_start(void)
{
	size_t n;
	uint8_t *f = good(&n);

	refuse(f, 0, -EBADMSG, "empty", "an empty file");
	refuse(f, 3, -EBADMSG, "truncated", "three bytes");
	refuse(f, 6, -EBADMSG, "version", "six bytes");
	refuse(f, 20, -EBADMSG, "truncated", "twenty bytes");
	f[4] = 1;
	refuse(f, n, -EOPNOTSUPP, "version 1", "version 1");
	f[4] = 4;
	refuse(f, n, -EOPNOTSUPP, "version 4", "version 4");
	f[4] = 0;
	refuse(f, n, -EOPNOTSUPP, "version 0", "version 0");
	f[7] = 3;
	refuse(f, n, -EOPNOTSUPP, "big-endian", "big-endian");
	refuse((const uint8_t *)"hello world, no model", 21, -EBADMSG, "not a GGUF", "text");
	refuse((const uint8_t *)"tjgg\1\0\0\0", 8, -EBADMSG, "GGJT", "an older format");
	refuse((const uint8_t *)"PK\3\4\0\0\0\0", 8, -EBADMSG, "ZIP", "a ZIP archive");
	refuse((const uint8_t *)"version https://git-lfs.github.com/spec/v1\n", 43, -EBADMSG,
	       "LFS pointer", "an LFS pointer");
	refuse((const uint8_t *)"<!DOCTYPE html>", 15, -EBADMSG, "web page", "a web page");
	refuse((const uint8_t *)"\x40\0\0\0\0\0\0\0{\"a\":1}", 15, -EBADMSG, "safetensors",
	       "safetensors");
	free(f);
	f = good(&n);
	memset(f + 8, 0xff, 8);
	refuse(f, n, -EBADMSG, "tensors", "2^64-1 tensors");
	f[8] = 4;
	memset(f + 9, 0, 7);
	refuse(f, n, -EBADMSG, "tensor", "one tensor too many");
	f[8] = 3;
	memset(f + 16, 0xff, 8);
	refuse(f, n, -EBADMSG, "metadata values", "2^64-1 values");
	memset(f + 16, 0, 8);
	f[18] = 1;
	refuse(f, n, -EBADMSG, "", "65,536 values where there are 17");
	free(f);
}

static void refuse_write(struct gguf_write *w, int want, const char *word, const char *what)
{
	size_t n;
	uint8_t *f = gw_end(w, &n);

	refuse(f, n, want, word, what);
	free(f);
}

static void test_values(void)
{
	struct gguf_write w;
	char *name;

	gw_init(&w);
	gw_value_u32(&w, "", 1);
	refuse_write(&w, -EBADMSG, "key of 0 bytes", "an empty key");
	gw_init(&w);
	name = malloc(65537);
	memset(name, 'a', 65536);
	name[65536] = 0;
	gw_value_u32(&w, name, 1);
	refuse_write(&w, -EBADMSG, "65535", "a long key");
	free(name);
	gw_init(&w);
	gw_u64(&w.values, UINT64_MAX - 3);
	w.n_values = 1;
	refuse_write(&w, -EBADMSG, "claims 18446744073709551612 bytes", "a key of 2^64-4 bytes");
	gw_init(&w);
	gw_key(&w, "k", 13);
	gw_u64(&w.values, 0);
	refuse_write(&w, -EBADMSG, "'k' has type 13", "an unknown kind");
	gw_init(&w);
	gw_array(&w, "k", 99, 0);
	refuse_write(&w, -EBADMSG, "'k' has type 99", "an array of an unknown kind");
	gw_init(&w);
	gw_array(&w, "k", 9, 1);
	refuse_write(&w, -EOPNOTSUPP, "array of arrays", "an array of arrays");
	gw_init(&w);
	gw_array(&w, "k", 4, UINT64_MAX / 4 + 2);
	refuse_write(&w, -EBADMSG, "'k' claims", "a count whose size overflows");
	gw_init(&w);
	gw_array(&w, "k", 8, 1u << 31);
	refuse_write(&w, -EBADMSG, "of string", "two billion strings");
	gw_init(&w);
	gw_array(&w, "k", 8, 1);
	gw_u64(&w.values, 100);
	refuse_write(&w, -EBADMSG, "claims 100 bytes", "a string beyond the end");
	gw_init(&w);
	gw_value_bool(&w, "k", 2);
	refuse_write(&w, -EBADMSG, "'k' holds 2", "a bool of 2");
	gw_init(&w);
	gw_value_u32(&w, "bb", 1);
	gw_value_u32(&w, "a", 1);
	gw_value_u32(&w, "bb", 1);
	refuse_write(&w, -EBADMSG, "'bb' stands there twice", "a key twice");
	gw_init(&w);
	gw_value_str(&w, "general.alignment", "32");
	refuse_write(&w, -EBADMSG, "general.alignment", "an alignment that is text");
	gw_init(&w);
	gw_value_u32(&w, "general.alignment", 0);
	refuse_write(&w, -EBADMSG, "power of two", "alignment 0");
	gw_init(&w);
	gw_value_u32(&w, "general.alignment", 48);
	refuse_write(&w, -EBADMSG, "power of two", "alignment 48");
	gw_init(&w);
	gw_value_u32(&w, "general.alignment", 1u << 31);
	refuse_write(&w, -EBADMSG, "power of two", "alignment 2^31");
	gw_init(&w);
	gw_value_u32(&w, "\x1b[31mred\xff\xc2\x9b", 1);
	gw_value_u32(&w, "\x1b[31mred\xff\xc2\x9b", 1);
	refuse_write(&w, -EBADMSG, "'?[31mred?\?\?'", "no control characters in a message");
}

static void tensor_at(struct gguf_write *w, const char *name, uint32_t type, uint64_t d0,
		      uint64_t d1, uint64_t offset)
{
	gw_text(&w->infos, name, strlen(name));
	gw_u32(&w->infos, 2);
	gw_u64(&w->infos, d0);
	gw_u64(&w->infos, d1);
	gw_u32(&w->infos, type);
	gw_u64(&w->infos, offset);
	w->n_tensors++;
}

static void test_tensors(void)
{
	static const float row[8];
	char name[300];
	struct gguf_write w;
	struct model_error e;
	struct gguf g;
	uint8_t *f;
	size_t n;

	gw_init(&w);
	gw_tensor(&w, "", 0, 1, (uint64_t[]){ 8 }, row, 32);
	refuse_write(&w, -EBADMSG, "name of 0 bytes", "a nameless tensor");
	memset(name, 'n', 299);
	name[299] = 0;
	gw_init(&w);
	gw_tensor(&w, name, 0, 1, (uint64_t[]){ 8 }, row, 32);
	refuse_write(&w, -EBADMSG, "name of 299 bytes", "a long name");
	gw_init(&w);
	gw_tensor(&w, "t", 0, 0, NULL, row, 32);
	refuse_write(&w, -EBADMSG, "'t' has 0 dimensions", "no dimensions");
	gw_init(&w);
	gw_tensor(&w, "t", 0, 5, (uint64_t[]){ 1, 1, 1, 1, 1 }, row, 32);
	refuse_write(&w, -EBADMSG, "5 dimensions", "five dimensions");
	gw_init(&w);
	gw_tensor(&w, "t", 0, 2, (uint64_t[]){ 8, 0 }, row, 32);
	refuse_write(&w, -EBADMSG, "dimension 1 of 0", "a dimension of 0");
	gw_init(&w);
	gw_tensor(&w, "t", 0, 3, (uint64_t[]){ 1u << 31, 1u << 31, 8 }, row, 32);
	refuse_write(&w, -EBADMSG, "dimension 2 of 8", "a product that overflows");
	gw_init(&w);
	gw_tensor(&w, "t", 28, 2, (uint64_t[]){ 1u << 31, 1u << 31 }, row, 32);
	refuse_write(&w, -EBADMSG, "more bytes than can be counted", "a size that overflows");
	gw_init(&w);
	gw_tensor(&w, "t", 8, 1, (uint64_t[]){ 33 }, row, 32);
	refuse_write(&w, -EBADMSG, "rows of 33 values, Q8_0 needs a multiple of 32",
		     "half a block");
	gw_init(&w);
	gw_tensor(&w, "blk.3.ffn_up.weight", 0, 1, (uint64_t[]){ 9 }, row, 32);
	refuse_write(&w, -EBADMSG,
		     "'blk.3.ffn_up.weight' ends at byte 132, the file has 128: it is truncated",
		     "a tensor beyond the end");
	gw_init(&w);
	tensor_at(&w, "t", 0, 2, 2, 16);
	gw_bytes(&w.data, row, 32);
	refuse_write(&w, -EBADMSG, "offset 16, which is no multiple of 32",
		     "an offset that is not aligned");
	gw_init(&w);
	tensor_at(&w, "t", 0, 2, 2, UINT64_MAX - 31);
	gw_bytes(&w.data, row, 32);
	refuse_write(&w, -EBADMSG, "truncated or damaged", "an offset near 2^64");
	gw_init(&w);
	tensor_at(&w, "t", 1000, 2, 2, 1u << 20);
	gw_bytes(&w.data, row, 32);
	refuse_write(&w, -EBADMSG, "truncated or damaged", "an unknown type beyond the end");
	gw_init(&w);
	tensor_at(&w, "a", 0, 8, 1, 0);
	tensor_at(&w, "b", 0, 16, 1, 32);
	tensor_at(&w, "c", 0, 8, 1, 64);
	gw_bytes(&w.data, row, 32);
	gw_bytes(&w.data, row, 32);
	gw_bytes(&w.data, row, 32);
	refuse_write(&w, -EBADMSG, "'b' and 'c' overlap", "overlapping tensors");
	gw_init(&w);
	gw_tensor(&w, "t", 0, 1, (uint64_t[]){ 8 }, row, 32);
	gw_tensor(&w, "s", 0, 1, (uint64_t[]){ 8 }, row, 32);
	gw_tensor(&w, "t", 0, 1, (uint64_t[]){ 8 }, row, 32);
	refuse_write(&w, -EBADMSG, "tensor 't' stands there twice", "a name twice");
	gw_init(&w);
	gw_value_u32(&w, "general.alignment", 128);
	w.alignment = 128;
	gw_tensor(&w, "t", 0, 1, (uint64_t[]){ 8 }, row, 32);
	gw_tensor(&w, "s", 0, 1, (uint64_t[]){ 8 }, row, 32);
	f = gw_end(&w, &n);
	ok(!gguf_parse(&g, f, n, "x", &e) &&
		   (const uint8_t *)gguf_tensor(&g, "s")->data == g.map + g.size - 32 &&
		   ((uintptr_t)gguf_tensor(&g, "s")->data - (uintptr_t)g.map) % 128 == 0,
	   "alignment 128 is followed");
	gguf_close(&g);
	ok(gguf_parse(&g, f + 4, n - 4, "x", &e) == -EINVAL && strstr(e.text, "multiple of 8"),
	   "memory that is not aligned");
	free(f);
}

/* Each prefix of a good file is refused, and only the padding at its end may be missing. */
static void test_truncate(void)
{
	size_t n, i, taken = 0;
	uint8_t *f = good(&n);
	struct model_error e;
	struct gguf g;
	int bad = 0;

	for (i = 0; i < n; i++) {
		uint8_t *copy = malloc(i ? i : 1);

		memcpy(copy, f, i);
		e.text[0] = 0;
		if (!gguf_parse(&g, i ? copy : NULL, i, "x", &e)) {
			taken++;
			gguf_close(&g);
		} else if (!e.text[0] || g.path || g.values) {
			bad++;
		}
		free(copy);
	}
	ok(!bad, "each refused prefix has a message and leaves nothing");
	ok(taken == 1, "only the byte of the unknown type may be missing (%zu taken of %zu)", taken,
	   n);
	free(f);
}

static void test_files(void)
{
	char dir[] = "/tmp/gguf_read.XXXXXX", path[300];
	uint8_t a[32], b[32], c[32];
	struct model_error e;
	struct gguf g, h;
	size_t n;
	uint8_t *f = good(&n);
	int fd;

	if (!ok(!!mkdtemp(dir), "a folder"))
		return;
	ok(gguf_open(&g, dir, &e) == -EISDIR && strstr(e.text, "directory"), "%s", e.text);
	snprintf(path, sizeof(path), "%s/missing", dir);
	ok(gguf_open(&g, path, &e) == -ENOENT && strstr(e.text, "no such file"), "%s", e.text);
	snprintf(path, sizeof(path), "%s/f", dir);
	ok(!mkfifo(path, 0600) && gguf_open(&g, path, &e) == -EINVAL &&
		   strstr(e.text, "regular file"),
	   "%s", e.text);
	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	ok(fd >= 0 && gguf_open(&g, path, &e) == -EBADMSG && strstr(e.text, "empty"), "%s", e.text);
	ok(write(fd, f, n) == (ssize_t)n && !close(fd) && !gguf_open(&g, path, &e) && g.mapped &&
		   g.n_values == 17,
	   "a good file");
	ok(!strcmp(g.path, path), "its path");
	gguf_digest(&g, a);
	gguf_close(&g);
	ok(!g.map && !g.path, "closed");
	ok(!gguf_parse(&h, f, n, "memory", &e), "the same in memory");
	gguf_digest(&h, b);
	gguf_close(&h);
	f[n - 1] ^= 1;
	ok(!gguf_parse(&h, f, n, "memory", &e), "with one bit changed");
	gguf_digest(&h, c);
	gguf_close(&h);
	ok(!memcmp(a, b, 32) && memcmp(a, c, 32), "the digest is that of the bytes");
	if (geteuid()) {
		ok(!chmod(path, 0) && gguf_open(&g, path, &e) == -EACCES &&
			   strstr(e.text, "not readable"),
		   "%s", e.text);
	} else {
		/* root reads everything: be someone else for a moment */
		ok(!chmod(path, 0) && !chmod(dir, 0755) && !seteuid(65534) &&
			   gguf_open(&g, path, &e) == -EACCES && strstr(e.text, "not readable") &&
			   !seteuid(0),
		   "%s", e.text);
	}
	unlink(path);
	rmdir(dir);
	free(f);
}

static void test_types(void)
{
	int bad = 0;
	uint32_t i;

	for (i = 0; gguf_type(i); i++) {
		const struct gguf_type *t = gguf_type(i);

		bad += !t->name || !t->block != !t->bytes;
	}
	ok(i == 42 && !bad, "42 types, each with a name");
	ok(gguf_type(3)->bytes == 20 && gguf_type(14)->bytes == 210 &&
		   gguf_type(14)->block == 256 && !gguf_type(4)->block &&
		   !strcmp(gguf_type_name(30), "BF16"),
	   "some of them");
	ok(!strcmp(gguf_kind_name(GGUF_F64), "f64") && !strcmp(gguf_kind_name(77), "unknown"),
	   "names of kinds");
}

/* A random small file: every tensor's bytes come back. */
static void test_random(void)
{
	static const uint32_t type[] = { 0, 1, 2, 3, 8, 14, 30 };
	const struct gguf_tensor *t;
	struct model_error e;
	int round, bad = 0;

	for (round = 0; round < 200; round++) {
		uint32_t n_tensors = (uint32_t)(rnd(&seed) % 90), i;
		struct gguf_write w;
		struct gguf g;
		uint8_t *f;
		size_t n;

		gw_init(&w);
		for (i = 0; i < n_tensors; i++) {
			char key[40];

			snprintf(key, sizeof(key), "k%u", (i * 7919u) % n_tensors * 90 + i);
			gw_value_u32(&w, key, i);
		}
		for (i = 0; i < n_tensors; i++) {
			uint32_t ty = type[rnd(&seed) % 7];
			uint64_t dims[4] = { gguf_type(ty)->block * (1 + rnd(&seed) % 3),
					     1 + rnd(&seed) % 5, 1 + rnd(&seed) % 2, 1 };
			size_t size = dims[0] / gguf_type(ty)->block * gguf_type(ty)->bytes *
				      dims[1] * dims[2];
			uint8_t *data = malloc(size);
			char name[20];

			memset(data, (int)i + 1, size);
			snprintf(name, sizeof(name), "t%u", (i * 31) % 97);
			gw_tensor(&w, name, ty, 3, dims, data, size);
			free(data);
		}
		f = gw_end(&w, &n);
		if (gguf_parse(&g, f, n, "random", &e)) {
			bad++;
			free(f);
			continue;
		}
		for (i = 0; i < n_tensors; i++) {
			char name[20];

			snprintf(name, sizeof(name), "t%u", (i * 31) % 97);
			t = gguf_tensor(&g, name);
			bad += !t || ((const uint8_t *)t->data)[0] != i + 1 ||
			       ((const uint8_t *)t->data)[t->size - 1] != i + 1;
		}
		gguf_close(&g);
		free(f);
	}
	ok(!bad, "200 random files: every tensor is found");
}

int main(int argc, char **argv)
{
	seed = tap_seed(argc, argv);
	test_read(2);
	test_read(3);
	test_start();
	test_values();
	test_tensors();
	test_truncate();
	test_files();
	test_types();
	test_random();
	return done();
}
