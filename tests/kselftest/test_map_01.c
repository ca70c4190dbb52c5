// SPDX-License-Identifier: GPL-2.0
/*
 * Two pools, two processes, page sizes from a frame to an extent: pages written through one window
 * are read through the other process's, the same frames; a sealed page cannot be written by any
 * way; the other pool's client sees nothing. All of it through the pool's own node and through a
 * second inode of it, as a container has one.
 */
#include <sys/stat.h>
#include <sys/uio.h>

#include "ks.h"

#define PAGES 5
#define POOL_SIZE (64u << 20)

static const u32 sizes[] = { 4 << 10, 8 << 10, 64 << 10, 340 << 10, 360 << 10, 1 << 20, 2 << 20 };

/* What the writer tells the others; shared memory. */
struct told {
	u32 size;
	u64 mark, tag;
	u64 pages[PAGES];
	u64 frames[PAGES];
	const char *path;
};

static struct told *told;

static void hashes_of(u8 (*h)[HASH])
{
	int i;

	for (i = 0; i < PAGES; i++)
		ks_hash(h[i], told->tag, i);
}

/* Through what else than a store might a window become writable? */
static bool never_writable(const struct ks_client *k, u8 *p)
{
	struct iovec mine = { &(u8){ 0x55 }, 1 }, there = { p, 1 };
	u64 offset = p - k->r;
	int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	bool good = true;

	if (mprotect(p, FRAME, PROT_READ | PROT_WRITE) != -1 || mprotect(p, FRAME, PROT_EXEC) != -1) {
		note("mprotect changed the read-only window");
		good = false;
	}
	if (ks_map(k->fd, k->c.arena, KVSLAB_MAP_READ, offset & -FRAME, FRAME, PROT_READ | PROT_WRITE) ||
	    ks_map(k->fd, k->c.arena, KVSLAB_MAP_READ, offset & -FRAME, FRAME, PROT_WRITE)) {
		note("the read-only window was mapped for writing");
		good = false;
	}
	if (pwrite(mem, "x", 1, (uintptr_t)p) == 1) {
		note("/proc/self/mem wrote to it");
		good = false;
	}
	if (process_vm_writev(getpid(), &mine, 1, &there, 1, 0) == 1) {
		note("process_vm_writev wrote to it");
		good = false;
	}
	if (read(open("/dev/zero", O_RDONLY | O_CLOEXEC), p, 1) == 1) {
		note("read() wrote to it");
		good = false;
	}
	close(mem);
	return good;
}

static int reader(void *arg)
{
	u8 hashes[PAGES][HASH];
	u64 found[PAGES] = { 0 };
	struct ks_client k;
	int i;

	(void)arg;
	if (ks_client(&k, told->path, told->size))
		return 10;
	hashes_of(hashes);
	/* Its own windows: readable already, since the pool is one trust domain; not writable. */
	if (!ks_filled(ks_at(&k, k.r, told->pages[0]), told->size, told->mark))
		return 11;
	if (ks_lookup(k.fd, k.c.id, hashes, found, PAGES) != PAGES ||
	    memcmp(found, told->pages, sizeof(found)))
		return 12;
	for (i = 0; i < PAGES; i++) {
		u8 *r = ks_at(&k, k.r, found[i]), *w = ks_at(&k, k.w, found[i]);

		if (!ks_filled(r, told->size, told->mark + i))
			return 13;
		if (ks_frame(r) != told->frames[i])
			return 14;
		if (ks_write(w, 1) != SIGBUS || ks_write(w + told->size - 1, 1) != SIGBUS ||
		    ks_read(w) != SIGBUS)
			return 15;
		if (ks_write(r, 1) != SIGSEGV)
			return 16;
		if (!never_writable(&k, r))
			return 17;
		if (!ks_filled(r, told->size, told->mark + i))
			return 18;
	}
	if (ks_free(k.fd, found, PAGES) < 0)
		return 19;
	ks_close(&k);
	return 0;
}

