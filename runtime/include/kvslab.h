/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * libkvslab: KV-cache pages, sequences and batch scheduling.
 *
 * Four layers, each usable without the next:
 *   pool   allocate, seal, look up and free pages of KV cache;
 *   geometry  how many tokens of a model go into one page, and where a value lies inside it;
 *   seq    a request's tokens and page tables: prefix reuse, fork, truncate;
 *   sched  continuous batching of requests on an executor that the caller supplies.
 *
 * Calls return 0 (or a count) or a negative errno. The library prints nothing, never exits and has no global
 * state. Unless a call says otherwise, one object may be used by one thread at a time, different objects by
 * different threads; clients of the same pool are different objects. Since 0.1 unless marked.
 */
#ifndef KVSLAB_H
#define KVSLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVSLAB_VERSION_MAJOR 0
#define KVSLAB_VERSION_MINOR 1
#define KVSLAB_VERSION_PATCH 0

#define KVSLAB_EXTENT_SIZE (2u << 20) /* bytes: the unit in which an arena hands out memory */
#define KVSLAB_BATCH_MAX 1024 /* handles or hashes in one call */
#define KVSLAB_HASH_SIZE 32
#define KVSLAB_PRIORITIES 8 /* eviction classes; a higher one stays longer */

/* "0.1.0"; the version of the library, not of this header. Any thread. */
const char *kvslab_version(void);
/* What @err (a negative errno of this library) means and what to do about it. Any thread. */
const char *kvslab_strerror(int err);

/* ---- pool ---- */

struct kvslab_arena; /* memory shared by pools */
struct kvslab_pool; /* one client of one pool */

/* A page: arena, extent, index in the slab, generation. 0 is never a page. */
typedef uint64_t kvslab_handle;

struct kvslab_hash {
	uint8_t b[KVSLAB_HASH_SIZE];
};

enum kvslab_log_level {
	KVSLAB_LOG_ERROR,
	KVSLAB_LOG_WARNING,
	KVSLAB_LOG_INFO,
	KVSLAB_LOG_DEBUG,
};

typedef void (*kvslab_log_fn)(void *data, enum kvslab_log_level level, const char *message);

/* An arena of @size bytes (rounded down to extents, at least one) of host memory. Memory is taken from the
 * system when a slab needs it. Lives until closed and its last pool is closed. -EINVAL, -ENOMEM. */
int kvslab_arena_open(struct kvslab_arena **arena, uint64_t size);
void kvslab_arena_close(struct kvslab_arena *arena);

struct kvslab_pool_opts {
	struct kvslab_arena *arena; /* NULL: an arena of the pool's own */
	uint64_t min; /* bytes guaranteed, set aside now */
	uint64_t max; /* bytes at most; 0: the size named by spec, or the whole arena */
	kvslab_log_fn log; /* may be NULL; called by whatever thread uses the pool */
	void *log_data;
	/* Watermarks, extents held in 1/1000 of max: pressure begins above high and ends at low. 0: 750 and 900. */
	uint32_t low, high;
};

/*
 * Open a pool and become a client of it. @spec: "embedded:SIZE" (bytes, or with K, M, G, T), or "embedded" together
 * with opts->arena: a pool inside this process, of which the caller is the first client. Or the path of a node of the
 * kernel module, "/dev/kvslab/NAME": a pool that other processes use too, and that stays when they end. @opts may be
 * NULL; of a node's it takes log and log_data alone, the rest belongs to whoever made the pool.
 *
 * -EINVAL: bad spec, min > max, low > high, or an option that is not the opener's to choose; -ENOSPC: the arena
 * cannot guarantee min. Of a node: -ENOENT: there is none, or the module is not loaded; -EACCES, -EPERM: who may open
 * it is another; -ENOTTY: that is no pool; -EPROTO: the module speaks another version. The log gets a line that says
 * what to do.
 *
 * A node's memory is mapped when it is opened and comes with the first touch. It is not inherited over fork(): a child
 * opens the pool itself. When the pool is destroyed by force, calls fail with -ENODEV and touching a page is SIGBUS.
 */
