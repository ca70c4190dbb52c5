// SPDX-License-Identifier: GPL-2.0
/*
 * Memory goes back to the system when it asks, without asking a process: slabs that nobody holds,
 * longest idle first, and before them empty slabs that clients keep as spares.
 *
 * Each extent that has memory has a *token*, charged to the memory cgroup that the extent is
 * charged to, which is how list_lru knows whose it is. While nobody holds the slab the token is in
 * the list; the core's hook, under the arena's lock, puts it in and takes it out, so the list is
 * exact and in order. The shrinker only looks at tokens in the list: it notes extents and turns the
 * tokens to the list's end, and the core decides whether the slab can go.
 *
 * Spares are in no list: they come and go with every slab that runs empty, and the core is asked for
 * them. Since the system calls a shrinker for a memory cgroup only where its list has something,
 * each pool has one token more there, its *bell*.
 *
 * The shrinker runs inside allocations, also in those of a fault that holds an extent's map_sem and
 * of whoever ends a pool. So it waits for nobody: it tries map_sem, and a pool's last step waits
 * for it (kvslab_reclaim_forget). Core locks are no matter: nobody allocates under them.
 */
#include <linux/list_lru.h>
#include <linux/memcontrol.h>
#include <linux/shrinker.h>
#include <linux/slab.h>

#include "kmod.h"
#include "core_hooks.h"

#define SCAN_BATCH 16 /* extents noted in one walk */
#define SCAN_OPS 4 /* shrinkers at work at the same time */
#define LOOK_AGAIN (HZ) /* between two looks at quarantined pages */

struct kvslab_token {
	struct list_head lru;
	struct kvslab_pool *pool;
	u32 extent; /* BELL: none */
};

#define BELL U32_MAX

static struct kmem_cache *tokens;
static struct list_lru idle;
static bool ready;
/* Pools that the shrinker may find; read by it, written when one comes or goes. */
static DECLARE_RWSEM(pools_sem);
static LIST_HEAD(pools);
static struct kvc_op scan_op[SCAN_OPS];
static unsigned long scan_busy;

/* ---- tokens ---- */

/* With the pool's memory cgroup active. The token belongs to the extent until kvslab_token_free(). */
struct kvslab_token *kvslab_token_alloc(struct kvslab_pool *pool, u32 extent)
{
	struct kvslab_token *token;

	token = kmem_cache_alloc_lru(tokens, &idle,
				     GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN);

	if (!token)
		return NULL;
	INIT_LIST_HEAD(&token->lru);
	token->pool = pool;
	token->extent = extent;
	return token;
}

/* The slab is gone, so the token is in no list. */
void kvslab_token_free(struct kvslab_token *token)
{
	if (token)
		kmem_cache_free(tokens, token);
}

void kvslab_hook_idle(void *data, u32 extent, bool is_idle)
{
	struct kvslab_token *token;

	/* Of device memory. */
	if (!data)
		return;
	token = kvslab_extents[extent].token;
	if (is_idle)
		list_lru_add_obj(&idle, &token->lru);
	else
		list_lru_del_obj(&idle, &token->lru);
}

/* ---- the shrinker ---- */

struct note {
	struct kvslab_pool *pool[SCAN_BATCH];
	u32 extent[SCAN_BATCH];
	u32 n;
};

/* The list's lock is held: no core lock may be taken. */
static enum lru_status note_token(struct list_head *item,
				  struct list_lru_one *lru KVSLAB_LRU_LOCK_ARG, void *arg)
{
	struct kvslab_token *token = container_of(item, struct kvslab_token, lru);
	struct note *note = arg;

	if (token->extent == BELL)
		return LRU_ROTATE;
	if (note->n == SCAN_BATCH)
		return LRU_SKIP;
	note->pool[note->n] = token->pool;
	note->extent[note->n++] = token->extent;
	return LRU_ROTATE;
}

static bool charged_to(const struct kvslab_pool *pool, struct shrink_control *sc)
{
#ifdef CONFIG_MEMCG
	if (sc->memcg)
		return pool->memcg ? pool->memcg == sc->memcg : !sc->memcg->css.parent;
#endif
	return true;
}

