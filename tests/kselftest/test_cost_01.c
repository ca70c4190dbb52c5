// SPDX-License-Identifier: GPL-2.0
/*
 * What commands cost, in instructions: for a guest in which time is their count (-icount), so that
 * ratios are the same from run to run. Beside them a no-op ioctl and IORING_OP_NOP.
 */
#include <liburing.h>

#include "ks.h"

#define SIZE (64u << 10)
#define TIMES 9

static struct ks_client k;
static struct io_uring ring;
static u64 pages[64];

static inline u64 ticks(void)
{
	u32 lo, hi;

	__asm__ volatile("lfence; rdtsc" : "=a"(lo), "=d"(hi));
	return (u64)hi << 32 | lo;
}

static void nop_ioctl(u32 n)
{
	struct kvslab_cmd cmd = { 0 };

	(void)n;
	ioctl(k.fd, KVSLAB_CMD_NOP, &cmd);
}

static void ring_one(u8 opcode, u32 op, void *args, u32 size)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
	struct kvslab_cmd cmd = { .args = (uintptr_t)args, .size = size };
	struct io_uring_cqe *cqe;

	if (!sqe)
		exit(3);
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = opcode;
	sqe->fd = opcode == IORING_OP_NOP ? -1 : k.fd;
	sqe->off = op;
	if (opcode != IORING_OP_NOP)
		memcpy((u8 *)sqe + 48, &cmd, sizeof(cmd));
	io_uring_submit_and_wait(&ring, 1);
	if (io_uring_wait_cqe(&ring, &cqe) || cqe->res < 0)
		exit(4);
	io_uring_cqe_seen(&ring, cqe);
}

static void nop_ring(u32 n)
{
	(void)n;
	ring_one(IORING_OP_NOP, 0, NULL, 0);
}

static void nop_ring_cmd(u32 n)
{
	(void)n;
	ring_one(IORING_OP_URING_CMD, KVSLAB_CMD_NOP, NULL, 0);
}

static struct kvslab_args_alloc alloc = { .pages = (uintptr_t)pages };
static struct kvslab_args_pages freed = { .pages = (uintptr_t)pages };

static void pair_ioctl(u32 n)
{
	struct kvslab_cmd a = { .args = (uintptr_t)&alloc, .size = sizeof(alloc) };
	struct kvslab_cmd f = { .args = (uintptr_t)&freed, .size = sizeof(freed) };

	alloc.count = freed.count = n;
	if (ioctl(k.fd, KVSLAB_CMD_ALLOC, &a) != (int)n || ioctl(k.fd, KVSLAB_CMD_FREE, &f) < 0)
		exit(5);
}

static void pair_ring(u32 n)
{
	alloc.count = freed.count = n;
	ring_one(IORING_OP_URING_CMD, KVSLAB_CMD_ALLOC, &alloc, sizeof(alloc));
	ring_one(IORING_OP_URING_CMD, KVSLAB_CMD_FREE, &freed, sizeof(freed));
}

/* The least of a few runs: the others had a timer's interrupt in them. */
static u64 cost(void (*f)(u32), u32 n)
{
	u64 least = ~0ull, t;
	int i;

	for (i = 0; i < 3; i++)
		f(n);
	for (i = 0; i < TIMES * 8; i++) {
		t = ticks();
		f(n);
		t = ticks() - t;
		least = t < least ? t : least;
	}
	return least;
}

static u64 cost_seal(u32 n, u64 *seed)
{
	static struct kvslab_seal_entry s[64];
	u64 least = ~0ull, t;
	u32 j;
	int i;

	for (i = 0; i < TIMES; i++) {
		if (ks_alloc(k.fd, k.c.id, pages, n, 0) != (long)n)
			exit(6);
		memset(s, 0, sizeof(s));
		for (j = 0; j < n; j++) {
			s[j].page = pages[j];
			s[j].flags = KVSLAB_SEAL_FIRST;
			ks_hash(s[j].hash, rnd(seed), j);
			ks_write(ks_at(&k, k.w, pages[j]), 1);
		}
		t = ticks();
		if (ks_seal(k.fd, s, n) < 0)
			exit(7);
		t = ticks() - t;
		least = t < least ? t : least;
		if (ks_free(k.fd, pages, n) < 0)
			exit(8);
	}
	return least;
}

static u64 cost_fault(void)
{
	u64 least = ~0ull, t, page;
	int i;

	if (ks_alloc(k.fd, k.c.id, &page, 1, 0) != 1)
		exit(9);
	for (i = 0; i < TIMES; i++) {
		volatile u8 *w = ks_at(&k, k.w, page);

		madvise((void *)w, SIZE, MADV_DONTNEED);
		t = ticks();
		*w = 1;
		t = ticks() - t;
		least = t < least ? t : least;
	}
	ks_free(k.fd, &page, 1);
	return least;
}

int main(int argc, char **argv)
{
	static const u32 batches[] = { 1, 16, 64 };
	u64 seed = ks_seed(argc, argv), nop, nop_uring, per_page[2][COUNT(batches)];
	u32 i;

	must(!ks_pool("cost", 0, 64 << 20, 0600) && !ks_client(&k, "cost", SIZE), "a pool, a client");
	must(!io_uring_queue_init(64, &ring, 0), "a ring");
	alloc.cache = k.c.id;
	nop = cost(nop_ioctl, 0);
	nop_uring = cost(nop_ring, 0);
	note("no-op ioctl %llu, IORING_OP_NOP %llu, no-op io_uring command %llu", (unsigned long long)nop,
	     (unsigned long long)nop_uring, (unsigned long long)cost(nop_ring_cmd, 0));
	for (i = 0; i < COUNT(batches); i++) {
		per_page[0][i] = cost(pair_ioctl, batches[i]) / batches[i];
		per_page[1][i] = cost(pair_ring, batches[i]) / batches[i];
		note("ALLOC+FREE of %u: %llu a page as ioctl, %llu as io_uring command", batches[i],
		     (unsigned long long)per_page[0][i], (unsigned long long)per_page[1][i]);
	}
	note("a fault for a page of %u frames: %llu", SIZE / FRAME, (unsigned long long)cost_fault());
	note("SEAL of 1: %llu, of 64: %llu a page", (unsigned long long)cost_seal(1, &seed),
	     (unsigned long long)cost_seal(64, &seed) / 64);
	ok(per_page[0][2] * 4 <= nop, "ALLOC+FREE in batches of 64 as ioctl: %llu a page, %llu%% of a no-op ioctl",
	   (unsigned long long)per_page[0][2], (unsigned long long)(per_page[0][2] * 100 / (nop ? nop : 1)));
	ok(per_page[1][2] * 4 <= nop,
	   "as io_uring command: %llu a page, %llu%% of a no-op ioctl, %llu%% of an IORING_OP_NOP",
	   (unsigned long long)per_page[1][2], (unsigned long long)(per_page[1][2] * 100 / (nop ? nop : 1)),
	   (unsigned long long)(per_page[1][2] * 100 / (nop_uring ? nop_uring : 1)));
	ok(ks_adds_up(k.fd), "counts add up");
	io_uring_queue_exit(&ring);
	ks_close(&k);
	return done();
}
