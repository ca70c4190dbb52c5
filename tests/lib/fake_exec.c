// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* The executor that checks; fake_exec.h says what. */
#include "tests/lib/fake_exec.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What a slot holds, each word masked by where it lies. */
struct slot {
	uint64_t digest;
	uint32_t token, pos;
};

static uint64_t mix(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static uint64_t chain(uint64_t digest, uint32_t token, uint32_t pos)
{
	return mix(digest + 0x9e3779b97f4a7c15u + ((uint64_t)pos << 32 | token));
}

static uint32_t draw(const struct fake_exec *f, uint64_t digest, uint32_t pos,
		     const struct kvslab_sampling *s)
{
	uint64_t x = digest;

	if (s && s->temperature > 0)
		x = mix(mix(x ^ s->seed) + s->choice) ^ pos;
	return (uint32_t)(mix(x + 1) % f->ex.vocab);
}

__attribute__((format(printf, 2, 3))) static bool fault(struct fake_exec *f, const char *fmt, ...)
{
	va_list ap;

	if (!f->faults++) {
		va_start(ap, fmt);
		vsnprintf(f->fault, sizeof(f->fault), fmt, ap);
		va_end(ap);
	}
	return false;
}

static struct slot masked(struct slot s, uint32_t layer, uint32_t v, uint32_t head)
{
	uint64_t m = mix(1 + layer + ((uint64_t)v << 16) + ((uint64_t)head << 32));

	s.digest ^= m;
	s.token ^= (uint32_t)(m >> 7);
	s.pos ^= (uint32_t)(m >> 31);
	return s;
}

static size_t slot_offset(const struct kvslab_geometry *g, uint32_t layer, uint32_t v,
			  uint32_t head, uint32_t pos)
{
	return (size_t)(layer % g->layers_per_group) * g->layer_stride + v * g->v_offset +
	       (size_t)head * g->head_stride + pos % g->page_tokens * sizeof(struct slot);
}

typedef const void *const *const_table;
typedef void *const *table;

/* Reads position @pos in every layer and head; all must agree. */
static bool read_pos(struct fake_exec *f, const const_table *ro, uint32_t pos, struct slot *out)
{
	const struct kvslab_geometry *g = &f->geo;
	uint32_t layer, v, head;
	struct slot s;

	for (layer = 0; layer < g->layers; layer++) {
		const char *page = ro[layer / g->layers_per_group][pos / g->page_tokens];

		if (!page)
			return fault(f, "position %u, layer %u: no page to read", pos, layer);
		for (v = 0; v < 2; v++)
			for (head = 0; head < g->kv_heads; head++) {
				memcpy(&s, page + slot_offset(g, layer, v, head, pos), sizeof(s));
				s = masked(s, layer, v, head);
				if (!layer && !v && !head)
					*out = s;
				if (s.digest != out->digest || s.token != out->token ||
				    s.pos != out->pos)
					return fault(f,
						     "position %u: layer %u, v %u, head %u differs",
						     pos, layer, v, head);
			}
	}
	if (out->pos != pos)
		return fault(f, "position %u holds position %u", pos, out->pos);
	return true;
}

static bool write_pos(struct fake_exec *f, const table *rw, uint32_t pos, struct slot s)
{
	const struct kvslab_geometry *g = &f->geo;
	uint32_t layer, v, head;

	for (layer = 0; layer < g->layers; layer++) {
		char *page = rw[layer / g->layers_per_group][pos / g->page_tokens];

		if (!page)
			return fault(f, "position %u, layer %u: no page to write", pos, layer);
		for (v = 0; v < 2; v++)
			for (head = 0; head < g->kv_heads; head++) {
				struct slot m = masked(s, layer, v, head);

				memcpy(page + slot_offset(g, layer, v, head, pos), &m, sizeof(m));
			}
	}
	return true;
}

/* Digest after the first @n positions, each checked against the one before; tokens too, where
 * given. */
static bool read_chain(struct fake_exec *f, const const_table *ro, uint32_t n,
		       const uint32_t *tokens, uint64_t *digest)
{
	uint64_t d = f->model;
	struct slot s;
	uint32_t pos;

	for (pos = 0; pos < n; pos++) {
		if (!read_pos(f, ro, pos, &s))
			return false;
		d = chain(d, s.token, pos);
		if (s.digest != d)
			return fault(f, "position %u: its history is another one", pos);
		if (tokens && s.token != tokens[pos])
			return fault(f, "position %u: token %u instead of %u", pos, s.token,
				     tokens[pos]);
	}
	*digest = d;
	return true;
}

/* One position computed on top of @digest, and read back. */
static bool compute_pos(struct fake_exec *f, const const_table *ro, const table *rw, uint32_t token,
			uint32_t pos, bool stored, uint64_t *digest)
{
	struct slot s = { chain(*digest, token, pos), token, pos }, back;
	uint32_t g, block = pos / f->geo.page_tokens;

	if (stored)
		for (g = 0; g < f->geo.groups; g++)
			if (rw[g][block])
				return fault(f,
					     "position %u is marked stored, its page is writable",
					     pos);
	if (!stored && !write_pos(f, rw, pos, s))
		return false;
	if (!read_pos(f, ro, pos, &back))
		return false;
	if (back.digest != s.digest || back.token != token)
		return fault(f, "position %u: %s", pos,
			     stored ? "the stored page holds something else"
				    : "what was written is not read");
	*digest = s.digest;
	return true;
}

bool fake_compute(struct fake_exec *f, struct kvslab_seq *seq, uint32_t from, uint32_t to)
{
	const uint32_t *tokens = kvslab_seq_tokens(seq);
	const_table ro[KVSLAB_GROUPS_MAX];
	table rw[KVSLAB_GROUPS_MAX];
	uint64_t digest;
	uint32_t g, pos;

	for (g = 0; g < f->geo.groups; g++) {
		ro[g] = kvslab_seq_pages_ro(seq, g);
		rw[g] = kvslab_seq_pages_rw(seq, g);
	}
	if (!read_chain(f, ro, from, tokens, &digest))
		return false;
	for (pos = from; pos < to; pos++)
		if (!compute_pos(f, ro, rw, tokens[pos], pos, false, &digest))
			return false;
	return true;
}

bool fake_check(struct fake_exec *f, struct kvslab_seq *seq, uint32_t n)
{
	const_table ro[KVSLAB_GROUPS_MAX];
	uint64_t digest;
	uint32_t g;

	for (g = 0; g < f->geo.groups; g++)
		ro[g] = kvslab_seq_pages_ro(seq, g);
	return read_chain(f, ro, n, kvslab_seq_tokens(seq), &digest);
}

static float fake_score(uint64_t digest, uint32_t target)
{
	return -(float)(mix(digest + target) % 4096) / 64;
}

float fake_prompt_score(const struct fake_exec *f, const uint32_t *tokens, uint32_t n)
{
	uint64_t d = f->model;
	uint32_t pos;

	for (pos = 0; pos + 1 < n; pos++)
		d = chain(d, tokens[pos], pos);
	return fake_score(d, tokens[n - 1]);
}

uint32_t fake_answer(const struct fake_exec *f, const uint32_t *tokens, uint32_t n,
		     const struct kvslab_sampling *sampling)
{
	uint64_t d = f->model;
	uint32_t pos;

	for (pos = 0; pos < n; pos++)
		d = chain(d, tokens[pos], pos);
	return draw(f, d, n, sampling);
}

static bool chance(struct fake_exec *f, uint32_t of_65536)
{
	f->rng += 0x9e3779b97f4a7c15u;
	return (mix(f->rng) & 0xffff) < of_65536;
}

/* No page may be written by two runs of a batch. */
static void check_writers(struct fake_exec *f, const struct kvslab_batch *b)
{
	uint32_t pt = f->geo.page_tokens, i, j, g, p, q;

	for (i = 0; i < b->n_runs; i++)
		for (j = 0; j < i; j++)
			for (g = 0; g < f->geo.groups; g++) {
				const struct kvslab_run *a = &b->runs[i], *c = &b->runs[j];

				for (p = a->rows[0].pos / pt; p <= a->rows[a->n_rows - 1].pos / pt;
				     p++)
					for (q = c->rows[0].pos / pt;
					     q <= c->rows[c->n_rows - 1].pos / pt; q++)
						if (a->pages_rw[g][p] &&
						    a->pages_rw[g][p] == c->pages_rw[g][q])
							fault(f,
							      "runs %u and %u write the same page",
							      j, i);
			}
}

static void run_one(struct fake_exec *f, struct kvslab_run *run)
{
	uint64_t digest;
	uint32_t i, t;
	int err = 0;

	if (!run->n_rows) {
		fault(f, "a run without rows");
		return;
	}
	if (!read_chain(f, run->pages_ro, run->rows[0].pos, NULL, &digest))
		err = -EILSEQ;
	for (i = 0; i < run->n_rows && !err; i++) {
		struct kvslab_row *row = &run->rows[i];

		if (row->pos != run->rows[0].pos + i || row->pos >= f->ex.context) {
			fault(f, "row %u of a run is at position %u", i, row->pos);
			err = -EILSEQ;
			break;
		}
		if (!compute_pos(f, run->pages_ro, run->pages_rw, row->token, row->pos,
				 row->flags & KVSLAB_ROW_STORED, &digest))
			err = -EILSEQ;
		f->stored_rows += !!(row->flags & KVSLAB_ROW_STORED);
		if (row->flags & KVSLAB_ROW_LOGITS) {
			row->result = (int32_t)draw(f, digest, row->pos + 1, &run->sampling);
			row->logprob = row->target < 0 ? -1.5f : fake_score(digest, (uint32_t)row->target);
			for (t = 0; t < row->n_top; t++)
				row->top[t] = (struct kvslab_top){ (uint32_t)row->result + t, row->logprob - (float)t };
		}
	}
	if (!err && chance(f, f->fail_run)) {
		err = -EDOM;
		f->failed++;
	}
	if (err)
		run->rows[run->n_rows - 1].result = err;
}

static void run_batch(struct fake_exec *f, struct kvslab_batch *b)
{
	uint64_t failed = f->failed;
	uint32_t i;

	check_writers(f, b);
	for (i = 0; i < b->n_runs; i++) {
		run_one(f, &b->runs[i]);
		f->rows += b->runs[i].n_rows;
	}
	f->batches++;
	if (chance(f, f->fail_batch)) {
		b->error = -EIO;
		f->failed = failed + b->n_runs;
	}
}

static void *run_thread(void *arg)
{
	struct fake_exec *f = arg;

	run_batch(f, f->running);
	atomic_store(&f->finished, true);
	return NULL;
}

static void op_geometry(struct kvslab_executor *ex, struct kvslab_geometry *g)
{
	struct fake_exec *f = (struct fake_exec *)ex;

	g->layers = f->geo.layers;
	g->kv_heads = f->geo.kv_heads;
	g->head_dim = f->geo.head_dim;
}

static int op_submit(struct kvslab_executor *ex, struct kvslab_batch *b)
{
	struct fake_exec *f = (struct fake_exec *)ex;
	uint32_t rows = 0, i;

	if (f->running)
		return -EBUSY;
	for (i = 0; i < b->n_runs; i++)
		rows += b->runs[i].n_rows;
	if (!rows || rows > ex->max_rows || b->n_runs > ex->max_runs) {
		fault(f, "a batch of %u runs and %u rows", b->n_runs, rows);
		return -E2BIG;
	}
	if (chance(f, f->fail_submit)) {
		f->failed += b->n_runs;
		return -ENODEV;
	}
	f->running = b;
	f->polls = 0;
	if (f->threaded) {
		atomic_store(&f->finished, false);
		if (pthread_create(&f->thread, NULL, run_thread, f)) {
			f->running = NULL;
			return -EAGAIN;
		}
	}
	return 0;
}

static struct kvslab_batch *op_complete(struct kvslab_executor *ex, bool wait)
{
	struct fake_exec *f = (struct fake_exec *)ex;
	struct kvslab_batch *b = f->running;

	if (!b)
		return NULL;
	if (f->during)
		f->during(f->data);
	if (!wait && (f->polls++ < f->delay || (f->threaded && !atomic_load(&f->finished))))
		return NULL;
	if (f->threaded)
		pthread_join(f->thread, NULL);
	else
		run_batch(f, b);
	f->running = NULL;
	return b;
}

static void op_copy(struct kvslab_executor *ex, void *dst, const void *src, size_t size)
{
	struct fake_exec *f = (struct fake_exec *)ex;

	if (!dst || !src)
		fault(f, "a copy from or to no page");
	else
		memcpy(dst, src, size);
	f->copies++;
}

static void op_close(struct kvslab_executor *ex)
{
	(void)ex;
}

static const struct kvslab_executor_ops fake_ops = {
	.geometry = op_geometry,
	.submit = op_submit,
	.complete = op_complete,
	.copy = op_copy,
	.close = op_close,
};

void fake_open(struct fake_exec *f, const struct kvslab_geometry *geo, uint64_t model)
{
	memset(f, 0, sizeof(*f));
	f->ex.ops = &fake_ops;
	f->ex.max_rows = 512;
	f->ex.max_runs = 32;
	f->ex.context = 4096;
	f->ex.vocab = 1000;
	f->geo = *geo;
	f->model = model;
	f->rng = model;
}

struct kvslab_geometry fake_geometry(uint32_t groups, uint32_t page_tokens, uint32_t page_size)
{
	struct kvslab_geometry g = {
		.layers = 2 * groups,
		.layers_per_group = 2,
		.groups = groups,
		.kv_heads = 1,
		.head_dim = 8,
		.kv_type = KVSLAB_KV_F16,
		.page_tokens = page_tokens,
	};

	g.head_stride = page_tokens * (uint32_t)sizeof(struct slot);
	g.v_offset = g.head_stride * g.kv_heads;
	g.layer_stride = 2 * g.v_offset;
	g.page_size = page_size;
	g.pages_per_slab = KVSLAB_EXTENT_SIZE / g.page_size;
	g.token_bytes = (uint64_t)g.layers * 2 * g.kv_heads * g.head_dim * 2;
	return g;
}
