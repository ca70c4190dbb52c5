/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* How the architectures that we run differ. Shared by arch.c, which reads a file's numbers, and model.c, its tensors. */
#ifndef MODEL_ARCH_H
#define MODEL_ARCH_H

#include "model.h"

struct arch {
	const char *name; /* in the file, and before its keys */
	bool neox; /* rotates pairs (i, i + rope_dim / 2), not (2i, 2i + 1) */
	bool qk_norm; /* RMSNorm of each head's query and key */
	bool post_norm; /* RMSNorm of what attention and feed-forward give */
	bool gelu; /* in place of SiLU */
	bool scale_embed; /* by sqrt(dim) */
	uint32_t pattern; /* each pattern-th layer sees all keys, the others a window; 0: all layers alike */
	double local_base; /* of the rotation where a window is seen; 0: as elsewhere */
};

/* Fills what model.h marks as read from the file's values. -EINVAL, -EOPNOTSUPP. */
int arch_read(struct model *m, const struct gguf *g, const struct arch **arch, struct model_error *e);

#endif
