// SPDX-License-Identifier: GPL-2.0
/*
 * The tracepoints: what they say, added up, is what STAT says. Commands of all kinds at random, in
 * a pool so small that slabs are taken over and pages evicted, with every event in a trace of its
 * own.
 */
#include <sys/stat.h>
#include <sys/uio.h>

#include "ks.h"

#define SIZE (256u << 10)
#define TRACE "/sys/kernel/tracing/instances/kvslab_test"
#define ROUNDS 1500

/* As the events add up, of one pool. */
static struct {
	long privates, indexed, slabs, allocs, frees, lookups, asked, found, seals, duplicates,
		evicted, refused, begins, ends, pressure, taken, lines, looked_up, got, gets,
		gets_failed, entered, left;
	/* commands by number: begun, ended by how, ended well, answered by "again" */
	long command[32], ended[32][3], well[32], again[32];
	/* pages as told in masks of many, and masks that cannot be */
	long mask_allocs, mask_frees, mask_wrong;
	bool wrong; /* an end that is not of the command that began last: they come one by one here
		     */
	long running;
} seen;

/* What this test did: calls, and those that ended well. */
static long calls[32], calls_well[32], via[2];

static long did(u32 op, long r)
{
	calls[op & 31]++;
	calls_well[op & 31] += r >= 0;
	via[ks_via == KS_RING]++;
	return r;
}

static long number(const char *line, const char *key)
{
	const char *at = strstr(line, key);

	return at ? strtol(at + strlen(key), NULL, 0) : -1;
}

static u64 handle(const char *line, const char *key)
{
	const char *at = strstr(line, key);

	return at ? strtoull(at + strlen(key), NULL, 16) : 0;
}

static void add(const char *line, long pool)
{
	const char *name = strstr(line, ": kvslab_");

	if (!name || number(name, " pool=") != pool)
		return;
	name += strlen(": kvslab_");
	seen.lines++;
#define IS(what) (!strncmp(name, what ":", sizeof(what)))
	if (IS("command_begin")) {
		seen.wrong |= seen.running;
		seen.running = number(name, " command=");
		seen.command[seen.running & 31]++;
	} else if (IS("command_end")) {
		long nr = number(name, " command="), how = strstr(name, "how=ioctl")  ? 0
							   : strstr(name, "how=ring") ? 1
										      : 2;

		seen.wrong |= seen.running != nr;
		seen.running = 0;
		seen.ended[nr & 31][how]++;
		seen.well[nr & 31] += number(name, " result=") >= 0;
		seen.again[nr & 31] += how == 1 && number(name, " result=") == -EAGAIN;
	} else if (IS("page_ref")) {
		seen.looked_up += !!strstr(name, "why=lookup");
		seen.got += !!strstr(name, "why=get");
	} else if (IS("get")) {
		seen.gets += number(name, " error=") ? 0 : number(name, " count=");
		seen.gets_failed += !!number(name, " error=");
	} else if (IS("quarantine")) {
		seen.entered += !!strstr(name, " enters");
		seen.left += !!strstr(name, " leaves");
	} else if (IS("pages_alloc")) {
		seen.mask_allocs += number(name, " count=");
		seen.mask_wrong +=
			__builtin_popcountll(handle(name, " mask=")) != number(name, " count=") ||
			handle(name, " first=") & ((1ull << 34) - 1);
	} else if (IS("pages_free")) {
		seen.mask_frees += number(name, " count=");
		seen.mask_wrong +=
			__builtin_popcountll(handle(name, " mask=")) != number(name, " count=") ||
			handle(name, " first=") & ((1ull << 34) - 1);
	} else if (IS("page_alloc")) {
		seen.privates++;
		seen.allocs++;
	} else if (IS("page_free")) {
		seen.frees++;
		seen.privates -= !strstr(name, "left=reference");
	} else if (IS("page_seal")) {
		bool new = handle(name, " page=") == handle(name, " sealed=");

		seen.seals++;
		seen.duplicates += !new;
		seen.privates -= new;
		seen.indexed += new;
	} else if (IS("lookup")) {
		seen.lookups++;
		seen.asked += number(name, " asked=");
		seen.found += number(name, " found=");
	} else if (IS("evict")) {
		seen.indexed--;
		seen.evicted++;
	} else if (IS("slab_new")) {
		seen.slabs++;
	} else if (IS("slab_free")) {
		seen.slabs--;
	} else if (IS("slab_take")) {
		seen.taken++;
	} else if (IS("quota")) {
		seen.refused++;
	} else if (IS("client")) {
		seen.begins += !!strstr(name, " begins ");
		seen.ends += !!strstr(name, " ends ");
	} else if (IS("pressure")) {
		seen.pressure++;
	}
}

