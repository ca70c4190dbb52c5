// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that a device or a pipe still has in its hands: they cannot be sealed; freed, or their
 * client dead, they are in quarantine until the end of it, and nobody else's data is hit.
 */
#include <pthread.h>
#include <sys/uio.h>

#include "ks.h"

#define SIZE (64u << 10)
#define BEFORE 5 /* requests that come before the one that matters */
#define POOL_PAGES ((8u << 20) / SIZE)

static int disk; /* slow: half a second for a request */
static struct ks_client watch;

static u64 quarantined(void)
{
	struct kvslab_stat_pool s;

	return ks_stat(watch.fd, &s) ? ~0ull : s.quarantined;
}

static bool none_quarantined(void *arg)
{
	(void)arg;
	return quarantined() == 0;
}

/* A read of the slow disk into a page, by a thread that sleeps in it. Others before it keep it
 * waiting. */
struct reads {
	pthread_t thread[BEFORE + 1];
	u8 *to[BEFORE + 1];
	u32 size[BEFORE + 1];
	volatile int over[BEFORE + 1];
	long result[BEFORE + 1];
	u32 next;
};

static void *read_disk(void *arg)
{
	struct reads *reads = arg;
	long r;
	u32 i = __sync_fetch_and_add(&reads->next, 1);

	r = pread(disk, reads->to[i], reads->size[i], 0);
	reads->result[i] = r < 0 ? -errno : r;
	reads->over[i] = 1;
	return NULL;
}

static void start_read(struct reads *reads, const struct ks_client *k, u64 page)
{
	static u8 other[BEFORE][FRAME] __attribute__((aligned(FRAME)));
	int i;

	memset(reads, 0, sizeof(*reads));
	for (i = 0; i <= BEFORE; i++) {
		reads->to[i] = i < BEFORE ? other[i] : ks_at(k, k->w, page);
		reads->size[i] = i < BEFORE ? FRAME : SIZE;
		must(!pthread_create(&reads->thread[i], NULL, read_disk, reads), "a thread");
	}
	usleep(150000);
}

/* Waits until the read has ended; whether it was in flight still. */
static bool end_read(struct reads *reads)
{
	bool in_flight = !reads->over[BEFORE];
	int i;

	for (i = 0; i <= BEFORE; i++)
		pthread_join(reads->thread[i], NULL);
	return in_flight;
}

/* All that can be had, marked: whoever still writes to a page of it is found out. */
static u32 take_all(struct ks_client *k, u64 *pages)
{
	long n = ks_alloc(k->fd, k->c.id, pages, POOL_PAGES, KVSLAB_ALLOC_PARTIAL);
	u32 i;

	n = n < 0 ? 0 : n;
	for (i = 0; i < n; i++)
		ks_fill(ks_at(k, k->w, pages[i]), SIZE, i);
	return n;
}

static bool untouched(struct ks_client *k, u64 *pages, u32 n)
{
	bool good = true;
	u32 i;

	for (i = 0; i < n; i++)
		good &= ks_filled(ks_at(k, k->w, pages[i]), SIZE, i);
	ks_free(k->fd, pages, n);
	return good;
}

static void in_flight(const char *what, int by_close)
{
	u64 page, stays, taken[POOL_PAGES], left;
	struct reads reads;
	struct ks_client k;
	bool still, over;
	u32 n;
	long r;

	/* Another page of the slab stays in use, so that the slab does. */
	must(!ks_client(&k, "slow", SIZE) && ks_alloc(k.fd, k.c.id, &page, 1, 0) == 1 &&
		     ks_alloc(k.fd, k.c.id, &stays, 1, 0) == 1,
	     "a client, a page");
	memset(ks_at(&k, k.w, page), 1, SIZE);
	start_read(&reads, &k, page);
	over = reads.over[BEFORE];
	r = ks_seal_one(k.fd, &page, 4, rand());
	if (r >= 0) {
		/* On a slow machine the read may be over by now, or not have begun: then it finds
		 * a sealed page, and must not get into it. */
		end_read(&reads);
		if (over || reads.result[BEFORE] == -EFAULT)
			ok(1, "%s: a page under I/O # SKIP none was in flight: %ld", what, reads.result[BEFORE]);
		else
			ok(0, "%s: a page under I/O is not sealed, and its read ended with %ld", what,
			   reads.result[BEFORE]);
		ok(ks_free(k.fd, &page, 1) >= 0 && ks_free(k.fd, &stays, 1) >= 0, "%s: freed", what);
		ks_close(&k);
		return;
	}
	ok(r == -EBUSY, "%s: a page under I/O is not sealed: %ld", what, r);
	ok(ks_write(ks_at(&k, k.w, page), 1) == 0, "%s: and stays private", what);
	if (by_close)
		ks_close(&k);
	else
		ok(ks_free(k.fd, &page, 1) >= 0, "%s: it can be freed", what);
	n = take_all(&watch, taken);
	left = quarantined();
	still = end_read(&reads);
	/* A slab that nobody holds may also go as a whole, its pinned frames with it, and a new one
	 * come in its place. */
	if (still)
		ok((left >= 1 && n < POOL_PAGES && n > 0) || (by_close && !left && n == POOL_PAGES),
		   "%s: %llu in quarantine, %u of %u for others", what, (unsigned long long)left, n, POOL_PAGES);
	else
		ok(1, "%s: in quarantine # SKIP the read ended too soon", what);
	ok(untouched(&watch, taken, n), "%s: nobody else's data was hit", what);
	ok(ks_until(none_quarantined, NULL, 15), "%s: it comes back after the I/O", what);
	if (!by_close)
		ks_close(&k);
	n = take_all(&watch, taken);
	ok(n == POOL_PAGES && untouched(&watch, taken, n), "%s: all of the pool can be had: %u", what, n);
	ok(ks_adds_up(watch.fd), "%s: counts add up", what);
}

