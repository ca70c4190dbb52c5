/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * For the tests alone; not installed, not exported by the shared library. In the kernel a device or
 * an I/O may hold frames of a page; an embedded pool has no such thing, so tests say which pages
 * are pinned.
 */
#ifndef POOL_TEST_H
#define POOL_TEST_H

#include <stdbool.h>

#include "kvslab.h"

/* From now on the page at this place of the arena counts as pinned (or no longer), whatever its
 * generation. */
int kvslab_test_pin(struct kvslab_pool *pool, kvslab_handle page, bool pinned);

#endif
