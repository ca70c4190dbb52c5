// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* A node of the kernel module. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kmod/uapi/kvslab.h"
#include "wire.h"

struct node {
	struct pool_wire wire;
	int fd;
	char path[]; /* as it was given */
};

static const struct pool_wire_ops node_ops;

static struct node *node_of(struct pool_wire *wire)
{
	return (struct node *)wire;
}

static int node_command(struct pool_wire *wire, unsigned int cmd, void *args, uint32_t size)
{
	struct kvslab_cmd c = { .args = (uintptr_t)args, .size = size };
	int rc;

	do
		rc = ioctl(node_of(wire)->fd, cmd, &c);
	while (rc < 0 && errno == EINTR);
	return rc < 0 ? -errno : rc;
}

static int node_map(struct pool_wire *wire, uint64_t offset, size_t size, bool write, void **at)
{
	int prot = PROT_READ | (write ? PROT_WRITE : 0);

	if ((off_t)offset < 0 || (uint64_t)(off_t)offset != offset)
		return -EOVERFLOW;
	*at = mmap(NULL, size, prot, MAP_SHARED | MAP_NORESERVE, node_of(wire)->fd, (off_t)offset);
	return *at == MAP_FAILED ? -errno : 0;
}

static void node_unmap(struct pool_wire *wire, void *at, size_t size)
{
	(void)wire;
	munmap(at, size);
}

static int node_fd(struct pool_wire *wire)
{
	return node_of(wire)->fd;
}

static int node_open(struct pool_wire **wire, const char *open_path, const char *path)
{
	struct node *node = malloc(sizeof(*node) + strlen(path) + 1);
	int err;

	if (!node)
		return -ENOMEM;
	node->fd = open(open_path, O_RDWR | O_CLOEXEC);
	if (node->fd < 0) {
		err = -errno;
		free(node);
		return err;
	}
	node->wire.ops = &node_ops;
	node->wire.rings = true;
	strcpy(node->path, path);
	*wire = &node->wire;
	return 0;
}

/* By the descriptor first: the working folder may be another by now, or the node have moved. */
static int node_again(struct pool_wire *wire, struct pool_wire **other)
{
	struct node *node = node_of(wire);
	char self[40];
	int rc;

	snprintf(self, sizeof(self), "/proc/self/fd/%d", node->fd);
	rc = node_open(other, self, node->path);
	return rc == -ENOENT ? node_open(other, node->path, node->path) : rc;
}

static void node_close(struct pool_wire *wire)
{
	close(node_of(wire)->fd);
	free(wire);
}

static const struct pool_wire_ops node_ops = {
	node_command, node_map, node_unmap, node_fd, node_again, node_close,
};

int wire_open_node(struct pool_wire **wire, const char *path)
{
	return node_open(wire, path, path);
}
