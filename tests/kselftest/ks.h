/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the kselftests share: TAP, pools, the module's commands, windows, faults that are caught,
 * children. Calls return 0, a count or a descriptor, or a negative errno, unless they say else.
 * Tests run as root in the guest, one at a time; what they leave behind fails them.
 */
#ifndef KS_H
#define KS_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvslab.h"

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;

#define FRAME 4096u
#define EXTENT KVSLAB_CMD_EXTENT
#define HASH KVSLAB_CMD_HASH
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- TAP ---- */

int ok(int good, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* For what the rest of the test stands on: ends it if it is not so. */
void must(int good, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void skip_all(const char *why) __attribute__((noreturn));
/* Destroys the pools that ks_pool() made, which must succeed, and prints the plan: main's value. */
int done(void);

u64 ks_seed(int argc, char **argv); /* printed, so that a failure can be repeated */
u64 rnd(u64 *state);
double ks_now(void); /* seconds */
bool ks_long(void); /* whether this is the long run */

/* ---- commands ---- */

/* How ks_cmd() of this thread gives its commands: as ioctl, or as an io_uring command. */
enum ks_via { KS_IOCTL, KS_RING };
extern __thread enum ks_via ks_via;
static const char *const ks_via_name[] = { "ioctl", "io_uring" };

long ks_ioctl(int fd, u32 op, const struct kvslab_cmd *cmd);
long ks_ring(int fd, u32 op, const struct kvslab_cmd *cmd);
long ks_cmd(int fd, u32 op, void *args, u32 size);

int ks_control(void); /* the control node's descriptor, kept open */
/* A pool and its node; sizes in bytes. */
int ks_pool(const char *name, u64 min, u64 max, u32 mode);
int ks_destroy(const char *name, u32 flags);
/* A pool by its name, or any node by its path. O_CLOEXEC is added to @flags. */
int ks_open(const char *name, int flags);

long ks_alloc(int fd, u32 cache, u64 *pages, u32 n, u32 flags);
long ks_free(int fd, const u64 *pages, u32 n);
long ks_get(int fd, const u64 *pages, u32 n);
long ks_seal(int fd, struct kvslab_seal_entry *seals, u32 n);
long ks_lookup(int fd, u32 cache, const u8 (*hashes)[HASH], u64 *pages, u32 n);
int ks_stat(int fd, struct kvslab_stat_pool *pool);
u32 ks_events(int fd); /* the events, 0 on error */
/* A hash out of two numbers. */
void ks_hash(u8 hash[HASH], u64 a, u64 b);
/* Seals @page, without a parent, under ks_hash(a, b); *page becomes the sealed page. */
long ks_seal_one(int fd, u64 *page, u64 a, u64 b);

/* ---- a client, with both windows on all of its arena ---- */

struct ks_client {
	int fd;
	struct kvslab_args_cache c;
	u8 *r, *w;
};

int ks_client(struct ks_client *k, const char *pool, u32 page_size);
void ks_close(struct ks_client *k);
u8 *ks_at(const struct ks_client *k, u8 *window, u64 page);
void *ks_map(int fd, u32 arena, u64 window, u64 offset, u64 size, int prot); /* NULL and errno */

/* Each word of a page says which page it is, for which writer. */
void ks_fill(void *page, u32 size, u64 mark);
bool ks_filled(const void *page, u32 size, u64 mark);

/* Whether the counts of a pool in which nothing moves add up; a note says what does not. */
bool ks_adds_up(int fd);

/* ---- faults and children ---- */

/* Touch a byte: 0, or the signal that it brought. */
int ks_read(const volatile void *p);
int ks_write(volatile void *p, u8 value);
/* copy, but a fault ends it: 0, or the signal. */
int ks_copy(void *to, const void *from, size_t n);

/* The number of the frame behind an address that has been touched, 0 if there is none. */
u64 ks_frame(const void *p);

/* A child that dies with its parent. What @run returns is its exit status. */
pid_t ks_child(int (*run)(void *), void *arg);
int ks_wait(pid_t pid); /* exit status, or 128 + signal */
/* Waits up to @seconds for a condition. */
bool ks_until(bool (*holds)(void *), void *arg, double seconds);

int ks_read_file(const char *path, char *text, size_t n); /* a length */
int ks_write_file(const char *path, const char *text);

/* The module's parameters and presence. */
int ks_load(const char *parameters);
int ks_unload(void);

#endif
