// SPDX-License-Identifier: GPL-2.0
/*
 * Memory pressure: what is cached and what is empty goes back to the system, what is used stays,
 * and nobody is killed. When the system as a whole is short, and when a memory cgroup is at its
 * limit. Memory that comes back to another pool is zero.
 */
#include <sys/stat.h>

#include "ks.h"

#define SIZE (256u << 10)
#define PER_SLAB (EXTENT / SIZE)
#define GROUP "/sys/fs/cgroup/pressed"

static u64 read_number(const char *path, const char *key)
{
	char text[8192], *at = text;

	if (ks_read_file(path, text, sizeof(text)) < 0)
		return ~0ull;
	if (key) {
		char line[64];

		snprintf(line, sizeof(line), "%s", key);
		at = strstr(text, line);
		if (!at)
			return ~0ull;
		at += strlen(line);
		while (*at == ' ' || *at == ':')
			at++;
	}
	return strtoull(at, NULL, 10);
}

static u64 available(void)
{
	return read_number("/proc/meminfo", "MemAvailable") << 10;
}

static u64 vm_kills(void)
{
	return read_number("/proc/vmstat", "\noom_kill");
}

static struct ks_client k;
static u64 used[2 * PER_SLAB], *cached;

/* @n extents of cached pages, and two extents whose pages are in use: private and sealed. */
static u32 fill(u32 n, u64 tag)
{
	u32 i;

	cached = calloc(n * PER_SLAB, sizeof(*cached));
	must(ks_alloc(k.fd, k.c.id, used, COUNT(used), 0) == COUNT(used), "pages to use");
	for (i = 0; i < COUNT(used); i++) {
		ks_fill(ks_at(&k, k.w, used[i]), SIZE, tag + i);
		if (i < PER_SLAB)
			must(ks_seal_one(k.fd, &used[i], tag, ~(u64)i) >= 0, "sealed");
	}
	for (i = 0; i < n * PER_SLAB; i++) {
		if (ks_alloc(k.fd, k.c.id, &cached[i], 1, 0) != 1)
			break;
		*(u64 *)ks_at(&k, k.w, cached[i]) = tag + i;
		must(ks_seal_one(k.fd, &cached[i], tag, i) >= 0, "sealed");
		must(ks_free(k.fd, &cached[i], 1) >= 0, "cached");
	}
	return i / PER_SLAB;
}

static bool used_stay(u64 tag)
{
	bool good = true;
	u32 i;

	for (i = 0; i < COUNT(used); i++)
		good &= ks_filled(ks_at(&k, k.r, used[i]), SIZE, tag + i);
	return good;
}

static struct kvslab_stat_pool stat_now(void)
{
	struct kvslab_stat_pool s = { 0 };

	ks_stat(k.fd, &s);
	return s;
}

/* Touches @arg MiB. */
static int eat(void *arg)
{
	u64 n = (uintptr_t)arg << 20, i;
	u8 *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return 1;
	ks_write_file("/proc/self/oom_score_adj", "1000");
	for (i = 0; i < n; i += FRAME)
		p[i] = 1;
	return 0;
}

static int eat_in_group(void *arg)
{
	if (ks_write_file(GROUP "/cgroup.procs", "0"))
		return 2;
	return eat(arg);
}

static void by_hand(u64 tag)
{
	struct kvslab_stat_pool before = stat_now(), after;
	u64 was = available();
	int i;

	/* The system's own way of asking every shrinker. */
	for (i = 0; i < 20 && stat_now().cached; i++)
		ks_write_file("/proc/sys/vm/drop_caches", "2");
	after = stat_now();
	ok(after.cached < before.cached / 8, "asked to shrink, it gives cached pages back: %llu of %llu are left",
	   (unsigned long long)after.cached, (unsigned long long)before.cached);
	ok(after.slabs <= 3 && after.reclaimed >= before.slabs - 3, "whole extents: %llu slabs, %llu reclaimed",
	   (unsigned long long)after.slabs, (unsigned long long)after.reclaimed);
	ok(available() > was + (before.slabs - after.slabs) * EXTENT / 2, "and the system has them");
	ok(after.private_pages == before.private_pages && after.sealed == before.sealed && used_stay(tag),
	   "what is in use stays");
	ok(ks_adds_up(k.fd), "counts add up");
}

static void global(u64 tag)
{
	u64 kills = vm_kills(), free_now, n;
	struct kvslab_stat_pool before, after;
	int r;

	before = stat_now();
	free_now = available();
	/* More than is free without the cache, less than there is with it. */
	n = (free_now + (before.slabs - 4) * EXTENT / 2) >> 20;
	note("%llu MiB available, %llu MiB cached, %llu MiB wanted", (unsigned long long)free_now >> 20,
	     (unsigned long long)before.slabs * 2, (unsigned long long)n);
	r = ks_wait(ks_child(eat, (void *)(uintptr_t)n));
	after = stat_now();
	ok(r == 0, "a process gets memory that was cached: %d", r);
	ok(vm_kills() == kills, "nobody is killed for it");
	ok(after.slabs < before.slabs, "%llu slabs were %llu", (unsigned long long)after.slabs,
	   (unsigned long long)before.slabs);
	ok(after.private_pages == before.private_pages && after.sealed == before.sealed && used_stay(tag),
	   "what is in use stays");
	ok(ks_adds_up(k.fd), "counts add up");
}

