// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * The executor on the CPU: one forward pass over the rows of a batch, the same function run by every worker.
 *
 * Reads top to bottom in forward(). Work is split two ways. Matrix products share out the weight's rows, so each part
 * of the weights is read by one worker; their results are shared, a barrier stands after each. Everything between two
 * products (norm, gate, residual) is row by row: with many rows a worker owns some of them (`own`) and a barrier stands
 * before the next product; with few, each worker does all of them into buffers of its own, which costs less than a barrier.
 * Results do not depend on either choice: no sum crosses workers (docs/numerics.md).
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_impl.h"

#define FEW_ROWS 4 /* up to here each worker does the row work of all rows itself */
#define LOGIT_ROWS 32 /* rows whose logits are held at once */
#define ATTN_QUERIES 32 /* of one work item of attention */
#define ROPE_STEP 1024 /* positions by which the table grows */
#define CLAIMS 8 /* parts a worker takes of a product, about: few enough to cost nothing, enough to end together */

static struct cpu *to_cpu(struct kvslab_executor *ex)
{
	return (struct cpu *)ex;
}

static uint32_t pad(uint32_t n)
{
	return (n + KERN_BLOCK - 1) / KERN_BLOCK * KERN_BLOCK;
}

/* Zeroed, aligned: the padding of a row must read as +0. */
static void *room(size_t n, size_t size)
{
	size_t bytes = (n * size + KERN_ALIGN - 1) / KERN_ALIGN * KERN_ALIGN;
	void *p = aligned_alloc(KERN_ALIGN, bytes ? bytes : KERN_ALIGN);

	if (p)
		memset(p, 0, bytes);
	return p;
}

static int act_open(struct kern_act *a, const float *f, uint32_t rows, uint32_t cols, uint32_t ld)
{
	a->f = f;
	a->cols = cols;
	a->ld = ld;
	a->q = room((size_t)rows * ld, sizeof(*a->q));
	a->d = room((size_t)rows * (ld / KERN_BLOCK), sizeof(*a->d));
	a->s = room((size_t)rows * (ld / KERN_BLOCK), sizeof(*a->s));
	return a->q && a->d && a->s ? 0 : -ENOMEM;
}

static void act_close(struct kern_act *a)
{
	free(a->q);
	free(a->d);
	free(a->s);
}

static int stage_open(struct stage *s, const struct cpu *c, uint32_t rows)
{
	const struct model *m = c->m;

	s->x = room((size_t)rows * m->dim, sizeof(float));
	s->h = room((size_t)rows * c->dim_ld, sizeof(float));
	s->a = room((size_t)rows * c->ffn_ld, sizeof(float));
	if (!s->x || !s->h || !s->a)
		return -ENOMEM;
	if (act_open(&s->act_h, s->h, rows, m->dim, c->dim_ld) || act_open(&s->act_a, s->a, rows, m->ffn, c->ffn_ld))
		return -ENOMEM;
	return act_open(&s->act_o, c->o, rows, m->n_heads * m->head_dim, c->q_ld);
}

static void stage_close(struct stage *s)
{
	free(s->x);
	free(s->h);
	free(s->a);
	act_close(&s->act_h);
	act_close(&s->act_a);
	act_close(&s->act_o);
}

/* ---- the forward pass ---- */

/* What one worker needs to find its way through a step. */
struct lane {
	struct cpu *c;
	struct workers *w;
	uint32_t thread;
	struct stage *s; /* shared, or this worker's own */
	uint32_t r0, r1; /* rows whose row work this worker does */
	uint32_t product; /* that comes next, the same for all */
	bool few;
};

/* After row work: products of all workers may read it. */
static void rows_done(struct lane *l)
{
	if (!l->few)
		workers_barrier(l->w);
}

static struct kern_act act_at(const struct kern_act *a, uint32_t row)
{
	struct kern_act b = *a;

	b.f += (size_t)row * a->ld;
	b.q += (size_t)row * a->ld;
	b.d += (size_t)row * (a->ld / KERN_BLOCK);
	b.s += (size_t)row * (a->ld / KERN_BLOCK);
	return b;
}

/* Bring rows [r0, r1) of act->f into the form that quantised weights are multiplied with. */
static void quantise_rows(struct lane *l, const struct kern_act *act, uint32_t levels, uint32_t r0, uint32_t r1)
{
	struct kern_act part = act_at(act, r0);

	part.levels = levels;
	if (levels && r1 > r0)
		l->c->ops->quantise(&part, part.f, r1 - r0);
}