static bool is_memcg(struct shrink_control *sc)
{
#ifdef CONFIG_MEMCG
	return sc->memcg && sc->memcg->css.parent;
#else
	return false;
#endif
}

static struct kvc_op *get_op(void)
{
	int i;

	for (i = 0; i < SCAN_OPS; i++)
		if (!test_and_set_bit_lock(i, &scan_busy))
			return &scan_op[i];
	return NULL;
}

static void put_op(struct kvc_op *op)
{
	clear_bit_unlock(op - scan_op, &scan_busy);
}

/* Give one extent back, if its slab can go and nobody is just mapping it. */
static bool give_back(struct kvslab_pool *pool, u32 extent, struct kvc_op *op)
{
	struct kvslab_extent *x = &kvslab_extents[extent];
	void *table;
	int r;

	if (!down_write_trylock(&x->map_sem))
		return false;
	kvc_op_init(op);
	r = kvc_reclaim_extent(pool->core, extent, op);
	if (r == KVC_MORE) {
		kvslab_extent_drop(pool, extent);
		r = kvc_reclaim_extent(pool->core, extent, op);
	}
	up_write(&x->map_sem);
	while ((table = kvc_op_table(op)))
		kvfree(table);
	kvslab_wake(op);
	if (!r)
		atomic64_inc(&pool->reclaimed);
	return !r;
}

/* Spares of pools that are charged to whom the system asks. */
static u32 free_spares(struct shrink_control *sc, u32 want, struct kvc_op *op)
{
	struct kvslab_pool *pool;
	u32 extent[SCAN_BATCH], n, i, freed = 0;

	list_for_each_entry(pool, &pools, reclaim) {
		if (!charged_to(pool, sc))
			continue;
		n = kvc_spares(pool->core, extent, min_t(u32, want - freed, SCAN_BATCH));
		for (i = 0; i < n; i++)
			freed += give_back(pool, extent[i], op);
		if (freed >= want)
			break;
	}
	return freed;
}

static u32 free_idle(struct shrink_control *sc, u32 want, struct kvc_op *op)
{
	struct note note;
	unsigned long walk;
	u32 i, freed = 0, got;

	do {
		note.n = 0;
		walk = min_t(unsigned long, want - freed, SCAN_BATCH) + 1;
		list_lru_walk_one(&idle, sc->nid, sc->memcg, note_token, &note, &walk);
		for (i = 0, got = 0; i < note.n; i++)
			got += give_back(note.pool[i], note.extent[i], op);
		freed += got;
	} while (got && freed < want);
	return freed;
}

/* Spares, less the bells that the list has. */
static long count_spares(struct shrink_control *sc)
{
	struct kvslab_pool *pool;
	u32 extent[SCAN_BATCH];
	long n = 0;

	list_for_each_entry(pool, &pools, reclaim)
		if (charged_to(pool, sc))
			n += (long)kvc_spares(pool->core, extent, SCAN_BATCH) - 1;
	return n;
}

static unsigned long count(struct shrinker *shrinker, struct shrink_control *sc)
{
	long n;

	if (!smp_load_acquire(&ready))
		return 0;
	n = list_lru_shrink_count(&idle, sc);
	if (down_read_trylock(&pools_sem)) {
		n += count_spares(sc);
		up_read(&pools_sem);
	}
	/* Not SHRINK_EMPTY: then nobody would ask again before the list changes. */
	return n > 0 ? n * KVSLAB_FRAMES : 0;
}

