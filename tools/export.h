/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* kvslab export: its parts. */
#ifndef TOOLS_EXPORT_H
#define TOOLS_EXPORT_H

#include "prom.h"

/* export_stat.c: what the module says of the pools that may be opened. 0, or -ENOMEM. */
int export_stat(struct prom *p);

/* export_trace.c: what the BPF programs have counted since export_trace_open(). */
struct export_trace;
/* NULL, and @why: there is nothing to be had, or no memory. @age: seconds that a page is held before it is told of. */
struct export_trace *export_trace_open(uint32_t age, char *why, size_t n);
/* 0 or -errno. */
int export_trace(const struct export_trace *t, struct prom *p);
void export_trace_close(struct export_trace *t);

#endif
