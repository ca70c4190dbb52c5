// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* What STAT says of each pool. A family's samples stand together, so all pools are read first. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export.h"
#include "pool.h"

#define EXTENT ((double)KVSLAB_CMD_EXTENT)

struct pools {
	struct pool_view *v;
	size_t n, refused; /* refused: those that may not be opened */
};

static int read_all(struct pools *all)
{
	char **names = pool_names();
	size_t n = 0, i;
	int err = 0;

	while (names && names[n])
		n++;
	all->v = calloc(n + 1, sizeof(*all->v));
	if (!all->v)
		err = -ENOMEM;
	for (i = 0; i < n && !err; i++) {
		err = pool_read(&all->v[all->n], names[i], false);
		if (!err) {
			all->n++;
			continue;
		}
		pool_view_free(&all->v[all->n]);
		all->refused += err == -EACCES || err == -EPERM;
		/* others ended meanwhile */
		err = err == -ENOMEM ? err : 0;
	}
	pool_names_free(names);
	return err;
}

static void free_all(struct pools *all)
{
	while (all->n)
		pool_view_free(&all->v[--all->n]);
	free(all->v);
}

/* One sample a pool: @of a structure, a u64 at @at, times @unit. */
static void each(struct prom *p, const struct pools *all, const char *name, const char *type, const char *help, size_t at,
		 double unit)
{
	uint64_t value;
	size_t i;

	prom_family(p, name, type, help);
	for (i = 0; i < all->n; i++) {
		memcpy(&value, (const char *)&all->v[i].pool + at, sizeof(value));
		prom_value(p, (struct prom_label[]){ { "pool", all->v[i].pool.name }, { 0 } }, (double)value * unit);
	}
}

#define EACH(name, type, member, unit, help) \
	each(p, all, "kvslab_" name, type, help, offsetof(struct kvslab_stat_pool, member), unit)

static void sizes(struct prom *p, const struct pools *all)
{
	size_t i;

	EACH("pool_guaranteed_bytes", "gauge", min, EXTENT, "What the pool is guaranteed.");
	EACH("pool_limit_bytes", "gauge", max, EXTENT, "What it may hold.");
	EACH("pool_held_bytes", "gauge", held, EXTENT, "Extents with a page that somebody holds; they count against the limit.");
	EACH("pool_occupied_bytes", "gauge", slabs, EXTENT, "Its slabs, with what is only cached.");
	EACH("arena_bytes", "gauge", arena_extents, EXTENT, "The arena of host memory, which all pools share.");
	EACH("arena_free_bytes", "gauge", arena_free, EXTENT, "What of it no pool has.");
	prom_family(p, "kvslab_pool_clients", "gauge", "Open descriptors of the pool, without the exporter's.");
	for (i = 0; i < all->n; i++)
		prom_value(p, (struct prom_label[]){ { "pool", all->v[i].pool.name }, { 0 } }, all->v[i].pool.clients);
}

static void counts(struct prom *p, const struct pools *all)
{
	EACH("page_allocations_total", "counter", allocs, 1, "Pages allocated.");
	EACH("page_frees_total", "counter", frees, 1, "Pages and references given back.");
	EACH("page_seals_total", "counter", seals, 1, "Pages sealed, duplicates among them.");
	EACH("page_seal_duplicates_total", "counter", seal_duplicates, 1, "Seals whose content was there already.");
	EACH("lookups_total", "counter", lookups, 1, "LOOKUPs.");
	EACH("lookup_asked_pages_total", "counter", lookup_asked, 1, "Pages that were looked for.");
	EACH("lookup_hit_pages_total", "counter", lookup_hits, 1, "Pages that were found.");
	EACH("page_evictions_total", "counter", evictions, 1, "Cached pages whose memory was taken.");
	EACH("slab_takeovers_total", "counter", takeovers, 1, "Slabs that another client went on with.");
	EACH("reclaimed_bytes_total", "counter", reclaimed, EXTENT, "Memory given back because the system asked.");
	EACH("allocations_refused_total", "counter", failed, 1, "ALLOCs refused for want of room.");
}