/* One of several weights that read the same rows; their tiles are shared out as one. */
struct target {
	const struct kern_weight *w;
	const float *bias; /* [w->rows], or NULL */
	float *y;
	size_t ldy;
};

static uint32_t tiles_of(const struct kern_weight *w)
{
	return (w->rows + KERN_TILE_ROWS - 1) / KERN_TILE_ROWS;
}

static void product_rows(const struct cpu *c, const struct target *t, uint32_t r0, uint32_t r1, const struct kern_act *act,
			 uint32_t n)
{
	c->ops->product(t->w, r0, r1, act, n, t->y, t->ldy);
	for (uint32_t i = 0; i < n && t->bias; i++)
		c->ops->add(t->y + i * t->ldy + r0, t->bias + r0, r1 - r0);
}

static void product_tiles(const struct cpu *c, const struct target *t, uint32_t n_targets, uint32_t lo, uint32_t hi,
			  const struct kern_act *act, uint32_t n)
{
	for (uint32_t i = 0; i < n_targets && hi; i++) {
		uint32_t tiles = tiles_of(t[i].w), end = hi < tiles ? hi : tiles, r1 = end * KERN_TILE_ROWS;

		if (lo < end)
			product_rows(c, &t[i], lo * KERN_TILE_ROWS, r1 < t[i].w->rows ? r1 : t[i].w->rows, act, n);
		lo = lo > tiles ? lo - tiles : 0;
		hi -= end;
	}
}

/* Workers claim tiles until none is left: one that is held up by somebody else's load does less, and none waits for it. */
static void products(struct lane *l, const struct target *t, uint32_t n_targets, const struct kern_act *act, uint32_t n)
{
	struct cpu *c = l->c;
	atomic_uint *next = &c->next_tile[l->product++];
	uint32_t total = 0, part, lo;

	for (uint32_t i = 0; i < n_targets; i++)
		total += tiles_of(t[i].w);
	part = total / (workers_count(l->w) * CLAIMS);
	part = part ? part : 1;
	while ((lo = atomic_fetch_add_explicit(next, part, memory_order_relaxed)) < total)
		product_tiles(c, t, n_targets, lo, lo + part < total ? lo + part : total, act, n);
}

/* What all of these can take; 0 where none is quantised. */
static uint32_t levels_of(const struct target *t, uint32_t n_targets)
{
	uint32_t least = 0, levels;

	for (uint32_t i = 0; i < n_targets; i++) {
		levels = kern_type_levels(t[i].w->type);
		if (levels && (!least || levels < least))
			least = levels;
	}
	return least;
}

static void norm_rows(struct lane *l, const float *weight, uint32_t levels)
{
	struct cpu *c = l->c;

	for (uint32_t r = l->r0; r < l->r1; r++)
		c->ops->rmsnorm(l->s->h + (size_t)r * c->dim_ld, l->s->x + (size_t)r * c->m->dim, weight, c->m->dim, c->m->eps);
	quantise_rows(l, &l->s->act_h, levels, l->r0, l->r1);
}

/* @norm: of what is added, or NULL. */
static void add_rows(struct lane *l, const float *norm)
{
	struct cpu *c = l->c;
	size_t dim = c->m->dim;

	for (uint32_t r = l->r0; r < l->r1 && norm; r++) {
		c->ops->rmsnorm(l->s->h + r * (size_t)c->dim_ld, c->y + r * dim, norm, c->m->dim, c->m->eps);
		c->ops->add(l->s->x + r * dim, l->s->h + r * (size_t)c->dim_ld, c->m->dim);
	}
	if (norm)
		return;
	c->ops->add(l->s->x + l->r0 * dim, c->y + l->r0 * dim, (uint32_t)((l->r1 - l->r0) * dim));
}

static void layer_place(const struct cpu *c, uint32_t layer, uint32_t *group, size_t *offset)
{
	*group = layer / c->geo.layers_per_group;
	*offset = (size_t)(layer % c->geo.layers_per_group) * c->geo.layer_stride;
}

static void head_norms(const struct cpu *c, float *x, const float *norm, uint32_t heads)
{
	for (uint32_t h = 0; h < heads && norm; h++, x += c->m->head_dim)
		c->ops->rmsnorm(x, x, norm, c->m->head_dim, c->m->eps);
}