int kvslab_pool_open(struct kvslab_pool **pool, const char *spec, const struct kvslab_pool_opts *opts);
/* Another client of the same pool; for another thread. The pool lives until its last client closes. Of a node: it is
 * opened once more (-ENODEV: it is another pool's by now; what open(2) says). */
int kvslab_pool_share(struct kvslab_pool *pool, struct kvslab_pool **client);
/* Frees this client's private pages, drops its references. Sealed pages stay, cached, for other clients. */
void kvslab_pool_close(struct kvslab_pool *pool);

struct kvslab_cache {
	uint32_t id;
	uint32_t page_size; /* bytes */
	uint32_t pages_per_slab;
	uint32_t frame_size; /* bytes: the OS page */
	uint8_t key[KVSLAB_HASH_SIZE]; /* the pool's hash key */
};

/* Find or make the cache for pages of @page_size bytes: a multiple of the frame, at most an extent. -EINVAL;
 * -ENOSPC: too many page sizes in this pool. */
int kvslab_cache_open(struct kvslab_pool *pool, uint32_t page_size, struct kvslab_cache *cache);

#define KVSLAB_PARTIAL (1u << 0) /* alloc: as many as there are; returns that count, at least 1 or an error */

/*
 * Allocate @n private pages of cache @id. May evict cached pages. Content is undefined, but never another
 * pool's. Returns n (fewer with KVSLAB_PARTIAL). -ENOSPC: no page in the arena; -EDQUOT: the pool is at its
 * max; -ENOMEM: the system gave no memory for an extent; -EINVAL: n is 0 or above KVSLAB_BATCH_MAX, unknown flag
 * or id. All or nothing without PARTIAL.
 */
int kvslab_alloc(struct kvslab_pool *pool, uint32_t id, kvslab_handle *pages, uint32_t n, uint32_t flags);
/* Free private pages, drop one reference of each sealed one. All or nothing. -ESTALE: an old generation of
 * something that this client knows; -EBADF: not this client's. A handle may stand twice only as often as the
 * client holds references. */
int kvslab_free(struct kvslab_pool *pool, const kvslab_handle *pages, uint32_t n);
/* One more reference on each of n sealed pages that this client holds. All or nothing. -ESTALE; -EBADF, also for
 * private pages; -EOVERFLOW: 2^31 references to one page. */
int kvslab_get(struct kvslab_pool *pool, const kvslab_handle *pages, uint32_t n);

#define KVSLAB_SEAL_ROOT (1u << 0) /* the page is the first of its chain: parent is not looked for */

struct kvslab_seal {
	kvslab_handle page; /* in: private; out: the sealed page that holds this content, maybe another's */
	struct kvslab_hash hash;
	struct kvslab_hash parent; /* of the page before it, which this client must hold (or seal in this call) */
	uint32_t depth; /* pages before it in its chain */
	uint8_t priority; /* 0 .. KVSLAB_PRIORITIES - 1 */
	uint8_t flags;
	uint16_t reserved; /* 0 */
};

/*
 * Make n private pages of one cache read-only and findable under their hashes. Where a hash is there already, page
 * is replaced by that one, the caller's reference moves to it and the duplicate is freed. -ENOENT: a parent that the
 * client does not hold; -EBUSY: a page is pinned; -EINVAL: pages of two caches, priority, flags, reserved; -EDQUOT,
 * -ENOSPC: a limit forbids the reference to a cached page with this hash; -ENOMEM, -ESTALE, -EBADF. All or nothing.
 */
int kvslab_seal(struct kvslab_pool *pool, struct kvslab_seal *seals, uint32_t n);
/* References the longest run of hashes[0..n) of cache @id that is present. Returns its length; may be 0. */
int kvslab_lookup(struct kvslab_pool *pool, uint32_t id, const struct kvslab_hash *hashes, uint32_t n,
		  kvslab_handle *pages);

