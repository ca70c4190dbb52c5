/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* Snapshots of the pools in the kernel, with what BPF programs count beside them where that may be. */
#ifndef TOOLS_SNAP_TAKE_H
#define TOOLS_SNAP_TAKE_H

#include "snap.h"

/* 0, or told and -errno: whether there is a module, and the pool @only if it is not NULL. */
int snap_ready(const char *only);
/* All pools that may be opened, or @only. s->missing says which could not. 0 or -ENOMEM. */
int snap_take(struct snap *s, const char *only);

/* Programs of bpf/, attached for as long as this lives. */
struct snap_counts;
/* @which: SNAP_FRAG, SNAP_PREFIX, or both. NULL, with a reason in @why, where they cannot be had. */
struct snap_counts *snap_counts_open(uint32_t which, char *why, size_t n);
/* What they have counted, into @s. NULL is no counts, nothing is done. */
void snap_counts_read(const struct snap_counts *c, struct snap *s);
void snap_counts_close(struct snap_counts *c);

#endif
