// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* A sample as bytes. One description serves both ways: each field is written from where it is read into. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "record.h"

#define HEAD 40
#define POOL 296
#define CACHE 256
#define CLIENT 56
#define SLAB 24

struct codec {
	uint8_t *at;
	bool write;
	bool bad; /* what was read cannot be */
};

static uint64_t integer(struct codec *c, uint64_t v, int bytes)
{
	int i;

	if (c->write) {
		for (i = 0; i < bytes; i++)
			c->at[i] = (uint8_t)(v >> 8 * i);
	} else {
		for (v = 0, i = 0; i < bytes; i++)
			v |= (uint64_t)c->at[i] << 8 * i;
	}
	c->at += bytes;
	return v;
}

#define U16(x) ((x) = (uint16_t)integer(c, (uint64_t)(x), 2))
#define U32(x) ((x) = (uint32_t)integer(c, (uint64_t)(x), 4))
#define S32(x) ((x) = (int32_t)(uint32_t)integer(c, (uint32_t)(x), 4))
#define U64(x) ((x) = integer(c, (x), 8))

static void zero(struct codec *c)
{
	c->bad |= integer(c, 0, 4) != 0;
}

static void bytes(struct codec *c, char *s, size_t n)
{
	if (c->write)
		memcpy(c->at, s, n);
	else
		memcpy(s, c->at, n);
	c->at += n;
}

static void head(struct codec *c, struct snap *s)
{
	U64(s->time);
	U64(s->mono);
	U32(s->traced);
	U32(s->n);
	U64(s->lost_full);
	U64(s->lost_unknown);
}

static void pool(struct codec *c, struct snap_pool *p)
{
	struct kvslab_stat_pool *q = &p->v.pool;

	bytes(c, q->name, sizeof(q->name));
	U32(q->id);
	U32(q->arena);
	U32(q->clients);
	U32(q->dead);
	S32(q->node);
	U32(p->v.nr_caches);
	U32(p->v.nr_clients);
	U32(p->v.nr_slabs);
	U64(q->min);
	U64(q->max);
	U64(q->low);
	U64(q->high);
	U64(q->held);
	U64(q->slabs);
	U64(q->arena_extents);
	U64(q->arena_free);
	U64(q->free);
	U64(q->private_pages);
	U64(q->moving);
	U64(q->sealed);
	U64(q->cached);
	U64(q->quarantined);
	U64(q->free_bytes);
	U64(q->tail_bytes);
	U64(q->quarantined_bytes);
	U64(q->allocs);
	U64(q->frees);
	U64(q->seals);
	U64(q->seal_duplicates);
	U64(q->lookups);
	U64(q->lookup_asked);
	U64(q->lookup_hits);
	U64(q->evictions);
	U64(q->takeovers);
	U64(q->reclaimed);
	U64(q->adrift);
	U64(q->failed);
}

static void cache(struct codec *c, struct kvslab_stat_cache *k, uint32_t *tier, struct snap_trace *t)
{
	int i;

	U32(k->id);
	U32(k->page_size);
	U32(k->pages_per_slab);
	U32(k->flags);
	U32(*tier);
	zero(c);
	U64(k->slabs);
	U64(k->free);
	U64(k->private_pages);
	U64(k->moving);
	U64(k->sealed);
	U64(k->cached);
	U64(k->quarantined);
	U64(t->allocs);
	U64(t->frees);
	U64(t->releases);
	U64(t->seals);
	U64(t->duplicates);
	U64(t->evictions);
	U64(t->refused);
	U64(t->slabs_new);
	U64(t->slabs_freed);
	U64(t->slabs_taken);
	U64(t->lookups);
	U64(t->asked);
	U64(t->found);
	U64(t->regret);
	for (i = 0; i < SNAP_CLASSES; i++)
		U64(t->evicted[i]);
	c->bad |= !k->page_size || !k->pages_per_slab ||
		  (uint64_t)k->page_size * k->pages_per_slab > KVSLAB_CMD_EXTENT;
}

static void client(struct codec *c, struct kvslab_stat_client *k)
{
	U32(k->id);
	S32(k->pid);
	bytes(c, k->comm, sizeof(k->comm));
	U64(k->private_pages);
	U64(k->references);
	U64(k->slabs);
	U64(k->held_bytes);
}

static void slab(struct codec *c, struct kvslab_stat_slab *k)
{
	U32(k->extent);
	U32(k->owner);
	U16(k->cache);
	U16(k->pages);
	U16(k->free);
	U16(k->private_pages);
	U16(k->moving);
	U16(k->sealed);
	U16(k->cached);
	U16(k->quarantined);
	c->bad |= k->extent >= 1u << 20 || !k->pages || k->pages > 1024 ||
		  k->free + k->private_pages + k->moving + k->sealed + k->cached + k->quarantined !=
			  k->pages;
}

