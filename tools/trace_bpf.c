// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Loading and attaching. Links are never pinned: they go with this process, however it ends. */
#ifdef KVSLAB_TRACE
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "frag.skel.h"
#include "latency.skel.h"
#include "leaks.skel.h"
#include "lifetime.skel.h"
#include "msg.h"
#include "pool.h"
#include "prefix.skel.h"
#include "bpf/maps.h"
#include "trace.h"
#include "trace_names.h"

#define CAP_SYS_ADMIN 21
#define CAP_PERFMON 38
#define CAP_BPF 39

static int quiet(enum libbpf_print_level level, const char *fmt, va_list args)
{
	(void)level, (void)fmt, (void)args;
	return 0;
}

static const void *bytes_of(enum trace_what what, size_t *n)
{
	switch (what) {
	case TRACE_FRAG:
		return kvbpf_frag__elf_bytes(n);
	case TRACE_LATENCY:
		return kvbpf_latency__elf_bytes(n);
	case TRACE_LIFETIME:
		return kvbpf_lifetime__elf_bytes(n);
	case TRACE_LEAKS:
		return kvbpf_leaks__elf_bytes(n);
	default:
		return kvbpf_prefix__elf_bytes(n);
	}
}

/* The capabilities that are in effect, 0 if they cannot be told. */
static uint64_t capabilities(void)
{
	unsigned long long caps = 0;
	char line[256];
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "CapEff: %llx", &caps) == 1)
			break;
	if (f)
		fclose(f);
	return caps;
}

const char *trace_lacks(void)
{
	uint64_t caps = capabilities();
	bool bpf, perfmon;

	if (caps >> CAP_SYS_ADMIN & 1)
		return NULL;
	bpf = caps >> CAP_BPF & 1;
	perfmon = caps >> CAP_PERFMON & 1;
	if (bpf && perfmon)
		return NULL;
	return bpf ? "CAP_PERFMON" : perfmon ? "CAP_BPF" : "CAP_BPF and CAP_PERFMON";
}

static int failed(char *why, size_t n, const char *doing, const char *name, int err)
{
	if (err == -EPERM || err == -EACCES)
		snprintf(why, n, "%s %s: the kernel refuses it; it may be locked down, or memlock too low",
			 doing, name);
	else if (err == -ENOENT)
		snprintf(why, n,
			 "%s %s: the module has no such tracepoint; install module and command of the same release",
			 doing, name);
	else
		snprintf(why, n, "%s %s: %s; the programs need Linux 6.1 or later with BPF", doing, name,
			 strerror(-err));
	return err;
}

static int attach(struct trace_loaded *l, char *why, size_t n)
{
	struct bpf_program *program;
	struct bpf_link *link;
	int err;

	bpf_object__for_each_program(program, l->object)
	{
		if (l->n == TRACE_LINKS)
			return failed(why, n, "attaching", bpf_program__name(program), -E2BIG);
		link = bpf_program__attach(program);
		err = libbpf_get_error(link);
		if (err)
			return failed(why, n, "attaching", bpf_program__name(program), err);
		l->links[l->n++] = link;
	}
	return 0;
}

static int open_object(struct trace_loaded *l, enum trace_what what, char *why, size_t n)
{
	const void *elf;
	size_t size;
	int err;

	memset(l, 0, sizeof(*l));
	libbpf_set_print(quiet);
	elf = bytes_of(what, &size);
	l->object = bpf_object__open_mem(elf, size, NULL);
	err = libbpf_get_error(l->object);
	if (!err)
		return 0;
	l->object = NULL;
	return failed(why, n, "opening", trace_names[what], err);
}

/* Maps by window (bpf/maps.h) have to take all extents of the arena; a page of less than 32 KiB makes more than one of
 * an extent, of which there is room for two on average. */
static void size_windows(struct bpf_object *object)
{
	static const char *const names[] = { "born", "privates" };
	uint64_t extents = pool_arena_extents(), windows;
	struct bpf_map *map;
	size_t i;

	windows = extents > 1 << 19 ? 1 << 20 : 2 * extents;
	for (i = 0; i < sizeof(names) / sizeof(*names); i++) {
		map = bpf_object__find_map_by_name(object, names[i]);
		if (map && windows)
			bpf_map__set_max_entries(map, windows < 1024 ? 1024 : (uint32_t)windows);
	}
}

int trace_load(struct trace_loaded *l, enum trace_what what, char *why, size_t n)
{
	int err = open_object(l, what, why, n);

	if (err)
		return err;
	size_windows(l->object);
	err = bpf_object__load(l->object);
	if (err)
		failed(why, n, "loading", trace_names[what], err);
	else
		err = attach(l, why, n);
	if (err)
		trace_unload(l);
	return err;
}

