// SPDX-License-Identifier: GPL-2.0
/*
 * Every command with every kind of wrong argument, as ioctl and as io_uring command: the right
 * error, and nothing has changed.
 */
#include <stddef.h>

#include "ks.h"

#define SIZE (64u << 10)
#define N 4

/* What is at hand: a client with private and sealed pages, another client's page. */
static struct ks_client k;
static u64 mine[N], sealed[N], other_page, out[1100];
static struct kvslab_seal_entry seals[N];
static u8 hashes[N][HASH];
static struct kvslab_stat_pool pools[4];
static struct kvslab_stat_slab slabs[8];

union any {
	struct kvslab_args_cache cache;
	struct kvslab_args_alloc alloc;
	struct kvslab_args_pages pages;
	struct kvslab_args_seal seal;
	struct kvslab_args_lookup lookup;
	struct kvslab_args_stat stat;
	struct kvslab_args_slabs slabs;
	struct kvslab_args_export export;
	struct kvslab_args_import import;
	struct kvslab_args_deposit deposit;
	struct kvslab_args_receive receive;
	struct kvslab_args_events events;
	struct kvslab_args_create create;
	struct kvslab_args_set set;
	struct kvslab_args_list list;
	struct kvslab_args_destroy destroy;
	u8 bytes[4096];
};

struct field {
	u32 at, size; /* in the structure; size 0: none */
};
#define FIELD(type, name) { offsetof(struct type, name), sizeof(((struct type *)0)->name) }

struct command {
	const char *name;
	u32 op, size;
	bool control, read_only_ok;
	void (*good)(union any *a); /* arguments that would succeed */
	struct field flags, count, reserved[2], pointer[2];
	u32 known_flags;
	bool pointer_in; /* the first pointer is read, not written */
	u32 first; /* the first version's size, if it has grown */
};

static void good_cache(union any *a)
{
	a->cache.page_size = SIZE;
}

static void good_alloc(union any *a)
{
	a->alloc.pages = (uintptr_t)out;
	a->alloc.cache = k.c.id;
	a->alloc.count = 1;
}

static void good_free(union any *a)
{
	a->pages.pages = (uintptr_t)mine;
	a->pages.count = 1;
}

static void good_get(union any *a)
{
	a->pages.pages = (uintptr_t)sealed;
	a->pages.count = N;
}

static void good_seal(union any *a)
{
	memset(seals, 0, sizeof(seals));
	seals[0].page = mine[1];
	seals[0].flags = KVSLAB_SEAL_FIRST;
	ks_hash(seals[0].hash, 5, 5);
	a->seal.seals = (uintptr_t)seals;
	a->seal.count = 1;
}

static void good_lookup(union any *a)
{
	int i;

	for (i = 0; i < N; i++)
		ks_hash(hashes[i], 9, i);
	a->lookup.hashes = (uintptr_t)hashes;
	a->lookup.pages = (uintptr_t)out;
	a->lookup.cache = k.c.id;
	a->lookup.count = N;
}

static void good_nothing(union any *a)
{
	(void)a;
}

static void good_stat(union any *a)
{
	static struct kvslab_stat_cache caches[4];
	static struct kvslab_stat_client clients[4];

	a->stat.caches = (uintptr_t)caches;
	a->stat.clients = (uintptr_t)clients;
	a->stat.nr_caches = a->stat.nr_clients = 4;
}

static void good_slabs(union any *a)
{
	a->slabs.slabs = (uintptr_t)slabs;
	a->slabs.count = COUNT(slabs);
}

/* Right but for what they name: that is looked at last. */
static void good_import(union any *a)
{
	a->import.fd = -1;
	a->import.tier = KVSLAB_TIER_DEVICE;
}

static void good_deposit(union any *a)
{
	a->deposit.arena = 1;
	a->deposit.fd = -1;
}

static void good_receive(union any *a)
{
	a->receive.arena = 1;
}

static void good_create(union any *a)
{
	strcpy(a->create.name, "made");
	a->create.max = 4 << 20;
	a->create.node = -1;
	a->create.mode = 0600;
}

static void good_set(union any *a)
{
	strcpy(a->set.name, "abi");
	a->set.mask = KVSLAB_SET_MODE;
	a->set.mode = 0600;
}

static void good_list(union any *a)
{
	a->list.pools = (uintptr_t)pools;
	a->list.count = COUNT(pools);
}

