// SPDX-License-Identifier: GPL-2.0
/*
 * usage: bpf_work POOL MODE SEED [N]
 * The workloads that the BPF programs are held against. Each prints what it did, counted here, as one
 * line of JSON beside what STAT says, and waits for its standard input to end, so that somebody can
 * look. Modes:
 *
 *   leak    N random calls of one client, everything given back; then it leaks pages and references
 *           in functions of its own
 *   clean   N clients, each with random calls; half of them give everything back and stay, the
 *           others end with what they hold
 *   hold    some pages private, sealed and cached
 *   shares  a slab with known parts that are held, free, in quarantine and behind the last page
 *   cost    instructions of ALLOC and FREE in batches of 64, where time is their count
 */
#include <sys/uio.h>

#include "ks.h"

#define PAGE (64u << 10)
#define PRIVATE 48
/* With PRIVATE fewer than the pool has pages: no ALLOC is refused, none is undone. */
#define REFS 64

static struct {
	u64 allocs, frees, releases, seals, duplicates, lookups, asked, found, gets, refused;
	u64 alloc_calls, free_calls, seal_calls, get_calls;
} did;

static struct ks_client k;
static u64 mine[PRIVATE], refs[REFS];
static u32 n_mine, n_refs;
static u64 seed;

static u64 take(u64 *from, u32 *n, u32 i)
{
	u64 page = from[i];

	from[i] = from[--*n];
	return page;
}

static void do_alloc(void)
{
	u32 n = (u32)(rnd(&seed) % 8) + 1;
	long r;

	if (n_mine + n > PRIVATE)
		return;
	r = ks_alloc(k.fd, k.c.id, mine + n_mine, n, 0);
	did.alloc_calls++;
	if (r == -ENOSPC || r == -EDQUOT) {
		did.refused++;
		return;
	}
	must(r == (long)n, "ALLOC: %ld", r);
	did.allocs += n;
	n_mine += n;
}

static void do_free(void)
{
	bool private = n_refs == 0 || (n_mine && rnd(&seed) % 3 == 0);
	u32 n = 1, i;
	u64 pages[8];

	if (private && !n_mine)
		return;
	/* Several at once, in any order, private ones and references mixed. */
	for (i = 0; i < 1 + rnd(&seed) % COUNT(pages) && (n_mine || n_refs); i++) {
		private = n_refs == 0 || (n_mine && rnd(&seed) % 3 == 0);
		if (private)
			did.frees++;
		else
			did.releases++;
		pages[i] = private ? take(mine, &n_mine, (u32)(rnd(&seed) % n_mine)) :
				     take(refs, &n_refs, (u32)(rnd(&seed) % n_refs));
		n = i + 1;
	}
	must(ks_free(k.fd, pages, n) >= 0, "FREE");
	did.free_calls++;
}

static void do_seal(void)
{
	u64 page, was;
	long r;

	if (!n_mine || n_refs == REFS)
		return;
	page = was = take(mine, &n_mine, (u32)(rnd(&seed) % n_mine));
	r = ks_seal_one(k.fd, &page, 1, rnd(&seed) % 200);
	did.seal_calls++;
	if (r == -ENOSPC || r == -EDQUOT) {
		mine[n_mine++] = was;
		return;
	}
	must(r >= 0, "SEAL: %ld", r);
	if (page == was)
		did.seals++;
	else
		did.duplicates++;
	refs[n_refs++] = page;
}

static void do_lookup(void)
{
	u32 n = (u32)(rnd(&seed) % 4) + 1, i;
	u64 at = rnd(&seed) % 200;
	u8 hashes[4][HASH];
	long r;

	if (n_refs + n > REFS)
		return;
	for (i = 0; i < n; i++)
		ks_hash(hashes[i], 1, (at + i) % 200);
	r = ks_lookup(k.fd, k.c.id, (const u8(*)[HASH])hashes, refs + n_refs, n);
	must(r >= 0, "LOOKUP: %ld", r);
	did.lookups++;
	did.asked += n;
	did.found += (u64)r;
	n_refs += (u32)r;
}

static void do_get(void)
{
	if (!n_refs || n_refs == REFS)
		return;
	refs[n_refs] = refs[rnd(&seed) % n_refs];
	must(ks_get(k.fd, &refs[n_refs], 1) >= 0, "GET");
	n_refs++;
	did.gets++;
	did.get_calls++;
}

