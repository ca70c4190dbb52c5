// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * Sequences against a simple model of them: random appends, matches, reserves, commits, truncates,
 * forks, releases and closes on several sequences of one small pool. After each call the counts are
 * what the model says, and every committed token is read back from the pages.
 */
#include <errno.h>
#include <string.h>

#include "tests/lib/fake_exec.h"
#include "tests/lib/tap.h"
#include "tests/lib/test_pool.h"

#define SEQS 12
#define TOKENS 200

/* What a sequence should be. */
struct model {
	struct kvslab_seq *seq;
	uint32_t tokens[TOKENS];
	uint32_t length, committed, allocated;
};

struct world {
	struct kvslab_pool *pool;
	struct kvslab_kv *kv;
	struct fake_exec f;
	struct model m[SEQS];
	uint32_t pt;
	uint64_t seed;
	uint32_t refused, matched, copied;
	char why[300];
};

static uint32_t below(struct world *w, uint32_t n)
{
	return (uint32_t)(rnd(&w->seed) % n);
}

static bool wrong(struct world *w, const char *what)
{
	snprintf(w->why, sizeof(w->why), "%s", what);
	return false;
}

static bool check(struct world *w, const struct model *m)
{
	uint32_t sealed = kvslab_seq_sealed(m->seq), committed = kvslab_seq_committed(m->seq);
	uint32_t allocated = kvslab_seq_allocated(m->seq), b, g;

	if (kvslab_seq_length(m->seq) != m->length)
		return wrong(w, "length");
	if (m->length &&
	    memcmp(kvslab_seq_tokens(m->seq), m->tokens, m->length * sizeof(*m->tokens)))
		return wrong(w, "tokens");
	if (committed != m->committed || allocated != m->allocated)
		return wrong(w, "committed or allocated");
	if (committed > allocated || sealed > committed || sealed % w->pt)
		return wrong(w, "sealed <= committed <= allocated");
	if (sealed + w->pt <= committed)
		return wrong(w, "a full block is not sealed");
	for (b = 0; b < allocated / w->pt; b++)
		for (g = 0; g < w->f.geo.groups; g++) {
			if (!kvslab_seq_pages_ro(m->seq, g)[b])
				return wrong(w, "no page to read");
			if (!kvslab_seq_pages_rw(m->seq, g)[b] != (b * w->pt < sealed))
				return wrong(w, "writable where sealed, or not where private");
		}
	return fake_check(&w->f, m->seq, committed) || wrong(w, w->f.fault);
}

static uint32_t up(const struct world *w, uint32_t tokens)
{
	return (tokens + w->pt - 1) / w->pt * w->pt;
}

/* Few different tokens, so that sequences share prefixes. */
static int append(struct world *w, struct model *m)
{
	uint32_t n = below(w, 60), i;

	if (m->length + n > TOKENS)
		n = TOKENS - m->length;
	for (i = 0; i < n; i++)
		m->tokens[m->length + i] = below(w, 40) ? 7 : 8;
	m->length += n;
	return kvslab_seq_append(m->seq, m->tokens + m->length - n, n);
}

static int match(struct world *w, struct model *m)
{
	int rc = kvslab_seq_match(m->seq);

	if (m->allocated)
		return rc == -EINVAL ? 0 : -EPROTO;
	if (rc < 0)
		return rc;
	if ((uint32_t)rc % w->pt || (uint32_t)rc > m->length)
		return -EPROTO;
	w->matched += (uint32_t)rc;
	m->committed = m->allocated = (uint32_t)rc;
	return 0;
}

static int reserve(struct world *w, struct model *m)
{
	uint32_t want = below(w, 4) ? m->length : m->length + below(w, 2 * w->pt);
	int rc = kvslab_seq_reserve(m->seq, want);

	if (rc == -ENOSPC || rc == -EDQUOT) {
		w->refused++;
		return 0;
	}
	if (up(w, want) > m->allocated)
		m->allocated = up(w, want);
	return rc;
}

static int commit(struct world *w, struct model *m)
{
	uint32_t most = m->length < m->allocated ? m->length : m->allocated, to;

	if (kvslab_seq_commit(m->seq, most + 1) != -EINVAL)
		return -EPROTO;
	to = below(w, 2) ? most : m->committed + below(w, most - m->committed + 1);
	if (!fake_compute(&w->f, m->seq, m->committed, to))
		return -EPROTO;
	m->committed = to;
	return kvslab_seq_commit(m->seq, to);
}

static int truncate_to(struct world *w, struct model *m)
{
	uint32_t to = below(w, m->length + 1), sealed = kvslab_seq_sealed(m->seq);
	int rc;

	if (kvslab_seq_truncate(m->seq, m->length + 1) != -EINVAL)
		return -EPROTO;
	rc = kvslab_seq_truncate(m->seq, to);
	m->length = to;
	if (m->allocated > up(w, to))
		m->allocated = up(w, to);
	/* Inside a sealed block: a copy of it, or nothing of it. */
	if (to % w->pt && to < sealed && kvslab_seq_allocated(m->seq) == to - to % w->pt) {
		m->allocated = to - to % w->pt;
		w->refused++;
	} else if (to % w->pt && to < sealed) {
		w->copied++;
	}
	if (m->committed > to)
		m->committed = to;
	if (m->committed > m->allocated)
		m->committed = m->allocated;
	return rc;
}

