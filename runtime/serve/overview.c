// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "overview.h"

#include <string.h>

#include "app.h"

static void pages_json(struct buf *b, const struct kvslab_stat *p)
{
	buf_print(b,
		  "\"pages\":{\"free\":%llu,\"private\":%llu,\"moving\":%llu,\"sealed\":%llu,\"cached\":%llu,"
		  "\"quarantined\":%llu},\"extents\":{\"slabs\":%llu,\"held\":%llu,\"max\":%llu},",
		  (unsigned long long)p->free, (unsigned long long)p->private_pages, (unsigned long long)p->moving,
		  (unsigned long long)p->sealed, (unsigned long long)p->cached, (unsigned long long)p->quarantined,
		  (unsigned long long)p->extents, (unsigned long long)p->held,
		  (unsigned long long)(p->max ? p->max : p->arena_extents));
	buf_text(b, "\"fragmentation\":{\"partial\":");
	buf_number(b, p->frag_partial);
	buf_text(b, ",\"tail\":");
	buf_number(b, p->frag_tail);
	buf_text(b, ",\"quarantine\":");
	buf_number(b, p->frag_quarantine);
	buf_text(b, "},");
}

void overview_json(struct buf *b, struct app *a)
{
	const struct kvslab_geometry *g = kvslab_kv_geometry(a->engine.sched.kv);
	struct kvslab_sched_stat s;
	struct kvslab_stat p;

	kvslab_sched_stat(a->stepper.sched, &s);
	if (kvslab_stat(a->engine.pool, &p))
		memset(&p, 0, sizeof(p));
	buf_text(b, "{\"model\":");
	buf_json(b, a->opts.model, strlen(a->opts.model));
	buf_print(b, ",\"chat\":%s,\"context\":%u,\"max_batch\":%u,\"started\":%llu,", a->engine.model.chat ? "true" : "false",
		  a->engine.model.context, a->engine.max_batch, (unsigned long long)a->started);
	buf_print(b,
		  "\"running\":%u,\"waiting\":%u,\"steps\":%llu,\"preemptions\":%llu,\"generated\":%llu,\"prompted\":%llu,"
		  "\"prefix_queries\":%llu,\"prefix_hits\":%llu,\"connections\":%u,",
		  s.running, s.waiting, (unsigned long long)s.steps, (unsigned long long)s.preemptions,
		  (unsigned long long)a->metrics.generation_total, (unsigned long long)a->metrics.prompt_total,
		  (unsigned long long)s.prefix_queries, (unsigned long long)s.prefix_hits, a->http.n_conns);
	buf_print(b, "\"page_tokens\":%u,\"page_size\":%u,", g->page_tokens, g->page_size);
	pages_json(b, &p);
	map_look(&a->map, a->engine.pool, p.arena_extents, loop_now(a->loop));
	buf_text(b, "\"map\":");
	map_json(b, &a->map);
	buf_text(b, "}\n");
}
