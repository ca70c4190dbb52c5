// SPDX-License-Identifier: GPL-2.0
/*
 * What may be done to a window, and what may not: fork, munmap after close, mremap, MADV_*, odd
 * sizes and offsets, PROT_EXEC, descriptors open for reading.
 */
#include <sys/syscall.h>

#include "ks.h"

#define SIZE (64u << 10)

static struct ks_client k;
static struct ks_client watch;
static u64 mine, sealed;

static u32 clients(void)
{
	struct kvslab_stat_pool s;

	return ks_stat(watch.fd, &s) ? 0 : s.clients;
}

static u64 private_pages(void)
{
	struct kvslab_stat_pool s;

	return ks_stat(watch.fd, &s) ? ~0ull : s.private_pages;
}

static bool two_clients(void *arg)
{
	(void)arg;
	return clients() == 2;
}

static bool one_client(void *arg)
{
	(void)arg;
	return clients() == 1;
}

static int inherited(void *arg)
{
	(void)arg;
	if (ks_read(ks_at(&k, k.r, sealed)) != SIGSEGV || ks_write(ks_at(&k, k.w, mine), 1) != SIGSEGV)
		return 1;
	/* The same client through the same descriptor, once it maps again. */
	k.r = ks_map(k.fd, k.c.arena, KVSLAB_MAP_READ, 0, k.c.arena_size, PROT_READ);
	k.w = ks_map(k.fd, k.c.arena, KVSLAB_MAP_WRITE, 0, k.c.arena_size, PROT_READ | PROT_WRITE);
	if (!k.r || !k.w)
		return 2;
	if (ks_write(ks_at(&k, k.w, mine), 77) || ks_write(ks_at(&k, k.w, sealed), 1) != SIGBUS)
		return 3;
	return ks_at(&k, k.r, mine)[0] == 77 ? 0 : 4;
}

static u8 *forked_window;

static int forked(void *arg)
{
	int sig = ks_write(forked_window, 5);

	(void)arg;
	/* Whether the mapping came along or not: a sealed page is not written. */
	return sig == SIGBUS || sig == SIGSEGV ? 0 : 1;
}

static void forks(void)
{
	int r;

	r = ks_wait(ks_child(inherited, NULL));
	ok(r == 0, "a child has no window until it maps again, then the same: %d", r);
	ok(*ks_at(&k, k.r, mine) == 77, "and what it wrote is there");
	forked_window = ks_at(&k, k.w, sealed);
	madvise(k.w, k.c.arena_size, MADV_DOFORK);
	ok(ks_wait(ks_child(forked, NULL)) == 0, "MADV_DOFORK opens no way to a sealed page");
	madvise(k.w, k.c.arena_size, MADV_DONTFORK);
	ok(ks_filled(ks_at(&k, k.r, sealed), SIZE, 1), "which is what it was");
	ok(clients() == 2, "the child was no client of its own: %u", clients());
}

static void advice(void)
{
	/* Those that only promise something: accepted or not, nothing may change. HWPOISON and
	 * SOFT_OFFLINE take memory from the system and have tests of their own elsewhere. */
	static const int all[] = { MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_DONTNEED, MADV_FREE,
				   MADV_REMOVE, MADV_DONTFORK, MADV_DOFORK, MADV_MERGEABLE, MADV_UNMERGEABLE, MADV_HUGEPAGE,
				   MADV_NOHUGEPAGE, MADV_DONTDUMP, MADV_DODUMP, MADV_WIPEONFORK, MADV_KEEPONFORK, MADV_COLD,
				   MADV_PAGEOUT, 22 /* POPULATE_READ */, 23 /* POPULATE_WRITE */, 24 /* DONTNEED_LOCKED */,
				   25 /* COLLAPSE */ };
	int good = 1;
	u32 i;

	for (i = 0; i < COUNT(all); i++) {
		ks_fill(ks_at(&k, k.w, mine), SIZE, i);
		madvise(ks_at(&k, k.w, mine), SIZE, all[i]);
		madvise(ks_at(&k, k.r, mine), SIZE, all[i]);
		madvise(ks_at(&k, k.r, sealed), SIZE, all[i]);
		madvise(ks_at(&k, k.w, sealed), SIZE, all[i]);
		if (!ks_filled(ks_at(&k, k.r, mine), SIZE, i) || !ks_filled(ks_at(&k, k.w, mine), SIZE, i) ||
		    !ks_filled(ks_at(&k, k.r, sealed), SIZE, 1) || ks_write(ks_at(&k, k.w, sealed), 1) != SIGBUS ||
		    ks_write(ks_at(&k, k.r, sealed), 1) != SIGSEGV) {
			note("advice %d", all[i]);
			good = 0;
		}
	}
	ok(good, "no madvise() loses a byte or opens a window");
	ok(madvise(ks_at(&k, k.w, sealed), FRAME, 23) == -1, "a sealed page cannot be populated for writing");
	ok(mlock(ks_at(&k, k.r, sealed), SIZE) == 0 || errno == ENOMEM || errno == EINVAL, "mlock() is harmless");
	munlock(ks_at(&k, k.r, sealed), SIZE);
}

