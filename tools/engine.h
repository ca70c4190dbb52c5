/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * A model opened for use: file, tokenizer, weights, executor, pool and the sequences' common part, from options
 * that `run` and `eval` share. Every failure is told on stderr by the call that met it; they return -1 then.
 */
#ifndef TOOLS_ENGINE_H
#define TOOLS_ENGINE_H

#include <argp.h>

#include "kvslab.h"
#include "runtime/model/chat.h"
#include "runtime/model/model.h"
#include "runtime/model/tokenizer.h"

#define DEF_MAX_BATCH 32
#define DEF_STEP_TOKENS 512
#define MAX_THREADS 1024
#define MAX_PAGE_TOKENS 65536

struct engine_opts {
	const char *model;
	uint32_t threads; /* 0: the cores that we may run on */
	enum kvslab_kv_type kv_type;
	uint32_t page_tokens; /* 0: chosen by the geometry */
	const char *kernels;
	bool mlock; /* the weights */
	uint64_t pool; /* bytes; 0: chosen */
	const char *node; /* of a pool in the kernel; NULL: embedded */
	uint32_t max_batch, step_tokens;
	uint32_t least_tokens; /* a chosen pool holds a sequence of this many, however large */
};

/* -m, --threads, --kv-type, --page-tokens, --kernels, --mlock, with struct engine_opts as its input; sets the defaults. */
extern const struct argp engine_argp;
/* -m alone, for commands that need the tokenizer and nothing else. */
extern const struct argp file_argp;

/* The argument of --pool: embedded:SIZE, or a node's path. Anything else ends the command. */
void engine_pool_arg(struct engine_opts *o, const char *arg);

struct engine {
	struct gguf file;
	struct tokenizer *tok;
	struct model *model;
	struct kvslab_geometry geometry;
	struct kvslab_executor *executor;
	struct kvslab_pool *pool;
	struct kvslab_kv *kv;
	uint64_t pool_bytes;
	bool pool_said; /* what was wrong with the pool */
	bool has_file;
};

/* The file and its tokenizer. @e zeroed by the caller; engine_close after any outcome. */
int engine_open_file(struct engine *e, const char *model);
/* All the rest; the file is closed. */
int engine_open_rest(struct engine *e, const struct engine_opts *o);
void engine_close(struct engine *e);

/* What @sequences of @tokens need, in bytes of whole extents. */
uint64_t engine_pool_need(const struct kvslab_geometry *g, uint64_t sequences, uint64_t tokens);
/* Tokens of one sequence that the whole pool can hold. */
uint64_t engine_pool_tokens(const struct engine *e);

/* Bytes of memory that this process may use: the machine's, or less where a control group says so. */
uint64_t memory_limit(void);

#endif
