/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* Weights into memory: the file is read once, in its order, by several threads that repack and hash it. */
#ifndef MODEL_LOAD_H
#define MODEL_LOAD_H

#include "model.h"

/* A matrix to repack: its w->data is set here. */
struct load_weight {
	struct kern_weight *w;
	const struct gguf_tensor *t;
	const uint32_t *map; /* as kern_repack's */
	size_t offset; /* in the mapping, a multiple of KERN_ALIGN */
};

struct load_map {
	void *base; /* NULL: none */
	size_t size;
};

/* Maps @bytes for all of them, fills it, and computes the file's digest. What was read is given back to the system as it
 * goes. On failure nothing is mapped. */
int load_weights(const struct gguf *g, const struct load_weight *list, uint32_t n, size_t bytes, struct load_map *map,
		 uint8_t digest[32], const struct model_opts *opts, struct model_error *e);
void load_unmap(struct load_map *map);

#endif