static size_t size_of(const struct snap *s)
{
	size_t n = HEAD;
	uint32_t i;

	for (i = 0; i < s->n; i++)
		n += POOL + (size_t)s->pools[i].v.nr_caches * CACHE +
		     (size_t)s->pools[i].v.nr_clients * CLIENT +
		     (size_t)s->pools[i].v.nr_slabs * SLAB;
	return n;
}

static void arrays(struct codec *c, struct snap_pool *p)
{
	uint32_t i;

	for (i = 0; i < p->v.nr_caches; i++)
		cache(c, &p->v.caches[i], &p->tiers[i], &p->traces[i]);
	for (i = 0; i < p->v.nr_clients; i++)
		client(c, &p->v.clients[i]);
	for (i = 0; i < p->v.nr_slabs; i++) {
		slab(c, &p->v.slabs[i]);
		c->bad |= i && p->v.slabs[i].extent <= p->v.slabs[i - 1].extent;
	}
}

int record_encode(const struct snap *s, uint8_t **out, size_t *n)
{
	struct snap copy = *s;
	struct codec c = { .write = true };
	uint32_t i;

	*n = size_of(s);
	if (*n > RECORD_MAX)
		return -EFBIG;
	*out = c.at = malloc(*n);
	if (!*out)
		return -ENOMEM;
	head(&c, &copy);
	for (i = 0; i < s->n; i++) {
		pool(&c, &s->pools[i]);
		arrays(&c, &s->pools[i]);
	}
	return 0;
}

static bool name_fits(const char name[KVSLAB_NAME_SIZE])
{
	static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
	size_t n = strnlen(name, KVSLAB_NAME_SIZE), i;

	if (!n || n == KVSLAB_NAME_SIZE || strspn(name, good) != n)
		return false;
	for (i = n; i < KVSLAB_NAME_SIZE; i++)
		if (name[i])
			return false;
	return true;
}

static int make_arrays(struct snap_pool *p)
{
	struct pool_view *v = &p->v;

	v->details = true;
	v->caches = calloc(v->nr_caches + 1, sizeof(*v->caches));
	v->clients = calloc(v->nr_clients + 1, sizeof(*v->clients));
	v->slabs = calloc(v->nr_slabs + 1, sizeof(*v->slabs));
	p->tiers = calloc(v->nr_caches + 1, sizeof(*p->tiers));
	p->traces = calloc(v->nr_caches + 1, sizeof(*p->traces));
	return v->caches && v->clients && v->slabs && p->tiers && p->traces ? 0 : -ENOMEM;
}

/* Counts are held against the bytes that are left before anything is taken for them. */
static int decode_pool(struct codec *c, const uint8_t *end, struct snap_pool *p)
{
	uint64_t want;
	int err;

	if (end - c->at < POOL)
		return -EINVAL;
	pool(c, p);
	want = (uint64_t)p->v.nr_caches * CACHE + (uint64_t)p->v.nr_clients * CLIENT +
	       (uint64_t)p->v.nr_slabs * SLAB;
	if (c->bad || !name_fits(p->v.pool.name) || want > (uint64_t)(end - c->at)) {
		p->v.nr_caches = p->v.nr_clients = p->v.nr_slabs = 0;
		return -EINVAL;
	}
	err = make_arrays(p);
	if (!err)
		arrays(c, p);
	return err ? err : c->bad ? -EINVAL : 0;
}

int record_decode(const uint8_t *data, size_t n, struct snap *s)
{
	struct codec c = { .at = (uint8_t *)(uintptr_t)data };
	uint32_t pools, i;
	int err = 0;

	memset(s, 0, sizeof(*s));
	if (n < HEAD)
		return -EINVAL;
	head(&c, s);
	pools = s->n;
	s->n = 0;
	if (pools > (n - HEAD) / POOL || s->traced & ~(SNAP_FRAG | SNAP_PREFIX))
		return -EINVAL;
	s->pools = calloc(pools + 1, sizeof(*s->pools));
	if (!s->pools)
		return -ENOMEM;
	for (i = 0; i < pools && !err; i++) {
		s->n = i + 1;
		err = decode_pool(&c, data + n, &s->pools[i]);
	}
	if (!err && c.at != data + n)
		err = -EINVAL;
	if (err)
		snap_free(s);
	return err;
}
