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

static bool may(void)
{
	uint64_t caps = capabilities();
	bool bpf, perfmon;

	if (caps >> CAP_SYS_ADMIN & 1)
		return true;
	bpf = caps >> CAP_BPF & 1;
	perfmon = caps >> CAP_PERFMON & 1;
	if (bpf && perfmon)
		return true;
	msg("kvslab trace needs %s%s%s; run it as root, or give it these capabilities",
	    bpf ? "" : "CAP_BPF", bpf || perfmon ? "" : " and ", perfmon ? "" : "CAP_PERFMON");
	return false;
}

static int failed(const char *doing, const char *name, int err)
{
	if (err == -EPERM || err == -EACCES)
		msg("%s %s: the kernel refuses it; it may be locked down, or memlock too low",
		    doing, name);
	else if (err == -ENOENT)
		msg("%s %s: the module has no such tracepoint; install module and command of the same release",
		    doing, name);
	else
		msg("%s %s: %s; the programs need Linux 6.1 or later with BPF", doing, name,
		    strerror(-err));
	return 1;
}

static int attach(struct bpf_object *object, struct bpf_link **links, unsigned int room,
		  unsigned int *n)
{
	struct bpf_program *program;
	int err;

	bpf_object__for_each_program(program, object)
	{
		if (*n == room)
			return failed("attaching", bpf_program__name(program), -E2BIG);
		links[*n] = bpf_program__attach(program);
		err = libbpf_get_error(links[*n]);
		if (err) {
			links[*n] = NULL;
			return failed("attaching", bpf_program__name(program), err);
		}
		(*n)++;
	}
	return 0;
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
	struct bpf_link *links[16];
	struct bpf_object *object;
	struct pool_view view = { 0 };
	unsigned int n = 0;
	const void *elf;
	size_t size;
	int err, status = 1;

	if (access(POOL_CONTROL, F_OK))
		return pool_told(-ENOTCONN, "kvslab trace");
	if (!may())
		return 1;
	if (o.pool) {
		if (pool_look(&view, o.pool))
			return 1;
		o.pool_id = view.pool.id;
		pool_view_free(&view);
	}
	libbpf_set_print(quiet);
	elf = bytes_of(o.what, &size);
	object = bpf_object__open_mem(elf, size, NULL);
	err = libbpf_get_error(object);
	if (err)
		return failed("opening", trace_names[o.what], err);
	err = bpf_object__load(object);
	if (err)
		failed("loading", trace_names[o.what], err);
	else if (!attach(object, links, 16, &n))
		status = watch(&o, object);
	while (n)
		bpf_link__destroy(links[--n]);
	bpf_object__close(object);
	return status;
}
#endif
