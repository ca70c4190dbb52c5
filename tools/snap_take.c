// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "snap_take.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int snap_ready(const char *only)
{
	struct pool_view v = { 0 };
	int err = 0;

	if (access(POOL_CONTROL, F_OK)) {
		pool_told(-ENOTCONN, "");
		return -ENOTCONN;
	}
	if (only)
		err = pool_look(&v, only);
	pool_view_free(&v);
	return err;
}

static uint64_t ns_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void say_missing(struct snap *s, const char *name, int err)
{
	size_t n = strlen(s->missing);

	snprintf(s->missing + n, sizeof(s->missing) - n, "%s%s: %s", n ? "; " : "", name,
		 err == -EACCES || err == -EPERM ? "permission denied" : strerror(-err));
}

static int take_one(struct snap *s, const char *name)
{
	struct snap_pool *p = &s->pools[s->n];
	int err;

	memset(p, 0, sizeof(*p));
	err = pool_read(&p->v, name, true);
	if (err == -ENOENT || err == -ENXIO || err == -ENODEV) { /* it ended meanwhile */
		pool_view_free(&p->v);
		return 0;
	}
	if (err) {
		pool_view_free(&p->v);
		if (err != -ENOMEM)
			say_missing(s, name, err);
		return err == -ENOMEM ? err : 0;
	}
	s->n++;
	/* There is memory of the host alone. */
	p->tiers = calloc(p->v.nr_caches + 1, sizeof(*p->tiers));
	p->traces = calloc(p->v.nr_caches + 1, sizeof(*p->traces));
	return p->tiers && p->traces ? 0 : -ENOMEM;
}

int snap_take(struct snap *s, const char *only)
{
	char **names, *one[2] = { (char *)(uintptr_t)only, NULL };
	size_t n = 0, i;
	int err = 0;

	memset(s, 0, sizeof(*s));
	s->time = ns_of(CLOCK_REALTIME);
	s->mono = ns_of(CLOCK_MONOTONIC);
	names = only ? one : pool_names();
	while (names && names[n])
		n++;
	s->pools = calloc(n + 1, sizeof(*s->pools));
	if (!s->pools)
		err = -ENOMEM;
	for (i = 0; i < n && !err; i++)
		err = take_one(s, names[i]);
	if (!only)
		pool_names_free(names);
	if (err)
		snap_free(s);
	return err;
}

#ifndef KVSLAB_TRACE
struct snap_counts *snap_counts_open(uint32_t which, char *why, size_t n)
{
	(void)which;
	snprintf(why, n, "no rates of caches: this command was built without eBPF");
	return NULL;
}

void snap_counts_read(const struct snap_counts *c, struct snap *s)
{
	(void)c, (void)s;
}

void snap_counts_close(struct snap_counts *c)
{
	(void)c;
}
#endif
