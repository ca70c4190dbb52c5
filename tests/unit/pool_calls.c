// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Every call of the pool, and every error that kvslab.h promises for it. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kvslab.h"
#include "runtime/pool/test.h"
#include "tests/lib/tap.h"
#include "tests/lib/test_pool.h"

#define MIB (1u << 20)
#define EXTENT KVSLAB_EXTENT_SIZE

static uint64_t seed;

/* There is one arena for all of them, and each client sees it at an address of its own. */
static bool on_module(void)
{
	return test_pool_kind() == TEST_POOL_DEVICE;
}

static struct kvslab_hash hash(uint64_t n)
{
	struct kvslab_hash h;
	uint64_t s = n, w[4];
	int i;

	for (i = 0; i < 4; i++)
		w[i] = rnd(&s);
	memcpy(h.b, w, sizeof(h.b));
	return h;
}

static struct kvslab_pool *open_pool(const char *spec)
{
	struct kvslab_pool *pool;

	return test_pool_open(&pool, spec, NULL) ? NULL : pool;
}

static uint32_t open_cache(struct kvslab_pool *pool, uint32_t size)
{
	struct kvslab_cache cache;

	return kvslab_cache_open(pool, size, &cache) ? UINT32_MAX : cache.id;
}

static struct kvslab_stat stat_of(struct kvslab_pool *pool)
{
	struct kvslab_stat stat;

	if (kvslab_stat(pool, &stat))
		memset(&stat, 0xff, sizeof(stat));
	return stat;
}

static int whole(struct kvslab_pool *pool)
{
	char why[256] = "";
	int rc = kvslab_pool_check(pool, why, sizeof(why));

	if (rc)
		printf("# %d: %s\n", rc, why);
	return rc == 0;
}

static struct kvslab_seal seal_of(kvslab_handle page, uint64_t self, uint64_t parent,
				  uint32_t depth)
{
	struct kvslab_seal s = { .page = page, .depth = depth };

	s.hash = hash(self);
	if (parent)
		s.parent = hash(parent);
	else
		s.flags = KVSLAB_SEAL_ROOT;
	return s;
}

/* Seals one page as a root and drops it: a cached page. */
static int make_cached(struct kvslab_pool *pool, uint32_t cache, uint64_t self)
{
	struct kvslab_seal s;
	kvslab_handle page;

	if (kvslab_alloc(pool, cache, &page, 1, 0) != 1)
		return 0;
	s = seal_of(page, self, 0, 0);
	return kvslab_seal(pool, &s, 1) == 0 && kvslab_free(pool, &s.page, 1) == 0;
}

