# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# The more specific pattern wins over the Makefile's avx2%.

$(BUILD)/obj/kernels/cpu/avx2_vnni%.o: ISA := -mavx2 -mfma -mf16c -mavxvnni
$(BUILD)/obj/kernels/cpu/avx512%.o: ISA := -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni
