// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * Drawing a token. Weights are integers, so their sums are exact in any order, and nothing need be sorted but
 * the few candidates around a cut: ids are dealt into buckets by falling logit, and only the bucket in which a
 * cut falls is put in order.
 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "kvslab_kernels.h"
#include "philox.h"

#define BUCKETS 1024
#define BUCKETS_PER_UNIT 36.0f /* of logit difference over temperature; beyond 27.8 all weights are 0 */
#define CHUNK 256

struct candidates {
	const float *logits;
	const float *p; /* by id */
	uint32_t *ids; /* dealt by bucket, ids ascending in each until sorted */
	float top, temperature;
	uint64_t least; /* weight below which one is no candidate */
	uint32_t start[BUCKETS + 1]; /* of each bucket in ids */
	uint64_t weight[BUCKETS];
	bool sorted[BUCKETS];
};

/* The first @count candidates in order, whose weights add up to @sum; the last of them is @id. */
struct prefix {
	uint64_t count, sum;
	uint32_t id;
};

static uint64_t weight(float p)
{
	return (uint64_t)(int64_t)(p * 0x1p40f);
}

static uint64_t weight_of(const struct candidates *c, float p)
{
	uint64_t w = weight(p);

	return w >= c->least ? w : 0;
}

/* Never decreases as the logit falls. */
static uint32_t bucket_of(const struct candidates *c, float logit)
{
	float b = (c->top - logit) / c->temperature * BUCKETS_PER_UNIT;

	return b < BUCKETS - 1 ? (uint32_t)b : BUCKETS - 1;
}

static bool before(const float *logits, uint32_t a, uint32_t b)
{
	return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
}

static void sift(const float *logits, uint32_t *ids, uint32_t i, uint32_t n)
{
	uint32_t id = ids[i], child;

	for (; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && before(logits, ids[child], ids[child + 1]))
			child++;
		if (!before(logits, id, ids[child]))
			break;
		ids[i] = ids[child];
	}
	ids[i] = id;
}

/* A heap sort: in place and never quadratic. */
static void sort(const float *logits, uint32_t *ids, uint32_t n)
{
	uint32_t i, id;

	for (i = n / 2; i-- > 0;)
		sift(logits, ids, i, n);
	for (i = n; i-- > 1;) {
		id = ids[0];
		ids[0] = ids[i];
		ids[i] = id;
		sift(logits, ids, 0, i);
	}
}

/* p by id, then ids by bucket. Candidates of weight 0 are left out: no sum and no draw can tell. */
static void deal(struct candidates *c, const struct kern_ops *ops, uint32_t n, float *p)
{
	uint32_t i, j, m, b;

	memset(c->start, 0, sizeof(c->start));
	memset(c->weight, 0, sizeof(c->weight));
	memset(c->sorted, 0, sizeof(c->sorted));
	c->p = p;
	for (i = 0; i < n; i += CHUNK) {
		m = n - i < CHUNK ? n - i : CHUNK;
		for (j = i; j < i + m; j++)
			p[j] = (c->logits[j] - c->top) / c->temperature;
		ops->exp(p + i, m);
		for (j = i; j < i + m; j++) {
			uint64_t w = weight_of(c, p[j]);

			if (!w)
				continue;
			b = bucket_of(c, c->logits[j]);
			c->start[b + 1]++;
			c->weight[b] += w;
		}
	}
	for (b = 0; b < BUCKETS; b++)
		c->start[b + 1] += c->start[b];
	for (i = 0; i < n; i++) {
		if (weight_of(c, p[i]))
			c->ids[c->start[bucket_of(c, c->logits[i])]++] = i;
	}
	memmove(c->start + 1, c->start, BUCKETS * sizeof(*c->start));
	c->start[0] = 0;
}

/* The shortest prefix with @count candidates or a sum of @sum, whichever is first; all if there is none. */
static struct prefix cut(struct candidates *c, uint64_t count, uint64_t sum)
{
	struct prefix at = { 0 };
	uint32_t b, i, n;

	for (b = 0; b < BUCKETS; b++) {
		n = c->start[b + 1] - c->start[b];
		if (!n)
			continue;
		if (at.count + n < count && at.sum + c->weight[b] < sum) {
			at.count += n;
			at.sum += c->weight[b];
			continue;
		}
		if (!c->sorted[b])
			sort(c->logits, c->ids + c->start[b], n);
		c->sorted[b] = true;
		for (i = c->start[b]; i < c->start[b + 1]; i++) {
			at.id = c->ids[i];
			at.count++;
			at.sum += weight(c->p[at.id]);
			if (at.count >= count || at.sum >= sum)
				return at;
		}
	}
	return at;
}

static uint32_t draw(const struct kern_ops *ops, const float *logits, uint32_t n, float top,
		     const struct kern_sampling *s, uint64_t position, uint32_t *scratch)
{
	uint32_t r[4] = { (uint32_t)position, (uint32_t)(position >> 32), s->choice, 0 };
	struct candidates c = { .logits = logits, .top = top, .temperature = s->temperature };
	struct prefix kept;
	float one = 0;
	uint64_t want;

	ops->exp(&one, 1);
	c.least = s->min_p > 0 ? (uint64_t)((double)s->min_p * (double)weight(one)) : 0;
	c.ids = scratch + n;
	deal(&c, ops, n, (float *)scratch);
	kept = cut(&c, s->top_k ? s->top_k : UINT64_MAX, UINT64_MAX);
	if (s->top_p > 0 && s->top_p < 1) {
		want = (uint64_t)ceil((double)s->top_p * (double)kept.sum);
		kept = cut(&c, kept.count, want);
	}
	philox4x32_10(r, (uint32_t)s->seed, (uint32_t)(s->seed >> 32));
	/* running > u * kept, in integers */
	want = (uint64_t)(((unsigned __int128)kept.sum * (r[0] >> 8)) >> 24) + 1;
	return cut(&c, kept.count, want).id;
}

float kern_logsum(const struct kern_ops *ops, const float *logits, uint32_t n, float *top)
{
	bool finite;

	*top = ops->max(logits, n, &finite);
	return (float)log((double)ops->expsum(logits, n, *top));
}

int kern_sample(const struct kern_ops *ops, const float *logits, uint32_t n, const struct kern_sampling *s,
		uint64_t position, int64_t target, uint32_t *scratch, float *logprob)
{
	uint32_t id = 0;
	bool finite;
	float top;

	assert(n >= 1 && target < (int64_t)n);
	top = ops->max(logits, n, &finite);
	if (!finite)
		return -EDOM;
	if (s->temperature > 0)
		id = draw(ops, logits, n, top, s, position, scratch);
	else
		while (logits[id] != top)
			id++;
	if (logprob)
		*logprob = (logits[target >= 0 ? target : id] - top) -
			   (float)log((double)ops->expsum(logits, n, top));
	return (int)id;
}
