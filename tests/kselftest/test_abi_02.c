// SPDX-License-Identifier: GPL-2.0
/*
 * Commands with arguments that are half right and half random, from several threads and processes,
 * while another thread changes the arguments under them: no complaint of the kernel, counts add up,
 * and what another client holds is what it was. For two minutes; half an hour in the long run.
 */
#include <pthread.h>
#include <sched.h>

#include "dev.h"

#define SIZE (64u << 10)
#define CLIENTS 2 /* processes, each with two threads that call and one that changes */
#define KNOWN 64

struct shared {
	volatile int end;
	u64 calls[CLIENTS], good[CLIENTS];
};

static struct shared *sh;
static struct ks_client k;
static u64 kept[16]; /* handles of the client that is not to be hit */

/* All that the calls of a process point to, so that it is changed while they run. */
static struct {
	u8 args[256];
	u64 pages[KVSLAB_CMD_BATCH];
	struct kvslab_seal_entry seals[64];
	u8 hashes[64][HASH];
	u8 out[8192];
} *m;

static u64 known[KNOWN]; /* handles that were good once */

static u64 handle(u64 *seed)
{
	u64 h = known[rnd(seed) % KNOWN];

	switch (rnd(seed) % 8) {
	case 0:
		return rnd(seed);
	case 1:
		return h ^ 1ull << rnd(seed) % 64;
	case 2:
		return kept[rnd(seed) % COUNT(kept)];
	}
	return h;
}

static u64 pointer(u64 *seed, void *good)
{
	switch (rnd(seed) % 32) {
	case 0:
		return rnd(seed);
	case 1:
		return 0;
	case 2:
		return (uintptr_t)k.w + rnd(seed) % k.c.arena_size;
	case 3:
		return (uintptr_t)k.r + rnd(seed) % k.c.arena_size;
	case 4:
		/* over the end of what is mapped */
		return (uintptr_t)(m + 1) - rnd(seed) % 512;
	}
	return (uintptr_t)good;
}

static u32 number(u64 *seed, u32 most)
{
	static const u32 odd[] = { 0, 1, KVSLAB_CMD_BATCH, KVSLAB_CMD_BATCH + 1, 0x7fffffff, 0x80000000, ~0u };

	return rnd(seed) % 16 ? rnd(seed) % (most + 1) : odd[rnd(seed) % COUNT(odd)];
}

static int bufs[4] = { -1, -1, -1, -1 }; /* dma-bufs, where there is an exporter */

static u32 arena(u64 *seed)
{
	return rnd(seed) % 2 ? 1 + rnd(seed) % 8 : number(seed, 64);
}

static u32 cache(u64 *seed)
{
	return number(seed, 2) | (rnd(seed) % 2 ? 0 : arena(seed) << 8);
}

static const struct {
	u32 op, size;
} ops[] = {
	{ KVSLAB_CMD_CACHE, sizeof(struct kvslab_args_cache) },
	{ KVSLAB_CMD_ALLOC, sizeof(struct kvslab_args_alloc) },
	{ KVSLAB_CMD_ALLOC, sizeof(struct kvslab_args_alloc) },
	{ KVSLAB_CMD_ALLOC, sizeof(struct kvslab_args_alloc) },
	{ KVSLAB_CMD_FREE, sizeof(struct kvslab_args_pages) },
	{ KVSLAB_CMD_FREE, sizeof(struct kvslab_args_pages) },
	{ KVSLAB_CMD_GET, sizeof(struct kvslab_args_pages) },
	{ KVSLAB_CMD_SEAL, sizeof(struct kvslab_args_seal) },
	{ KVSLAB_CMD_SEAL, sizeof(struct kvslab_args_seal) },
	{ KVSLAB_CMD_LOOKUP, sizeof(struct kvslab_args_lookup) },
	{ KVSLAB_CMD_STAT, sizeof(struct kvslab_args_stat) },
	{ KVSLAB_CMD_SLABS, sizeof(struct kvslab_args_slabs) },
	{ KVSLAB_CMD_EXPORT, sizeof(struct kvslab_args_export) },
	{ KVSLAB_CMD_EVENTS, sizeof(struct kvslab_args_events) },
	{ KVSLAB_CMD_IMPORT, sizeof(struct kvslab_args_import) },
	{ KVSLAB_CMD_DEPOSIT, sizeof(struct kvslab_args_deposit) },
	{ KVSLAB_CMD_RECEIVE, sizeof(struct kvslab_args_receive) },
	{ KVSLAB_CMD_NOP, 0 },
};