/* Norm and rotate the queries and store keys and values of this worker's share of the rows. */
static void store_rows(struct lane *l, uint32_t layer)
{
	struct cpu *c = l->c;
	const struct model *m = c->m;
	uint32_t lo, hi, group, kv = m->n_kv_heads * m->head_dim;
	struct kern_append a = {
		.k_ld = kv,
		.v_ld = kv,
		.n_kv_heads = m->n_kv_heads,
		.head_dim = m->head_dim,
		.rope_dim = m->rope_dim,
		.rope = c->rope[m->local[layer]],
		.kv_f32 = c->geo.kv_type == KVSLAB_KV_F32,
		.page_tokens = c->geo.page_tokens,
		.v_offset = c->geo.v_offset,
		.head_stride = c->geo.head_stride,
	};

	layer_place(c, layer, &group, &a.layer_offset);
	workers_split(l->w, l->thread, c->n_rows, 1, &lo, &hi);
	for (uint32_t r = lo; r < hi; r++) {
		struct row_ref *ref = &c->rows[r];

		head_norms(c, c->q + (size_t)r * c->q_ld, m->layers[layer].q_norm, m->n_heads);
		c->ops->rope(c->q + (size_t)r * c->q_ld, m->n_heads, m->head_dim, m->rope_dim,
			     a.rope + (size_t)ref->row->pos * m->rope_dim);
		if (ref->row->flags & KVSLAB_ROW_STORED)
			continue;
		head_norms(c, c->k + (size_t)r * kv, m->layers[layer].k_norm, m->n_kv_heads);
		a.k = c->k + (size_t)r * kv;
		a.v = c->v + (size_t)r * kv;
		a.n = 1;
		a.pos0 = ref->row->pos;
		a.pages = ref->run->pages_rw[group];
		c->ops->append(&a, 0, 1);
	}
}

static void attend(struct lane *l, uint32_t layer)
{
	struct cpu *c = l->c;
	const struct model *m = c->m;
	uint32_t group, i;
	struct kern_attn a = {
		.q_ld = c->q_ld,
		.n_heads = m->n_heads,
		.n_kv_heads = m->n_kv_heads,
		.head_dim = m->head_dim,
		.window = m->local[layer] ? m->window : 0,
		.scale = m->attn_scale,
		.softcap = m->attn_softcap,
		.kv_f32 = c->geo.kv_type == KVSLAB_KV_F32,
		.page_tokens = c->geo.page_tokens,
		.v_offset = c->geo.v_offset,
		.head_stride = c->geo.head_stride,
	};

	layer_place(c, layer, &group, &a.layer_offset);
	while ((i = atomic_fetch_add_explicit(&c->next_item[layer], 1, memory_order_relaxed)) < c->n_items) {
		struct attn_item *item = &c->items[i];
		struct kvslab_run *run = &c->batch->runs[item->run];
		size_t row = c->run_row[item->run];

		a.q = c->q + row * c->q_ld;
		a.out = c->o + row * c->q_ld;
		a.n_q = run->n_rows;
		a.pos0 = run->rows[0].pos;
		a.pages = run->pages_ro[group];
		c->ops->attention(&a, item->kv_head, item->q0, item->q1);
	}
}

static void gate_rows(struct lane *l, uint32_t levels)
{
	struct cpu *c = l->c;
	uint32_t ffn = c->m->ffn;

	for (uint32_t r = l->r0; r < l->r1; r++)
		(c->m->gelu ? c->ops->geglu : c->ops->swiglu)(l->s->a + (size_t)r * c->ffn_ld, c->gate + (size_t)r * ffn, c->up + (size_t)r * ffn, ffn);
	quantise_rows(l, &l->s->act_a, levels, l->r0, l->r1);
}

static void layer_forward(struct lane *l, uint32_t i)
{
	struct cpu *c = l->c;
	const struct model *m = c->m;
	const struct model_layer *y = &m->layers[i];
	uint32_t n = c->n_rows, kv = m->n_kv_heads * m->head_dim;
	const struct target qkv[] = { { &y->wq, y->bq, c->q, c->q_ld }, { &y->wk, y->bk, c->k, kv }, { &y->wv, y->bv, c->v, kv } };
	const struct target out[] = { { &y->wo, y->bo, c->y, m->dim } };
	const struct target gated[] = { { &y->gate, y->bgate, c->gate, m->ffn }, { &y->up, y->bup, c->up, m->ffn } };
	const struct target down[] = { { &y->down, y->bdown, c->y, m->dim } };

	norm_rows(l, y->attn_norm, levels_of(qkv, 3));
	rows_done(l);
	products(l, qkv, 3, &l->s->act_h, n);
	workers_barrier(l->w);
	store_rows(l, i);
	workers_barrier(l->w);
	attend(l, i);
	workers_barrier(l->w);
	if (kern_type_quantised(y->wo.type)) {
		quantise_rows(l, &l->s->act_o, levels_of(out, 1), l->r0, l->r1);
		rows_done(l);
	}
	products(l, out, 1, &l->s->act_o, n);
	workers_barrier(l->w);
	add_rows(l, y->post_attn_norm);
	norm_rows(l, y->ffn_norm, levels_of(gated, 2));
	rows_done(l);
	products(l, gated, 2, &l->s->act_h, n);
	workers_barrier(l->w);
	gate_rows(l, levels_of(down, 1));
	rows_done(l);
	products(l, down, 1, &l->s->act_a, n);
	workers_barrier(l->w);
	add_rows(l, y->post_ffn_norm);
}

