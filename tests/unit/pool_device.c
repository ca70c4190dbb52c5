// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* The library's code for nodes: what it knows without asking, what it makes of errors, and its place on a loop. */
#include <errno.h>
#include <string.h>

#include "kmod/uapi/kvslab.h"
#include "runtime/pool/device.h"
#include "runtime/pool/pool.h"
#include "runtime/pool/ring.h"
#include "runtime/loop/loop.h"
#include "tests/lib/tap.h"
#include "tests/lib/test_pool.h"
#include "tests/lib/wire_mock.h"

#define PAGE (128u << 10)

static char said[600];
static int lines;

static void log_line(void *data, enum kvslab_log_level level, const char *text)
{
	(void)data;
	(void)level;
	snprintf(said, sizeof(said), "%s", text);
	lines++;
}

static struct kvslab_pool *open_wire(struct pool_wire **wire, const char *spec)
{
	struct kvslab_pool_opts opts = { .log = log_line };
	struct kvslab_pool *pool;

	if (wire_mock_open(wire, spec, NULL) || device_open_wire(&pool, *wire, &opts)) {
		ok(0, "a pool behind a wire");
		exit(done());
	}
	return pool;
}

static struct kvslab_seal seal_of(kvslab_handle page, uint8_t hash)
{
	struct kvslab_seal s = { .page = page, .flags = KVSLAB_SEAL_ROOT };

	memset(s.hash.b, hash, sizeof(s.hash.b));
	return s;
}

static void test_open(void)
{
	static const struct {
		const char *path, *says;
		int rc;
	} wrong[] = {
		{ "/dev/kvslab/no-such-pool", "there is no /dev/kvslab/no-such-pool", -ENOENT },
		{ "/dev/null", "/dev/null is no pool", -ENOTTY },
		{ "/etc/passwd", "/etc/passwd is no pool", -ENOTTY },
		{ "/", "/ cannot be opened: Is a directory", -EISDIR },
	};
	struct kvslab_pool_opts opts = { .log = log_line };
	struct kvslab_pool *pool;
	struct pool_wire *wire;
	size_t i;
	int rc;

	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		said[0] = 0;
		rc = kvslab_pool_open(&pool, wrong[i].path, &opts);
		ok(rc == wrong[i].rc && !strncmp(said, wrong[i].says, strlen(wrong[i].says)), "%s: %d, \"%s\"", wrong[i].path,
		   rc, said);
	}
	ok(kvslab_pool_open(&pool, "/dev/null", NULL) == -ENOTTY, "without a log");
	opts.max = 1 << 30;
	ok(kvslab_pool_open(&pool, "/dev/null", &opts) == -EINVAL && strstr(said, "kvslab pool set"),
	   "sizes are not the opener's: %s", said);
	opts.max = 0;
	if (wire_mock_open(&wire, "embedded:2M", NULL))
		return;
	wire_mock_fail(wire, -ENODEV, 1);
	ok(device_open_wire(&pool, wire, &opts) == -ENODEV, "a pool that goes while it is opened");
}

