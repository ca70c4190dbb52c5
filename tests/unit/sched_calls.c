// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* The scheduler's calls one by one: what they refuse, what they promise about callbacks, ends,
 * forks and order. */
#include <errno.h>
#include <string.h>

#include "sched_host.h"

static void refusals(void)
{
	struct kvslab_sched_opts none = { 0 }, bad;
	struct kvslab_sched *second;
	struct fake_host h;
	struct fake_job j;

	open_host(&h, &none);
	bad = (struct kvslab_sched_opts){ .kv = h.kv, .executor = &h.f.ex };
	ok(kvslab_sched_open(&second, &bad) == -EBUSY, "a second scheduler on one kv");
	ok(kvslab_sched_open(&second, &none) == -EINVAL, "neither kv nor executor");
	h.f.geo.layers++;
	ok(kvslab_sched_open(&second, &bad) == -EINVAL, "an executor of another model");
	h.f.geo.layers--;
	h.f.ex.max_rows = 0;
	ok(kvslab_sched_open(&second, &bad) == -EINVAL, "an executor without rows");
	h.f.ex.max_rows = 512;

	job(&j, 0, 1);
	ok(fake_job_add(&j, &h) == -EINVAL, "an empty prompt");
	fake_job_free(&j);
	job(&j, 4, 0);
	ok(fake_job_add(&j, &h) == -EINVAL, "nothing to generate");
	j.max_tokens = 1;
	j.priority = 8;
	ok(fake_job_add(&j, &h) == -EINVAL, "no such priority");
	j.priority = 0;
	j.tokens[2] = h.f.ex.vocab;
	ok(fake_job_add(&j, &h) == -EINVAL, "a token beyond the vocabulary");
	fake_job_free(&j);
	h.f.ex.context = 100;
	job(&j, 101, 1);
	ok(fake_job_add(&j, &h) == -EMSGSIZE, "a prompt longer than the context");
	fake_job_free(&j);
	h.f.ex.context = 4096;
	job(&j, POOL_TOKENS + 1, 1);
	ok(fake_job_add(&j, &h) == -EFBIG, "a prompt longer than the pool");
	fake_job_free(&j);
	ok(kvslab_sched_step(h.sched) == 0 && !h.f.batches, "nothing to do");
	close_host(&h);
}

/* Prompts that fit to the last token end by length where the place ends, and say so. */
static void limits(void)
{
	struct kvslab_sched_opts none = { 0 };
	struct fake_host h;
	struct fake_job a, b, c, d;

	open_host(&h, &none);
	h.f.ex.context = 100;
	job(&a, 100, 50);
	job(&b, 90, 50);
	job(&c, 95, 6);
	a.limit = b.limit = 101;
	ok(!fake_job_add(&a, &h) && !fake_job_add(&b, &h) && !fake_job_add(&c, &h), "three are "
										    "taken");
	ok(run_all(&h) == 0, "they end");
	ok(a.info.finish == KVSLAB_FINISH_LENGTH && a.info.completion_tokens == 1, "a prompt as "
										   "long as the "
										   "context gets "
										   "one token");
	ok(b.info.finish == KVSLAB_FINISH_LENGTH && b.info.completion_tokens == 11, "the context "
										    "ends it");
	ok(c.info.completion_tokens == 6, "max_tokens and the context end together");
	right(&a, "a");
	right(&b, "b");
	right(&c, "c");

	h.f.ex.context = 4096;
	job(&a, POOL_TOKENS, 50);
	job(&b, POOL_TOKENS - 20, 1000);
	job(&c, 30, 2000);
	job(&d, 30, 60);
	a.limit = b.limit = c.limit = POOL_TOKENS + 1;
	ok(!fake_job_add(&a, &h) && !fake_job_add(&b, &h) && !fake_job_add(&c, &h) &&
		   !fake_job_add(&d, &h),
	   "what fits now but may outgrow the pool is taken");
	ok(run_all(&h) == 0, "they end");
	ok(a.info.completion_tokens == 1 && b.info.completion_tokens == 21, "where the pool is "
									    "full");
	ok(c.info.completion_tokens == POOL_TOKENS + 1 - 30 &&
		   c.info.finish == KVSLAB_FINISH_LENGTH,
	   "also one that grew to that size among others");
	right(&a, "a");
	right(&b, "b");
	right(&c, "c");
	right(&d, "d");
	close_host(&h);
}

