// SPDX-License-Identifier: GPL-2.0
/*
 * Limits: a pool's max, a full arena, and the min that is there when others have filled all the
 * rest with private, referenced and cached pages. What fails, fails as a whole.
 */
#include <poll.h>

#include "ks.h"

#define SIZE (64u << 10)
#define PER_SLAB (EXTENT / SIZE)

static u64 pages[64 * PER_SLAB], more[1024];

static struct kvslab_stat_pool stat_of(int fd)
{
	struct kvslab_stat_pool s = { 0 };

	ks_stat(fd, &s);
	return s;
}

static void at_max(void)
{
	const u32 all = 8 * PER_SLAB; /* of 16 MiB */
	struct kvslab_stat_pool before, after;
	struct ks_client a, b;
	struct pollfd p;
	long r;

	must(!ks_pool("limited", 4 << 20, 16 << 20, 0600), "a pool of 16 MiB");
	must(!ks_client(&a, "limited", SIZE) && !ks_client(&b, "limited", SIZE), "two clients");
	must(ks_alloc(a.fd, a.c.id, pages, all - 10, 0) == all - 10, "all but 10 pages");
	before = stat_of(a.fd);
	ok(before.held == 8 && before.max == 8 && before.min == 2, "held %llu of %llu extents",
	   (unsigned long long)before.held, (unsigned long long)before.max);
	r = ks_alloc(b.fd, b.c.id, more, 11, 0);
	after = stat_of(a.fd);
	ok(r == -EDQUOT, "11 more: EDQUOT: %ld", r);
	ok(after.private_pages == before.private_pages && after.free == before.free && after.failed == before.failed + 1,
	   "and nothing of them is kept");
	r = ks_alloc(b.fd, b.c.id, more, 11, KVSLAB_ALLOC_PARTIAL);
	ok(r == 10, "11 more, or what there is: %ld", r);
	ok(ks_alloc(b.fd, b.c.id, more + 10, 1, KVSLAB_ALLOC_PARTIAL) == -EDQUOT, "then there is nothing");

	/* Whoever failed waits, and is told. */
	p = (struct pollfd){ .fd = b.fd, .events = POLLIN };
	(void)ks_events(b.fd);
	ok(poll(&p, 1, 0) == 0, "no event yet");
	ok(ks_free(a.fd, pages, 5) >= 0 && poll(&p, 1, 1000) == 1 && p.revents & POLLIN, "a page is freed: POLLIN");
	ok(ks_events(b.fd) & KVSLAB_EVENT_ROOM && !(ks_events(b.fd) & KVSLAB_EVENT_ROOM), "ROOM, once");
	ok(ks_alloc(b.fd, b.c.id, more + 10, 5, 0) == 5, "the pages can be had");
	ok(ks_free(b.fd, more, 15) >= 0 && ks_free(a.fd, pages + 5, all - 15) >= 0, "all freed");

	/* Cached pages make room. */
	for (r = 0; r < (long)all; r++) {
		if (ks_alloc(a.fd, a.c.id, pages, 1, 0) != 1 || ks_seal_one(a.fd, pages, 1, r) < 0 ||
		    ks_free(a.fd, pages, 1) < 0)
			break;
	}
	ok(r == all && stat_of(a.fd).cached == all, "the pool full of cached pages: %llu",
	   (unsigned long long)stat_of(a.fd).cached);
	r = ks_alloc(b.fd, b.c.id, pages, all, 0);
	after = stat_of(a.fd);
	/* They do not count against max: they stay where the arena has room, else they are evicted. */
	ok(r == all && after.held == 8 && after.cached + after.evictions == all,
	   "are not in the way: %ld, %llu held, %llu still cached, %llu evicted", r, (unsigned long long)after.held,
	   (unsigned long long)after.cached, (unsigned long long)after.evictions);
	ok(ks_free(b.fd, pages, all) >= 0, "freed");
	ok(ks_adds_up(a.fd), "counts add up");

	/* LOOKUP at a limit: a shorter run. Referenced pages count, cached ones do not. */
	{
		u8 hashes[4][HASH];
		u64 found[4], kept[PER_SLAB];
		u32 i;

		/* Four slabs with one cached page each; their other pages freed. */
		for (i = 0; i < 4; i++) {
			must(ks_alloc(a.fd, a.c.id, kept, PER_SLAB, 0) == PER_SLAB, "a slab");
			ks_hash(hashes[i], 7, i);
			must(ks_seal_one(a.fd, &kept[0], 7, i) >= 0 && ks_free(a.fd, kept, PER_SLAB) >= 0, "cached");
		}
		r = ks_lookup(b.fd, b.c.id, hashes, found, 4);
		ok(r == 4 && ks_free(b.fd, found, 4) >= 0, "LOOKUP below the limit: %ld", r);
	}
	ks_close(&a);
	ks_close(&b);
	ok(!ks_destroy("limited", 0), "the pool can go");
}

/* The greedy pool takes all it can in three ways; min of the other is there each time. */
static void guaranteed(void)
{
	struct ks_client modest, greedy;
	struct kvslab_stat_pool s;
	const u32 promised = 8 * PER_SLAB;
	int kind;

	must(!ks_pool("modest", 16 << 20, 64 << 20, 0600), "a pool with a min of 16 MiB");
	must(!ks_client(&modest, "modest", SIZE), "its client");
	s = stat_of(modest.fd);
	note("an arena of %llu extents", (unsigned long long)s.arena_extents);
	must(!ks_pool("greedy", 0, s.arena_extents * EXTENT, 0600), "a pool that may have the whole arena");
	for (kind = 0; kind < 3; kind++) {
		static const char *const kinds[] = { "private", "referenced", "cached" };
		u64 taken = 0, refused;
		long r = 0;

		must(!ks_client(&greedy, "greedy", 2 << 20), "a greedy client");
		for (;;) {
			u64 page;

			r = ks_alloc(greedy.fd, greedy.c.id, &page, 1, 0);
			if (r != 1)
				break;
			if (kind && ks_seal_one(greedy.fd, &page, 1000 + kind, taken) < 0)
				break;
			if (kind == 2 && (ks_free(greedy.fd, &page, 1) < 0 || taken > s.arena_extents + 10))
				break;
			taken++;
		}
		refused = r;
		s = stat_of(greedy.fd);
		ok(kind == 2 || (r == -ENOSPC && s.held == s.arena_extents - 8),
		   "%s pages fill all but the other's min: %llu of %llu extents, %lld", kinds[kind],
		   (unsigned long long)s.held, (unsigned long long)s.arena_extents, (long long)refused);
		r = ks_alloc(modest.fd, modest.c.id, pages, promised, 0);
		ok(r == promised, "%s pages of another: min can be had, all at once: %ld", kinds[kind], r);
		if (kind < 2) {
			r = ks_alloc(modest.fd, modest.c.id, more, 1, 0);
			ok(r == -ENOSPC, "%s pages of another: and no more: %ld", kinds[kind], r);
		}
		if (r == 1)
			ks_free(modest.fd, more, 1);
		ok(ks_free(modest.fd, pages, promised) >= 0, "freed");
		ok(ks_adds_up(modest.fd) && ks_adds_up(greedy.fd), "%s pages of another: counts add up", kinds[kind]);
		ks_close(&greedy);
	}
	/* What is set aside cannot be promised twice. */
	ok(ks_pool("second", s.arena_extents * EXTENT - (8 << 20), s.arena_extents * EXTENT, 0600) == -ENOSPC,
	   "a min that is not there any more: ENOSPC");
	ks_close(&modest);
}

int main(void)
{
	at_max();
	guaranteed();
	return done();
}