static void test_known(void)
{
	struct pool_wire *wire;
	struct kvslab_pool *pool = open_wire(&wire, "embedded:4M"), *other;
	struct kvslab_cache cache;
	struct kvslab_seal s[2];
	kvslab_handle p[3], q, found;
	uint64_t before;
	char why[200] = "";

	ok(!kvslab_cache_open(pool, PAGE, &cache) && kvslab_alloc(pool, cache.id, p, 3, 0) == 3, "three pages");
	before = wire_mock_commands(wire);
	ok(kvslab_page_rw(pool, p[0]) && kvslab_page_ro(pool, p[0]) && !kvslab_page_ro(pool, p[0] + 1) &&
		   !kvslab_page_ro(pool, 0) && !kvslab_page_rw(pool, UINT64_MAX),
	   "where they are, and that others are not there");
	ok(wire_mock_commands(wire) == before, "is known without a command");
	memset(kvslab_page_rw(pool, p[0]), 7, PAGE);
	s[0] = seal_of(p[0], 1);
	s[1] = seal_of(p[1], 1);
	ok(!kvslab_seal(pool, s, 1) && !kvslab_page_rw(pool, p[0]) && kvslab_page_ro(pool, p[0]), "sealed: read-only");
	ok(!kvslab_seal(pool, s + 1, 1) && s[1].page == p[0] && !kvslab_page_ro(pool, p[1]) && kvslab_page_ro(pool, p[0]),
	   "a duplicate is replaced");
	ok(!kvslab_pool_check(pool, why, sizeof(why)), "module and library agree %s", why);
	ok(!kvslab_get(pool, p, 1) && !kvslab_free(pool, p, 1) && !kvslab_free(pool, p, 1) && kvslab_page_ro(pool, p[0]),
	   "three references, two given back");
	ok(!kvslab_free(pool, p, 1) && !kvslab_page_ro(pool, p[0]), "the last one, and it is not this client's any more");
	ok(kvslab_lookup(pool, cache.id, &s[0].hash, 1, &found) == 1 && found == p[0] && kvslab_page_ro(pool, p[0]),
	   "found again");
	ok(!kvslab_pool_share(pool, &other) && !kvslab_page_ro(other, p[0]), "another client does not have it");
	ok(kvslab_alloc(other, cache.id, &q, 1, 0) == 1 && kvslab_page_rw(other, q),
	   "it knows the size of a cache that it did not open");
	ok(kvslab_alloc(other, 7, &q, 1, 0) == -EINVAL && kvslab_alloc(other, 99, &q, 1, 0) == -EINVAL, "no such cache");
	ok(!kvslab_pool_check(other, why, sizeof(why)), "they agree there, too %s", why);
	kvslab_pool_close(other);

	/* The table is wrong: the check must see it. */
	held_add_private(&pool->device->held, 12345, 4096);
	ok(kvslab_pool_check(pool, why, sizeof(why)) == -EUCLEAN, "a page too many is noticed: %s", why);
	kvslab_pool_close(pool);
}

/* Whatever fails, the library's table stays that of the module. */
static void test_failures(uint64_t *seed)
{
	struct pool_wire *wire;
	struct kvslab_pool *pool = open_wire(&wire, "embedded:4M");
	struct kvslab_cache cache;
	kvslab_handle held[16], page;
	struct kvslab_seal s;
	char why[200] = "";
	int i, n = 0, rc, failed = 0, bad = 0, big;
	struct kvslab_hash hash;
	static kvslab_handle many[KVSLAB_BATCH_MAX + 1];

	ok(!kvslab_cache_open(pool, PAGE, &cache), "a cache");
	for (i = 0; i < 20000 && !bad; i++) {
		bool fails = rnd(seed) % 4 == 0;

		if (fails)
			wire_mock_fail(wire, rnd(seed) % 2 ? -ENOMEM : -EFAULT, 1);
		switch (rnd(seed) % 5) {
		case 0:
			rc = n < 16 ? kvslab_alloc(pool, cache.id, &page, 1, 0) : 0;
			if (rc == 1)
				held[n++] = page;
			break;
		case 1:
			rc = n ? kvslab_free(pool, &held[n - 1], 1) : 0;
			n -= n && !rc;
			break;
		case 2:
			s = seal_of(n ? held[n - 1] : 0, (uint8_t)(rnd(seed) % 4));
			rc = kvslab_seal(pool, &s, 1);
			if (!rc)
				held[n - 1] = s.page;
			break;
		case 3:
			memset(hash.b, (int)(rnd(seed) % 4), sizeof(hash.b));
			rc = n < 16 ? kvslab_lookup(pool, cache.id, &hash, 1, &page) : 0;
			if (rc == 1)
				held[n++] = page;
			break;
		default:
			rc = n && n < 16 ? kvslab_get(pool, &held[n - 1], 1) : 0;
			if (n && n < 16 && !rc)
				held[n] = held[n - 1], n++;
			break;
		}
		wire_mock_fail(wire, 0, 0);
		failed += rc < 0;
		if (i % 50 == 0)
			bad = kvslab_pool_check(pool, why, sizeof(why));
	}
	ok(!bad && failed > 1000, "20000 calls, %d failed: module and library agree %s", failed, why);
	big = kvslab_alloc(pool, cache.id, many, KVSLAB_BATCH_MAX + 1, 0);
	ok(big == -EINVAL && kvslab_free(pool, many, KVSLAB_BATCH_MAX + 1) == -EINVAL &&
		   kvslab_get(pool, many, 0) == -EINVAL,
	   "more than a batch");
	wire_mock_kill(wire);
	ok(kvslab_alloc(pool, cache.id, &page, 1, 0) == -ENODEV && kvslab_free(pool, held, 1) == -ENODEV,
	   "the pool is destroyed: that is what calls say");
	ok(kvslab_pool_events(pool) == KVSLAB_EVENT_DEAD, "and what the event says");
	kvslab_pool_close(pool);
}