static int version_of(const char *folder)
{
	struct bpf_map_info info = { 0 };
	uint32_t size = sizeof(info);
	char path[300];
	int fd, err;

	snprintf(path, sizeof(path), "%s/version", folder);
	fd = bpf_obj_get(path);
	if (fd < 0)
		return -errno;
	err = bpf_obj_get_info_by_fd(fd, &info, &size);
	close(fd);
	return err ? -errno : (int)info.max_entries;
}

/* @map stands for the one that is pinned. */
static int stand_for(struct bpf_map *map, const char *folder)
{
	struct bpf_map_info info = { 0 };
	uint32_t size = sizeof(info);
	char path[300];
	int fd, err;

	snprintf(path, sizeof(path), "%s/%s", folder, bpf_map__name(map));
	fd = bpf_obj_get(path);
	if (fd < 0)
		return -errno;
	err = bpf_obj_get_info_by_fd(fd, &info, &size) ? -errno : 0;
	if (!err && (info.key_size != bpf_map__key_size(map) || info.value_size != bpf_map__value_size(map)))
		err = -EPROTO;
	if (!err)
		err = bpf_map__reuse_fd(map, fd);
	close(fd);
	return err;
}

int trace_from(struct trace_loaded *l, enum trace_what what, const char *folder, char *why, size_t n)
{
	int err = open_object(l, what, why, n), version = err ? 0 : version_of(folder);
	struct bpf_map *map;

	if (err)
		return err;
	if (version < 0) {
		snprintf(why, n, "%s/version: %s; give a folder in which the maps of %s.bpf.o are pinned", folder,
			 strerror(-version), trace_names[what]);
		err = version;
	} else if (version != KVB_VERSION) {
		snprintf(why, n,
			 "the maps in %s are of version %d, this command reads version %d; take the command and "
			 "the programs of one release",
			 folder, version, KVB_VERSION);
		err = -EPROTO;
	}
	bpf_object__for_each_map(map, l->object)
	{
		if (err)
			break;
		if (bpf_map__is_internal(map))
			continue;
		err = stand_for(map, folder);
		if (err)
			snprintf(why, n, "%s/%s: %s; give a folder in which the maps of %s.bpf.o are pinned", folder,
				 bpf_map__name(map),
				 err == -EPROTO ? "it is not what this command knows by that name" : strerror(-err),
				 trace_names[what]);
	}
	if (err)
		trace_unload(l);
	return err;
}

void trace_unload(struct trace_loaded *l)
{
	while (l->n)
		bpf_link__destroy(l->links[--l->n]);
	bpf_object__close(l->object);
	l->object = NULL;
}

static int watch(struct trace_printer *p, const struct trace_opts *o)
{
	struct timespec wait = { .tv_sec = o->interval };
	sigset_t set, old;
	uint64_t i;
	int sig, status = 0;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, &old);
	msg("tracing %s; Ctrl-C ends it", trace_names[o->what]);
	for (i = 1;; i++) {
		sig = sigtimedwait(&set, NULL, &wait);
		if (trace_print(p)) {
			status = 1;
			break;
		}
		if (sig > 0 || i == o->count)
			break;
	}
	sigprocmask(SIG_SETMASK, &old, NULL);
	return status;
}

static int trace(const struct trace_opts *o, struct trace_names *names)
{
	struct trace_printer *p;
	struct trace_loaded l;
	char why[400];
	int status = 1, err;

	err = o->pinned ? trace_from(&l, o->what, o->pinned, why, sizeof(why)) :
			  trace_load(&l, o->what, why, sizeof(why));
	if (err) {
		msg("%s", why);
		return 1;
	}
	p = trace_printer_new(o, &l, names);
	if (p)
		status = watch(p, o);
	else
		msg("kvslab trace: %s", strerror(ENOMEM));
	trace_printer_free(p);
	trace_unload(&l);
	return status;
}

int trace_run(const struct trace_opts *given)
{
	struct trace_opts o = *given;
	struct trace_names names = { 0 };
	const char *lacks;
	int status;

	if (access(POOL_CONTROL, F_OK))
		return pool_told(-ENOTCONN, "kvslab trace");
	lacks = trace_lacks();
	if (lacks) {
		msg("kvslab trace needs %s; run it as root, or give it these capabilities", lacks);
		return 1;
	}
	trace_names_read(&names);
	if (o.pool && trace_name_find(&names, o.pool, &o.pool_id)) {
		pool_say_unknown(o.pool);
		trace_names_free(&names);
		return 1;
	}
	status = o.record ? trace_record(&o) : trace(&o, &names);
	trace_names_free(&names);
	return status;
}
#endif
