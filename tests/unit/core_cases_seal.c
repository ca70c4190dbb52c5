// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* One case for each rule of the core about sealed pages: the index, references, eviction. */
#include <stdlib.h>

#include "tests/lib/core_case.h"
#include "tests/lib/tap.h"
#include "state.h"

static struct core_case c;

static int get(struct kvc_client *client, u64 *pages, u32 n)
{
	return core_alloc(&c.env, client, 0, pages, n, 0);
}

static int put(struct kvc_client *client, const u64 *pages, u32 n)
{
	return core_free(&c.env, client, pages, n);
}
static struct kvc_pool *pool;
static struct kvc_client *a, *b;

static void open_two(u32 extents, u32 page_size)
{
	case_open(&c, extents);
	pool = case_pool(&c, 0, extents, page_size);
	a = core_client(pool);
	b = core_client(pool);
}

static void close_two(void)
{
	core_client_exit(&c.env, a);
	core_client_exit(&c.env, b);
	case_pool_close(&c, pool);
	case_close(&c);
}

static struct kvc_stat now(void)
{
	struct kvc_stat stat;

	kvc_stat(pool, &stat);
	return stat;
}

static void seal_and_find(void)
{
	struct kvc_where where;
	u64 page[2], found;

	open_two(2, SIX);
	get(a, page, 1);
	ok(case_lookup(&c, b, 0, 0, &found) == 0, "not there yet");
	ok(!case_seal(&c, a, page, 0, 0) && c.zapped[KVC_ZAP_SEAL] == 1,
	   "a page is zapped and sealed");
	ok(!kvc_where(a, page[0], &where) && !where.writable,
	   "its client may read it, not write it");
	ok(kvc_where(b, page[0], &where) == -EBADF, "another must find it first");
	ok(case_lookup(&c, b, 0, 0, &found) == 1 && found == page[0] &&
		   !kvc_where(b, found, &where) && !where.writable,
	   "which it does by its hash");
	ok(case_seal(&c, a, page, 0, 0) == -EBADF, "sealed twice: EBADF");
	ok(!kvc_get(a, page, 1) && !put(a, (u64[]){ page[0], page[0] }, 2) &&
		   put(a, page, 1) == -EBADF,
	   "as many FREEs as references, no more");
	ok(now().sealed == 1 && now().cached == 0 && case_holds(&c),
	   "the other's reference keeps it sealed");
	put(b, &found, 1);
	ok(now().sealed == 0 && now().cached == 1 && case_holds(&c), "without any it is cached");
	ok(now().lookups == 2 && now().lookup_asked == 2 && now().lookup_hits == 1 &&
		   now().seals == 1,
	   "all counted");
	get(a, page, 1);
	ok(kvc_get(a, page, 1) == -EBADF, "GET of a private page: EBADF");
	close_two();
}

static void parents(void)
{
	struct kvc_seal seals[3] = { 0 };
	u64 page[4], found;
	u32 i;

	open_two(2, SIX);
	get(a, page, 4);
	ok(case_seal(&c, a, page, 1, 0) == -ENOENT && now().private_pages == 4,
	   "a parent that is not there: ENOENT");
	for (i = 0; i < 3; i++) {
		seals[i].page = page[i];
		seals[i].depth = i;
		seals[i].flags = i ? 0 : KVC_SEAL_ROOT;
		core_hash(seals[i].hash, i);
		core_hash(seals[i].parent, i - 1);
	}
	ok(!core_seal(&c.env, a, seals, 3), "one that is sealed before it in the same call is");
	get(b, &found, 1);
	ok(case_seal(&c, b, &found, 3, 0) == -ENOENT, "one that only another client holds is not");
	case_lookup(&c, b, 0, 2, page);
	ok(!case_seal(&c, b, &found, 3, 0), "until this one holds it too");
	seals[0].page = page[3];
	core_hash(seals[0].hash, 77);
	seals[0].class = KVC_CLASSES;
	ok(core_seal(&c.env, a, seals, 1) == -EINVAL, "a class that there is not: EINVAL");
	seals[0].class = 0;
	seals[0].flags = 4;
	ok(core_seal(&c.env, a, seals, 1) == -EINVAL && core_seal(&c.env, a, seals, 0) == -EINVAL &&
		   case_holds(&c),
	   "an unknown flag, an empty batch: EINVAL");
	close_two();
}

