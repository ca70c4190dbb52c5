// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Which implementation runs on this machine. */
#include <cpuid.h>
#include <string.h>

#include "cpu/impl.h"

static bool cpu_has_avx2(void)
{
	unsigned int a, b, c = 0, d;

	/* cpu_supports also asks whether the system keeps the wide registers. */
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
	       __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}

static bool cpu_has_avxvnni(void)
{
	unsigned int a, b, c, d;

	return cpu_has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && a & 1u << 4;
}

static bool cpu_has_avx512(void)
{
	return cpu_has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("avx512vnni");
}

const struct kern_ops *kern_ops_get(const char *name)
{
	bool best = !strcmp(name, "auto");

	if ((best || !strcmp(name, "avx512")) && cpu_has_avx512())
		return &kern_ops_avx512;
	if ((best || !strcmp(name, "avxvnni")) && cpu_has_avxvnni())
		return &kern_ops_avxvnni;
	if ((best || !strcmp(name, "avx2")) && cpu_has_avx2())
		return &kern_ops_avx2;
	return best || !strcmp(name, "c") ? &kern_ops_c : NULL;
}