static int pipe_fd[2];

/* Puts a page of its own into the pipe and is killed. */
static int pipe_child(void *arg)
{
	struct iovec v = { .iov_len = FRAME };
	struct ks_client k;
	u64 page;

	if (ks_client(&k, "slow", SIZE) || ks_alloc(k.fd, k.c.id, &page, 1, 0) != 1)
		return 1;
	ks_fill(ks_at(&k, k.w, page), SIZE, 99);
	v.iov_base = ks_at(&k, k.w, page) + FRAME;
	if (vmsplice(pipe_fd[1], &v, 1, 0) != FRAME)
		return 2;
	*(volatile int *)arg = 1;
	for (;;)
		pause();
}

static bool told(void *arg)
{
	return *(volatile int *)arg;
}

static void pipes(void)
{
	volatile int *flag = mmap(NULL, FRAME, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	u64 page, taken[POOL_PAGES];
	struct ks_client k;
	struct iovec v;
	u8 got[FRAME];
	pid_t pid;
	u32 n;
	long r;

	must(!pipe(pipe_fd), "a pipe");
	must(!ks_client(&k, "slow", SIZE) && ks_alloc(k.fd, k.c.id, &page, 1, 0) == 1, "a client, a page");
	ks_fill(ks_at(&k, k.w, page), SIZE, 5);
	v = (struct iovec){ ks_at(&k, k.w, page) + 3 * FRAME, FRAME };
	must(vmsplice(pipe_fd[1], &v, 1, 0) == FRAME, "vmsplice");
	r = ks_seal_one(k.fd, &page, 8, 1);
	ok(r == -EBUSY, "a page that a pipe holds is not sealed: %ld", r);
	ok(read(pipe_fd[0], got, FRAME) == FRAME && ks_filled(got, FRAME, 5 + 3 * FRAME / 8), "what the pipe gave is right");
	r = ks_seal_one(k.fd, &page, 8, 1);
	ok(r >= 0, "then it can be sealed: %ld", r);
	/* A reader's pin is as good as a writer's: nobody can tell them apart. */
	ks_close(&k);

	pid = ks_child(pipe_child, (void *)flag);
	ok(ks_until(told, (void *)flag, 10), "a child puts a page into the pipe");
	kill(pid, SIGKILL);
	ok(ks_wait(pid) == 128 + SIGKILL, "and is killed");
	/* Whether it is pinned is looked at when somebody else wants it. */
	n = take_all(&watch, taken);
	ok(n == POOL_PAGES - 1 && quarantined() == 1, "others get all but that page: %u, %llu in quarantine", n,
	   (unsigned long long)quarantined());
	ok(read(pipe_fd[0], got, FRAME) == FRAME && ks_filled(got, FRAME, 99 + FRAME / 8),
	   "the pipe still gives what it was given");
	ok(untouched(&watch, taken, n), "nobody else's data was hit");
	ok(ks_until(none_quarantined, NULL, 15), "the page comes back");
	n = take_all(&watch, taken);
	ok(n == POOL_PAGES && untouched(&watch, taken, n), "all of the pool can be had: %u", n);
}

/* A pool that dies, or shrinks, with a page of it in a pipe: the frame lives on by the pipe. */
static void adrift(void)
{
	struct ks_client k;
	struct iovec v;
	u8 got[FRAME];
	u64 page;

	must(!ks_pool("dies", 0, 4 << 20, 0600) && !ks_client(&k, "dies", SIZE) &&
		     ks_alloc(k.fd, k.c.id, &page, 1, 0) == 1,
	     "another pool");
	ks_fill(ks_at(&k, k.w, page), SIZE, 123);
	v = (struct iovec){ ks_at(&k, k.w, page), FRAME };
	must(vmsplice(pipe_fd[1], &v, 1, 0) == FRAME, "vmsplice");
	ks_close(&k);
	ok(!ks_destroy("dies", 0), "its pool is destroyed meanwhile");
	ok(read(pipe_fd[0], got, FRAME) == FRAME && ks_filled(got, FRAME, 123),
	   "the pipe still gives what it was given");
}

int main(int argc, char **argv)
{
	u64 seed = ks_seed(argc, argv);

	srand(rnd(&seed));
	disk = open("/dev/nvme0n2", O_RDWR | O_DIRECT | O_CLOEXEC);
	must(disk >= 0, "the slow disk opens");
	must(!ks_pool("slow", 0, 8 << 20, 0600), "a pool");
	must(!ks_client(&watch, "slow", SIZE), "a client that watches");
	in_flight("FREE", 0);
	in_flight("the client's end", 1);
	pipes();
	adrift();
	ks_close(&watch);
	return done();
}
