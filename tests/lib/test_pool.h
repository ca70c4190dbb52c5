/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * The pools of tests. KVSLAB_TEST_POOL says of which kind they are, so that each test runs on all of them:
 *
 *   embedded  in the process (if nothing is said)
 *   wire      the library's code for nodes, in front of an embedded pool (wire_mock.h)
 *   device    made for the test through /dev/kvslab/control, opened as /dev/kvslab/NAME, destroyed at the end
 */
#ifndef TEST_POOL_H
#define TEST_POOL_H

#include <stdbool.h>

#include "kvslab.h"

enum test_pool_kind { TEST_POOL_EMBEDDED, TEST_POOL_WIRE, TEST_POOL_DEVICE };

enum test_pool_kind test_pool_kind(void);
/*
 * As kvslab_pool_open. On the module there is one arena for all: @opts->arena only says that the pools of a test are to
 * meet there. min, max, low and high become those of the pool that is made.
 */
int test_pool_open(struct kvslab_pool **pool, const char *spec, const struct kvslab_pool_opts *opts);
/* What an alloc says when a pool made without a limit of its own is full: there its size is its limit on the module. */
int test_pool_full(void);
/* kvslab_test_pin; -EOPNOTSUPP on the module, where only a device or an I/O pins. */
int test_pool_pin(struct kvslab_pool *pool, kvslab_handle page, bool pinned);

#endif
