// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * Every state that two clients can bring a pool of two extents with two pages a slab into, by
 * single calls: ALLOC of one or two pages, FREE, SEAL, LOOKUP of a page, and a client's end. It is
 * the real core; its memory comes from one region, which is copied and restored. Two states are the
 * same if they differ only in generations, stamps, counts of events and addresses. In each: the
 * debug walk, and for each client that ALLOC gets exactly what is free or cached.
 */
#include <stdlib.h>

#include "tests/lib/core_env.h"
#include "tests/lib/tap.h"
#include "state.h"

#define EXTENTS 2
#define PAGES 2 /* a slab */
#define CLIENTS 2
#define REGION (96 << 10)
#define STATES (1 << 20)

/* ---- memory: the core's and the search's own view of it, all of it copied with a state ---- */

struct block {
	struct block *next;
	size_t size;
};

struct world {
	size_t used;
	struct block *free;
	struct kvc_arena *arena;
	struct kvc_pool *pool;
	struct kvc_client *client[CLIENTS];
	u64 page[EXTENTS * PAGES]; /* handles last given out */
	char mem[REGION] __attribute__((aligned(KVC_ALIGN)));
};

static struct world w __attribute__((aligned(KVC_ALIGN))), here, root;
static u32 spares;

static void copy(struct world *to, const struct world *from)
{
	memcpy(to, from, offsetof(struct world, mem) + from->used);
}

/* A block of that very size that was given back, or new. */
static void *get(size_t size)
{
	struct block **b, *found;

	size = (size + KVC_ALIGN - 1) & ~(size_t)(KVC_ALIGN - 1);
	for (b = &w.free; *b; b = &(*b)->next) {
		found = *b;
		if (found->size != size)
			continue;
		*b = found->next;
		memset(found, 0, size);
		return found;
	}
	if (w.used + size + KVC_ALIGN > REGION)
		abort();
	memcpy(w.mem + w.used, &size, sizeof(size));
	w.used += size + KVC_ALIGN;
	memset(w.mem + w.used - size, 0, size);
	return w.mem + w.used - size;
}

static void put(void *mem)
{
	struct block *b = mem;
	size_t size;

	memcpy(&size, (char *)mem - KVC_ALIGN, sizeof(size));
	b->size = size;
	b->next = w.free;
	w.free = b;
}

#define RUN(call)                                                                            \
	({                                                                                   \
		struct kvc_op op;                                                            \
		void *table;                                                                 \
		int run_r;                                                                   \
		u32 run_i;                                                                   \
                                                                                             \
		kvc_op_init(&op);                                                            \
		while ((run_r = (call)) == KVC_MORE)                                         \
			for (run_i = 0; run_i < op.nr_needs; run_i++) {                      \
				op.need[run_i].mem[0] = get(op.need[run_i].size[0]);         \
				if (op.need[run_i].size[1])                                  \
					op.need[run_i].mem[1] = get(op.need[run_i].size[1]); \
			}                                                                    \
		while ((table = kvc_op_table(&op)))                                          \
			put(table);                                                          \
		run_r;                                                                       \
	})

static void open_client(u32 c)
{
	if (kvc_client_init(get(kvc_client_size(w.pool)), w.pool, &w.client[c]))
		abort();
	w.client[c]->share[0].spares_max = spares;
}

static void start(void)
{
	struct kvc_pool_params params = { .max = EXTENTS, .secret = { 1, 2 } };
	u32 c;

	memset(&w, 0, sizeof(w));
#ifdef ON_DEVICE_MEMORY
	w.arena = kvc_arena_init_device(get(kvc_arena_size(EXTENTS)), 0, EXTENTS, 7);
#else
	w.arena = kvc_arena_init(get(kvc_arena_size(EXTENTS)), 0, EXTENTS);
#endif
	if (kvc_pool_init(get(kvc_pool_size()), w.arena, &params, &w.pool) ||
	    kvc_cache_add(w.pool, get(kvc_cache_size(KVC_EXTENT_SIZE / PAGES)),
			  KVC_EXTENT_SIZE / PAGES))
		abort();
	for (c = 0; c < CLIENTS; c++)
		open_client(c);
}

/* ---- what can be done ---- */

enum what { ALLOC_1, ALLOC_2, FREE, SEAL, LOOKUP, END, WHATS };

struct act {
	u8 what, client, page;
};

static u32 place(u64 handle)
{
	return kvc_handle_extent(handle) * PAGES + kvc_handle_index(handle);
}

