// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* From a GGUF file's rows to the layout that the products read, and single rows back. */
#include <assert.h>

#include "layout.h"

static void tile_q8_0(uint8_t *tile, uint32_t row, const uint8_t *block)
{
	uint32_t c;

	memcpy(tile + row * 2, block, 2);
	for (c = 0; c < KERN_BLOCK; c++)
		tile[32 + c / 2 * 32 + row * 2 + (c & 1)] = block[2 + c];
}

/* The file keeps column c in the low nibble of byte c, column c + 16 in its high one. */
static void tile_nibbles(uint8_t *ints, uint32_t row, const uint8_t *qs)
{
	uint32_t c;

	for (c = 0; c < KERN_BLOCK; c++)
		ints[nibble_byte(row, c)] |= (qs[c % 16] >> (c / 16 * 4) & 15) << nibble_shift(c);
}

static void repack_tiles(const struct kern_weight *w, const uint8_t *src, uint32_t r0, uint32_t r1)
{
	size_t row_bytes = kern_row_bytes(w->type, w->cols), size = tile_size(w->type);
	uint32_t blocks = w->cols / KERN_BLOCK, r, b;
	size_t block_bytes = blocks ? row_bytes / blocks : 0;

	for (r = r0; r < r1; r += KERN_TILE_ROWS)
		memset((uint8_t *)weight_tile(w, r, 0), 0, blocks * size);
	for (r = r0; r < r1; r++) {
		for (b = 0; b < blocks; b++) {
			const uint8_t *block = src + r * row_bytes + b * block_bytes;
			uint8_t *tile = (uint8_t *)weight_tile(w, r, b);
			uint32_t i = r % KERN_TILE_ROWS;

			if (w->type == KERN_Q8_0) {
				tile_q8_0(tile, i, block);
				continue;
			}
			memcpy(tile + i * 2, block, 2);
			if (w->type == KERN_Q4_1)
				memcpy(tile + 32 + i * 2, block + 2, 2);
			tile_nibbles(tile + tile_ints(w->type), i, block + (w->type == KERN_Q4_1 ? 4 : 2));
		}
	}
}

void kern_repack(const struct kern_weight *w, const void *src, uint32_t r0, uint32_t r1)
{
	size_t row_bytes, stride, r;

	assert(r0 % KERN_TILE_ROWS == 0 && r1 <= w->rows);
	assert(r1 % KERN_TILE_ROWS == 0 || r1 == w->rows);
	if (kern_type_quantised(w->type)) {
		assert(w->cols % KERN_BLOCK == 0);
		repack_tiles(w, src, r0, r1);
		return;
	}
	row_bytes = kern_row_bytes(w->type, w->cols);
	stride = row_stride(w->cols) * (w->type == KERN_F32 ? 4 : 2);
	for (r = r0; r < r1; r++) {
		uint8_t *dst = (uint8_t *)w->data + r * stride;

		memcpy(dst, (const uint8_t *)src + r * row_bytes, row_bytes);
		memset(dst + row_bytes, 0, stride - row_bytes);
	}
}

void kern_row_get(const struct kern_weight *w, uint32_t row, float *y)
{
	const uint8_t *base = w->data, *tile, *ints;
	size_t at = row * row_stride(w->cols);
	uint32_t i = row % KERN_TILE_ROWS, c, b;
	float d, m, q;

	assert(row < w->rows);
	if (w->type == KERN_F32) {
		memcpy(y, base + at * 4, (size_t)w->cols * 4);
		return;
	}
	if (!kern_type_quantised(w->type)) {
		for (c = 0; c < w->cols; c++) {
			uint16_t h = load_u16(base + (at + c) * 2);

			y[c] = w->type == KERN_F16 ? kern_f16_to_f32(h) : bf16_to_f32(h);
		}
		return;
	}
	for (b = 0; b < w->cols / KERN_BLOCK; b++, y += KERN_BLOCK) {
		tile = weight_tile(w, row, b);
		ints = tile + tile_ints(w->type);
		d = kern_f16_to_f32(load_u16(tile + i * 2));
		m = w->type == KERN_Q4_1 ? kern_f16_to_f32(load_u16(tile + 32 + i * 2)) : 0;
		for (c = 0; c < KERN_BLOCK; c++) {
			if (w->type == KERN_Q8_0)
				q = (int8_t)ints[c / 2 * 32 + i * 2 + (c & 1)];
			else
				q = ints[nibble_byte(i, c)] >> nibble_shift(c) & 15;
			if (w->type == KERN_Q4_0)
				q -= 8;
			y[c] = w->type == KERN_Q4_1 ? d * q + m : d * q; /* d * q is exact */
		}
	}
}