/* Whether nothing was lost. */
static bool read_trace(long pool)
{
	FILE *f = fopen(TRACE "/trace", "r");
	unsigned long in = 0, written = 1;
	char line[1000];

	if (!f)
		return false;
	while (fgets(line, sizeof(line), f)) {
		if (line[0] == '#')
			sscanf(line, "# entries-in-buffer/entries-written: %lu/%lu", &in, &written);
		else
			add(line, pool);
	}
	fclose(f);
	return in == written;
}

/* One client's pages. */
struct hold {
	struct ks_client k;
	u64 privates[64], sealed[64];
	int nr_privates, nr_sealed;
};

static void step(struct hold *h, u64 *seed)
{
	u8 hashes[4][HASH];
	u64 pages[8];
	long n = 1 + rnd(seed) % 8, r, i;

	switch (rnd(seed) % 7) {
	case 0:
	case 1:
		if (h->nr_privates + n > 64)
			return;
		r = did(KVSLAB_CMD_ALLOC, ks_alloc(h->k.fd, h->k.c.id, h->privates + h->nr_privates,
						   n, rnd(seed) % 2));
		h->nr_privates += r > 0 ? r : 0;
		break;
	case 2:
		n = n < h->nr_privates ? n : h->nr_privates;
		if (n &&
		    !did(KVSLAB_CMD_FREE, ks_free(h->k.fd, h->privates + h->nr_privates - n, n)))
			h->nr_privates -= n;
		break;
	case 3:
		if (!h->nr_privates || h->nr_sealed == 64)
			return;
		pages[0] = h->privates[h->nr_privates - 1];
		if (did(KVSLAB_CMD_SEAL, ks_seal_one(h->k.fd, &pages[0], 1, rnd(seed) % 60)) < 0)
			return;
		h->nr_privates--;
		h->sealed[h->nr_sealed++] = pages[0];
		break;
	case 4:
		if (h->nr_sealed &&
		    !did(KVSLAB_CMD_FREE, ks_free(h->k.fd, &h->sealed[h->nr_sealed - 1], 1)))
			h->nr_sealed--;
		break;
	case 5:
		if (!h->nr_sealed || h->nr_sealed == 64)
			return;
		pages[0] = pages[1] = h->sealed[rnd(seed) % h->nr_sealed];
		n = 1 + rnd(seed) % 2;
		if (rnd(seed) % 8 == 0)
			pages[n - 1] ^= 1; /* one that it does not hold */
		if (h->nr_sealed + n <= 64 && !did(KVSLAB_CMD_GET, ks_get(h->k.fd, pages, n)))
			while (n--)
				h->sealed[h->nr_sealed++] = pages[0];
		break;
	default:
		for (i = 0; i < 4; i++)
			ks_hash(hashes[i], 1, rnd(seed) % 60);
		r = did(KVSLAB_CMD_LOOKUP,
			ks_lookup(h->k.fd, h->k.c.id, (const u8(*)[HASH])hashes, pages, 4));
		for (i = 0; i < r; i++) {
			if (h->nr_sealed < 64)
				h->sealed[h->nr_sealed++] = pages[i];
			else
				did(KVSLAB_CMD_FREE, ks_free(h->k.fd, &pages[i], 1));
		}
	}
}