/* Logits and samples of the rows that want them, some at a time. */
static void sample_rows(struct lane *l)
{
	struct cpu *c = l->c;
	const struct model *m = c->m;
	const struct target out[] = { { &m->output, NULL, c->logits, m->vocab } };
	uint32_t lo, hi;

	rows_done(l); /* rows of x are read by whoever norms them */
	for (uint32_t w0 = 0; w0 < c->n_want; w0 += LOGIT_ROWS) {
		uint32_t n = c->n_want - w0 < LOGIT_ROWS ? c->n_want - w0 : LOGIT_ROWS;

		workers_split(l->w, l->thread, n, 1, &lo, &hi);
		for (uint32_t i = lo; i < hi; i++)
			c->ops->rmsnorm(c->last + (size_t)i * c->dim_ld, l->s->x + (size_t)c->want[w0 + i] * m->dim, m->output_norm,
					m->dim, m->eps);
		quantise_rows(l, &c->act_last, levels_of(out, 1), lo, hi);
		workers_barrier(l->w);
		products(l, out, 1, &c->act_last, n);
		workers_barrier(l->w);
		for (uint32_t i = lo; i < hi; i++) {
			if (m->final_softcap > 0)
				c->ops->softcap(c->logits + (size_t)i * m->vocab, m->vocab, m->final_softcap);
			cpu_sample(c, l->thread, c->want[w0 + i], c->logits + (size_t)i * m->vocab);
		}
		workers_barrier(l->w);
	}
}

static void embed_row(const struct model *m, uint32_t token, float *x)
{
	kern_row_get(&m->embed, token, x);
	for (uint32_t i = 0; i < m->dim && m->embed_scale != 1; i++)
		x[i] *= m->embed_scale;
}

static void forward(void *arg, struct workers *w, uint32_t thread)
{
	struct cpu *c = arg;
	const struct model *m = c->m;
	struct lane l = { .c = c, .w = w, .thread = thread, .few = c->n_rows <= FEW_ROWS };

	l.s = l.few ? &c->own[thread] : &c->shared;
	l.r1 = c->n_rows;
	if (!l.few)
		workers_split(w, thread, c->n_rows, 1, &l.r0, &l.r1);
	for (uint32_t r = l.r0; r < l.r1; r++)
		embed_row(m, c->rows[r].row->token, l.s->x + (size_t)r * m->dim);
	for (uint32_t i = 0; i < m->n_layers; i++)
		layer_forward(&l, i);
	sample_rows(&l);
}

/* ---- the executor ---- */

static void cpu_geometry(struct kvslab_executor *ex, struct kvslab_geometry *geometry)
{
	const struct model *m = to_cpu(ex)->m;

	geometry->layers = m->n_layers;
	geometry->kv_heads = m->n_kv_heads;
	geometry->head_dim = m->head_dim;
}

static void rope_free(struct cpu *c)
{
	if (c->rope[1] != c->rope[0])
		free(c->rope[1]);
	free(c->rope[0]);
}

static int rope_grow(struct cpu *c, uint32_t positions)
{
	const struct model *m = c->m;
	float *t[2] = { NULL, NULL };
	uint32_t n, i, tables = memcmp(&m->rope[0], &m->rope[1], sizeof(m->rope[0])) ? 2 : 1;

	if (positions <= c->rope_rows)
		return 0;
	n = (positions + ROPE_STEP - 1) / ROPE_STEP * ROPE_STEP;
	for (i = 0; i < tables; i++) {
		t[i] = room((size_t)n * m->rope_dim, sizeof(float));
		if (!t[i]) {
			free(t[0]);
			return -ENOMEM;
		}
		kern_rope_table_of(t[i], n, m->rope_dim, m->rope[i].freq, m->rope[i].scale);
	}
	rope_free(c);
	c->rope[0] = t[0];
	c->rope[1] = tables == 2 ? t[1] : t[0];
	c->rope_rows = n;
	return 0;
}

