// SPDX-License-Identifier: GPL-2.0
/*
 * usage: view_work NAME POOL PAGE_SIZE SEED
 * A client whose pages are known: for each number on its standard input so many random calls, or
 * for "full" what fills a pool of one extent; then a line "@NAME JSON": what it did, which pages it
 * holds and how, which it sealed and are still there. Ends with its input.
 */
#include "ks.h"

#define PRIVATE 90
#define REFS 120
#define FULL 32 /* pages of 64 KiB in an extent */
#define HASHES 150 /* of all clients of a pool together */

static struct {
	u64 allocs, frees, releases, seals, duplicates, lookups, asked, found, evictions, refused;
} did;

static struct ks_client k;
static u64 mine[PRIVATE], refs[REFS], sealed[HASHES];
static u32 n_mine, n_refs, n_sealed;
static u64 seed;

static u64 take(u64 *from, u32 *n)
{
	u32 i = (u32)(rnd(&seed) % *n);
	u64 page = from[i];

	from[i] = from[--*n];
	return page;
}

static void do_alloc(void)
{
	u32 n = (u32)(rnd(&seed) % 8) + 1;

	if (n_mine + n > PRIVATE)
		return;
	must(ks_alloc(k.fd, k.c.id, mine + n_mine, n, 0) == (long)n, "ALLOC of %u", n);
	did.allocs += n;
	n_mine += n;
}

static void do_free(void)
{
	bool private = n_mine && (!n_refs || rnd(&seed) % 2);
	u64 page;

	if (!n_mine && !n_refs)
		return;
	page = private ? take(mine, &n_mine) : take(refs, &n_refs);
	must(ks_free(k.fd, &page, 1) >= 0, "FREE");
	if (private)
		did.frees++;
	else
		did.releases++;
}

static void do_seal(void)
{
	u64 page, was;

	if (!n_mine || n_refs == REFS)
		return;
	page = was = take(mine, &n_mine);
	must(ks_seal_one(k.fd, &page, 1, rnd(&seed) % HASHES) >= 0, "SEAL");
	refs[n_refs++] = page;
	if (page != was) {
		did.duplicates++;
		return;
	}
	did.seals++;
	sealed[n_sealed++] = page;
}

static void do_lookup(void)
{
	u32 n = (u32)(rnd(&seed) % 4) + 1, i;
	u64 at = rnd(&seed) % HASHES;
	u8 hashes[4][HASH];
	long r;

	if (n_refs + n > REFS)
		return;
	for (i = 0; i < n; i++)
		ks_hash(hashes[i], 1, (at + i) % HASHES);
	r = ks_lookup(k.fd, k.c.id, hashes, refs + n_refs, n);
	must(r >= 0, "LOOKUP: %ld", r);
	did.lookups++;
	did.asked += n;
	did.found += (u64)r;
	n_refs += (u32)r;
}

/* What is cached of the pool, told by looking for all of it. */
static void find_all(void)
{
	u8 hash[1][HASH];
	u64 page;
	u32 i, n = n_sealed;
	long r;

	for (n_sealed = i = 0; i < n; i++) {
		ks_hash(hash[0], 2, i);
		r = ks_lookup(k.fd, k.c.id, (const u8(*)[HASH])hash, &page, 1);
		must(r >= 0, "LOOKUP: %ld", r);
		did.lookups++;
		did.asked++;
		if (!r)
			continue;
		did.found++;
		sealed[n_sealed++] = page;
		must(ks_free(k.fd, &page, 1) >= 0, "FREE");
		did.releases++;
	}
	did.evictions += n - n_sealed;
}

/*
 * All sealed, half of it given back; some of that is evicted, then more asked for than is left. A
 * pool at its limit evicts only where it holds something.
 */
static void fill(void)
{
	u64 pages[FULL];
	long r;
	u32 i;

	must(ks_alloc(k.fd, k.c.id, pages, FULL, 0) == FULL, "ALLOC of the whole pool");
	did.allocs += FULL;
	for (i = 0; i < FULL; i++) {
		must(ks_seal_one(k.fd, &pages[i], 2, i) >= 0, "SEAL");
		sealed[n_sealed++] = pages[i];
		did.seals++;
	}
	n_refs = FULL / 2;
	memcpy(refs, pages, n_refs * sizeof(*refs));
	must(ks_free(k.fd, pages + n_refs, FULL - n_refs) >= 0, "FREE");
	did.releases += FULL - n_refs;
	n_mine = 10;
	must(ks_alloc(k.fd, k.c.id, mine, n_mine, 0) == n_mine, "ALLOC that evicts");
	did.allocs += n_mine;
	r = ks_alloc(k.fd, k.c.id, pages, FULL - n_refs - n_mine + 1, 0);
	must(r == -ENOSPC || r == -EDQUOT, "ALLOC of more than there is: %ld", r);
	did.refused++;
	find_all();
}

static void list(const char *name, const u64 *pages, u32 n)
{
	u32 i;

	printf(", \"%s\": [", name);
	for (i = 0; i < n; i++)
		printf("%s[%u, %u]", i ? ", " : "", KVSLAB_HANDLE_EXTENT(pages[i]),
		       KVSLAB_HANDLE_INDEX(pages[i]));
	printf("]");
}

static void tell(const char *name)
{
	printf("@%s {\"pid\": %d, \"client\": %u, \"pool\": %u, \"cache\": %u, \"allocs\": %llu, \"frees\": %llu, "
	       "\"releases\": %llu, \"seals\": %llu, \"duplicates\": %llu, \"lookups\": %llu, \"asked\": %llu, "
	       "\"found\": %llu, \"evictions\": %llu, \"refused\": %llu",
	       name, getpid(), k.c.client, k.c.pool, k.c.id, (unsigned long long)did.allocs,
	       (unsigned long long)did.frees, (unsigned long long)did.releases,
	       (unsigned long long)did.seals, (unsigned long long)did.duplicates,
	       (unsigned long long)did.lookups, (unsigned long long)did.asked,
	       (unsigned long long)did.found, (unsigned long long)did.evictions,
	       (unsigned long long)did.refused);
	list("private", mine, n_mine);
	list("refs", refs, n_refs);
	list("sealed", sealed, n_sealed);
	printf("}\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	unsigned long calls;
	char line[64];

	must(argc == 5, "usage: view_work NAME POOL PAGE_SIZE SEED");
	seed = strtoull(argv[4], NULL, 0);
	must(!ks_client(&k, argv[2], (u32)strtoul(argv[3], NULL, 0)), "a client of %s", argv[2]);
	while (fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, "full\n"))
			fill();
		for (calls = strtoul(line, NULL, 10); calls; calls--) {
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
		tell(argv[1]);
	}
	return 0;
}
