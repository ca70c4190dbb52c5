// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Look-up and typed reads in an open GGUF file. */
#include <string.h>
#include "gguf.h"
#include "gguf_order.h"

static struct gguf_str text(const char *s)
{
	return (struct gguf_str){ s, strlen(s) };
}

const struct gguf_value *gguf_find(const struct gguf *g, const char *key)
{
	struct gguf_str want = text(key);
	uint64_t lo = 0, hi = g->n_values, mid;
	int c;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		c = gguf_str_cmp(want, g->values[g->value_order[mid]].key);
		if (!c)
			return &g->values[g->value_order[mid]];
		if (c < 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	return NULL;
}

const struct gguf_tensor *gguf_tensor(const struct gguf *g, const char *name)
{
	struct gguf_str want = text(name);
	uint64_t lo = 0, hi = g->n_tensors, mid;
	int c;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		c = gguf_str_cmp(want, g->tensors[g->tensor_order[mid]].name);
		if (!c)
			return &g->tensors[g->tensor_order[mid]];
		if (c < 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	return NULL;
}

/* Every integer kind as (negative, magnitude). */
static bool item_int(const struct gguf_value *v, uint64_t i, bool *negative, uint64_t *magnitude)
{
	enum gguf_kind kind = v->kind == GGUF_ARRAY ? v->item : v->kind;
	uint64_t u = 0;
	int64_t s;

	if (i >= v->count)
		return false;
	*negative = false;
	switch (kind) {
	case GGUF_U8:
		*magnitude = v->data[i];
		return true;
	case GGUF_U16:
		memcpy(&u, v->data + 2 * i, 2);
		*magnitude = u;
		return true;
	case GGUF_U32:
		memcpy(&u, v->data + 4 * i, 4);
		*magnitude = u;
		return true;
	case GGUF_U64:
		memcpy(&u, v->data + 8 * i, 8);
		*magnitude = u;
		return true;
	case GGUF_I8:
		s = (int8_t)v->data[i];
		break;
	case GGUF_I16:
		memcpy(&u, v->data + 2 * i, 2);
		s = (int16_t)u;
		break;
	case GGUF_I32:
		memcpy(&u, v->data + 4 * i, 4);
		s = (int32_t)u;
		break;
	case GGUF_I64:
		memcpy(&u, v->data + 8 * i, 8);
		s = (int64_t)u;
		break;
	default:
		return false;
	}
	*negative = s < 0;
	*magnitude = s < 0 ? -(uint64_t)s : (uint64_t)s;
	return true;
}

bool gguf_item_u64(const struct gguf_value *v, uint64_t i, uint64_t *n)
{
	bool negative;
	uint64_t m;

	if (!item_int(v, i, &negative, &m) || negative)
		return false;
	*n = m;
	return true;
}

bool gguf_item_i64(const struct gguf_value *v, uint64_t i, int64_t *n)
{
	bool negative;
	uint64_t m;

	if (!item_int(v, i, &negative, &m) || m > (uint64_t)INT64_MAX + negative)
		return false;
	*n = negative ? (int64_t)-m : (int64_t)m;
	return true;
}

bool gguf_item_f64(const struct gguf_value *v, uint64_t i, double *x)
{
	enum gguf_kind kind = v->kind == GGUF_ARRAY ? v->item : v->kind;
	bool negative;
	uint64_t m;
	float f;

	if (i >= v->count)
		return false;
	if (kind == GGUF_F32) {
		memcpy(&f, v->data + 4 * i, 4);
		*x = f;
		return true;
	}
	if (kind == GGUF_F64) {
		memcpy(x, v->data + 8 * i, 8);
		return true;
	}
	if (!item_int(v, i, &negative, &m))
		return false;
	*x = negative ? -(double)m : (double)m;
	return true;
}

static const struct gguf_value *single(const struct gguf *g, const char *key)
{
	const struct gguf_value *v = gguf_find(g, key);

	return v && v->kind != GGUF_ARRAY ? v : NULL;
}

bool gguf_u64(const struct gguf *g, const char *key, uint64_t *n)
{
	const struct gguf_value *v = single(g, key);

	return v && gguf_item_u64(v, 0, n);
}

bool gguf_f64(const struct gguf *g, const char *key, double *x)
{
	const struct gguf_value *v = single(g, key);

	return v && gguf_item_f64(v, 0, x);
}

bool gguf_bool(const struct gguf *g, const char *key, bool *b)
{
	const struct gguf_value *v = single(g, key);

	if (!v || v->kind != GGUF_BOOL)
		return false;
	*b = *v->data;
	return true;
}

bool gguf_string(const struct gguf *g, const char *key, struct gguf_str *s)
{
	const struct gguf_value *v = single(g, key);
	const uint8_t *cursor;

	if (!v || v->kind != GGUF_STRING)
		return false;
	cursor = v->data;
	*s = gguf_next_string(&cursor);
	return true;
}

struct gguf_str gguf_next_string(const uint8_t **cursor)
{
	struct gguf_str s;

	memcpy(&s.n, *cursor, 8);
	s.s = (const char *)*cursor + 8;
	*cursor += 8 + s.n;
	return s;
}
