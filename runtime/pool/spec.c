// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "spec.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

static int unit(char c)
{
	switch (c) {
	case 'K':
	case 'k':
		return 10;
	case 'M':
	case 'm':
		return 20;
	case 'G':
	case 'g':
		return 30;
	case 'T':
	case 't':
		return 40;
	}
	return -1;
}

static int parse_size(const char *s, uint64_t *size)
{
	uint64_t n = 0;
	int shift = 0;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	for (; *s >= '0' && *s <= '9'; s++)
		if (__builtin_mul_overflow(n, 10u, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(*s - '0'), &n))
			return -EINVAL;
	if (*s) {
		shift = unit(*s++);
		if (shift < 0 || *s)
			return -EINVAL;
	}
	if (!n || n > UINT64_MAX >> shift)
		return -EINVAL;
	*size = n << shift;
	return 0;
}

int pool_spec_parse(struct pool_spec *spec, const char *s)
{
	static const char kind[] = "embedded";

	spec->size = 0;
	if (!s)
		return -EINVAL;
	if (*s == '/')
		return -EOPNOTSUPP;
	if (strncmp(s, kind, sizeof(kind) - 1))
		return -EINVAL;
	s += sizeof(kind) - 1;
	if (!*s)
		return 0;
	if (*s != ':')
		return -EINVAL;
	return parse_size(s + 1, &spec->size);
}