static void arguments(u32 op, u64 *seed)
{
	u32 n = rnd(seed) % 8 ? rnd(seed) % 16 : number(seed, 1024), i;

	memset(m->args, 0, sizeof(m->args));
	switch (op) {
	case KVSLAB_CMD_CACHE: {
		struct kvslab_args_cache *a = (void *)m->args;

		a->page_size = rnd(seed) % 4 ? SIZE << rnd(seed) % 6 : number(seed, 1 << 22);
		a->flags = rnd(seed) % 8 ? 0 : number(seed, 3);
		a->slabs = a->flags ? number(seed, 2) : 0;
		a->tier = rnd(seed) % 4 ? rnd(seed) % 2 : number(seed, 3);
		a->arena = arena(seed);
		break;
	}
	case KVSLAB_CMD_ALLOC: {
		struct kvslab_args_alloc *a = (void *)m->args;

		a->pages = pointer(seed, m->pages);
		a->count = n;
		a->cache = cache(seed);
		a->flags = rnd(seed) % 4 ? 1 : number(seed, 3);
		break;
	}
	case KVSLAB_CMD_FREE:
	case KVSLAB_CMD_GET: {
		struct kvslab_args_pages *a = (void *)m->args;

		for (i = 0; i < 16; i++)
			m->pages[i] = handle(seed);
		a->pages = pointer(seed, m->pages);
		a->count = rnd(seed) % 2 ? 1 : n;
		break;
	}
	case KVSLAB_CMD_SEAL: {
		struct kvslab_args_seal *a = (void *)m->args;

		for (i = 0; i < 16; i++) {
			m->seals[i] = (struct kvslab_seal_entry){ .page = handle(seed), .depth = number(seed, 100),
								  .priority = rnd(seed) % 9,
								  .flags = rnd(seed) % 8 ? 1 : rnd(seed),
								  .reserved = rnd(seed) % 16 == 0 };
			ks_hash(m->seals[i].hash, rnd(seed) % 64, 3);
			ks_hash(m->seals[i].parent, rnd(seed) % 64, 3);
		}
		a->seals = pointer(seed, m->seals);
		a->count = rnd(seed) % 2 ? 1 : n;
		break;
	}
	case KVSLAB_CMD_LOOKUP: {
		struct kvslab_args_lookup *a = (void *)m->args;

		for (i = 0; i < 64; i++)
			ks_hash(m->hashes[i], rnd(seed) % 64, 3);
		a->hashes = pointer(seed, m->hashes);
		a->pages = pointer(seed, m->pages);
		a->count = n;
		a->cache = cache(seed);
		break;
	}
	case KVSLAB_CMD_STAT: {
		struct kvslab_args_stat *a = (void *)m->args;

		a->caches = pointer(seed, m->out);
		a->clients = pointer(seed, m->out);
		a->nr_caches = number(seed, 20);
		a->nr_clients = number(seed, 20);
		a->arenas = pointer(seed, m->out);
		a->nr_arenas = number(seed, 64);
		break;
	}
	case KVSLAB_CMD_SLABS: {
		struct kvslab_args_slabs *a = (void *)m->args;

		a->slabs = pointer(seed, m->out);
		a->from = number(seed, 10);
		a->count = number(seed, 64);
		a->arena = arena(seed);
		break;
	}
	case KVSLAB_CMD_IMPORT: {
		struct kvslab_args_import *a = (void *)m->args;

		a->fd = rnd(seed) % 4 ? bufs[rnd(seed) % COUNT(bufs)] : (int)number(seed, 20);
		a->tier = rnd(seed) % 8 ? KVSLAB_TIER_DEVICE : number(seed, 3);
		break;
	}
	case KVSLAB_CMD_DEPOSIT: {
		struct kvslab_args_deposit *a = (void *)m->args;

		a->fd = rnd(seed) % 4 ? bufs[rnd(seed) % COUNT(bufs)] : (int)number(seed, 20);
		a->arena = arena(seed);
		break;
	}
	case KVSLAB_CMD_RECEIVE: {
		struct kvslab_args_receive *a = (void *)m->args;

		a->arena = arena(seed);
		a->flags = rnd(seed) % 2;
		break;
	}
	case KVSLAB_CMD_EXPORT: {
		struct kvslab_args_export *a = (void *)m->args;

		a->cache = number(seed, 4);
		a->extent = number(seed, 10);
		a->flags = number(seed, 1);
		break;
	}
	}
	if (rnd(seed) % 32 == 0)
		m->args[rnd(seed) % 128] ^= 1 << rnd(seed) % 8;
}

static void *calls(void *arg)
{
	u64 seed = *(u64 *)arg, n = 0, good = 0;
	u32 number_of = *(u64 *)arg % CLIENTS;

	while (!sh->end) {
		u32 i = rnd(&seed) % COUNT(ops);
		struct kvslab_cmd cmd = { .size = ops[i].size };
		u32 op = rnd(&seed) % 64 ? ops[i].op : ops[i].op ^ 1u << rnd(&seed) % 32;
		long r;

		arguments(ops[i].op, &seed);
		cmd.args = pointer(&seed, m->args);
		if (rnd(&seed) % 32 == 0)
			cmd.size = number(&seed, 300);
		if (rnd(&seed) % 64 == 0)
			cmd.flags = rnd(&seed);
		r = rnd(&seed) % 4 ? ks_ioctl(k.fd, op, &cmd) : ks_ring(k.fd, op, &cmd);
		n++;
		if (r >= 0) {
			good++;
			if (ops[i].op == KVSLAB_CMD_ALLOC || ops[i].op == KVSLAB_CMD_LOOKUP)
				known[rnd(&seed) % KNOWN] = m->pages[r ? rnd(&seed) % (r > 1024 ? 1 : r) : 0];
			if ((ops[i].op == KVSLAB_CMD_EXPORT || ops[i].op == KVSLAB_CMD_RECEIVE) && op == ops[i].op)
				close(r);
		}
		/* Touch what is there, so that pages are mapped and zapped. */
		ks_write(ks_at(&k, k.w, known[rnd(&seed) % KNOWN]), 1);
	}
	__sync_fetch_and_add(&sh->calls[number_of], n);
	__sync_fetch_and_add(&sh->good[number_of], good);
	return NULL;
}

