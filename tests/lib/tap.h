/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* TAP for unit tests: ok() per check, done() at the end of main. One test program, one process, one file. */
#ifndef TAP_H
#define TAP_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int tap_n, tap_failed;

__attribute__((format(printf, 2, 3), unused)) static int ok(int good, const char *fmt, ...)
{
	va_list ap;

	tap_n++;
	if (!good)
		tap_failed++;
	printf("%sok %d - ", good ? "" : "not ", tap_n);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
	return good;
}

/* End a program whose means are missing. */
__attribute__((unused, noreturn)) static void skip_all(const char *why)
{
	printf("1..0 # SKIP %s\n", why);
	exit(0);
}

__attribute__((unused)) static int done(void)
{
	printf("1..%d\n", tap_n);
	return tap_failed ? 1 : 0;
}

/* The seed of this run: argv[1], else KVSLAB_SEED, else the clock. Printed, so that a failure can be repeated. */
__attribute__((unused)) static uint64_t tap_seed(int argc, char **argv)
{
	const char *s = argc > 1 ? argv[1] : getenv("KVSLAB_SEED");
	struct timespec t;
	uint64_t seed;

	clock_gettime(CLOCK_REALTIME, &t);
	seed = s ? strtoull(s, NULL, 0) : (uint64_t)t.tv_sec * 1000000007u + (uint64_t)t.tv_nsec;
	printf("# seed %llu\n", (unsigned long long)seed);
	return seed;
}

/* splitmix64 */
__attribute__((unused)) static uint64_t rnd(uint64_t *s)
{
	uint64_t z = (*s += 0x9e3779b97f4a7c15u);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

#endif