static bool no_quarantine(void *fd)
{
	struct kvslab_stat_pool s;

	return !ks_stat(*(int *)fd, &s) && !s.quarantined;
}

/* A page in another client's slab that a pipe holds when it is freed, until the pipe lets go. */
static void quarantine(void)
{
	struct kvslab_stat_pool s;
	struct ks_client k[2];
	u64 pages[EXTENT / SIZE];
	char bytes[FRAME];
	struct iovec iov;
	bool whole;
	int p[2];

	must(!ks_pool("pinched", 0, EXTENT, 0600) && !ks_client(&k[0], "pinched", SIZE) &&
		     !ks_client(&k[1], "pinched", SIZE) && !pipe(p),
	     "a pool of one extent, two clients, a pipe");
	must(ks_alloc(k[0].fd, k[0].c.id, pages, 1, 0) == 1 &&
		     ks_alloc(k[1].fd, k[1].c.id, pages + 1, COUNT(pages) - 1, 0) ==
			     COUNT(pages) - 1,
	     "the second takes the first one's slab");
	memset(ks_at(&k[0], k[0].w, pages[0]), 1, FRAME);
	iov = (struct iovec){ ks_at(&k[0], k[0].w, pages[0]), FRAME };
	must(vmsplice(p[1], &iov, 1, 0) == FRAME && !ks_free(k[0].fd, pages, 1),
	     "freed with a frame in the pipe");
	ks_stat(k[1].fd, &s);
	ok(s.quarantined == 1, "it is in quarantine: %llu", (unsigned long long)s.quarantined);
	/* Looked at again and again meanwhile: that is no event. */
	usleep(700000);
	must(read(p[0], bytes, FRAME) == FRAME, "the pipe lets go");
	ok(ks_until(no_quarantine, &k[1].fd, 60), "and it leaves");
	memset(&seen, 0, sizeof(seen));
	whole = read_trace(k[0].c.pool);
	ok(whole && seen.entered == 1 && seen.left == 1,
	   "events say that %ld page entered quarantine, %ld left it", seen.entered, seen.left);
	close(p[0]);
	close(p[1]);
	ks_close(&k[0]);
	ks_close(&k[1]);
}

/* What the events say of commands, against what was done. */
static void commands(void)
{
	static const struct {
		u32 op;
		const char *name;
	} all[] = { { KVSLAB_CMD_ALLOC, "ALLOC" },
		    { KVSLAB_CMD_FREE, "FREE" },
		    { KVSLAB_CMD_GET, "GET" },
		    { KVSLAB_CMD_SEAL, "SEAL" },
		    { KVSLAB_CMD_LOOKUP, "LOOKUP" } };
	long how[3] = { 0 }, again = 0;
	u32 i, h, c;

	for (i = 0; i < COUNT(all); i++) {
		c = all[i].op & 31;
		for (h = 0; h < 3; h++)
			how[h] += seen.ended[c][h];
		again += seen.again[c];
		ok(seen.command[c] - seen.again[c] == calls[c] && seen.well[c] == calls_well[c] &&
			   calls_well[c] &&
			   seen.command[c] ==
				   seen.ended[c][0] + seen.ended[c][1] + seen.ended[c][2],
		   "%s: %ld began, %ld of them once more, %ld ended well; %ld were given, %ld went well",
		   all[i].name, seen.command[c], seen.again[c], seen.well[c], calls[c],
		   calls_well[c]);
	}
	ok(how[0] == via[0] && how[1] == via[1] && how[2] == again && again,
	   "%ld as ioctls, %ld as io_uring commands, of which %ld, %ld in a worker; %ld and %ld were given",
	   how[0], how[1], again, how[2], via[0], via[1]);
	ok(!seen.wrong && !seen.running, "each ends before the next one begins");
}

