// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* The table of rotations: angles in f64, rounded once. */
#include <assert.h>
#include <math.h>

#include "kvslab_kernels.h"

void kern_rope_table_of(float *table, uint32_t n_pos, uint32_t rope_dim, const double *freq, double scale)
{
	uint32_t i, pos;

	for (i = 0; i < rope_dim / 2; i++) {
		for (pos = 0; pos < n_pos; pos++) {
			float *at = table + (size_t)pos * rope_dim + 2 * i;

			at[0] = (float)(cos(pos * freq[i]) * scale);
			at[1] = (float)(sin(pos * freq[i]) * scale);
		}
	}
}

void kern_rope_table(float *table, uint32_t n_pos, uint32_t rope_dim, double base)
{
	double freq[KERN_HEAD_DIM_MAX / 2];
	uint32_t i;

	assert(rope_dim <= KERN_HEAD_DIM_MAX);
	for (i = 0; i < rope_dim / 2; i++)
		freq[i] = pow(base, -2.0 * i / rope_dim);
	kern_rope_table_of(table, n_pos, rope_dim, freq, 1);
}
