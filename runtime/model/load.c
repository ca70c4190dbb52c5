// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "load.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "cpu/workers.h"

#define HUGE_SIZE ((size_t)2 << 20)
#define PIECE ((size_t)4 << 20) /* bytes of a matrix that are repacked by one thread at a time */
#define TELL_NS 100000000l /* between two words on progress */

/* A part of the work: rows of a matrix, or (w NULL) a leaf of the digest. */
struct piece {
	const uint8_t *at; /* where in the file, for the order */
	size_t size;
	const struct load_weight *w;
	uint32_t r0, r1;
	uint64_t leaf;
};

struct load {
	const struct gguf *g;
	struct piece *pieces;
	size_t n, cap;
	uint8_t (*leaves)[32];
	uint64_t n_leaves;
	atomic_size_t next;
	atomic_ullong done; /* bytes */
	uint64_t total;
};

static int add_piece(struct load *l, const struct piece *p)
{
	struct piece *list;

	if (l->n == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 256;
		list = realloc(l->pieces, l->cap * sizeof(*list));
		if (!list)
			return -ENOMEM;
		l->pieces = list;
	}
	l->pieces[l->n++] = *p;
	l->total += p->size;
	return 0;
}

static int add_weight(struct load *l, const struct load_weight *w)
{
	size_t row = w->t->size / w->w->rows, step = PIECE / (row ? row : 1) / KERN_TILE_ROWS * KERN_TILE_ROWS;
	uint32_t rows = step < KERN_TILE_ROWS ? KERN_TILE_ROWS : step > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uint32_t)step, r;
	int err = 0;

	for (r = 0; r < w->w->rows && !err; r += rows) {
		uint32_t r1 = w->w->rows - r < rows ? w->w->rows : r + rows;

		err = add_piece(l, &(struct piece){ .at = (const uint8_t *)w->t->data + r * row, .size = (r1 - r) * row,
						    .w = w, .r0 = r, .r1 = r1 });
	}
	return err;
}

static int add_leaves(struct load *l)
{
	int err = 0;

	l->n_leaves = gguf_leaves(l->g);
	l->leaves = malloc(l->n_leaves * sizeof(*l->leaves));
	if (!l->leaves)
		return -ENOMEM;
	for (uint64_t i = 0; i < l->n_leaves && !err; i++) {
		struct piece p = { .leaf = i };

		p.at = gguf_leaf(l->g, i, &p.size);
		err = add_piece(l, &p);
	}
	return err;
}

static int by_place(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

static void work(void *arg, struct workers *w, uint32_t thread)
{
	struct load *l = arg;
	size_t i;

	(void)w;
	(void)thread;
	while ((i = atomic_fetch_add_explicit(&l->next, 1, memory_order_relaxed)) < l->n) {
		const struct piece *p = &l->pieces[i];

		if (p->w)
			kern_repack(p->w->w, p->w->t->data, p->w->map, p->r0, p->r1);
		else
			gguf_digest_leaf(l->g, p->leaf, l->leaves[p->leaf]);
		gguf_drop(l->g, p->at, p->size);
		atomic_fetch_add_explicit(&l->done, p->size, memory_order_relaxed);
	}
}

static int run(struct load *l, const struct model_opts *opts, struct model_error *e)
{
	const struct timespec pause = { .tv_nsec = TELL_NS };
	struct workers *w;
	int err = workers_open(&w, opts->threads);

	if (err)
		return model_fail(e, err, "cannot start %u threads to load the model: raise the limit on threads (ulimit -u) or ask for fewer",
				  opts->threads);
	workers_start(w, work, l);
	while (opts->progress && !workers_done(w, false)) {
		opts->progress(opts->data, atomic_load_explicit(&l->done, memory_order_relaxed), l->total);
		nanosleep(&pause, NULL);
	}
	workers_done(w, true);
	workers_close(w);
	if (opts->progress)
		opts->progress(opts->data, l->total, l->total);
	return 0;
}

static int map_bytes(struct load_map *map, size_t bytes, const struct model_opts *opts, uint8_t **start, struct model_error *e)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	size_t size = (bytes + HUGE_SIZE - 1) & ~(HUGE_SIZE - 1);
	double gib = (double)bytes / (1 << 30);
	struct rlimit limit;

	if (bytes > memory)
		return model_fail(e, -ENOMEM, "the weights need %.1f GiB, this machine has %.1f GiB of memory; use a smaller model or a smaller tensor type",
				  gib, (double)memory / (1 << 30));
	map->size = size + HUGE_SIZE;
	map->base = mmap(NULL, map->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map->base == MAP_FAILED) {
		map->base = NULL;
		return model_fail(e, -ENOMEM, "no address space for %.1f GiB of weights: raise the limit (ulimit -v) or use a smaller model", gib);
	}
	*start = (uint8_t *)(((uintptr_t)map->base + HUGE_SIZE - 1) & ~(HUGE_SIZE - 1));
	madvise(*start, size, MADV_HUGEPAGE);
	if (opts->lock && mlock(*start, bytes)) {
		int err = -errno;

		if (getrlimit(RLIMIT_MEMLOCK, &limit))
			limit.rlim_cur = 0;
		load_unmap(map);
		return model_fail(e, err, "%.1f GiB of weights cannot be locked in memory (%s); the limit is %.1f GiB: raise it (ulimit -l), or load them without locking (no --mlock)",
				  gib, strerror(-err), (double)limit.rlim_cur / (1 << 30));
	}
	return 0;
}

int load_weights(const struct gguf *g, const struct load_weight *list, uint32_t n, size_t bytes, struct load_map *map,
		 uint8_t digest[32], const struct model_opts *opts, struct model_error *e)
{
	struct load l = { .g = g };
	uint8_t *start = NULL;
	int err;

	err = map_bytes(map, bytes, opts, &start, e);
	if (err)
		return err;
	for (uint32_t i = 0; i < n && !err; i++) {
		list[i].w->data = start + list[i].offset;
		err = add_weight(&l, &list[i]);
	}
	err = err ? err : add_leaves(&l);
	if (err) {
		model_fail(e, err, "no memory for the list of %u tensors", n);
		goto out;
	}
	qsort(l.pieces, l.n, sizeof(*l.pieces), by_place);
	err = run(&l, opts, e);
	if (!err)
		gguf_digest_root((const uint8_t(*)[32])l.leaves, l.n_leaves, digest);
out:
	free(l.pieces);
	free(l.leaves);
	if (err)
		load_unmap(map);
	return err;
}

void load_unmap(struct load_map *map)
{
	if (map->base)
		munmap(map->base, map->size);
	map->base = NULL;
}
