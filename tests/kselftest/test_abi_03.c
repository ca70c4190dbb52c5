// SPDX-License-Identifier: GPL-2.0
/*
 * A 32-bit client: built with -m32 and without a C library, which the machine that builds it may
 * lack for this width. The structures have the same layout, the same commands work, the windows can
 * be reached.
 */
#include <linux/types.h>

#include "kvslab.h"

#define SAME(type, size) _Static_assert(sizeof(struct type) == (size), #type)
SAME(kvslab_cmd, 16);
SAME(kvslab_args_cache, 80);
SAME(kvslab_args_alloc, 24);
SAME(kvslab_args_pages, 16);
SAME(kvslab_seal_entry, 80);
SAME(kvslab_args_seal, 16);
SAME(kvslab_args_lookup, 32);
SAME(kvslab_stat_slab, 24);
SAME(kvslab_args_slabs, 24);
SAME(kvslab_args_create, 104);
SAME(kvslab_args_import, 64);
SAME(kvslab_args_deposit, 16);
SAME(kvslab_args_receive, 8);
SAME(kvslab_stat_arena, 160);
SAME(kvslab_args_destroy, 40);
_Static_assert(sizeof(void *) == 4, "this test is for 32 bits");

#define O_RDWR 2
#define MAP_SHARED 1
#define PROT_READ 1
#define PROT_WRITE 2
#define SIZE (64u << 10)

static long call(long nr, long a, long b, long c, long d, long e, long f)
{
	long both[2] = { nr, f }, r;

	/* The sixth argument goes into ebp, which the compiler does not lend. */
	__asm__ volatile("push %%ebp; mov 4(%%eax), %%ebp; mov (%%eax), %%eax; int $0x80; pop %%ebp"
			 : "=a"(r)
			 : "a"(both), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e)
			 : "memory");
	return r;
}

static unsigned int length(const char *s)
{
	unsigned int n = 0;

	while (s[n])
		n++;
	return n;
}

static void say(const char *s)
{
	call(4, 1, (long)s, length(s), 0, 0, 0);
}

static int n, failed;

static void say_number(long v)
{
	char text[16], *p = text + sizeof(text) - 1;
	unsigned long u = v < 0 ? -v : v;

	*p = 0;
	do
		*--p = '0' + u % 10;
	while (u /= 10);
	if (v < 0)
		*--p = '-';
	say(p);
}

static void ok(int good, const char *what)
{
	n++;
	failed += !good;
	say(good ? "ok " : "not ok ");
	say_number(n);
	say(" - ");
	say(what);
	say("\n");
}

static long command(int fd, unsigned int op, void *args, unsigned int size)
{
	struct kvslab_cmd cmd = { .args = (unsigned long)args, .size = size };

	return call(54, fd, op, (long)&cmd, 0, 0, 0);
}

static unsigned char *map(int fd, __u64 offset, unsigned long size, int prot)
{
	long r = call(192, 0, size, prot, MAP_SHARED, fd, (long)(offset >> 12));

	return r < 0 && r > -4096 ? 0 : (unsigned char *)r;
}

static void copy(void *to, const void *from, unsigned int size)
{
	unsigned int i;

	for (i = 0; i < size; i++)
		((volatile char *)to)[i] = ((const char *)from)[i];
}

__attribute__((used)) void start(void)
{
	static struct kvslab_args_create create = { .max = 8 << 20, .mode = 0600, .node = -1 };
	static struct kvslab_args_destroy destroy;
	static struct kvslab_args_cache cache = { .page_size = SIZE };
	static struct kvslab_args_alloc alloc;
	static struct kvslab_args_pages pages;
	static struct kvslab_args_seal seal;
	static struct kvslab_args_lookup lookup;
	static struct kvslab_seal_entry entry;
	static struct kvslab_args_stat stat;
	static __u64 page, found;
	unsigned char *r, *w;
	__u64 at;
	long control, fd;
	int i, good = 1;

	copy(create.name, "narrow", 7);
	copy(destroy.name, "narrow", 7);
	control = call(5, (long)"/dev/kvslab/control", O_RDWR, 0, 0, 0, 0);
	ok(control >= 0, "the control node opens");
	ok(command(control, KVSLAB_CTL_CREATE, &create, sizeof(create)) == 0, "CREATE");
	fd = call(5, (long)"/dev/kvslab/narrow", O_RDWR, 0, 0, 0, 0);
	ok(fd >= 0 && command(fd, KVSLAB_CMD_CACHE, &cache, sizeof(cache)) >= 0 && cache.pages_per_slab == 32, "CACHE");
	alloc.pages = (unsigned long)&page;
	alloc.cache = cache.id;
	alloc.count = 1;
	ok(command(fd, KVSLAB_CMD_ALLOC, &alloc, sizeof(alloc)) == 1 && page, "ALLOC");
	/* An extent of each window: the whole arena may not fit into 32 bits. */
	at = KVSLAB_MAP_ARENA(cache.arena) + (__u64)KVSLAB_HANDLE_EXTENT(page) * KVSLAB_CMD_EXTENT;
	w = map(fd, at | KVSLAB_MAP_WRITE, KVSLAB_CMD_EXTENT, PROT_READ | PROT_WRITE);
	r = map(fd, at | KVSLAB_MAP_READ, KVSLAB_CMD_EXTENT, PROT_READ);
	ok(w && r, "both windows");
	if (w && r) {
		w += KVSLAB_HANDLE_INDEX(page) * SIZE;
		r += KVSLAB_HANDLE_INDEX(page) * SIZE;
		for (i = 0; i < (int)SIZE; i += 64)
			w[i] = i >> 6;
		for (i = 0; i < (int)SIZE; i += 64)
			good &= r[i] == (unsigned char)(i >> 6);
		ok(good, "the same bytes in both");
	}
	entry.page = page;
	entry.flags = KVSLAB_SEAL_FIRST;
	entry.hash[0] = 3;
	seal.seals = (unsigned long)&entry;
	seal.count = 1;
	ok(command(fd, KVSLAB_CMD_SEAL, &seal, sizeof(seal)) >= 0, "SEAL");
	lookup.hashes = (unsigned long)entry.hash;
	lookup.pages = (unsigned long)&found;
	lookup.cache = cache.id;
	lookup.count = 1;
	ok(command(fd, KVSLAB_CMD_LOOKUP, &lookup, sizeof(lookup)) == 1 && found == entry.page, "LOOKUP");
	pages.pages = (unsigned long)&found;
	pages.count = 1;
	ok(command(fd, KVSLAB_CMD_GET, &pages, sizeof(pages)) >= 0, "GET");
	ok(command(fd, KVSLAB_CMD_STAT, &stat, sizeof(stat)) >= 0 && stat.pool.sealed == 1, "STAT");
	for (i = 0; i < 3; i++)
		good &= command(fd, KVSLAB_CMD_FREE, &pages, sizeof(pages)) >= 0;
	ok(good, "FREE");
	ok(command(control, KVSLAB_CTL_DESTROY, &destroy, sizeof(destroy)) == -16, "a pool in use is not destroyed");
	destroy.flags = KVSLAB_DESTROY_FORCE;
	ok(command(control, KVSLAB_CTL_DESTROY, &destroy, sizeof(destroy)) == 0, "DESTROY by force");
	ok(command(fd, KVSLAB_CMD_NOP, 0, 0) == -19, "then ENODEV");
	say("1..");
	say_number(n);
	say("\n");
	call(1, failed ? 1 : 0, 0, 0, 0, 0, 0);
}

/* The stack as a function wants it. */
__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tand $-16, %esp\n\tcall start\n\thlt\n");
