// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * What goes wrong around the scheduler: pages refused, seals refused, an executor that fails rows,
 * batches or to start, memory that runs out at each single allocation. What fails is told, the rest
 * is right, nothing is left. The pool's calls and malloc are wrapped by the linker (mk/sched.mk).
 */
#include <errno.h>
#include <string.h>

#include "runtime/pool/test.h"
#include "runtime/sched/sched.h"
#include "tests/lib/fake_jobs.h"
#include "tests/lib/tap.h"
#include "tests/lib/test_pool.h"

static uint64_t seed;
static uint32_t fail_alloc, fail_seal, fail_get, fail_lookup; /* chances in 1000 */
static uint32_t failed_alloc, failed_seal, failed_get, failed_lookup;
static bool armed; /* allocations are counted, and the one at fail_at fails */
static uint32_t allocations, fail_at;

int __real_kvslab_alloc(struct kvslab_pool *pool, uint32_t id, kvslab_handle *pages, uint32_t n,
			uint32_t flags);
int __wrap_kvslab_alloc(struct kvslab_pool *pool, uint32_t id, kvslab_handle *pages, uint32_t n,
			uint32_t flags);
int __real_kvslab_seal(struct kvslab_pool *pool, struct kvslab_seal *seals, uint32_t n);
int __wrap_kvslab_seal(struct kvslab_pool *pool, struct kvslab_seal *seals, uint32_t n);
int __real_kvslab_get(struct kvslab_pool *pool, const kvslab_handle *pages, uint32_t n);
int __wrap_kvslab_get(struct kvslab_pool *pool, const kvslab_handle *pages, uint32_t n);
int __real_kvslab_lookup(struct kvslab_pool *pool, uint32_t id, const struct kvslab_hash *hashes,
			 uint32_t n, kvslab_handle *pages);
int __wrap_kvslab_lookup(struct kvslab_pool *pool, uint32_t id, const struct kvslab_hash *hashes,
			 uint32_t n, kvslab_handle *pages);
void __real_pool_calls(struct kvslab_pool *pool, struct pool_call *calls, uint32_t n);
void __wrap_pool_calls(struct kvslab_pool *pool, struct pool_call *calls, uint32_t n);
void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);

static bool chance(uint32_t of_1000, uint32_t *count)
{
	bool yes = of_1000 && rnd(&seed) % 1000 < of_1000;

	*count += yes;
	return yes;
}

int __wrap_kvslab_alloc(struct kvslab_pool *pool, uint32_t id, kvslab_handle *pages, uint32_t n,
			uint32_t flags)
{
	static const int errors[] = { -ENOSPC, -EDQUOT, -ENOMEM };

	if (chance(fail_alloc, &failed_alloc))
		return errors[rnd(&seed) % 3];
	return __real_kvslab_alloc(pool, id, pages, n, flags);
}

int __wrap_kvslab_seal(struct kvslab_pool *pool, struct kvslab_seal *seals, uint32_t n)
{
	if (chance(fail_seal, &failed_seal))
		return -EBUSY;
	return __real_kvslab_seal(pool, seals, n);
}

int __wrap_kvslab_get(struct kvslab_pool *pool, const kvslab_handle *pages, uint32_t n)
{
	if (chance(fail_get, &failed_get))
		return -EDQUOT;
	return __real_kvslab_get(pool, pages, n);
}

int __wrap_kvslab_lookup(struct kvslab_pool *pool, uint32_t id, const struct kvslab_hash *hashes,
			 uint32_t n, kvslab_handle *pages)
{
	if (chance(fail_lookup, &failed_lookup))
		return -ENOMEM;
	return __real_kvslab_lookup(pool, id, hashes, n, pages);
}

