/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints: the stable interface for whoever asks where the memory goes. Each argument is a
 * scalar of fixed size, so that a raw_tp program needs neither BTF of the module nor a check for
 * NULL; the arguments below are those of the program, in this order, and only ever grow at the end.
 *
 *   pool, client    ids, as CACHE returns them; client 0: nobody
 *   cache, size     the cache's id, bytes of its pages
 *   page            a handle, generation included: two lives of a page are two handles
 *   tag             the first eight bytes of a hash
 *   extent          number of the extent in the host's arena
 *   command         its number, the last byte of KVSLAB_CMD_* and KVSLAB_CTL_* (uapi/kvslab.h)
 *
 * They fire under locks of the allocator, so nothing attached here may sleep.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM kvslab

#if !defined(_KVSLAB_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _KVSLAB_TRACE_H

#include <linux/tracepoint.h>

/*
 * A command that is known at its node begins; before anything of it was looked at. how 0: as an
 * ioctl; 1: as an io_uring command, in whose place it may not sleep; 2: as one, in a worker. The
 * control node's commands have pool and client 0. Between begin and end a thread has no other one.
 */
TRACE_EVENT(kvslab_command_begin,
	TP_PROTO(u32 pool, u32 client, u32 command, u32 how),
	TP_ARGS(pool, client, command, how),
	TP_STRUCT__entry(
		__field(u32, pool)
		__field(u32, client)
		__field(u32, command)
		__field(u32, how)
	),
	TP_fast_assign(
		__entry->pool = pool;
		__entry->client = client;
		__entry->command = command;
		__entry->how = how;
	),
	TP_printk("pool=%u client=%u command=%#x how=%s", __entry->pool, __entry->client,
		  __entry->command, __print_symbolic(__entry->how, { 0, "ioctl" }, { 1, "ring" },
						     { 2, "worker" }))
);

/*
 * It ends: result is what its caller gets, a count or a negative errno. Only EAGAIN after how 1 is
 * no answer: the same command begins once more in a worker.
 */
TRACE_EVENT(kvslab_command_end,
	TP_PROTO(u32 pool, u32 client, u32 command, u32 how, s64 result),
	TP_ARGS(pool, client, command, how, result),
	TP_STRUCT__entry(
		__field(u32, pool)
		__field(u32, client)
		__field(u32, command)
		__field(u32, how)
		__field(s64, result)
	),
	TP_fast_assign(
		__entry->pool = pool;
		__entry->client = client;
		__entry->command = command;
		__entry->how = how;
		__entry->result = result;
	),
	TP_printk("pool=%u client=%u command=%#x how=%s result=%lld", __entry->pool,
		  __entry->client, __entry->command,
		  __print_symbolic(__entry->how, { 0, "ioctl" }, { 1, "ring" }, { 2, "worker" }),
		  __entry->result)
);

/* A page is private to a client. An ALLOC that fails in the middle has both, alloc and free. */
TRACE_EVENT(kvslab_page_alloc,
	TP_PROTO(u32 pool, u32 client, u32 cache, u32 size, u64 page),
	TP_ARGS(pool, client, cache, size, page),
	TP_STRUCT__entry(
		__field(u32, pool)
		__field(u32, client)
		__field(u32, cache)
		__field(u32, size)
		__field(u64, page)
	),
	TP_fast_assign(
		__entry->pool = pool;
		__entry->client = client;
		__entry->cache = cache;
		__entry->size = size;
		__entry->page = page;
	),
	TP_printk("pool=%u client=%u cache=%u size=%u page=%#llx", __entry->pool, __entry->client,
		  __entry->cache, __entry->size, __entry->page)
);

/*
 * left 0: a private page is free. 1: references to a sealed page went; refs of all clients remain,
 * and at 0 it is cached. 2: a private page is free because its seal found the hash there.
 */