static void step(void)
{
	ks_via = rnd(&seed) % 2 ? KS_RING : KS_IOCTL;
	switch (rnd(&seed) % 9) {
	case 0:
	case 1:
		do_alloc();
		break;
	case 2:
	case 3:
		do_seal();
		break;
	case 4:
		do_lookup();
		break;
	case 5:
		do_get();
		break;
	default:
		do_free();
	}
	ks_via = KS_IOCTL;
}

static void give_back(void)
{
	while (n_mine || n_refs)
		do_free();
}

/* Not inlined, with frames of their own: these are the names that a stack must have. */
static __attribute__((noinline)) u64 leak_privates(void)
{
	u64 pages[3] = { 0 };
	long r = ks_alloc(k.fd, k.c.id, pages, 3, 0);

	must(r == 3, "ALLOC of what leaks: %ld", r);
	did.allocs += 3;
	did.alloc_calls++;
	return pages[1];
}

static __attribute__((noinline)) void leak_looked_up(u64 page)
{
	u8 hash[1][HASH];
	u64 found = 0;

	ks_hash(hash[0], 7, 7);
	must(ks_lookup(k.fd, k.c.id, (const u8(*)[HASH])hash, &found, 1) == 1 && found == page,
	     "LOOKUP of what leaks");
	did.lookups++;
	did.asked++;
	did.found++;
}

static __attribute__((noinline)) void leak_got(u64 page)
{
	must(ks_get(k.fd, &page, 1) >= 0, "GET of what leaks");
	did.gets++;
	did.get_calls++;
}

/* References to two pages; the first takes by LOOKUP what was given back, the second keeps GET's. */
static void leak_references(u64 pages[2])
{
	u32 i;

	for (i = 0; i < 2; i++) {
		must(ks_alloc(k.fd, k.c.id, &pages[i], 1, 0) == 1 &&
			     ks_seal_one(k.fd, &pages[i], 7, 7 + i) >= 0,
		     "sealed pages");
		did.allocs++;
		did.alloc_calls++;
		did.seals++;
		did.seal_calls++;
	}
	must(ks_free(k.fd, &pages[0], 1) >= 0, "FREE");
	leak_looked_up(pages[0]);
	leak_got(pages[1]);
	must(ks_free(k.fd, &pages[1], 1) >= 0, "FREE");
	did.free_calls += 2;
	did.releases += 2;
}

static __attribute__((noinline)) void wait_here(void)
{
	fflush(stdout);
	while (getchar() != EOF)
		;
}

static void print_stat(int fd)
{
	struct kvslab_stat_pool s;

	must(!ks_stat(fd, &s), "STAT");
#define L(x) ((unsigned long long)(x))
	printf("@stat {\"allocs\": %llu, \"frees\": %llu, \"seals\": %llu, \"duplicates\": %llu, \"lookups\": %llu, "
	       "\"asked\": %llu, \"found\": %llu, \"evictions\": %llu, \"slabs\": %llu, \"takeovers\": %llu, "
	       "\"private\": %llu, \"sealed\": %llu, \"cached\": %llu, \"free\": %llu, \"quarantined\": %llu, "
	       "\"failed\": %llu}\n",
	       L(s.allocs), L(s.frees), L(s.seals), L(s.seal_duplicates), L(s.lookups),
	       L(s.lookup_asked), L(s.lookup_hits), L(s.evictions), L(s.slabs), L(s.takeovers),
	       L(s.private_pages), L(s.sealed), L(s.cached), L(s.free), L(s.quarantined),
	       L(s.failed));
}

static void leak(const char *pool, u64 calls)
{
	u64 i, leaked, held[2];

	must(!ks_client(&k, pool, PAGE), "a client of %s", pool);
	for (i = 0; i < calls; i++)
		step();
	give_back();
	leaked = leak_privates();
	leak_references(held);
	printf("@work {\"pid\": %d, \"client\": %u, \"pool\": %u, \"cache\": %u, \"allocs\": %llu, \"frees\": %llu, "
	       "\"releases\": %llu, \"seals\": %llu, \"duplicates\": %llu, \"lookups\": %llu, \"asked\": %llu, "
	       "\"found\": %llu, \"gets\": %llu, \"refused\": %llu, \"alloc_calls\": %llu, \"free_calls\": %llu, "
	       "\"seal_calls\": %llu, \"get_calls\": %llu, \"leaked\": %llu, \"looked_up\": %llu, \"got\": %llu}\n",
	       getpid(), k.c.client, k.c.pool, k.c.id, L(did.allocs), L(did.frees), L(did.releases),
	       L(did.seals), L(did.duplicates), L(did.lookups), L(did.asked), L(did.found),
	       L(did.gets), L(did.refused), L(did.alloc_calls), L(did.free_calls),
	       L(did.seal_calls), L(did.get_calls), L(leaked), L(held[0]), L(held[1]));
	print_stat(k.fd);
	wait_here();
}

