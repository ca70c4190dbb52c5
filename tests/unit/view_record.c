// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Recordings: what was written is read, wherever the file is cut; a recorder goes on behind what is whole. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/tap.h"
#include "tools/record.h"

#define SAMPLES 4

static char path[64];

static void make(struct snap *s, uint64_t *seed, uint64_t time)
{
	uint32_t i, j, extent;

	memset(s, 0, sizeof(*s));
	s->time = time;
	s->mono = time / 3;
	s->traced = (uint32_t)(rnd(seed) % 4);
	s->lost_full = rnd(seed);
	s->n = (uint32_t)(rnd(seed) % 3);
	s->pools = calloc(s->n + 1, sizeof(*s->pools));
	for (i = 0; i < s->n; i++) {
		struct snap_pool *p = &s->pools[i];
		struct pool_view *v = &p->v;

		snprintf(v->pool.name, sizeof(v->pool.name), "pool-%u", i);
		v->pool.id = (uint32_t)rnd(seed);
		v->pool.node = -1;
		v->pool.failed = rnd(seed);
		v->pool.min = rnd(seed);
		v->nr_caches = (uint32_t)(rnd(seed) % 3);
		v->nr_clients = (uint32_t)(rnd(seed) % 3);
		v->nr_slabs = (uint32_t)(rnd(seed) % 6);
		v->caches = calloc(v->nr_caches + 1, sizeof(*v->caches));
		v->clients = calloc(v->nr_clients + 1, sizeof(*v->clients));
		v->slabs = calloc(v->nr_slabs + 1, sizeof(*v->slabs));
		p->tiers = calloc(v->nr_caches + 1, sizeof(*p->tiers));
		p->traces = calloc(v->nr_caches + 1, sizeof(*p->traces));
		for (j = 0; j < v->nr_caches; j++) {
			v->caches[j].page_size = 65536;
			v->caches[j].pages_per_slab = 32;
			v->caches[j].quarantined = rnd(seed);
			p->tiers[j] = j;
			p->traces[j].regret = rnd(seed);
			p->traces[j].evicted[7] = rnd(seed);
		}
		for (j = 0; j < v->nr_clients; j++) {
			v->clients[j].pid = -(int32_t)j;
			memset(v->clients[j].comm, 'x', 16);
			v->clients[j].held_bytes = rnd(seed);
		}
		for (j = extent = 0; j < v->nr_slabs; j++) {
			extent += 1 + (uint32_t)(rnd(seed) % 100);
			v->slabs[j] = (struct kvslab_stat_slab){ .extent = extent, .pages = 32, .free = 20, .cached = 12 };
		}
	}
}

static bool same(const struct snap *a, const struct snap *b)
{
	uint8_t *x, *y;
	size_t n, m;
	bool good;

	if (record_encode(a, &x, &n) || record_encode(b, &y, &m))
		return false;
	good = n == m && !memcmp(x, y, n);
	free(x);
	free(y);
	return good;
}

static off_t size_of_file(void)
{
	struct stat st;

	return stat(path, &st) ? -1 : st.st_size;
}

/* How many samples are read, equal to those of @want; -1: another. */
static int read_all(const struct snap *want, char *why, size_t n)
{
	FILE *f = fopen(path, "r");
	struct record_begin b;
	struct record r;
	struct snap s;
	int rc, got = 0;

	if (!f)
		return -1;
	rc = record_open(&r, f);
	while (!rc && (rc = record_next(&r, &b, &s)) > 0) {
		if (rc == RECORD_SAMPLE) {
			got = got >= 0 && same(&s, &want[got]) ? got + 1 : -1;
			snap_free(&s);
		} else if (b.interval != 2000000000) {
			got = -1;
		}
		rc = 0;
	}
	snprintf(why, n, "%s", r.why);
	fclose(f);
	return rc < 0 && rc != -EINVAL ? -1 : got;
}

static int ear; /* the other end of what stderr is meanwhile */

static int listen_to_stderr(void)
{
	int keep = dup(2), ends[2];

	if (pipe(ends))
		return -1;
	dup2(ends[1], 2);
	close(ends[1]);
	ear = ends[0];
	return keep;
}

static const char *what_was_said(int keep)
{
	static char text[4000];
	ssize_t n, all = 0;

	dup2(keep, 2);
	close(keep);
	while ((n = read(ear, text + all, sizeof(text) - 1 - (size_t)all)) > 0)
		all += n;
	close(ear);
	text[all] = 0;
	return text;
}

static void test_round(const struct snap *s, off_t *ends)
{
	struct record_writer w;
	char why[200];
	int i, err = 0;

	ok(!record_create(&w, path, 2000000000), "a file is made");
	for (i = 0; i < SAMPLES; i++) {
		err |= record_write(&w, &s[i]);
		ends[i] = size_of_file();
	}
	ok(!err && w.samples == SAMPLES && !record_close(&w), "samples are written");
	ok(read_all(s, why, sizeof(why)) == SAMPLES && !why[0], "and read as they were");
}