/* Sanitizers cannot live with so little. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static void test_no_address_space(void)
{
	struct kvslab_arena *arena;
	struct kvslab_pool *pool;
	struct rlimit old, low;
	int a, b;

	getrlimit(RLIMIT_AS, &old);
	low = old;
	low.rlim_cur = 64 * MIB;
	setrlimit(RLIMIT_AS, &low);
	a = kvslab_arena_open(&arena, 4096ull * MIB);
	b = test_pool_open(&pool, "embedded:4G", NULL);
	setrlimit(RLIMIT_AS, &old);
	ok(a == -ENOMEM && b == -ENOMEM, "no address space: %d, %d", a, b);
}
#else
static void test_no_address_space(void)
{
}
#endif

static void test_open(void)
{
	static const char *const wrong[] = { "",
					     "embedded",
					     "embedded:",
					     "embedded:0",
					     "embedded:1M",
					     "embedded:8Mx",
					     "embedded:99999999999T",
					     "shared:8M",
					     "embedded:16777215T",
					     NULL };
	struct kvslab_pool *pool = (void *)1, *other;
	struct kvslab_pool_opts opts = { 0 };
	struct kvslab_arena *arena;
	int i, bad = 0, rc;

	for (i = 0; wrong[i]; i++) {
		rc = kvslab_pool_open(&pool, wrong[i], NULL);
		if (rc != -EINVAL) {
			printf("# \"%s\": %d\n", wrong[i], rc);
			bad++;
		}
	}
	ok(!bad, "%d specs that name no pool", i);
	ok(kvslab_pool_open(&pool, NULL, NULL) == -EINVAL &&
		   kvslab_pool_open(NULL, "embedded:8M", NULL) == -EINVAL,
	   "nothing given");
	ok(kvslab_pool_open(&pool, "/dev/kvslab/no-such-pool", NULL) == -ENOENT, "a node that is not there");
	ok(kvslab_arena_open(&arena, 0) == -EINVAL &&
		   kvslab_arena_open(&arena, EXTENT - 1) == -EINVAL &&
		   kvslab_arena_open(&arena, UINT64_MAX) == -EINVAL &&
		   kvslab_arena_open(NULL, EXTENT) == -EINVAL &&
		   kvslab_arena_open(&arena, ((1ull << 20) + 1) * EXTENT) == -EINVAL,
	   "arenas of no size, and of more than 2^20 extents");
	if (!on_module())
		test_no_address_space();
	opts.min = 8 * EXTENT;
	opts.max = 4 * EXTENT;
	ok(test_pool_open(&pool, "embedded:64M", &opts) == -EINVAL, "min above max");
	opts.max = 0;
	ok(test_pool_open(&pool, "embedded:8M", &opts) == -EINVAL, "min above the size");
	opts.min = 0;
	opts.max = 1;
	ok(test_pool_open(&pool, "embedded:8M", &opts) == -EINVAL, "max below an extent");
	if (on_module())
		return;
	ok(kvslab_arena_open(&opts.arena, 8 * EXTENT + 12345) == 0, "an arena that is no whole "
								    "number of extents");
	opts.max = 0;
	opts.min = 9 * EXTENT;
	rc = test_pool_open(&pool, "embedded", &opts);
	ok(rc == -ENOSPC || rc == -EINVAL, "min above the arena: %d", rc);
	opts.min = 5 * EXTENT - 1;
	ok(test_pool_open(&pool, "embedded", &opts) == 0, "a pool with a min");
	ok(stat_of(pool).min == 5 && stat_of(pool).max == 8 && stat_of(pool).arena_extents == 8 &&
		   stat_of(pool).clients == 1,
	   "min is rounded up, max is the arena");
	opts.min = 4 * EXTENT;
	ok(test_pool_open(&other, "embedded", &opts) == -ENOSPC, "a second one for which there "
								   "is no room");
	opts.min = 3 * EXTENT;
	ok(test_pool_open(&other, "embedded:6M", &opts) == 0, "one that fits, its max named by "
								"the spec");
	ok(stat_of(other).min == 3 && stat_of(other).max == 3, "min and max are 3 extents");
	kvslab_pool_close(other);
	opts.min = 0;
	opts.max = 5 * EXTENT - 1;
	ok(test_pool_open(&other, "embedded", &opts) == 0 && stat_of(other).max == 4, "max is "
											"rounded "
											"down");
	kvslab_arena_close(opts.arena);
	kvslab_pool_close(pool);
	ok(whole(other) && stat_of(other).arena_extents == 8, "the arena lives as long as its "
							      "pools");
	kvslab_pool_close(other);
	kvslab_pool_close(NULL);
	kvslab_arena_close(NULL);
	ok(1, "closing nothing");
}

static void test_cache(void)
{
	struct kvslab_pool *pool = open_pool("embedded:8M"), *shared,
			   *other = open_pool("embedded:8M");
	struct kvslab_cache a, b, c;
	uint32_t frame = (uint32_t)sysconf(_SC_PAGESIZE), n = 0, size;
	int rc = 0;

	ok(kvslab_cache_open(pool, 340 << 10, &a) == 0 && a.page_size == 340 << 10 &&
		   a.pages_per_slab == 6 && a.frame_size == frame,
	   "pages of 340 KiB, 6 a slab");
	ok(kvslab_cache_open(pool, 340 << 10, &b) == 0 && b.id == a.id, "the same size is the same "
									"cache");
	ok(kvslab_pool_share(pool, &shared) == 0 && kvslab_cache_open(shared, 340 << 10, &c) == 0 &&
		   c.id == a.id && !memcmp(c.key, a.key, sizeof(a.key)),
	   "for another client too, with the same key");
	ok(kvslab_cache_open(pool, 2 * MIB, &b) == 0 && b.id != a.id && b.pages_per_slab == 1 &&
		   !memcmp(b.key, a.key, sizeof(a.key)),
	   "another size is another cache, the key is the pool's");
	ok(kvslab_cache_open(other, 340 << 10, &c) == 0 && memcmp(c.key, a.key, sizeof(a.key)),
	   "another pool has another key");
	ok(kvslab_cache_open(pool, 0, &b) == -EINVAL &&
		   kvslab_cache_open(pool, frame + 1, &b) == -EINVAL &&
		   kvslab_cache_open(pool, frame / 2, &b) == -EINVAL &&
		   kvslab_cache_open(pool, 2 * MIB + frame, &b) == -EINVAL &&
		   kvslab_cache_open(pool, 0xfffff000u, &b) == -EINVAL,
	   "sizes that are none");
	ok(kvslab_cache_open(pool, frame, NULL) == -EINVAL &&
		   kvslab_cache_open(NULL, frame, &b) == -EINVAL,
	   "nothing given");
	for (size = frame; size <= EXTENT && !rc; size += frame) {
		rc = kvslab_cache_open(pool, size, &b);
		n += !rc;
	}
	ok(rc == -ENOSPC && n >= 8, "too many page sizes: after %u, %d", n, rc);
	ok(whole(pool), "the rules hold");
	kvslab_pool_close(other);
	kvslab_pool_close(pool);
	kvslab_pool_close(shared);
}

static void test_alloc(void)
{
	struct kvslab_pool *pool = open_pool("embedded:8M"), *other = open_pool("embedded:8M");
	struct kvslab_pool_opts opts = { .max = 2 * EXTENT };
	uint32_t id = open_cache(pool, 340 << 10), i, k, big;
	static kvslab_handle p[KVSLAB_BATCH_MAX + 1], q[32];
	int bad = 0, rc;

	ok(kvslab_alloc(pool, id, p, 0, 0) == -EINVAL &&
		   kvslab_alloc(pool, id, p, KVSLAB_BATCH_MAX + 1, 0) == -EINVAL,
	   "no page, and more than a batch");
	ok(kvslab_alloc(pool, id, p, 1, 2) == -EINVAL &&
		   kvslab_alloc(pool, id + 1, p, 1, 0) == -EINVAL &&
		   kvslab_alloc(pool, UINT32_MAX, p, 1, 0) == -EINVAL &&
		   kvslab_alloc(pool, id, NULL, 1, 0) == -EINVAL &&
		   kvslab_alloc(NULL, id, p, 1, 0) == -EINVAL,
	   "no such flag, no such cache, nothing given");
	ok(kvslab_alloc(pool, id, p, 24, 0) == 24, "all 24 pages at once");
	for (i = 0; i < 24; i++) {
		uint8_t *at = kvslab_page_rw(pool, p[i]);

		bad += !p[i] || !at || (uintptr_t)at % 4096 || (!on_module() && kvslab_page_ro(pool, p[i]) != at);
		for (k = 0; k < i; k++) {
			uint8_t *before = kvslab_page_rw(pool, p[k]);

			bad += p[k] == p[i] ||
			       (at < before + (340 << 10) && before < at + (340 << 10));
		}
		if (at)
			memset(at, (int)i, 340 << 10);
	}
	for (i = 0; i < 24; i++) {
		const uint8_t *at = kvslab_page_ro(pool, p[i]);

		bad += !at || at[0] != i || at[(340 << 10) - 1] != i;
	}
	ok(!bad, "they are apart, and hold what is written");
	ok(kvslab_alloc(pool, id, q, 1, 0) == test_pool_full() &&
		   kvslab_alloc(pool, id, q, 1, KVSLAB_PARTIAL) == test_pool_full(),
	   "one more is refused");
	ok(kvslab_free(pool, p + 20, 2) == 0 && kvslab_alloc(pool, id, q, 3, 0) == test_pool_full() &&
		   stat_of(pool).private_pages == 22,
	   "three of two are refused whole");
	ok(kvslab_alloc(pool, id, q, 3, KVSLAB_PARTIAL) == 2, "or given in part");
	ok(whole(pool) && stat_of(pool).private_pages == 24 && stat_of(pool).free == 0, "the rules "
											"hold");
	/* Another page size gets what is empty. */
	big = open_cache(pool, 2 * MIB);
	ok(kvslab_alloc(pool, big, q + 8, 1, 0) == test_pool_full(), "no room for a page of another size");
	memcpy(p + 20, q, 2 * sizeof(*p));
	rc = kvslab_free(pool, p, 24);
	ok(rc == 0 && kvslab_alloc(pool, big, q, 4, 0) == 4, "until the first are freed: %d", rc);
	ok(kvslab_alloc(pool, id, p, 1, 0) == test_pool_full() && whole(pool), "and back");
	kvslab_pool_close(other);
	kvslab_pool_close(pool);

	rc = test_pool_open(&pool, "embedded:8M", &opts);
	id = open_cache(pool, MIB);
	ok(!rc && kvslab_alloc(pool, id, p, 4, 0) == 4 &&
		   kvslab_alloc(pool, id, p + 4, 1, 0) == -EDQUOT &&
		   kvslab_alloc(pool, id, p + 4, 1, KVSLAB_PARTIAL) == -EDQUOT,
	   "a pool at its max");
	ok(stat_of(pool).held == 2 && stat_of(pool).max == 2 && (on_module() || stat_of(pool).arena_free == 2),
	   "while the arena has room");
	kvslab_free(pool, p, 1);
	ok(kvslab_alloc(pool, id, p, 2, KVSLAB_PARTIAL) == 1 && whole(pool), "and a part");
	kvslab_pool_close(pool);
}