static int alloc(u32 c, u32 n)
{
	u64 pages[EXTENTS * PAGES + 1];
	int r = RUN(kvc_alloc(w.client[c], 0, pages, n, 0, &op));
	int i;

	for (i = 0; i < r; i++)
		w.page[place(pages[i])] = pages[i];
	return r;
}

/* How many pages it can be done to. */
static u32 pages_of(u8 what)
{
	return what == FREE || what == SEAL || what == LOOKUP ? EXTENTS * PAGES : 1;
}

/* 0 if it did something. */
static int act(struct act a)
{
	struct kvc_client *client = w.client[a.client];
	u64 page = w.page[a.page];
	struct kvc_seal seal = { .page = page, .flags = KVC_SEAL_ROOT };
	struct kvc_where where;
	u8 hash[1][KVC_HASH_SIZE];
	int r;

	switch (a.what) {
	case ALLOC_1:
	case ALLOC_2:
		return alloc(a.client, a.what == ALLOC_1 ? 1 : 2) < 0;
	case FREE:
		return RUN(kvc_free(client, &page, 1, &op));
	case SEAL:
		core_hash(seal.hash, a.page);
		return RUN(kvc_seal(client, &seal, 1, &op));
	case LOOKUP: /* one reference a client is enough */
		core_hash(hash[0], a.page);
		if (!kvc_where(client, page, &where))
			return 1;
		r = RUN(kvc_lookup(client, 0, (const u8(*)[KVC_HASH_SIZE])hash, 1, &page, &op));
		if (r == 1 && place(page) != a.page)
			abort();
		return r != 1;
	default:
		RUN(kvc_client_exit(client, &op));
		put(client);
		open_client(a.client);
		return 0;
	}
}

/* ---- what a state is ---- */

struct key {
	u32 n;
	u8 b[160];
};

static void add(struct key *k, u32 v)
{
	if (k->n == sizeof(k->b))
		abort();
	k->b[k->n++] = v;
}

static u32 number(const struct kvc_client *client)
{
	u32 c = 0;

	while (c < CLIENTS && client != w.client[c])
		c++;
	return c;
}

static void add_slab(struct key *k, struct kvc_slab *slab)
{
	u32 i, c, slot = slab->head, last = 0;

	add(k, slab->owner ? number(slab->owner->client) : CLIENTS);
	for (c = 0; c < CLIENTS; c++)
		if (slab->last == w.client[c]->serial)
			last = c + 1;
	add(k, slab->last ? last : 9);
	for (i = 0; i < slab->pages; i++)
		add(k, slab->page[i].state);
	for (i = 0; i < slab->nr_free; i++) {
		add(k, slab->page[slot].ring);
		slot = (slot + 1) % slab->pages;
	}
	for (c = 0; c < CLIENTS; c++) {
		struct kvc_record *record = w.client[c]->map[slab->extent];

		for (i = 0; i < slab->pages; i++)
			add(k, !record || !record->refs[i]	? 0
			       : record->refs[i] > KVC_REFS_MAX ? 9
								: record->refs[i]);
	}
}

#define ADD_LIST(k, head, type, member, number)                        \
	do {                                                           \
		struct kvc_list *list_l;                               \
                                                                       \
		kvc_list_for(list_l, head) {                           \
			type *at = container_of(list_l, type, member); \
			add(k, number);                                \
		}                                                      \
		add(k, 0xff);                                          \
	} while (0)

static void canonical(struct key *k)
{
	struct kvc_cache *cache = w.pool->cache[0];
	u32 x, c, i;

	k->n = 0;
	for (x = 0; x < EXTENTS; x++) {
		add(k, w.arena->extent[x].state);
		if (w.arena->extent[x].slab)
			add_slab(k, w.arena->extent[x].slab);
	}
	for (x = w.arena->free; x != KVC_NONE; x = w.arena->extent[x].next)
		add(k, x);
	for (c = 0; c < CLIENTS; c++) {
		struct kvc_share *share = &w.client[c]->share[0];

		ADD_LIST(k, &share->room, struct kvc_record, node, at->slab->extent);
		ADD_LIST(k, &share->full, struct kvc_record, node, at->slab->extent);
		ADD_LIST(k, &share->guest, struct kvc_record, node, at->slab->extent);
	}
	for (i = 0; i <= PAGES; i++)
		ADD_LIST(k, &cache->bin[i], struct kvc_slab, bin, at->extent);
	for (i = 0; i <= PAGES; i++)
		ADD_LIST(k, &w.pool->idle[i], struct kvc_slab, idle, at->extent);
	ADD_LIST(k, &cache->evict[0], struct kvc_entry, node, at->slab->extent * PAGES + at->index);
}