int main(int argc, char **argv)
{
	u64 seed = ks_seed(argc, argv);
	struct kvslab_stat_pool s;
	static struct hold h[2];
	int i;

	/* Events of all CPUs in one order. */
	must(!mkdir(TRACE, 0755) && !ks_write_file(TRACE "/buffer_size_kb", "8192") &&
		     !ks_write_file(TRACE "/trace_clock", "counter") &&
		     !ks_write_file(TRACE "/events/kvslab/enable", "1"),
	     "a trace of its own, with every event in it");
	must(!ks_pool("traced", 0, 12 * EXTENT / 2, 0600), "a pool of 6 extents");
	must(!ks_client(&h[0].k, "traced", SIZE) && !ks_client(&h[1].k, "traced", SIZE),
	     "two clients");
	for (i = 0; i < ROUNDS; i++) {
		ks_via = rnd(&seed) % 2 ? KS_RING : KS_IOCTL;
		step(&h[rnd(&seed) % 2], &seed);
	}
	ks_via = KS_IOCTL;
	ks_write_file(TRACE "/tracing_on", "0");
	ks_stat(h[0].k.fd, &s);
	ok(read_trace(h[0].k.c.pool), "no event was lost");
	note("%ld events", seen.lines);
	ok(seen.privates == (long)s.private_pages, "private pages: %ld, STAT says %llu",
	   seen.privates, (unsigned long long)s.private_pages);
	ok(seen.indexed == (long)(s.sealed + s.cached), "sealed and cached pages: %ld, %llu",
	   seen.indexed, (unsigned long long)(s.sealed + s.cached));
	ok(seen.slabs == (long)s.slabs, "slabs: %ld, %llu", seen.slabs,
	   (unsigned long long)s.slabs);
	ok(seen.seals == (long)s.seals && seen.duplicates == (long)s.seal_duplicates,
	   "seals %ld, %ld of hashes that were there; %llu, %llu", seen.seals, seen.duplicates,
	   (unsigned long long)s.seals, (unsigned long long)s.seal_duplicates);
	ok(seen.lookups == (long)s.lookups && seen.asked == (long)s.lookup_asked &&
		   seen.found == (long)s.lookup_hits,
	   "lookups %ld, asked for %ld, found %ld; %llu, %llu, %llu", seen.lookups, seen.asked,
	   seen.found, (unsigned long long)s.lookups, (unsigned long long)s.lookup_asked,
	   (unsigned long long)s.lookup_hits);
	ok(seen.evicted == (long)s.evictions && seen.taken == (long)s.takeovers && seen.evicted &&
		   seen.taken,
	   "evicted %ld, taken over %ld; %llu, %llu", seen.evicted, seen.taken,
	   (unsigned long long)s.evictions, (unsigned long long)s.takeovers);
	ok(seen.refused == (long)s.failed && seen.refused, "ALLOCs refused %ld, %llu", seen.refused,
	   (unsigned long long)s.failed);
	ok(seen.mask_allocs == seen.allocs && seen.mask_frees == seen.frees && !seen.mask_wrong,
	   "the same in masks: %ld allocated, %ld given back; one by one %ld, %ld",
	   seen.mask_allocs, seen.mask_frees, seen.allocs, seen.frees);
	ok(seen.looked_up == seen.found, "LOOKUP's references one by one: %ld", seen.looked_up);
	ok(seen.got == seen.gets && seen.gets && seen.gets_failed,
	   "GET's: %ld of %ld, %ld calls refused", seen.got, seen.gets, seen.gets_failed);
	commands();
	ok(seen.begins == 2 && seen.ends == 0 && seen.pressure,
	   "two clients began; pressure came and went %ld times", seen.pressure);
	ks_write_file(TRACE "/tracing_on", "1");
	quarantine();
	ks_write_file(TRACE "/events/kvslab/enable", "0");
	for (i = 0; i < 2; i++)
		ks_close(&h[i].k);
	ok(!rmdir(TRACE), "the trace can go");
	return done();
}