static void test_guarantee(void)
{
	struct kvslab_pool_opts opts = { 0 };
	struct kvslab_pool *a, *b;
	kvslab_handle p[16];
	uint32_t ca, cb;
	int rc;

	kvslab_arena_open(&opts.arena, 8 * EXTENT);
	opts.min = 3 * EXTENT;
	rc = test_pool_open(&a, "embedded", &opts);
	opts.min = 0;
	if (!ok(!rc && !test_pool_open(&b, "embedded", &opts), "two pools, one with 3 extents of "
								 "its own"))
		return;
	ca = open_cache(a, 2 * MIB);
	cb = open_cache(b, 2 * MIB);
	rc = kvslab_alloc(b, cb, p, 8, KVSLAB_PARTIAL);
	ok(rc == 5, "the other one gets %d", rc);
	rc = kvslab_alloc(b, cb, p + 5, 1, 0);
	ok(rc == -ENOSPC || rc == -EDQUOT, "and no more: %d", rc);
	rc = kvslab_alloc(a, ca, p + 8, 3, 0);
	ok(rc == 3, "the first one's part is there: %d", rc);
	ok(kvslab_free(b, p, 2) == 0 && kvslab_alloc(a, ca, p + 11, 2, 0) == 2, "and it may use "
										"what is left "
										"over");
	ok(whole(a) && whole(b), "the rules hold");
	kvslab_pool_close(b);
	ok(kvslab_alloc(a, ca, p, 3, 0) == 3 && whole(a), "a pool that goes leaves its memory");
	kvslab_arena_close(opts.arena);
	kvslab_pool_close(a);
}

