/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * All that a kernel may use of a GPU, by one name each. Under nvcc these are the machine's instructions; compiled as plain
 * C++ they come from tests/simt, which runs the same source with one fibre a thread.
 *
 * Blocks are one-dimensional; shared arrays are declared with SHARED at the head of a function; all threads of a warp take part in
 * a warp's operation.
 */
#ifndef KERNELS_CUDA_DEVICE_H
#define KERNELS_CUDA_DEVICE_H

#include <stdint.h>

#include "args.h"

#define WARP 32

#ifdef __CUDACC__

#define KERNEL(name, type, threads) \
	extern "C" __global__ void __launch_bounds__(threads) kv_##name(const __grid_constant__ struct type a)
#define DEV static __device__ __forceinline__
#define SHARED(type, name, n) __shared__ __align__(16) type name[n]
#define UNROLL _Pragma("unroll")
#define UNROLL_NOT _Pragma("unroll 1")

typedef uint4 u32x4;

DEV uint32_t thread_id() { return threadIdx.x; }
DEV uint32_t block_size() { return blockDim.x; }
DEV uint32_t block_x() { return blockIdx.x; }
DEV uint32_t block_y() { return blockIdx.y; }
DEV uint32_t grid_x() { return gridDim.x; }
#define sync_block() __syncthreads()
#define sync_warp() __syncwarp()
DEV float shfl_xor(float v, uint32_t m) { return __shfl_xor_sync(0xffffffffu, v, m); }
DEV uint32_t shfl_xor(uint32_t v, uint32_t m) { return __shfl_xor_sync(0xffffffffu, v, m); }
DEV float shfl(float v, uint32_t lane) { return __shfl_sync(0xffffffffu, v, lane); }
DEV uint32_t shfl(uint32_t v, uint32_t lane) { return __shfl_sync(0xffffffffu, v, lane); }
DEV uint32_t vote(bool p) { return __ballot_sync(0xffffffffu, p); }
DEV void atomic_add(uint32_t *p, uint32_t v) { atomicAdd(p, v); }
DEV void atomic_add(uint64_t *p, uint64_t v) { atomicAdd((unsigned long long *)p, (unsigned long long)v); }
DEV void atomic_min(uint32_t *p, uint32_t v) { atomicMin(p, v); }
DEV void atomic_max(uint32_t *p, uint32_t v) { atomicMax(p, v); }
DEV uint32_t bits_of(float x) { return __float_as_uint(x); }
DEV float float_of(uint32_t u) { return __uint_as_float(u); }
DEV float fma32(float a, float b, float c) { return __fmaf_rn(a, b, c); }
DEV float sqrt32(float x) { return __fsqrt_rn(x); }
DEV float rint32(float x) { return rintf(x); }
DEV double ceil64(double x) { return ceil(x); }
DEV double log64(double x) { return log(x); }
DEV uint64_t mul_high(uint64_t a, uint64_t b) { return __umul64hi(a, b); }

DEV float f16_to_f32(uint16_t h)
{
	float f;

	asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
	return f;
}

/* To nearest even, with subnormals and infinity. */
DEV uint16_t f16_from_f32(float x)
{
	uint16_t h;

	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
	return h;
}

/* Bytes of the pair (a, b) by the nibbles of @sel; a nibble above 7 gives the sign of byte (nibble - 8), eight times. */
DEV uint32_t prmt(uint32_t a, uint32_t b, uint32_t sel)
{
	uint32_t d;

	asm("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(sel));
	return d;
}

/* c + the two 16-bit integers of a times bytes 0 and 1 of b; _hi: bytes 2 and 3. All signed. */
DEV int32_t dp2a_lo(uint32_t a, uint32_t b, int32_t c)
{
	int32_t d;

	asm("dp2a.lo.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
	return d;
}

DEV int32_t dp2a_hi(uint32_t a, uint32_t b, int32_t c)
{
	int32_t d;

	asm("dp2a.hi.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
	return d;
}

/*
 * d[16][8] += a[16][16] b[16][8], f16 with f32 sums. With g = lane / 4, c = lane % 4: a: rows g, g + 8, g, g + 8, columns
 * 2c and 2c + 1, the last two plus 8; b: rows 2c and 2c + 1, then plus 8, column g; d: rows g, g, g + 8, g + 8, columns 2c,
 * 2c + 1, 2c, 2c + 1. Before sm_80 the machine takes it in two steps of 8.
 */
DEV void mma_f16(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
#if __CUDA_ARCH__ >= 800
	asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
	    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
	    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
	asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
	    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
	    : "r"(a[0]), "r"(a[1]), "r"(b0));
	asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
	    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
	    : "r"(a[2]), "r"(a[3]), "r"(b1));
#endif
}

#else
#include "simt.h"
#endif

DEV uint32_t lane_id() { return thread_id() % WARP; }
DEV uint32_t warp_id() { return thread_id() / WARP; }
DEV u32x4 load16(const void *p) { return *(const u32x4 *)p; }
DEV void store16(void *p, u32x4 v) { *(u32x4 *)p = v; }

#endif
