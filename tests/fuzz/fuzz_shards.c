// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Any bytes as a model in several files: refused with a sentence, or a model that works. The input: how many files, which of
 * them is named, where each begins but the first (three times 32 bits, little-endian, from the first file's start), the files. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "tests/lib/model_use.h"

#define FILES_MAX 4
#define HEAD (2 + 4 * (FILES_MAX - 1))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void shards_name(char *path, size_t n, unsigned int i, unsigned int count)
{
	snprintf(path, n, "/dev/shm/fuzz-shards.%d-%05u-of-%05u.gguf", (int)getpid(), i + 1, count);
}

static void shards_write(const char *path, const uint8_t *b, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, b, n) != (ssize_t)n || close(fd))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned int count, named, i;
	struct use_tally sum = { 0 };
	size_t start[FILES_MAX + 1];
	struct model_error e = { "" };
	uint64_t seed = size;
	char path[80];
	struct gguf g;

	if (size < HEAD)
		return 0;
	count = 1 + data[0] % FILES_MAX;
	named = data[1] % count;
	for (i = 0; i < count; i++) {
		uint32_t at = 0;

		if (i)
			memcpy(&at, data + 2 + 4 * (i - 1), 4);
		at = at > size - HEAD ? size - HEAD : at;
		start[i] = i && at < start[i - 1] ? start[i - 1] : at;
	}
	start[count] = size - HEAD;
	for (i = 0; i < count; i++) {
		shards_name(path, sizeof(path), i, count);
		shards_write(path, data + HEAD + start[i], start[i + 1] - start[i]);
	}
	shards_name(path, sizeof(path), named, count);
	if (gguf_open(&g, path, &e))
		sum.silent += !e.text[0];
	else
		use_opened(&g, &seed, &sum);
	for (i = 0; i < count; i++) {
		shards_name(path, sizeof(path), i, count);
		unlink(path);
	}
	if (sum.silent)
		abort();
	return 0;
}
