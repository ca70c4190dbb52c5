// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The userspace side of port.h; empty in the kernel. */
#include "port.h"

#ifndef __KERNEL__

/* Spins a little, then lets others run: the holder may have lost its core. */
void kvc_lock_wait(kvc_lock *l)
{
	u32 spins = 0;

	do {
		while (__atomic_load_n(&l->taken, __ATOMIC_RELAXED)) {
			if (++spins & 127) {
#if defined(__x86_64__) || defined(__i386__)
				__builtin_ia32_pause();
#endif
			} else {
				sched_yield();
			}
		}
	} while (__atomic_exchange_n(&l->taken, 1, __ATOMIC_ACQUIRE));
}

static inline u64 rotl(u64 v, int bits)
{
	return v << bits | v >> (64 - bits);
}

static inline void sipround(u64 v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotl(v[1], 13) ^ v[0];
	v[3] = rotl(v[3], 16) ^ v[2];
	v[0] = rotl(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = rotl(v[1], 17) ^ v[2];
	v[3] = rotl(v[3], 21) ^ v[0];
	v[2] = rotl(v[2], 32);
}

u64 kvc_siphash(const void *data, size_t size, const u64 key[2])
{
	u64 v[4] = { key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du,
		     key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u };
	u64 m, last = (u64)size << 56;
	size_t i;
	int k;

	for (i = 0; i + 8 <= size; i += 8) {
		memcpy(&m, (const u8 *)data + i,
		       8); /* the kernel's hash reads little-endian; so do we run */
		v[3] ^= m;
		sipround(v);
		sipround(v);
		v[0] ^= m;
	}
	v[3] ^= last;
	sipround(v);
	sipround(v);
	v[0] ^= last;
	v[2] ^= 0xff;
	for (k = 0; k < 4; k++)
		sipround(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

#endif