static void good_destroy(union any *a)
{
	strcpy(a->destroy.name, "victim");
}

static const struct command commands[] = {
	{ "CACHE", KVSLAB_CMD_CACHE, sizeof(struct kvslab_args_cache), false, false, good_cache,
	  .flags = FIELD(kvslab_args_cache, flags), .known_flags = KVSLAB_CACHE_PINNED },
	{ "ALLOC", KVSLAB_CMD_ALLOC, sizeof(struct kvslab_args_alloc), false, false, good_alloc,
	  .flags = FIELD(kvslab_args_alloc, flags), .count = FIELD(kvslab_args_alloc, count),
	  .reserved = { FIELD(kvslab_args_alloc, reserved) }, .known_flags = KVSLAB_ALLOC_PARTIAL,
	  .pointer = { FIELD(kvslab_args_alloc, pages) } },
	{ "FREE", KVSLAB_CMD_FREE, sizeof(struct kvslab_args_pages), false, false, good_free,
	  .flags = FIELD(kvslab_args_pages, flags), .count = FIELD(kvslab_args_pages, count),
	  .pointer = { FIELD(kvslab_args_pages, pages) }, .pointer_in = true },
	{ "GET", KVSLAB_CMD_GET, sizeof(struct kvslab_args_pages), false, false, good_get,
	  .flags = FIELD(kvslab_args_pages, flags), .count = FIELD(kvslab_args_pages, count),
	  .pointer = { FIELD(kvslab_args_pages, pages) }, .pointer_in = true },
	{ "SEAL", KVSLAB_CMD_SEAL, sizeof(struct kvslab_args_seal), false, false, good_seal,
	  .flags = FIELD(kvslab_args_seal, flags), .count = FIELD(kvslab_args_seal, count),
	  .pointer = { FIELD(kvslab_args_seal, seals) }, .pointer_in = true },
	{ "LOOKUP", KVSLAB_CMD_LOOKUP, sizeof(struct kvslab_args_lookup), false, false, good_lookup,
	  .flags = FIELD(kvslab_args_lookup, flags), .count = FIELD(kvslab_args_lookup, count),
	  .reserved = { FIELD(kvslab_args_lookup, reserved) },
	  .pointer = { FIELD(kvslab_args_lookup, hashes), FIELD(kvslab_args_lookup, pages) },
	  .pointer_in = true },
	{ "STAT", KVSLAB_CMD_STAT, sizeof(struct kvslab_args_stat), false, true, good_stat,
	  .flags = FIELD(kvslab_args_stat, flags), .reserved = { FIELD(kvslab_args_stat, reserved), FIELD(kvslab_args_stat, reserved2) },
	  .first = offsetof(struct kvslab_args_stat, arenas),
	  .pointer = { FIELD(kvslab_args_stat, caches), FIELD(kvslab_args_stat, clients) } },
	{ "SLABS", KVSLAB_CMD_SLABS, sizeof(struct kvslab_args_slabs), false, true, good_slabs,
	  .flags = FIELD(kvslab_args_slabs, flags), .count = FIELD(kvslab_args_slabs, count),
	  .pointer = { FIELD(kvslab_args_slabs, slabs) } },
	{ "EVENTS", KVSLAB_CMD_EVENTS, sizeof(struct kvslab_args_events), false, true, good_nothing,
	  .reserved = { FIELD(kvslab_args_events, reserved) } },
	{ "IMPORT", KVSLAB_CMD_IMPORT, sizeof(struct kvslab_args_import), false, false, good_import,
	  .flags = FIELD(kvslab_args_import, flags), .reserved = { FIELD(kvslab_args_import, reserved) } },
	{ "DEPOSIT", KVSLAB_CMD_DEPOSIT, sizeof(struct kvslab_args_deposit), false, false, good_deposit,
	  .flags = FIELD(kvslab_args_deposit, flags), .reserved = { FIELD(kvslab_args_deposit, reserved) } },
	{ "RECEIVE", KVSLAB_CMD_RECEIVE, sizeof(struct kvslab_args_receive), false, false, good_receive,
	  .flags = FIELD(kvslab_args_receive, flags), .known_flags = KVSLAB_RECEIVE_CLOEXEC },
	{ "CREATE", KVSLAB_CTL_CREATE, sizeof(struct kvslab_args_create), true, false, good_create,
	  .flags = FIELD(kvslab_args_create, flags), .known_flags = KVSLAB_POOL_CGROUP,
	  .reserved = { FIELD(kvslab_args_create, reserved) },
	  .first = offsetof(struct kvslab_args_create, device_max) },
	{ "SET", KVSLAB_CTL_SET, sizeof(struct kvslab_args_set), true, false, good_set,
	  .flags = FIELD(kvslab_args_set, flags), .reserved = { FIELD(kvslab_args_set, reserved) },
	  .first = offsetof(struct kvslab_args_set, device_max) },
	{ "LIST", KVSLAB_CTL_LIST, sizeof(struct kvslab_args_list), true, false, good_list,
	  .flags = FIELD(kvslab_args_list, flags), .pointer = { FIELD(kvslab_args_list, pools) } },
	{ "DESTROY", KVSLAB_CTL_DESTROY, sizeof(struct kvslab_args_destroy), true, false, good_destroy,
	  .flags = FIELD(kvslab_args_destroy, flags), .known_flags = KVSLAB_DESTROY_FORCE,
	  .reserved = { FIELD(kvslab_args_destroy, reserved) } },
};

