// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "args.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "msg.h"

uint64_t arg_u64(const char *option, const char *arg, uint64_t min, uint64_t max)
{
	unsigned long long v;
	char *end;

	errno = 0;
	v = strtoull(arg, &end, 10);
	if (!isdigit((unsigned char)*arg) || *end || errno || v < min || v > max)
		die("%s is \"%s\"; give a whole number from %llu to %llu", option, arg,
		    (unsigned long long)min, (unsigned long long)max);
	return v;
}

double arg_real(const char *option, const char *arg, double min, double max)
{
	char *end;
	double v;

	errno = 0;
	v = strtod(arg, &end);
	if (end == arg || *end || errno || !(v >= min && v <= max))
		die("%s is \"%s\"; give a number from %g to %g", option, arg, min, max);
	return v;
}

uint64_t arg_size(const char *option, const char *arg)
{
	static const char units[] = "KMGT";
	unsigned long long v;
	const char *unit;
	unsigned int shift = 0;
	char *end;

	errno = 0;
	v = strtoull(arg, &end, 10);
	if (isdigit((unsigned char)*arg) && *end) {
		unit = strchr(units, toupper((unsigned char)*end));
		if (unit) {
			shift = 10 * (unsigned int)(unit - units + 1);
			end++;
		}
	}
	if (!isdigit((unsigned char)*arg) || *end || errno || v == 0 || v > (UINT64_MAX >> 1) >> shift)
		die("%s is \"%s\"; give a size in bytes, or with K, M, G or T, as in 512M", option, arg);
	return (uint64_t)v << shift;
}

int arg_word(const char *option, const char *arg, const char *const *words)
{
	char list[256] = "";
	size_t used = 0;
	int i;

	for (i = 0; words[i]; i++)
		if (!strcmp(arg, words[i]))
			return i;
	for (i = 0; words[i] && used < sizeof(list); i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s",
					 !i ? "" : words[i + 1] ? ", " : " or ", words[i]);
	die("%s is \"%s\"; give %s", option, arg, list);
}
