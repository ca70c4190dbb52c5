// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Loading and attaching. Links are never pinned: they go with this process, however it ends. */
#ifdef KVSLAB_TRACE
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
#include "trace.h"

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
		return kvb_frag__elf_bytes(n);
	case TRACE_LATENCY:
		return kvb_latency__elf_bytes(n);
	case TRACE_LIFETIME:
		return kvb_lifetime__elf_bytes(n);
	case TRACE_LEAKS:
		return kvb_leaks__elf_bytes(n);
	default:
		return kvb_prefix__elf_bytes(n);
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

int trace_load(struct trace_loaded *l, enum trace_what what, char *why, size_t n)
{
	const void *elf;
	size_t size;
	int err;

	memset(l, 0, sizeof(*l));
	libbpf_set_print(quiet);
	elf = bytes_of(what, &size);
	l->object = bpf_object__open_mem(elf, size, NULL);
	err = libbpf_get_error(l->object);
	if (err) {
		l->object = NULL;
		return failed(why, n, "opening", trace_names[what], err);
	}
	err = bpf_object__load(l->object);
	if (err)
		failed(why, n, "loading", trace_names[what], err);
	else
		err = attach(l, why, n);
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

static int watch(const struct trace_opts *o, const struct bpf_object *object)
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
		if (trace_print(o, object)) {
			status = 1;
			break;
		}
		if (sig > 0 || i == o->count)
			break;
	}
	sigprocmask(SIG_SETMASK, &old, NULL);
	return status;
}

int trace_run(const struct trace_opts *given)
{
	struct trace_opts o = *given;
	struct pool_view view = { 0 };
	struct trace_loaded l;
	const char *lacks;
	char why[300];
	int status;

	if (access(POOL_CONTROL, F_OK))
		return pool_told(-ENOTCONN, "kvslab trace");
	lacks = trace_lacks();
	if (lacks) {
		msg("kvslab trace needs %s; run it as root, or give it these capabilities", lacks);
		return 1;
	}
	if (o.pool) {
		if (pool_look(&view, o.pool))
			return 1;
		o.pool_id = view.pool.id;
		pool_view_free(&view);
	}
	if (o.record)
		return trace_record(&o);
	if (trace_load(&l, o.what, why, sizeof(why))) {
		msg("%s", why);
		return 1;
	}
	status = watch(&o, l.object);
	trace_unload(&l);
	return status;
}
#endif