/* The whole prompt is found: its last token is computed again, but not written. */
static void whole_prompt_found(void)
{
	struct kvslab_sched_opts none = { 0 };
	struct fake_host h;
	struct fake_job a, b, c;
	uint64_t rows;

	open_host(&h, &none);
	job(&a, 64, 8);
	ok(!fake_job_add(&a, &h) && run_all(&h) == 0, "first of all");
	fake_job_init(&b, a.tokens, 64, 0, &seed);
	b.max_tokens = 8;
	rows = h.f.rows;
	ok(!fake_job_add(&b, &h) && run_all(&h) == 0, "the same once more");
	ok(b.info.cached_tokens == 63 && h.f.rows - rows == 8, "63 tokens cached, 8 rows run");
	ok(h.f.stored_rows == 1, "one of them was stored already");
	fake_job_init(&c, a.tokens, 64, 0, &seed);
	c.max_tokens = 8;
	c.salt = "s";
	c.salt_size = 1;
	ok(!fake_job_add(&c, &h) && run_all(&h) == 0 && c.info.cached_tokens == 0, "with another "
										   "salt it is not "
										   "found");
	right(&b, "b");
	right(&c, "c");
	right(&a, "a");
	close_host(&h);
}

/* The same prompt twice in one step, in every way that they can overlap. */
static void twins(void)
{
	struct kvslab_sched_opts opts = { .step_tokens = 64, .chunk_tokens = 40 };
	struct fake_host h;
	struct fake_job a, b, c;

	open_host(&h, &opts);
	job(&a, 100, 20);
	fake_job_init(&b, a.tokens, 100, 0, &seed);
	b.max_tokens = 20;
	fake_job_init(&c, a.tokens, 100, 13, &seed);
	c.max_tokens = 20;
	ok(!fake_job_add(&a, &h) && !fake_job_add(&b, &h) && !fake_job_add(&c, &h) &&
		   run_all(&h) == 0,
	   "three with the same beginning in one step");
	ok(b.info.cached_tokens == 96 && c.info.cached_tokens == 96, "%u and %u tokens found of 96",
	   b.info.cached_tokens, c.info.cached_tokens);
	right(&b, "b");
	right(&c, "c");
	right(&a, "a");
	close_host(&h);
}

/* Two that answer alike: each block is sealed by both in the same step, and one takes over the
 * other's page. */
static void duplicates(void)
{
	struct kvslab_sched_opts none = { 0 };
	struct kvslab_stat stat;
	struct fake_host h;
	struct fake_job a, b;

	open_host(&h, &none);
	job(&a, 20, 100);
	fake_job_init(&b, a.tokens, 20, 0, &seed);
	b.max_tokens = 100;
	ok(!fake_job_add(&a, &h) && !fake_job_add(&b, &h) && run_all(&h) == 0, "two alike");
	kvslab_stat(h.pool, &stat);
	ok(stat.seal_duplicates >= 5, "%llu pages handed over",
	   (unsigned long long)stat.seal_duplicates);
	ok(stat.cached == 7, "one copy of the seven full blocks stays");
	right(&a, "a");
	right(&b, "b");
	close_host(&h);
}

struct meddler {
	struct fake_host *h;
	struct fake_job *self, *other, *spawn;
	uint32_t at; /* act at the self's n-th token */
	int what, rc;
	bool acted;
};

enum { CANCEL_SELF, CANCEL_OTHER, ADD, FORK_SELF, STEP };

static void meddle(struct fake_job *j, bool is_done, void *data)
{
	struct meddler *m = data;

	if (is_done || j->n - j->n_prompt != m->at || m->acted)
		return;
	m->acted = true;
	switch (m->what) {
	case CANCEL_SELF:
		kvslab_sched_cancel(m->h->sched, j->request);
		break;
	case CANCEL_OTHER:
		kvslab_sched_cancel(m->h->sched, m->other->request);
		break;
	case ADD:
		m->rc = fake_job_add(m->spawn, m->h);
		break;
	case FORK_SELF:
		m->rc = fake_job_fork(j, m->spawn);
		break;
	case STEP:
		m->rc = kvslab_sched_step(m->h->sched);
		break;
	}
}

static void callbacks(void)
{
	struct kvslab_sched_opts none = { 0 };
	struct fake_host h;
	struct fake_job a, b, c;
	struct meddler m = { .h = &h, .self = &a, .other = &b, .spawn = &c, .at = 5 };
	uint32_t first;

	open_host(&h, &none);
	for (m.what = CANCEL_SELF; m.what <= STEP; m.what++)
		for (first = 0; first < 2; first++) {
			m.acted = false;
			m.rc = 0;
			job(&a, 20, 30);
			job(&b, 20, 30);
			job(&c, m.what == FORK_SELF ? 0 : 10, 10);
			a.event = meddle;
			a.data = &m;
			/* b's run comes after a's in the batch, and before it */
			if (first)
				fake_job_add(&b, &h);
			fake_job_add(&a, &h);
			if (!first)
				fake_job_add(&b, &h);
			ok(run_all(&h) == 0 && m.acted, "act %d: all end", m.what);
			switch (m.what) {
			case CANCEL_SELF:
				ok(a.info.finish == KVSLAB_FINISH_CANCEL &&
					   a.info.completion_tokens == 5,
				   "cancelled in its own callback");
				break;
			case CANCEL_OTHER:
				ok(b.info.finish == KVSLAB_FINISH_CANCEL &&
					   b.info.completion_tokens == (first ? 5 : 4),
				   "cancelled in another's, no token after it");
				break;
			case STEP:
				ok(m.rc == -EBUSY, "no step inside a step");
				break;
			default:
				ok(!m.rc, "a new one from a callback");
				right(&c, "the new one");
			}
			right(&a, "a");
			right(&b, "b");
			fake_job_free(&c);
		}
	close_host(&h);
}

