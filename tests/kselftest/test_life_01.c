// SPDX-License-Identifier: GPL-2.0
/*
 * Clients are killed at random moments, under load: no private page is left, counts add up, what
 * was sealed still serves. With plain commands; with io_uring commands in flight; with SQPOLL; in
 * the middle of a store through the window. 10,000 kills in the long run.
 */
#include <liburing.h>
#include <sched.h>

#include "ks.h"

#define KEPT 16 /* pages that a client that lives on has sealed */
#define SIZE (64u << 10)
#define AT_ONCE 4

static const char *const kinds[] = { "ioctl", "io_uring", "SQPOLL", "a store" };
static u64 tag, mark;

/* Random commands, for ever. */
static int work(int fd, struct ks_client *k, u64 seed)
{
	u64 pages[64], sealed[64];
	u32 n = 0, ns = 0;

	for (;;) {
		u32 want = 1 + rnd(&seed) % 16;
		u8 h[KEPT][HASH];
		u64 found[KEPT];
		long r;
		int i;

		switch (rnd(&seed) % 5) {
		case 0:
		case 1:
			if (n + want > 64)
				break;
			r = ks_alloc(fd, k->c.id, pages + n, want, KVSLAB_ALLOC_PARTIAL);
			n += r > 0 ? r : 0;
			break;
		case 2:
			if (!n)
				break;
			want = want < n ? want : n;
			n -= want;
			if (ks_free(fd, pages + n, want) < 0)
				return 1;
			break;
		case 3:
			if (!n || ns == 64)
				break;
			n--;
			sealed[ns] = pages[n];
			*(u64 *)ks_at(k, k->w, pages[n]) = rnd(&seed);
			if (ks_seal_one(fd, &sealed[ns], rnd(&seed), rnd(&seed)) >= 0)
				ns++;
			else
				n++;
			break;
		case 4:
			for (i = 0; i < KEPT; i++)
				ks_hash(h[i], tag, i);
			r = ks_lookup(fd, k->c.id, h, found, 1 + rnd(&seed) % KEPT);
			for (i = 0; i < r; i++)
				if (*(u64 *)ks_at(k, k->r, found[i]) != mark + i)
					return 2;
			if (rnd(&seed) & 1 && r > 0 && ks_free(fd, found, r) < 0)
				return 3;
			if (ns && rnd(&seed) & 1 && ks_free(fd, &sealed[--ns], 1) < 0)
				return 4;
			break;
		}
	}
}

/* Keeps many commands in flight. */
static int flood(int fd, struct ks_client *k, u64 seed, u32 flags)
{
	static struct kvslab_args_alloc args[64];
	static u64 pages[64][16];
	struct io_uring_params p = { .flags = flags, .sq_thread_idle = 50 };
	struct io_uring ring;
	u32 i;

	if (io_uring_queue_init_params(64, &ring, &p))
		return 5;
	for (;;) {
		struct io_uring_cqe *cqe;
		unsigned int head, n = 0;

		for (i = 0; i < 32; i++) {
			struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
			struct kvslab_cmd cmd = { .args = (uintptr_t)&args[i], .size = sizeof(args[0]) };

			if (!sqe)
				break;
			args[i] = (struct kvslab_args_alloc){ .pages = (uintptr_t)pages[i], .cache = k->c.id,
							      .count = 1 + rnd(&seed) % 16,
							      .flags = KVSLAB_ALLOC_PARTIAL };
			memset(sqe, 0, sizeof(*sqe));
			sqe->opcode = IORING_OP_URING_CMD;
			sqe->fd = fd;
			sqe->off = KVSLAB_CMD_ALLOC;
			if (rnd(&seed) & 1)
				sqe->flags = IOSQE_ASYNC;
			memcpy((u8 *)sqe + 48, &cmd, sizeof(cmd));
		}
		io_uring_submit(&ring);
		if (rnd(&seed) % 4 == 0)
			sched_yield();
		io_uring_for_each_cqe(&ring, head, cqe)
			n++;
		io_uring_cq_advance(&ring, n);
		/* The pages that it got are forgotten: only the end of the client frees them. When
		 * all are gone, it goes through the errors. */
	}
}

