/* SPDX-License-Identifier: GPL-2.0 */
/* What the tests of device memory share: dma-bufs from the test exporter or the kernel's own, and the
 * commands for arenas. Calls return 0, a count or a descriptor, or a negative errno. */
#ifndef DEV_H
#define DEV_H

#include "exporter/exporter.h"
#include "ks.h"

/* The test exporter is loaded, for this process and its children; -ENOENT: it is not there. */
int dev_exporter(void);
int dev_exporter_gone(void); /* unloaded again */
int dev_buf(u64 size, int keep); /* a dma-buf that keeps a file, or -1 */
struct exporter_count dev_count(void);
int dev_revoke(void);

int dev_pool(const char *name, u64 max, u64 device_max);
int dev_set_max(const char *name, u64 device_max);
/* An arena's number. */
long dev_import(int fd, int buf, const char *note);
long dev_cache(int fd, u32 arena, u32 page_size, struct kvslab_args_cache *c);
long dev_deposit(int fd, u32 arena, int file);
long dev_receive(int fd, u32 arena);
/* How many arenas the pool has; as many as fit are written. */
int dev_arenas(int fd, struct kvslab_stat_arena *out, u32 n);
bool dev_arena(int fd, u32 arena, struct kvslab_stat_arena *out);
/* Its debug walk's word: "ok", or what is broken. */
const char *dev_walk(void);

#endif