static int check_run(const struct cpu *c, const struct kvslab_run *run)
{
	if (!run->n_rows)
		return -EINVAL;
	for (uint32_t i = 0; i < run->n_rows; i++) {
		const struct kvslab_row *row = &run->rows[i];

		if (row->pos >= c->base.context)
			return -E2BIG;
		if (row->token >= c->base.vocab || row->pos != run->rows[0].pos + i || row->target >= (int64_t)c->base.vocab)
			return -EINVAL;
	}
	return 0;
}

/* Longest first: the items at the end are short, so workers finish together. */
static int by_cost(const void *a, const void *b, void *arg)
{
	const struct kvslab_run *runs = ((struct kvslab_batch *)arg)->runs;
	const struct attn_item *x = a, *y = b;
	uint64_t cx = (uint64_t)(runs[x->run].rows[0].pos + x->q1) * (x->q1 - x->q0);
	uint64_t cy = (uint64_t)(runs[y->run].rows[0].pos + y->q1) * (y->q1 - y->q0);

	return cx < cy ? 1 : cx > cy ? -1 : 0;
}

static int cpu_submit(struct kvslab_executor *ex, struct kvslab_batch *batch)
{
	struct cpu *c = to_cpu(ex);
	uint32_t last = 0, n = 0;
	int r;

	if (c->batch)
		return -EBUSY;
	if (batch->n_runs > ex->max_runs)
		return -E2BIG;
	c->n_items = c->n_want = 0;
	for (uint32_t i = 0; i < batch->n_runs; i++) {
		struct kvslab_run *run = &batch->runs[i];

		if (run->n_rows > ex->max_rows - n)
			return -E2BIG;
		r = check_run(c, run);
		if (r)
			return r;
		c->run_row[i] = n;
		for (uint32_t k = 0; k < run->n_rows; k++) {
			if (run->rows[k].flags & KVSLAB_ROW_LOGITS)
				c->want[c->n_want++] = n;
			c->rows[n++] = (struct row_ref){ run, &run->rows[k] };
		}
		if (run->rows[run->n_rows - 1].pos > last)
			last = run->rows[run->n_rows - 1].pos;
		for (uint32_t h = 0; h < c->m->n_kv_heads; h++)
			for (uint32_t q = 0; q < run->n_rows; q += ATTN_QUERIES)
				c->items[c->n_items++] = (struct attn_item){
					i, h, q, q + ATTN_QUERIES < run->n_rows ? q + ATTN_QUERIES : run->n_rows
				};
	}
	r = rope_grow(c, last + 1);
	if (r)
		return r;
	batch->error = 0;
	c->n_rows = n;
	c->batch = batch;
	qsort_r(c->items, c->n_items, sizeof(*c->items), by_cost, batch);
	for (uint32_t i = 0; i < c->m->n_layers; i++)
		atomic_store_explicit(&c->next_item[i], 0, memory_order_relaxed);
	for (uint32_t i = 0; i < c->n_products; i++)
		atomic_store_explicit(&c->next_tile[i], 0, memory_order_relaxed);
	workers_start(c->w, forward, c);
	return 0;
}

static struct kvslab_batch *cpu_complete(struct kvslab_executor *ex, bool wait)
{
	struct cpu *c = to_cpu(ex);
	struct kvslab_batch *batch = c->batch;

	if (!batch || !workers_done(c->w, wait))
		return NULL;
	c->batch = NULL;
	return batch;
}

static void cpu_copy(struct kvslab_executor *ex, void *dst, const void *src, size_t size)
{
	(void)ex;
	memcpy(dst, src, size);
}

static void cpu_close(struct kvslab_executor *ex)
{
	struct cpu *c = to_cpu(ex);
	uint32_t threads = c->w ? workers_count(c->w) : 0;

	if (c->batch)
		workers_done(c->w, true);
	if (c->w)
		workers_close(c->w);
	stage_close(&c->shared);
	for (uint32_t i = 0; c->own && i < threads; i++)
		stage_close(&c->own[i]);
	free(c->own);
	act_close(&c->act_last);
	free(c->rows);
	free(c->run_row);
	free(c->want);
	free(c->items);
	free(c->next_item);
	free(c->next_tile);
	free(c->q);
	free(c->k);
	free(c->v);
	free(c->o);
	free(c->gate);
	free(c->up);
	free(c->y);
	free(c->logits);
	free(c->last);
	free(c->scratch);
	rope_free(c);
	free(c);
}

