// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* What fuzz_gguf begins with and what it found, through the same checks. */
#include "tests/lib/replay.h"
#include "tests/lib/tap.h"

#define LLVMFuzzerTestOneInput fuzz_gguf
#include "tests/fuzz/fuzz_gguf.c"

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(argc, argv);

	ok(replay("tests/fuzz/corpus/fuzz_gguf", fuzz_gguf, 1500, 1500, &seed) >= 5, "every input");
	return done();
}
