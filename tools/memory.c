// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine.h"

static uint64_t read_limit(const char *path)
{
	unsigned long long v = 0;
	FILE *f = fopen(path, "re");

	if (!f)
		return UINT64_MAX;
	if (fscanf(f, "%llu", &v) != 1)
		v = 0; /* "max" */
	fclose(f);
	return v ? v : UINT64_MAX;
}

/* The limits of our cgroup (v2) and of those above it, as far as they are mounted here. */
static uint64_t cgroup_limit(void)
{
	uint64_t limit = UINT64_MAX, v;
	char line[1024], path[1280], *p;
	FILE *f = fopen("/proc/self/cgroup", "re");

	if (!f)
		return limit;
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, "0::/", 4))
			continue;
		line[strcspn(line, "\n")] = 0;
		for (p = line + 3; *p;) {
			snprintf(path, sizeof(path), "/sys/fs/cgroup%s/memory.max", p);
			v = read_limit(path);
			if (v < limit)
				limit = v;
			*strrchr(p, '/') = 0;
		}
	}
	fclose(f);
	/* inside a container our own group is often mounted as the root */
	v = read_limit("/sys/fs/cgroup/memory.max");
	if (v < limit)
		limit = v;
	v = read_limit("/sys/fs/cgroup/memory/memory.limit_in_bytes");
	return v < limit ? v : limit;
}

uint64_t memory_limit(void)
{
	uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t group = cgroup_limit();

	return group < machine ? group : machine;
}