static int events;

static void on_event(void *data)
{
	events++;
	kvslab_pool_events(data);
}

static void test_ring(enum kvslab_loop_kind kind, const char *name)
{
	struct kvslab_pool *pool, *other;
	struct kvslab_cache cache;
	struct kvslab_loop *loop;
	struct pool_ring *ring, *second;
	struct kvslab_stat stat;
	kvslab_handle p[64];
	char why[200] = "";
	int i, rc;

	if (kvslab_loop_open(&loop, kind)) {
		ok(1, "%s: not here # SKIP", name);
		return;
	}
	if (!ok(!test_pool_open(&pool, "embedded:8M", NULL) && !kvslab_pool_share(pool, &other) &&
			!kvslab_cache_open(pool, PAGE, &cache),
		"%s: a pool", name))
		return;
	rc = pool_ring_open(&ring, pool, loop, on_event, pool);
	ok(!rc, "%s: on a loop (%d)", name, rc);
	if (test_pool_kind() != TEST_POOL_EMBEDDED)
		ok(pool_ring_open(&second, pool, loop, on_event, pool) == -EBUSY, "%s: on one only", name);
	kvslab_loop_step(loop, 10);
	/* On the module and an io_uring, commands go there now. */
	for (i = 0; i < 200; i++) {
		uint32_t n = 1 + (uint32_t)i % 64, k;

		rc = kvslab_alloc(pool, cache.id, p, n, 0);
		if (rc != (int)n)
			break;
		for (k = 0; k < n; k += 16)
			pool_free_later(pool, p + k, n - k < 16 ? n - k : 16);
		if (kvslab_page_ro(pool, p[0]))
			break;
		if (i % 3 == 0)
			kvslab_loop_step(loop, 0);
	}
	ok(i == 200, "%s: what is given back later is there when it is wanted (%d, %d)", name, i, rc);
	kvslab_loop_step(loop, 10);
	kvslab_loop_step(loop, 0);
	ok(!kvslab_stat(pool, &stat) && !stat.private_pages && !kvslab_pool_check(pool, why, sizeof(why)),
	   "%s: all is back %s", name, why);
	events = 0;
	ok(kvslab_alloc(other, cache.id, p, 64, 0) == 64 && kvslab_alloc(pool, cache.id, p, 1, 0) < 0, "%s: no room", name);
	kvslab_loop_step(loop, 0);
	kvslab_loop_step(loop, 0);
	events = 0;
	kvslab_free(other, p, 1);
	for (i = 0; i < 10 && !events; i++)
		kvslab_loop_step(loop, 10);
	ok(events >= 1, "%s: the loop is told of room", name);
	if (kvslab_alloc(pool, cache.id, p, 1, 0) == 1)
		pool_free_later(pool, p, 1);
	pool_ring_close(ring);
	kvslab_loop_close(loop);
	rc = kvslab_stat(other, &stat);
	ok(!rc && stat.private_pages == 63, "%s: closing sends what is left (%llu)", name,
	   (unsigned long long)stat.private_pages);
	kvslab_pool_close(pool);
	kvslab_pool_close(other);
}

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(argc, argv);

	test_open();
	test_known();
	test_failures(&seed);
	test_ring(KVSLAB_LOOP_URING, "io_uring");
	test_ring(KVSLAB_LOOP_EPOLL, "epoll");
	return done();
}
