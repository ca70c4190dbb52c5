// SPDX-License-Identifier: GPL-2.0
/*
 * usage: bpf_work POOL CALLS SEED [leak]
 * The workload that the BPF programs are held against: random calls of one client, counted here,
 * and printed as one line of JSON beside what STAT says. With "leak" it then leaks pages in
 * leak_here() and waits for its standard input to end, so that somebody can look at it.
 */
#include "ks.h"

#define PAGE (64u << 10)
#define PRIVATE 48
#define REFS \
	64 /* with PRIVATE fewer than the pool has pages: no ALLOC is refused, none is undone */

static struct {
	u64 allocs, frees, releases, seals, duplicates, lookups, asked, found, refused, alloc_calls,
		free_calls, seal_calls;
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
	u64 page;

	if (private && !n_mine)
		return;
	page = private ? take(mine, &n_mine, (u32)(rnd(&seed) % n_mine))
		       : take(refs, &n_refs, (u32)(rnd(&seed) % n_refs));
	must(ks_free(k.fd, &page, 1) >= 0, "FREE");
	did.free_calls++;
	if (private)
		did.frees++;
	else
		did.releases++;
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
	r = ks_lookup(k.fd, k.c.id, hashes, refs + n_refs, n);
	must(r >= 0, "LOOKUP: %ld", r);
	did.lookups++;
	did.asked += n;
	did.found += (u64)r;
	n_refs += (u32)r;
}

/* Not inlined, and with a frame of its own: its address is what the stack must name. */
static __attribute__((noinline, aligned(16))) u64 leak_here(void)
{
	u64 pages[3] = { 0 };
	long r = ks_alloc(k.fd, k.c.id, pages, 3, 0);

	must(r == 3, "ALLOC of what leaks: %ld", r);
	did.allocs += 3;
	did.alloc_calls++;
	return pages[1];
}

static __attribute__((noinline, aligned(16))) void after_leak_here(void)
{
	fflush(stdout);
	while (getchar() != EOF)
		;
}

int main(int argc, char **argv)
{
	struct kvslab_stat_pool s;
	u64 calls, i, leaked = 0;

	must(argc >= 4, "usage: bpf_work POOL CALLS SEED [leak]");
	calls = strtoull(argv[2], NULL, 0);
	seed = strtoull(argv[3], NULL, 0);
	must(!ks_client(&k, argv[1], PAGE), "a client of %s", argv[1]);
	for (i = 0; i < calls; i++) {
		switch (rnd(&seed) % 8) {
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
		default:
			do_free();
		}
	}
	while (argc > 4 && (n_mine || n_refs))
		do_free();
	if (argc > 4)
		leaked = leak_here();
	must(!ks_stat(k.fd, &s), "STAT");
	printf("@work {\"pid\": %d, \"client\": %u, \"pool\": %u, \"cache\": %u, \"allocs\": %llu, \"frees\": %llu, "
	       "\"releases\": %llu, \"seals\": %llu, \"duplicates\": %llu, \"lookups\": %llu, \"asked\": %llu, "
	       "\"found\": %llu, \"refused\": %llu, \"alloc_calls\": %llu, \"free_calls\": %llu, "
	       "\"seal_calls\": %llu, \"private\": %u, \"leaked\": %llu, \"from\": %llu, \"to\": %llu}\n",
	       getpid(), k.c.client, k.c.pool, k.c.id, (unsigned long long)did.allocs,
	       (unsigned long long)did.frees, (unsigned long long)did.releases,
	       (unsigned long long)did.seals, (unsigned long long)did.duplicates,
	       (unsigned long long)did.lookups, (unsigned long long)did.asked,
	       (unsigned long long)did.found, (unsigned long long)did.refused,
	       (unsigned long long)did.alloc_calls, (unsigned long long)did.free_calls,
	       (unsigned long long)did.seal_calls, n_mine, (unsigned long long)leaked,
	       (unsigned long long)(uintptr_t)leak_here,
	       (unsigned long long)(uintptr_t)after_leak_here);
	printf("@stat {\"allocs\": %llu, \"frees\": %llu, \"seals\": %llu, \"duplicates\": %llu, \"lookups\": %llu, "
	       "\"asked\": %llu, \"found\": %llu, \"evictions\": %llu, \"slabs\": %llu, \"takeovers\": %llu, "
	       "\"private\": %llu, \"sealed\": %llu, \"cached\": %llu, \"free\": %llu, \"failed\": %llu}\n",
	       (unsigned long long)s.allocs, (unsigned long long)s.frees,
	       (unsigned long long)s.seals, (unsigned long long)s.seal_duplicates,
	       (unsigned long long)s.lookups, (unsigned long long)s.lookup_asked,
	       (unsigned long long)s.lookup_hits, (unsigned long long)s.evictions,
	       (unsigned long long)s.slabs, (unsigned long long)s.takeovers,
	       (unsigned long long)s.private_pages, (unsigned long long)s.sealed,
	       (unsigned long long)s.cached, (unsigned long long)s.free,
	       (unsigned long long)s.failed);
	fflush(stdout);
	if (argc > 4)
		after_leak_here();
	return 0;
}
