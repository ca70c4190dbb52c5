// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Any bytes as a model file: refused with a sentence, or file, tokenizer and chat template that
 * work. */
#include <string.h>
#include "tests/lib/model_use.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct use_tally sum = { 0 };
	uint64_t seed = size;
	uint8_t *copy = malloc(size ? size : 1);

	/* libFuzzer's own block need not lie at a multiple of 8 */
	memcpy(copy, data, size);
	use_model(copy, size, &seed, &sum);
	free(copy);
	if (sum.silent)
		abort();
	return 0;
}