/* Any of those that a step makes together. */
void __wrap_pool_calls(struct kvslab_pool *pool, struct pool_call *calls, uint32_t n)
{
	static const int errors[] = { -ENOSPC, -EDQUOT, -ENOMEM };
	struct pool_call left[64];
	uint32_t at[64], i, k = 0;

	for (i = 0; i < n && i < 64; i++) {
		struct pool_call *c = &calls[i];

		if (c->kind == POOL_ALLOC && chance(fail_alloc, &failed_alloc))
			c->result = errors[rnd(&seed) % 3];
		else if (c->kind == POOL_SEAL && chance(fail_seal, &failed_seal))
			c->result = -EBUSY;
		else if (c->kind == POOL_LOOKUP && chance(fail_lookup, &failed_lookup))
			c->result = -ENOMEM;
		else
			at[k] = i, left[k++] = *c;
	}
	__real_pool_calls(pool, left, k);
	for (i = 0; i < k; i++)
		calls[at[i]].result = left[i].result;
}

static bool out_of_memory(void)
{
	return armed && ++allocations == fail_at;
}

void *__wrap_malloc(size_t n)
{
	return out_of_memory() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return out_of_memory() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
	return out_of_memory() ? NULL : __real_realloc(p, n);
}

#define JOBS 600
#define PINS 6

/* Pins come and go on pages in use, and stay on them when they are given back. */
static void move_pins(struct fake_host *h, kvslab_handle *pins)
{
	kvslab_handle *pin = &pins[rnd(&seed) % PINS];
	const struct kvslab_request *r = h->sched->running.first;
	uint32_t pages, back = (uint32_t)(rnd(&seed) % 8);

	if (*pin)
		test_pool_pin(h->pool, *pin, false);
	*pin = 0;
	while (r && r->next && back--)
		r = r->next;
	pages = r ? r->seq->blocks * h->f.geo.groups : 0;
	if (pages) {
		*pin = r->seq->pages[rnd(&seed) % pages];
		test_pool_pin(h->pool, *pin, true);
	}
}

/* Failures at random; fail_*, set by the caller, say of what kind. */
static void storm(const char *name, uint32_t groups, bool no_prefix, uint32_t exec_fails, bool pin)
{
	struct kvslab_geometry geo = fake_geometry(groups, 8, (32 << 10) / groups);
	struct kvslab_sched_opts opts = { .step_tokens = 100, .no_prefix = no_prefix };
	struct kvslab_sched_stat stat;
	struct kvslab_pool *pool;
	static struct fake_job jobs[JOBS];
	static struct fake_host h;
	uint32_t shared[100], added = 0, i, wrong = 0, errors = 0, again = 0, in_a_row = 0,
			      refused = 0;
	kvslab_handle pins[PINS] = { 0 };
	uint64_t quarantined = 0;
	struct kvslab_stat pages;
	char why[200] = "";
	int rc;

	if (!ok(!test_pool_open(&pool, "embedded:2M", NULL) &&
			!fake_host_open(&h, pool, &geo, &opts, 0, 0),
		"%s: opened", name))
		return;
	h.f.fail_run = h.f.fail_batch = h.f.fail_submit = exec_fails;
	h.f.rng = rnd(&seed);
	failed_alloc = failed_seal = failed_get = failed_lookup = 0;
	for (i = 0; i < 100; i++)
		shared[i] = (uint32_t)(rnd(&seed) % 1000);
	do {
		while (added < JOBS && rnd(&seed) % 3) {
			struct fake_job *j = &jobs[added],
					*parent = added ? &jobs[rnd(&seed) % added] : NULL;
			bool forks = parent && parent->request && rnd(&seed) % 2;

			fake_job_init(j, shared, forks ? 0 : (uint32_t)(rnd(&seed) % 100),
				      forks ? 0 : 1 + (uint32_t)(rnd(&seed) % 60), &seed);
			j->max_tokens = 1 + (uint32_t)(rnd(&seed) % 40);
			added++;
			rc = forks ? fake_job_fork(parent, j) : fake_job_add(j, &h);
			if (rc) {
				/* a fork may be refused where the pool refuses references: then it
				 * never was */
				refused++;
				fake_job_free(j);
				added--;
			}
		}
		rc = kvslab_sched_step(h.sched);
		in_a_row = rc == -EAGAIN ? in_a_row + 1 : 0;
		again += rc == -EAGAIN;
		if (pin) {
			move_pins(&h, pins);
			kvslab_stat(h.pool, &pages);
			quarantined += pages.quarantined;
		}
	} while ((rc > 0 || rc == -EAGAIN || added < JOBS) && in_a_row < 1000);
	for (i = 0; i < added; i++) {
		int err = jobs[i].info.error;

		wrong += !fake_job_right(&jobs[i], why, sizeof(why));
		if (jobs[i].info.finish != KVSLAB_FINISH_ERROR)
			wrong += err != 0;
		else
			wrong += err != -EDOM && err != -EIO && err != -ENODEV;
		errors += jobs[i].info.finish == KVSLAB_FINISH_ERROR;
		fake_job_free(&jobs[i]);
	}
	kvslab_sched_stat(h.sched, &stat);
	ok(added == JOBS && rc == 0 && !wrong, "%s: all end, %u wrong %s (last step %d)", name,
	   wrong, why, rc);
	ok(errors == stat.failed && errors == h.f.failed && !errors == !exec_fails,
	   "%s: %u failed with the executor's error, of %llu", name, errors,
	   (unsigned long long)h.f.failed);
	ok(!h.f.faults, "%s: no fault %s", name, h.f.fault);
	fail_alloc = fail_seal = fail_get = fail_lookup = 0;
	for (i = 0; i < PINS; i++)
		if (pins[i])
			test_pool_pin(h.pool, pins[i], false);
	ok(!quarantined == !(pin && test_pool_kind() != TEST_POOL_DEVICE), "%s: %llu times a page in quarantine", name,
	   (unsigned long long)quarantined);
	ok(fake_pool_idle(h.pool, why, sizeof(why)), "%s: no page is held %s", name, why);
	printf("# refused: %u allocations, %u seals, %u gets, %u lookups; %u forks refused, %u "
	       "steps without rows\n",
	       failed_alloc, failed_seal, failed_get, failed_lookup, refused, again);
	fake_host_close(&h);
}