static int fork_to(struct world *w, struct model *m, struct model *child)
{
	struct kvslab_seq *seq;
	int rc = kvslab_seq_fork(m->seq, &seq);

	if (rc == -ENOSPC || rc == -EDQUOT) {
		w->refused++;
		return 0;
	}
	if (rc < 0)
		return rc;
	kvslab_seq_close(child->seq);
	*child = *m;
	child->seq = seq;
	child->allocated = up(w, m->committed);
	return 0;
}

static int call(struct world *w, struct model *m, uint32_t what)
{
	struct model *other = &w->m[below(w, SEQS)];

	switch (what) {
	case 0:
	case 1:
		return append(w, m);
	case 2:
		return match(w, m);
	case 3:
	case 4:
		return reserve(w, m);
	case 5:
	case 6:
	case 7:
	case 12:
	case 13:
		return commit(w, m);
	case 8:
		return truncate_to(w, m);
	case 9:
		return other == m ? 0 : fork_to(w, m, other);
	case 10:
		kvslab_seq_release(m->seq);
		m->committed = m->allocated = 0;
		return 0;
	default:
		if (below(w, 3))
			return 0;
		kvslab_seq_close(m->seq);
		memset(m, 0, sizeof(*m));
		return kvslab_seq_open(&m->seq, w->kv, "salt", below(w, 8) ? 0 : 4);
	}
}

static void run(uint64_t seed, uint32_t groups, uint32_t pt, uint32_t page_size, uint32_t calls)
{
	struct kvslab_kv_opts opts = { .geometry = fake_geometry(groups, pt, page_size) };
	static struct world w;
	struct kvslab_stat stat;
	uint32_t i, n, what = 0;
	bool good = true;
	int rc = 0;

	memset(&w, 0, sizeof(w));
	w.seed = seed;
	w.pt = pt;
	if (test_pool_open(&w.pool, "embedded:2M", NULL) ||
	    kvslab_kv_open(&w.kv, w.pool, &opts)) {
		ok(0, "a pool");
		return;
	}
	fake_open(&w.f, &opts.geometry, 99);
	for (i = 0; i < SEQS; i++)
		kvslab_seq_open(&w.m[i].seq, w.kv, NULL, 0);
	for (n = 0; n < calls && good; n++) {
		i = below(&w, SEQS);
		what = below(&w, 14);
		rc = call(&w, &w.m[i], what);
		for (i = 0; i < SEQS && !rc && good; i++)
			good = check(&w, &w.m[i]);
		good = good && rc == 0;
		if (n % 64 == 0 && good)
			good = !kvslab_pool_check(w.pool, w.why, sizeof(w.why));
	}
	ok(good, "%u groups, %u tokens a page: %u calls%s%s (kind %u, error %d)", groups, pt, n,
	   good ? "" : ", wrong: ", w.why, what, rc);
	ok(!w.f.faults, "what was computed could be written and read%s%s", w.f.faults ? ": " : "",
	   w.f.fault);
	ok(w.refused && w.matched && (w.copied || pt == 1),
	   "pool full %u times, %u tokens matched, %u copies", w.refused, w.matched, w.copied);
	for (i = 0; i < SEQS; i++)
		kvslab_seq_close(w.m[i].seq);
	kvslab_stat(w.pool, &stat);
	ok(!stat.private_pages && !stat.sealed && stat.cached, "all pages are free or cached");
	ok(!kvslab_pool_check(w.pool, w.why, sizeof(w.why)), "the pool holds together: %s", w.why);
	kvslab_kv_close(w.kv);
	kvslab_pool_close(w.pool);
}

