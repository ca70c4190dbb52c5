// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "tests/lib/model_util.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/tap.h"
#include "tests/lib/test_pool.h"

void mu_die(const char *fmt, ...)
{
	va_list ap;

	fprintf(stdout, "Bail out! ");
	va_start(ap, fmt);
	vfprintf(stdout, fmt, ap);
	va_end(ap);
	fprintf(stdout, "\n");
	exit(1);
}

void *mu_alloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);

	if (!p)
		mu_die("no memory for %zu x %zu bytes", n, size);
	return p;
}

void mu_random_ids(uint32_t *ids, uint32_t n, uint32_t vocab, uint64_t *seed)
{
	for (uint32_t i = 0; i < n; i++)
		ids[i] = (uint32_t)(rnd(seed) % vocab);
}

void mu_model_open(struct mu_model *mm, const char *path)
{
	struct model_error e = { "" };

	if (gguf_open(&mm->gguf, path, &e))
		mu_die("%s: %s", path, e.text);
	if (model_open(&mm->m, &mm->gguf, NULL, &e))
		mu_die("%s: %s", path, e.text);
}

void mu_model_close(struct mu_model *mm)
{
	model_close(mm->m);
	gguf_close(&mm->gguf);
}

void mu_engine_open(struct mu_engine *e, const struct mu_model *mm, const struct mu_opts *opts)
{
	const struct model *m = mm->m;
	struct kvslab_kv_opts kv = {
		.geometry = {
			.layers = m->n_layers,
			.kv_heads = m->n_kv_heads,
			.head_dim = m->head_dim,
			.kv_type = opts->kv_type ? opts->kv_type : KVSLAB_KV_F16,
			.page_tokens = opts->page_tokens,
		},
		.rope = m->rope_key,
		.rope_size = sizeof(m->rope_key),
	};
	struct cpu_opts cpu = {
		.threads = opts->threads ? opts->threads : 1,
		.max_rows = opts->max_rows,
		.max_runs = opts->max_runs,
		.kv_type = kv.geometry.kv_type,
		.ops = kern_ops_get(opts->kernels ? opts->kernels : "auto"),
		.geometry = &kv.geometry,
	};
	struct model_error error = { "" };
	char spec[64];
	int r;

	if (!cpu.ops)
		mu_die("no kernels '%s' on this machine", opts->kernels);
	memcpy(kv.model_digest, m->digest, sizeof(m->digest));
	r = kvslab_geometry_init(&kv.geometry);
	if (r)
		mu_die("geometry: %s", kvslab_strerror(r));
	snprintf(spec, sizeof(spec), "embedded:%" PRIu64, opts->pool_bytes ? opts->pool_bytes : 256u << 20);
	r = test_pool_open(&e->pool, spec, NULL);
	if (r)
		mu_die("pool %s: %s", spec, kvslab_strerror(r));
	r = kvslab_kv_open(&e->kv, e->pool, &kv);
	if (r)
		mu_die("kv: %s", kvslab_strerror(r));
	if (cpu_open(&e->ex, m, &cpu, &error))
		mu_die("executor: %s", error.text);
	e->m = m;
}

bool mu_engine_close(struct mu_engine *e)
{
	char why[256] = "";
	struct kvslab_stat s;
	bool good = true;

	if (kvslab_pool_check(e->pool, why, sizeof(why))) {
		printf("# pool: %s\n", why);
		good = false;
	}
	if (kvslab_stat(e->pool, &s) || s.private_pages || s.moving || s.sealed) {
		printf("# pool: %" PRIu64 " private, %" PRIu64 " moving, %" PRIu64 " sealed pages are left\n", s.private_pages,
		       s.moving, s.sealed);
		good = false;
	}
	e->ex->ops->close(e->ex);
	kvslab_kv_close(e->kv);
	kvslab_pool_close(e->pool);
	return good;
}

/* Where a stream stands. */
struct place {
	uint32_t done, rows;
};

static void start(struct mu_engine *e, struct mu_stream *s, struct place *p)
{
	int r = kvslab_seq_open(&s->seq, e->kv, NULL, 0);

	if (!r)
		r = kvslab_seq_append(s->seq, s->ids, s->n);
	if (!r && s->match)
		r = kvslab_seq_match(s->seq);
	if (r < 0)
		mu_die("sequence: %s", kvslab_strerror(r));
	s->found = (uint32_t)r;
	p->done = s->found == s->n ? s->n - 1 : s->found;
}

