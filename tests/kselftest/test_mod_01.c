// SPDX-License-Identifier: GPL-2.0
/*
 * The module comes and goes: refused while somebody has a file, a mapping, a dma-buf or a command in
 * flight; 200 times; with 150 pools at once.
 */
#include <dirent.h>
#include <liburing.h>

#include "ks.h"

#define SIZE (64u << 10)
#define POOLS 150

static bool unloads(void *arg)
{
	(void)arg;
	return ks_unload() == 0;
}

static int nodes(void)
{
	DIR *d = opendir("/dev/kvslab");
	struct dirent *e;
	int n = 0;

	while (d && (e = readdir(d)))
		n += e->d_name[0] != '.';
	if (d)
		closedir(d);
	return n;
}

/* In a child: the control node's descriptor and the rings must not keep the module. */
static int holds(void *arg)
{
	struct kvslab_args_create a = { .max = 8 << 20, .mode = 0600, .node = -1, .name = "held" };
	struct kvslab_args_destroy d = { .name = "held", .flags = KVSLAB_DESTROY_FORCE };
	int control = open("/dev/kvslab/control", O_RDWR | O_CLOEXEC), kind = (intptr_t)arg, r, buf = -1;
	struct kvslab_args_cache c = { .page_size = SIZE };
	struct kvslab_args_export e = { 0 };
	void *p = NULL;
	int fd;

	if (ks_cmd(control, KVSLAB_CTL_CREATE, &a, sizeof(a)))
		return 1;
	fd = ks_open("held", O_RDWR);
	if (fd < 0 || ks_cmd(fd, KVSLAB_CMD_CACHE, &c, sizeof(c)) < 0)
		return 2;
	if (kind == 1) { /* a mapping, the file closed */
		p = ks_map(fd, c.arena, KVSLAB_MAP_WRITE, 0, EXTENT, PROT_READ | PROT_WRITE);
		if (!p)
			return 3;
		close(fd);
	} else if (kind == 2) { /* a dma-buf, the file closed */
		c.page_size = 2 * SIZE;
		c.flags = KVSLAB_CACHE_PINNED;
		c.slabs = 1;
		r = ks_cmd(fd, KVSLAB_CMD_CACHE, &c, sizeof(c));
		if (r < 0)
			return r == -EOPNOTSUPP ? 77 : 4;
		e.cache = c.id;
		for (e.extent = 0; e.extent < c.arena_size / EXTENT; e.extent++) {
			buf = ks_cmd(fd, KVSLAB_CMD_EXPORT, &e, sizeof(e));
			if (buf != -ENOENT)
				break;
		}
		if (buf < 0)
			return buf == -EOPNOTSUPP || buf == -ENOTTY ? 77 : 5;
		close(fd);
	} else if (kind == 3) { /* the pool by force destroyed, the file open */
		if (ks_cmd(control, KVSLAB_CTL_DESTROY, &d, sizeof(d)))
			return 6;
	}
	if (kind != 3) {
		/* Dead or alive, whoever holds something keeps the module. */
		d.flags = KVSLAB_DESTROY_FORCE;
		if (ks_cmd(control, KVSLAB_CTL_DESTROY, &d, sizeof(d)))
			return 7;
	}
	close(control);
	r = ks_unload();
	if (r != -EWOULDBLOCK && r != -EBUSY)
		return 8;
	if (kind == 2)
		close(buf);
	if (p)
		munmap(p, EXTENT);
	else if (kind != 2)
		close(fd);
	return 0;
}

int main(void)
{
	static const char *const kinds[] = { "an open file", "a mapping", "a dma-buf", "a dead pool's file" };
	char name[KVSLAB_NAME_SIZE];
	int i, r, times = ks_long() ? 200 : 25, bad = 0;
	double began;

	/* Nobody has opened the control node in this process. */
	for (i = 0; i < (int)COUNT(kinds); i++) {
		r = ks_wait(ks_child(holds, (void *)(intptr_t)i));
		if (r == 77) {
			ok(1, "%s # SKIP this module has no EXPORT", kinds[i]);
			continue;
		}
		ok(r == 0, "rmmod is refused because of %s: %d", kinds[i], r);
		ok(ks_until(unloads, NULL, 10), "and done without it");
		ok(nodes() == 0, "its nodes are gone");
		must(!ks_load("extents=160"), "loaded again");
	}
	/* The control node alone. */
	{
		int fd = ks_open("control", O_RDWR);

		must(fd >= 0, "the control node");
		ok(ks_unload() != 0, "rmmod is refused because of the control node");
		close(fd);
	}
	began = ks_now();
	for (i = 0; i < times && !bad; i++) {
		bad += !ks_until(unloads, NULL, 5);
		bad += ks_load("extents=160") != 0;
	}
	note("%d times in %.1f s", i, ks_now() - began);
	ok(!bad, "loaded and unloaded %d times", i);

	for (i = 0; i < POOLS; i++) {
		struct ks_client k;
		u64 page;

		snprintf(name, sizeof(name), "pool-%d", i);
		r = ks_pool(name, 0, 2 << 20, 0600);
		if (r)
			break;
		/* Each of them works: one in ten gets a page. */
		if (i % 10 == 0) {
			bad += ks_client(&k, name, SIZE) || ks_alloc(k.fd, k.c.id, &page, 1, 0) != 1 ||
			       ks_write(ks_at(&k, k.w, page), i);
			ks_close(&k);
		}
	}
	ok(i == POOLS && !bad, "%d pools at once: %d", i, r);
	ok(nodes() == POOLS + 1, "each with its node: %d", nodes());
	{
		static struct kvslab_stat_pool pools[POOLS];
		struct kvslab_args_list list = { .pools = (uintptr_t)pools, .count = 3 };

		r = ks_cmd(ks_control(), KVSLAB_CTL_LIST, &list, sizeof(list));
		ok(r == POOLS, "LIST says how many, though fewer fit: %d", r);
		list.count = POOLS;
		r = ks_cmd(ks_control(), KVSLAB_CTL_LIST, &list, sizeof(list));
		ok(r == POOLS && !strncmp(pools[POOLS - 1].name, "pool-", 5), "and lists them: %d", r);
	}
	return done();
}
