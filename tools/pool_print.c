// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* A pool for people and for programs. */
#include <grp.h>
#include <pwd.h>
#include <string.h>

#include "msg.h"
#include "pool.h"

static unsigned long long mib(uint64_t extents)
{
	return (unsigned long long)extents * POOL_EXTENT_MIB;
}

static double share(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static double slab_bytes(const struct kvslab_stat_pool *p)
{
	uint64_t waste = p->free_bytes + p->tail_bytes + p->quarantined_bytes;
	uint64_t bytes = p->slabs * KVSLAB_CMD_EXTENT;

	/* It is counted while others go on: a slab may have left in between. */
	return (double)(bytes > waste ? bytes : waste);
}

static double fragment(const struct kvslab_stat_pool *p, uint64_t bytes)
{
	double all = slab_bytes(p);

	return all > 0 ? (double)bytes / all : 0;
}

static void owner_of(const struct kvslab_stat_pool *p, char *s, size_t n)
{
	const struct passwd *pw = getpwuid(p->uid);
	const struct group *gr = getgrgid(p->gid);
	char user[32], group[32];

	snprintf(user, sizeof(user), "%u", p->uid);
	snprintf(group, sizeof(group), "%u", p->gid);
	snprintf(s, n, "%s:%s", pw ? pw->pw_name : user, gr ? gr->gr_name : group);
}

void pool_print_line(const struct pool_view *v, bool head)
{
	const struct kvslab_stat_pool *p = &v->pool;
	char owner[80];

	owner_of(p, owner, sizeof(owner));
	if (head)
		out_text("%-20s %-16s %4s %12s %9s %9s %9s %8s\n", "POOL", "OWNER", "MODE", "GUARANTEED", "LIMIT", "HELD",
			 "CACHED", "CLIENTS");
	out_text("%-20s %-16s %04o %8llu MiB %5llu MiB %5llu MiB %9llu %8u%s\n", p->name, owner, p->mode, mib(p->min),
		 mib(p->max), mib(p->held), (unsigned long long)p->cached, p->clients, p->dead ? "  destroyed" : "");
}

static void print_sizes(const struct kvslab_stat_pool *p)
{
	out_text("  %-12s %10s %10s\n", "", "extents", "MiB");
	out_text("  %-12s %10llu %10llu\n", "guaranteed", (unsigned long long)p->min, mib(p->min));
	out_text("  %-12s %10llu %10llu   pressure above %llu, relief at %llu\n", "limit", (unsigned long long)p->max,
		 mib(p->max), (unsigned long long)p->high, (unsigned long long)p->low);
	out_text("  %-12s %10llu %10llu   %.1f%% of the limit\n", "held", (unsigned long long)p->held, mib(p->held),
		 share(p->held, p->max));
	out_text("  %-12s %10llu %10llu   with what is only cached\n", "occupied", (unsigned long long)p->slabs,
		 mib(p->slabs));
	out_text("  %-12s %10llu %10llu   of %llu MiB\n", "arena, free", (unsigned long long)p->arena_free,
		 mib(p->arena_free), mib(p->arena_extents));
}

static void print_row(const char *name, const uint64_t n[6])
{
	out_text("  %-12s %10llu %10llu %10llu %10llu %10llu %12llu\n", name, (unsigned long long)n[0],
		 (unsigned long long)n[1], (unsigned long long)n[2], (unsigned long long)n[3], (unsigned long long)n[4],
		 (unsigned long long)n[5]);
}

static void print_pages(const struct pool_view *v)
{
	const struct kvslab_stat_pool *p = &v->pool;
	const uint64_t all[] = { p->private_pages, p->sealed, p->cached, p->free, p->moving, p->quarantined };
	char name[40];
	uint32_t i;

	out_text("\n  %-12s %10s %10s %10s %10s %10s %12s\n", "pages", "private", "sealed", "cached", "free", "moving",
		 "quarantined");
	for (i = 0; i < v->nr_caches; i++) {
		const struct kvslab_stat_cache *c = &v->caches[i];
		const uint64_t n[] = { c->private_pages, c->sealed, c->cached, c->free, c->moving, c->quarantined };

		snprintf(name, sizeof(name), "%u KiB%s", c->page_size >> 10,
			 c->flags & KVSLAB_CACHE_PINNED ? " pinned" : "");
		print_row(name, n);
	}
	if (v->nr_caches != 1)
		print_row("all", all);
	if (p->adrift)
		out_text("  %llu more are adrift: their extent left the pool while a device held them\n",
			 (unsigned long long)p->adrift);
	out_text("\n  fragmentation %.1f%%: %.1f%% free pages of partly used slabs, %.1f%% tails, %.1f%% quarantine\n",
		 100 * fragment(p, p->free_bytes + p->tail_bytes + p->quarantined_bytes),
		 100 * fragment(p, p->free_bytes), 100 * fragment(p, p->tail_bytes),
		 100 * fragment(p, p->quarantined_bytes));
}

static void print_clients(const struct pool_view *v)
{
	uint32_t i;
	char pid[16];

	if (!v->details)
		return;
	if (!v->nr_clients) {
		out_text("\n  no clients\n");
		return;
	}
	out_text("\n  %-8s %8s  %-16s %10s %12s %8s %10s\n", "client", "pid", "command", "private", "references",
		 "slabs", "MiB");
	for (i = 0; i < v->nr_clients; i++) {
		const struct kvslab_stat_client *c = &v->clients[i];

		snprintf(pid, sizeof(pid), "%d", c->pid);
		out_text("  %-8u %8s  %-16.16s %10llu %12llu %8llu %10.1f\n", c->id, c->pid ? pid : "elsewhere", c->comm,
			 (unsigned long long)c->private_pages, (unsigned long long)c->references,
			 (unsigned long long)c->slabs, (double)c->held_bytes / (1 << 20));
	}
}

static void print_arenas(const struct pool_view *v)
{
	uint32_t i;

	if (!v->device_max)
		return;
	out_text("\n  device memory: %llu of %llu MiB\n", (unsigned long long)(v->device_size >> 20),
		 (unsigned long long)(v->device_max >> 20));
	for (i = 0; i < v->nr_arenas; i++) {
		const struct kvslab_stat_arena *a = &v->arenas[i];

		out_text("  arena %u, of client %u: %llu MiB, %llu in use; pages: %llu free, %llu private, %llu sealed, %llu "
			 "cached%s\n", a->arena, a->client, (unsigned long long)(a->size >> 20), mib(a->slabs),
			 (unsigned long long)a->free, (unsigned long long)a->private_pages, (unsigned long long)a->sealed,
			 (unsigned long long)a->cached, a->flags & KVSLAB_ARENA_DEPOSIT ? "" : "; no file was deposited");
	}
}

static void print_counts(const struct kvslab_stat_pool *p)
{
	out_text("\n  since it was made: %llu pages allocated, %llu given back, %llu sealed (%llu were there already)\n",
		 (unsigned long long)p->allocs, (unsigned long long)p->frees, (unsigned long long)p->seals,
		 (unsigned long long)p->seal_duplicates);
	out_text("    %llu of %llu pages that were looked for found (%.1f%%), in %llu lookups\n",
		 (unsigned long long)p->lookup_hits, (unsigned long long)p->lookup_asked,
		 share(p->lookup_hits, p->lookup_asked), (unsigned long long)p->lookups);
	out_text("    %llu pages evicted, %llu slabs taken over, %llu extents given back to the system, %llu times no "
		 "room\n", (unsigned long long)p->evictions, (unsigned long long)p->takeovers,
		 (unsigned long long)p->reclaimed, (unsigned long long)p->failed);
}

void pool_print(const struct pool_view *v)
{
	const struct kvslab_stat_pool *p = &v->pool;
	char owner[80], node[40] = "any NUMA node";

	owner_of(p, owner, sizeof(owner));
	if (p->node >= 0)
		snprintf(node, sizeof(node), "NUMA node %d", p->node);
	out_text("%s: " POOL_FOLDER "/%s, id %u, owner %s, mode %04o, %s, %u clients%s\n", p->name, p->name, p->id, owner,
		 p->mode, node, p->clients, p->dead ? ", destroyed" : "");
	print_sizes(p);
	print_pages(v);
	print_clients(v);
	print_arenas(v);
	print_counts(p);
}

static json_t *number(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static json_t *caches_json(const struct pool_view *v)
{
	json_t *list = json_array();
	uint32_t i;

	for (i = 0; i < v->nr_caches; i++) {
		const struct kvslab_stat_cache *c = &v->caches[i];

		json_array_append_new(list, json_pack("{s:I, s:I, s:I, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "id",
			(json_int_t)c->id, "page_size", (json_int_t)c->page_size, "pages_per_slab",
			(json_int_t)c->pages_per_slab, "pinned", (c->flags & KVSLAB_CACHE_PINNED) != 0, "slabs",
			number(c->slabs), "free", number(c->free), "private", number(c->private_pages), "moving",
			number(c->moving), "sealed", number(c->sealed), "cached", number(c->cached), "quarantined",
			number(c->quarantined)));
	}
	return list;
}

static json_t *clients_json(const struct pool_view *v)
{
	json_t *list = json_array();
	uint32_t i;

	for (i = 0; i < v->nr_clients; i++) {
		const struct kvslab_stat_client *c = &v->clients[i];

		json_array_append_new(list, json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "id", (json_int_t)c->id,
			"pid", (json_int_t)c->pid, "command", json_bytes(c->comm, strnlen(c->comm, sizeof(c->comm))),
			"private", number(c->private_pages), "references", number(c->references), "slabs",
			number(c->slabs), "held_bytes", number(c->held_bytes)));
	}
	return list;
}

static json_t *arenas_json(const struct pool_view *v)
{
	json_t *list = json_array();
	uint32_t i;

	for (i = 0; i < v->nr_arenas; i++) {
		const struct kvslab_stat_arena *a = &v->arenas[i];

		json_array_append_new(list, json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "arena",
			(json_int_t)a->arena, "client", (json_int_t)a->client, "size", number(a->size), "slabs",
			number(a->slabs), "free", number(a->free), "private", number(a->private_pages), "sealed",
			number(a->sealed), "cached", number(a->cached), "deposit", (a->flags & KVSLAB_ARENA_DEPOSIT) != 0));
	}
	return list;
}