static void store(int fd, struct ks_client *k, u64 seed)
{
	u64 pages[32];
	long i, n;

	for (;;) {
		n = ks_alloc(fd, k->c.id, pages, 1 + rnd(&seed) % 32, KVSLAB_ALLOC_PARTIAL);
		for (i = 0; i < n; i++)
			memset(ks_at(k, k->w, pages[i]), rnd(&seed), SIZE);
		if (n > 0)
			ks_free(fd, pages, n);
	}
}

struct job {
	int kind;
	u64 seed;
};

static int client(void *arg)
{
	struct job *job = arg;
	struct ks_client k;

	if (ks_client(&k, "killed", SIZE))
		return 6;
	ks_via = rnd(&job->seed) % 2 ? KS_IOCTL : KS_RING;
	switch (job->kind) {
	case 1:
		return flood(k.fd, &k, job->seed, 0);
	case 2:
		return flood(k.fd, &k, job->seed, IORING_SETUP_SQPOLL);
	case 3:
		store(k.fd, &k, job->seed);
	}
	ks_via = KS_IOCTL;
	return work(k.fd, &k, job->seed);
}

static bool alone(void *arg)
{
	struct kvslab_stat_pool s;

	return !ks_stat(*(int *)arg, &s) && s.clients == 1;
}

int main(int argc, char **argv)
{
	u64 seed = ks_seed(argc, argv), pages[KEPT];
	int kills = ks_long() ? 10000 : 600, kind, i;
	struct kvslab_stat_pool s;
	struct ks_client k;
	long r;

	tag = rnd(&seed);
	mark = rnd(&seed);
	must(!ks_pool("killed", 0, 32 << 20, 0600), "a pool");
	r = ks_client(&k, "killed", SIZE);
	must(!r, "its first client: %ld", r);
	must(ks_alloc(k.fd, k.c.id, pages, KEPT, 0) == KEPT, "pages");
	for (i = 0; i < KEPT; i++) {
		ks_fill(ks_at(&k, k.w, pages[i]), SIZE, mark + i);
		must(ks_seal_one(k.fd, &pages[i], tag, i) >= 0, "sealed");
	}
	for (kind = 0; kind < (int)COUNT(kinds); kind++) {
		int bad = 0, left = 0, wrong = 0, broken = 0, share = kills / COUNT(kinds);
		double began = ks_now();

		for (i = 0; i < share; i += AT_ONCE) {
			pid_t pid[AT_ONCE];
			int j;

			for (j = 0; j < AT_ONCE; j++) {
				struct job job = { kind, rnd(&seed) };

				pid[j] = ks_child(client, &job);
			}
			for (j = 0; j < AT_ONCE; j++) {
				usleep(rnd(&seed) % (j ? 3000 : 12000));
				kill(pid[j], SIGKILL);
			}
			for (j = 0; j < AT_ONCE; j++) {
				r = ks_wait(pid[j]);
				if (r != 128 + SIGKILL) {
					note("a client ended with %ld", r);
					bad++;
				}
			}
			/* io_uring ends on a work queue, some time after its process. */
			if (!ks_until(alone, &k.fd, 20)) {
				ks_stat(k.fd, &s);
				note("%u clients are left", s.clients - 1);
				left++;
				break;
			}
			ks_stat(k.fd, &s);
			if (s.private_pages || s.sealed != KEPT) {
				note("%llu private pages, %llu sealed", (unsigned long long)s.private_pages,
				     (unsigned long long)s.sealed);
				wrong++;
			}
			broken += !ks_adds_up(k.fd);
		}
		note("%d kills in %.1f s", i, ks_now() - began);
		ok(!bad, "%s: every client lived until it was killed", kinds[kind]);
		ok(!left, "%s: none lives on", kinds[kind]);
		ok(!wrong, "%s: no private page and no reference is left", kinds[kind]);
		ok(!broken, "%s: counts add up", kinds[kind]);
		for (wrong = 0, i = 0; i < KEPT; i++)
			wrong += !ks_filled(ks_at(&k, k.r, pages[i]), SIZE, mark + i);
		ok(!wrong, "%s: sealed pages are what they were", kinds[kind]);
	}
	ok(ks_alloc(k.fd, k.c.id, pages, 1, 0) == 1, "and there is room");
	ks_close(&k);
	return done();
}