static void one_wrong_seal(void)
{
	struct kvc_seal seals[3] = { 0 };
	u64 page[3], found;
	u32 i;

	open_two(2, SIX);
	get(a, page, 3);
	for (i = 0; i < 3; i++) {
		seals[i].page = page[i];
		seals[i].flags = KVC_SEAL_ROOT;
		core_hash(seals[i].hash, 100 * i);
	}
	seals[2].page = page[0];
	ok(core_seal(&c.env, a, seals, 3) == -EBADF && now().private_pages == 3,
	   "a page twice in a SEAL: none is sealed");
	seals[2].page = page[2];
	c.pin[kvc_handle_extent(page[1])] = 1ull << kvc_handle_index(page[1]);
	ok(core_seal(&c.env, a, seals, 3) == -EBUSY && now().private_pages == 3 && !now().moving,
	   "one is pinned: EBUSY, all are private again");
	ok(case_lookup(&c, b, 0, 0, &found) == 0 && case_holds(&c), "and none can be found");
	c.pin[kvc_handle_extent(page[1])] = 0;
	ok(!core_seal(&c.env, a, seals, 3) && now().sealed == 3, "then they are sealed");
	close_two();
}

static void duplicates(void)
{
	struct kvc_seal seals[2] = { 0 };
	u64 first, second, pages[2];

	open_two(2, SIX);
	get(a, &first, 1);
	get(b, &second, 1);
	case_seal(&c, a, &first, 0, 0);
	pages[0] = second;
	ok(!case_seal(&c, b, &second, 0, 0) && second == first,
	   "a hash that is there: the handle becomes that one's");
	ok(now().sealed == 1 && now().private_pages == 0 && now().seal_duplicates == 1 &&
		   case_holds(&c),
	   "the duplicate is free again");
	ok(put(b, pages, 1) != 0, "its old handle is good for nothing");
	put(a, &first, 1);
	ok(now().sealed == 1, "the reference moved to who sealed the duplicate");
	put(b, &second, 1);
	get(a, pages, 2);
	seals[0].page = pages[0];
	seals[1].page = pages[1];
	seals[0].flags = seals[1].flags = KVC_SEAL_ROOT;
	core_hash(seals[0].hash, 500);
	core_hash(seals[1].hash, 500);
	ok(!core_seal(&c.env, a, seals, 2) && seals[0].page == pages[0] &&
		   seals[1].page == pages[0],
	   "twice in one call: the first wins");
	ok(!put(a, (u64[]){ pages[0], pages[0] }, 2) && now().cached == 2 && case_holds(&c),
	   "with two references");
	close_two();
}

/* Between the halves of one SEAL another client seals the same content. */
static void meanwhile(void)
{
	struct kvc_seal seal = { .flags = KVC_SEAL_ROOT };
	struct kvc_op op;
	u64 first, second;
	int r;

	open_two(2, SIX);
	get(a, &first, 1);
	get(b, &second, 1);
	seal.page = first;
	core_hash(seal.hash, 0);
	kvc_op_init(&op);
	ok(kvc_seal(a, &seal, 1, &op) == KVC_MORE && op.nr_zaps == 1 &&
		   op.zap[0].why == KVC_ZAP_SEAL,
	   "begin asks for the zap");
	ok(put(a, &first, 1) == -EBADF && now().moving == 1 && case_holds(&c),
	   "meanwhile the page is nobody's to free");
	ok(!case_seal(&c, b, &second, 0, 0), "another seals that hash");
	while ((r = kvc_seal(a, &seal, 1, &op)) == KVC_MORE)
		core_serve(&c.env, &op);
	core_tables(&op);
	ok(!r && seal.page == second && now().sealed == 1 && now().seal_duplicates == 1 &&
		   case_holds(&c),
	   "it wins in finish");
	close_two();
}

static void referenced_stays(void)
{
	u64 page[12], more[12], found;
	struct kvc_where where;
	u32 i, good = 1;

	open_two(2, SIX);
	get(a, page, 12);
	for (i = 0; i < 12; i++)
		case_seal(&c, a, &page[i], 100 * i, 0);
	put(a, page, 5);
	case_reset(&c);
	ok(get(b, more, 6) == -ENOSPC && !c.nr_evicted,
	   "5 of 12 are cached: 6 cannot be had, and none is evicted");
	ok(get(b, more, 5) == 5 && c.nr_evicted == 5 && case_holds(&c), "5 can");
	for (i = 5; i < 12; i++)
		good &= !kvc_where(a, page[i], &where) &&
			case_lookup(&c, b, 0, 100 * i, &found) == 1 && found == page[i];
	ok(good && now().evictions == 5, "the referenced ones are all there");
	close_two();
}