/* ---- the search ---- */

struct state {
	u64 hash[2];
	u32 from, depth; /* state, calls from the beginning */
	struct act by;
};

static struct state *states;
static u32 nr_states, table[4 * STATES]; /* 1 + number */

static bool enter(u32 from, struct act by)
{
	static const u64 keys[2][2] = { { 1, 2 }, { 3, 4 } };
	struct key k = { 0 };
	u64 hash[2];
	u32 at;

	canonical(&k);
	hash[0] = kvc_siphash(k.b, sizeof(k.b), keys[0]) + k.n;
	hash[1] = kvc_siphash(k.b, sizeof(k.b), keys[1]);
	for (at = hash[0] % (4 * STATES); table[at]; at = (at + 1) % (4 * STATES))
		if (!memcmp(states[table[at] - 1].hash, hash, sizeof(hash)))
			return false;
	if (nr_states == STATES)
		abort();
	table[at] = nr_states + 1;
	memcpy(states[nr_states].hash, hash, sizeof(hash));
	states[nr_states].from = from;
	states[nr_states].depth = nr_states ? states[from].depth + 1 : 0;
	states[nr_states++].by = by;
	return true;
}

/* From the beginning to state @s, by the calls that led there. */
static void go(u32 s)
{
	struct act path[64];
	u32 n = 0;

	for (; s; s = states[s].from)
		path[n++] = states[s].by;
	copy(&w, &root);
	while (n--)
		if (act(path[n]))
			abort();
}

static u32 could(void)
{
	struct kvc_stat stat;

	kvc_stat(w.pool, &stat);
	return stat.free + stat.cached + stat.arena_free * PAGES;
}

/* Allocations of this state, kept in here, that were refused though there was memory, or had though
 * there was none. */
static u32 refused(void)
{
	u32 c, n = could(), wrong = 0;

	for (c = 0; c < CLIENTS; c++) {
		wrong += n && alloc(c, 1) != 1;
		copy(&w, &here);
		wrong += n > 1 && alloc(c, n) != (int)n;
		copy(&w, &here);
		wrong += alloc(c, n + 1) != -ENOSPC || could() != n;
		copy(&w, &here);
	}
	return wrong;
}

static void report(u32 s, const char *why)
{
	static const char *const names[WHATS] = { "ALLOC 1", "ALLOC 2", "FREE",
						  "SEAL",    "LOOKUP",	"end" };
	struct act path[64];
	u32 n = 0;

	for (; s; s = states[s].from)
		path[n++] = states[s].by;
	printf("# %s after:", why);
	while (n--)
		printf(" %s of client %u page %u;", names[path[n].what], path[n].client,
		       path[n].page);
	printf("\n");
}

/* All states, and how many of them refuse; the first broken rule in @why. */
static u32 search(u32 spare_slabs, char *why, size_t n)
{
	struct act a;
	u32 s, bad = 0;

	spares = spare_slabs;
	nr_states = 0;
	memset(table, 0, sizeof(table));
	start();
	copy(&root, &w);
	enter(0, (struct act){ 0 });
	why[0] = 0;
	for (s = 0; s < nr_states && !why[0]; s++) {
		go(s);
		if (kvc_check(w.arena, why, n)) {
			report(s, why);
			break;
		}
		copy(&here, &w);
		if (refused() && !bad++)
			report(s, "refused");
		for (a.what = 0; a.what < WHATS; a.what++)
			for (a.client = 0; a.client < CLIENTS; a.client++)
				for (a.page = 0; a.page < pages_of(a.what); a.page++) {
					copy(&w, &here);
					if (!act(a))
						enter(s, a);
				}
	}
	return bad;
}

int main(void)
{
	static const u32 spare_slabs[] = { 0, 9 };
	char why[200];
	u32 i, bad;

	states = malloc(STATES * sizeof(*states));
	for (i = 0; i < 2; i++) {
		bad = search(spare_slabs[i], why, sizeof(why));
		ok(!why[0],
		   "%u spare slabs: the rules hold in all of %u states, the last %u calls deep",
		   spare_slabs[i], nr_states, states[nr_states - 1].depth);
#ifdef KVC_WITHOUT_TAKE_OVER
		ok(bad > 500, "%u states refuse while memory is free, without the take-over", bad);
#else
		ok(!bad, "%u states refuse while memory is free or cached", bad);
#endif
	}
	free(states);
	return done();
}