/* One page in the way: what is before it is sealed, the rest when the page is free again. */
static void one_pinned(void)
{
	struct kvslab_geometry geo = fake_geometry(2, 4, 4096);
	struct kvslab_kv_opts opts = { .geometry = geo };
	struct kvslab_pool *pool;
	struct kvslab_kv *kv;
	struct kvslab_seq *seq, *child;
	struct fake_exec f;
	uint32_t tokens[40] = { 3, 1, 4, 1, 5 };

	fake_open(&f, &geo, 1);
	if (!ok(!test_pool_open(&pool, "embedded:2M", NULL) &&
			!kvslab_kv_open(&kv, pool, &opts) && !kvslab_seq_open(&seq, kv, NULL, 0),
		"a sequence"))
		return;
	ok(!kvslab_seq_append(seq, tokens, 40) && !kvslab_seq_reserve(seq, 40) &&
		   fake_compute(&f, seq, 0, 39),
	   "39 tokens computed");
	test_pool_pin(pool, seq->pages[5 * 2 + 1], true);
	ok(!kvslab_seq_commit(seq, 39), "committed with a page of block 5 pinned");
	ok(kvslab_seq_sealed(seq) == 5 * 4 && kvslab_seq_committed(seq) == 39, "blocks 0 to 4 are "
									       "sealed");
	ok(kvslab_seq_pages_rw(seq, 0)[5] && kvslab_seq_pages_rw(seq, 1)[5], "block 5 stays "
									     "private");
	ok(!kvslab_seq_fork(seq, &child) && fake_check(&f, child, 39) &&
		   kvslab_seq_sealed(child) == 20,
	   "a fork copies what is not sealed");
	test_pool_pin(pool, seq->pages[5 * 2 + 1], false);
	ok(fake_compute(&f, seq, 39, 40) && !kvslab_seq_commit(seq, 40) &&
		   kvslab_seq_sealed(seq) == 40,
	   "the next commit seals them all");
	ok(!kvslab_seq_commit(child, 39) && kvslab_seq_sealed(child) == 36 &&
		   fake_check(&f, child, 39),
	   "the fork's are then the same pages");
	ok(!f.faults, "no fault %s", f.fault);
	kvslab_seq_close(seq);
	kvslab_seq_close(child);
	kvslab_kv_close(kv);
	kvslab_pool_close(pool);
}

