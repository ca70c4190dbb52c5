// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Random calls of the core against the model, with the debug walk after each. argv: seed, calls. */
#include <unistd.h>

#include "tests/lib/core_driver.h"
#include "tests/lib/tap.h"

#define ROUND 2500 /* calls on one arena */

static const char *const names[CALL_KINDS] = { "ALLOC",	 "FREE",       "GET",	  "SEAL",
					       "LOOKUP", "client end", "reclaim", "unquarantine" };

int main(int argc, char **argv)
{
	u64 seed = tap_seed(argc, argv), calls = 0, want, rounds = 0,
	    nowait[2] = { 0 }, results[CALL_KINDS][2] = { 0 };
	struct driver *d = malloc(sizeof(*d));
	bool good = true;
	u32 i;

	want = argc > 2 ? strtoull(argv[2], NULL, 0) : getenv("KVSLAB_LONG") ? 5000000 : 50000;
	while (good && calls < want) {
		u64 round = rnd(&seed);

		driver_init(d, round);
		while (good && d->calls < ROUND)
			good = driver_step(d);
		good = good && driver_end(d);
		if (!good) {
			printf("# arena %llu (its seed %llu), call %llu: %s\n",
			       (unsigned long long)rounds, (unsigned long long)round,
			       (unsigned long long)d->calls, d->why);
			ok(false, "calls agree with the model");
			fflush(stdout);
			_exit(1); /* what is left open is no leak */
		}
		calls += d->calls;
		rounds++;
		nowait[0] += d->nowait[0];
		nowait[1] += d->nowait[1];
		for (i = 0; i < CALL_KINDS; i++) {
			results[i][0] += d->results[i][0];
			results[i][1] += d->results[i][1];
		}
	}
	ok(good, "%llu calls on %llu arenas agree with the model", (unsigned long long)calls,
	   (unsigned long long)rounds);
	for (i = 0; i < CALL_KINDS; i++)
		ok(results[i][0] * 50 > want / 50 &&
			   (i >= CALL_EXIT || results[i][1] * 50 > want / 50),
		   "%s: %llu succeeded, %llu were refused", names[i],
		   (unsigned long long)results[i][0], (unsigned long long)results[i][1]);
	ok(nowait[0] * 50 > want && nowait[1] * 50 > want,
	   "%llu calls that might not wait ended, %llu said EAGAIN", (unsigned long long)nowait[0],
	   (unsigned long long)nowait[1]);
	free(d);
	return done();
}