static int stranger(void *arg)
{
	struct kvslab_seal_entry s = { .flags = KVSLAB_SEAL_FIRST };
	u8 hashes[PAGES][HASH];
	u64 found[PAGES] = { 0 }, own;
	struct ks_client k;
	int i;

	(void)arg;
	if (ks_client(&k, "other", told->size))
		return 20;
	hashes_of(hashes);
	if (ks_lookup(k.fd, k.c.id, hashes, found, PAGES) != 0)
		return 21;
	for (i = 0; i < PAGES; i++) {
		u8 *r = ks_at(&k, k.r, told->pages[i]), *w = ks_at(&k, k.w, told->pages[i]);

		s.page = told->pages[i];
		ks_hash(s.hash, told->tag, 1000 + i);
		if (ks_read(r) != SIGBUS || ks_read(w) != SIGBUS || ks_write(w, 1) != SIGBUS)
			return 22;
		if (ks_free(k.fd, &told->pages[i], 1) != -EBADF ||
		    ks_get(k.fd, &told->pages[i], 1) != -EBADF || ks_seal(k.fd, &s, 1) != -EBADF)
			return 23;
	}
	/* A page under the same hash is a page of its own. */
	if (ks_alloc(k.fd, k.c.id, &own, 1, 0) != 1)
		return 24;
	ks_fill(ks_at(&k, k.w, own), told->size, ~told->mark);
	if (ks_seal_one(k.fd, &own, told->tag, 0) < 0 || own == told->pages[0])
		return 25;
	if (!ks_filled(ks_at(&k, k.r, own), told->size, ~told->mark))
		return 26;
	ks_close(&k);
	return 0;
}

static void round_of(const char *writer, const char *path, u32 size, u64 *seed)
{
	struct kvslab_seal_entry s[PAGES] = { 0 };
	struct ks_client k;
	int i, good = 1;
	long r;

	told->size = size;
	told->mark = rnd(seed);
	told->tag = rnd(seed);
	told->path = path;
	r = ks_client(&k, writer, size);
	must(!r, "a client of the first pool: %ld", r);
	r = ks_alloc(k.fd, k.c.id, told->pages, PAGES, 0);
	must(r == PAGES, "%u KiB: ALLOC: %ld", size >> 10, r);
	for (i = 0; i < PAGES; i++) {
		u8 *w = ks_at(&k, k.w, told->pages[i]);

		ks_fill(w, size, told->mark + i);
		told->frames[i] = ks_frame(w);
		good &= told->frames[i] && ks_frame(ks_at(&k, k.r, told->pages[i])) == 0;
		s[i].page = told->pages[i];
		ks_hash(s[i].hash, told->tag, i);
		s[i].depth = i;
		if (i)
			memcpy(s[i].parent, s[i - 1].hash, HASH);
		else
			s[i].flags = KVSLAB_SEAL_FIRST;
	}
	ok(good, "%u KiB: pages are written where they lie", size >> 10);
	r = ks_seal(k.fd, s, PAGES);
	for (good = r >= 0, i = 0; i < PAGES; i++)
		good &= s[i].page == told->pages[i];
	ok(good, "%u KiB: SEAL of a chain: %ld", size >> 10, r);
	for (good = 1, i = 0; i < PAGES; i++) {
		u8 *w = ks_at(&k, k.w, told->pages[i]);

		good &= ks_write(w, 1) == SIGBUS && ks_write(w + size - 1, 1) == SIGBUS;
		good &= never_writable(&k, ks_at(&k, k.r, told->pages[i]));
	}
	ok(good, "%u KiB: the writer itself cannot write them any more", size >> 10);
	r = ks_wait(ks_child(reader, NULL));
	ok(r == 0, "%u KiB: another process finds them, the same bytes in the same frames: %ld",
	   size >> 10, r);
	r = ks_wait(ks_child(stranger, NULL));
	ok(r == 0, "%u KiB: a client of another pool cannot see, free, get, seal or find them: %ld",
	   size >> 10, r);
	for (good = 1, i = 0; i < PAGES; i++)
		good &= ks_filled(ks_at(&k, k.r, told->pages[i]), size, told->mark + i);
	ok(good && ks_free(k.fd, told->pages, PAGES) >= 0, "%u KiB: and are what they were", size >> 10);
	ok(ks_adds_up(k.fd), "%u KiB: counts add up", size >> 10);
	ks_close(&k);
}

int main(int argc, char **argv)
{
	static const char own[] = "/dev/kvslab/first", second[] = "/tmp/second-inode";
	u64 seed = ks_seed(argc, argv);
	struct stat st;
	u32 i;

	told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(!ks_pool("first", 0, POOL_SIZE, 0600) && !ks_pool("other", 0, POOL_SIZE, 0600), "two pools");
	must(!stat(own, &st) && !mknod(second, S_IFCHR | 0600, st.st_rdev), "a second inode");
	for (i = 0; i < COUNT(sizes); i++) {
		round_of(own, own, sizes[i], &seed);
		round_of(own, second, sizes[i], &seed);
		round_of(second, own, sizes[i], &seed);
	}
	unlink(second);
	return done();
}
