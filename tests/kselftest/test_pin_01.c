// SPDX-License-Identifier: GPL-2.0
/*
 * Pinned caches, for memory that a device registers: slabs made beforehand, never given away; their
 * dma-bufs show the same memory, and keep it.
 */
#include <linux/dma-buf.h>

#include "ks.h"

#define SIZE (256u << 10)
#define PER_SLAB (EXTENT / SIZE)
#define SLABS 3u

static int pin(int fd, u32 size, u32 slabs, struct kvslab_args_cache *c)
{
	*c = (struct kvslab_args_cache){ .page_size = size, .flags = KVSLAB_CACHE_PINNED, .slabs = slabs };
	return ks_cmd(fd, KVSLAB_CMD_CACHE, c, sizeof(*c));
}

static struct kvslab_stat_pool stat_of(int fd)
{
	struct kvslab_stat_pool s = { 0 };

	ks_stat(fd, &s);
	return s;
}

static long export(int fd, u32 cache, u32 extent)
{
	struct kvslab_args_export a = { .cache = cache, .extent = extent, .flags = KVSLAB_EXPORT_CLOEXEC };

	return ks_cmd(fd, KVSLAB_CMD_EXPORT, &a, sizeof(a));
}

int main(void)
{
	struct dma_buf_sync sync = { .flags = DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ };
	u64 pages[SLABS * PER_SLAB + 1], other;
	struct kvslab_args_cache c;
	struct ks_client k, plain;
	struct kvslab_stat_pool s;
	u32 extent;
	long r, buf;
	u8 *p;
	int i;

	must(!ks_pool("pinned", 0, 16 << 20, 0600), "a pool of 8 extents");
	must(!ks_client(&plain, "pinned", SIZE / 2), "a client with a cache of the usual kind");
	ok(pin(plain.fd, SIZE, 9, &c) == -EDQUOT, "more slabs than the pool may have: EDQUOT");
	s = stat_of(plain.fd);
	ok(s.slabs == 0, "and none is kept");
	r = pin(plain.fd, SIZE, SLABS, &c);
	must(r >= 0, "three slabs: %ld", r);
	s = stat_of(plain.fd);
	ok(s.slabs == SLABS && s.held == SLABS, "are there at once: %llu, held %llu", (unsigned long long)s.slabs,
	   (unsigned long long)s.held);
	ok(pin(plain.fd, SIZE / 2, 1, &c) == -EEXIST, "a cache is not of both kinds");
	/* The client is of the first cache; for the windows it does not matter. */
	k = plain;
	r = pin(k.fd, SIZE, SLABS, &k.c);
	ok(r >= 0 && stat_of(k.fd).slabs == SLABS, "the same again changes nothing: %ld", r);
	ok(ks_alloc(k.fd, k.c.id, pages, COUNT(pages), 0) < 0, "there are no more pages than those");
	must(ks_alloc(k.fd, k.c.id, pages, COUNT(pages) - 1, 0) == COUNT(pages) - 1, "all pages of it");
	for (i = 0; i < (int)COUNT(pages) - 1; i++)
		ks_fill(ks_at(&k, k.w, pages[i]), SIZE, i);

	extent = KVSLAB_HANDLE_EXTENT(pages[0]);
	must(ks_alloc(plain.fd, plain.c.id, &other, 1, 0) == 1, "a page of the other cache");
	ok(export(k.fd, plain.c.id, KVSLAB_HANDLE_EXTENT(other)) == -EINVAL, "a cache that is not pinned has no dma-buf");
	ok(export(k.fd, k.c.id, KVSLAB_HANDLE_EXTENT(other)) == -ENOENT, "nor has an extent that is not its");
	ok(export(k.fd, k.c.id, 0xffffffff) == -ENOENT, "nor one that is not there");
	buf = export(k.fd, k.c.id, extent);
	if (buf == -EOPNOTSUPP || buf == -ENOTTY) {
		ok(1, "EXPORT # SKIP this module has none: %ld", buf);
	} else {
		int good = 1;

		must(buf >= 0, "EXPORT: %ld", buf);
		ok(fcntl(buf, F_GETFD) & FD_CLOEXEC, "its descriptor is closed on exec");
		ok(lseek(buf, 0, SEEK_END) == EXTENT, "a dma-buf of an extent");
		p = mmap(NULL, EXTENT, PROT_READ | PROT_WRITE, MAP_SHARED, buf, 0);
		must(p != MAP_FAILED, "it can be mapped");
		ok(!ioctl(buf, DMA_BUF_IOCTL_SYNC, &sync), "and synchronised");
		for (i = 0; i < (int)COUNT(pages) - 1; i++)
			if (KVSLAB_HANDLE_EXTENT(pages[i]) == extent)
				good &= ks_filled(p + KVSLAB_HANDLE_INDEX(pages[i]) * SIZE, SIZE, i);
		ok(good, "it shows the pages");
		ks_fill(p + KVSLAB_HANDLE_INDEX(pages[0]) * SIZE, SIZE, 77);
		ok(ks_filled(ks_at(&k, k.r, pages[0]), SIZE, 77), "and what is written to it is written to them");
		/* A seal does not look for pins here. */
		r = ks_seal_one(k.fd, &pages[0], 1, 1);
		ok(r >= 0 && ks_write(ks_at(&k, k.w, pages[0]), 1) == SIGBUS, "a page of it can be sealed: %ld", r);
		ok(ks_free(k.fd, &other, 1) >= 0 && ks_free(k.fd, pages, COUNT(pages) - 1) >= 0, "freed");
		ok(stat_of(k.fd).quarantined == 0, "nothing is in quarantine");
		for (i = 0; i < 5; i++)
			ks_write_file("/proc/sys/vm/drop_caches", "2");
		s = stat_of(k.fd);
		ok(s.slabs >= SLABS, "pressure does not take them: %llu slabs", (unsigned long long)s.slabs);
		ok(ks_filled(p + KVSLAB_HANDLE_INDEX(pages[0]) * SIZE, SIZE, 77), "nor what is in them");
		/* The client's own end: the dma-buf keeps the memory. */
		ks_close(&k);
		ok(ks_destroy("pinned", 0) == -EBUSY, "the dma-buf keeps the client, and so the pool");
		ok(ks_filled(p + KVSLAB_HANDLE_INDEX(pages[0]) * SIZE, SIZE, 77), "and the bytes");
		ok(!ks_destroy("pinned", KVSLAB_DESTROY_FORCE), "destroyed by force");
		ok(ks_read(p) == 0, "who has the dma-buf mapped is not hit");
		munmap(p, EXTENT);
		close(buf);
		return done();
	}
	ks_close(&k);
	return done();
}