static void order(void)
{
	/* class, order of the last FREE, depth: the page that goes n-th. */
	static const struct {
		u8 class;
		u32 freed, depth;
	} page_of[6] = { { 0, 1, 2 }, { 0, 1, 1 }, { 0, 2, 9 },
			 { 3, 0, 5 }, { 3, 0, 4 }, { 7, 0, 1 } };
	u64 page[6], by_free[6], more[6];
	u32 i, k, n, good = 1;

	open_two(1, SIX);
	get(a, page, 6);
	for (i = 0; i < 6; i++) {
		struct kvc_seal seal = { .page = page[i],
					 .class = page_of[i].class,
					 .depth = page_of[i].depth,
					 .flags = KVC_SEAL_ROOT };

		core_hash(seal.hash, i);
		good &= !core_seal(&c.env, a, &seal, 1);
	}
	for (i = 0; i < 3; i++) {
		/* Backwards, so that a batch that is not sorted would be evicted in another order.
		 */
		for (k = 6, n = 0; k-- > 0;)
			if (page_of[k].freed == i)
				by_free[n++] = page[k];
		good &= !put(a, by_free, n);
	}
	case_reset(&c);
	for (i = 0; i < 6; i++) {
		good &= get(b, more + i, 1) == 1;
		good &= c.nr_evicted == i + 1 && (c.evicted[i] & 63) == kvc_handle_index(page[i]);
	}
	ok(good, "lowest class first, then the least recent call, then the deepest");
	close_two();
}

static void used_again(void)
{
	u64 page[6], more;
	u32 i;

	open_two(1, SIX);
	get(a, page, 6);
	for (i = 0; i < 6; i++)
		case_seal(&c, a, &page[i], 100 * i, 0);
	for (i = 0; i < 6; i++)
		put(a, &page[i], 1);
	case_lookup(&c, b, 0, 0, &more);
	put(b, &more, 1);
	case_reset(&c);
	get(b, &more, 1);
	ok((c.evicted[0] & 63) == kvc_handle_index(page[1]),
	   "a page that was used again goes after those that were not");
	close_two();
}

static void orphans(void)
{
	u64 page[6], more[6], found;
	u32 i;

	open_two(1, SIX);
	get(a, page, 6);
	for (i = 0; i < 3; i++)
		case_seal(&c, a, &page[i], i, 0);
	put(a, page, 1); /* the root, while its children are referenced */
	put(a, page + 3, 3);
	ok(get(b, more, 4) == 4 && case_lookup(&c, a, 0, 0, &found) == 0,
	   "a parent is evicted before its children");
	ok(now().sealed == 2 && case_lookup(&c, b, 0, 1, &found) == 1,
	   "these stay, and are found by their own hash");
	put(b, &found, 1);
	put(a, page + 1, 2);
	ok(now().cached == 2 && get(b, more + 4, 2) == 2 && now().cached == 0 && case_holds(&c),
	   "and age out like all others");
	close_two();
}

static void lookup_runs(void)
{
	u8 hashes[200][KVC_HASH_SIZE];
	u64 page[200], found[200];
	u32 i;

	open_two(2, 8192);
	get(a, page, 200);
	for (i = 0; i < 200; i++) {
		core_hash(hashes[i], i);
		if (i != 150)
			case_seal(&c, a, &page[i], i < 151 ? i : 100 * i, 0);
	}
	ok(core_lookup(&c.env, b, 0, (const u8(*)[KVC_HASH_SIZE])hashes, 200, found) == 150 &&
		   !memcmp(found, page, 150 * sizeof(*page)),
	   "the run ends at the first hash that is not there, over several holds of the lock");
	ok(!core_free(&c.env, b, found, 150) && case_holds(&c), "150 references at once");
	ok(core_lookup(&c.env, b, 0, (const u8(*)[KVC_HASH_SIZE])hashes, 0, found) == -EINVAL &&
		   core_lookup(&c.env, b, 1, (const u8(*)[KVC_HASH_SIZE])hashes, 1, found) ==
			   -EINVAL,
	   "no hashes, no such cache: EINVAL");
	close_two();
}

