// SPDX-License-Identifier: GPL-2.0
/*
 * O_DIRECT between a disk and pool pages: out of private and sealed pages, into private ones, never
 * into a sealed one; with fixed buffers where the kernel takes them.
 */
#include <liburing.h>

#include "ks.h"

#define N 6

static const u32 sizes[] = { 4 << 10, 64 << 10, 340 << 10, 2 << 20 };

static void round_of(int disk, u32 size, u64 *seed)
{
	u64 pages[N], mark = rnd(seed);
	struct io_uring ring;
	struct ks_client k;
	struct iovec v;
	int i, good;
	long r;

	r = ks_client(&k, "disk", size);
	must(!r, "a client: %ld", r);
	must(ks_alloc(k.fd, k.c.id, pages, N, 0) == N, "pages");
	for (i = 0; i < N; i++)
		ks_fill(ks_at(&k, k.w, pages[i]), size, mark + i);
	for (i = 0; i < 2; i++)
		must(ks_seal_one(k.fd, &pages[i], mark, i) >= 0, "sealed");

	/* out: sealed pages through the read-only window, private ones through either */
	good = pwrite(disk, ks_at(&k, k.r, pages[0]), size, 0) == size;
	good &= pwrite(disk, ks_at(&k, k.r, pages[1]), size, size) == size;
	good &= pwrite(disk, ks_at(&k, k.w, pages[2]), size, 2 * size) == size;
	good &= pwrite(disk, ks_at(&k, k.r, pages[3]), size, 3 * size) == size;
	ok(good, "%u KiB: written from sealed and private pages", size >> 10);

	/* in, in another order, and into a page that has not been touched yet */
	for (good = 1, i = 0; i < 4; i++) {
		u8 *w = ks_at(&k, k.w, pages[2 + i]);

		if (i < 3)
			memset(w, 0xee, size);
		r = pread(disk, w, size, (u64)(3 - i) * size);
		good &= r == size && ks_filled(ks_at(&k, k.r, pages[2 + i]), size, mark + 3 - i);
	}
	ok(good, "%u KiB: read into private pages, verified", size >> 10);

	r = pread(disk, ks_at(&k, k.w, pages[0]), size, 0);
	ok(r < 0 && errno == EFAULT, "%u KiB: not into a sealed page: %ld", size >> 10, r);
	r = pread(disk, ks_at(&k, k.r, pages[0]), size, 0);
	ok(r < 0 && errno == EFAULT, "%u KiB: nor through the read-only window: %ld", size >> 10, r);
	r = pread(disk, ks_at(&k, k.r, pages[2]), size, 0);
	ok(r < 0 && errno == EFAULT, "%u KiB: nor into a private page through it: %ld", size >> 10, r);
	ok(ks_filled(ks_at(&k, k.r, pages[0]), size, mark), "%u KiB: the sealed page is what it was",
	   size >> 10);

	/* What has been read can be sealed: no pin stays behind. */
	r = ks_seal_one(k.fd, &pages[2], mark, 2);
	ok(r >= 0 && ks_filled(ks_at(&k, k.r, pages[2]), size, mark + 3), "%u KiB: sealed after a read: %ld",
	   size >> 10, r);

	must(!io_uring_queue_init(8, &ring, 0), "a ring");
	v = (struct iovec){ ks_at(&k, k.w, pages[3]), size };
	r = io_uring_register_buffers(&ring, &v, 1);
	if (r == -EOPNOTSUPP) {
		ok(1, "%u KiB: fixed buffers # SKIP this kernel takes no file mapping as one", size >> 10);
	} else {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
		struct io_uring_cqe *cqe;

		must(sqe && !r, "registered: %ld", r);
		io_uring_prep_read_fixed(sqe, disk, v.iov_base, size, 0, 0);
		io_uring_submit(&ring);
		io_uring_wait_cqe(&ring, &cqe);
		ok(cqe->res == (int)size && ks_filled(v.iov_base, size, mark),
		   "%u KiB: a read into a fixed buffer", size >> 10);
		io_uring_cqe_seen(&ring, cqe);
		ok(ks_seal_one(k.fd, &pages[3], mark, 3) == -EBUSY,
		   "%u KiB: a page that is a fixed buffer is not sealed", size >> 10);
	}
	io_uring_queue_exit(&ring);
	v = (struct iovec){ ks_at(&k, k.r, pages[0]), size };
	must(!io_uring_queue_init(8, &ring, 0), "a ring");
	ok(io_uring_register_buffers(&ring, &v, 1) < 0,
	   "%u KiB: the read-only window is no fixed buffer", size >> 10);
	io_uring_queue_exit(&ring);
	ok(ks_free(k.fd, pages, N) >= 0 && ks_adds_up(k.fd), "%u KiB: counts add up", size >> 10);
	ks_close(&k);
}

int main(int argc, char **argv)
{
	u64 seed = ks_seed(argc, argv);
	int disk = open("/dev/nvme0n1", O_RDWR | O_DIRECT | O_CLOEXEC);
	u32 i;

	must(disk >= 0, "the disk opens");
	must(!ks_pool("disk", 0, 64 << 20, 0600), "a pool");
	for (i = 0; i < COUNT(sizes); i++)
		round_of(disk, sizes[i], &seed);
	close(disk);
	return done();
}