/* At every byte: the samples that are whole, and a word about the rest. */
static void test_cuts(const struct snap *s, const off_t *ends)
{
	off_t n = size_of_file(), at;
	uint8_t *all = malloc((size_t)n);
	int fd = open(path, O_RDWR), i, want, bad = 0, got;
	off_t begin = RECORD_HEADER + RECORD_FRAME + 16;
	char why[200];
	bool whole;

	if (pread(fd, all, (size_t)n, 0) != n)
		bad = 1;
	for (at = n - 1; at >= 0; at--) {
		if (ftruncate(fd, at))
			bad++;
		for (i = want = 0; i < SAMPLES; i++)
			want += ends[i] <= at;
		whole = at == RECORD_HEADER || at == begin;
		for (i = 0; i < SAMPLES; i++)
			whole |= ends[i] == at;
		got = read_all(s, why, sizeof(why));
		if (got != want || (why[0] == 0) != whole) {
			if (!bad++)
				printf("# cut at %d: %d samples, not %d: \"%s\"\n", (int)at, got, want, why);
		}
	}
	ok(!bad, "cut at each of %d bytes: what is whole is read, of the rest is told", (int)n);
	ok(pwrite(fd, all, (size_t)n, 0) == n, "whole again");
	close(fd);
	free(all);
}

static void test_damage(const struct snap *s, const off_t *ends, uint64_t *seed)
{
	int fd = open(path, O_RDWR), i, k, want, bad = 0, got;
	char why[200];
	uint8_t old, new;
	off_t at;

	for (k = 0; k < 500; k++) {
		at = RECORD_HEADER + (off_t)(rnd(seed) % (uint64_t)(ends[SAMPLES - 1] - RECORD_HEADER));
		if (pread(fd, &old, 1, at) != 1)
			bad++;
		new = (uint8_t)(old ^ (1 + rnd(seed) % 255));
		if (pwrite(fd, &new, 1, at) != 1)
			bad++;
		for (i = want = 0; i < SAMPLES; i++)
			want += ends[i] <= at;
		got = read_all(s, why, sizeof(why));
		if (got != want || !strstr(why, "bytes are left out")) {
			if (!bad++)
				printf("# byte %d from %u to %u: %d samples, not %d: \"%s\"\n", (int)at, old, new, got, want, why);
		}
		if (pwrite(fd, &old, 1, at) != 1)
			bad++;
	}
	ok(!bad, "a byte changed: no sample that was not written");
	close(fd);
}

static void test_go_on(const struct snap *s, const off_t *ends)
{
	struct record_writer w, second;
	const char *text;
	char why[200];
	int keep;

	if (truncate(path, ends[2] - 1))
		ok(0, "the third sample is cut");
	keep = listen_to_stderr();
	ok(!record_create(&w, path, 2000000000) && !record_write(&w, &s[2]), "a recorder goes on");
	ok(record_create(&second, path, 2000000000) == -EBUSY, "a second one does not");
	text = what_was_said(keep);
	ok(strstr(text, "cut short; the 2 samples before it are whole") && strstr(text, "recorded into by another process"),
	   "both are told");
	record_close(&w);
	ok(read_all(s, why, sizeof(why)) == 3 && !why[0], "the file is whole");
	if (truncate(path, RECORD_HEADER - 3))
		ok(0, "the header is cut");
	ok(!record_create(&w, path, 2000000000) && !record_write(&w, &s[0]) && !record_close(&w) &&
		   read_all(s, why, sizeof(why)) == 1 && !why[0],
	   "less than a header is begun anew");
}

static void test_refusals(const struct snap *s)
{
	struct rlimit was, limit;
	struct record_writer w;
	const char *text;
	char why[200];
	off_t before;
	int keep, fd, rc;

	keep = listen_to_stderr();
	ok(record_create(&w, "/dev/null", 1) == -EINVAL, "no device is recorded into");
	ok(record_create(&w, "/no/such/folder", 1) == -ENOENT, "nor a file in no folder");
	ok(!record_create(&w, path, 2000000000), "room for one more");
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &was);
	before = size_of_file();
	limit = was;
	limit.rlim_cur = (rlim_t)before + 20;
	setrlimit(RLIMIT_FSIZE, &limit);
	rc = record_write(&w, &s[1]);
	setrlimit(RLIMIT_FSIZE, &was); /* before anything is said: stdout may be a file */
	ok(rc == -EFBIG && size_of_file() == before, "no room: the file is as it was");
	record_close(&w);
	fd = open(path, O_RDWR);
	ok(pwrite(fd, "\2", 1, 8) == 1 && record_create(&w, path, 1) == -EINVAL, "a newer version is not gone on with");
	ok(read_all(s, why, sizeof(why)) == 0 && strstr(why, "version 2 and this command reads version 1"), "nor read: %s", why);
	ok(pwrite(fd, "x", 1, 0) == 1 && record_create(&w, path, 1) == -EINVAL && size_of_file() == before,
	   "another file is not touched");
	ok(read_all(s, why, sizeof(why)) == 0 && strstr(why, "no recording"), "nor read: %s", why);
	close(fd);
	text = what_was_said(keep);
	ok(strstr(text, "/dev/null is no regular file") && strstr(text, "/no/such/folder cannot be written: No such file") &&
		   strstr(text, "File too large; make room") && strstr(text, "exists and cannot be gone on with"),
	   "each is told");
}

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(argc, argv);
	struct snap s[SAMPLES];
	off_t ends[SAMPLES];
	int i;

	snprintf(path, sizeof(path), "/tmp/kvslab-record-%d", (int)getpid());
	ok(record_crc((const uint8_t *)"123456789", 9, 0) == 0xcbf43926, "the sum is CRC-32");
	for (i = 0; i < SAMPLES; i++)
		make(&s[i], &seed, 1796144400000000000u + (uint64_t)i * 2000000000);
	test_round(s, ends);
	test_cuts(s, ends);
	test_damage(s, ends, &seed);
	test_go_on(s, ends);
	test_refusals(s);
	for (i = 0; i < SAMPLES; i++)
		snap_free(&s[i]);
	unlink(path);
	return done();
}