static void test_free(void)
{
	struct kvslab_pool_opts opts = { 0 };
	struct kvslab_pool *pool, *shared, *stranger;
	uint32_t id, other;
	kvslab_handle p[8], q[8], batch[8], foreign[2];
	struct kvslab_stat before, after;
	struct kvslab_seal s;
	int rc;

	kvslab_arena_open(&opts.arena, 8 * EXTENT);
	rc = test_pool_open(&pool, "embedded", &opts);
	if (!ok(!rc && !test_pool_open(&stranger, "embedded", &opts), "two pools in an arena"))
		return;
	kvslab_arena_close(opts.arena);
	id = open_cache(pool, 340 << 10);
	other = open_cache(stranger, 340 << 10);
	kvslab_pool_share(pool, &shared);
	kvslab_alloc(pool, id, p, 8, 0);
	kvslab_alloc(shared, id, q, 4, 0);
	kvslab_alloc(stranger, other, foreign, 2, 0);
	before = stat_of(pool);
	ok(kvslab_free(pool, p, 0) == -EINVAL &&
		   kvslab_free(pool, p, KVSLAB_BATCH_MAX + 1) == -EINVAL &&
		   kvslab_free(pool, NULL, 1) == -EINVAL && kvslab_free(NULL, p, 1) == -EINVAL,
	   "nothing given, and more than a batch");
	batch[0] = 0;
	ok(kvslab_free(pool, batch, 1) == -EBADF, "handle 0");
	batch[0] = UINT64_MAX;
	ok(kvslab_free(pool, batch, 1) == -EBADF, "handle 2^64 - 1");
	ok(kvslab_free(pool, q, 1) == -EBADF, "another client's private page");
	ok(kvslab_free(pool, foreign, 1) == -EBADF && !kvslab_page_ro(pool, foreign[1]), "another "
											 "pool's "
											 "page");
	memcpy(batch, p, sizeof(p));
	batch[7] = p[0];
	ok(kvslab_free(pool, batch, 8) == -EBADF, "one page twice");
	batch[7] = q[0];
	ok(kvslab_free(pool, batch, 8) == -EBADF, "a wrong one at the end of a batch");
	batch[7] = p[7] + 1;
	rc = kvslab_free(pool, batch, 8);
	ok(rc == -ESTALE || rc == -EBADF, "a generation that is not there yet: %d", rc);
	after = stat_of(pool);
	ok(!memcmp(&before, &after, sizeof(before)), "nothing has changed");
	ok(kvslab_free(pool, p, 4) == 0 && stat_of(pool).private_pages == before.private_pages - 4,
	   "four are freed");
	ok(kvslab_free(pool, p, 1) == -ESTALE, "again: stale");
	ok(!kvslab_page_rw(pool, p[0]) && !kvslab_page_ro(pool, p[0]) && kvslab_page_rw(pool, p[4]),
	   "and without address");
	memcpy(batch, p + 4, 3 * sizeof(*p));
	batch[3] = p[0];
	ok(kvslab_free(pool, batch, 4) == -ESTALE && kvslab_page_rw(pool, p[4]), "a stale one "
										 "among good ones");
	ok(!kvslab_page_rw(shared, p[4]) && !kvslab_page_ro(shared, p[4]), "another client's page "
									   "has no address");
	ok(!kvslab_page_rw(pool, 0) && !kvslab_page_ro(pool, 0) &&
		   !kvslab_page_ro(pool, UINT64_MAX) && !kvslab_page_ro(NULL, p[4]) &&
		   !kvslab_page_rw(NULL, p[4]),
	   "nor has what is no page");

	/* Sealed pages: as often as the client holds references. */
	s = seal_of(p[4], 1, 0, 0);
	ok(kvslab_seal(pool, &s, 1) == 0 && kvslab_get(pool, &s.page, 1) == 0, "a sealed page, two "
									       "references");
	batch[0] = batch[1] = batch[2] = s.page;
	rc = kvslab_free(pool, batch, 3);
	ok(rc == -EBADF, "three times: %d", rc);
	ok(kvslab_free(shared, batch, 1) == -EBADF && !kvslab_page_ro(shared, s.page), "not by "
										       "another "
										       "client");
	ok(kvslab_page_ro(pool, s.page) && !kvslab_page_rw(pool, s.page), "it can be read, not "
									  "written");
	ok(kvslab_free(pool, batch, 2) == 0 && stat_of(pool).cached == 1 &&
		   stat_of(pool).sealed == 0,
	   "twice");
	rc = kvslab_free(pool, batch, 1);
	ok(rc == -EBADF || rc == -ESTALE, "and again: %d", rc);
	ok(!kvslab_page_ro(pool, s.page), "a cached page is nobody's");
	ok(whole(pool) && whole(stranger), "the rules hold");
	kvslab_pool_close(shared);
	ok(stat_of(pool).private_pages == 3 && stat_of(pool).clients == 1 && whole(pool),
	   "a client that goes frees its pages");
	kvslab_pool_close(pool);
	kvslab_pool_close(stranger);
}