/* More pages than one call to the pool takes, sealed and found again. */
static void long_sequence(void)
{
	struct kvslab_kv_opts opts = { .geometry = fake_geometry(3, 1, 4096) };
	struct kvslab_pool *pool;
	struct kvslab_kv *kv;
	struct kvslab_seq *a, *b, *c;
	struct kvslab_stat before, after;
	struct fake_exec f;
	uint32_t tokens[1500], i;

	fake_open(&f, &opts.geometry, 5);
	for (i = 0; i < 1500; i++)
		tokens[i] = i;
	if (test_pool_open(&pool, "embedded:64M", NULL) || kvslab_kv_open(&kv, pool, &opts)) {
		ok(0, "a pool");
		return;
	}
	kvslab_seq_open(&a, kv, NULL, 0);
	kvslab_seq_open(&b, kv, NULL, 0);
	kvslab_seq_append(a, tokens, 1500);
	kvslab_seq_append(b, tokens, 1400);
	ok(!kvslab_seq_reserve(a, 1500) && fake_compute(&f, a, 0, 1500) &&
		   !kvslab_seq_commit(a, 1500) && kvslab_seq_sealed(a) == 1500,
	   "4500 pages sealed at once");
	ok(kvslab_seq_match(b) == 1400 && fake_check(&f, b, 1400), "4200 pages found");
	ok(!kvslab_seq_fork(a, &c) && fake_check(&f, c, 1500), "4500 pages shared by a fork");
	kvslab_stat(pool, &before);
	ok(kvslab_seq_reserve(c, 6000) == test_pool_full(), "18000 pages are more than there are");
	kvslab_stat(pool, &after);
	ok(after.private_pages == before.private_pages && kvslab_seq_allocated(c) == 1500, "and "
											   "none "
											   "is "
											   "taken");
	ok(!f.faults, "no fault %s", f.fault);
	kvslab_seq_close(a);
	kvslab_seq_close(b);
	kvslab_seq_close(c);
	kvslab_kv_close(kv);
	kvslab_pool_close(pool);
}

static void bad_input(void)
{
	struct kvslab_kv_opts opts = { .geometry = fake_geometry(1, 8, 4096) }, bad;
	struct kvslab_pool *pool;
	struct kvslab_kv *kv = NULL;
	struct kvslab_seq *seq;
	uint32_t token = 1;

	if (test_pool_open(&pool, "embedded:2M", NULL)) {
		ok(0, "a pool");
		return;
	}
	bad = opts;
	bad.geometry.groups = 0;
	ok(kvslab_kv_open(&kv, pool, &bad) == -EINVAL, "no groups");
	bad = opts;
	bad.geometry.layers = 3;
	ok(kvslab_kv_open(&kv, pool, &bad) == -EINVAL, "layers that are not those of the groups");
	bad = opts;
	bad.geometry.v_offset = 1;
	ok(kvslab_kv_open(&kv, pool, &bad) == -EINVAL, "values over keys");
	bad = opts;
	bad.geometry.page_size = 64;
	ok(kvslab_kv_open(&kv, pool, &bad) == -EINVAL, "a page too small for what is in it");
	bad.geometry.page_size = 4097;
	ok(kvslab_kv_open(&kv, pool, &bad) == -EINVAL, "a page that is no multiple of the frame");
	bad = opts;
	bad.rope_size = 3;
	ok(kvslab_kv_open(&kv, pool, &bad) == -EINVAL, "rope that is nowhere");
	ok(kvslab_kv_open(NULL, pool, &opts) == -EINVAL &&
		   kvslab_kv_open(&kv, NULL, &opts) == -EINVAL,
	   "nothing given");
	if (!ok(!kvslab_kv_open(&kv, pool, &opts), "a kv"))
		return;
	ok(kvslab_seq_open(&seq, kv, NULL, 3) == -EINVAL, "salt that is nowhere");
	ok(!kvslab_seq_open(&seq, kv, NULL, 0), "a sequence");
	ok(!kvslab_seq_pages_ro(seq, 0) && !kvslab_seq_pages_rw(seq, 0), "no tables yet");
	ok(kvslab_seq_append(seq, NULL, 1) == -EINVAL, "tokens that are nowhere");
	ok(kvslab_seq_append(seq, &token, UINT32_MAX) == -EINVAL, "more tokens than can be "
								  "counted");
	ok(kvslab_seq_match(seq) == 0, "nothing to match");
	ok(kvslab_seq_reserve(seq, UINT32_MAX) == -EINVAL, "more pages than can be counted");
	ok(kvslab_seq_reserve(seq, 513 * 8) == test_pool_full() && !kvslab_seq_allocated(seq), "one page "
										      "more than "
										      "the pool "
										      "has, and "
										      "none taken");
	ok(!kvslab_seq_reserve(seq, 512 * 8), "as many pages as the pool has");
	ok(kvslab_seq_commit(seq, 1) == -EINVAL, "commit beyond the length");
	ok(!kvslab_seq_truncate(seq, 0) && !kvslab_seq_allocated(seq), "truncate to nothing");
	ok(!kvslab_seq_pages_ro(seq, 1), "no second group");
	kvslab_seq_close(seq);
	kvslab_seq_close(NULL);
	kvslab_kv_close(kv);
	kvslab_kv_close(NULL);
	kvslab_pool_close(pool);
}

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(argc, argv);
	static const uint32_t shape[][3] = {
		{ 1, 16, 64 << 10 }, { 1, 1, 8 << 10 },	 { 2, 5, 32 << 10 },
		{ 3, 15, 32 << 10 }, { 4, 8, 32 << 10 },
	}; /* groups, tokens, bytes of a page: the pool holds a third of what the sequences want */
	uint32_t i;

	bad_input();
	long_sequence();
	for (i = 0; i < sizeof(shape) / sizeof(shape[0]); i++)
		run(rnd(&seed), shape[i][0], shape[i][1], shape[i][2], 4000);
	return done();
}
