// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* What fuzz_tok begins with and what it found, through the same checks. */
#include "tests/lib/replay.h"
#include "tests/lib/tap.h"

#define LLVMFuzzerTestOneInput fuzz_tok
#include "tests/fuzz/fuzz_tok.c"

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(argc, argv);

	ok(replay("tests/fuzz/corpus/fuzz_tok", fuzz_tok, 4000, 1000, &seed) >= 8, "every input");
	return done();
}
