// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* What the fuzzers of the server begin with and what they found, through the same checks: these abort. */
#include <dirent.h>
#include <stdio.h>

#include "tests/lib/tap.h"

#define LLVMFuzzerTestOneInput fuzz_http
#include "tests/fuzz/fuzz_http.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_json
#include "tests/fuzz/fuzz_json.c"
#undef LLVMFuzzerTestOneInput

#define INPUT_MAX (1 << 20)

typedef int (*fuzz_input)(const uint8_t *data, size_t size);

static size_t read_input(const char *path, uint8_t *to)
{
	FILE *f = fopen(path, "rb");
	size_t n;

	if (!f)
		return 0;
	n = fread(to, 1, INPUT_MAX, f);
	fclose(f);
	return n;
}

/* Each input as it is, cut short everywhere, and with a byte changed in many places. */
static void replay(const char *folder, fuzz_input input, uint64_t *seed)
{
	char path[512];
	struct dirent *d;
	uint8_t *data = malloc(INPUT_MAX), *own;
	DIR *dir = opendir(folder);
	size_t n, k, i;

	if (!dir || !data) {
		ok(0, "%s is read", folder);
		free(data);
		return;
	}
	while ((d = readdir(dir))) {
		if (d->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, d->d_name);
		n = read_input(path, data);
		input(data, n);
		for (k = 0; k < n && k < 4000; k++) {
			own = malloc(k ? k : 1); /* ASan knows its end */
			if (!own)
				abort();
			memcpy(own, data, k);
			input(own, k);
			free(own);
		}
		for (k = 0; n && k < 1000; k++) {
			uint8_t old;

			i = rnd(seed) % n;
			old = data[i];
			data[i] = (uint8_t)rnd(seed);
			input(data, n);
			data[i] = old;
		}
		ok(n > 0, "%s", path);
	}
	closedir(dir);
	free(data);
}

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(argc, argv);

	replay("tests/fuzz/corpus/fuzz_http", fuzz_http, &seed);
	replay("tests/fuzz/corpus/fuzz_json", fuzz_json, &seed);
	api_model_close(&m);
	return done();
}