static void pages_of(struct prom *p, const char *pool, const struct kvslab_stat_cache *c)
{
	const struct {
		const char *state;
		uint64_t n;
	} states[] = { { "free", c->free },	{ "private", c->private_pages }, { "moving", c->moving },
		       { "sealed", c->sealed }, { "cached", c->cached },	 { "quarantined", c->quarantined } };
	char id[12], size[12];
	size_t i;

	snprintf(id, sizeof(id), "%u", c->id);
	snprintf(size, sizeof(size), "%u", c->page_size);
	for (i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		prom_value(p, (struct prom_label[]){ { "pool", pool }, { "cache", id }, { "page_bytes", size },
						     { "state", states[i].state }, { 0 } },
			   (double)states[i].n);
}

static void pages(struct prom *p, const struct pools *all)
{
	const struct pool_view *v;
	uint32_t k;
	size_t i;

	prom_family(p, "kvslab_pages", "gauge", "Pages in slabs, by state.");
	for (i = 0; i < all->n; i++)
		for (v = &all->v[i], k = 0; k < v->nr_caches; k++)
			pages_of(p, v->pool.name, &v->caches[k]);
	prom_family(p, "kvslab_wasted_bytes", "gauge",
		    "Bytes of slabs that hold nothing: free pages of partly used ones, tails, quarantine.");
	for (i = 0; i < all->n; i++) {
		const struct kvslab_stat_pool *s = &all->v[i].pool;

		prom_value(p, (struct prom_label[]){ { "pool", s->name }, { "kind", "partial" }, { 0 } }, (double)s->free_bytes);
		prom_value(p, (struct prom_label[]){ { "pool", s->name }, { "kind", "tail" }, { 0 } }, (double)s->tail_bytes);
		prom_value(p, (struct prom_label[]){ { "pool", s->name }, { "kind", "quarantine" }, { 0 } },
			   (double)s->quarantined_bytes);
	}
}

/* Values of a client; @which: 0 bytes, 1 references. */
static void clients_of(struct prom *p, const struct pools *all, int which)
{
	char id[12], pid[12], comm[17];
	uint32_t k;
	size_t i;

	for (i = 0; i < all->n; i++)
		for (k = 0; k < all->v[i].nr_clients; k++) {
			const struct kvslab_stat_client *c = &all->v[i].clients[k];

			snprintf(id, sizeof(id), "%u", c->id);
			snprintf(pid, sizeof(pid), "%d", c->pid);
			snprintf(comm, sizeof(comm), "%.16s", c->comm);
			prom_value(p, (struct prom_label[]){ { "pool", all->v[i].pool.name }, { "client", id }, { "pid", pid },
							     { "command", comm }, { 0 } },
				   (double)(which ? c->references : c->held_bytes));
		}
}

static void device(struct prom *p, const struct pools *all)
{
	char id[12];
	uint32_t k;
	size_t i;

	prom_family(p, "kvslab_device_limit_bytes", "gauge", "Device memory that clients may bring into the pool.");
	for (i = 0; i < all->n; i++)
		prom_value(p, (struct prom_label[]){ { "pool", all->v[i].pool.name }, { 0 } }, (double)all->v[i].device_max);
	prom_family(p, "kvslab_device_bytes", "gauge", "Device memory in the pool, by arena.");
	for (i = 0; i < all->n; i++)
		for (k = 0; k < all->v[i].nr_arenas; k++) {
			snprintf(id, sizeof(id), "%u", all->v[i].arenas[k].arena);
			prom_value(p, (struct prom_label[]){ { "pool", all->v[i].pool.name }, { "arena", id }, { 0 } },
				   (double)all->v[i].arenas[k].size);
		}
}

int export_stat(struct prom *p)
{
	struct pools pools = { 0 }, *all = &pools;
	int err = read_all(all);

	if (err)
		goto out;
	sizes(p, all);
	pages(p, all);
	prom_family(p, "kvslab_client_private_bytes", "gauge", "Private pages of a client; pid 0: of another pid namespace.");
	clients_of(p, all, 0);
	prom_family(p, "kvslab_client_references", "gauge", "References to sealed pages.");
	clients_of(p, all, 1);
	counts(p, all);
	device(p, all);
	prom_family(p, "kvslab_pools", "gauge", "Pools that are told of here, and those that the exporter may not open.");
	prom_value(p, (struct prom_label[]){ { "readable", "yes" }, { 0 } }, (double)all->n);
	prom_value(p, (struct prom_label[]){ { "readable", "no" }, { 0 } }, (double)all->refused);
out:
	free_all(all);
	return err;
}
