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
	return ggml_type == KERN_F32 || ggml_type == KERN_F16 || ggml_type == KERN_BF16 ||
	       kern_type_quantised((enum kern_type)ggml_type);
}

bool kern_type_quantised(enum kern_type type)
{
	switch ((uint32_t)type) {
	case KERN_Q4_0:
	case KERN_Q4_1:
	case KERN_Q5_0:
	case KERN_Q5_1:
	case KERN_Q8_0:
	case KERN_Q4_K:
	case KERN_Q5_K:
	case KERN_Q6_K:
	case KERN_IQ4_NL:
		return true;
	}
	return false;
}

uint32_t kern_type_levels(enum kern_type type)
{
	switch ((uint32_t)type) {
	case KERN_Q8_0:
	case KERN_IQ4_NL:
		return 4095;
	case KERN_Q5_1:
	case KERN_Q5_K:
		return 16383;
	}
	return kern_type_quantised(type) ? 32767 : 0;
}

uint32_t kern_type_block(enum kern_type type)
{
	return type_k(type) ? 256 : kern_type_quantised(type) ? KERN_BLOCK : 1;
}

const char *kern_type_name(uint32_t ggml_type)
{
	if (ggml_type < sizeof(names) / sizeof(*names) && names[ggml_type])
		return names[ggml_type];
	return "unknown";
}

size_t kern_row_bytes(enum kern_type type, uint32_t cols)
{
	if (cols % kern_type_block(type))
		return 0;
	if (!kern_type_quantised(type))
		return (size_t)cols * (type == KERN_F32 ? 4 : 2);
	return cols / kern_type_block(type) * (tile_size(type) / KERN_TILE_ROWS);
}

size_t kern_weight_bytes(enum kern_type type, uint32_t rows, uint32_t cols)
{
	size_t tiles = ((size_t)rows + KERN_TILE_ROWS - 1) / KERN_TILE_ROWS;

	if (kern_type_quantised(type))
		return tiles * (cols / kern_type_block(type)) * tile_size(type);
	return rows * row_stride(cols) * (type == KERN_F32 ? 4 : 2);
}
