// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Tensor types: which we compute with, their names and sizes. */
#include "layout.h"

static const char *const names[] = {
	[0] = "F32",	  [1] = "F16",	    [2] = "Q4_0",    [3] = "Q4_1",    [6] = "Q5_0",
	[7] = "Q5_1",	  [8] = "Q8_0",	    [9] = "Q8_1",    [10] = "Q2_K",   [11] = "Q3_K",
	[12] = "Q4_K",	  [13] = "Q5_K",    [14] = "Q6_K",   [15] = "Q8_K",   [16] = "IQ2_XXS",
	[17] = "IQ2_XS",  [18] = "IQ3_XXS", [19] = "IQ1_S",  [20] = "IQ4_NL", [21] = "IQ3_S",
	[22] = "IQ2_S",	  [23] = "IQ4_XS",  [24] = "I8",     [25] = "I16",    [26] = "I32",
	[27] = "I64",	  [28] = "F64",	    [29] = "IQ1_M",  [30] = "BF16",   [34] = "TQ1_0",
	[35] = "TQ2_0",	  [39] = "MXFP4",
};

bool kern_type_supported(uint32_t ggml_type)
{
	switch (ggml_type) {
	case KERN_F32:
	case KERN_F16:
	case KERN_BF16:
	case KERN_Q4_0:
	case KERN_Q4_1:
	case KERN_Q8_0:
		return true;
	}
	return false;
}

bool kern_type_quantised(enum kern_type type)
{
	return type == KERN_Q4_0 || type == KERN_Q4_1 || type == KERN_Q8_0;
}

uint32_t kern_type_levels(enum kern_type type)
{
	if (!kern_type_quantised(type))
		return 0;
	return type == KERN_Q8_0 ? 4095 : 32767;
}

const char *kern_type_name(uint32_t ggml_type)
{
	if (ggml_type < sizeof(names) / sizeof(*names) && names[ggml_type])
		return names[ggml_type];
	return "unknown";
}

size_t kern_row_bytes(enum kern_type type, uint32_t cols)
{
	size_t n = cols;

	switch (type) {
	case KERN_F32:
		return n * 4;
	case KERN_F16:
	case KERN_BF16:
		return n * 2;
	case KERN_Q8_0:
		return cols % KERN_BLOCK ? 0 : n / KERN_BLOCK * 34;
	case KERN_Q4_0:
		return cols % KERN_BLOCK ? 0 : n / KERN_BLOCK * 18;
	case KERN_Q4_1:
		return cols % KERN_BLOCK ? 0 : n / KERN_BLOCK * 20;
	}
	return 0;
}

size_t kern_weight_bytes(enum kern_type type, uint32_t rows, uint32_t cols)
{
	size_t tiles = ((size_t)rows + KERN_TILE_ROWS - 1) / KERN_TILE_ROWS;

	if (kern_type_quantised(type))
		return tiles * (cols / KERN_BLOCK) * tile_size(type);
	return rows * row_stride(cols) * (type == KERN_F32 ? 4 : 2);
}
