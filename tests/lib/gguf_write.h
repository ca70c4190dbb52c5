/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* Writes GGUF files in memory, whatever is asked for: also wrong ones. Aborts without memory. */
#ifndef GGUF_WRITE_H
#define GGUF_WRITE_H

#include <stddef.h>
#include <stdint.h>

struct gguf_bytes {
	uint8_t *b;
	size_t n, cap;
};

struct gguf_write {
	uint32_t version, alignment;
	uint64_t n_values, n_tensors;
	struct gguf_bytes values, infos, data;
};

void gw_bytes(struct gguf_bytes *to, const void *p, size_t n);
void gw_u32(struct gguf_bytes *to, uint32_t v);
void gw_u64(struct gguf_bytes *to, uint64_t v);
void gw_text(struct gguf_bytes *to, const char *s, size_t n); /* its length, then itself */

void gw_init(struct gguf_write *w); /* version 3, alignment 32, no key that says so */
/* A key and the number of its kind; the value's bytes follow with gw_bytes and its like on
 * w->values. */
void gw_key(struct gguf_write *w, const char *key, uint32_t kind);
void gw_array(struct gguf_write *w, const char *key, uint32_t item,
	      uint64_t count); /* the items follow */
void gw_value_u32(struct gguf_write *w, const char *key, uint32_t v);
void gw_value_f32(struct gguf_write *w, const char *key, float v);
void gw_value_bool(struct gguf_write *w, const char *key, int v);
void gw_value_str(struct gguf_write *w, const char *key, const char *s);
/* The data is padded to the alignment. */
void gw_tensor(struct gguf_write *w, const char *name, uint32_t type, uint32_t n_dims,
	       const uint64_t *dims, const void *data, size_t size);
/* The file, to be freed by the caller; w is empty again. */
uint8_t *gw_end(struct gguf_write *w, size_t *size);

#endif