/* What must not change by a command that fails. */
struct state {
	struct kvslab_stat_pool pool;
	int pools;
};

static void look(struct state *s)
{
	struct kvslab_args_list l = { .pools = (uintptr_t)pools, .count = COUNT(pools) };
	enum ks_via via = ks_via;

	ks_via = KS_IOCTL;
	memset(s, 0, sizeof(*s));
	ks_stat(k.fd, &s->pool);
	/* What was undone may have been counted, and an empty slab been kept. */
	memset(&s->pool.slabs, 0, offsetof(struct kvslab_stat_pool, private_pages) -
					  offsetof(struct kvslab_stat_pool, slabs));
	memset(&s->pool.free_bytes, 0, sizeof(s->pool) - offsetof(struct kvslab_stat_pool, free_bytes));
	s->pool.held = 0;
	s->pools = ks_cmd(ks_control(), KVSLAB_CTL_LIST, &l, sizeof(l));
	ks_via = via;
}

static const struct command *now;
static int bad;

/* One wrong call. @flags: of struct kvslab_cmd. */
static void wrong_at(int fd, const void *args, u64 address, u32 size, u32 flags, int want, int want2,
		     const char *what)
{
	struct kvslab_cmd cmd = { .args = args ? (uintptr_t)args : address, .size = size, .flags = flags };
	struct state before, after;
	long r;

	look(&before);
	r = ks_via == KS_RING ? ks_ring(fd, now->op, &cmd) : ks_ioctl(fd, now->op, &cmd);
	look(&after);
	if (r != -want && r != -want2) {
		note("%s %s, %s: %ld, not %d", now->name, ks_via_name[ks_via], what, r, -want);
		bad++;
	}
	if (memcmp(&before, &after, sizeof(before))) {
		note("%s %s, %s: something has changed", now->name, ks_via_name[ks_via], what);
		bad++;
	}
}

static void wrong(int fd, const union any *a, int want, const char *what)
{
	wrong_at(fd, a, 0, now->size, 0, want, want, what);
}

static void put(union any *a, struct field f, u64 value)
{
	memcpy(a->bytes + f.at, &value, f.size);
}