static const struct kvslab_executor_ops cpu_ops = {
	.geometry = cpu_geometry,
	.submit = cpu_submit,
	.complete = cpu_complete,
	.copy = cpu_copy,
	.close = cpu_close,
};

static int buffers_open(struct cpu *c)
{
	const struct model *m = c->m;
	size_t rows = c->base.max_rows, runs = c->base.max_runs, kv = (size_t)m->n_kv_heads * m->head_dim;
	uint32_t threads = workers_count(c->w);

	c->rows = calloc(rows, sizeof(*c->rows));
	c->run_row = calloc(runs, sizeof(*c->run_row));
	c->want = calloc(rows, sizeof(*c->want));
	c->items = calloc((rows / ATTN_QUERIES + runs) * m->n_kv_heads, sizeof(*c->items));
	c->next_item = calloc(m->n_layers, sizeof(*c->next_item));
	/* Four a layer, and one for each group of rows that want logits. */
	c->n_products = 4 * m->n_layers + (uint32_t)(rows + LOGIT_ROWS - 1) / LOGIT_ROWS;
	c->next_tile = calloc(c->n_products, sizeof(*c->next_tile));
	c->own = calloc(threads, sizeof(*c->own));
	c->q = room(rows * c->q_ld, sizeof(float));
	c->k = room(rows * kv, sizeof(float));
	c->v = room(rows * kv, sizeof(float));
	c->o = room(rows * c->q_ld, sizeof(float));
	c->gate = room(rows * m->ffn, sizeof(float));
	c->up = room(rows * m->ffn, sizeof(float));
	c->y = room(rows * m->dim, sizeof(float));
	c->logits = room((size_t)LOGIT_ROWS * m->vocab, sizeof(float));
	c->last = room((size_t)LOGIT_ROWS * c->dim_ld, sizeof(float));
	c->scratch = room((size_t)threads * SCRATCH * m->vocab, sizeof(uint32_t));
	if (!c->rows || !c->run_row || !c->want || !c->items || !c->next_item || !c->next_tile || !c->own || !c->q || !c->k || !c->v || !c->o ||
	    !c->gate || !c->up || !c->y || !c->logits || !c->last || !c->scratch)
		return -ENOMEM;
	if (stage_open(&c->shared, c, c->base.max_rows) || act_open(&c->act_last, c->last, LOGIT_ROWS, m->dim, c->dim_ld))
		return -ENOMEM;
	for (uint32_t i = 0; i < threads; i++)
		if (stage_open(&c->own[i], c, FEW_ROWS))
			return -ENOMEM;
	return 0;
}

int cpu_open(struct kvslab_executor **ex, const struct model *m, const struct cpu_opts *opts, struct model_error *e)
{
	const struct kvslab_geometry *g = opts->geometry;
	struct cpu *c;
	int r;

	if (!g || g->layers != m->n_layers || g->kv_heads != m->n_kv_heads || g->head_dim != m->head_dim)
		return model_fail(e, -EINVAL, "the page geometry is not this model's");
	c = calloc(1, sizeof(*c));
	if (!c)
		return model_fail(e, -ENOMEM, "no memory for the executor");
	c->base = (struct kvslab_executor){
		.ops = &cpu_ops,
		.max_rows = opts->max_rows ? opts->max_rows : 512,
		.max_runs = opts->max_runs ? opts->max_runs : 32,
		.context = m->context,
		.vocab = m->vocab,
	};
	c->m = m;
	c->geo = *g;
	c->ops = opts->ops ? opts->ops : kern_ops_get("auto");
	c->dim_ld = pad(m->dim);
	c->q_ld = pad(m->n_heads * m->head_dim);
	c->ffn_ld = pad(m->ffn);
	r = workers_open(&c->w, opts->threads);
	if (r) {
		model_fail(e, r, "cannot start %u worker threads: raise the limit on threads (ulimit -u) or ask for fewer",
			   opts->threads);
		goto fail;
	}
	r = buffers_open(c);
	if (r) {
		model_fail(e, r, "no memory for batches of %u rows: ask for fewer (--step-tokens)", c->base.max_rows);
		goto fail;
	}
	*ex = &c->base;
	return 0;
fail:
	cpu_close(&c->base);
	return r;
}
