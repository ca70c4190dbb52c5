/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * A stand-in for a node of the kernel module: takes the commands of kmod/uapi/kvslab.h, is as strict about them as
 * that says, and carries them out on an embedded pool. So the library's code for nodes is tested and fuzzed anywhere.
 */
#ifndef WIRE_MOCK_H
#define WIRE_MOCK_H

#include "kvslab.h"
#include "runtime/pool/wire.h"

/* A wire to a new embedded pool, what kvslab_pool_open makes of @spec and @opts. */
int wire_mock_open(struct pool_wire **wire, const char *spec, const struct kvslab_pool_opts *opts);
/* The embedded client behind a wire. */
struct kvslab_pool *wire_mock_inner(struct pool_wire *wire);
/* The next @n commands end with @err before anything is done. */
void wire_mock_fail(struct pool_wire *wire, int err, unsigned int n);
/* Before each command; what it returns, if not 0, is the command's result, and nothing is done. NULL: no more. */
void wire_mock_hook(struct pool_wire *wire, int (*hook)(unsigned int cmd, const void *args, void *data), void *data);
/* From now on as if the pool had been destroyed by force. */
void wire_mock_kill(struct pool_wire *wire);
/* Commands so far. */
uint64_t wire_mock_commands(const struct pool_wire *wire);

#endif
