// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that a device or a pipe still has in its hands: they cannot be sealed; freed, or their
 * client dead, they are in quarantine until the end of it, and nobody else's data is hit.
 */
#include <liburing.h>
#include <sys/uio.h>

#include "ks.h"

#define SIZE (64u << 10)
#define POOL_PAGES ((8u << 20) / SIZE)
#define BEFORE                                                                                     \
	6 /* reads before the one that matters; twice as many when the machine was too slow for it \
	   */
#define BEFORE_MOST 48

static int disk; /* slow: two requests a second */
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

/* Reads that the disk has not answered. It answers them in their order. */
static u32 in_flight(void)
{
	char text[80];
	u32 n = 0;

	if (ks_read_file("/sys/block/nvme0n2/inflight", text, sizeof(text)) <= 0 ||
	    sscanf(text, "%u", &n) != 1)
		must(0, "the disk says what is in flight");
	return n;
}

static bool idle_disk(void *arg)
{
	(void)arg;
	return !in_flight();
}

/*
 * O_DIRECT reads of the slow disk, which outlive a process that dies: @before of them, then one
 * into
 * @to. Returns when the disk has them all.
 */
static void start_reads(struct io_uring *ring, u32 before, u8 *to)
{
	static u8 other[FRAME] __attribute__((aligned(FRAME)));
	double end = ks_now() + 60;
	struct io_uring_sqe *sqe;
	u32 i;

	must(ks_until(idle_disk, NULL, 60) && !io_uring_queue_init(BEFORE_MOST * 2, ring, 0),
	     "a quiet disk, a ring");
	memset(other, 1, sizeof(other));
	for (i = 0; i <= before; i++) {
		sqe = io_uring_get_sqe(ring);
		if (i < before)
			io_uring_prep_read(sqe, disk, other, FRAME, 0);
		else
			io_uring_prep_read(sqe, disk, to, SIZE, 1 << 20);
		sqe->user_data = i;
		/* Those of one submission would reach the disk in no certain order. */
		must(io_uring_submit(ring) == 1, "a read is submitted");
		while (in_flight() + io_uring_cq_ready(ring) < i + 1 && ks_now() < end)
			usleep(1000);
	}
	must(ks_now() < end, "the disk has all reads");
}

