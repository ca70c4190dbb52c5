// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* A model in several files, NAME-00001-of-0000N.gguf and so on: the first has the values, each some of the tensors. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "gguf.h"
#include "gguf_order.h"
#include "gguf_shards.h"

#define SHARDS_MAX 1000
#define SUFFIX 20 /* bytes of "-00001-of-00002.gguf" */

static bool number(const struct gguf *g, const char *key, uint64_t *n)
{
	return gguf_u64(g, key, n) && *n <= SHARDS_MAX;
}

uint64_t gguf_shards(const struct gguf *g)
{
	uint64_t n;

	if (!gguf_find(g, "split.count"))
		return 1;
	return number(g, "split.count", &n) && n ? n : 0;
}

char *gguf_shard_path(const struct gguf *g, uint64_t i)
{
	uint64_t no, count = gguf_shards(g);
	size_t n = strlen(g->path);
	char end[64], *path;

	snprintf(end, sizeof(end), "-%05" PRIu64 "-of-%05" PRIu64 ".gguf", number(g, "split.no", &no) ? no + 1 : 0, count);
	if (n < SUFFIX || strcmp(g->path + n - SUFFIX, end))
		return NULL;
	path = strdup(g->path);
	if (path)
		snprintf(path + n - SUFFIX, SUFFIX + 1, "-%05" PRIu64 "-of-%05" PRIu64 ".gguf", i + 1, count);
	return path;
}

static int cmp(const void *a, const void *b, void *g)
{
	const struct gguf_tensor *t = ((struct gguf *)g)->tensors;

	return gguf_str_cmp(t[*(const uint32_t *)a].name, t[*(const uint32_t *)b].name);
}

int gguf_shards_join(struct gguf *g, struct model_error *e)
{
	uint64_t total = g->n_tensors, want, no, i;
	struct gguf_tensor *all;
	uint32_t *order;

	for (i = 0; i < g->n_more; i++) {
		if (gguf_shards(&g->more[i]) != g->n_more + 1 || !number(&g->more[i], "split.no", &no) || no != i + 1)
			return model_fail(e, -EBADMSG, "%s: not part %" PRIu64 " of %u of the model (by its 'split.no' and 'split.count'): fetch it again",
					  g->more[i].path, i + 2, g->n_more + 1);
		total += g->more[i].n_tensors;
	}
	if (gguf_find(g, "split.tensors.count") && (!gguf_u64(g, "split.tensors.count", &want) || want != total))
		return model_fail(e, -EBADMSG, "%s: its parts have %" PRIu64 " tensors, not as many as 'split.tensors.count' says: they are of different models or damaged; fetch them again",
				  g->path, total);
	all = realloc(g->tensors, (total + 1) * sizeof(*all));
	if (all)
		g->tensors = all;
	order = realloc(g->tensor_order, (total + 1) * sizeof(*order));
	if (order)
		g->tensor_order = order;
	if (!all || !order)
		return model_fail(e, -ENOMEM, "%s: no memory for %" PRIu64 " tensors", g->path, total);
	for (i = 0; i < g->n_more; i++) {
		memcpy(g->tensors + g->n_tensors, g->more[i].tensors, g->more[i].n_tensors * sizeof(*all));
		g->n_tensors += g->more[i].n_tensors;
	}
	for (i = 0; i < total; i++)
		order[i] = (uint32_t)i;
	qsort_r(order, total, sizeof(*order), cmp, g);
	for (i = 1; i < total; i++)
		if (!cmp(&order[i - 1], &order[i], g))
			return model_fail(e, -EBADMSG, "%s: tensor '%.*s' stands in two of the model's parts: they are of different models; fetch them again",
					  g->path, (int)(g->tensors[order[i]].name.n < 80 ? g->tensors[order[i]].name.n : 80),
					  g->tensors[order[i]].name.s);
	return 0;
}
