/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * What the pool's speed is measured against: a free list of pages that does no less than a careful
 * engine's own would. First in, first out on a doubly linked list, one lock, handles with a
 * generation, and a batch that is checked whole (state, generation, duplicates) before anything
 * changes. It has no slabs, no clients, no sharing. Any thread.
 */
#ifndef TOOLS_BENCH_LIST_H
#define TOOLS_BENCH_LIST_H

#include <stdint.h>

struct bench_list;

/* NULL: no memory. @pages below 2^28. */
struct bench_list *bench_list_open(uint32_t pages);
void bench_list_close(struct bench_list *l);
/* n, or -ENOSPC and nothing taken. */
int bench_list_alloc(struct bench_list *l, uint64_t *pages, uint32_t n);
/* 0, or -EBADF, -ESTALE and nothing freed. */
int bench_list_free(struct bench_list *l, const uint64_t *pages, uint32_t n);
uint32_t bench_list_count(struct bench_list *l); /* free pages */

#endif
