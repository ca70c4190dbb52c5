// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * The parser: one pass over the header, nothing believed before it is checked against the bytes
 * that are there. Tables grow with what was read, never by a count that the file claims.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "gguf.h"
#include "gguf_order.h"

#define DAMAGED ": the file is damaged, fetch it again"

#define KEY_MAX 65535 /* bytes; the format's own limit */
#define NAME_MAX_BYTES 256 /* of a tensor; the format says 64 */
#define VALUES_MAX (1u << 16)
#define TENSORS_MAX (1u << 20)
#define ALIGNMENT_MAX (1u << 20)
#define SHOWN 80 /* bytes of a name in a message */

struct reader {
	struct gguf *g;
	struct model_error *e;
	uint64_t pos;
};

static int shown(struct gguf_str s)
{
	return (int)(s.n < SHOWN ? s.n : SHOWN);
}

static uint64_t left(const struct reader *r)
{
	return r->g->size - r->pos;
}

static int cut(struct reader *r, const char *what)
{
	return model_fail(
		r->e, -EBADMSG,
		"%s: the file ends at byte %zu inside %s: it is truncated, fetch it again",
		r->g->path, r->g->size, what);
}

static int read_u32(struct reader *r, uint32_t *v, const char *what)
{
	if (left(r) < 4)
		return cut(r, what);
	memcpy(v, r->g->map + r->pos, 4);
	r->pos += 4;
	return 0;
}

static int read_u64(struct reader *r, uint64_t *v, const char *what)
{
	if (left(r) < 8)
		return cut(r, what);
	memcpy(v, r->g->map + r->pos, 8);
	r->pos += 8;
	return 0;
}

static int read_str(struct reader *r, struct gguf_str *s, const char *what)
{
	uint64_t start = r->pos;
	int err;

	err = read_u64(r, &s->n, what);
	if (err)
		return err;
	if (s->n > left(r))
		return model_fail(r->e, -EBADMSG,
				  "%s: %s at byte %" PRIu64 " claims %" PRIu64
				  " bytes, the file has %" PRIu64
				  " left: it is truncated or damaged, fetch it again",
				  r->g->path, what, start, s->n, left(r));
	s->s = (const char *)r->g->map + r->pos;
	r->pos += s->n;
	return 0;
}

/* Bytes of one item; 0: not of fixed size. */
static uint32_t kind_size(uint32_t kind)
{
	static const uint8_t sizes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };

	return kind < sizeof(sizes) ? sizes[kind] : 0;
}

static int read_items(struct reader *r, struct gguf_value *v, uint32_t kind)
{
	uint32_t size = kind_size(kind);
	struct gguf_str s;
	uint64_t i;
	int err;

	v->data = r->g->map + r->pos;
	/* A string takes eight bytes at least. */
	if (v->count > left(r) / (size ? size : 8))
		return model_fail(r->e, -EBADMSG,
				  "%s: '%.*s' claims %" PRIu64 " of %s, the file has %" PRIu64
				  " bytes left: it is truncated or damaged, fetch it again",
				  r->g->path, shown(v->key), v->key.s, v->count,
				  gguf_kind_name(kind), left(r));
	if (size) {
		r->pos += v->count * size;
		for (i = 0; kind == GGUF_BOOL && i < v->count; i++)
			if (v->data[i] > 1)
				return model_fail(
					r->e, -EBADMSG,
					"%s: '%.*s' holds %u where only 0 and 1 are allowed" DAMAGED,
					r->g->path, shown(v->key), v->key.s, v->data[i]);
		return 0;
	}
	for (i = 0; i < v->count; i++) {
		err = read_str(r, &s, v->kind == GGUF_ARRAY ? "a string of an array" : "a string");
		if (err)
			return err;
	}
	return 0;
}