static void roomy(struct fake_job *j)
{
	j->cap = 1024;
	j->tokens = __real_realloc(j->tokens, j->cap * sizeof(*j->tokens));
	if (!j->tokens)
		abort();
}

/* Everything once, with the @fail_at-th allocation failing. false: none failed any more. */
static bool scarce(uint32_t at, uint32_t *bad, char *why, size_t n)
{
	struct kvslab_geometry geo = fake_geometry(2, 4, 4096);
	struct kvslab_sched_opts opts = { .max_batch = 4 };
	struct kvslab_kv_opts kv_opts = { .geometry = geo, .rope = &geo, .rope_size = 4 };
	static struct fake_host h;
	struct kvslab_pool *pool;
	struct fake_job jobs[4];
	bool taken[4] = { false };
	uint32_t i;
	int rc;

	if (test_pool_open(&pool, "embedded:2M", NULL))
		abort();
	memset(&h, 0, sizeof(h));
	h.pool = pool;
	fake_open(&h.f, &geo, 12345);
	for (i = 0; i < 4; i++) {
		fake_job_init(&jobs[i], NULL, 0, i == 3 ? 0 : 30, &seed);
		jobs[i].max_tokens = 40;
		jobs[i].n_stop = 1;
		roomy(&jobs[i]);
	}
	allocations = 0;
	fail_at = at;
	armed = true;
	rc = kvslab_kv_open(&h.kv, pool, &kv_opts);
	opts.kv = h.kv;
	opts.executor = &h.f.ex;
	if (!rc)
		rc = kvslab_sched_open(&h.sched, &opts);
	if (rc) {
		*bad += rc != -ENOMEM;
		goto out;
	}
	for (i = 0; i < 3; i++) {
		rc = fake_job_add(&jobs[i], &h);
		taken[i] = !rc;
		*bad += rc && rc != -ENOMEM;
	}
	for (i = 0; i < 3; i++)
		kvslab_sched_step(h.sched);
	if (jobs[0].request) {
		rc = fake_job_fork(&jobs[0], &jobs[3]);
		taken[3] = !rc;
		*bad += rc && rc != -ENOMEM;
	}
	for (i = 0; i < 1000; i++) {
		rc = kvslab_sched_step(h.sched);
		if (rc <= 0 && rc != -EAGAIN)
			break;
	}
	*bad += rc != 0;
	armed = false;
	for (i = 0; i < 4; i++) {
		if (taken[i])
			*bad += !fake_job_right(&jobs[i], why, n);
		if (jobs[i].done && jobs[i].info.finish == KVSLAB_FINISH_ERROR)
			*bad += jobs[i].info.error != -ENOMEM;
	}
	*bad += h.f.faults;
	*bad += !fake_pool_idle(pool, why, n);
out:
	armed = false;
	for (i = 0; i < 4; i++)
		fake_job_free(&jobs[i]);
	kvslab_sched_close(h.sched);
	kvslab_kv_close(h.kv);
	kvslab_pool_close(pool);
	return allocations >= at;
}

int main(int argc, char **argv)
{
	uint32_t at = 1, bad = 0;
	char why[200] = "";

	seed = tap_seed(argc, argv);
	if (test_pool_kind() != TEST_POOL_DEVICE) /* there only a device or an I/O pins */
		one_pinned();
	fail_alloc = 60;
	storm("pages refused", 1, false, 0, false);
	fail_seal = 400;
	storm("seals refused", 1, false, 0, false);
	fail_seal = 900;
	storm("most seals refused, 4 groups", 4, false, 0, false);
	fail_seal = fail_get = 300;
	storm("seals and references refused, no prefix", 2, true, 0, false);
	fail_lookup = 100;
	storm("lookups refused", 1, false, 0, false);
	storm("pages pinned", 2, false, 0, true);
	storm("executor failing", 1, false, 300, false);
	fail_alloc = 60;
	fail_seal = fail_get = fail_lookup = 100;
	storm("all of it", 2, false, 200, true);
	while (scarce(at, &bad, why, sizeof(why)))
		at++;
	ok(!bad && at > 30,
	   "memory running out at each of %u allocations: told, and nothing lost (%u bad %s)",
	   at - 1, bad, why);
	return done();
}