static void test_get(void)
{
	struct kvslab_pool *pool = open_pool("embedded:8M"), *shared;
	uint32_t id = open_cache(pool, MIB);
	kvslab_handle p[3], batch[3];
	struct kvslab_hash h = hash(1);
	struct kvslab_seal s;
	int rc;

	kvslab_pool_share(pool, &shared);
	kvslab_alloc(pool, id, p, 3, 0);
	s = seal_of(p[0], 1, 0, 0);
	kvslab_seal(pool, &s, 1);
	ok(kvslab_get(pool, &s.page, 0) == -EINVAL && kvslab_get(pool, NULL, 1) == -EINVAL &&
		   kvslab_get(NULL, &s.page, 1) == -EINVAL &&
		   kvslab_get(pool, p, KVSLAB_BATCH_MAX + 1) == -EINVAL,
	   "nothing given, and more than a batch");
	rc = kvslab_get(pool, p + 1, 1);
	ok(rc == -EBADF, "a private page has no references: %d", rc);
	ok(kvslab_get(shared, &s.page, 1) == -EBADF, "one that the client does not hold");
	batch[0] = s.page;
	batch[1] = s.page;
	batch[2] = p[2];
	ok(kvslab_get(pool, batch, 3) == -EBADF, "a wrong one in a batch");
	kvslab_free(pool, p + 2, 1);
	rc = kvslab_get(pool, p + 2, 1);
	ok(rc == -ESTALE, "a stale one: %d", rc);
	ok(kvslab_free(pool, &s.page, 1) == 0 && stat_of(pool).cached == 1, "none of them left a "
									    "reference");
	ok(kvslab_lookup(shared, id, &h, 1, batch) == 1 && batch[0] == s.page &&
		   kvslab_get(shared, batch, 1) == 0,
	   "found again by another client");
	ok(kvslab_lookup(pool, id, &h, 1, batch) == 1 &&
		   (on_module() ? kvslab_page_ro(pool, batch[0]) && kvslab_page_ro(shared, batch[0]) :
				  kvslab_page_ro(pool, batch[0]) == kvslab_page_ro(shared, batch[0])),
	   "and by both, at the same place");
	kvslab_pool_close(shared);
	ok(stat_of(pool).sealed == 1 && whole(pool), "a client that goes drops its references "
						     "alone");
	kvslab_pool_close(pool);
}

