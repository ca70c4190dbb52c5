// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* What the fuzzers of the server begin with and what they found, through the same checks: these abort. */
#include "tests/lib/replay.h"
#include "tests/lib/tap.h"

#define LLVMFuzzerTestOneInput fuzz_http
#include "tests/fuzz/fuzz_http.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_json
#include "tests/fuzz/fuzz_json.c"
#undef LLVMFuzzerTestOneInput

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(argc, argv);

	ok(replay("tests/fuzz/corpus/fuzz_http", fuzz_http, 4000, 1000, &seed) >= 2, "every input");
	ok(replay("tests/fuzz/corpus/fuzz_json", fuzz_json, 4000, 1000, &seed) >= 2, "every input");
	api_model_close(&m);
	return done();
}