static int read_value(struct reader *r, struct gguf_value *v)
{
	uint32_t kind;
	int err;

	err = read_str(r, &v->key, "a metadata key");
	if (err)
		return err;
	if (!v->key.n || v->key.n > KEY_MAX)
		return model_fail(r->e, -EBADMSG,
				  "%s: a metadata key of %" PRIu64
				  " bytes (1 to %u are allowed)" DAMAGED,
				  r->g->path, v->key.n, KEY_MAX);
	err = read_u32(r, &kind, "a metadata value");
	if (err)
		return err;
	v->count = 1;
	v->kind = kind;
	if (kind == GGUF_ARRAY) {
		err = read_u32(r, &kind, "an array");
		if (err)
			return err;
		err = read_u64(r, &v->count, "an array");
		if (err)
			return err;
		if (kind == GGUF_ARRAY)
			return model_fail(
				r->e, -EOPNOTSUPP,
				"%s: '%.*s' is an array of arrays, which is not supported: use a file without it",
				r->g->path, shown(v->key), v->key.s);
		v->item = kind;
	}
	if (kind > GGUF_F64)
		return model_fail(r->e, -EBADMSG,
				  "%s: '%.*s' has type %u, the format knows 0 to %u" DAMAGED,
				  r->g->path, shown(v->key), v->key.s, kind, GGUF_F64);
	return read_items(r, v, kind);
}

/* Room for one more of @size bytes in a table that holds @n of at most @max. */
static int grow(void **table, uint64_t n, uint64_t max, size_t size)
{
	uint64_t cap = n ? 2 * n : 64;
	void *p;

	if (n && (n < 64 || n & (n - 1)))
		return 0;
	p = realloc(*table, (cap < max ? cap : max) * size);
	if (!p)
		return -ENOMEM;
	*table = p;
	return 0;
}

static int no_memory(struct reader *r)
{
	return model_fail(r->e, -ENOMEM, "%s: no memory for the tables of the file's header",
			  r->g->path);
}

static int read_values(struct reader *r, uint64_t n)
{
	struct gguf *g = r->g;
	int err;

	while (g->n_values < n) {
		if (grow((void **)&g->values, g->n_values, n, sizeof(*g->values)))
			return no_memory(r);
		memset(&g->values[g->n_values], 0, sizeof(*g->values));
		err = read_value(r, &g->values[g->n_values]);
		if (err)
			return err;
		g->n_values++;
	}
	return 0;
}

/* data holds the offset until the data's start is known. */
static int read_tensor(struct reader *r, struct gguf_tensor *t, uint64_t *offset)
{
	const struct gguf_type *type;
	uint64_t n = 1, size;
	uint32_t i;
	int err;

	err = read_str(r, &t->name, "a tensor's name");
	if (err)
		return err;
	if (!t->name.n || t->name.n > NAME_MAX_BYTES)
		return model_fail(r->e, -EBADMSG,
				  "%s: a tensor's name of %" PRIu64
				  " bytes (1 to %u are allowed)" DAMAGED,
				  r->g->path, t->name.n, NAME_MAX_BYTES);
	err = read_u32(r, &t->n_dims, "a tensor's description");
	if (err)
		return err;
	if (!t->n_dims || t->n_dims > 4)
		return model_fail(
			r->e, -EBADMSG,
			"%s: tensor '%.*s' has %u dimensions (1 to 4 are allowed)" DAMAGED,
			r->g->path, shown(t->name), t->name.s, t->n_dims);
	for (i = 0; i < 4; i++) {
		t->dims[i] = 1;
		err = i < t->n_dims ? read_u64(r, &t->dims[i], "a tensor's description") : 0;
		if (err)
			return err;
		if (!t->dims[i] || t->dims[i] > INT64_MAX / n)
			return model_fail(r->e, -EBADMSG,
					  "%s: tensor '%.*s' has dimension %u of %" PRIu64
					  ", which cannot be" DAMAGED,
					  r->g->path, shown(t->name), t->name.s, i, t->dims[i]);
		n *= t->dims[i];
	}
	err = read_u32(r, &t->type, "a tensor's description");
	if (err)
		return err;
	err = read_u64(r, offset, "a tensor's description");
	if (err)
		return err;
	type = gguf_type(t->type);
	if (!type || !type->block)
		return 0;
	if (t->dims[0] % type->block)
		return model_fail(r->e, -EBADMSG,
				  "%s: tensor '%.*s' has rows of %" PRIu64
				  " values, %s needs a multiple of %u" DAMAGED,
				  r->g->path, shown(t->name), t->name.s, t->dims[0], type->name,
				  type->block);
	if (__builtin_mul_overflow(n / type->block, type->bytes, &size))
		return model_fail(r->e, -EBADMSG,
				  "%s: tensor '%.*s' has more bytes than can be counted" DAMAGED,
				  r->g->path, shown(t->name), t->name.s);
	t->size = size;
	return 0;
}

