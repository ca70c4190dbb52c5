/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
#ifndef MODEL_GGUF_SHARDS_H
#define MODEL_GGUF_SHARDS_H

#include "gguf.h"

/* Files that the model of @g is in; 0: more than we open, or the value is damaged. */
uint64_t gguf_shards(const struct gguf *g);
/* The path of file @i, after @g's own; the caller's. NULL: @g's name is not of that form, or no memory. */
char *gguf_shard_path(const struct gguf *g, uint64_t i);
/* The tensors of g->more, all opened, become g's. */
int gguf_shards_join(struct gguf *g, struct model_error *e);

#endif
