/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* The first inputs of a fuzzer, and what it found, through its checks: these abort. */
#ifndef TEST_REPLAY_H
#define TEST_REPLAY_H

#include <stddef.h>
#include <stdint.h>

typedef int (*fuzz_input)(const uint8_t *data, size_t size);

/* Each input of @folder as it is, cut short at @cuts places at most, and with a byte changed @changes times. Returns how many inputs
 * there are. */
int replay(const char *folder, fuzz_input input, size_t cuts, size_t changes, uint64_t *seed);

#endif