static void cut_at_limit(void)
{
	struct kvc_pool *q;
	struct kvc_client *d;
	u64 page[6], found[6], other[3];
	u8 hashes[6][KVC_HASH_SIZE];
	u32 i;

	/* A page an extent: each reference to a cached page holds one more. */
	open_two(6, KVC_EXTENT_SIZE);
	q = case_pool(&c, 0, 6, KVC_EXTENT_SIZE);
	d = core_client(q);
	for (i = 0; i < 6; i++) {
		get(a, &page[i], 1);
		case_seal(&c, a, &page[i], i, 0);
		core_hash(hashes[i], i);
	}
	put(a, page, 6);
	ok(now().held == 0 && now().slabs == 6, "six cached extents are held by nobody");
	ok(core_alloc(&c.env, d, 0, other, 2, 0) == 2 && now().slabs == 4,
	   "another pool may take two of them");
	ok(core_lookup(&c.env, b, 0, (const u8(*)[KVC_HASH_SIZE])hashes, 6, found) <= 4 &&
		   case_holds(&c),
	   "LOOKUP finds what is left");
	core_client_exit(&c.env, b);
	b = core_client(pool);
	core_client_exit(&c.env, d);
	case_pool_close(&c, q);
	q = case_pool(&c, 4, 6, KVC_EXTENT_SIZE);
	for (i = 0; i < 6; i++)
		if (case_lookup(&c, a, 0, i, found) == 1)
			break;
	core_client_exit(&c.env, a);
	a = core_client(pool);
	ok(core_lookup(&c.env, b, 0, (const u8(*)[KVC_HASH_SIZE])(hashes + i), 6 - i, found) == 2 &&
		   now().held == 2,
	   "with 4 of 6 set aside for another the run is cut at 2");
	ok(now().cached && case_holds(&c), "the rest stays cached");
	case_pool_close(&c, q);
	close_two();
}

static void fewest_cached(void)
{
	u64 page[12];
	u32 i, x;

	open_two(2, SIX);
	get(a, page, 12);
	/* Four sealed pages in the first slab, one in the second; the rest is free. */
	for (i = 0; i < 12; i++)
		if (i < 4 || i == 6)
			case_seal(&c, a, &page[i], 100 * i, 0);
	x = kvc_handle_extent(page[6]);
	core_client_exit(&c.env, a);
	a = core_client(pool);
	ok(core_reclaim(&c.env, pool, 1) == 1 && now().cached == 4 && !c.env.arena->extent[x].slab,
	   "the slab that costs the fewest cached pages goes first");
	ok(core_reclaim(&c.env, pool, 5) == 1 && now().slabs == 0 && case_holds(&c),
	   "as many as there are");
	close_two();
}

static void many_entries(void)
{
	u64 *page = malloc(2048 * sizeof(*page));
	u32 i, found = 0;
	u64 one;

	open_two(4, 4096);
	for (i = 0; i < 2048; i += 1024)
		get(a, page + i, 1024);
	for (i = 0; i < 2048; i++) {
		c.decline_tables = i < 300; /* the index must do without growing, too */
		case_seal(&c, a, &page[i], 100 * i, i % 8);
		if (i % 256 == 0 && !case_holds(&c))
			break;
	}
	ok(i == 2048 && now().sealed == 2048 && pool->index.mask >= 1023,
	   "the index grows with its entries, a few at a time");
	for (i = 0; i < 2048; i++)
		found += case_lookup(&c, b, 0, 100 * i, &one) == 1 && one == page[i];
	ok(found == 2048 && case_holds(&c), "all of them are found");
	for (i = 0; i < 2048; i += 1024)
		put(a, page + i, 1024);
	core_client_exit(&c.env, b);
	b = core_client(pool);
	ok(now().cached == 2048 && case_holds(&c) && get(b, page, 1000) == 1000 &&
		   now().cached == 1048,
	   "and evicted");
	free(page);
	close_two();
}

static void too_many_references(void)
{
	u64 page[2], found;

	open_two(1, SIX);
	get(a, page, 2);
	case_seal(&c, a, &page[0], 0, 0);
	case_seal(&c, a, &page[1], 100, 0);
	/* As if this had been done two thousand million times. */
	a->map[0]->refs[kvc_handle_index(page[1])] = KVC_REFS_MAX;
	a->map[0]->slab->entry[kvc_handle_index(page[1])].refs = KVC_REFS_MAX;
	a->share[0].nr_refs = 1ull + KVC_REFS_MAX;
	ok(kvc_get(a, page, 2) == -EOVERFLOW && a->map[0]->refs[kvc_handle_index(page[0])] == 1 &&
		   case_holds(&c),
	   "GET beyond what can be counted: EOVERFLOW, and none is taken");
	ok(case_lookup(&c, b, 0, 100, &found) == 0, "LOOKUP passes it by");
	close_two();
}

int main(void)
{
	seal_and_find();
	parents();
	one_wrong_seal();
	duplicates();
	meanwhile();
	referenced_stays();
	order();
	used_again();
	orphans();
	lookup_runs();
	cut_at_limit();
	fewest_cached();
	many_entries();
	too_many_references();
	return done();
}