TRACE_EVENT(kvslab_page_free,
	TP_PROTO(u32 pool, u32 client, u32 cache, u32 size, u64 page, u32 left, u32 refs),
	TP_ARGS(pool, client, cache, size, page, left, refs),
	TP_STRUCT__entry(
		__field(u32, pool)
		__field(u32, client)
		__field(u32, cache)
		__field(u32, size)
		__field(u64, page)
		__field(u32, left)
		__field(u32, refs)
	),
	TP_fast_assign(
		__entry->pool = pool;
		__entry->client = client;
		__entry->cache = cache;
		__entry->size = size;
		__entry->page = page;
		__entry->left = left;
		__entry->refs = refs;
	),
	TP_printk("pool=%u client=%u cache=%u size=%u page=%#llx left=%s refs=%u", __entry->pool,
		  __entry->client, __entry->cache, __entry->size, __entry->page,
		  __print_symbolic(__entry->left, { 0, "private" }, { 1, "reference" },
				   { 2, "duplicate" }),
		  __entry->refs)
);

/*
 * The same as page_alloc and page_free, for up to 64 pages of one slab at once: for programs that
 * count, since an event for each page costs more than the page does. first: a handle with generation
 * 0, whose index is a multiple of 64; mask: bit i is the page i after it; count: bits in it.
 * References to one page that go in one command are told one by one; those of a client that ends,
 * however many to a page, as one.
 */
TRACE_EVENT(kvslab_pages_alloc,
	TP_PROTO(u32 pool, u32 client, u32 cache, u32 size, u64 first, u64 mask, u32 count),
	TP_ARGS(pool, client, cache, size, first, mask, count),
	TP_STRUCT__entry(
		__field(u32, pool)
		__field(u32, client)
		__field(u32, cache)
		__field(u32, size)
		__field(u64, first)
		__field(u64, mask)
		__field(u32, count)
	),
	TP_fast_assign(
		__entry->pool = pool;
		__entry->client = client;
		__entry->cache = cache;
		__entry->size = size;
		__entry->first = first;
		__entry->mask = mask;
		__entry->count = count;
	),
	TP_printk("pool=%u client=%u cache=%u size=%u first=%#llx mask=%#llx count=%u",
		  __entry->pool, __entry->client, __entry->cache, __entry->size, __entry->first,
		  __entry->mask, __entry->count)
);

TRACE_EVENT(kvslab_pages_free,
	TP_PROTO(u32 pool, u32 client, u32 cache, u32 size, u64 first, u64 mask, u32 count,
		 u32 left),
	TP_ARGS(pool, client, cache, size, first, mask, count, left),
	TP_STRUCT__entry(
		__field(u32, pool)
		__field(u32, client)
		__field(u32, cache)
		__field(u32, size)
		__field(u64, first)
		__field(u64, mask)
		__field(u32, count)
		__field(u32, left)
	),
	TP_fast_assign(
		__entry->pool = pool;
		__entry->client = client;
		__entry->cache = cache;
		__entry->size = size;
		__entry->first = first;
		__entry->mask = mask;
		__entry->count = count;
		__entry->left = left;
	),
	TP_printk("pool=%u client=%u cache=%u size=%u first=%#llx mask=%#llx count=%u left=%s",
		  __entry->pool, __entry->client, __entry->cache, __entry->size, __entry->first,
		  __entry->mask, __entry->count,
		  __print_symbolic(__entry->left, { 0, "private" }, { 1, "reference" },
				   { 2, "duplicate" }))
);

/* sealed: the page that has the hash now; page itself, unless the hash was there. */
TRACE_EVENT(kvslab_page_seal,
	TP_PROTO(u32 pool, u32 client, u32 cache, u32 size, u64 page, u64 sealed, u64 tag,
		 u32 depth, u32 priority),
	TP_ARGS(pool, client, cache, size, page, sealed, tag, depth, priority),
	TP_STRUCT__entry(
		__field(u32, pool)
		__field(u32, client)
		__field(u32, cache)
		__field(u32, size)
		__field(u64, page)
		__field(u64, sealed)
		__field(u64, tag)
		__field(u32, depth)
		__field(u32, priority)
	),
	TP_fast_assign(
		__entry->pool = pool;
		__entry->client = client;
		__entry->cache = cache;
		__entry->size = size;
		__entry->page = page;
		__entry->sealed = sealed;
		__entry->tag = tag;
		__entry->depth = depth;
		__entry->priority = priority;
	),
	TP_printk("pool=%u client=%u cache=%u size=%u page=%#llx sealed=%#llx tag=%#llx depth=%u priority=%u",
		  __entry->pool, __entry->client, __entry->cache, __entry->size, __entry->page,
		  __entry->sealed, __entry->tag, __entry->depth, __entry->priority)
);

