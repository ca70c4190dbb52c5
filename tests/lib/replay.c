// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay.h"

#define INPUT_MAX (1 << 20)

/* splitmix64, as tap.h's rnd() */
static uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

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

int replay(const char *folder, fuzz_input input, size_t cuts, size_t changes, uint64_t *seed)
{
	char path[512];
	struct dirent *d;
	uint8_t *data = malloc(INPUT_MAX), *own;
	DIR *dir = opendir(folder);
	int inputs = 0;
	size_t n, k, i, at;

	if (!dir || !data) {
		if (dir)
			closedir(dir);
		free(data);
		return 0;
	}
	while ((d = readdir(dir))) {
		if (d->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, d->d_name);
		n = read_input(path, data);
		input(data, n);
		for (at = 0; at < n && at < cuts; at++) {
			k = n <= cuts ? at : draw(seed) % n;
			own = malloc(k ? k : 1); /* ASan knows its end */
			if (!own)
				abort();
			memcpy(own, data, k);
			input(own, k);
			free(own);
		}
		for (k = 0; n && k < changes; k++) {
			uint8_t old;

			i = draw(seed) % n;
			old = data[i];
			data[i] = (uint8_t)draw(seed);
			input(data, n);
			data[i] = old;
		}
		inputs += n > 0;
	}
	closedir(dir);
	free(data);
	return inputs;
}