static void test_seal(void)
{
	struct kvslab_pool *pool = open_pool("embedded:8M"), *shared;
	uint32_t id = open_cache(pool, 256 << 10);
	struct kvslab_seal s[4], t;
	kvslab_handle p[8], q[4], got[4];
	struct kvslab_hash h[4];
	int rc, i;

	kvslab_pool_share(pool, &shared);
	kvslab_alloc(pool, id, p, 8, 0);
	kvslab_alloc(shared, id, q, 4, 0);
	s[0] = seal_of(p[0], 1, 0, 0);
	ok(kvslab_seal(pool, s, 0) == -EINVAL &&
		   kvslab_seal(pool, s, KVSLAB_BATCH_MAX + 1) == -EINVAL &&
		   kvslab_seal(pool, NULL, 1) == -EINVAL && kvslab_seal(NULL, s, 1) == -EINVAL,
	   "nothing given, and more than a batch");
	t = s[0];
	t.priority = KVSLAB_PRIORITIES;
	rc = kvslab_seal(pool, &t, 1);
	t = s[0];
	t.flags = 0x80;
	ok(rc == -EINVAL && kvslab_seal(pool, &t, 1) == -EINVAL, "a priority of 8, an unknown "
								 "flag");
	t = s[0];
	t.reserved = 1;
	ok(kvslab_seal(pool, &t, 1) == -EINVAL, "a reserved field");
	t = s[0];
	t.page = q[0];
	ok(kvslab_seal(pool, &t, 1) == -EBADF, "another client's page");
	t.page = 0;
	ok(kvslab_seal(pool, &t, 1) == -EBADF, "no page");
	t = seal_of(p[0], 2, 1, 1);
	ok(kvslab_seal(pool, &t, 1) == -ENOENT, "a parent that is not there");
	s[1] = s[0];
	s[1].hash = hash(99);
	rc = kvslab_seal(pool, s, 2);
	ok(rc == -EBADF || rc == -EINVAL, "one page under two hashes: %d", rc);
	ok(kvslab_page_rw(pool, p[0]) && stat_of(pool).sealed == 0 &&
		   stat_of(pool).private_pages == 12 && whole(pool),
	   "nothing has changed");

	test_pool_pin(pool, p[1], true);
	s[0] = seal_of(p[0], 1, 0, 0);
	s[1] = seal_of(p[1], 2, 1, 1);
	/* The module's own tests have pages pinned by I/O. */
	ok(on_module() || (kvslab_seal(pool, s, 2) == -EBUSY && kvslab_page_rw(pool, p[0]) &&
		   kvslab_page_rw(pool, p[1]) && stat_of(pool).private_pages == 12 &&
		   stat_of(pool).moving == 0 && whole(pool)),
	   "a pinned page refuses the batch");
	test_pool_pin(pool, p[1], false);
	for (i = 0; i < 3; i++)
		memset(kvslab_page_rw(pool, p[i]), 'a' + i, 256 << 10);
	s[2] = seal_of(p[2], 3, 2, 2);
	rc = kvslab_seal(pool, s, 3);
	ok(rc == 0 && s[0].page == p[0] && s[2].page == p[2] && stat_of(pool).sealed == 3 &&
		   stat_of(pool).private_pages == 9,
	   "a chain of three in one call: %d", rc);
	t = seal_of(p[0], 7, 0, 0);
	rc = kvslab_seal(pool, &t, 1);
	ok(rc == -EBADF, "a page that is sealed already: %d", rc);
	t = seal_of(q[0], 4, 3, 3);
	ok(kvslab_seal(shared, &t, 1) == -ENOENT, "a parent that another client holds");

	/* Duplicates: within the pool, and in one call. */
	memset(kvslab_page_rw(shared, q[0]), 'a', 256 << 10);
	t = seal_of(q[0], 1, 0, 0);
	ok(kvslab_seal(shared, &t, 1) == 0 && t.page == p[0] && kvslab_page_ro(shared, t.page) &&
		   !kvslab_page_ro(shared, q[0]) && stat_of(pool).seal_duplicates == 1,
	   "what is there already takes the place of a duplicate");
	t = seal_of(q[1], 2, 1, 1);
	ok(kvslab_seal(shared, &t, 1) == 0 && t.page == p[1], "and its child");
	s[0] = seal_of(p[3], 50, 0, 0);
	s[1] = seal_of(p[4], 50, 0, 0);
	rc = kvslab_seal(pool, s, 2);
	ok(rc == 0 && s[0].page == s[1].page && whole(pool), "the same hash twice in one call: %d",
	   rc);
	ok(kvslab_free(pool, &s[0].page, 1) == 0 && kvslab_free(pool, &s[1].page, 1) == 0 &&
		   kvslab_free(pool, &s[1].page, 1) != 0,
	   "is one page with two references");

	for (i = 0; i < 4; i++)
		h[i] = hash((uint64_t)i + 1);
	ok(kvslab_lookup(shared, id, h, 4, got) == 3 && got[0] == p[0] && got[2] == p[2] &&
		   *(const char *)kvslab_page_ro(shared, got[1]) == 'b',
	   "the chain is found to its end");
	h[1] = hash(77);
	ok(kvslab_lookup(shared, id, h, 4, got) == 1, "and to the first that is not there");
	h[0] = hash(78);
	ok(kvslab_lookup(shared, id, h, 4, got) == 0, "or not at all");
	ok(kvslab_lookup(shared, id, h, 0, got) == -EINVAL &&
		   kvslab_lookup(shared, id + 9, h, 1, got) == -EINVAL &&
		   kvslab_lookup(shared, id, NULL, 1, got) == -EINVAL &&
		   kvslab_lookup(shared, id, h, 1, NULL) == -EINVAL &&
		   kvslab_lookup(NULL, id, h, 1, got) == -EINVAL &&
		   kvslab_lookup(shared, id, h, KVSLAB_BATCH_MAX + 1, got) == -EINVAL,
	   "nothing given, no such cache, more than a batch");
	h[0] = hash(1);
	ok(kvslab_lookup(shared, open_cache(shared, MIB), h, 1, got) == 0, "another cache has no "
									   "such page");
	ok(whole(pool), "the rules hold");
	kvslab_pool_close(pool);
	ok(kvslab_lookup(shared, id, h, 1, got) == 1 &&
		   *(const char *)kvslab_page_ro(shared, got[0]) == 'a',
	   "pages stay when the client that sealed them goes");
	ok(whole(shared), "the rules hold");
	kvslab_pool_close(shared);
}

static void test_evict(void)
{
	struct kvslab_pool *pool = open_pool("embedded:8M");
	uint32_t id = open_cache(pool, MIB), big = open_cache(pool, 2 * MIB);
	struct kvslab_hash h;
	kvslab_handle p[8], q[8];
	int i, good = 1, rc;

	for (i = 0; i < 8; i++)
		good &= make_cached(pool, id, 100 + (uint64_t)i);
	ok(good && stat_of(pool).cached == 8, "eight cached pages fill the pool");
	ok(stat_of(pool).held <= 4 && whole(pool), "the rules hold");
	h = hash(100);
	ok(kvslab_lookup(pool, id, &h, 1, q) == 1, "one of them is used");
	rc = kvslab_alloc(pool, id, p, 7, 0);
	/* On the module there are extents beside; the limit is on what is held. */
	ok(rc == 7 && (on_module() || stat_of(pool).evictions == 7), "the others give way: %d", rc);
	ok(kvslab_alloc(pool, id, p + 7, 1, 0) == test_pool_full(), "the used one does not");
	ok(*(volatile const char *)kvslab_page_ro(pool, q[0]) == 0, "it is still there");
	kvslab_free(pool, p, 7);
	kvslab_free(pool, q, 1);
	rc = kvslab_alloc(pool, big, p, 4, 0);
	ok(rc == 4 && whole(pool), "pages of another size get all of it: %d", rc);
	kvslab_free(pool, p, 4);
	kvslab_pool_close(pool);
}

