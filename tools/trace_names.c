// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "trace_names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "pool.h"

static void know(struct trace_names *t, uint32_t id, const char *name)
{
	struct trace_name *more;
	size_t i;

	for (i = 0; i < t->n; i++)
		if (t->list[i].id == id)
			break;
	if (i == t->n) {
		more = reallocarray(t->list, t->n + 1, sizeof(*more));
		if (!more)
			return;
		t->list = more;
		t->n++;
	}
	t->list[i].id = id;
	snprintf(t->list[i].name, sizeof(t->list[i].name), "%s", name);
}

void trace_names_read(struct trace_names *t)
{
	char **names = pool_names(), path[300];
	struct stat st;
	size_t i;

	for (i = 0; names && names[i]; i++) {
		snprintf(path, sizeof(path), POOL_FOLDER "/%s", names[i]);
		if (!stat(path, &st) && S_ISCHR(st.st_mode))
			know(t, minor(st.st_rdev), names[i]);
	}
	pool_names_free(names);
}

const char *trace_name(struct trace_names *t, uint32_t id)
{
	char unknown[KVSLAB_NAME_SIZE];
	size_t i;

	if (!id)
		return "(control)";
	for (i = 0; i < t->n; i++)
		if (t->list[i].id == id)
			return t->list[i].name;
	snprintf(unknown, sizeof(unknown), "(id %u)", id);
	know(t, id, unknown);
	return t->n ? t->list[t->n - 1].name : "?";
}

int trace_name_find(const struct trace_names *t, const char *name, uint32_t *id)
{
	size_t i;

	/* The last of that name: an older one may have gone. */
	for (i = t->n; i-- > 0;)
		if (!strcmp(t->list[i].name, name)) {
			*id = t->list[i].id;
			return 0;
		}
	return -ENOENT;
}

void trace_names_free(struct trace_names *t)
{
	free(t->list);
	memset(t, 0, sizeof(*t));
}
