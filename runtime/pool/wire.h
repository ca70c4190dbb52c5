/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * How the commands of kmod/uapi/kvslab.h reach who carries them out: the module behind a node
 * (chardev.c), or in tests a pool of the process that answers as the module would. One wire is one
 * client.
 */
#ifndef POOL_WIRE_H
#define POOL_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pool_wire;

struct pool_wire_ops {
	/* The command's result, or a negative errno. @args: its structure, of @size bytes. */
	int (*command)(struct pool_wire *wire, unsigned int cmd, void *args, uint32_t size);
	/* Offsets are those of mmap() on a node. */
	int (*map)(struct pool_wire *wire, uint64_t offset, size_t size, bool write, void **at);
	void (*unmap)(struct pool_wire *wire, void *at, size_t size);
	/* To poll, and to send io_uring commands to. */
	int (*fd)(struct pool_wire *wire);
	/* Another client of the same node. */
	int (*again)(struct pool_wire *wire, struct pool_wire **other);
	void (*close)(struct pool_wire *wire);
};

struct pool_wire {
	const struct pool_wire_ops *ops;
	bool rings; /* takes io_uring commands at fd() */
};

/* A node, opened for reading and writing. What open(2) says. */
int wire_open_node(struct pool_wire **wire, const char *path);

#endif
