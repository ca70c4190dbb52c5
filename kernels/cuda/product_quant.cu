// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * Products with quantised weights. A block multiplies a tile row (16 rows of weights) with up to eight rows of activations.
 * Weights are read once, 16 bytes a thread: four rows by a group of eight columns (Q8_0: eight rows by two columns, four
 * times). Each thread adds up its columns in integers, which is exact; then a thread a (row, activation) adds the groups'
 * sums, also in integers, and goes on with that row's f32 chain over the blocks, in the order that docs/numerics.md asks for.
 * So the bits are the CPU's. The next weights are on their way while the chain runs.
 */
#include "layout.cuh"

#define THREADS 128

template <int T> struct shape {
	static constexpr uint32_t lanes = T == CU_Q8_0 ? 8 : 16; /* threads of a block of 32 columns */
	static constexpr uint32_t chunk = THREADS / lanes; /* blocks of columns at a time */
	static constexpr uint32_t rows = T == CU_Q8_0 ? 8 : 4; /* of a thread */
};

/* What a thread holds of the weights of one block of columns. */
template <int T> struct piece {
	u32x4 w[T == CU_Q8_0 ? 4 : 1];
	u32x4 h; /* further bits */
};

DEV uint32_t word(const u32x4 &v, uint32_t i)
{
	return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

template <int T> DEV void fetch(piece<T> *p, const void *w, uint32_t cols, uint32_t row, uint32_t b)
{
	uint32_t lane = thread_id() % shape<T>::lanes, g = lane % 4, part = lane / 4, k = b % layout<T>::blocks;
	const uint8_t *tile, *ints;

	if (b >= cols / 32)
		return;
	tile = weight_tile<T>(w, cols, row, b);
	ints = tile + layout<T>::ints + k * layout<T>::block_ints;
	if (T == CU_Q8_0) {
		UNROLL
		for (uint32_t i = 0; i < 4; i++)
			p->w[i % (sizeof(p->w) / 16)] = load16(ints + (g * 4 + i) * 32 + part * 16);
		return;
	}
	p->w[0] = load16(ints + g * 64 + part * 16);
	if (layout<T>::bits > 4)
		p->h = load16(tile + layout<T>::high + k * layout<T>::block_high + (layout<T>::bits == 6 ? g / 2 * 64 : 0) +
			      part * 16);
}

/* sums[row] of one activation's eight columns @q, as pairs (0,1) (2,3) (4,5) (6,7). */
template <int T> DEV void multiply(const piece<T> &p, const uint32_t *x, const uint32_t *y, u32x4 q, int32_t *sums)
{
	uint32_t q04, q15, q26, q37;

	if (T == CU_Q8_0) {
		UNROLL
		for (uint32_t r = 0; r < 8; r++) {
			sums[r] = 0;
			UNROLL
			for (uint32_t i = 0; i < 4; i++) {
				uint32_t w = word(p.w[i % (sizeof(p.w) / 16)], r / 2);

				sums[r] = r % 2 ? dp2a_hi(word(q, i), w, sums[r]) : dp2a_lo(word(q, i), w, sums[r]);
			}
		}
		return;
	}
	q04 = prmt(q.x, q.z, 0x5410);
	q15 = prmt(q.x, q.z, 0x7632);
	q26 = prmt(q.y, q.w, 0x5410);
	q37 = prmt(q.y, q.w, 0x7632);
	UNROLL
	for (uint32_t r = 0; r < 4; r++)
		sums[r] = dp2a_hi(q37, y[r], dp2a_lo(q26, y[r], dp2a_hi(q15, x[r], dp2a_lo(q04, x[r], 0))));
}

/* N: rows of activations, at most. */
template <int T, uint32_t N> DEV void product(const struct cu_product &a)
{
	constexpr uint32_t chunk = shape<T>::chunk, rows = shape<T>::rows;
	SHARED(int32_t, sums, chunk * N * CU_TILE_ROWS * 4); /* [block][activation][row][group] */
	SHARED(float, scales, chunk * CU_TILE_ROWS * layout<T>::scales); /* [block][row][half] */
	SHARED(float, mins, layout<T>::min ? chunk * CU_TILE_ROWS : 1); /* [block][row] */
	uint32_t row = block_x() * CU_TILE_ROWS, t0 = block_y() * N, blocks = a.cols / 32, b0, i;
	uint32_t lane = thread_id() % shape<T>::lanes, mine = thread_id() / shape<T>::lanes, g = lane % 4, part = lane / 4;
	uint32_t n = *a.count > t0 ? *a.count - t0 : 0, r = thread_id() % CU_TILE_ROWS, t = thread_id() / CU_TILE_ROWS;
	piece<T> p;
	float acc = 0;

	if (!n)
		return;
	n = n < N ? n : N;
	fetch<T>(&p, a.w, a.cols, row, mine);
	for (b0 = 0; b0 < blocks; b0 += chunk) {
		uint32_t b = b0 + mine, left = blocks - b0 < chunk ? blocks - b0 : chunk;

		if (b < blocks) {
			uint32_t x[4], y[4];

			if (T != CU_Q8_0) {
				UNROLL
				for (i = 0; i < 4; i++)
					group_bytes<T>(word(p.w[0], i), layout<T>::bits > 4 ? word(p.h, i) : 0, g, &x[i], &y[i]);
			}
			UNROLL
			for (i = 0; i < N; i++) {
				int32_t s[rows];

				if (i >= n)
					break;
				multiply<T>(p, x, y, load16(a.q + (size_t)(t0 + i) * a.ld + b * 32 + g * 8), s);
				UNROLL
				for (uint32_t k = 0; k < rows; k++)
					sums[((mine * N + i) * CU_TILE_ROWS + part * rows + k) * 4 + g] = s[k];
			}
		}
		for (i = thread_id(); i < left * CU_TILE_ROWS; i += THREADS) {
			uint32_t at = b0 + i / CU_TILE_ROWS;
			const uint8_t *tile = weight_tile<T>(a.w, a.cols, row, at);

			UNROLL
			for (uint32_t h = 0; h < layout<T>::scales; h++)
				scales[i * layout<T>::scales + h] = tile_scale<T>(tile, i % 16, at % layout<T>::blocks, h);
			if (layout<T>::min)
				mins[i] = tile_min<T>(tile, i % 16, at % layout<T>::blocks);
		}
		sync_block();
		fetch<T>(&p, a.w, a.cols, row, b + chunk);
		if (t < n) {
			const float *d = a.d + (size_t)(t0 + t) * (a.ld / 32) + b0, *s = a.s + (size_t)(t0 + t) * (a.ld / 32) + b0;

			for (i = 0; i < left; i++) {
				const int32_t *v = sums + ((i * N + t) * CU_TILE_ROWS + r) * 4;
				u32x4 q = load16(v);

				if (layout<T>::scales == 2) {
					acc = fma32((float)(int32_t)(q.x + q.y), scales[(i * 16 + r) * 2] * d[i], acc);
					acc = fma32((float)(int32_t)(q.z + q.w), scales[((i * 16 + r) * 2 + 1) % (chunk * 16 * layout<T>::scales)] * d[i],
						    acc);
				} else {
					acc = fma32((float)(int32_t)(q.x + q.y + q.z + q.w), scales[i * 16 + r] * d[i], acc);
				}
				if (layout<T>::min)
					acc = fma32(mins[(i * 16 + r) % (layout<T>::min ? chunk * 16 : 1)], s[i], acc);
			}
		}
		sync_block();
	}
	if (t >= n || row + r >= a.rows)
		return;
	a.y[(size_t)(t0 + t) * a.ldy + row + r] = a.bias ? acc + a.bias[row + r] : acc;
}

/* grid: x = tile rows, y = rows of activations / 8 (or 1), rounded up. One for steps of one row, one for all others. */
#define BOTH(name, T) \
	KERNEL(product_##name, cu_product, THREADS) \
	{ \
		product<T, CU_TOKENS>(a); \
	} \
	KERNEL(product1_##name, cu_product, THREADS) \
	{ \
		product<T, 1>(a); \
	}

BOTH(q4_0, CU_Q4_0)
BOTH(q4_1, CU_Q4_1)
BOTH(q5_0, CU_Q5_0)
BOTH(q5_1, CU_Q5_1)
BOTH(q8_0, CU_Q8_0)
BOTH(q4_k, CU_Q4_K)
BOTH(q5_k, CU_Q5_K)
BOTH(q6_k, CU_Q6_K)
BOTH(iq4_nl, CU_IQ4_NL)
