// SPDX-License-Identifier: GPL-2.0
/*
 * Events: ROOM goes to who has waited longest, one at a time; PRESSURE and RELIEF at the watermarks,
 * in the counters too; DEAD. Through poll() and through io_uring's multishot poll.
 */
#include <liburing.h>
#include <poll.h>

#include "ks.h"

#define SIZE (256u << 10)
#define PER_SLAB (EXTENT / SIZE)
#define SLABS 10u

static bool has(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 200) == 1 && p.revents & POLLIN;
}

static bool hasnt(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 50) == 0;
}

static int waits(void *arg)
{
	int fd = *(int *)arg;
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 10000) == 1 && p.revents & POLLIN ? 0 : 1;
}

static void room(void)
{
	u64 pages[SLABS * PER_SLAB], one[4];
	struct ks_client k[4];
	pid_t pid;
	int i;

	for (i = 0; i < 4; i++)
		must(!ks_client(&k[i], "events", SIZE), "a client");
	must(ks_alloc(k[0].fd, k[0].c.id, pages, COUNT(pages), 0) == COUNT(pages), "all pages");
	for (i = 0; i < 4; i++)
		ks_events(k[i].fd);
	for (i = 1; i < 4; i++)
		must(ks_alloc(k[i].fd, k[i].c.id, one, 1, 0) == -EDQUOT, "nothing for others");
	ok(hasnt(k[1].fd) && hasnt(k[2].fd) && hasnt(k[3].fd), "three wait, and have no event");
	/* Somebody who sleeps in poll() is woken. */
	pid = ks_child(waits, &k[1].fd);
	usleep(100000);
	ok(ks_free(k[0].fd, pages, 2) >= 0, "two pages are freed");
	ok(ks_wait(pid) == 0 && has(k[1].fd), "the first waiter is woken");
	ok(hasnt(k[2].fd) && hasnt(k[3].fd), "the others are not");
	ok(ks_events(k[1].fd) == KVSLAB_EVENT_ROOM && hasnt(k[1].fd), "EVENTS says ROOM, and forgets it");
	ok(ks_alloc(k[1].fd, k[1].c.id, one, 1, 0) == 1 && has(k[2].fd), "when it has allocated, the next one is told");
	ok(hasnt(k[3].fd), "but not the one after it");
	ks_close(&k[2]);
	ok(has(k[3].fd), "who closes passes it on");
	ok(ks_alloc(k[3].fd, k[3].c.id, one + 1, 1, 0) == 1, "and that one finds a page");
	ks_close(&k[0]);
	ks_close(&k[1]);
	ks_close(&k[3]);
}

static void marks(void)
{
	volatile struct kvslab_counters *c;
	u64 pages[SLABS * PER_SLAB];
	struct io_uring_cqe *cqe;
	struct ks_client k, other;
	struct io_uring ring;
	struct io_uring_sqe *sqe;
	u64 rises;

	must(!ks_client(&k, "events", SIZE) && !ks_client(&other, "events", SIZE), "two clients");
	c = mmap(NULL, FRAME, PROT_READ, MAP_SHARED, other.fd, KVSLAB_MAP_COUNTERS);
	must(c != MAP_FAILED, "the counters");
	ok(c->low == 4 && c->high == 8, "watermarks of 400 and 800 in 1,000: %llu, %llu", (unsigned long long)c->low,
	   (unsigned long long)c->high);
	must(!io_uring_queue_init(8, &ring, 0) && (sqe = io_uring_get_sqe(&ring)), "a ring");
	io_uring_prep_poll_multishot(sqe, other.fd, POLLIN);
	io_uring_submit(&ring);
	ks_events(k.fd);
	ks_events(other.fd);
	rises = c->rises;
	ok(ks_alloc(k.fd, k.c.id, pages, 8 * PER_SLAB, 0) > 0 && hasnt(other.fd) && !c->pressure,
	   "at the high watermark nothing happens");
	ok(ks_alloc(k.fd, k.c.id, pages + 8 * PER_SLAB, 1, 0) == 1 && has(other.fd) && has(k.fd) && c->pressure == 1 &&
		   c->rises == rises + 1,
	   "above it there is an event for every client");
	ok(ks_events(other.fd) == KVSLAB_EVENT_PRESSURE && ks_events(k.fd) == KVSLAB_EVENT_PRESSURE, "PRESSURE");
	ok(io_uring_wait_cqe(&ring, &cqe) == 0 && cqe->res & POLLIN, "multishot poll saw it");
	io_uring_cqe_seen(&ring, cqe);
	ok(ks_free(k.fd, pages + 7 * PER_SLAB, PER_SLAB + 1) >= 0 && hasnt(other.fd) && c->pressure == 1,
	   "below it again: nothing yet");
	ok(ks_free(k.fd, pages, 7 * PER_SLAB) >= 0, "all is freed");
	/* Empty slabs that a client keeps count as held; at most two of them here. */
	ok(has(other.fd) && ks_events(other.fd) == KVSLAB_EVENT_RELIEF && c->pressure == 0, "RELIEF at the low one");
	ok(io_uring_wait_cqe(&ring, &cqe) == 0 && cqe->res & POLLIN, "multishot poll saw that too");
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
	munmap((void *)c, FRAME);
	ks_close(&k);
	ks_close(&other);
}

static void death(void)
{
	struct pollfd p = { .events = POLLIN };
	struct ks_client k;
	pid_t pid;

	must(!ks_client(&k, "events", SIZE), "a client");
	pid = ks_child(waits, &k.fd);
	usleep(100000);
	ok(!ks_destroy("events", KVSLAB_DESTROY_FORCE), "the pool is destroyed by force");
	ok(ks_wait(pid) == 0, "who sleeps in poll() wakes");
	p.fd = k.fd;
	ok(poll(&p, 1, 1000) == 1 && p.revents & POLLHUP && p.revents & POLLIN, "POLLIN and POLLHUP");
	ks_close(&k);
}

int main(void)
{
	struct kvslab_args_create a = { .max = SLABS * EXTENT, .mode = 0600, .node = -1, .name = "events", .low = 400, .high = 800 };

	must(!ks_cmd(ks_control(), KVSLAB_CTL_CREATE, &a, sizeof(a)), "a pool of 10 extents");
	room();
	marks();
	death();
	return done();
}
