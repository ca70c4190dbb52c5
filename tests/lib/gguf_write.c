// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include <stdlib.h>
#include <string.h>
#include "gguf_write.h"

void gw_bytes(struct gguf_bytes *to, const void *p, size_t n)
{
	if (n > to->cap - to->n) {
		to->cap = (to->n + n) * 2 + 64;
		to->b = realloc(to->b, to->cap);
		if (!to->b)
			abort();
	}
	if (n)
		memcpy(to->b + to->n, p, n);
	to->n += n;
}

void gw_u32(struct gguf_bytes *to, uint32_t v)
{
	gw_bytes(to, &v, 4);
}

void gw_u64(struct gguf_bytes *to, uint64_t v)
{
	gw_bytes(to, &v, 8);
}

void gw_text(struct gguf_bytes *to, const char *s, size_t n)
{
	gw_u64(to, n);
	gw_bytes(to, s, n);
}

void gw_init(struct gguf_write *w)
{
	memset(w, 0, sizeof(*w));
	w->version = 3;
	w->alignment = 32;
}

void gw_key(struct gguf_write *w, const char *key, uint32_t kind)
{
	gw_text(&w->values, key, strlen(key));
	gw_u32(&w->values, kind);
	w->n_values++;
}

void gw_array(struct gguf_write *w, const char *key, uint32_t item, uint64_t count)
{
	gw_key(w, key, 9);
	gw_u32(&w->values, item);
	gw_u64(&w->values, count);
}

void gw_value_u32(struct gguf_write *w, const char *key, uint32_t v)
{
	gw_key(w, key, 4);
	gw_u32(&w->values, v);
}

void gw_value_f32(struct gguf_write *w, const char *key, float v)
{
	gw_key(w, key, 6);
	gw_bytes(&w->values, &v, 4);
}

void gw_value_bool(struct gguf_write *w, const char *key, int v)
{
	uint8_t b = (uint8_t)v;

	gw_key(w, key, 7);
	gw_bytes(&w->values, &b, 1);
}

void gw_value_str(struct gguf_write *w, const char *key, const char *s)
{
	gw_key(w, key, 8);
	gw_text(&w->values, s, strlen(s));
}

static void pad(struct gguf_bytes *b, size_t alignment)
{
	static const uint8_t zero;

	while (b->n % alignment)
		gw_bytes(b, &zero, 1);
}

void gw_tensor(struct gguf_write *w, const char *name, uint32_t type, uint32_t n_dims,
	       const uint64_t *dims, const void *data, size_t size)
{
	uint32_t i;

	pad(&w->data, w->alignment);
	gw_text(&w->infos, name, strlen(name));
	gw_u32(&w->infos, n_dims);
	for (i = 0; i < n_dims; i++)
		gw_u64(&w->infos, dims[i]);
	gw_u32(&w->infos, type);
	gw_u64(&w->infos, w->data.n);
	gw_bytes(&w->data, data, size);
	w->n_tensors++;
}

uint8_t *gw_end(struct gguf_write *w, size_t *size)
{
	struct gguf_bytes out = { 0 };

	gw_bytes(&out, "GGUF", 4);
	gw_u32(&out, w->version);
	gw_u64(&out, w->n_tensors);
	gw_u64(&out, w->n_values);
	gw_bytes(&out, w->values.b, w->values.n);
	gw_bytes(&out, w->infos.b, w->infos.n);
	pad(&out, w->alignment);
	gw_bytes(&out, w->data.b, w->data.n);
	free(w->values.b);
	free(w->infos.b);
	free(w->data.b);
	gw_init(w);
	*size = out.n;
	return out.b;
}