json_t *pool_json(const struct pool_view *v)
{
	const struct kvslab_stat_pool *p = &v->pool;
	json_t *j = json_pack(
		"{s:s, s:I, s:I, s:I, s:I, s:i, s:b, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I}", "name", p->name,
		"id", (json_int_t)p->id, "uid", (json_int_t)p->uid, "gid", (json_int_t)p->gid, "mode", (json_int_t)p->mode,
		"numa", p->node, "dead", p->dead != 0, "clients", (json_int_t)p->clients, "min", number(p->min), "max",
		number(p->max), "low", number(p->low), "high", number(p->high), "held", number(p->held), "slabs",
		number(p->slabs), "arena_extents", number(p->arena_extents), "arena_free", number(p->arena_free),
		"extent_bytes", (json_int_t)KVSLAB_CMD_EXTENT);

	if (!j)
		return NULL;
	json_object_set_new(j, "pages", json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "private",
		number(p->private_pages), "sealed", number(p->sealed), "cached", number(p->cached), "free",
		number(p->free), "moving", number(p->moving), "quarantined", number(p->quarantined), "adrift",
		number(p->adrift)));
	json_object_set_new(j, "fragmentation", json_pack("{s:o, s:o, s:o}", "partial",
		json_number(fragment(p, p->free_bytes)), "tail", json_number(fragment(p, p->tail_bytes)), "quarantine",
		json_number(fragment(p, p->quarantined_bytes))));
	json_object_set_new(j, "counts", json_pack(
		"{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "allocs", number(p->allocs), "frees",
		number(p->frees), "seals", number(p->seals), "seal_duplicates", number(p->seal_duplicates), "lookups",
		number(p->lookups), "lookup_asked", number(p->lookup_asked), "lookup_hits", number(p->lookup_hits),
		"evictions", number(p->evictions), "takeovers", number(p->takeovers), "reclaimed", number(p->reclaimed),
		"failed", number(p->failed)));
	if (v->details) {
		json_object_set_new(j, "caches", caches_json(v));
		json_object_set_new(j, "client_list", clients_json(v));
		json_object_set_new(j, "device", json_pack("{s:o, s:o, s:o}", "max", number(v->device_max), "size",
			number(v->device_size), "arenas", arenas_json(v)));
	}
	return j;
}
