# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# Kernels for NVIDIA's GPUs: build/cuda/NAME.fatbin of each kernels/cuda/NAME.cu, and NAME.report, what ptxas says of it.
# The compiler comes from scripts/get-cuda.sh; no GPU is needed. They are data, the same for every BUILD folder.

CUDA := build/cuda
CUDA_ARCHS ?= 75 80 86 89 90 100
cuda_src := $(wildcard kernels/cuda/*.cu)
cuda_fat := $(patsubst kernels/cuda/%.cu,$(CUDA)/%.fatbin,$(cuda_src))
# Code for each of them, and for what comes later the last one's in PTX.
cuda_code = $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) \
	    -gencode arch=compute_$(lastword $(CUDA_ARCHS)),code=compute_$(lastword $(CUDA_ARCHS))

.PHONY: cuda
cuda: $(cuda_fat) ## kernels for NVIDIA's GPUs, without a GPU (fetches the compiler once)

# No contraction, IEEE division and roots, subnormals kept: docs/numerics.md.
$(CUDA)/%.fatbin: kernels/cuda/%.cu $(wildcard kernels/cuda/*.cuh kernels/cuda/*.h)
	@mkdir -p $(@D)
	home=$$(scripts/get-cuda.sh) && "$$home/bin/nvcc" -std=c++17 -O3 -fmad=false -prec-div=true -prec-sqrt=true -ftz=false \
		-Werror all-warnings -Xptxas -v $(cuda_code) -fatbin -o $@.tmp $< >$(CUDA)/$*.report 2>&1 || \
		{ cat $(CUDA)/$*.report >&2; exit 1; }
	@mv $@.tmp $@