/* Pinned pages go through quarantine. */
static void test_quarantine(void)
{
	struct kvslab_pool *pool = open_pool("embedded:8M");
	uint32_t id = open_cache(pool, MIB);
	struct kvslab_hash h = hash(200);
	kvslab_handle p[8], q[1];
	struct kvslab_stat stat;
	int i, good = 1, rc;

	for (i = 0; i < 8; i++)
		good &= make_cached(pool, id, 200 + (uint64_t)i);
	ok(good && stat_of(pool).cached == 8 && whole(pool), "eight cached pages");
	good &= kvslab_lookup(pool, id, &h, 1, q) == 1 && test_pool_pin(pool, q[0], true) == 0 &&
		kvslab_free(pool, q, 1) == 0;
	ok(good, "eight cached pages, one of them pinned");
	rc = kvslab_alloc(pool, id, p, 8, 0);
	ok(rc == -ENOSPC && whole(pool), "there are not eight to be had: %d", rc);
	rc = kvslab_alloc(pool, id, p, 8, KVSLAB_PARTIAL);
	stat = stat_of(pool);
	ok(rc == 7 && stat.quarantined == 1 && stat.frag_quarantine > 0 && whole(pool),
	   "but seven (%d), and %llu in quarantine", rc, (unsigned long long)stat.quarantined);
	test_pool_pin(pool, q[0], false);
	rc = kvslab_alloc(pool, id, p + 7, 1, 0);
	ok(rc == 1 && stat_of(pool).quarantined == 0 && whole(pool),
	   "which comes back when the pin goes: %d", rc);
	kvslab_pool_close(pool);
}

static void test_stat(void)
{
	struct kvslab_pool *pool = open_pool("embedded:64M");
	uint32_t id = open_cache(pool, 340 << 10);
	struct kvslab_stat stat;
	struct kvslab_hash h[2];
	kvslab_handle p[9], got[2];
	double extents, bytes;

	ok(kvslab_stat(pool, NULL) == -EINVAL && kvslab_stat(NULL, &stat) == -EINVAL &&
		   kvslab_pool_check(NULL, NULL, 0) == -EINVAL &&
		   kvslab_pool_check(pool, NULL, 0) == 0,
	   "nothing given");
	stat = stat_of(pool);
	ok(stat.extents == 0 && stat.slabs == 0 && stat.frag_partial == 0 && stat.frag_tail == 0 &&
		   stat.frag_quarantine == 0 && (on_module() || (stat.arena_extents == 32 && stat.arena_free == 32)),
	   "an empty pool");
	kvslab_alloc(pool, id, p, 9, 0);
	stat = stat_of(pool);
	extents = (double)stat.extents * EXTENT;
	bytes = 1 - 9.0 * (340 << 10) / extents;
	ok(stat.extents == 2 && stat.slabs == 2 && stat.private_pages == 9 && stat.free == 3 &&
		   stat.held == 2 && stat.allocs == 9 && (on_module() || stat.arena_free == 30),
	   "nine pages in two slabs");
	ok(stat.frag_partial - 3.0 * (340 << 10) / extents < 1e-9 && stat.frag_partial > 0.2 &&
		   stat.frag_tail - 2.0 * (8 << 10) / extents < 1e-9 && stat.frag_tail > 0 &&
		   stat.frag_partial + stat.frag_tail + stat.frag_quarantine - bytes < 1e-9 &&
		   bytes - stat.frag_partial - stat.frag_tail - stat.frag_quarantine < 1e-9,
	   "its fragmentation: %.4f partial, %.4f tail", stat.frag_partial, stat.frag_tail);
	ok(kvslab_free(pool, p, 3) == 0 && make_cached(pool, id, 1), "some are freed, one is "
								     "cached");
	h[0] = hash(1);
	h[1] = hash(2);
	ok(kvslab_lookup(pool, id, h, 2, got) == 1, "and found");
	stat = stat_of(pool);
	ok(stat.allocs == 10 && stat.frees == 4 && stat.seals == 1 && stat.lookups == 1 &&
		   stat.lookup_hits == 1 && stat.lookup_asked == 2 && stat.sealed == 1 &&
		   stat.cached == 0,
	   "the counts: %llu allocs, %llu frees, %llu seals, %llu of %llu found",
	   (unsigned long long)stat.allocs, (unsigned long long)stat.frees,
	   (unsigned long long)stat.seals, (unsigned long long)stat.lookup_hits,
	   (unsigned long long)stat.lookup_asked);
	kvslab_pool_close(pool);
}

static void test_share(void)
{
	struct kvslab_pool *pool = open_pool("embedded:8M"), *client[8];
	uint32_t id = open_cache(pool, 340 << 10);
	kvslab_handle p[8][3];
	int i, k, good = 1;

	ok(kvslab_pool_share(NULL, &client[0]) == -EINVAL &&
		   kvslab_pool_share(pool, NULL) == -EINVAL,
	   "nothing given");
	for (i = 0; i < 8; i++)
		good &= kvslab_pool_share(pool, &client[i]) == 0;
	ok(good && stat_of(client[3]).clients == 9, "nine clients");
	kvslab_pool_close(pool);
	for (i = 0; i < 8; i++)
		good &= kvslab_alloc(client[i], id, p[i], 3, 0) == 3;
	ok(good, "each takes pages, although there are more clients than extents");
	ok(stat_of(client[0]).takeovers > 0 && whole(client[0]), "so slabs were taken over");
	for (i = 0; i < 8; i++)
		for (k = 0; k < 8; k++)
			good &= k == i || (!kvslab_page_ro(client[k], p[i][0]) &&
					   kvslab_free(client[k], p[i], 1) < 0);
	ok(good, "none can touch another's");
	for (i = 8; i > 1; i--) {
		k = (int)(rnd(&seed) % (uint64_t)i);
		kvslab_pool_close(client[k]);
		client[k] = client[i - 1];
		memcpy(p[k], p[i - 1], sizeof(p[k]));
		good &= whole(client[0]) &&
			stat_of(client[0]).private_pages == 3 * ((uint64_t)i - 1);
	}
	ok(good && kvslab_free(client[0], p[0], 3) == 0, "they close in any order");
	kvslab_pool_close(client[0]);
}

