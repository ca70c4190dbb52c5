/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* Names of pools by id. A pool's node has its id as minor number, so that nothing need be opened. Names of pools that
 * are gone are remembered. */
#ifndef TOOLS_TRACE_NAMES_H
#define TOOLS_TRACE_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "kmod/uapi/kvslab.h"

struct trace_name {
	uint32_t id;
	char name[KVSLAB_NAME_SIZE];
};

struct trace_names {
	struct trace_name *list;
	size_t n;
};

void trace_names_read(struct trace_names *t);
/* "pool 7" where the name was never seen; 0 is the control node. Valid until the next call. */
const char *trace_name(struct trace_names *t, uint32_t id);
/* -ENOENT */
int trace_name_find(const struct trace_names *t, const char *name, uint32_t *id);
void trace_names_free(struct trace_names *t);

#endif