static void moves(void)
{
	u8 *w = ks_map(k.fd, k.c.arena, KVSLAB_MAP_WRITE, 0, EXTENT, PROT_READ | PROT_WRITE), *moved, *to;
	u64 page;

	must(!!w, "a window on the first extent");
	ok(mremap(w, EXTENT, 2 * EXTENT, MREMAP_MAYMOVE) == MAP_FAILED, "a window does not grow");
	ok(mremap(w, 0, EXTENT, MREMAP_MAYMOVE) == MAP_FAILED || clients() == 2, "nor doubles into a new client");
	ok(mremap(w, EXTENT, EXTENT / 2, 0) == w, "it can shrink");
	munmap(w, EXTENT / 2);

	/* Moved with a page in it: the page goes with it, and so does the seal. */
	must(ks_alloc(k.fd, k.c.id, &page, 1, 0) == 1, "a page");
	w = ks_map(k.fd, k.c.arena, KVSLAB_MAP_WRITE, (u64)KVSLAB_HANDLE_EXTENT(page) * EXTENT, EXTENT,
		   PROT_READ | PROT_WRITE);
	to = mmap(NULL, EXTENT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(w && to != MAP_FAILED, "a window");
	w += (u64)KVSLAB_HANDLE_INDEX(page) * SIZE;
	ks_fill(w, SIZE, 9);
	w -= (u64)KVSLAB_HANDLE_INDEX(page) * SIZE;
	moved = mremap(w, EXTENT, EXTENT, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	must(moved == to, "moved");
	moved += (u64)KVSLAB_HANDLE_INDEX(page) * SIZE;
	ok(ks_filled(moved, SIZE, 9) && ks_write(moved, 9) == 0, "a window that was moved shows the same");
	ok(ks_seal_one(k.fd, &page, 3, 3) >= 0 && ks_write(moved, 1) == SIGBUS, "a seal finds it where it went");
	ok(ks_free(k.fd, &page, 1) >= 0, "freed");
	munmap(to, EXTENT);

	/* remap_file_pages() can turn one window into the other; rights stay right. */
	w = ks_map(k.fd, k.c.arena, KVSLAB_MAP_READ, 0, EXTENT, PROT_READ);
	must(!!w, "a read-only window");
	if (!syscall(SYS_remap_file_pages, w, EXTENT, 0,
		     (KVSLAB_MAP_ARENA(k.c.arena) | KVSLAB_MAP_WRITE |
		      (u64)KVSLAB_HANDLE_EXTENT(sealed) * EXTENT) /
			     FRAME,
		     0)) {
		mprotect(w, EXTENT, PROT_READ | PROT_WRITE);
		ok(ks_write(w + (u64)KVSLAB_HANDLE_INDEX(sealed) * SIZE, 1) != 0,
		   "remap_file_pages() opens no way to a sealed page");
	} else {
		ok(1, "remap_file_pages() is refused");
	}
	munmap(w, EXTENT);
}

static bool refused(u64 window, u64 offset, u64 size, int prot, int flags, int want)
{
	void *p = mmap(NULL, size, prot, flags, k.fd, KVSLAB_MAP_ARENA(k.c.arena) + window + offset);

	if (p == MAP_FAILED && (errno == want || (want == EPERM && errno == EACCES)))
		return true;
	note("window %llx offset %llx size %llx prot %d flags %d: %s, not %s", (unsigned long long)window,
	     (unsigned long long)offset, (unsigned long long)size, prot, flags,
	     p == MAP_FAILED ? strerror(errno) : "mapped", strerror(want));
	if (p != MAP_FAILED)
		munmap(p, size);
	return false;
}

static void odd(void)
{
	const u64 R = KVSLAB_MAP_READ, W = KVSLAB_MAP_WRITE, all = k.c.arena_size;
	const int rw = PROT_READ | PROT_WRITE;
	u8 *p;

	ok(refused(R, 0, all + FRAME, PROT_READ, MAP_SHARED, EINVAL) && refused(W, 0, all + FRAME, rw, MAP_SHARED, EINVAL) &&
		   refused(R, FRAME, all, PROT_READ, MAP_SHARED, EINVAL) && refused(R, all, FRAME, PROT_READ, MAP_SHARED, EINVAL) &&
		   refused(W, all - FRAME, 2 * FRAME, rw, MAP_SHARED, EINVAL),
	   "nothing beyond the arena's end");
	ok(refused(R, 1, FRAME, PROT_READ, MAP_SHARED, EINVAL) && refused(W, 512, FRAME, rw, MAP_SHARED, EINVAL),
	   "no offset within a frame");
	ok(refused(R, 0, FRAME, PROT_READ, MAP_PRIVATE, EINVAL) && refused(W, 0, FRAME, rw, MAP_PRIVATE, EINVAL),
	   "no private mapping");
	ok(refused(R, 0, FRAME, PROT_READ | PROT_EXEC, MAP_SHARED, EPERM) &&
		   refused(W, 0, FRAME, rw | PROT_EXEC, MAP_SHARED, EPERM),
	   "no execution");
	ok(mprotect(k.r, FRAME, PROT_READ | PROT_EXEC) == -1 && mprotect(k.w, FRAME, rw | PROT_EXEC) == -1,
	   "not even afterwards");
	ok(refused(R, 0, FRAME, rw, MAP_SHARED, EPERM) && mprotect(k.r, FRAME, rw) == -1,
	   "the read-only window cannot be made writable");
	ok(refused(KVSLAB_MAP_ARENA(1), 0, FRAME, PROT_READ, MAP_SHARED, EINVAL) &&
		   refused(KVSLAB_MAP_ARENA(33) | W, 0, FRAME, rw, MAP_SHARED, EINVAL) &&
		   refused(1ull << 49, 0, FRAME, PROT_READ, MAP_SHARED, EINVAL) &&
		   refused(1ull << 62, 0, FRAME, PROT_READ, MAP_SHARED, EINVAL),
	   "no arena that is not there");
	/* A part of an extent, that begins in the middle of a page. */
	p = ks_map(k.fd, k.c.arena, W, (u64)KVSLAB_HANDLE_EXTENT(mine) * EXTENT + KVSLAB_HANDLE_INDEX(mine) * SIZE + FRAME,
		   2 * FRAME, rw);
	ks_fill(ks_at(&k, k.w, mine), SIZE, 4);
	ok(p && ks_filled(p, 2 * FRAME, 4 + FRAME / 8) && ks_write(p, 3) == 0 && ks_at(&k, k.r, mine)[FRAME] == 3,
	   "a window of two frames in the middle of a page");
	munmap(p, 2 * FRAME);
	p = mmap(NULL, 4 * EXTENT, PROT_READ, MAP_SHARED | MAP_POPULATE, k.fd, KVSLAB_MAP_ARENA(k.c.arena) | R);
	ok(p != MAP_FAILED, "MAP_POPULATE is harmless");
	munmap(p, 4 * EXTENT);
}

static void read_only(void)
{
	int fd = ks_open("windows", O_RDONLY), wo = ks_open("windows", O_WRONLY);
	u8 *r;

	must(fd >= 0 && wo >= 0, "descriptors");
	ok(!ks_map(fd, k.c.arena, KVSLAB_MAP_WRITE, 0, FRAME, PROT_READ | PROT_WRITE) &&
		   !ks_map(fd, k.c.arena, KVSLAB_MAP_WRITE, 0, FRAME, PROT_WRITE) &&
		   !ks_map(fd, k.c.arena, KVSLAB_MAP_WRITE, 0, FRAME, PROT_READ),
	   "O_RDONLY: no writable window");
	r = ks_map(fd, k.c.arena, KVSLAB_MAP_READ, (u64)KVSLAB_HANDLE_EXTENT(sealed) * EXTENT, EXTENT, PROT_READ);
	ok(r && ks_filled(r + KVSLAB_HANDLE_INDEX(sealed) * SIZE, SIZE, 1), "O_RDONLY: the read-only one");
	ok(r && mprotect(r, FRAME, PROT_READ | PROT_WRITE) == -1, "O_RDONLY: which stays so");
	ok(!ks_map(wo, k.c.arena, KVSLAB_MAP_READ, 0, FRAME, PROT_READ) &&
		   !ks_map(wo, k.c.arena, KVSLAB_MAP_WRITE, 0, FRAME, PROT_WRITE),
	   "O_WRONLY: none");
	if (r)
		munmap(r, EXTENT);
	close(fd);
	close(wo);
}

static void counters(void)
{
	volatile struct kvslab_counters *c = mmap(NULL, FRAME, PROT_READ, MAP_SHARED, k.fd, KVSLAB_MAP_COUNTERS);
	struct kvslab_stat_pool s;

	must(c != MAP_FAILED, "the counters can be mapped");
	ok(c->version == KVSLAB_UAPI_VERSION && !(c->seq & 1), "they have a version, and rest");
	ok(!ks_stat(k.fd, &s) && c->held == s.held && c->max == s.max && c->min == s.min && c->high == s.high &&
		   c->low == s.low,
	   "and say what STAT says: held %llu and %llu", (unsigned long long)c->held, (unsigned long long)s.held);
	ok(mprotect((void *)c, FRAME, PROT_READ | PROT_WRITE) == -1 && ks_write((void *)c, 1) == SIGSEGV &&
		   mmap(NULL, FRAME, PROT_READ | PROT_WRITE, MAP_SHARED, k.fd, KVSLAB_MAP_COUNTERS) == MAP_FAILED &&
		   mmap(NULL, 2 * FRAME, PROT_READ, MAP_SHARED, k.fd, KVSLAB_MAP_COUNTERS) == MAP_FAILED,
	   "nobody writes them, and there is no second frame");
	munmap((void *)c, FRAME);
}

/* Last: it closes the client. */
static void ends(void)
{
	u64 page;

	must(ks_alloc(k.fd, k.c.id, &page, 1, 0) == 1, "a page");
	ks_fill(ks_at(&k, k.w, page), SIZE, 6);
	close(k.fd);
	ok(clients() == 2, "a client lives by its mappings alone");
	ok(ks_filled(ks_at(&k, k.w, page), SIZE, 6) && ks_write(ks_at(&k, k.w, page) + SIZE - 1, 1) == 0,
	   "which still show its pages");
	munmap(k.w, k.c.arena_size);
	ok(two_clients(NULL) && private_pages() == 2, "by one of them");
	/* In parts, the middle first. */
	munmap(k.r + EXTENT, EXTENT);
	munmap(k.r, EXTENT);
	ok(two_clients(NULL), "by a part of one");
	munmap(k.r + 2 * EXTENT, k.c.arena_size - 2 * EXTENT);
	ok(ks_until(one_client, NULL, 5) && private_pages() == 0, "and ends with the last of them");
}

int main(void)
{
	must(!ks_pool("windows", 0, 16 << 20, 0600), "a pool");
	must(!ks_client(&k, "windows", SIZE) && !ks_client(&watch, "windows", SIZE), "clients");
	must(ks_alloc(k.fd, k.c.id, &mine, 1, 0) == 1 && ks_alloc(k.fd, k.c.id, &sealed, 1, 0) == 1, "pages");
	ks_fill(ks_at(&k, k.w, sealed), SIZE, 1);
	must(ks_seal_one(k.fd, &sealed, 1, 1) >= 0, "sealed");
	odd();
	forks(); /* before the advice to inherit */
	advice();
	moves();
	read_only();
	counters();
	ends();
	ks_close(&watch);
	return done();
}