static void fill_run(struct mu_engine *e, struct mu_stream *s, const struct place *p, struct kvslab_run *run,
		     struct kvslab_row *rows)
{
	int r = kvslab_seq_reserve(s->seq, p->done + p->rows);

	if (r)
		mu_die("reserve %u tokens: %s", p->done + p->rows, kvslab_strerror(r));
	*run = (struct kvslab_run){ .rows = rows, .n_rows = p->rows, .sampling = s->sampling, .tokens = s->ids,
				    .n_prompt = s->n_prompt };
	for (uint32_t i = 0; i < p->rows; i++) {
		uint32_t pos = p->done + i;

		rows[i] = (struct kvslab_row){
			.token = s->ids[pos],
			.pos = pos,
			.flags = (s->logits || s->drawn || s->logprob ? KVSLAB_ROW_LOGITS : 0) |
				 (pos < kvslab_seq_sealed(s->seq) ? KVSLAB_ROW_STORED : 0),
			.target = -1,
			.logits = s->logits ? s->logits + (size_t)pos * e->m->vocab : NULL,
		};
	}
	for (uint32_t g = 0; g < kvslab_kv_geometry(e->kv)->groups; g++) {
		run->pages_ro[g] = kvslab_seq_pages_ro(s->seq, g);
		run->pages_rw[g] = kvslab_seq_pages_rw(s->seq, g);
	}
}

static void take_results(struct mu_stream *s, struct place *p, const struct kvslab_run *run)
{
	bool want = s->logits || s->drawn || s->logprob;
	int r;

	for (uint32_t i = 0; want && i < p->rows; i++) {
		if (run->rows[i].result < 0)
			mu_die("row at position %u: %s", p->done + i, kvslab_strerror(run->rows[i].result));
		if (s->drawn)
			s->drawn[p->done + i] = run->rows[i].result;
		if (s->logprob)
			s->logprob[p->done + i] = run->rows[i].logprob;
	}
	p->done += p->rows;
	if (p->done > kvslab_seq_committed(s->seq)) {
		r = kvslab_seq_commit(s->seq, p->done);
		if (r)
			mu_die("commit %u tokens: %s", p->done, kvslab_strerror(r));
	}
}

void mu_run(struct mu_engine *e, struct mu_stream *streams, uint32_t n)
{
	uint32_t max_rows = e->ex->max_rows, max_runs = e->ex->max_runs, first = 0;
	struct kvslab_run *runs = mu_alloc(max_runs, sizeof(*runs));
	struct kvslab_row *rows = mu_alloc(max_rows, sizeof(*rows));
	struct place *places = mu_alloc(n, sizeof(*places));
	uint32_t *who = mu_alloc(max_runs, sizeof(*who));

	for (uint32_t i = 0; i < n; i++)
		start(e, &streams[i], &places[i]);
	for (;;) {
		struct kvslab_batch batch = { .runs = runs };
		uint32_t used = 0;
		int r;

		/* In turn, so that none waits for ever where there is not room for all. */
		for (uint32_t k = 0; k < n && batch.n_runs < max_runs && used < max_rows; k++) {
			uint32_t i = (first + k) % n, left = streams[i].n - places[i].done;
			uint32_t chunk = streams[i].chunk ? streams[i].chunk : max_rows;

			if (!left)
				continue;
			chunk = chunk < left ? chunk : left;
			places[i].rows = chunk < max_rows - used ? chunk : max_rows - used;
			who[batch.n_runs] = i;
			fill_run(e, &streams[i], &places[i], &runs[batch.n_runs++], rows + used);
			used += places[i].rows;
		}
		if (!batch.n_runs)
			break;
		first++;
		r = e->ex->ops->submit(e->ex, &batch);
		if (r)
			mu_die("submit: %s", kvslab_strerror(r));
		if (e->ex->ops->complete(e->ex, true) != &batch)
			mu_die("another batch was completed");
		if (batch.error)
			mu_die("batch: %s", kvslab_strerror(batch.error));
		for (uint32_t k = 0; k < batch.n_runs; k++)
			take_results(&streams[who[k]], &places[who[k]], &runs[k]);
	}
	free(runs);
	free(rows);
	free(places);
	free(who);
}