static int read_tensors(struct reader *r, uint64_t n, uint64_t **offsets)
{
	struct gguf *g = r->g;
	int err;

	while (g->n_tensors < n) {
		if (grow((void **)&g->tensors, g->n_tensors, n, sizeof(*g->tensors)) ||
		    grow((void **)offsets, g->n_tensors, n, sizeof(**offsets)))
			return no_memory(r);
		memset(&g->tensors[g->n_tensors], 0, sizeof(*g->tensors));
		err = read_tensor(r, &g->tensors[g->n_tensors], &(*offsets)[g->n_tensors]);
		if (err)
			return err;
		g->n_tensors++;
	}
	return 0;
}

static int value_cmp(const void *a, const void *b, void *g)
{
	const struct gguf_value *v = ((struct gguf *)g)->values;

	return gguf_str_cmp(v[*(const uint32_t *)a].key, v[*(const uint32_t *)b].key);
}

static int tensor_cmp(const void *a, const void *b, void *g)
{
	const struct gguf_tensor *t = ((struct gguf *)g)->tensors;

	return gguf_str_cmp(t[*(const uint32_t *)a].name, t[*(const uint32_t *)b].name);
}

static int place_cmp(const void *a, const void *b, void *g)
{
	const struct gguf_tensor *t = ((struct gguf *)g)->tensors;
	uintptr_t x = (uintptr_t)t[*(const uint32_t *)a].data,
		  y = (uintptr_t)t[*(const uint32_t *)b].data;

	return (x > y) - (x < y);
}

static uint32_t *sorted(struct gguf *g, uint64_t n, int (*cmp)(const void *, const void *, void *))
{
	uint32_t *order = malloc((n ? n : 1) * sizeof(*order)), i;

	if (!order)
		return NULL;
	for (i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, n, sizeof(*order), cmp, g);
	return order;
}

static int sort_values(struct reader *r)
{
	struct gguf *g = r->g;
	uint64_t i;

	g->value_order = sorted(g, g->n_values, value_cmp);
	if (!g->value_order)
		return no_memory(r);
	for (i = 1; i < g->n_values; i++) {
		struct gguf_str key = g->values[g->value_order[i]].key;

		if (!gguf_str_cmp(key, g->values[g->value_order[i - 1]].key))
			return model_fail(r->e, -EBADMSG,
					  "%s: metadata key '%.*s' stands there twice" DAMAGED,
					  g->path, shown(key), key.s);
	}
	return 0;
}

static int sort_tensors(struct reader *r)
{
	struct gguf *g = r->g;
	uint64_t i;

	g->tensor_order = sorted(g, g->n_tensors, tensor_cmp);
	if (!g->tensor_order)
		return no_memory(r);
	for (i = 1; i < g->n_tensors; i++) {
		struct gguf_str name = g->tensors[g->tensor_order[i]].name;

		if (!gguf_str_cmp(name, g->tensors[g->tensor_order[i - 1]].name))
			return model_fail(r->e, -EBADMSG,
					  "%s: tensor '%.*s' stands there twice" DAMAGED, g->path,
					  shown(name), name.s);
	}
	return 0;
}

