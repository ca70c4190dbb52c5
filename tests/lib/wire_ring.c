// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "wire_ring.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kmod/uapi/kvslab.h"
#include "runtime/loop/loop.h"
#include "tests/lib/tap.h"

#define FLIGHT 64

int __real_loop_command(struct kvslab_loop *loop, struct loop_command *c, int fd);
int __wrap_loop_command(struct kvslab_loop *loop, struct loop_command *c, int fd);
int __real_loop_commands(struct kvslab_loop *loop, struct loop_command *const *c, uint32_t n, int fd);
int __wrap_loop_commands(struct kvslab_loop *loop, struct loop_command *const *c, uint32_t n, int fd);

static struct wire_ring *ring; /* NULL: commands go where they went */

/* Commands on their way back. */
static struct {
	struct loop_command *c;
	void (*done)(struct loop_command *c, int result);
	int result;
} flight[FLIGHT];

void wire_ring_open(struct wire_ring *r, struct pool_wire *wire, uint64_t seed)
{
	memset(r, 0, sizeof(*r));
	r->wire = wire;
	r->seed = seed;
	r->null = open("/dev/null", O_RDWR | O_CLOEXEC);
	wire->rings = true;
	ring = r;
}

void wire_ring_close(struct wire_ring *r)
{
	close(r->null);
	ring = NULL;
}

static int carry_out(struct loop_command *c)
{
	struct kvslab_cmd p;

	memcpy(&p, c->payload, sizeof(p));
	return ring->wire->ops->command(ring->wire, c->cmd, (void *)(uintptr_t)p.args, p.size);
}

static void come_back(struct loop_command *c, int result)
{
	int i;

	for (i = 0; i < FLIGHT && flight[i].c != c; i++)
		;
	if (i == FLIGHT)
		abort();
	result = flight[i].result;
	flight[i].c = NULL;
	c->done = flight[i].done;
	c->done(c, result);
}

int __wrap_loop_command(struct kvslab_loop *loop, struct loop_command *c, int fd)
{
	int i, rc;

	if (!ring || fd != ring->wire->ops->fd(ring->wire))
		return __real_loop_command(loop, c, fd);
	for (i = 0; i < FLIGHT && flight[i].c; i++)
		;
	if (i == FLIGHT)
		abort();
	flight[i].done = c->done;
	c->done = come_back;
	rc = __real_loop_command(loop, c, ring->null);
	if (rc) {
		c->done = flight[i].done;
		return rc;
	}
	flight[i].c = c;
	flight[i].result = carry_out(c);
	ring->later++;
	return 0;
}

int __wrap_loop_commands(struct kvslab_loop *loop, struct loop_command *const *c, uint32_t n, int fd)
{
	uint32_t order[FLIGHT], i, k, t;
	int result[FLIGHT], rc;

	if (!ring || fd != ring->wire->ops->fd(ring->wire))
		return __real_loop_commands(loop, c, n, fd);
	if (n > FLIGHT)
		abort();
	rc = __real_loop_commands(loop, c, n, ring->null);
	if (rc)
		return rc;
	for (i = 0; i < n; i++)
		order[i] = i;
	for (i = n; i > 1; i--) {
		k = (uint32_t)(rnd(&ring->seed) % i);
		t = order[k];
		order[k] = order[i - 1];
		order[i - 1] = t;
	}
	for (i = 0; i < n; i++)
		result[order[i]] = carry_out(c[order[i]]);
	for (i = 0; i < n; i++)
		c[i]->result = result[i];
	ring->together++;
	ring->awaited += n;
	return 0;
}