/* found of asked hashes in a row; tag is that of the first one missing, 0 where none is. */
TRACE_EVENT(kvslab_lookup,
	TP_PROTO(u32 pool, u32 client, u32 cache, u32 asked, u32 found, u64 tag),
	TP_ARGS(pool, client, cache, asked, found, tag),
	TP_STRUCT__entry(
		__field(u32, pool)
		__field(u32, client)
		__field(u32, cache)
		__field(u32, asked)
		__field(u32, found)
		__field(u64, tag)
	),
	TP_fast_assign(
		__entry->pool = pool;
		__entry->client = client;
		__entry->cache = cache;
		__entry->asked = asked;
		__entry->found = found;
		__entry->tag = tag;
	),
	TP_printk("pool=%u client=%u cache=%u asked=%u found=%u tag=%#llx", __entry->pool,
		  __entry->client, __entry->cache, __entry->asked, __entry->found, __entry->tag)
);

/*
 * A client has one reference more to a sealed page, by LOOKUP (why 0) or GET (1). One by SEAL is
 * told by page_seal. refs: references of all clients, about, since others come and go meanwhile.
 */
TRACE_EVENT(kvslab_page_ref,
	TP_PROTO(u32 pool, u32 client, u32 cache, u32 size, u64 page, u32 why, u32 refs),
	TP_ARGS(pool, client, cache, size, page, why, refs),
	TP_STRUCT__entry(
		__field(u32, pool)
		__field(u32, client)
		__field(u32, cache)
		__field(u32, size)
		__field(u64, page)
		__field(u32, why)
		__field(u32, refs)
	),
	TP_fast_assign(
		__entry->pool = pool;
		__entry->client = client;
		__entry->cache = cache;
		__entry->size = size;
		__entry->page = page;
		__entry->why = why;
		__entry->refs = refs;
	),
	TP_printk("pool=%u client=%u cache=%u size=%u page=%#llx why=%s refs=%u", __entry->pool,
		  __entry->client, __entry->cache, __entry->size, __entry->page,
		  __print_symbolic(__entry->why, { 0, "lookup" }, { 1, "get" }), __entry->refs)
);

/* A GET of count pages is done; error: 0, or a negative errno, and then no reference was taken. */
TRACE_EVENT(kvslab_get,
	TP_PROTO(u32 pool, u32 client, u32 count, s32 error),
	TP_ARGS(pool, client, count, error),
	TP_STRUCT__entry(
		__field(u32, pool)
		__field(u32, client)
		__field(u32, count)
		__field(s32, error)
	),
	TP_fast_assign(
		__entry->pool = pool;
		__entry->client = client;
		__entry->count = count;
		__entry->error = error;
	),
	TP_printk("pool=%u client=%u count=%u error=%d", __entry->pool, __entry->client,
		  __entry->count, __entry->error)
);

/*
 * enters 1: a page is free, but some frame of it is pinned. 0: it is no more, and free to be used.
 * The handle is that of the page's next life, the same both times. A page whose slab goes meanwhile
 * is told by slab_free.
 */
