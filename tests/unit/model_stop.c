// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Stop strings, whole texts and texts in pieces, beside a plain search. */
#include <string.h>

#include "runtime/model/stop.h"
#include "tests/lib/tap.h"

static size_t run(const char *text, size_t n, const struct stop_text *stops, uint32_t n_stops, bool *stopped)
{
	struct stop_scan scan;
	size_t i;

	memset(&scan, 0, sizeof(scan));
	for (i = 1; i <= n && !scan.stopped; i++)
		stop_scan(&scan, stops, n_stops, text, i);
	stop_end(&scan, n);
	*stopped = scan.stopped;
	return scan.safe;
}

static void test_cases(void)
{
	struct stop_text stops[2] = { { (char *)"END", 3 }, { (char *)"\n\n", 2 } };
	struct stop_scan scan;
	bool stopped;

	ok(run("abcENDdef", 9, stops, 2, &stopped) == 3 && stopped, "a stop string ends the text before it");
	ok(run("abcEN", 5, stops, 2, &stopped) == 5 && !stopped, "half of one at the end is text");
	ok(run("a\nb\n\nEND", 8, stops, 2, &stopped) == 3 && stopped, "the first of several");
	ok(run("EEEND", 5, stops, 2, &stopped) == 2 && stopped, "after a beginning that was none");
	ok(run("", 0, stops, 2, &stopped) == 0 && !stopped, "an empty text");
	memset(&scan, 0, sizeof(scan));
	stop_scan(&scan, stops, 2, "abcEN", 5);
	ok(scan.safe == 3, "what may become one is held back");
	stop_scan(&scan, stops, 2, "abcENa", 6);
	ok(scan.safe == 6 && !scan.stopped, "and given out when it does not");
}

/* In single bytes the scan must stop where the first stop string becomes whole, and never give out a byte of it. */
static void test_random(uint64_t *seed)
{
	char text[64], s[4][6];
	struct stop_text stops[4];
	struct stop_scan scan;
	size_t n, i, j, want, out;
	uint32_t k, n_stops;
	int round, bad = 0;

	for (round = 0; round < 20000; round++) {
		n = rnd(seed) % sizeof(text);
		for (i = 0; i < n; i++)
			text[i] = (char)('a' + rnd(seed) % 3);
		n_stops = (uint32_t)(rnd(seed) % 5);
		for (k = 0; k < n_stops; k++) {
			stops[k].s = s[k];
			stops[k].n = 1 + rnd(seed) % 6;
			for (i = 0; i < stops[k].n; i++)
				s[k][i] = (char)('a' + rnd(seed) % 3);
		}
		want = n;
		for (i = 1; i <= n && want == n; i++)
			for (j = 0; j < i; j++)
				for (k = 0; k < n_stops; k++)
					if (stops[k].n == i - j && !memcmp(text + j, s[k], i - j) && want == n)
						want = j;
		memset(&scan, 0, sizeof(scan));
		for (i = 1, out = 0; i <= n && !scan.stopped; i++) {
			stop_scan(&scan, stops, n_stops, text, i);
			bad += scan.safe < out || scan.safe > i;
			out = scan.safe;
		}
		stop_end(&scan, n);
		bad += scan.safe != want || out > want;
	}
	ok(!bad, "20000 random texts");
}

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(argc, argv);

	test_cases();
	test_random(&seed);
	return done();
}
