// SPDX-License-Identifier: GPL-2.0
/*
 * The tracepoints: what they say, added up, is what STAT says. Commands of all kinds at random, in a
 * pool so small that slabs are taken over and pages evicted, with every event in a trace of its own.
 */
#include <sys/stat.h>

#include "ks.h"

#define SIZE (256u << 10)
#define TRACE "/sys/kernel/tracing/instances/kvslab_test"
#define ROUNDS 1500

/* As the events add up, of one pool. */
static struct {
	long privates, indexed, slabs, allocs, frees, lookups, asked, found, seals, duplicates, evicted,
		refused, begins, ends, pressure, taken, lines;
} seen;

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
	if (IS("page_alloc")) {
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

	switch (rnd(seed) % 6) {
	case 0:
	case 1:
		if (h->nr_privates + n > 64)
			return;
		r = ks_alloc(h->k.fd, h->k.c.id, h->privates + h->nr_privates, n, rnd(seed) % 2);
		h->nr_privates += r > 0 ? r : 0;
		break;
	case 2:
		n = n < h->nr_privates ? n : h->nr_privates;
		if (n && !ks_free(h->k.fd, h->privates + h->nr_privates - n, n))
			h->nr_privates -= n;
		break;
	case 3:
		if (!h->nr_privates || h->nr_sealed == 64)
			return;
		pages[0] = h->privates[h->nr_privates - 1];
		if (ks_seal_one(h->k.fd, &pages[0], 1, rnd(seed) % 60) < 0)
			return;
		h->nr_privates--;
		h->sealed[h->nr_sealed++] = pages[0];
		break;
	case 4:
		if (h->nr_sealed && !ks_free(h->k.fd, &h->sealed[h->nr_sealed - 1], 1))
			h->nr_sealed--;
		break;
	default:
		for (i = 0; i < 4; i++)
			ks_hash(hashes[i], 1, rnd(seed) % 60);
		r = ks_lookup(h->k.fd, h->k.c.id, (const u8(*)[HASH])hashes, pages, 4);
		for (i = 0; i < r; i++) {
			if (h->nr_sealed < 64)
				h->sealed[h->nr_sealed++] = pages[i];
			else
				ks_free(h->k.fd, &pages[i], 1);
		}
	}
}

int main(int argc, char **argv)
{
	u64 seed = ks_seed(argc, argv);
	struct kvslab_stat_pool s;
	static struct hold h[2];
	int i;

	must(!mkdir(TRACE, 0755) && !ks_write_file(TRACE "/buffer_size_kb", "8192") &&
		     !ks_write_file(TRACE "/events/kvslab/enable", "1"),
	     "a trace of its own, with every event in it");
	must(!ks_pool("traced", 0, 12 * EXTENT / 2, 0600), "a pool of 6 extents");
	must(!ks_client(&h[0].k, "traced", SIZE) && !ks_client(&h[1].k, "traced", SIZE), "two clients");
	for (i = 0; i < ROUNDS; i++) {
		ks_via = rnd(&seed) % 2 ? KS_RING : KS_IOCTL;
		step(&h[rnd(&seed) % 2], &seed);
	}
	ks_via = KS_IOCTL;
	ks_write_file(TRACE "/tracing_on", "0");
	ks_stat(h[0].k.fd, &s);
	ok(read_trace(h[0].k.c.pool), "no event was lost");
	note("%ld events", seen.lines);
	ok(seen.privates == (long)s.private_pages, "private pages: %ld, STAT says %llu", seen.privates,
	   (unsigned long long)s.private_pages);
	ok(seen.indexed == (long)(s.sealed + s.cached), "sealed and cached pages: %ld, %llu", seen.indexed,
	   (unsigned long long)(s.sealed + s.cached));
	ok(seen.slabs == (long)s.slabs, "slabs: %ld, %llu", seen.slabs, (unsigned long long)s.slabs);
	ok(seen.seals == (long)s.seals && seen.duplicates == (long)s.seal_duplicates,
	   "seals %ld, %ld of hashes that were there; %llu, %llu", seen.seals, seen.duplicates,
	   (unsigned long long)s.seals, (unsigned long long)s.seal_duplicates);
	ok(seen.lookups == (long)s.lookups && seen.asked == (long)s.lookup_asked &&
		   seen.found == (long)s.lookup_hits,
	   "lookups %ld, asked for %ld, found %ld; %llu, %llu, %llu", seen.lookups, seen.asked, seen.found,
	   (unsigned long long)s.lookups, (unsigned long long)s.lookup_asked, (unsigned long long)s.lookup_hits);
	ok(seen.evicted == (long)s.evictions && seen.taken == (long)s.takeovers && seen.evicted && seen.taken,
	   "evicted %ld, taken over %ld; %llu, %llu", seen.evicted, seen.taken,
	   (unsigned long long)s.evictions, (unsigned long long)s.takeovers);
	ok(seen.refused == (long)s.failed && seen.refused, "ALLOCs refused %ld, %llu", seen.refused,
	   (unsigned long long)s.failed);
	ok(seen.begins == 2 && seen.ends == 0 && seen.pressure, "two clients began; pressure came and went %ld times",
	   seen.pressure);
	ks_write_file(TRACE "/events/kvslab/enable", "0");
	for (i = 0; i < 2; i++)
		ks_close(&h[i].k);
	ok(!rmdir(TRACE), "the trace can go");
	return done();
}
