/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * The host memory of an embedded arena: one reserved mapping, in which single extents are backed
 * and dropped. Different extents by different threads at once; one extent only by whom the core
 * gave it to.
 */
#ifndef POOL_MEMORY_H
#define POOL_MEMORY_H

#include <stddef.h>
#include <stdint.h>

struct pool_memory {
	void *map; /* what munmap wants */
	size_t map_size;
	uint8_t *base; /* extent 0; aligned to an extent, so that huge frames fit */
	uint32_t extents;
	uint8_t *open; /* [extents]: may be touched; stays so once it was */
};

int pool_memory_open(struct pool_memory *m, uint32_t extents); /* -ENOMEM */
void pool_memory_close(struct pool_memory *m);
/* -ENOMEM: the system refuses more. The extent then stays as it was. */
int pool_memory_back(struct pool_memory *m, uint32_t extent);
/* Give the extent's memory back to the system. It reads as zeros when it is backed again. */
void pool_memory_drop(struct pool_memory *m, uint32_t extent);

#endif
