/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* The implementations of struct kern_ops, file by file. What each computes: docs/numerics.md. */
#ifndef KERNELS_CPU_IMPL_H
#define KERNELS_CPU_IMPL_H

#include "kvslab_kernels.h"

extern const struct kern_ops kern_ops_c;
extern const struct kern_ops kern_ops_avx2; /* only where the CPU has AVX2, FMA and F16C */
extern const struct kern_ops kern_ops_avxvnni; /* and AVX-VNNI */
extern const struct kern_ops kern_ops_avx512; /* and AVX-512 F, BW, DQ, VL and VNNI */

void c_quantise(const struct kern_act *a, const float *x, uint32_t n);
void c_product(const struct kern_weight *w, uint32_t r0, uint32_t r1, const struct kern_act *x, uint32_t n,
	       float *y, size_t ldy);
void c_rmsnorm(float *y, const float *x, const float *w, uint32_t n, float eps);
void c_rope(float *x, uint32_t heads, uint32_t head_dim, uint32_t rope_dim, const float *rope);
void c_append(const struct kern_append *a, uint32_t i0, uint32_t i1);
void c_attention(const struct kern_attn *a, uint32_t kvh, uint32_t i0, uint32_t i1);
void c_swiglu(float *y, const float *g, const float *u, uint32_t n);
void c_geglu(float *y, const float *g, const float *u, uint32_t n);
void c_softcap(float *x, uint32_t n, float cap);
void c_add(float *x, const float *y, uint32_t n);
void c_exp(float *x, uint32_t n);
float c_max(const float *x, uint32_t n, bool *finite);
float c_expsum(const float *x, uint32_t n, float sub);

#endif
