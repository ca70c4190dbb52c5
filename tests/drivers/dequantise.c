// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* usage: dequantise TYPE ROWS COLS <matrix as in a GGUF file >f32: repacked, and each row brought back. */
#include <stdio.h>
#include <stdlib.h>

#include "kvslab_kernels.h"

int main(int argc, char **argv)
{
	uint32_t rows, cols, r;
	struct kern_weight w;
	size_t bytes;
	char *file;
	float *y;

	if (argc != 4)
		return 2;
	w.type = (enum kern_type)atoi(argv[1]);
	w.rows = rows = (uint32_t)atoi(argv[2]);
	w.cols = cols = (uint32_t)atoi(argv[3]);
	bytes = kern_row_bytes(w.type, cols) * rows;
	file = malloc(bytes);
	y = malloc(cols * sizeof(*y));
	w.data = aligned_alloc(KERN_ALIGN, (kern_weight_bytes(w.type, rows, cols) + KERN_ALIGN - 1) / KERN_ALIGN * KERN_ALIGN);
	if (!bytes || !file || !y || !w.data || fread(file, 1, bytes, stdin) != bytes)
		return 1;
	kern_repack(&w, file, NULL, 0, rows);
	for (r = 0; r < rows; r++) {
		kern_row_get(&w, r, y);
		if (fwrite(y, sizeof(*y), cols, stdout) != cols)
			return 1;
	}
	return fclose(stdout) ? 1 : 0;
}
