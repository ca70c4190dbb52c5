// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* The table of rotations: angles in f64, rounded once. */
#include <math.h>

#include "kvslab_kernels.h"

void kern_rope_table(float *table, uint32_t n_pos, uint32_t rope_dim, double base)
{
	uint32_t i, pos;

	for (i = 0; i < rope_dim / 2; i++) {
		double frequency = pow(base, -2.0 * i / rope_dim);

		for (pos = 0; pos < n_pos; pos++) {
			float *at = table + (size_t)pos * rope_dim + 2 * i;

			at[0] = (float)cos(pos * frequency);
			at[1] = (float)sin(pos * frequency);
		}
	}
}
