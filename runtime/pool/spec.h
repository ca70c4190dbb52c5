/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* What the string given to kvslab_pool_open names. */
#ifndef POOL_SPEC_H
#define POOL_SPEC_H

#include <stdint.h>

struct pool_spec {
	uint64_t size; /* bytes; 0: none named */
};

/* "embedded", "embedded:SIZE". -EINVAL: neither, or a size that is none, 0 or does not fit 64 bits;
 * -EOPNOTSUPP: the path of a device. */
int pool_spec_parse(struct pool_spec *spec, const char *s);

#endif