/* Where a page is in memory; NULL if the handle is not this client's. The pointers are valid while the client
 * holds the page. The writable one only while it is private. No call to the kernel: of a node's pages the library keeps
 * a table of what the client holds, which is right as long as all its calls go through the library. */
void *kvslab_page_rw(struct kvslab_pool *pool, kvslab_handle page);
const void *kvslab_page_ro(struct kvslab_pool *pool, kvslab_handle page);

struct kvslab_stat {
	/* pages by state, in slabs of this pool */
	uint64_t free, private_pages, moving, sealed, cached, quarantined;
	uint64_t slabs, extents; /* extents of memory held by this pool, in use or cached */
	uint64_t held; /* extents that count against max */
	uint64_t min, max; /* extents */
	uint64_t arena_extents, arena_free;
	uint64_t clients;
	/* Shares of the bytes of this pool's extents, 0..1; their sum is the fragmentation. */
	double frag_partial, frag_tail, frag_quarantine;
	/* counts since the pool was opened, in pages */
	uint64_t allocs, frees, seals, seal_duplicates, lookups, lookup_hits, evictions, takeovers;
	uint64_t lookup_asked; /* hashes asked for */
	uint64_t failed; /* allocs that ended with an error for want of memory */
	uint64_t pressure; /* 1: held rose above the high watermark, and is not back at the low one */
};

int kvslab_stat(struct kvslab_pool *pool, struct kvslab_stat *stat);
/* A slab, and its pages by state. */
struct kvslab_slab {
	uint32_t extent; /* of the arena */
	uint32_t pages, free, private_pages, moving, sealed, cached, quarantined;
};

/* The pool's slabs in the order of their extents, from extent *@from on; how many were written, at most @n. *@from
 * becomes where to go on; 0: that was all. Each slab is right at some moment of the call. -EINVAL; of a pool in the
 * kernel, also what ioctl(2) says. */
int kvslab_slabs(struct kvslab_pool *pool, uint32_t *from, struct kvslab_slab *slabs, uint32_t n);
/* Walks every structure of the pool and its arena. 0, or -EUCLEAN with the broken rule in @why[n]. Stops the
 * pool's other clients meanwhile. Slow; for tests. Of a node it compares what the module says with what the library
 * believes that this client holds; the module's own walk is in debugfs. */
int kvslab_pool_check(struct kvslab_pool *pool, char *why, size_t n);

/*
 * Events, of each client. A scheduler takes those of its client itself, in each step: whoever has one only waits for
 * the descriptor.
 *
 *   ROOM      an alloc of this client failed with -ENOSPC or -EDQUOT, something became free since, and it is this
 *             client's turn. The next one is told when this one has allocated: who no longer wants the room allocates
 *             a page and frees it
 *   PRESSURE  the extents held rose above the high watermark: admit less
 *   RELIEF    they are back at the low one
 *   DEAD      the pool was destroyed by force
 */
#define KVSLAB_EVENT_ROOM (1u << 0)
#define KVSLAB_EVENT_PRESSURE (1u << 1)
#define KVSLAB_EVENT_RELIEF (1u << 2)
#define KVSLAB_EVENT_DEAD (1u << 3)

/* A descriptor for poll(): POLLIN while the client has an event. The pool's: not to be read or closed. The same at each
 * call. What eventfd(2) says. */
int kvslab_pool_fd(struct kvslab_pool *pool);
/* The events since the last call, or a negative errno; they are forgotten. */
int kvslab_pool_events(struct kvslab_pool *pool);

/* ---- geometry ---- */

enum kvslab_kv_type {
	KVSLAB_KV_F16 = 1,
	KVSLAB_KV_F32 = 2,
};

#define KVSLAB_GROUPS_MAX 64

/*
 * A page holds page_tokens tokens of one layer group, as [layer][K,V][kv_head][token][head_dim]. A block is
 * page_tokens tokens: `groups` pages. Bytes throughout.
 */
