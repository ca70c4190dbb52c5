// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Which implementation runs on this machine. */
#include <string.h>

#include "cpu/impl.h"

const struct kern_ops *kern_ops_get(const char *name)
{
	return !strcmp(name, "auto") || !strcmp(name, "c") ? &kern_ops_c : NULL;
}