static void continue_it(struct fake_job *j, bool is_done, void *data)
{
	struct meddler *m = data;

	if (!is_done)
		return;
	j->request = m->self->request; /* it is gone only after this */
	m->rc = fake_job_fork(j, m->spawn);
	j->request = NULL;
}

/* In on_done the request is still there to be forked: so an answer that max_tokens ended goes on.
 */
static void fork_of_ended(void)
{
	struct kvslab_sched_opts none = { 0 };
	struct fake_host h;
	struct fake_job a, b, keep;
	struct meddler m = { .h = &h, .self = &keep, .spawn = &b };

	open_host(&h, &none);
	job(&a, 40, 20);
	job(&b, 0, 20);
	a.event = continue_it;
	a.data = &m;
	fake_job_add(&a, &h);
	keep.request = a.request;
	ok(run_all(&h) == 0 && !m.rc && b.n_prompt == 60 && b.n == 80, "twenty tokens, and twenty "
								       "more");
	ok(b.info.cached_tokens == 48, "on the pages that stayed");
	right(&a, "a");
	right(&b, "b");
	close_host(&h);
}

static void cancels(void)
{
	struct kvslab_sched_opts opts = { .step_tokens = 16, .max_batch = 1 };
	struct kvslab_sched_stat stat;
	struct fake_host h;
	struct fake_job j[5];
	uint32_t i;

	open_host(&h, &opts);
	for (i = 0; i < 5; i++) {
		job(&j[i], 40, 20);
		fake_job_add(&j[i], &h);
	}
	kvslab_sched_cancel(h.sched, j[1].request);
	ok(j[1].done && j[1].info.finish == KVSLAB_FINISH_CANCEL, "while waiting");
	kvslab_sched_step(h.sched);
	kvslab_sched_cancel(h.sched, j[0].request);
	ok(j[0].done && !j[0].info.completion_tokens, "in the middle of its prompt");
	for (i = 0; i < 5; i++)
		kvslab_sched_step(h.sched);
	kvslab_sched_cancel(h.sched, j[2].request);
	ok(j[2].done && j[2].info.completion_tokens == 3, "in the middle of its answer");
	kvslab_sched_cancel(h.sched, NULL);

	/* in flight */
	ok(sched_begin(h.sched) > 0, "a batch runs");
	kvslab_sched_cancel(h.sched, j[3].request);
	kvslab_sched_cancel(h.sched, j[3].request);
	ok(!j[3].done, "while its batch runs it is not done yet");
	kvslab_sched_cancel(h.sched, j[4].request);
	ok(!j[4].done, "nor one that waits meanwhile");
	ok(sched_begin(h.sched) == -EBUSY, "no second batch");
	ok(sched_end(h.sched, true) == 0 && j[3].done && j[4].done, "both are at the end of the "
								    "step");
	kvslab_sched_stat(h.sched, &stat);
	ok(stat.cancelled == 5 && !stat.running && !stat.waiting, "five were cancelled");
	for (i = 0; i < 5; i++)
		right(&j[i], "a cancelled one");
	close_host(&h);
}

static void close_with_requests(void)
{
	struct kvslab_sched_opts opts = { .max_batch = 2 };
	struct fake_host h;
	struct fake_job j[4];
	uint32_t i;

	open_host(&h, &opts);
	for (i = 0; i < 4; i++) {
		job(&j[i], 40, 20);
		fake_job_add(&j[i], &h);
	}
	kvslab_sched_step(h.sched);
	sched_begin(h.sched);
	kvslab_sched_close(h.sched);
	for (i = 0; i < 4; i++) {
		ok(j[i].done && j[i].info.finish == KVSLAB_FINISH_CANCEL, "closed while a batch "
									  "runs");
		right(&j[i], "it");
	}
	ok(!h.f.running, "the batch was waited for");
	h.sched = NULL;
	close_host(&h);
}

