/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * GGUF files, v2 and v3, little-endian: mapped read-only, every count, offset and size checked before use.
 * Strings and arrays point into the mapping and live as long as the file is open; strings are not terminated.
 * Errors are negative errnos with a sentence in struct model_error that names the thing, the limit, what to do.
 */
#ifndef MODEL_GGUF_H
#define MODEL_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct model_error {
	char text[512];
};

/* Writes the sentence and returns err. Control characters and broken UTF-8 (of names in a file) become '?'. */
__attribute__((format(printf, 3, 4))) int model_fail(struct model_error *e, int err, const char *fmt, ...);

enum gguf_kind {
	GGUF_U8,
	GGUF_I8,
	GGUF_U16,
	GGUF_I16,
	GGUF_U32,
	GGUF_I32,
	GGUF_F32,
	GGUF_BOOL,
	GGUF_STRING,
	GGUF_ARRAY,
	GGUF_U64,
	GGUF_I64,
	GGUF_F64,
};

struct gguf_str {
	const char *s;
	uint64_t n;
};

struct gguf_value {
	struct gguf_str key;
	enum gguf_kind kind;
	enum gguf_kind item; /* of an array */
	uint64_t count; /* of an array, else 1 */
	const uint8_t *data; /* unaligned; of an array of strings: its first string */
};

struct gguf_tensor {
	struct gguf_str name;
	uint32_t type; /* GGUF's number; may be one that we do not know, then size is 0 */
	uint32_t n_dims;
	uint64_t dims[4]; /* dims[0] is the row length; missing ones are 1 */
	const void *data;
	uint64_t size; /* bytes */
};

struct gguf {
	char *path; /* as given to gguf_open or gguf_parse, for messages; owned */
	const uint8_t *map;
	size_t size;
	bool mapped; /* map is ours to unmap */
	uint32_t version;
	uint64_t n_values, n_tensors;
	struct gguf_value *values;
	struct gguf_tensor *tensors;
	/* sorted views for look-up; owned */
	uint32_t *value_order, *tensor_order;
	/* The further files of a model in several, whose tensors stand in @tensors too; owned. */
	struct gguf *more;
	uint32_t n_more;
};

/*
 * What gguf_open promises about a file that it accepts: keys and tensor names are there, short and unique; arrays hold
 * no arrays; every string, array and tensor of a known type lies inside the file; tensors do not overlap, are aligned,
 * have 1..4 dimensions, none of them 0, and a whole number of blocks in a row. Text is any bytes: UTF-8 is not checked.
 * The file must not shrink while it is open (the system then sends SIGBUS).
 * -EBADMSG: damaged, or no GGUF file; -EOPNOTSUPP: a GGUF that we do not read; -ENOMEM; what open(2) says. After an
 * error @g is empty and need not be closed.
 * A model in several files (NAME-00001-of-0000N.gguf) is opened by the name of any of them; @path is then the first's.
 */
int gguf_open(struct gguf *g, const char *path, struct model_error *e);
/* The same on memory at a multiple of 8, for tests and fuzzing; @data stays the caller's. */
int gguf_parse(struct gguf *g, const void *data, size_t size, const char *name, struct model_error *e);
void gguf_close(struct gguf *g);

const struct gguf_value *gguf_find(const struct gguf *g, const char *key);
const struct gguf_tensor *gguf_tensor(const struct gguf *g, const char *name);
/* Typed reads; any integer kind that holds the value does, for
 * gguf_f64 any number. false: absent or another kind. */
bool gguf_u64(const struct gguf *g, const char *key, uint64_t *v);
bool gguf_f64(const struct gguf *g, const char *key, double *v);
bool gguf_bool(const struct gguf *g, const char *key, bool *v);
bool gguf_string(const struct gguf *g, const char *key, struct gguf_str *v);
/* Array of strings: *cursor starts as value->data; call value->count times. Already checked at open. */
struct gguf_str gguf_next_string(const uint8_t **cursor);
/* Done with these bytes of a mapped file: their frames need not stay resident. They may still be read. */
void gguf_drop(const struct gguf *g, const void *data, size_t size);
/* What kvslab_kv_opts.model_digest wants: keyed BLAKE2b-256 of the keyed BLAKE2b-256 of the files' leaves, which are 8
 * MiB each, the last of a file the rest. */
void gguf_digest(const struct gguf *g, uint8_t digest[32]);
/* The same in parts, for threads: leaves, the bytes of one, its hash; the digest from all of them. */
uint64_t gguf_leaves(const struct gguf *g);
const uint8_t *gguf_leaf(const struct gguf *g, uint64_t i, size_t *size);
void gguf_digest_leaf(const struct gguf *g, uint64_t i, uint8_t hash[32]);
void gguf_digest_root(const uint8_t (*leaves)[32], uint64_t n, uint8_t digest[32]);

/* Items of an array of numbers, and the single value of any other kind (i = 0). false: i out of range, not a number,
 * or not representable. */
bool gguf_item_u64(const struct gguf_value *v, uint64_t i, uint64_t *n);
bool gguf_item_i64(const struct gguf_value *v, uint64_t i, int64_t *n);
bool gguf_item_f64(const struct gguf_value *v, uint64_t i, double *x);

/* Tensor types by GGUF's number. NULL: not known. @block is 0 for types that the format has dropped. */
struct gguf_type {
	const char *name;
	uint32_t block; /* values in a block */
	uint32_t bytes; /* of a block */
};

const struct gguf_type *gguf_type(uint32_t type);
const char *gguf_type_name(uint32_t type); /* "unknown" if so */
const char *gguf_kind_name(enum gguf_kind kind);

#endif