static unsigned long scan(struct shrinker *shrinker, struct shrink_control *sc)
{
	u32 want = max(1ul, sc->nr_to_scan / KVSLAB_FRAMES), spares, freed;
	struct kvc_op *op;

	if (!down_read_trylock(&pools_sem))
		return SHRINK_STOP;
	op = get_op();
	if (!op) {
		up_read(&pools_sem);
		return SHRINK_STOP;
	}
	freed = spares = free_spares(sc, want, op);
	if (freed < want)
		freed += free_idle(sc, want - freed, op);
	put_op(op);
	up_read(&pools_sem);
	/* An extent is more than was asked for at once: it counts as what it is. */
	sc->nr_scanned = max_t(unsigned long, sc->nr_to_scan, freed * KVSLAB_FRAMES);
	mm_account_reclaimed_pages(freed * KVSLAB_FRAMES);
	trace_kvslab_reclaim(want, freed, spares, is_memcg(sc));
	return freed ? freed * KVSLAB_FRAMES : SHRINK_STOP;
}

/* ---- quarantine ---- */

static void look_again(struct work_struct *work);
static DECLARE_DELAYED_WORK(looking, look_again);

/* A page went into quarantine: look at it again soon, and until none is left. */
void kvslab_quarantine_kick(void)
{
	queue_delayed_work(system_unbound_wq, &looking, LOOK_AGAIN);
}

static void look_again(struct work_struct *work)
{
	struct kvslab_pool *pool;
	struct kvc_stat stat;
	struct kvc_op *op = kmalloc(sizeof(*op), GFP_KERNEL);
	bool left = !op;

	down_read(&pools_sem);
	list_for_each_entry(pool, &pools, reclaim) {
		if (!op)
			break;
		kvc_op_init(op);
		while (kvc_unquarantine(pool->core, op) == KVC_MORE)
			kvslab_serve(pool, op);
		kvslab_serve_end(pool, op);
		kvc_stat(pool->core, &stat);
		left |= stat.quarantined != 0;
		cond_resched();
	}
	up_read(&pools_sem);
	kfree(op);
	if (left)
		kvslab_quarantine_kick();
}

/* ---- pools, and the module, come and go ---- */

/* With the pool's memory cgroup active, before it has slabs. */
int kvslab_reclaim_add(struct kvslab_pool *pool)
{
	pool->bell = kvslab_token_alloc(pool, BELL);
	if (!pool->bell)
		return -ENOMEM;
	list_lru_add_obj(&idle, &pool->bell->lru);
	down_write(&pools_sem);
	list_add_tail(&pool->reclaim, &pools);
	up_write(&pools_sem);
	return 0;
}

/*
 * The pool begins to end: quarantined pages and spares are no longer looked for. Slabs that nobody
 * holds still can be found by their tokens; the core lets who takes one and who ends the pool go on
 * beside each other.
 */
void kvslab_reclaim_forget(struct kvslab_pool *pool)
{
	down_write(&pools_sem);
	list_del(&pool->reclaim);
	up_write(&pools_sem);
}

/* Its slabs are gone. When this returns, whoever had noted one is done with it. */
void kvslab_reclaim_drain(struct kvslab_pool *pool)
{
	if (!pool->bell)
		return;
	list_lru_del_obj(&idle, &pool->bell->lru);
	down_write(&pools_sem);
	up_write(&pools_sem);
	kvslab_token_free(pool->bell);
}

static struct shrinker *shrinker;

int kvslab_reclaim_init(void)
{
	int r = -ENOMEM;

	tokens = kmem_cache_create("kvslab_token", sizeof(struct kvslab_token), 0, SLAB_ACCOUNT,
				   NULL);
	if (!tokens)
		return r;
	shrinker = kvslab_shrinker_alloc("kvslab", SHRINKER_NUMA_AWARE | SHRINKER_MEMCG_AWARE,
					 KVSLAB_FRAMES, count, scan);
	if (!shrinker)
		goto free_tokens;
	r = list_lru_init_memcg(&idle, shrinker);
	if (r)
		goto free_shrinker;
	kvslab_shrinker_start(shrinker);
	smp_store_release(&ready, true);
	return 0;

free_shrinker:
	kvslab_shrinker_free(shrinker);
free_tokens:
	kmem_cache_destroy(tokens);
	return r;
}

/* All pools are gone. */
void kvslab_reclaim_exit(void)
{
	cancel_delayed_work_sync(&looking);
	kvslab_shrinker_free(shrinker);
	list_lru_destroy(&idle);
	kmem_cache_destroy(tokens);
}