struct kvslab_geometry {
	uint32_t layers, kv_heads, head_dim; /* in */
	enum kvslab_kv_type kv_type; /* in */
	uint32_t page_tokens; /* in: 0 to choose; out */
	uint32_t groups; /* layer groups; layers / groups layers each */
	uint32_t layers_per_group;
	uint32_t page_size; /* a multiple of the frame */
	uint32_t pages_per_slab;
	uint32_t head_stride, v_offset, layer_stride;
	uint64_t token_bytes; /* of KV for one token, all layers */
	double waste; /* of an extent: rounding and tail */
};

/* Fill in the rest. -EINVAL: a zero or absurd count; -E2BIG: even one token of one layer exceeds an extent, or
 * page_tokens does. The choice: the fewest groups for which a count in 8..32 wastes at most 1/20 of an extent,
 * then the count with the least waste. */
int kvslab_geometry_init(struct kvslab_geometry *geometry);

/* ---- sequences ---- */

/* What the sequences of one model in one pool share: cache, geometry and the root of the hash chain. A kv, its
 * sequences, its scheduler and its client of the pool are used by one thread at a time. */
struct kvslab_kv;

struct kvslab_kv_opts {
	struct kvslab_geometry geometry;
	uint8_t model_digest[KVSLAB_HASH_SIZE]; /* of the weights */
	const void *rope; /* whatever else changes keys: rope base, scaling */
	size_t rope_size;
};

/* The pool must outlive it, and it its sequences. -EINVAL: a geometry whose numbers contradict each other; -ENOMEM, and
 * what kvslab_cache_open says. */
int kvslab_kv_open(struct kvslab_kv **kv, struct kvslab_pool *pool, const struct kvslab_kv_opts *opts);
void kvslab_kv_close(struct kvslab_kv *kv);
const struct kvslab_geometry *kvslab_kv_geometry(const struct kvslab_kv *kv);

struct kvslab_seq;

/*
 * A sequence: tokens [0, length) known, [0, allocated) with a page, [0, committed) computed and in it;
 * committed <= allocated always, and both are 0 without pages; allocated is a multiple of page_tokens and may exceed
 * length. Full committed blocks are sealed as they fill. @salt separates prefixes of
 * those who must not see each other's timing; may be NULL.
 */
int kvslab_seq_open(struct kvslab_seq **seq, struct kvslab_kv *kv, const void *salt, size_t salt_size);
void kvslab_seq_close(struct kvslab_seq *seq);

uint32_t kvslab_seq_length(const struct kvslab_seq *seq);
uint32_t kvslab_seq_committed(const struct kvslab_seq *seq);
uint32_t kvslab_seq_allocated(const struct kvslab_seq *seq);
uint32_t kvslab_seq_sealed(const struct kvslab_seq *seq); /* tokens in sealed blocks: not to be written again */
const uint32_t *kvslab_seq_tokens(const struct kvslab_seq *seq);
/* Base addresses of the pages of layer group @group, one a block, valid until the next call that changes the
 * sequence. The writable table holds NULL where a page is sealed. */
const void *const *kvslab_seq_pages_ro(const struct kvslab_seq *seq, uint32_t group);
void *const *kvslab_seq_pages_rw(const struct kvslab_seq *seq, uint32_t group);

int kvslab_seq_append(struct kvslab_seq *seq, const uint32_t *tokens, uint32_t n); /* -ENOMEM, -EINVAL */
/* On a sequence without pages (else -EINVAL): take over the longest run of whole blocks of its tokens that the pool
 * has. Returns the tokens found; committed and allocated become that. All tokens may be found: to have logits of the
 * last one compute it again, with KVSLAB_ROW_STORED. */
int kvslab_seq_match(struct kvslab_seq *seq);
/* Pages for the first @tokens tokens. All or nothing: -ENOSPC, -EDQUOT, -ENOMEM. */
int kvslab_seq_reserve(struct kvslab_seq *seq, uint32_t tokens);
/* The first @tokens tokens are now in the pages; seals the blocks that became full. Pages in the tables may then be
 * others, with the same content. A block that the pool cannot seal for now (-EBUSY, -ENOMEM, -ENOSPC, -EDQUOT) stays
 * private and is tried again at the next commit; that is no error. -EINVAL: beyond allocated or length. */