TRACE_EVENT(kvslab_quarantine,
	TP_PROTO(u32 pool, u32 cache, u32 size, u64 page, u32 enters),
	TP_ARGS(pool, cache, size, page, enters),
	TP_STRUCT__entry(
		__field(u32, pool)
		__field(u32, cache)
		__field(u64, page)
		__field(u32, size)
		__field(u32, enters)
	),
	TP_fast_assign(
		__entry->pool = pool;
		__entry->cache = cache;
		__entry->page = page;
		__entry->size = size;
		__entry->enters = enters;
	),
	TP_printk("pool=%u cache=%u size=%u page=%#llx %s", __entry->pool, __entry->cache,
		  __entry->size, __entry->page, __entry->enters ? "enters" : "leaves")
);

/*
 * A cached page is lost. why 0: ALLOC wanted this page; 1: ALLOC wanted its slab; 2: the system
 * wanted memory; 3: its pool ended. age: commands that touched the index since it was used last.
 */
TRACE_EVENT(kvslab_evict,
	TP_PROTO(u32 pool, u32 cache, u32 size, u64 page, u32 why, u64 tag, u32 depth,
		 u32 priority, u64 age),
	TP_ARGS(pool, cache, size, page, why, tag, depth, priority, age),
	TP_STRUCT__entry(
		__field(u32, pool)
		__field(u32, cache)
		__field(u32, size)
		__field(u32, why)
		__field(u64, page)
		__field(u64, tag)
		__field(u64, age)
		__field(u32, depth)
		__field(u32, priority)
	),
	TP_fast_assign(
		__entry->pool = pool;
		__entry->cache = cache;
		__entry->size = size;
		__entry->why = why;
		__entry->page = page;
		__entry->tag = tag;
		__entry->age = age;
		__entry->depth = depth;
		__entry->priority = priority;
	),
	TP_printk("pool=%u cache=%u size=%u page=%#llx why=%s tag=%#llx depth=%u priority=%u age=%llu",
		  __entry->pool, __entry->cache, __entry->size, __entry->page,
		  __print_symbolic(__entry->why, { 0, "page" }, { 1, "slab" }, { 2, "reclaim" },
				   { 3, "end" }),
		  __entry->tag, __entry->depth, __entry->priority, __entry->age)
);

/* An extent becomes a slab of client, or of nobody in a pinned cache. */
TRACE_EVENT(kvslab_slab_new,
	TP_PROTO(u32 pool, u32 client, u32 cache, u32 size, u32 extent),
	TP_ARGS(pool, client, cache, size, extent),
	TP_STRUCT__entry(
		__field(u32, pool)
		__field(u32, client)
		__field(u32, cache)
		__field(u32, size)
		__field(u32, extent)
	),
	TP_fast_assign(
		__entry->pool = pool;
		__entry->client = client;
		__entry->cache = cache;
		__entry->size = size;
		__entry->extent = extent;
	),
	TP_printk("pool=%u client=%u cache=%u size=%u extent=%u", __entry->pool, __entry->client,
		  __entry->cache, __entry->size, __entry->extent)
);

/* It is one no more; cached and quarantined are pages that were lost with it. */
TRACE_EVENT(kvslab_slab_free,
	TP_PROTO(u32 pool, u32 cache, u32 size, u32 extent, u32 cached, u32 quarantined),
	TP_ARGS(pool, cache, size, extent, cached, quarantined),
	TP_STRUCT__entry(
		__field(u32, pool)
		__field(u32, cache)
		__field(u32, size)
		__field(u32, extent)
		__field(u32, cached)
		__field(u32, quarantined)
	),
	TP_fast_assign(
		__entry->pool = pool;
		__entry->cache = cache;
		__entry->size = size;
		__entry->extent = extent;
		__entry->cached = cached;
		__entry->quarantined = quarantined;
	),
	TP_printk("pool=%u cache=%u size=%u extent=%u cached=%u quarantined=%u", __entry->pool,
		  __entry->cache, __entry->size, __entry->extent, __entry->cached,
		  __entry->quarantined)
);

