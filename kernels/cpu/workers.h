/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * N threads that run one function together, with barriers inside it. Each is pinned to a core while there are as
 * many cores as threads, and has MXCSR at its default. Waiting spins for at most 20 us, then sleeps on a futex.
 */
#ifndef KERNELS_WORKERS_H
#define KERNELS_WORKERS_H

#include <stdbool.h>
#include <stdint.h>

struct workers;

typedef void (*workers_fn)(void *arg, struct workers *w, uint32_t thread);

int workers_open(struct workers **w, uint32_t threads); /* 0: the cores that this process may run on */
void workers_close(struct workers *w);
uint32_t workers_count(const struct workers *w);
/* Every thread calls fn once. One at a time; returns at once. */
void workers_start(struct workers *w, workers_fn fn, void *arg);
/* All have returned. With @wait, waits for that. */
bool workers_done(struct workers *w, bool wait);
/* Called by all of them inside fn: nobody goes on before all are here. */
void workers_barrier(struct workers *w);
/* Called by all: this thread's contiguous part of [0, total), cut at multiples of @grain. */
void workers_split(const struct workers *w, uint32_t thread, uint32_t total, uint32_t grain, uint32_t *lo, uint32_t *hi);

#endif
