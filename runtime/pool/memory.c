// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kvslab.h"

int pool_memory_open(struct pool_memory *m, uint32_t extents)
{
	uintptr_t at;

	memset(m, 0, sizeof(*m));
	m->open = calloc(extents, 1);
	if (!m->open)
		return -ENOMEM;
	m->map_size = ((size_t)extents + 1) * KVSLAB_EXTENT_SIZE;
	/* No access: where the system accounts what may be written, only backed extents count. */
	m->map = mmap(NULL, m->map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		      0);
	if (m->map == MAP_FAILED) {
		free(m->open);
		m->map = NULL;
		return -ENOMEM;
	}
	at = ((uintptr_t)m->map + KVSLAB_EXTENT_SIZE - 1) & ~(uintptr_t)(KVSLAB_EXTENT_SIZE - 1);
	m->base = (uint8_t *)m->map + (at - (uintptr_t)m->map);
	m->extents = extents;
	/* A wish: without huge frames everything works, with more faults and more TLB misses. */
	madvise(m->base, (size_t)extents * KVSLAB_EXTENT_SIZE, MADV_HUGEPAGE);
	return 0;
}

void pool_memory_close(struct pool_memory *m)
{
	if (m->map)
		munmap(m->map, m->map_size);
	free(m->open);
	memset(m, 0, sizeof(*m));
}

int pool_memory_back(struct pool_memory *m, uint32_t extent)
{
	if (m->open[extent])
		return 0;
	if (mprotect(m->base + (size_t)extent * KVSLAB_EXTENT_SIZE, KVSLAB_EXTENT_SIZE,
		     PROT_READ | PROT_WRITE))
		return -ENOMEM;
	m->open[extent] = 1;
	return 0;
}

void pool_memory_drop(struct pool_memory *m, uint32_t extent)
{
	void *at = m->base + (size_t)extent * KVSLAB_EXTENT_SIZE;

	/* Locked memory (mlockall) cannot be dropped; then at least nobody may read what was in it.
	 */
	if (m->open[extent] && madvise(at, KVSLAB_EXTENT_SIZE, MADV_DONTNEED))
		memset(at, 0, KVSLAB_EXTENT_SIZE);
}
