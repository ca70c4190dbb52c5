// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* fake_jobs.h */
#include "fake_jobs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/tap.h"

#define STOPS 32

int fake_host_open(struct fake_host *h, struct kvslab_pool *pool, const struct kvslab_geometry *geo,
		   const struct kvslab_sched_opts *opts, uint32_t max_rows, uint32_t max_runs)
{
	struct kvslab_kv_opts kv = { .geometry = *geo };
	struct kvslab_sched_opts o = *opts;
	int rc;

	memset(h, 0, sizeof(*h));
	h->pool = pool;
	fake_open(&h->f, geo, 12345);
	if (max_rows)
		h->f.ex.max_rows = max_rows;
	if (max_runs)
		h->f.ex.max_runs = max_runs;
	rc = kvslab_kv_open(&h->kv, pool, &kv);
	if (rc < 0)
		return rc;
	o.kv = h->kv;
	o.executor = &h->f.ex;
	return kvslab_sched_open(&h->sched, &o);
}

void fake_host_close(struct fake_host *h)
{
	kvslab_sched_close(h->sched);
	kvslab_kv_close(h->kv);
	kvslab_pool_close(h->pool);
}

static void *grown(void *p, size_t size)
{
	p = realloc(p, size);
	if (!p)
		abort();
	return p;
}

static void push(struct fake_job *j, uint32_t token)
{
	if (j->n == j->cap) {
		j->cap = j->cap ? 2 * j->cap : 64;
		j->tokens = grown(j->tokens, j->cap * sizeof(*j->tokens));
	}
	j->tokens[j->n++] = token;
}

void fake_job_init(struct fake_job *j, const uint32_t *shared, uint32_t n_shared, uint32_t n,
		   uint64_t *seed)
{
	uint32_t i;

	memset(j, 0, sizeof(*j));
	for (i = 0; i < n_shared; i++)
		push(j, shared[i]);
	for (i = 0; i < n; i++)
		push(j, (uint32_t)(rnd(seed) % 1000));
	j->n_prompt = j->n;
	j->max_tokens = 16;
	j->limit = UINT32_MAX;
}

static void on_token(struct kvslab_request *r, uint32_t token, float logprob, void *data)
{
	struct fake_job *j = data;

	(void)r;
	(void)logprob;
	push(j, token);
	if (j->event)
		j->event(j, false, j->data);
}

static void on_done(struct kvslab_request *r, void *data)
{
	struct fake_job *j = data;

	kvslab_request_info(r, &j->info);
	j->request = NULL;
	j->done = true;
	if (j->event)
		j->event(j, true, j->data);
}

static struct kvslab_request_opts job_opts(struct fake_job *j, uint32_t *stop)
{
	struct kvslab_request_opts o = {
		.tokens = j->tokens,
		.n_tokens = j->n_prompt,
		.max_tokens = j->max_tokens,
		.stop = stop,
		.n_stop = j->n_stop,
		.priority = j->priority,
		.sampling = j->sampling,
		.salt = j->salt,
		.salt_size = j->salt_size,
		.on_token = on_token,
		.on_done = on_done,
		.data = j,
	};
	uint32_t i;

	for (i = 0; i < j->n_stop && i < STOPS; i++)
		stop[i] = i;
	return o;
}

int fake_job_add(struct fake_job *j, struct fake_host *h)
{
	uint32_t stop[STOPS];
	struct kvslab_request_opts o = job_opts(j, stop);

	j->host = h;
	return kvslab_sched_add(h->sched, &o, &j->request);
}

int fake_job_fork(struct fake_job *j, struct fake_job *child)
{
	uint32_t stop[STOPS], i;
	struct kvslab_request_opts o;

	for (i = 0; i < j->n; i++)
		push(child, j->tokens[i]);
	child->n_prompt = child->n;
	child->host = j->host;
	o = job_opts(child, stop);
	return kvslab_sched_fork(j->host->sched, j->request, &o, &child->request);
}

bool fake_job_right(const struct fake_job *j, char *why, size_t n)
{
	const struct fake_exec *f = &j->host->f;
	uint32_t at, token;
	bool whole = j->info.finish == KVSLAB_FINISH_STOP || j->info.finish == KVSLAB_FINISH_LENGTH;

	if (!j->done) {
		snprintf(why, n, "not done");
		return false;
	}
	if (j->info.prompt_tokens != j->n_prompt ||
	    j->info.completion_tokens != j->n - j->n_prompt) {
		snprintf(why, n, "counts: prompt %u of %u, answer %u of %u", j->info.prompt_tokens,
			 j->n_prompt, j->info.completion_tokens, j->n - j->n_prompt);
		return false;
	}
	for (at = j->n_prompt; at < j->n; at++) {
		token = fake_answer(f, j->tokens, at, &j->sampling);
		if (token != j->tokens[at] || token < j->n_stop) {
			snprintf(why, n, "token %u is %u instead of %u", at, j->tokens[at], token);
			return false;
		}
	}
	if (!whole)
		return true;
	token = fake_answer(f, j->tokens, at, &j->sampling);
	if (j->info.finish == KVSLAB_FINISH_STOP && token >= j->n_stop) {
		snprintf(why, n, "stopped before %u, which is no stop", token);
		return false;
	}
	if (j->info.finish == KVSLAB_FINISH_LENGTH && at != j->n_prompt + j->max_tokens &&
	    at != j->limit) {
		snprintf(why, n, "ended by length at %u, prompt %u, max_tokens %u, limit %u", at,
			 j->n_prompt, j->max_tokens, j->limit);
		return false;
	}
	return true;
}

void fake_job_free(struct fake_job *j)
{
	free(j->tokens);
	j->tokens = NULL;
}

bool fake_pool_idle(struct kvslab_pool *pool, char *why, size_t n)
{
	struct kvslab_stat stat;

	if (kvslab_pool_check(pool, why, n) < 0)
		return false;
	kvslab_stat(pool, &stat);
	if (!stat.private_pages && !stat.sealed && !stat.moving)
		return true;
	snprintf(why, n, "%llu pages private, %llu sealed, %llu moving",
		 (unsigned long long)stat.private_pages, (unsigned long long)stat.sealed,
		 (unsigned long long)stat.moving);
	return false;
}