int kvslab_seq_commit(struct kvslab_seq *seq, uint32_t tokens);
/* Forget tokens from @tokens on, and give back the blocks behind. Within a sealed block its page is copied so that it
 * can be written again; without room for the copy, committed falls to the block's start. -EINVAL: beyond length. */
int kvslab_seq_truncate(struct kvslab_seq *seq, uint32_t tokens);
/* Give all pages back, keep the tokens: committed = allocated = 0. */
void kvslab_seq_release(struct kvslab_seq *seq);
/* A second sequence with the same tokens, committed as far. Sealed blocks are shared, private ones (the last partial
 * one, as a rule) are copied. -ENOSPC, -EDQUOT, -ENOMEM. */
int kvslab_seq_fork(struct kvslab_seq *seq, struct kvslab_seq **child);

/* ---- executor ---- */

#define KVSLAB_ROW_LOGITS (1u << 0) /* sample (or score) after this row */
#define KVSLAB_ROW_STORED (1u << 1) /* its keys and values are in a sealed page already: do not write them */

struct kvslab_sampling { /* all zero: greedy */
	float temperature;
	float top_p; /* 0 or >= 1: all */
	uint32_t top_k; /* 0: all */
	uint32_t choice;
	uint64_t seed;
	float min_p; /* 0: all; else tokens at least this share as likely as the likeliest; at most 1 */
	/* Of tokens of prompt or answer: logits above 0 are divided by it, others multiplied; 0 or 1: none. */
	float repetition_penalty;
	/* Taken off the logits of tokens of the answer: once, and for each time that they stand there. */
	float presence_penalty, frequency_penalty;
	/* Added to the logits of these tokens; both [n_bias]. */
	const uint32_t *bias_tokens;
	const float *bias;
	uint32_t n_bias;
};

#define KVSLAB_TOP_MAX 20

struct kvslab_top {
	uint32_t token;
	float logprob;
};

struct kvslab_row {
	uint32_t token, pos;
	uint32_t flags;
	int32_t target; /* with ROW_LOGITS: id whose log probability is wanted, or -1 for that of the drawn one */
	/* results of rows with ROW_LOGITS */
	int32_t result; /* token drawn, or a negative errno (-EDOM: a value is not finite) */
	float logprob;
	float *logits; /* in: NULL, or room for all of them */
	/* in: room for the n_top likeliest tokens (at most KVSLAB_TOP_MAX), likeliest first */
	struct kvslab_top *top;
	uint32_t n_top;
};

/* Rows of one sequence in a batch, at consecutive positions. */
struct kvslab_run {
	struct kvslab_row *rows;
	uint32_t n_rows;
	struct kvslab_sampling sampling;
	/* With penalties: the sequence's tokens to the last row's, the first n_prompt of them the prompt. */
	const uint32_t *tokens;
	uint32_t n_prompt;
	/* [group]: tables of page addresses, indexed by pos / page_tokens */
	const void *const *pages_ro[KVSLAB_GROUPS_MAX];
	void *const *pages_rw[KVSLAB_GROUPS_MAX];
};

struct kvslab_batch {
	struct kvslab_run *runs;
	uint32_t n_runs;
	int error; /* out: of the batch as a whole */
};

struct kvslab_executor;

struct kvslab_executor_ops {
	/* Fills layers, kv_heads, head_dim; keeps what the caller set. */
	void (*geometry)(struct kvslab_executor *ex, struct kvslab_geometry *geometry);
	/* Start a batch; it and what it points to stay untouched until completed. -EBUSY: one is running;
	 * -E2BIG: more rows, or a position further, than the executor takes. */
	int (*submit)(struct kvslab_executor *ex, struct kvslab_batch *batch);
	/* The batch that finished, or NULL: none yet (with @wait false), or none running. */
	struct kvslab_batch *(*complete)(struct kvslab_executor *ex, bool wait);
	/* Copy a page, from its read address to its write address. */
	void (*copy)(struct kvslab_executor *ex, void *dst, const void *src, size_t size);
	void (*close)(struct kvslab_executor *ex);
};

