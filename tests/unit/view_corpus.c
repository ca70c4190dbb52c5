// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* What the fuzzer of recordings begins with and what it found, through the same checks: these abort. */
#include "tests/lib/replay.h"
#include "tests/lib/tap.h"

#define LLVMFuzzerTestOneInput fuzz_record
#include "tests/fuzz/fuzz_record.c"
#undef LLVMFuzzerTestOneInput

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(argc, argv);

	ok(replay("tests/fuzz/corpus/fuzz_record", fuzz_record, 300, 700, &seed) >= 3, "every input");
	return done();
}