static int read_alignment(struct reader *r, uint64_t *alignment)
{
	const struct gguf_value *v = gguf_find(r->g, "general.alignment");

	*alignment = 32;
	if (!v)
		return 0;
	if (v->kind == GGUF_ARRAY || !gguf_item_u64(v, 0, alignment) || *alignment < 8 ||
	    *alignment > ALIGNMENT_MAX || *alignment & (*alignment - 1))
		return model_fail(
			r->e, -EBADMSG,
			"%s: 'general.alignment' must be a power of two from 8 to %u" DAMAGED,
			r->g->path, ALIGNMENT_MAX);
	return 0;
}

static int place_tensors(struct reader *r, const uint64_t *offsets)
{
	struct gguf *g = r->g;
	uint64_t alignment, start, i;
	struct gguf_tensor *t;
	int err;

	err = read_alignment(r, &alignment);
	if (err)
		return err;
	start = (r->pos + alignment - 1) & ~(alignment - 1);
	for (i = 0; i < g->n_tensors; i++) {
		t = &g->tensors[i];
		if (offsets[i] & (alignment - 1))
			return model_fail(r->e, -EBADMSG,
					  "%s: tensor '%.*s' lies at offset %" PRIu64
					  ", which is no multiple of %" PRIu64 DAMAGED,
					  g->path, shown(t->name), t->name.s, offsets[i],
					  alignment);
		if (start > g->size || offsets[i] > g->size - start ||
		    t->size > g->size - start - offsets[i]) {
			uint64_t end;

			if (__builtin_add_overflow(start, offsets[i], &end) ||
			    __builtin_add_overflow(end, t->size, &end))
				end = UINT64_MAX;
			return model_fail(
				r->e, -EBADMSG,
				"%s: tensor '%.*s' ends at byte %" PRIu64
				", the file has %zu: it is truncated or damaged, fetch it again",
				g->path, shown(t->name), t->name.s, end, g->size);
		}
		t->data = g->map + start + offsets[i];
	}
	return 0;
}

/* Two tensors on the same bytes are a sign of damage that nothing else would show. */
static int check_overlap(struct reader *r)
{
	struct gguf *g = r->g;
	uint32_t *order = sorted(g, g->n_tensors, place_cmp);
	const struct gguf_tensor *t, *before = NULL;
	uint64_t i;
	int err = 0;

	if (!order)
		return no_memory(r);
	for (i = 0; i < g->n_tensors; i++) {
		t = &g->tensors[order[i]];
		if (!t->size)
			continue;
		if (before &&
		    (const uint8_t *)before->data + before->size > (const uint8_t *)t->data) {
			err = model_fail(r->e, -EBADMSG,
					 "%s: tensors '%.*s' and '%.*s' overlap" DAMAGED, g->path,
					 shown(before->name), before->name.s, shown(t->name),
					 t->name.s);
			break;
		}
		before = t;
	}
	free(order);
	return err;
}

/* What people feed in by mistake, by its first bytes. */
static const char *other_format(const struct gguf *g)
{
	static const struct {
		const char *magic;
		uint8_t n;
		const char *say;
	} known[] = {
		{ "lmgg", 4,
		  "is of the GGML format that came before GGUF: convert the model to GGUF" },
		{ "fmgg", 4,
		  "is of the GGMF format that came before GGUF: convert the model to GGUF" },
		{ "tjgg", 4,
		  "is of the GGJT format that came before GGUF: convert the model to GGUF" },
		{ "FUGG", 4,
		  "has its magic bytes reversed: it is damaged or was made for another machine" },
		{ "PK\3\4", 4,
		  "is a ZIP archive (a PyTorch checkpoint?): convert the model to GGUF" },
		{ "version https://git-lfs", 23,
		  "is a Git LFS pointer, not the model: fetch the file itself" },
		{ "<", 1, "looks like a web page, not a model: fetch the file itself" },
	};
	size_t i;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (g->size >= known[i].n && !memcmp(g->map, known[i].magic, known[i].n))
			return known[i].say;
	if (g->size > 9 && g->map[8] == '{')
		return "looks like a safetensors file: convert the model to GGUF";
	return NULL;
}