/* Waits for all of them; whether they went well. */
static bool end_reads(struct io_uring *ring, u32 before)
{
	struct io_uring_cqe *cqe;
	bool good = true;
	u32 i;

	for (i = 0; i <= before; i++) {
		must(!io_uring_wait_cqe(ring, &cqe), "an answer");
		if (cqe->user_data != i || cqe->res != (int)(i < before ? FRAME : SIZE)) {
			note("read %llu, as number %u: %d", (unsigned long long)cqe->user_data, i,
			     cqe->res);
			good = false;
		}
		io_uring_cqe_seen(ring, cqe);
	}
	io_uring_queue_exit(ring);
	return good;
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

struct seen {
	long seal;
	int store;
	long freed;
	u32 others; /* pages that somebody else got meanwhile */
	u64 quarantined;
	bool untouched, read;
};

/* One try; whether the read was in flight until everything had been looked at. */
static bool try_under_io(bool by_close, u32 before, struct seen *seen)
{
	u64 page, sealed, stays, taken[POOL_PAGES];
	struct io_uring ring;
	struct ks_client k;
	bool in_time;

	/* Another page of the slab stays in use, so that the slab does. */
	must(!ks_client(&k, "slow", SIZE) && ks_alloc(k.fd, k.c.id, &page, 1, 0) == 1 &&
		     ks_alloc(k.fd, k.c.id, &stays, 1, 0) == 1,
	     "a client, a page");
	memset(ks_at(&k, k.w, page), 1, SIZE);
	start_reads(&ring, before, ks_at(&k, k.w, page));
	sealed = page;
	seen->seal = ks_seal_one(k.fd, &sealed, 4, rand());
	seen->store = ks_write(ks_at(&k, k.w, page), 1);
	if (by_close)
		ks_close(&k);
	else
		seen->freed = ks_free(k.fd, &page, 1);
	seen->others = take_all(&watch, taken);
	seen->quarantined = quarantined();
	in_time = in_flight();
	seen->read = end_reads(&ring, before);
	seen->untouched = untouched(&watch, taken, seen->others);
	if (!by_close)
		ks_close(&k);
	return in_time;
}

/* A page comes back; the whole pool can be had. */
static void comes_back(const char *what)
{
	u64 taken[POOL_PAGES];
	u32 n;

	ok(ks_until(none_quarantined, NULL, 60), "%s: it comes back after the I/O", what);
	n = take_all(&watch, taken);
	ok(n == POOL_PAGES && untouched(&watch, taken, n), "%s: all of the pool can be had: %u",
	   what, n);
	ok(ks_adds_up(watch.fd), "%s: counts add up", what);
}

static void under_io(const char *what, bool by_close)
{
	struct seen seen = { 0 };
	u32 before = BEFORE;

	bool in_time;

	while (!(in_time = try_under_io(by_close, before, &seen)) && before < BEFORE_MOST) {
		note("%s: the read was over too soon behind %u others", what, before);
		ks_until(none_quarantined, NULL, 60);
		memset(&seen, 0, sizeof(seen));
		before *= 2;
	}
	ok(in_time, "%s: a read was in flight, behind %u others", what, before);
	ok(seen.seal == -EBUSY, "%s: a page under I/O is not sealed: %ld", what, seen.seal);
	ok(!seen.store, "%s: and stays private", what);
	ok(!seen.freed, "%s: it can be freed", what);
	/* A slab that nobody holds may also go as a whole, its pinned frames with it, and a new one
	 * come in its place. */
	ok((seen.quarantined >= 1 && seen.others < POOL_PAGES && seen.others > 0) ||
		   (by_close && !seen.quarantined && seen.others == POOL_PAGES),
	   "%s: %llu in quarantine, %u of %u for others", what,
	   (unsigned long long)seen.quarantined, seen.others, POOL_PAGES);
	ok(seen.read, "%s: the reads go well", what);
	ok(seen.untouched, "%s: nobody else's data was hit", what);
	comes_back(what);
}

/* ---- a client that is killed while its own read is in flight ---- */

struct victim {
	u32 before;
	volatile int has, may, reads; /* it has a page; it may begin; the disk has its reads */
	volatile u64 page;
};

static int victim(void *arg)
{
	struct victim *v = arg;
	struct io_uring ring;
	struct ks_client k;
	u64 page;

	if (ks_client(&k, "one", SIZE) || ks_alloc(k.fd, k.c.id, &page, 1, 0) != 1)
		return 1;
	memset(ks_at(&k, k.w, page), 1, SIZE);
	v->page = page;
	v->has = 1;
	while (!v->may)
		usleep(500);
	start_reads(&ring, v->before, ks_at(&k, k.w, page));
	v->reads = 1;
	for (;;)
		pause();
}

static bool has_page(void *v)
{
	return ((struct victim *)v)->has;
}

static bool has_reads(void *v)
{
	return ((struct victim *)v)->reads;
}

static bool alone(void *fd)
{
	struct kvslab_stat_pool s;

	return !ks_stat(*(int *)fd, &s) && s.clients == 1;
}

static bool nothing_quarantined(void *fd)
{
	struct kvslab_stat_pool s;

	return !ks_stat(*(int *)fd, &s) && !s.quarantined;
}

/* In a pool of one extent. @shared: others have the rest of its slab, so that the slab stays; else
 * the slab goes as a whole, and its frames live on by the I/O. Whether the read was in flight
 * meanwhile. */
static bool try_killed(bool shared, struct victim *v, struct ks_client *k)
{
	u64 pages[EXTENT / SIZE], adrift;
	struct kvslab_stat_pool s;
	u32 rest = EXTENT / SIZE - 1, n = 0, i;
	bool in_time, good = true;
	const char *what = shared ? "killed in a shared slab" : "killed in its own slab";
	pid_t pid = ks_child(victim, v);

	must(ks_until(has_page, v, 30), "%s: it has a page", what);
	if (shared) {
		must(ks_alloc(k->fd, k->c.id, pages, rest, 0) == (long)rest,
		     "%s: others have all the rest", what);
		n = rest;
	}
	ks_stat(k->fd, &s);
	adrift = s.adrift;
	v->may = 1;
	must(ks_until(has_reads, v, 90), "%s: its reads began", what);
	kill(pid, SIGKILL);
	must(ks_wait(pid) == 128 + SIGKILL && ks_until(alone, &k->fd, 30),
	     "%s: it is killed, its client gone", what);
	if (!shared) {
		n = ks_alloc(k->fd, k->c.id, pages, rest + 1, KVSLAB_ALLOC_PARTIAL);
		must((int)n > 0, "%s: there is room at once: %d", what, (int)n);
	}
	for (i = 0; i < n; i++)
		ks_fill(ks_at(k, k->w, pages[i]), SIZE, i);
	ks_stat(k->fd, &s);
	in_time = in_flight();
	if (in_time && shared) {
		u64 more;

		ok(s.quarantined == 1 && !s.private_pages == !n,
		   "%s: its page is in quarantine: %llu", what, (unsigned long long)s.quarantined);
		ok(ks_alloc(k->fd, k->c.id, &more, 1, 0) < 0, "%s: and nobody gets it", what);
	} else if (in_time) {
		ok(!s.quarantined && n == rest + 1,
		   "%s: others have %u pages, %llu in quarantine, %llu adrift", what, n,
		   (unsigned long long)s.quarantined, (unsigned long long)(s.adrift - adrift));
	}
	must(ks_until(idle_disk, NULL, 90), "%s: the disk comes to its end", what);
	for (i = 0; i < n; i++)
		good &= ks_filled(ks_at(k, k->w, pages[i]), SIZE, i);
	if (in_time)
		ok(good, "%s: nobody else's data was hit", what);
	ok(ks_until(nothing_quarantined, &k->fd, 60), "%s: nothing stays in quarantine", what);
	if (n)
		ks_free(k->fd, pages, n);
	return in_time;
}

static void killed(bool shared)
{
	struct victim *v =
		mmap(NULL, FRAME, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	u64 pages[EXTENT / SIZE];
	struct ks_client k;
	bool in_time;
	long n;

	must(v != MAP_FAILED && !ks_pool("one", 0, EXTENT, 0600) && !ks_client(&k, "one", SIZE),
	     "a pool of one extent");
	for (v->before = BEFORE; !(in_time = try_killed(shared, v, &k)) && v->before < BEFORE_MOST;
	     v->before *= 2)
		v->has = v->may = v->reads = 0;
	ok(in_time, "killed: its read was in flight, behind %u others", v->before);
	n = ks_alloc(k.fd, k.c.id, pages, COUNT(pages), 0);
	ok(n == COUNT(pages) && ks_adds_up(k.fd), "killed: then all of the pool can be had: %ld",
	   n);
	ks_close(&k);
	munmap(v, FRAME);
	ok(!ks_destroy("one", 0), "killed: the pool can go");
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
	volatile int *flag =
		mmap(NULL, FRAME, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	u64 page, taken[POOL_PAGES];
	struct ks_client k;
	struct iovec v;
	u8 got[FRAME];
	pid_t pid;
	u32 n;
	long r;

	must(!pipe(pipe_fd), "a pipe");
	must(!ks_client(&k, "slow", SIZE) && ks_alloc(k.fd, k.c.id, &page, 1, 0) == 1,
	     "a client, a page");
	ks_fill(ks_at(&k, k.w, page), SIZE, 5);
	v = (struct iovec){ ks_at(&k, k.w, page) + 3 * FRAME, FRAME };
	must(vmsplice(pipe_fd[1], &v, 1, 0) == FRAME, "vmsplice");
	r = ks_seal_one(k.fd, &page, 8, 1);
	ok(r == -EBUSY, "a page that a pipe holds is not sealed: %ld", r);
	ok(read(pipe_fd[0], got, FRAME) == FRAME && ks_filled(got, FRAME, 5 + 3 * FRAME / 8),
	   "what the pipe gave is right");
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
	ok(n == POOL_PAGES - 1 && quarantined() == 1,
	   "others get all but that page: %u, %llu in quarantine", n,
	   (unsigned long long)quarantined());
	ok(read(pipe_fd[0], got, FRAME) == FRAME && ks_filled(got, FRAME, 99 + FRAME / 8),
	   "the pipe still gives what it was given");
	ok(untouched(&watch, taken, n), "nobody else's data was hit");
	ok(ks_until(none_quarantined, NULL, 60), "the page comes back");
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
	under_io("FREE", false);
	under_io("the client's end", true);
	killed(true);
	killed(false);
	pipes();
	adrift();
	ks_close(&watch);
	return done();
}
