// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "test_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "kmod/uapi/kvslab.h"
#include "runtime/pool/device.h"
#include "runtime/pool/pool.h"
#include "runtime/pool/spec.h"
#include "runtime/pool/test.h"
#include "wire_mock.h"

#define CONTROL "/dev/kvslab/control"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int made; /* pools through CONTROL, by this process */

enum test_pool_kind test_pool_kind(void)
{
	const char *s = getenv("KVSLAB_TEST_POOL");

	if (!s || !*s || !strcmp(s, "embedded"))
		return TEST_POOL_EMBEDDED;
	if (!strcmp(s, "wire"))
		return TEST_POOL_WIRE;
	if (!strcmp(s, "device"))
		return TEST_POOL_DEVICE;
	fprintf(stderr, "KVSLAB_TEST_POOL is \"%s\"; it is embedded, wire or device\n", s);
	exit(1);
}

int test_pool_full(void)
{
	return test_pool_kind() == TEST_POOL_DEVICE ? -EDQUOT : -ENOSPC;
}

static int control(unsigned int cmd, void *args, uint32_t size)
{
	struct kvslab_cmd c = { .args = (uintptr_t)args, .size = size };
	int fd = open(CONTROL, O_RDWR | O_CLOEXEC), rc;

	if (fd < 0)
		return -errno;
	rc = ioctl(fd, cmd, &c) < 0 ? -errno : 0;
	close(fd);
	return rc;
}

static void name_of(char *name, unsigned int i)
{
	snprintf(name, KVSLAB_NAME_SIZE, "test-%d-%u", (int)getpid(), i);
}

static void destroy_all(void)
{
	struct kvslab_args_destroy args = { .flags = KVSLAB_DESTROY_FORCE };
	unsigned int i;

	for (i = 0; i < made; i++) {
		name_of(args.name, i);
		control(KVSLAB_CTL_DESTROY, &args, sizeof(args));
	}
}

/* udev is not there to do it later: the node is there when the command returns, or it never comes. */
static int make(char *path, size_t size, const char *spec, const struct kvslab_pool_opts *o)
{
	struct kvslab_args_create args = { .uid = geteuid(), .gid = getegid(), .mode = 0600, .node = -1 };
	struct pool_spec parsed;
	int rc = pool_spec_parse(&parsed, spec);

	if (rc)
		return rc;
	args.max = parsed.size;
	if (o) {
		args.min = o->min;
		args.low = o->low;
		args.high = o->high;
		if (o->max)
			args.max = o->max;
		if (!args.max && o->arena)
			args.max = (uint64_t)o->arena->extents * KVSLAB_EXTENT_SIZE;
	}
	if (!args.max)
		return -EINVAL;
	pthread_mutex_lock(&lock);
	if (!made)
		atexit(destroy_all);
	name_of(args.name, made++);
	pthread_mutex_unlock(&lock);
	rc = control(KVSLAB_CTL_CREATE, &args, sizeof(args));
	snprintf(path, size, "/dev/kvslab/%s", args.name);
	return rc;
}

int test_pool_open(struct kvslab_pool **pool, const char *spec, const struct kvslab_pool_opts *opts)
{
	struct kvslab_pool_opts log = { .log = opts ? opts->log : NULL,
					.log_data = opts ? opts->log_data : NULL };
	struct pool_wire *wire;
	char path[64];
	int rc;

	switch (test_pool_kind()) {
	case TEST_POOL_WIRE:
		rc = wire_mock_open(&wire, spec, opts);
		return rc ? rc : device_open_wire(pool, wire, &log);
	case TEST_POOL_DEVICE:
		rc = make(path, sizeof(path), spec, opts);
		return rc ? rc : kvslab_pool_open(pool, path, &log);
	default:
		return kvslab_pool_open(pool, spec, opts);
	}
}

int test_pool_pin(struct kvslab_pool *pool, kvslab_handle page, bool pinned)
{
	switch (test_pool_kind()) {
	case TEST_POOL_WIRE:
		return kvslab_test_pin(wire_mock_inner(pool->device->wire), page, pinned);
	case TEST_POOL_DEVICE:
		return -EOPNOTSUPP;
	default:
		return kvslab_test_pin(pool, page, pinned);
	}
}