/* What may be in one step. */
static void budgets(void)
{
	struct kvslab_sched_opts opts = { .step_tokens = 48, .chunk_tokens = 40 },
				 few = { .step_tokens = 4 };
	struct kvslab_sched_stat stat;
	struct fake_host h;
	struct fake_job a, b, c[8];
	uint32_t i, most = 0, running = 0;
	int rc;

	open_host(&h, &opts);
	job(&a, 100, 5);
	job(&b, 20, 5);
	fake_job_add(&a, &h);
	ok(kvslab_sched_step(h.sched) == 40, "one prompt: a chunk");
	fake_job_add(&b, &h);
	ok(kvslab_sched_step(h.sched) == 48, "two: a chunk, and what is left of the step");
	ok(kvslab_sched_step(h.sched) == 20 + 12, "the rest of both");
	ok(kvslab_sched_step(h.sched) == 2, "both decode");
	job(&c[0], 60, 1);
	fake_job_add(&c[0], &h);
	ok(kvslab_sched_step(h.sched) == 2 + 40, "they go on while a third is read");
	ok(run_all(&h) == 0, "all end");
	right(&a, "a");
	right(&b, "b");
	right(&c[0], "c");
	close_host(&h);

	open_host(&h, &few);
	for (i = 0; i < 8; i++) {
		job(&c[i], 3, 9);
		fake_job_add(&c[i], &h);
	}
	while ((rc = kvslab_sched_step(h.sched)) > 0) {
		kvslab_sched_stat(h.sched, &stat);
		most = (uint32_t)rc > most ? (uint32_t)rc : most;
		running = stat.running > running ? stat.running : running;
	}
	ok(most == 4 && running <= 4, "never more sequences than rows in a step");
	for (i = 0; i < 8; i++)
		right(&c[i], "one of many");
	close_host(&h);
}

/* complete() that is not ready, and everything that may happen meanwhile. */
static void asynchronous(void)
{
	struct kvslab_sched_opts none = { 0 };
	struct fake_host h;
	struct fake_job a, b, c;
	uint32_t polls = 0;

	open_host(&h, &none);
	h.f.delay = 3;
	job(&a, 40, 20);
	job(&b, 30, 20);
	job(&c, 0, 20);
	fake_job_add(&a, &h);
	ok(sched_begin(h.sched) == 40, "40 rows run");
	ok(!fake_job_add(&b, &h), "another is added meanwhile");
	ok(!fake_job_fork(&a, &c), "and a fork");
	while (sched_end(h.sched, false) == -EAGAIN)
		polls++;
	ok(polls == 3 && a.n == 41, "the answer came at the fourth look");
	ok(run_all(&h) == 0, "they end");
	right(&a, "a");
	right(&b, "b");
	right(&c, "the fork");
	close_host(&h);
}

/* Another client has the memory: the reason is named, nothing hangs, and it goes on when there is
 * room. */
static void held_by_others(void)
{
	struct kvslab_sched_opts none = { 0 };
	struct kvslab_pool *other;
	struct kvslab_cache cache;
	kvslab_handle pages[32];
	struct fake_host h;
	struct fake_job a;
	int rc, i;

	open_host(&h, &none);
	if (kvslab_pool_share(h.pool, &other) || kvslab_cache_open(other, PAGE, &cache)) {
		ok(0, "another client");
		return;
	}
	ok(kvslab_alloc(other, cache.id, pages, 30, 0) == 30, "another client takes 30 of 32 "
							      "pages");
	job(&a, 40, 20);
	ok(!fake_job_add(&a, &h), "a prompt of three pages");
	ok(kvslab_sched_step(h.sched) == -EAGAIN, "cannot run");
	ok(strstr(kvslab_sched_reason(h.sched), "30 pages private") != NULL, "because: %s",
	   kvslab_sched_reason(h.sched));
	ok(!kvslab_free(other, pages, 1) && kvslab_sched_step(h.sched) == 40, "with one page more "
									      "it runs");
	for (i = 0; i < 60 && (rc = kvslab_sched_step(h.sched)) > 0; i++)
		;
	ok(rc == -EAGAIN && a.n == 49, "until it needs a fourth");
	{
		struct kvslab_request_info info;

		kvslab_request_info(a.request, &info);
		ok(info.preemptions == 1, "and gives all back, lest two wait for each other");
	}
	ok(!kvslab_free(other, pages + 1, 29), "the other leaves");
	for (i = 0; i < 100 && !a.done; i++)
		kvslab_sched_step(h.sched);
	right(&a, "it");
	kvslab_pool_close(other);
	close_host(&h);
}

int main(int argc, char **argv)
{
	seed = tap_seed(argc, argv);
	refusals();
	limits();
	whole_prompt_found();
	twins();
	duplicates();
	callbacks();
	fork_of_ended();
	cancels();
	close_with_requests();
	budgets();
	asynchronous();
	held_by_others();
	return done();
}
