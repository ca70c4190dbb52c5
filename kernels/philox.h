/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* Philox4x32-10 (Salmon et al., SC'11): random numbers that are a function of a key and a counter. */
#ifndef KERNELS_PHILOX_H
#define KERNELS_PHILOX_H

#include <stdint.h>

static inline void philox4x32_10(uint32_t c[4], uint32_t k0, uint32_t k1)
{
	int round;

	for (round = 0; round < 10; round++) {
		uint64_t p0 = (uint64_t)0xd2511f53 * c[0], p1 = (uint64_t)0xcd9e8d57 * c[2];

		c[0] = (uint32_t)(p1 >> 32) ^ c[1] ^ k0;
		c[2] = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
		c[1] = (uint32_t)p1;
		c[3] = (uint32_t)p0;
		k0 += 0x9e3779b9;
		k1 += 0xbb67ae85;
	}
}

#endif
