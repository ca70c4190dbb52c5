// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * Products with F32, F16 and BF16 weights. A block multiplies 16 rows of weights with up to eight rows of activations;
 * weights pass through shared memory, read 16 bytes a thread. Eight threads a row hold the eight lanes of
 * docs/numerics.md's dot, so the bits are the CPU's.
 */
#include "layout.cuh"
#include "numerics.cuh"

#define THREADS 128
#define CHUNK 256 /* columns at a time */

DEV float element(const u32x4 &v, uint32_t i, int type)
{
	uint32_t w = type == CU_F32 ? i : i / 2;

	w = w == 0 ? v.x : w == 1 ? v.y : w == 2 ? v.z : v.w;
	if (type == CU_F32)
		return float_of(w);
	w = i % 2 ? w >> 16 : w & 0xffff;
	return type == CU_F16 ? f16_to_f32((uint16_t)w) : float_of(w << 16);
}

template <int T, uint32_t N> DEV void product(const struct cu_product &a)
{
	constexpr uint32_t each = T == CU_F32 ? 4 : 8; /* values of 16 bytes */
	/* The rows lie 8 further apart than they are long: rows of a warp then meet in no bank. */
	SHARED(float, w, CU_TILE_ROWS * (CHUNK + 8));
	uint32_t row = block_x() * CU_TILE_ROWS, t0 = block_y() * N, stride = (a.cols + 7) / 8 * 8, c0, i, t;
	uint32_t r = thread_id() / 8, j = thread_id() % 8, n = *a.count > t0 ? *a.count - t0 : 0;
	float acc[N];

	if (!n)
		return;
	n = n < N ? n : N;
	UNROLL
	for (t = 0; t < N; t++)
		acc[t] = 0;
	for (c0 = 0; c0 < stride; c0 += CHUNK) {
		uint32_t left = stride - c0 < CHUNK ? stride - c0 : CHUNK;

		for (i = thread_id() * each; i < CU_TILE_ROWS * CHUNK; i += THREADS * each) {
			uint32_t to = i / CHUNK, c = i % CHUNK;
			size_t at = (size_t)(row + to) * stride + c0 + c;
			u32x4 v;

			if (c >= left || row + to >= a.rows)
				continue;
			v = load16((const uint8_t *)a.w + at * (T == CU_F32 ? 4 : 2));
			UNROLL
			for (uint32_t k = 0; k < each; k++)
				w[to * (CHUNK + 8) + c + k] = element(v, k, T);
		}
		sync_block();
		if (row + r < a.rows) {
			for (i = j; i < left; i += 8) {
				float v = w[r * (CHUNK + 8) + i];

				UNROLL
				for (t = 0; t < N; t++)
					if (t < n)
						acc[t] = fma32(v, a.f[(size_t)(t0 + t) * a.ld + c0 + i], acc[t]);
			}
		}
		sync_block();
	}
	UNROLL
	for (t = 0; t < N; t++) {
		float sum = tree8(acc[t]);

		if (t < n && !j && row + r < a.rows)
			a.y[(size_t)(t0 + t) * a.ldy + row + r] = a.bias ? sum + a.bias[row + r] : sum;
	}
}

/* grid: x = rows of weights / 16, y = rows of activations / 8 (or 1), rounded up */
#define BOTH(name, T) \
	KERNEL(product_##name, cu_product, THREADS) \
	{ \
		product<T, CU_TOKENS>(a); \
	} \
	KERNEL(product1_##name, cu_product, THREADS) \
	{ \
		product<T, 1>(a); \
	}

BOTH(f32, CU_F32)
BOTH(f16, CU_F16)
BOTH(bf16, CU_BF16)
