// SPDX-License-Identifier: GPL-2.0
/*
 * Device memory: a dma-buf that refuses everything becomes an arena, and its exporter is never asked for
 * anything. Pages of it like others'; limits; refusals; the importer's end while others hold pages; numbers
 * that serve again; what keeps modules.
 */
#include <poll.h>
#include <stddef.h>

#include "dev.h"

#define SIZE (340u << 10) /* six pages an extent */
#define EXTENTS 4

static struct kvslab_stat_arena st;

static void is(long r, long want, const char *what)
{
	ok(r == want, "%s: %ld", what, r);
}

static void import_refuses(int fd)
{
	struct kvslab_args_import a = { .tier = KVSLAB_TIER_DEVICE };
	int ro = ks_open("dev", O_RDONLY), big = dev_buf((u64)EXTENT << 21, -1), odd = dev_buf(EXTENT + FRAME, -1);
	int good = dev_buf(EXTENT, -1), null = open("/dev/null", O_RDWR | O_CLOEXEC);
	u8 *unwritable = mmap(NULL, FRAME, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long r;

	is(dev_import(ro, good, ""), -EPERM, "a descriptor open for reading");
	is(dev_import(fd, -1, ""), -EBADF, "no descriptor");
	is(dev_import(fd, null, ""), -EINVAL, "no dma-buf");
	is(dev_import(fd, fd, ""), -EINVAL, "a pool's node");
	is(dev_import(fd, odd, ""), -EINVAL, "a size that is no multiple of an extent");
	is(dev_import(fd, big, ""), -EFBIG, "more than 2^20 extents");
	a.fd = good;
	a.tier = KVSLAB_TIER_HOST;
	is(ks_cmd(fd, KVSLAB_CMD_IMPORT, &a, sizeof(a)), -EINVAL, "host memory");
	a.tier = KVSLAB_TIER_DEVICE;
	a.flags = 1;
	is(ks_cmd(fd, KVSLAB_CMD_IMPORT, &a, sizeof(a)), -EINVAL, "an unknown flag");
	a.flags = 0;
	a.reserved = 1;
	is(ks_cmd(fd, KVSLAB_CMD_IMPORT, &a, sizeof(a)), -EINVAL, "a reserved field");
	a.reserved = 0;
	memcpy(unwritable, &a, sizeof(a));
	mprotect(unwritable, FRAME, PROT_READ);
	r = ks_cmd(fd, KVSLAB_CMD_IMPORT, unwritable, sizeof(a));
	ok(r == -EFAULT && !dev_arenas(fd, NULL, 0), "an answer that cannot be written leaves no arena: %ld", r);
	ok(!dev_set_max("dev", 0) && dev_import(fd, good, "") == -EACCES, "a pool that takes none");
	ok(!dev_set_max("dev", EXTENT - 1) && dev_import(fd, good, "") == -EACCES, "or less than an extent");
	close(good);
	good = dev_buf(3 * EXTENT, -1);
	ok(!dev_set_max("dev", 2 * EXTENT) && dev_import(fd, good, "") == -EDQUOT, "a limit of two extents, and three");
	close(ro);
	close(big);
	close(odd);
	close(good);
	close(null);
	munmap(unwritable, FRAME);
	ok(dev_count().alive == 0, "none of them is kept");
}

/* Pages go through all their states; @k is the host's client of the same file. */
static void pages(struct ks_client *k, struct ks_client *other, u32 arena)
{
	u64 p[EXTENTS * 6 + 1], found[2], host;
	struct kvslab_args_cache c, c2;
	struct kvslab_stat_slab slabs[8];
	struct kvslab_args_slabs s = { .slabs = (uintptr_t)slabs, .count = 8, .arena = arena };
	u8 h[2][HASH];
	u32 i, wrong = 0;
	long r;

	must(!dev_cache(k->fd, arena, SIZE, &c), "a cache in it");
	ok(c.arena == arena && c.arena_size == EXTENTS * EXTENT && c.pages_per_slab == 6 && c.id >> 8 == arena,
	   "its id, arena and size: %u, %u, %llu", c.id, c.arena, (unsigned long long)c.arena_size);
	ok(!dev_cache(other->fd, arena, SIZE, &c2) && c2.id == c.id && !memcmp(c2.key, c.key, sizeof(c.key)),
	   "the other client finds the same");
	r = ks_alloc(k->fd, c.id, p, EXTENTS * 6, 0);
	for (i = 0; i < EXTENTS * 6; i++)
		wrong += KVSLAB_HANDLE_ARENA(p[i]) != arena || KVSLAB_HANDLE_EXTENT(p[i]) >= EXTENTS;
	ok(r == EXTENTS * 6 && !wrong, "all of its pages: %ld", r);
	is(ks_alloc(other->fd, c.id, &p[EXTENTS * 6], 1, 0), -ENOSPC, "one more is ENOSPC");
	ok(dev_arena(other->fd, arena, &st) && st.private_pages == EXTENTS * 6 && st.held == EXTENTS &&
		   st.size == EXTENTS * EXTENT && !(st.flags & KVSLAB_ARENA_MINE) && !strcmp((char *)st.note, "first"),
	   "STAT says so, and by whom: %llu pages, note %s", (unsigned long long)st.private_pages, st.note);
	r = ks_cmd(other->fd, KVSLAB_CMD_SLABS, &s, sizeof(s));
	ok(r == EXTENTS && slabs[0].cache == c.id && slabs[0].private_pages == 6, "SLABS of the arena: %ld", r);
	s.arena = arena + 1;
	is(ks_cmd(other->fd, KVSLAB_CMD_SLABS, &s, sizeof(s)), -ENODEV, "of one that is not there");
	ok(ks_free(other->fd, p, 1) == -EBADF && ks_get(other->fd, p, 1) == -EBADF, "the other one has no say");
	ok(ks_alloc(k->fd, k->c.id, &host, 1, 0) == 1, "a host page");
	{
		u64 both[2] = { p[0], host }, reverse[2] = { host, p[0] };

		ok(ks_free(k->fd, both, 2) == -EBADF && ks_free(k->fd, reverse, 2) == -EBADF,
		   "pages of two arenas in one command are EBADF");
	}
	ok(ks_seal_one(k->fd, &p[0], 1, 1) >= 0 && ks_seal_one(k->fd, &p[1], 1, 2) >= 0, "two are sealed");
	ks_hash(h[0], 1, 1);
	ks_hash(h[1], 1, 2);
	r = ks_lookup(other->fd, c.id, h, found, 2);
	ok(r == 2 && found[0] == p[0] && found[1] == p[1], "and found by the other: %ld", r);
	ok(!ks_lookup(k->fd, k->c.id, h, found, 1), "not in host memory");
	ok(!ks_get(other->fd, p, 2) && !ks_free(other->fd, p, 2) && !ks_free(other->fd, p, 2), "GET and FREE");
	ok(!ks_free(k->fd, p, EXTENTS * 6) && dev_arena(k->fd, arena, &st) && st.cached == 2 && !st.private_pages,
	   "all given back: two are cached");
	ok(ks_free(k->fd, p, 1) == -EBADF || ks_free(k->fd, p, 1) == -ESTALE, "not twice");
	r = ks_alloc(other->fd, c.id, p, EXTENTS * 6, 0);
	ok(r == EXTENTS * 6 && dev_arena(k->fd, arena, &st) && st.evictions == 2, "all again: what was cached is evicted");
	ok(!ks_free(other->fd, p, EXTENTS * 6) && !ks_free(k->fd, &host, 1), "and back");
	ok(!strcmp(dev_walk(), "ok"), "the debug walk: %s", dev_walk());
	ok(mmap(NULL, EXTENT, PROT_READ, MAP_SHARED, k->fd, KVSLAB_MAP_ARENA(arena) | KVSLAB_MAP_READ) == MAP_FAILED &&
		   errno == EINVAL,
	   "it is not mapped by the node");
	is(dev_cache(k->fd, arena + 1, SIZE, &c2), -ENODEV, "a cache in an arena that is not there");
	is(dev_cache(k->fd, 64, SIZE, &c2), -ENODEV, "nor can be");
	is(dev_cache(k->fd, 0, SIZE, &c2), -EINVAL, "in the host's as device memory");
}

static bool polls(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1 && p.revents & POLLIN;
}

/* The importer goes while others hold pages. */
static void end(struct ks_client *other, int fd, u32 arena, int buf)
{
	struct kvslab_args_cache c;
	u64 p[4], q[6];
	u32 again, i;
	u8 h[1][HASH];
	long r;

	must(!dev_cache(other->fd, arena, SIZE, &c) && ks_alloc(other->fd, c.id, p, 4, 0) == 4, "others hold pages");
	must(ks_seal_one(other->fd, &p[3], 8, 8) >= 0, "one is sealed");
	ks_events(other->fd);
	ok(!polls(other->fd), "no event");
	close(buf);
	ok(dev_count().alive == 1, "the arena keeps its dma-buf");
	close(fd);
	ok(dev_count().alive == 0, "and not when the importer has closed");
	ok(polls(other->fd) && ks_events(other->fd) & KVSLAB_EVENT_ARENA, "others are told");
	ok(ks_events(other->fd) == 0, "once");
	ok(ks_free(other->fd, p, 3) == -ENODEV && ks_get(other->fd, &p[3], 1) == -ENODEV &&
		   ks_seal_one(other->fd, &p[0], 1, 9) == -ENODEV,
	   "handles of it are ENODEV");
	ks_hash(h[0], 8, 8);
	ok(ks_alloc(other->fd, c.id, q, 1, 0) == -ENODEV && ks_lookup(other->fd, c.id, h, q, 1) == -ENODEV, "its caches too");
	ok(!dev_arenas(other->fd, NULL, 0), "STAT knows of none");
	/* Numbers come round. */
	fd = ks_open("dev", O_RDWR);
	for (i = 0, again = 0; i < 64 && again != arena; i++) {
		close(fd);
		fd = ks_open("dev", O_RDWR);
		buf = dev_buf(EXTENTS * EXTENT, -1);
		r = dev_import(fd, buf, "again");
		again = r > 0 ? r : 0;
		close(buf);
	}
	ok(again == arena, "the number serves again, after %u others", i);
	must(!dev_cache(other->fd, again, SIZE, &c), "a cache there");
	ok(ks_free(other->fd, p, 1) == -EBADF && ks_free(other->fd, &p[3], 1) == -EBADF, "the old handles name nothing there");
	r = ks_alloc(other->fd, c.id, q, 6, 0);
	for (i = 0; i < 24; i++)
		r -= q[i / 4] == p[i % 4];
	ok(r == 6, "nor do new pages have them");
	ok(!strcmp(dev_walk(), "ok"), "the debug walk: %s", dev_walk());
	close(fd);
}

static int dead_child(void *arg)
{
	int fd = ks_open("dev", O_RDWR), buf = dev_buf(EXTENT, -1);
	long r = dev_import(fd, buf, "child");

	(void)arg;
	if (r < 0)
		return 1;
	kill(getpid(), SIGKILL);
	return 2;
}

static void limits(void)
{
	int fd = ks_open("dev", O_RDWR), two = ks_open("dev", O_RDWR), buf[64], i, n, same;
	struct kvslab_args_stat a = { 0 };
	u64 held;
	long r = 0;

	must(!ks_cmd(fd, KVSLAB_CMD_STAT, &a, sizeof(a)), "STAT");
	held = a.pool.held;
	must(!dev_set_max("dev", 70 * EXTENT), "room for 70 extents");
	for (n = 0; n < 64; n++) {
		buf[n] = dev_buf(EXTENT, -1);
		r = dev_import(n % 2 ? fd : two, buf[n], "many");
		if (r < 0)
			break;
	}
	ok(n == 63 && r == -ENOSPC, "63 arenas: %d, then %ld", n, r);
	r = ks_cmd(fd, KVSLAB_CMD_STAT, &a, sizeof(a));
	ok(!r && a.nr_arenas == 63 && a.device_size == 63 * EXTENT && a.device_max == 70 * EXTENT &&
		   a.pool.held == held,
	   "STAT: %ld, %u arenas, %llu of %llu bytes, and no more host memory is held: %llu", r, a.nr_arenas,
	   (unsigned long long)a.device_size, (unsigned long long)a.device_max, (unsigned long long)a.pool.held);
	ok(dev_set_max("dev", 62 * EXTENT) == -EBUSY && !dev_set_max("dev", 63 * EXTENT), "the limit not below what is there");
	close(two);
	ok(dev_arenas(fd, NULL, 0) == 31, "one importer's go with it");
	same = dev_import(fd, buf[1], "twice");
	ok(same == -EBUSY, "a dma-buf is one arena at a time: %d", same);
	r = dev_import(fd, buf[0], "back");
	ok(r > 0, "and may come again when that is gone: %ld", r);
	/* An older caller, whose structure ends before. */
	a.nr_arenas = 7;
	r = ks_cmd(fd, KVSLAB_CMD_STAT, &a, offsetof(struct kvslab_args_stat, arenas));
	ok(!r && a.nr_arenas == 7 && a.pool.clients == 3, "an older caller's STAT: %ld, %u, %llu clients", r, a.nr_arenas,
	   (unsigned long long)a.pool.clients);
	close(fd);
	for (i = 0; i <= n && i < 64; i++)
		close(buf[i]);
	ok(dev_count().alive == 0, "all gone");
}

int main(int argc, char **argv)
{
	struct ks_client k, other;
	long r;
	int buf, fd;

	ks_seed(argc, argv);
	r = dev_exporter();
	if (r == -ENOENT)
		skip_all("the test exporter is not there");
	must(!r, "the exporter: %ld", r);
	must(!dev_pool("dev", 16 << 20, EXTENTS * EXTENT), "a pool");
	must(!ks_client(&k, "dev", SIZE) && !ks_client(&other, "dev", SIZE), "two clients");
	for (ks_via = KS_IOCTL; ks_via <= KS_RING; ks_via++) {
		import_refuses(k.fd);
		must(!dev_set_max("dev", EXTENTS * EXTENT), "a limit");
		fd = ks_open("dev", O_RDWR);
		buf = dev_buf(EXTENTS * EXTENT, -1);
		r = dev_import(fd, buf, "first");
		must(r > 0, "imported: %ld", r);
		ok((dev_arena(fd, r, &st) && st.flags == KVSLAB_ARENA_MINE), "its importer sees that it is his");
		ok(dev_import(k.fd, buf, "") == -EBUSY, "it is an arena already");
		pages(&k, &other, r);
		ok(!dev_revoke(), "the exporter revokes");
		ok(dev_arena(fd, r, &st), "nobody told us");
		end(&other, fd, r, buf);
	}
	ks_via = KS_IOCTL;
	limits();
	ok(ks_wait(ks_child(dead_child, NULL)) == 128 + SIGKILL && dev_count().alive == 0 && !dev_arenas(k.fd, NULL, 0),
	   "what is imported goes with a killed process");
	ok(dev_count().asked == 0, "no exporter was ever asked for anything: %u", dev_count().asked);

	fd = ks_open("dev", O_RDWR);
	buf = dev_buf(EXTENT, -1);
	must(dev_import(fd, buf, "held") > 0, "one more");
	close(buf);
	ok(ks_unload() == -EWOULDBLOCK && dev_exporter_gone() == -EWOULDBLOCK && !dev_exporter(), "it keeps both modules");
	ks_close(&k);
	ks_close(&other);
	ok(ks_destroy("dev", 0) == -EBUSY, "and the pool");
	ok(!ks_destroy("dev", KVSLAB_DESTROY_FORCE) && dev_count().alive == 0, "not if it is destroyed by force");
	ok(dev_arenas(fd, NULL, 0) == -ENODEV && dev_import(fd, buf, "") == -ENODEV, "then all is ENODEV");
	close(fd);
	ok(!dev_exporter_gone(), "the exporter can go");
	return done();
}
