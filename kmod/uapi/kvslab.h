/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * kvslab: pools of KV-cache pages. The ABI between kvslab.ko and its users.
 *
 * Nodes. /dev/kvslab/control makes, changes, lists and destroys pools; each pool is a node of its
 * own, /dev/kvslab/NAME, with owner, group and mode. Each open() of a pool's node makes a *client*
 * of the pool. A client ends when its last descriptor and its last mapping are gone: its private
 * pages are then free, the references that it held are dropped.
 *
 * Commands. Each exists as an ioctl and as an io_uring command (IORING_OP_URING_CMD, with cmd_op
 * the ioctl's number), with the same payload: struct kvslab_cmd, which is the ioctl's argument, and
 * the 16 bytes of command space in a normal SQE. args points to the command's structure, size is
 * that structure's size as the caller knows it. A structure grows at its end only: what a caller
 * leaves out counts as zero; what the module does not know must be zero, else E2BIG. A size below
 * the first version's is EINVAL. A structure that is also an answer is written back as far as both
 * sides know it.
 *
 * Results. A command returns 0 or a count as its result (of ioctl(), or of the CQE), or an error:
 *
 *   EINVAL     an unknown flag or field value, a reserved field that is not 0, a count of 0 or
 *              above KVSLAB_CMD_BATCH, a wrong structure size, a cache that is not there
 *   E2BIG      the structure carries something newer than this module
 *   EFAULT     a pointer that cannot be read or written, or that points into one of the pools'
 *              windows
 *   EPERM      the descriptor is not open for reading and writing; only STAT, SLABS, EVENTS and
 *              NOP work without
 *   ENODEV     the pool was destroyed, or the handles, cache or arena are of device memory that is
 *              gone (see IMPORT)
 *   ENOTTY     no such command at this node
 *   EAGAIN     only as an io_uring command, and never seen by its user: the kernel tries again
 *              from a worker
 *   ENOMEM     the system, or the memory cgroup that is charged, gave no memory
 *
 * and those named with each command. A command that fails has changed nothing, unless it says
 * otherwise. When the answer cannot be written (EFAULT at the end of a command), what the command
 * did is undone; SEAL, CACHE, CREATE and EVENTS, which cannot be, try to write it first, so that only
 * who unmaps it meanwhile meets the case. No command waits for other clients: whoever wants to, polls (see KVSLAB_EVENT_*).
 *
 * Each field is read once; changing it meanwhile harms only whoever does so.
 */
#ifndef _UAPI_LINUX_KVSLAB_H
#define _UAPI_LINUX_KVSLAB_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define KVSLAB_UAPI_VERSION 1

#define KVSLAB_NAME_SIZE 32 /* with the final zero; letters, digits, '-', '_', '.'; no '.' first */
#define KVSLAB_CMD_BATCH 1024 /* handles, hashes or seals in one command */
#define KVSLAB_CMD_EXTENT (2u << 20) /* bytes */
#define KVSLAB_CMD_HASH 32 /* bytes */
#define KVSLAB_CMD_CLASSES 8
#define KVSLAB_NOTE_SIZE 32 /* bytes */

/* The payload of every command. */
struct kvslab_cmd {
	__u64 args; /* user address of the command's structure */
	__u32 size; /* of that structure, bytes */
	__u32 flags; /* 0 */
};

#define KVSLAB_IOC 0xBC

/* ---- of a pool's node ---- */

#define KVSLAB_CMD_CACHE _IOWR(KVSLAB_IOC, 0x01, struct kvslab_cmd)
#define KVSLAB_CMD_ALLOC _IOWR(KVSLAB_IOC, 0x02, struct kvslab_cmd)
#define KVSLAB_CMD_FREE _IOWR(KVSLAB_IOC, 0x03, struct kvslab_cmd)
#define KVSLAB_CMD_GET _IOWR(KVSLAB_IOC, 0x04, struct kvslab_cmd)
#define KVSLAB_CMD_SEAL _IOWR(KVSLAB_IOC, 0x05, struct kvslab_cmd)
#define KVSLAB_CMD_LOOKUP _IOWR(KVSLAB_IOC, 0x06, struct kvslab_cmd)
#define KVSLAB_CMD_STAT _IOWR(KVSLAB_IOC, 0x07, struct kvslab_cmd)
#define KVSLAB_CMD_SLABS _IOWR(KVSLAB_IOC, 0x08, struct kvslab_cmd)
#define KVSLAB_CMD_EXPORT _IOWR(KVSLAB_IOC, 0x09, struct kvslab_cmd)
#define KVSLAB_CMD_EVENTS _IOWR(KVSLAB_IOC, 0x0a, struct kvslab_cmd)
#define KVSLAB_CMD_IMPORT _IOWR(KVSLAB_IOC, 0x0b, struct kvslab_cmd)
#define KVSLAB_CMD_DEPOSIT _IOWR(KVSLAB_IOC, 0x0c, struct kvslab_cmd)
#define KVSLAB_CMD_RECEIVE _IOWR(KVSLAB_IOC, 0x0d, struct kvslab_cmd)

/* Does nothing, as an ioctl and as an io_uring command: what a command costs before it begins. */
#define KVSLAB_CMD_NOP _IOWR(KVSLAB_IOC, 0x10, struct kvslab_cmd)

/* ---- of /dev/kvslab/control; each needs CAP_SYS_ADMIN beside the right to open the node ---- */

#define KVSLAB_CTL_CREATE _IOWR(KVSLAB_IOC, 0x81, struct kvslab_cmd)
#define KVSLAB_CTL_SET _IOWR(KVSLAB_IOC, 0x82, struct kvslab_cmd)
#define KVSLAB_CTL_LIST _IOWR(KVSLAB_IOC, 0x83, struct kvslab_cmd)
#define KVSLAB_CTL_DESTROY _IOWR(KVSLAB_IOC, 0x84, struct kvslab_cmd)

/*
 * Handles. 64 bits: arena 6, extent 20, index in the slab 10, generation 28. 0 is never a page. A
 * page's bytes are at
 *
 *   extent * KVSLAB_CMD_EXTENT + index * page_size
 *
 * of its arena, and so at that offset of a mapping of it. Arena 0 is the host's memory, which all
 * pools share; the others are device memory and a pool's own (see IMPORT). All handles in one command
 * are of one arena, that of the first; any other is EBADF.
 */
#define KVSLAB_HANDLE_ARENA(h) ((__u32)((h) >> 58))
#define KVSLAB_HANDLE_EXTENT(h) ((__u32)((h) >> 38) & 0xfffff)
#define KVSLAB_HANDLE_INDEX(h) ((__u32)((h) >> 28) & 0x3ff)
#define KVSLAB_HANDLE_GENERATION(h) ((__u32)(h) & 0xfffffff)

/*
 * Mappings. mmap() of a pool's node with MAP_SHARED; the offset names arena and window:
 *
 *   offset = arena << 42 | window | bytes in the arena
 *
 * The *writable* window shows the pages that are private to this client; touching anything else is
 * SIGBUS. It needs a descriptor open for reading and writing. A sealed page is gone from this window
 * before the command returns. A freed one is gone before it is anybody else's; until then a store to
 * it may be taken, and is lost. The *read-only* window shows every page of the pool, whoever holds
 * it; it can never be made writable (EACCES). Neither can be made executable, and neither is
 * inherited over fork(): a child maps again. A mapping may be of any part of the arena, in frames,
 * but not pass its end (EINVAL); memory need not be there when it is made. Device memory is not mapped
 * here (EINVAL), but by whoever drives the device.
 *
 * 32-bit processes reach arenas 0 to 3, and not the counters.
 */
#define KVSLAB_MAP_READ 0ull
#define KVSLAB_MAP_WRITE (1ull << 41)
#define KVSLAB_MAP_ARENA(a) ((__u64)(a) << 42)
#define KVSLAB_MAP_COUNTERS (1ull << 48) /* one frame: struct kvslab_counters; PROT_READ only */

/*
 * Counters, mapped read-only. The module makes seq odd before it changes them and even after: read
 * it, read the values, read it again. They are of this pool alone, and may lag behind by what calls
 * in progress are doing.
 */
struct kvslab_counters {
	__u32 version; /* KVSLAB_UAPI_VERSION */
	__u32 seq;
	__u64 min, max; /* extents */
	__u64 held; /* extents that count against max */
	__u64 low, high; /* watermarks, extents held */
	__u64 pressure; /* 1 while above high, until at or below low */
	__u64 rises; /* times that pressure began */
};

/*
 * Events. poll() of a pool's descriptor: POLLIN when this client has an event. EVENTS returns the
 * set and clears it.
 *
 *   ROOM      an ALLOC of this client failed with ENOSPC or EDQUOT, and since then pages or extents
 *             became free, and this client is the one that has waited longest: freed pages are told
 *             to one waiter at a time, so that two with half of what they need each do not starve
 *             each other. The next is told when this one has allocated, or closed.
 *   PRESSURE  held crossed the high watermark upwards: admit less
 *   RELIEF    held came back to the low watermark
 *   DEAD      the pool was destroyed (POLLHUP is set too)
 *   ARENA     an arena of device memory came or went, or a file was deposited for one: STAT tells
 *
 * ROOM is of whatever arena the ALLOC was in; PRESSURE and RELIEF are of host memory.
 */
#define KVSLAB_EVENT_ROOM (1u << 0)
#define KVSLAB_EVENT_PRESSURE (1u << 1)
#define KVSLAB_EVENT_RELIEF (1u << 2)
#define KVSLAB_EVENT_DEAD (1u << 3)
#define KVSLAB_EVENT_ARENA (1u << 4)

struct kvslab_args_events {
	__u32 events; /* out */
	__u32 reserved; /* 0 */
};

/*
 * CACHE: find or make the cache for pages of page_size bytes: a multiple of frame_size, at most an
 * extent. ENOSPC: the pool has 16 page sizes already.
 *
 * PINNED: memory that a device registers. `slabs` slabs are made now and neither shrunk nor given
 * to another cache while the pool lives. The check that no frame is pinned is waived there: a
 * seal stops mistakes, not malice. A cache is pinned or not from its first command on: EEXIST when
 * the other kind exists. ENOSPC, EDQUOT, ENOMEM: no room for the slabs; none is kept then.
 *
 * With tier DEVICE, `arena` says in which arena: each has its own caches, up to 16 page sizes, and its
 * own index of hashes. There is nothing to pin there: PINNED is EINVAL. ENODEV: no such arena.
 */
#define KVSLAB_CACHE_PINNED (1u << 0)

#define KVSLAB_TIER_HOST 0
#define KVSLAB_TIER_DEVICE 1

struct kvslab_args_cache {
	__u32 page_size; /* bytes */
	__u32 tier;
	__u32 flags; /* KVSLAB_CACHE_* */
	__u32 slabs; /* with PINNED */
	/* out */
	__u32 id;
	__u32 pages_per_slab;
	__u32 frame_size; /* bytes */
	__u32 arena; /* of this cache's pages; with tier DEVICE in and out */
	__u64 arena_size; /* bytes, for mmap() */
	__u32 pool; /* the pool's id, as the tracepoints say it */
	__u32 client; /* this client's id, likewise */
	__u8 key[KVSLAB_CMD_HASH]; /* for hashes: the pool's own, random */
};

/*
 * ALLOC: `count` private pages; returns the count. Old content of the pool may be in them, that of
 * other pools never. All or nothing; with PARTIAL as many as there are, at least 1. May evict
 * cached pages. ENOSPC: everything is held; EDQUOT: the pool's max is in the way; ENOMEM.
 */
#define KVSLAB_ALLOC_PARTIAL (1u << 0)

struct kvslab_args_alloc {
	__u64 pages; /* user address of __u64[count]; out */
	__u32 cache;
	__u32 count;
	__u32 flags; /* KVSLAB_ALLOC_* */
	__u32 reserved; /* 0 */
};

/*
 * FREE: private pages become free; of sealed ones one reference goes, and a page without references
 * is cached. GET: one more reference to sealed pages that this client has one to. All or nothing; a
 * handle may stand in FREE as often as the client has references. ESTALE: a generation that the
 * page had once, in a slab that this client holds something of; EBADF: any other handle that is not
 * this client's; EOVERFLOW: 2^31 references.
 */
struct kvslab_args_pages {
	__u64 pages; /* user address of __u64[count] */
	__u32 count;
	__u32 flags; /* 0 */
};

/*
 * SEAL: private pages of one cache become read-only and are found under their hashes from now on.
 * All or nothing. Where a hash is there already, `page` is replaced by that page, to which the
 * caller has a reference, and the duplicate is free. EBUSY: a frame of a page is pinned (a device,
 * an I/O in flight, a pipe); ENOENT: a parent that the client does not hold and that does not stand
 * earlier in this command; ESTALE, EBADF; EDQUOT, ENOSPC: a limit forbids the reference to a
 * duplicate that is cached.
 */
#define KVSLAB_SEAL_FIRST (1u << 0) /* the first of its chain: parent is not looked for */

struct kvslab_seal_entry {
	__u64 page; /* in: private; out: the sealed page with this hash */
	__u8 hash[KVSLAB_CMD_HASH];
	__u8 parent[KVSLAB_CMD_HASH]; /* hash of the page before it */
	__u32 depth; /* pages before it */
	__u8 priority; /* class of eviction, 0 .. 7; a higher one stays longer */
	__u8 flags; /* KVSLAB_SEAL_* */
	__u16 reserved; /* 0 */
};

struct kvslab_args_seal {
	__u64 seals; /* user address of struct kvslab_seal_entry[count]; in and out */
	__u32 count;
	__u32 flags; /* 0 */
};

/* LOOKUP: references the longest run of hashes[0 .. count) that the cache has; returns its length,
 * which may be 0. A limit makes it shorter. */
struct kvslab_args_lookup {
	__u64 hashes; /* user address of __u8[count][KVSLAB_CMD_HASH] */
	__u64 pages; /* user address of __u64[count]; out, as many as found */
	__u32 cache;
	__u32 count;
	__u32 flags; /* 0 */
	__u32 reserved; /* 0 */
};

/* A pool, as STAT and LIST say it. Counts of pages are by state. */
struct kvslab_stat_pool {
	char name[KVSLAB_NAME_SIZE];
	__u32 id;
	__u32 uid, gid, mode;
	__s32 node; /* NUMA, -1: any */
	__u32 arena;
	__u32 dead; /* 1: destroyed, somebody still holds it */
	__u32 clients;
	__u64 min, max, low, high; /* extents */
	__u64 held; /* extents that count against max */
	__u64 slabs; /* extents that this pool occupies */
	__u64 arena_extents, arena_free;
	__u64 free, private_pages, moving, sealed, cached, quarantined; /* pages */
	__u64 free_bytes, tail_bytes, quarantined_bytes; /* of slabs * KVSLAB_CMD_EXTENT */
	/* since the pool was made; pages, takeovers in slabs, reclaimed in extents */
	__u64 allocs, frees, seals, seal_duplicates, lookups, lookup_asked, lookup_hits, evictions,
		takeovers, reclaimed;
	__u64 adrift; /* quarantined pages whose extent left the pool */
	__u64 failed; /* ALLOCs that ended with ENOSPC, EDQUOT or ENOMEM */
};

struct kvslab_stat_cache {
	__u32 id;
	__u32 page_size;
	__u32 pages_per_slab;
	__u32 flags; /* KVSLAB_CACHE_* */
	__u64 slabs;
	__u64 free, private_pages, moving, sealed, cached, quarantined; /* pages */
};

/* An arena of device memory. Its pages are not in the figures of the pool, nor of its clients: those
 * are of host memory. */
#define KVSLAB_ARENA_MINE (1u << 0) /* this client imported it */
#define KVSLAB_ARENA_DEPOSIT (1u << 1) /* RECEIVE gives a file for it */

struct kvslab_stat_arena {
	__u32 arena;
	__u32 tier;
	__u32 flags; /* KVSLAB_ARENA_* */
	__u32 client; /* id of who imported it */
	__u8 note[KVSLAB_NOTE_SIZE]; /* its words */
	__u64 size; /* bytes */
	__u64 held; /* extents with a page that somebody holds, or whose owner keeps them */
	__u64 slabs; /* extents cut into pages */
	__u64 free, private_pages, moving, sealed, cached; /* pages */
	__u64 allocs, frees, seals, lookup_asked, lookup_hits, evictions; /* pages, since IMPORT */
};

struct kvslab_stat_client {
	__u32 id;
	__s32 pid; /* of who opened it, in the reader's pid namespace; 0: not visible there */
	char comm[16];
	__u64 private_pages;
	__u64 references; /* to sealed pages */
	__u64 slabs; /* that it owns */
	__u64 held_bytes; /* of its private pages */
};

/* STAT: the pool's figures, its caches (of all arenas), its clients, its arenas of device memory. The
 * arrays may be absent (address 0, count 0); a count says how many fit, and comes back as how many
 * there are. */
struct kvslab_args_stat {
	struct kvslab_stat_pool pool; /* out */
	__u64 caches; /* user address of struct kvslab_stat_cache[nr_caches] */
	__u64 clients; /* user address of struct kvslab_stat_client[nr_clients] */
	__u32 nr_caches; /* in and out */
	__u32 nr_clients; /* in and out */
	__u32 flags; /* 0 */
	__u32 reserved; /* 0 */
	__u64 arenas; /* user address of struct kvslab_stat_arena[nr_arenas] */
	__u32 nr_arenas; /* in and out */
	__u32 reserved2; /* 0 */
	__u64 device_max, device_size; /* out; bytes: the limit, and what is imported */
};

/* SLABS: the slabs of the pool in `arena` in the order of their extents, from extent `from` on.
 * Returns how many were written; `from` comes back as where to go on, 0: that was all. ENODEV: no such
 * arena. */
struct kvslab_stat_slab {
	__u32 extent;
	__u32 owner; /* id of the client that allocates from it; 0: nobody */
	__u16 cache;
	__u16 pages;
	__u16 free, private_pages, moving, sealed, cached, quarantined;
};

struct kvslab_args_slabs {
	__u64 slabs; /* user address of struct kvslab_stat_slab[count]; out */
	__u32 from; /* in and out */
	__u32 count; /* 1 .. KVSLAB_CMD_BATCH */
	__u32 flags; /* 0 */
	__u32 arena;
};

/*
 * EXPORT: a dma-buf of one extent of a PINNED cache, for RDMA and GPU import; returns its
 * descriptor. It shows the memory whatever state its pages are in, and keeps the client and so the
 * pool. EINVAL: the cache is not pinned; ENOENT: the extent is no slab of it; EOPNOTSUPP: this
 * kernel has no dma-buf; EBUSY: this client has imported device memory (see IMPORT).
 */
#define KVSLAB_EXPORT_CLOEXEC (1u << 0)

struct kvslab_args_export {
	__u32 cache;
	__u32 extent;
	__u32 flags; /* KVSLAB_EXPORT_* */
	__u32 reserved; /* 0 */
};

/*
 * IMPORT: the memory behind a dma-buf becomes an arena of the pool, with pages like those of host
 * memory: private, sealed, found by their hashes, cached, evicted. The pool must allow it: see
 * device_max of CREATE.
 *
 * Who owns what, and when. The memory is whoever's exports it; kvslab holds a reference to the
 * dma-buf and hands out numbers. It never attaches, maps, pins or reads the memory, so that an
 * exporter may move it, and never clears it: what was in it before is in its pages. Whoever reads or
 * writes a page has mapped the device memory itself, by means of the device's driver, and finds the
 * page at the place that its handle names (see Handles), counted from the dma-buf's first byte. So a
 * seal is a convention here: nothing stops a client that writes to a page that is not its own. A page
 * must not be freed before the device is done with it: nobody but its user can know.
 *
 * The arena is the pool's alone, whatever happens: it never serves another pool. It ends with the
 * client that imported it (its last descriptor and mapping; see Nodes), or with the pool, and at once:
 * the references to the dma-buf and to a deposited file are dropped, and every handle of it, cache or
 * arena in a command gives ENODEV, whoever held pages. Clients get the event ARENA; what they have
 * mapped stays theirs, as the driver has it. The number may serve for another arena later; no
 * old handle ever names a page there. When the exporter revokes the memory, or the device is gone,
 * the driver tells whoever uses it; kvslab is not told, and the importer should close.
 *
 * Limits. Device memory counts against device_max alone, all of it from IMPORT on, and neither
 * against min and max nor any memory control group; only the tables for it do that (24 bytes an extent,
 * 8 for each client that uses it, and what slabs need).
 *
 * No circles: a dma-buf or deposited file may, through other drivers, keep other files. So that none of them
 * ever keeps its own arena, a client that has exported may not import (EBUSY), nor the reverse; who
 * wants both opens the node twice.
 *
 * `note` is told to others by STAT: what they need to know to use the memory, a device's UUID say.
 *
 * EACCES: the pool takes no device memory; EDQUOT: more than device_max; EBADF: no such descriptor;
 * EINVAL: not a dma-buf, one of a pool's, or a size that is no multiple of an extent (or 0); EFBIG: more
 * than 2^20 extents; EBUSY: this dma-buf is an arena already; ENOSPC: 63 arenas are there (one that
 * has ended counts while a command is still busy in it); EOPNOTSUPP: this kernel has no dma-buf.
 */
struct kvslab_args_import {
	__s32 fd; /* of the dma-buf; may be closed after that */
	__u32 tier; /* KVSLAB_TIER_DEVICE */
	__u32 flags; /* 0 */
	__u32 reserved; /* 0 */
	__u8 note[KVSLAB_NOTE_SIZE];
	/* out */
	__u64 size; /* bytes */
	__u32 arena;
	__u32 extents;
};

/*
 * DEPOSIT: a file by which others can map the arena's memory (of CUDA: what
 * cuMemExportToShareableHandle() gives; the dma-buf itself, where a driver imports those). Kept until
 * the arena ends. Only who imported the arena may (EACCES), and once (EEXIST). Taken are dma-bufs but
 * those of pools, and device nodes but those of pools and those that carry other descriptors
 * (misc devices, binder); everything else is EINVAL: regular files, sockets, io_uring and other files
 * without a name can keep a file of a pool. ENODEV: no such arena; EBADF: no such descriptor.
 *
 * RECEIVE: a descriptor of the deposited file; returns it. The kernel's security module is asked, as
 * for a descriptor that comes over a socket. Clients of this pool alone get it. It is the same open
 * file that was deposited, with its rights. ENODEV: no such arena; ENOENT: nothing was deposited;
 * EMFILE; and what the security module says.
 */
struct kvslab_args_deposit {
	__u32 arena;
	__s32 fd;
	__u32 flags; /* 0 */
	__u32 reserved; /* 0 */
};

#define KVSLAB_RECEIVE_CLOEXEC (1u << 0)

struct kvslab_args_receive {
	__u32 arena;
	__u32 flags; /* KVSLAB_RECEIVE_* */
};

/*
 * CREATE: a pool and its node. min is set aside now (ENOSPC: the arena cannot guarantee it); max is
 * its limit. Sizes are in bytes and are rounded to extents: min up, max down. EEXIST: the name is
 * taken; EINVAL: a bad name, min above max, a node that is not there. Memory is charged to the
 * memory cgroup that cgroup_fd is open on, or to the caller's. SET changes what `mask` names.
 * Watermarks are shares of max in 1/1000; 0: 900 for high and 750 for low. device_max: how many bytes
 * of device memory clients may import; 0: none.
 */
#define KVSLAB_POOL_CGROUP (1u << 0) /* flags: cgroup_fd is one */

struct kvslab_args_create {
	char name[KVSLAB_NAME_SIZE];
	__u64 min, max; /* bytes */
	__u32 uid, gid; /* in the caller's user namespace */
	__u32 mode; /* permission bits, up to 0666 */
	__s32 node; /* NUMA, -1: any */
	__s32 cgroup_fd;
	__u32 flags; /* KVSLAB_POOL_* */
	__u32 low, high; /* 1/1000 of max */
	/* out */
	__u32 id;
	__u32 major, minor;
	__u32 reserved; /* 0 */
	/* in */
	__u64 device_max; /* bytes */
};

#define KVSLAB_SET_MIN (1u << 0)
#define KVSLAB_SET_MAX (1u << 1) /* EBUSY: more is held */
#define KVSLAB_SET_OWNER (1u << 2) /* uid and gid */
#define KVSLAB_SET_MODE (1u << 3)
#define KVSLAB_SET_MARKS (1u << 4) /* low and high */
#define KVSLAB_SET_DEVICE (1u << 5) /* device_max; EBUSY: more is imported */

struct kvslab_args_set {
	char name[KVSLAB_NAME_SIZE];
	__u32 mask; /* KVSLAB_SET_* */
	__u32 flags; /* 0 */
	__u64 min, max; /* bytes */
	__u32 uid, gid, mode;
	__u32 low, high;
	__u32 reserved; /* 0 */
	__u64 device_max; /* bytes */
};

/* LIST: returns how many pools there are; as many as fit are written. */
struct kvslab_args_list {
	__u64 pools; /* user address of struct kvslab_stat_pool[count]; out */
	__u32 count;
	__u32 flags; /* 0 */
};

/* DESTROY. EBUSY: it has clients. With FORCE it is dead at once: every command fails with ENODEV,
 * windows are emptied, memory goes with the last descriptor or mapping. ENOENT: no such pool. */
#define KVSLAB_DESTROY_FORCE (1u << 0)

struct kvslab_args_destroy {
	char name[KVSLAB_NAME_SIZE];
	__u32 flags; /* KVSLAB_DESTROY_* */
	__u32 reserved; /* 0 */
};

#endif
