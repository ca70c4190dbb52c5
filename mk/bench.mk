# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# build/bench-NAME from tests/bench/NAME.c

.PHONY: bench-kernels
bench-kernels: $(BUILD)/bench-kernels ## measure the numeric kernels on one core
	$(BUILD)/bench-kernels

$(BUILD)/bench-%: $(BUILD)/obj/tests/bench/%.o $(BUILD)/libinner.a $(BUILD)/libkvslab.a
	$(CC) $(LDFLAGS) -o $@ $^ $(call pkg,--libs,$(DEPS_TOOL)) -lm