/* A slab with free pages passes from one client to another. */
TRACE_EVENT(kvslab_slab_take,
	TP_PROTO(u32 pool, u32 from, u32 to, u32 cache, u32 size, u32 extent, u32 free),
	TP_ARGS(pool, from, to, cache, size, extent, free),
	TP_STRUCT__entry(
		__field(u32, pool)
		__field(u32, from)
		__field(u32, to)
		__field(u32, cache)
		__field(u32, size)
		__field(u32, extent)
		__field(u32, free)
	),
	TP_fast_assign(
		__entry->pool = pool;
		__entry->from = from;
		__entry->to = to;
		__entry->cache = cache;
		__entry->size = size;
		__entry->extent = extent;
		__entry->free = free;
	),
	TP_printk("pool=%u from=%u to=%u cache=%u size=%u extent=%u free=%u", __entry->pool,
		  __entry->from, __entry->to, __entry->cache, __entry->size, __entry->extent,
		  __entry->free)
);

/* on 1: the pool holds more than its high watermark; 0: it came back to the low one. Extents. */
TRACE_EVENT(kvslab_pressure,
	TP_PROTO(u32 pool, u32 on, u32 held, u32 max),
	TP_ARGS(pool, on, held, max),
	TP_STRUCT__entry(
		__field(u32, pool)
		__field(u32, on)
		__field(u32, held)
		__field(u32, max)
	),
	TP_fast_assign(
		__entry->pool = pool;
		__entry->on = on;
		__entry->held = held;
		__entry->max = max;
	),
	TP_printk("pool=%u on=%u held=%u max=%u", __entry->pool, __entry->on, __entry->held,
		  __entry->max)
);

/* An ALLOC of count pages is refused, with a negative errno. */
TRACE_EVENT(kvslab_quota,
	TP_PROTO(u32 pool, u32 client, u32 cache, u32 count, s32 error, u32 held, u32 max),
	TP_ARGS(pool, client, cache, count, error, held, max),
	TP_STRUCT__entry(
		__field(u32, pool)
		__field(u32, client)
		__field(u32, cache)
		__field(u32, count)
		__field(s32, error)
		__field(u32, held)
		__field(u32, max)
	),
	TP_fast_assign(
		__entry->pool = pool;
		__entry->client = client;
		__entry->cache = cache;
		__entry->count = count;
		__entry->error = error;
		__entry->held = held;
		__entry->max = max;
	),
	TP_printk("pool=%u client=%u cache=%u count=%u error=%d held=%u max=%u", __entry->pool,
		  __entry->client, __entry->cache, __entry->count, __entry->error, __entry->held,
		  __entry->max)
);

/* A client begins, or ends with this many pages and references that it still held. */
TRACE_EVENT(kvslab_client,
	TP_PROTO(u32 pool, u32 client, u32 begins, u64 privates, u64 references),
	TP_ARGS(pool, client, begins, privates, references),
	TP_STRUCT__entry(
		__field(u32, pool)
		__field(u32, client)
		__field(u32, begins)
		__field(u64, privates)
		__field(u64, references)
	),
	TP_fast_assign(
		__entry->pool = pool;
		__entry->client = client;
		__entry->begins = begins;
		__entry->privates = privates;
		__entry->references = references;
	),
	TP_printk("pool=%u client=%u %s private=%llu references=%llu", __entry->pool,
		  __entry->client, __entry->begins ? "begins" : "ends", __entry->privates,
		  __entry->references)
);

/* The system wanted memory: wanted extents were asked for, freed went back. spares: of those, empty
 * ones. memcg 1: because of a memory cgroup's limit. */
TRACE_EVENT(kvslab_reclaim,
	TP_PROTO(u32 wanted, u32 freed, u32 spares, u32 memcg),
	TP_ARGS(wanted, freed, spares, memcg),
	TP_STRUCT__entry(
		__field(u32, wanted)
		__field(u32, freed)
		__field(u32, spares)
		__field(u32, memcg)
	),
	TP_fast_assign(
		__entry->wanted = wanted;
		__entry->freed = freed;
		__entry->spares = spares;
		__entry->memcg = memcg;
	),
	TP_printk("wanted=%u freed=%u spares=%u memcg=%u", __entry->wanted, __entry->freed,
		  __entry->spares, __entry->memcg)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
