// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* What fuzz_chat begins with and what it found, through the same checks. */
#include "tests/lib/replay.h"
#include "tests/lib/tap.h"

#define LLVMFuzzerTestOneInput fuzz_chat
#include "tests/fuzz/fuzz_chat.c"

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(argc, argv);

	ok(replay("tests/fuzz/corpus/fuzz_chat", fuzz_chat, 300, 300, &seed) >= 14, "every input");
	return done();
}