static void clean(const char *pool, u64 runs)
{
	u64 i, stay = 0, end = 0;
	int calls;

	for (i = 0; i < runs; i++) {
		must(!ks_client(&k, pool, PAGE), "a client of %s", pool);
		for (calls = 0; calls < 60; calls++)
			step();
		munmap(k.r, k.c.arena_size);
		munmap(k.w, k.c.arena_size);
		if (rnd(&seed) % 2) {
			n_mine = n_refs = 0;
			close(k.fd);
			end++;
			continue;
		}
		give_back();
		stay++;
	}
	printf("@clean {\"pool\": %u, \"stay\": %llu, \"ended\": %llu}\n", k.c.pool, L(stay), L(end));
	wait_here();
}

static void hold(const char *pool)
{
	u64 pages[70];
	int i;

	must(!ks_client(&k, pool, PAGE) && ks_alloc(k.fd, k.c.id, pages, 70, 0) == 70, "70 pages");
	for (i = 0; i < 10; i++)
		must(ks_seal_one(k.fd, &pages[i], 3, (u64)i) >= 0, "SEAL");
	must(ks_free(k.fd, pages, 5) >= 0 && ks_free(k.fd, pages + 60, 10) >= 0, "FREE");
	print_stat(k.fd);
	wait_here();
	/* Once more, with the trace attached. */
	must(ks_free(k.fd, pages + 10, 20) >= 0, "FREE");
	print_stat(k.fd);
}

#define SHARES_PAGE (340u << 10) /* six an extent, and a tail */

static void shares(const char *pool)
{
	struct ks_client b;
	u64 pages[6];
	struct iovec iov;
	int p[2];

	must(!ks_client(&k, pool, SHARES_PAGE) && !ks_client(&b, pool, SHARES_PAGE) && !pipe(p),
	     "two clients and a pipe");
	must(ks_alloc(k.fd, k.c.id, pages, 1, 0) == 1 &&
		     ks_alloc(b.fd, b.c.id, pages + 1, 5, 0) == 5,
	     "the second takes the first one's slab");
	memset(ks_at(&k, k.w, pages[0]), 1, FRAME);
	iov = (struct iovec){ ks_at(&k, k.w, pages[0]), FRAME };
	must(vmsplice(p[1], &iov, 1, 0) == FRAME && ks_free(k.fd, pages, 1) >= 0,
	     "freed with a frame in the pipe");
	must(ks_free(b.fd, pages + 1, 2) >= 0, "FREE");
	printf("@shares {\"pool\": %u, \"private\": 3, \"free\": 2, \"quarantined\": 1, \"tail_bytes\": %u, "
	       "\"page_size\": %u}\n",
	       k.c.pool, EXTENT - 6 * SHARES_PAGE, SHARES_PAGE);
	print_stat(k.fd);
	wait_here();
}

static inline u64 ticks(void)
{
	u32 lo, hi;

	__asm__ volatile("lfence; rdtsc" : "=a"(lo), "=d"(hi));
	return (u64)hi << 32 | lo;
}

static void cost(const char *pool)
{
	u64 pages[64], least = ~0ull, t;
	int i;

	must(!ks_client(&k, pool, PAGE), "a client of %s", pool);
	for (i = 0; i < 100; i++) {
		t = ticks();
		if (ks_alloc(k.fd, k.c.id, pages, 64, 0) != 64 || ks_free(k.fd, pages, 64) < 0)
			exit(1);
		t = ticks() - t;
		/* The least: the others had a timer's interrupt in them. */
		least = t < least ? t : least;
	}
	printf("@cost %llu\n", L(least));
}

int main(int argc, char **argv)
{
	u64 n = argc > 4 ? strtoull(argv[4], NULL, 0) : 0;

	must(argc >= 4, "usage: bpf_work POOL MODE SEED [N]");
	seed = strtoull(argv[3], NULL, 0);
	if (!strcmp(argv[2], "leak"))
		leak(argv[1], n);
	else if (!strcmp(argv[2], "clean"))
		clean(argv[1], n);
	else if (!strcmp(argv[2], "hold"))
		hold(argv[1]);
	else if (!strcmp(argv[2], "shares"))
		shares(argv[1]);
	else if (!strcmp(argv[2], "cost"))
		cost(argv[1]);
	else
		must(0, "%s is no mode", argv[2]);
	return 0;
}