struct kvslab_executor {
	const struct kvslab_executor_ops *ops;
	uint32_t max_rows; /* of a batch */
	uint32_t max_runs;
	uint32_t context; /* positions */
	uint32_t vocab;
};

/* ---- scheduler ---- */

struct kvslab_sched;
struct kvslab_request;

enum kvslab_finish {
	KVSLAB_FINISH_NONE, /* not finished */
	KVSLAB_FINISH_STOP, /* a stop token */
	KVSLAB_FINISH_LENGTH, /* max_tokens, or the context's end */
	KVSLAB_FINISH_CANCEL,
	KVSLAB_FINISH_ERROR, /* see error */
};

struct kvslab_request_opts {
	const uint32_t *tokens; /* the prompt; copied */
	uint32_t n_tokens; /* at least 1 */
	uint32_t max_tokens; /* to generate, at least 1; with score_prompt at least 0 */
	const uint32_t *stop; /* ids that end it and are not given out; copied */
	uint32_t n_stop;
	uint32_t min_tokens; /* before so many, ids of stop are not drawn */
	uint8_t priority; /* 0..7, higher first */
	struct kvslab_sampling sampling; /* copied */
	const void *salt;
	size_t salt_size;
	uint32_t n_top; /* for kvslab_request_top(); at most KVSLAB_TOP_MAX */
	/* Compute all of the prompt, and tell by on_score how likely each of its tokens but the first was. */
	bool score_prompt;
	void (*on_score)(struct kvslab_request *request, uint32_t pos, float logprob, void *data);
	/* Called from kvslab_sched_step (on_done also from cancel and close), in the caller's thread. They may add,
	 * fork and cancel requests, in on_done also fork the one that ended; not step (-EBUSY) or close the scheduler. */
	void (*on_token)(struct kvslab_request *request, uint32_t token, float logprob, void *data);
	void (*on_done)(struct kvslab_request *request, void *data); /* the last call; request is gone after it */
	void *data;
};

struct kvslab_request_info {
	enum kvslab_finish finish;
	int error; /* negative errno with FINISH_ERROR */
	uint32_t prompt_tokens, completion_tokens;
	uint32_t cached_tokens; /* of the prompt: not computed, at its first admission */
	uint32_t preemptions;
	uint64_t t_added, t_first, t_last; /* CLOCK_MONOTONIC ns; t_first, t_last of the tokens, 0: none yet */
};

struct kvslab_sched_opts {
	struct kvslab_kv *kv;
	struct kvslab_executor *executor;
	uint32_t max_batch; /* sequences running at once; 0: 32 */
	uint32_t step_tokens; /* rows of a step; 0: 512 */
	uint32_t chunk_tokens; /* prefill rows of one request in a step; 0: step_tokens */
	bool no_prefix; /* do not look prefixes up (nor find them) */
};

/* kv and executor must outlive it. max_batch is lowered to the executor's runs and to the rows of a step, since each
 * running sequence has a row in each. -EBUSY: kv has a scheduler already; -EINVAL: the executor is of another model;
 * -ENOMEM. */
int kvslab_sched_open(struct kvslab_sched **sched, const struct kvslab_sched_opts *opts);
/* Waits for the executor, cancels what is left. */
void kvslab_sched_close(struct kvslab_sched *sched);
/*
 * -EINVAL: empty prompt, id beyond the vocabulary, sampling that is not finite or beyond its limits; -EMSGSIZE: prompt longer than the context; -EFBIG: the prompt could
 * never fit into the pool, even alone; -ESHUTDOWN: the scheduler is closing; -ENODEV: the pool was destroyed; -ENOMEM. max_tokens is not counted: an
 * answer that outgrows the context, or the pool with nobody else in it, ends with FINISH_LENGTH there. @request may
 * be NULL.
 */