/* Arenas have random numbers: eight of them are not all the same. */
static void test_arenas(void)
{
	struct kvslab_pool *pool[8];
	kvslab_handle page[8], first = 0;
	int i, apart = 0;

	for (i = 0; i < 8; i++) {
		pool[i] = open_pool("embedded:8M");
		if (!pool[i] ||
		    kvslab_alloc(pool[i], open_cache(pool[i], MIB), &page[i], 1, 0) != 1)
			break;
		first = i ? first : page[0];
		apart += !kvslab_page_ro(pool[i], first);
	}
	ok(i == 8 && apart, "a page of one arena is none of %d others out of 7", apart);
	while (i-- > 0)
		kvslab_pool_close(pool[i]);
}

static void test_texts(void)
{
	static const int errs[] = { EINVAL,   ENOMEM, ENOSPC, EDQUOT,	  ESTALE,
				    EBADF,    ENOENT, EBUSY,  EAGAIN,	  E2BIG,
				    EMSGSIZE, EFBIG,  EDOM,   EOPNOTSUPP, EUCLEAN };
	const char *system_error = kvslab_strerror(-EXDEV);
	char version[32];
	size_t i;
	int good = 1;

	snprintf(version, sizeof(version), "%d.%d.%d", KVSLAB_VERSION_MAJOR, KVSLAB_VERSION_MINOR,
		 KVSLAB_VERSION_PATCH);
	ok(!strcmp(kvslab_version(), version), "version %s", kvslab_version());
	for (i = 0; i < sizeof(errs) / sizeof(*errs); i++)
		good &= strcmp(kvslab_strerror(-errs[i]), system_error) &&
			strlen(kvslab_strerror(-errs[i])) > 10;
	ok(good, "every error of the header has a text of its own");
	ok(!strcmp(kvslab_strerror(0), "success") && system_error && kvslab_strerror(-1000000),
	   "and any number has one");
}

static void test_slabs(void)
{
	struct kvslab_pool *pool = open_pool("embedded:64M");
	struct kvslab_stat stat, sum = { 0 };
	struct kvslab_slab slabs[40];
	uint32_t ids[2] = { open_cache(pool, 512 << 10), open_cache(pool, 340 << 10) }, from = 0, few = 1 + (uint32_t)(rnd(&seed) % 40), rounds = 0;
	int i, n, last = -1, rising = 1, whole_pages = 1;
	kvslab_handle page;

	ok(kvslab_slabs(NULL, &from, slabs, 3) == -EINVAL && kvslab_slabs(pool, NULL, slabs, 3) == -EINVAL &&
	   kvslab_slabs(pool, &from, NULL, 3) == -EINVAL && kvslab_slabs(pool, &from, slabs, 0) == -EINVAL,
	   "slabs: bad arguments");
	ok(kvslab_slabs(pool, &from, slabs, 3) == 0 && !from, "slabs: of a new pool, none");
	for (i = 0; i < 40; i++) {
		if (rnd(&seed) % 3 == 0)
			make_cached(pool, ids[i % 2], rnd(&seed));
		else if (kvslab_alloc(pool, ids[i % 2], &page, 1, 0) != 1)
			break;
	}
	do {
		n = kvslab_slabs(pool, &from, slabs, few);
		for (i = 0; i < n; i++) {
			rising &= (int)slabs[i].extent > last;
			last = (int)slabs[i].extent;
			whole_pages &= slabs[i].pages == slabs[i].free + slabs[i].private_pages + slabs[i].moving +
						       slabs[i].sealed + slabs[i].cached + slabs[i].quarantined;
			sum.slabs++;
			sum.free += slabs[i].free;
			sum.private_pages += slabs[i].private_pages;
			sum.cached += slabs[i].cached;
		}
	} while (n > 0 && from && ++rounds < 100);
	stat = stat_of(pool);
	ok(n >= 0 && !from && rising && whole_pages, "slabs: in their order, %u a call; each page in one state", few);
	ok(sum.slabs == stat.slabs && stat.slabs > 3 && sum.free == stat.free && sum.cached == stat.cached &&
	   sum.private_pages == stat.private_pages, "slabs: their sums are the pool's: %llu slabs, %llu cached pages",
	   (unsigned long long)sum.slabs, (unsigned long long)sum.cached);
	kvslab_pool_close(pool);
}

int main(int argc, char **argv)
{
	seed = tap_seed(argc, argv);
	test_texts();
	test_open();
	test_cache();
	test_alloc();
	if (!on_module())
		test_guarantee();
	test_free();
	test_get();
	test_seal();
	test_evict();
	if (!on_module())
		test_quarantine();
	test_stat();
	test_slabs();
	test_share();
	test_arenas();
	return done();
}
