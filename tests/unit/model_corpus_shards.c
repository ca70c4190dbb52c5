// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* What fuzz_shards begins with and what it found, through the same checks. */
#include "tests/lib/replay.h"
#include "tests/lib/tap.h"

#define LLVMFuzzerTestOneInput fuzz_shards
#include "tests/fuzz/fuzz_shards.c"

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(argc, argv);

	ok(replay("tests/fuzz/corpus/fuzz_shards", fuzz_shards, 1500, 1500, &seed) >= 6, "every input");
	return done();
}