int kvslab_sched_add(struct kvslab_sched *sched, const struct kvslab_request_opts *opts,
		     struct kvslab_request **request);
/* In any state. on_done follows before it returns; from a callback, after that; while a batch with it runs, at the end of
 * the step. */
void kvslab_sched_cancel(struct kvslab_sched *sched, struct kvslab_request *request);
/* A second request that goes on from where @request is, with its own sampling, limit and callbacks (opts' tokens, salt
 * and score_prompt are ignored): what @request has so far is its prompt. It shares the pages and runs at once if there is a place and
 * nobody waits before it, else it waits in its turn. Before the first token it starts as a copy of the prompt. Errors
 * as kvslab_sched_add. */
int kvslab_sched_fork(struct kvslab_sched *sched, struct kvslab_request *request,
		      const struct kvslab_request_opts *opts, struct kvslab_request **child);
/*
 * One step: admit, pack, run, apply. Returns the rows that ran; 0: nothing to do; -EAGAIN: requests wait, none could
 * run, kvslab_sched_reason() says why (memory held by other clients of the pool). Nothing is held then: poll
 * kvslab_pool_fd() of the pool, for at most a fraction of a second, and step again. Also after a 0 step again when that
 * descriptor is ready: another client may wait for its turn behind this one. Waits for the executor.
 */
int kvslab_sched_step(struct kvslab_sched *sched);
const char *kvslab_sched_reason(const struct kvslab_sched *sched);
void kvslab_request_info(const struct kvslab_request *request, struct kvslab_request_info *info);
const uint32_t *kvslab_request_tokens(const struct kvslab_request *request, uint32_t *n); /* prompt and answer */
/* In on_token and on_score: the @n likeliest tokens at that place, likeliest first; valid until it returns. */
const struct kvslab_top *kvslab_request_top(const struct kvslab_request *request, uint32_t *n);

struct kvslab_sched_stat {
	uint64_t steps, rows, prefill_rows, decode_rows;
	uint64_t preemptions, finished, cancelled, failed;
	uint64_t prefix_queries, prefix_hits; /* tokens, at the first admission of each request */
	uint32_t running, waiting;
	bool pressure; /* the pool's: admission leaves room for those that run, chunks are smaller */
	uint64_t allocated_tokens, unused_tokens; /* of running sequences; internal waste is their ratio */
};

void kvslab_sched_stat(const struct kvslab_sched *sched, struct kvslab_sched_stat *stat);

/* ---- event loop ---- */

/*
 * One thread's sockets, timers and wake-ups: on one io_uring, or on epoll where that is refused. A host with a loop of
 * its own waits for kvslab_loop_fd() in it and then calls kvslab_loop_step(loop, 0).
 */
struct kvslab_loop;

enum kvslab_loop_kind {
	KVSLAB_LOOP_AUTO, /* io_uring if there is one, else epoll */
	KVSLAB_LOOP_URING,
	KVSLAB_LOOP_EPOLL,
};

/* What open(2), io_uring_setup(2) or epoll_create1(2) says; -EOPNOTSUPP: an io_uring of a kernel before 5.19. */
int kvslab_loop_open(struct kvslab_loop **loop, enum kvslab_loop_kind kind);
/* What runs on it is closed before. */
void kvslab_loop_close(struct kvslab_loop *loop);
enum kvslab_loop_kind kvslab_loop_kind(const struct kvslab_loop *loop); /* never AUTO */
/* Readable (POLLIN) when a step has something to do. The loop's; the same at each call. */
int kvslab_loop_fd(const struct kvslab_loop *loop);
/*
 * Do what is due, after waiting for at most @timeout_ms (0: not at all, -1: for ever) if nothing is. Returns how many
 * events there were, or a negative errno; -EBUSY: called from within a step.
 */
int kvslab_loop_step(struct kvslab_loop *loop, int timeout_ms);

#ifdef __cplusplus
}
#endif
#endif