static int read_start(struct reader *r, uint64_t *n_values, uint64_t *n_tensors)
{
	struct gguf *g = r->g;
	const char *other;
	int err;

	if (!g->size)
		return model_fail(r->e, -EBADMSG, "%s: the file is empty: fetch it again", g->path);
	if (memcmp(g->map, "GGUF", g->size < 4 ? g->size : 4)) {
		other = other_format(g);
		if (other)
			return model_fail(r->e, -EBADMSG, "%s: not a GGUF file: it %s", g->path,
					  other);
		return model_fail(
			r->e, -EBADMSG,
			"%s: not a GGUF file: it begins with other bytes than \"GGUF\"; name a .gguf file",
			g->path);
	}
	if (g->size < 4)
		return cut(r, "its first four bytes");
	r->pos = 4;
	err = read_u32(r, &g->version, "the version");
	if (err)
		return err;
	if (g->version && !(g->version & 0xffff))
		return model_fail(
			r->e, -EOPNOTSUPP,
			"%s: a big-endian GGUF file, only little-endian ones are supported: get that one",
			g->path);
	if (g->version == 1)
		return model_fail(
			r->e, -EOPNOTSUPP,
			"%s: GGUF version 1, only 2 and 3 are supported: convert the model again",
			g->path);
	if (g->version != 2 && g->version != 3)
		return model_fail(
			r->e, -EOPNOTSUPP,
			"%s: GGUF version %u, only 2 and 3 are supported: convert the model to one of them",
			g->path, g->version);
	err = read_u64(r, n_tensors, "the number of tensors");
	if (err)
		return err;
	err = read_u64(r, n_values, "the number of metadata values");
	if (err)
		return err;
	if (*n_values > VALUES_MAX)
		return model_fail(r->e, -EBADMSG,
				  "%s: claims %" PRIu64
				  " metadata values, %u are allowed: it is damaged, fetch it again",
				  g->path, *n_values, VALUES_MAX);
	if (*n_tensors > TENSORS_MAX)
		return model_fail(r->e, -EBADMSG,
				  "%s: claims %" PRIu64
				  " tensors, %u are allowed: it is damaged, fetch it again",
				  g->path, *n_tensors, TENSORS_MAX);
	return 0;
}

int gguf_parse(struct gguf *g, const void *data, size_t size, const char *name,
	       struct model_error *e)
{
	struct reader r = { .g = g, .e = e };
	uint64_t n_values, n_tensors, *offsets = NULL;
	int err;

	memset(g, 0, sizeof(*g));
	g->path = strdup(name);
	if (!g->path)
		return model_fail(e, -ENOMEM, "%s: no memory", name);
	g->map = data;
	g->size = size;
	if ((uintptr_t)data % 8) {
		err = model_fail(e, -EINVAL, "%s: must lie in memory at a multiple of 8", name);
		goto fail;
	}
	err = read_start(&r, &n_values, &n_tensors);
	if (err)
		goto fail;
	err = read_values(&r, n_values);
	if (err)
		goto fail;
	err = sort_values(&r);
	if (err)
		goto fail;
	err = read_tensors(&r, n_tensors, &offsets);
	if (err)
		goto fail;
	err = sort_tensors(&r);
	if (err)
		goto fail;
	err = place_tensors(&r, offsets);
	if (err)
		goto fail;
	err = check_overlap(&r);
	if (err)
		goto fail;
	free(offsets);
	if (e)
		e->text[0] = 0;
	return 0;

fail:
	free(offsets);
	gguf_close(g);
	return err;
}