static void group(u64 seed)
{
	struct kvslab_args_create a = { .max = 256 << 20, .mode = 0600, .node = -1, .flags = KVSLAB_POOL_CGROUP };
	struct kvslab_stat_pool before, after;
	u64 tag = rnd(&seed);
	u64 kills = vm_kills();
	u32 n;
	int r, fd;

	mkdir(GROUP, 0755);
	must(!ks_write_file(GROUP "/memory.max", "96M"), "a memory cgroup");
	fd = open(GROUP, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	strcpy(a.name, "pressed");
	a.cgroup_fd = fd;
	r = ks_cmd(ks_control(), KVSLAB_CTL_CREATE, &a, sizeof(a));
	must(fd >= 0 && !r, "a pool that is charged to it: %d", r);
	close(fd);
	must(!ks_client(&k, "pressed", SIZE), "a client");
	n = fill(40, tag);
	before = stat_now();
	ok(n == 40 && read_number(GROUP "/memory.current", NULL) >= before.slabs * EXTENT,
	   "the cgroup pays for the pool: %llu MiB",
	   (unsigned long long)read_number(GROUP "/memory.current", NULL) >> 20);
	/* 84 MiB of 96 are the pool's. */
	r = ks_wait(ks_child(eat_in_group, (void *)64));
	after = stat_now();
	ok(r == 0, "a process in the cgroup gets memory that was cached: %d", r);
	ok(vm_kills() == kills && read_number(GROUP "/memory.events", "oom_kill") == 0, "nobody is killed for it");
	ok(after.slabs < before.slabs, "%llu slabs were %llu", (unsigned long long)after.slabs,
	   (unsigned long long)before.slabs);
	ok(after.private_pages == before.private_pages && after.sealed == before.sealed && used_stay(tag),
	   "what is in use stays");
	ok(ks_adds_up(k.fd), "counts add up");

	/* And the other way round: the pool wants more than the cgroup has left. */
	{
		u64 *pages = calloc(512, sizeof(*pages)), got = 0;
		long r2 = 1;

		while (got < 512 && (r2 = ks_alloc(k.fd, k.c.id, pages + got, 8, 0)) == 8)
			got += 8;
		ok(r2 == -ENOMEM, "at the limit ALLOC fails with ENOMEM, after %llu pages: %ld",
		   (unsigned long long)got, r2);
		ok(got >= 200 && got <= 384, "having had what the cgroup has");
		ok(vm_kills() == kills && read_number(GROUP "/memory.events", "oom_kill") == 0, "and nobody is killed");
		before = stat_now();
		r2 = ks_alloc(k.fd, k.c.id, pages + got, 64, 0);
		after = stat_now();
		ok(r2 == -ENOMEM && after.private_pages == before.private_pages, "a batch fails as a whole: %ld", r2);
		ok(ks_free(k.fd, pages, got) >= 0 && ks_adds_up(k.fd), "counts add up");
		free(pages);
	}
	ks_close(&k);
	ok(!ks_destroy("pressed", 0), "the pool can go");
	ok(read_number(GROUP "/memory.current", NULL) < 8 << 20, "and the cgroup pays no more: %llu KiB",
	   (unsigned long long)read_number(GROUP "/memory.current", NULL) >> 10);
	ok(!rmdir(GROUP), "the cgroup can go");
}

static void zeros(void)
{
	u64 pages[64];
	bool good = true;
	long n, i, j;

	must(!ks_pool("next", 0, 64 << 20, 0600) && !ks_client(&k, "next", SIZE), "another pool");
	n = ks_alloc(k.fd, k.c.id, pages, COUNT(pages), KVSLAB_ALLOC_PARTIAL);
	for (i = 0; i < n; i++) {
		const u64 *word = (const u64 *)ks_at(&k, k.r, pages[i]);

		for (j = 0; j < SIZE / 8; j++)
			good &= word[j] == 0;
	}
	ok(n > 0 && good, "memory that comes to another pool is zero: %ld pages", n);
	ks_close(&k);
}

int main(int argc, char **argv)
{
	u64 seed = ks_seed(argc, argv), tag = rnd(&seed);
	struct kvslab_stat_pool s;
	u32 n;

	must(!ks_pool("cache", 0, ~0ull >> 1, 0600) || !ks_pool("cache", 0, 256 << 20, 0600), "a pool");
	must(!ks_client(&k, "cache", SIZE), "a client");
	s = stat_now();
	note("an arena of %llu MiB", (unsigned long long)s.arena_extents * 2);
	n = fill(30, tag);
	ok(n == 30, "60 MiB of cached pages");
	by_hand(tag);
	must(ks_free(k.fd, used, COUNT(used)) >= 0, "freed");
	tag = rnd(&seed);
	n = fill(100, tag);
	ok(n >= 50, "%u MiB of cached pages", n * 2);
	global(tag);
	ks_close(&k);
	zeros();
	group(rnd(&seed));
	return done();
}
