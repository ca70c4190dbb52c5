/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * The stand-in of wire_mock.h takes commands on an io_uring, too. They go into a real ring, so that all that concerns the
 * loop is as with the module; there a driver that does nothing stands in for it, and what they ask for is done by the
 * stand-in, several that come together in a random order. For programs that are linked with --wrap (mk/sched.mk).
 */
#ifndef WIRE_RING_H
#define WIRE_RING_H

#include "wire_mock.h"

struct wire_ring {
	struct pool_wire *wire;
	uint64_t seed;
	uint64_t together; /* loop_commands() calls: each is a system call, and a wait */
	uint64_t awaited; /* commands that came with those */
	uint64_t later; /* commands that nobody waited for */
	int null; /* that driver */
};

/* One at a time. From here on until it is closed @wire takes commands on rings. */
void wire_ring_open(struct wire_ring *r, struct pool_wire *wire, uint64_t seed);
void wire_ring_close(struct wire_ring *r);

#endif