static void each(int fd, int reader_fd)
{
	static const u64 counts[] = { 0, KVSLAB_CMD_BATCH + 1, 0x7fffffff, 0x80000000, 0xffffffff };
	/* NULL, the last frame of user space and beyond, no address at all, the kernel's, the end */
	static const u64 nowhere[] = { 0, 1, 0x7ffffffff000, 0x800000000000, 0xffff888000000000,
				       0xffffffff81000000, ~0ull, ~7ull };
	union any a, good;
	u32 i, p;

	memset(&good, 0, sizeof(good));
	now->good(&good);

	wrong_at(fd, &good, 0, 0, 0, EINVAL, EINVAL, "size 0");
	wrong_at(fd, &good, 0, (now->first ?: now->size) - 1, 0, EINVAL, EINVAL,
		 "a byte less than the first version");
	wrong_at(fd, &good, 0, 1, 0, EINVAL, EINVAL, "size 1");
	wrong_at(fd, &good, 0, 0xffffffff, 0, E2BIG, EINVAL, "size of 4 GiB");
	wrong_at(fd, &good, 0, 4097, 0, E2BIG, E2BIG, "more than a frame");
	for (i = 0; i < 32; i++)
		wrong_at(fd, &good, 0, now->size, 1u << i, EINVAL, EINVAL, "a flag of the payload");
	a = good;
	a.bytes[now->size] = 1;
	wrong_at(fd, &a, 0, now->size + 8, 0, E2BIG, E2BIG, "something newer");
	a = good;
	a.bytes[now->size + 100] = 1;
	wrong_at(fd, &a, 0, now->size + 101, 0, E2BIG, E2BIG, "something newer at an odd place");
	for (i = 0; i < COUNT(nowhere); i++)
		wrong_at(fd, NULL, nowhere[i], now->size, 0, EFAULT, EFAULT, "args that point nowhere");
	for (i = 0; i < 32; i++) {
		a = good;
		if (!now->flags.size || now->known_flags & 1u << i)
			continue;
		put(&a, now->flags, 1u << i);
		wrong(fd, &a, EINVAL, "an unknown flag");
	}
	for (p = 0; p < 2; p++) {
		for (i = 0; now->reserved[p].size && i < 32; i++) {
			a = good;
			put(&a, now->reserved[p], 1u << i);
			wrong(fd, &a, EINVAL, "a reserved field");
		}
	}
	for (i = 0; now->count.size && i < COUNT(counts); i++) {
		a = good;
		put(&a, now->count, counts[i]);
		wrong(fd, &a, EINVAL, "a count");
	}
	for (p = 0; p < 2; p++) {
		for (i = 0; now->pointer[p].size && i < COUNT(nowhere); i++) {
			a = good;
			put(&a, now->pointer[p], nowhere[i]);
			if (!nowhere[i] && (now->op == KVSLAB_CMD_STAT || now->op == KVSLAB_CTL_LIST))
				continue; /* an array that is absent */
			wrong(fd, &a, EFAULT, "an array that lies nowhere");
		}
		if (!now->pointer[p].size)
			continue;
		/* The windows are not for arguments: a fault there while a lock is held would
		 * wait for itself. */
		a = good;
		put(&a, now->pointer[p], (uintptr_t)ks_at(&k, k.w, mine[2]));
		wrong(fd, &a, EFAULT, "an array in the writable window");
		a = good;
		put(&a, now->pointer[p], (uintptr_t)ks_at(&k, k.r, mine[2]));
		wrong(fd, &a, EFAULT, "an array in the read-only window");
		a = good;
		put(&a, now->pointer[p], (uintptr_t)ks_at(&k, k.r, other_page));
		wrong(fd, &a, EFAULT, "an array in another's page");
	}
	memcpy(ks_at(&k, k.w, mine[2]), &good, now->size);
	wrong_at(fd, ks_at(&k, k.w, mine[2]), 0, now->size, 0, EFAULT, EFAULT, "args in the writable window");
	wrong_at(fd, ks_at(&k, k.r, mine[2]), 0, now->size, 0, EFAULT, EFAULT, "args in the read-only window");
	/* Where the answer cannot be written, nothing has happened. */
	{
		u8 *ro = mmap(NULL, FRAME, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		memcpy(ro, &good, now->size);
		mprotect(ro, FRAME, PROT_READ);
		if (now->op == KVSLAB_CMD_CACHE || now->op == KVSLAB_CMD_STAT ||
		    now->op == KVSLAB_CMD_SLABS || now->op == KVSLAB_CMD_EVENTS ||
		    now->op == KVSLAB_CTL_CREATE)
			wrong_at(fd, ro, 0, now->size, 0, EFAULT, EFAULT, "args that cannot be written");
		munmap(ro, FRAME);
	}
	if (reader_fd >= 0 && !now->read_only_ok)
		wrong(reader_fd, &good, EPERM, "a descriptor open for reading");
}

/* Handles of all wrong kinds, for FREE, GET and SEAL. */
static void handles(int fd, u64 *seed)
{
	struct {
		const char *what;
		u64 h;
		int want, want2;
	} odd[] = {
		{ "0", 0, EBADF, EBADF },
		{ "all ones", ~0ull, EBADF, EBADF },
		{ "another client's private page", other_page, EBADF, EBADF },
		{ "an old generation", mine[0] - 1, ESTALE, EBADF },
		{ "a generation to come", mine[0] + 1, EBADF, ESTALE },
		{ "another arena", mine[0] ^ 1ull << 58, EBADF, EBADF },
		{ "another extent", mine[0] ^ 1ull << 57, EBADF, EBADF },
		{ "an index that is not there", mine[0] | 1023ull << 28, EBADF, EBADF },
		{ "forged", rnd(seed), EBADF, ESTALE },
		{ "forged", rnd(seed), EBADF, ESTALE },
	};
	struct kvslab_args_seal s = { .seals = (uintptr_t)seals, .count = 2 };
	union any a;
	u32 i;

	for (i = 0; i < COUNT(odd); i++) {
		u64 two[2] = { mine[0], odd[i].h };
		u64 got[2] = { sealed[0], odd[i].h };
		char what[80];

		memset(&a, 0, sizeof(a));
		a.pages.pages = (uintptr_t)two;
		a.pages.count = 2;
		now = &commands[2];
		snprintf(what, sizeof(what), "a good handle, then %s", odd[i].what);
		wrong_at(fd, &a, 0, now->size, 0, odd[i].want, odd[i].want2, what);
		a.pages.pages = (uintptr_t)got;
		now = &commands[3];
		wrong_at(fd, &a, 0, now->size, 0, odd[i].want, odd[i].want2, what);
		good_seal(&a);
		seals[1] = seals[0];
		seals[1].page = odd[i].h;
		seals[1].hash[0] ^= 1;
		now = &commands[4];
		wrong_at(fd, &s, 0, now->size, 0, odd[i].want, odd[i].want2, what);
	}
	/* Twice in one command. */
	memset(&a, 0, sizeof(a));
	now = &commands[2];
	a.pages.pages = (uintptr_t)(u64[]){ mine[0], mine[1], mine[0] };
	a.pages.count = 3;
	wrong_at(fd, &a, 0, now->size, 0, EBADF, ESTALE, "a private page twice");
	now = &commands[3];
	a.pages.pages = (uintptr_t)mine;
	a.pages.count = 1;
	wrong(fd, &a, EBADF, "a private page");
	now = &commands[4];
	good_seal(&a);
	seals[1] = seals[0];
	seals[1].hash[0] ^= 1;
	wrong_at(fd, &s, 0, now->size, 0, EBADF, EINVAL, "the same page twice");
	good_seal(&a);
	seals[0].page = sealed[0];
	wrong_at(fd, &a, 0, now->size, 0, EBADF, EINVAL, "a page that is sealed");
	good_seal(&a);
	seals[0].priority = 8;
	wrong(fd, &a, EINVAL, "a priority above 7");
	good_seal(&a);
	seals[0].reserved = 1;
	wrong(fd, &a, EINVAL, "an entry's reserved field");
	good_seal(&a);
	seals[0].flags = 2;
	wrong(fd, &a, EINVAL, "an entry's unknown flag");
	good_seal(&a);
	seals[0].flags = 0;
	ks_hash(seals[0].parent, 77, 77);
	wrong(fd, &a, ENOENT, "a parent that is not there");
	seals[0].page = mine[1];
	memcpy(seals[0].parent, seals[0].hash, HASH);
	wrong(fd, &a, ENOENT, "a page that is its own parent");
}

static void values(int fd)
{
	static const u32 sizes[] = { 0, 1, 4095, 4097, 4096 + 512, (2 << 20) + 4096, 4 << 20, ~0u, 1u << 31 };
	static const char *const names[] = { "", ".", "..", ".x", "a/b", "a b", "control", "\xc3\xa4", "a\n" };
	union any a;
	u32 i;

	now = &commands[0];
	for (i = 0; i < COUNT(sizes); i++) {
		memset(&a, 0, sizeof(a));
		a.cache.page_size = sizes[i];
		wrong(fd, &a, EINVAL, "a page size");
	}
	memset(&a, 0, sizeof(a));
	good_cache(&a);
	a.cache.tier = KVSLAB_TIER_DEVICE;
	wrong(fd, &a, EINVAL, "the device tier in no arena");
	a.cache.arena = 5;
	wrong(fd, &a, ENODEV, "the device tier in an arena that is not there");
	a.cache.flags = KVSLAB_CACHE_PINNED;
	a.cache.slabs = 1;
	wrong(fd, &a, EINVAL, "pinned device memory");
	a.cache.flags = a.cache.slabs = 0;
	a.cache.tier = 2;
	wrong(fd, &a, EINVAL, "an unknown tier");
	memset(&a, 0, sizeof(a));
	good_cache(&a);
	a.cache.flags = KVSLAB_CACHE_PINNED;
	a.cache.slabs = 1;
	wrong(fd, &a, EEXIST, "a cache of the other kind");
	now = &commands[1];
	memset(&a, 0, sizeof(a));
	good_alloc(&a);
	a.alloc.cache = 16;
	wrong(fd, &a, EINVAL, "a cache that is not there");
	a.alloc.cache = 64 << 8;
	wrong(fd, &a, EINVAL, "a cache of an arena that cannot be");
	a.alloc.cache = 1 << 8;
	wrong(fd, &a, ENODEV, "a cache of an arena that is not there");
	a.alloc.cache = ~0u;
	wrong(fd, &a, EINVAL, "a cache that is not there");
	now = &commands[5];
	memset(&a, 0, sizeof(a));
	good_lookup(&a);
	a.lookup.cache = 5;
	wrong(fd, &a, EINVAL, "a cache that is not there");

	for (i = 0; i < COUNT(commands); i++)
		if (commands[i].op == KVSLAB_CTL_CREATE)
			now = &commands[i];
	for (i = 0; i < COUNT(names); i++) {
		memset(&a, 0, sizeof(a));
		good_create(&a);
		memset(a.create.name, 0, sizeof(a.create.name));
		strcpy(a.create.name, names[i]);
		wrong_at(ks_control(), &a, 0, now->size, 0, EINVAL, strcmp(names[i], "control") ? EINVAL : EEXIST,
			 names[i]);
	}
	memset(&a, 0, sizeof(a));
	good_create(&a);
	memset(a.create.name, 'a', sizeof(a.create.name));
	wrong(ks_control(), &a, EINVAL, "a name without an end");
	memset(&a, 0, sizeof(a));
	good_create(&a);
	strcpy(a.create.name, "abi");
	wrong(ks_control(), &a, EEXIST, "a name that is taken");
	good_create(&a);
	a.create.min = 8 << 20;
	wrong(ks_control(), &a, EINVAL, "min above max");
	a.create.min = a.create.max = 1ull << 62;
	wrong_at(ks_control(), &a, 0, now->size, 0, ENOSPC, EINVAL, "a min that nobody has");
	memset(&a, 0, sizeof(a));
	good_create(&a);
	a.create.node = 1000;
	wrong(ks_control(), &a, EINVAL, "a node that is not there");
	a.create.node = -2;
	wrong(ks_control(), &a, EINVAL, "a node that is not there");
	a.create.node = -1;
	a.create.mode = 0777;
	wrong(ks_control(), &a, EINVAL, "a mode with more than reading and writing");
	a.create.mode = 0600;
	a.create.flags = KVSLAB_POOL_CGROUP;
	a.create.cgroup_fd = -1;
	wrong_at(ks_control(), &a, 0, now->size, 0, EBADF, EBADF, "no descriptor of a cgroup");
	a.create.cgroup_fd = ks_control();
	wrong_at(ks_control(), &a, 0, now->size, 0, EBADF, EINVAL, "a descriptor of something else");
	memset(&a, 0, sizeof(a));
	good_create(&a);
	a.create.low = 900;
	a.create.high = 100;
	wrong(ks_control(), &a, EINVAL, "watermarks the wrong way round");
	a.create.high = 1001;
	wrong(ks_control(), &a, EINVAL, "a watermark above max");
}

int main(int argc, char **argv)
{
	u64 seed = ks_seed(argc, argv);
	struct ks_client other, reader;
	struct kvslab_args_cache big = { .page_size = SIZE };
	u8 tail[sizeof(big) + 64] = { 0 };
	int via, fd, i;
	long r;

	must(!ks_pool("abi", 0, 16 << 20, 0600) && !ks_pool("victim", 0, 4 << 20, 0600), "two pools");
	must(!ks_client(&k, "abi", SIZE) && !ks_client(&other, "abi", SIZE), "two clients");
	fd = ks_open("abi", O_RDONLY);
	must(fd >= 0 && !ks_client(&reader, "victim", SIZE), "a reader");
	must(ks_alloc(k.fd, k.c.id, mine, N, 0) == N && ks_alloc(k.fd, k.c.id, sealed, N, 0) == N &&
		     ks_alloc(other.fd, k.c.id, &other_page, 1, 0) == 1,
	     "pages");
	/* An older generation of the first. */
	for (i = 0; i < 3; i++)
		must(ks_free(k.fd, mine, N) >= 0 && ks_alloc(k.fd, k.c.id, mine, N, 0) == N, "again");
	for (i = 0; i < N; i++)
		must(ks_seal_one(k.fd, &sealed[i], 9, i) >= 0, "sealed");
	ks_fill(ks_at(&k, k.w, mine[2]), SIZE, 3);
	ks_fill(ks_at(&other, other.w, other_page), SIZE, 3);

	for (via = KS_IOCTL; via <= KS_RING; via++) {
		ks_via = via;
		for (i = 0; i < (int)COUNT(commands); i++) {
			now = &commands[i];
			bad = 0;
			each(now->control ? ks_control() : k.fd, now->control ? -1 : fd);
			ok(!bad, "%s: %s refuses what is wrong and changes nothing", ks_via_name[via],
			   now->name);
		}
		bad = 0;
		handles(k.fd, &seed);
		ok(!bad, "%s: handles that are stale, foreign, forged, duplicate", ks_via_name[via]);
		bad = 0;
		values(k.fd);
		ok(!bad, "%s: values that are out of range", ks_via_name[via]);

		/* Unknown commands, and a pool's on the control node. */
		for (r = 0, i = 0; i < 256; i++) {
			u32 op = _IOWR(KVSLAB_IOC, i, struct kvslab_cmd);
			struct kvslab_cmd cmd = { 0 };

			if ((i >= 1 && i <= 0xd) || i == 0x10 || (i >= 0x81 && i <= 0x84))
				continue;
			r |= (via == KS_RING ? ks_ring(k.fd, op, &cmd) : ks_ioctl(k.fd, op, &cmd)) + ENOTTY;
			r |= (via == KS_RING ? ks_ring(ks_control(), op, &cmd) :
					       ks_ioctl(ks_control(), op, &cmd)) +
			     ENOTTY;
		}
		ok(!r, "%s: unknown commands are ENOTTY", ks_via_name[via]);
		out[1] = 0;
		r = ks_alloc(k.fd, k.c.id, out, 1, 0) == 1 && ks_free(k.fd, out, 1) >= 0;
		ok(r && ks_free(k.fd, out, 1) == -ESTALE && ks_get(k.fd, out, 1) == -ESTALE &&
			   ks_seal_one(k.fd, out, 8, 8) == -ESTALE,
		   "%s: what was freed is ESTALE", ks_via_name[via]);
		ok(ks_cmd(ks_control(), KVSLAB_CMD_STAT, tail, sizeof(struct kvslab_args_stat)) == -ENOTTY &&
			   ks_cmd(k.fd, KVSLAB_CTL_LIST, tail, sizeof(struct kvslab_args_list)) == -ENOTTY,
		   "%s: and those of the other node", ks_via_name[via]);
		/* A newer caller that uses nothing new. */
		memset(tail, 0, sizeof(tail));
		memcpy(tail, &big, sizeof(big));
		r = ks_cmd(k.fd, KVSLAB_CMD_CACHE, tail, sizeof(tail));
		memcpy(&big, tail, sizeof(big));
		ok(r >= 0 && big.pages_per_slab == 32, "%s: a longer structure with zeros: %ld",
		   ks_via_name[via], r);
		memset(&big, 0, sizeof(big));
		big.page_size = SIZE;
		/* 1024 at once is the most. */
		r = ks_alloc(k.fd, k.c.id, out, KVSLAB_CMD_BATCH, KVSLAB_ALLOC_PARTIAL);
		ok(r > 100 && ks_free(k.fd, out, r) >= 0, "%s: a batch of 1,024, partial: %ld",
		   ks_via_name[via], r);
		ok(ks_alloc(k.fd, k.c.id, out, KVSLAB_CMD_BATCH, 0) == -EDQUOT,
		   "%s: a batch of 1,024 that cannot be had", ks_via_name[via]);
	}
	ks_via = KS_IOCTL;
	ok(ks_filled(ks_at(&other, other.w, other_page), SIZE, 3), "the other client's page is what it was");
	ok(ks_adds_up(k.fd), "counts add up");
	ks_close(&k);
	ks_close(&other);
	ks_close(&reader);
	close(fd);
	return done();
}
