// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* leaks, printed: who has held what for long, and where it was taken. */
#ifdef KVSLAB_TRACE
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "msg.h"
#include "trace_print.h"

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void print_site(struct trace_printer *p, const struct trace_site *s, double age)
{
	json_t *frames = p->o->json ? json_array() : NULL, *row;
	uint64_t stack[KVB_FRAMES];
	char text[400], comm[16];
	int i;

	trace_comm(p->l, s->pool, s->client, comm);
	trace_stack(p->l, s->stack, stack);
	if (!frames)
		out_text("%s, client %u, pid %u (%.16s): %" PRIu64 " %s of %u bytes, %s, the oldest for %.1f s: page %#" PRIx64
			 "\n",
			 trace_name(p->names, s->pool), s->client, s->pid, comm, s->pages,
			 s->how == TRACE_ALLOCATED ? "private pages" : "references to sealed pages", s->page_size,
			 trace_hows[s->how], age, s->page);
	for (i = 0; i < KVB_FRAMES && stack[i]; i++) {
		trace_place(p->places, s->pid, stack[i], text, sizeof(text));
		if (frames)
			json_array_append_new(frames, json_bytes(text, strlen(text)));
		else
			out_text("    %s\n", text);
	}
	if (!frames)
		return;
	row = trace_row(p, s->pool);
	trace_set(row, "client", s->client);
	trace_set(row, "pid", s->pid);
	json_object_set_new(row, "comm", json_bytes(comm, strnlen(comm, sizeof(comm))));
	trace_set(row, "cache", s->cache);
	trace_set(row, "page_size", s->page_size);
	json_object_set_new(row, "how", json_string(trace_hows[s->how]));
	trace_set(row, "pages", s->pages);
	json_object_set_new(row, "age", json_real(age));
	trace_set(row, "page", s->page);
	json_object_set_new(row, "stack", frames);
	json_array_append_new(p->rows, row);
}

int trace_print_leaks(struct trace_printer *p)
{
	uint64_t now = now_ns(), least = (uint64_t)p->o->age * 1000000000;
	struct trace_sites s;
	size_t i;
	int err = trace_sites(&s, p->l, now > least ? now - least : 0);

	for (i = 0; i < s.n && !err; i++)
		if (trace_wanted(p, s.list[i].pool))
			print_site(p, &s.list[i], now > s.list[i].since ? (double)(now - s.list[i].since) * 1e-9 : 0);
	trace_sites_free(&s);
	return err;
}
#endif