static void *changes(void *arg)
{
	u64 seed = *(u64 *)arg ^ 77;

	while (!sh->end) {
		m->args[rnd(&seed) % 48] = rnd(&seed);
		m->pages[rnd(&seed) % 16] = handle(&seed);
		((u8 *)m->seals)[rnd(&seed) % 1024] ^= 1;
		if (rnd(&seed) % 16 == 0)
			sched_yield();
	}
	return NULL;
}

static int client(void *arg)
{
	size_t size = (sizeof(*m) + FRAME - 1) / FRAME * FRAME;
	pthread_t t[3];
	char *at;
	int i;

	/* Behind it lies nothing that a call could write to, such as what the threads share. */
	at = mmap(NULL, size + FRAME, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED || mprotect(at + size, FRAME, PROT_NONE))
		return 4;
	m = (void *)(at + size - sizeof(*m));
	if (ks_client(&k, "fuzzed", SIZE))
		return 1;
	/* One that has exported could not import: so there is an arena from the beginning. */
	for (i = 0; i < (int)COUNT(bufs) && !dev_exporter(); i++)
		bufs[i] = dev_buf(EXTENT << i, -1);
	if (bufs[0] >= 0 && dev_import(k.fd, bufs[0], "fuzzed") < 0)
		return 3;
	for (i = 0; i < 3; i++)
		if (pthread_create(&t[i], NULL, i < 2 ? calls : changes, arg))
			return 2;
	for (i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	ks_close(&k);
	return 0;
}

static bool alone(void *arg)
{
	struct kvslab_stat_pool s;

	return !ks_stat(*(int *)arg, &s) && s.clients == 1;
}

int main(int argc, char **argv)
{
	u64 seed = ks_seed(argc, argv), calls_made = 0, good_made = 0;
	const char *given = getenv("KVSLAB_SECONDS");
	double seconds = given ? atof(given) : ks_long() ? 1800 : 120;
	struct kvslab_stat_pool s;
	struct ks_client own;
	u32 i;

	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(!dev_pool("fuzzed", 16 << 20, 32 << 20) && !ks_client(&own, "fuzzed", SIZE), "a pool, a client");
	must(ks_alloc(own.fd, own.c.id, kept, COUNT(kept), 0) == COUNT(kept), "pages");
	for (i = 0; i < COUNT(kept); i++) {
		ks_fill(ks_at(&own, own.w, kept[i]), SIZE, i);
		if (i % 2)
			must(ks_seal_one(own.fd, &kept[i], i, ~0ull) >= 0, "sealed");
	}
	{
		u64 seeds[CLIENTS];
		pid_t pid[CLIENTS];
		int bad = 0;

		for (i = 0; i < CLIENTS; i++) {
			seeds[i] = rnd(&seed) / CLIENTS * CLIENTS + i;
			pid[i] = ks_child(client, &seeds[i]);
		}
		usleep(seconds * 1e6);
		sh->end = 1;
		for (i = 0; i < CLIENTS; i++) {
			int r = ks_wait(pid[i]);

			if (r)
				note("client %u ended with %d", i, r);
			bad |= r;
			calls_made += sh->calls[i];
			good_made += sh->good[i];
		}
		ok(!bad, "the clients come to their end");
	}
	note("%llu calls, %llu succeeded", (unsigned long long)calls_made, (unsigned long long)good_made);
	ok(calls_made > 1000 && good_made > calls_made / 20, "there were calls, and some were right");
	ok(ks_until(alone, &own.fd, 20), "they are gone");
	ok(!ks_stat(own.fd, &s) && s.private_pages == COUNT(kept) / 2 && s.sealed == COUNT(kept) / 2,
	   "with all that they held: %llu private, %llu sealed", (unsigned long long)s.private_pages,
	   (unsigned long long)s.sealed);
	ok(ks_adds_up(own.fd), "counts add up");
	for (s.dead = 0, i = 0; i < COUNT(kept); i++)
		s.dead += !ks_filled(ks_at(&own, own.r, kept[i]), SIZE, i);
	ok(!s.dead, "the pages of a client that kept quiet are what they were");
	ks_close(&own);
	if (!dev_exporter()) {
		ok(dev_count().alive == 0 && dev_count().asked == 0, "no dma-buf is left, and none was touched");
		ok(!dev_exporter_gone(), "the exporter can go");
	}
	return done();
}
