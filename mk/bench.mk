# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# build/bench-NAME from tests/bench/NAME.c

.PHONY: bench-kernels
bench-kernels: $(BUILD)/bench-kernels ## measure the numeric kernels on one core
	$(BUILD)/bench-kernels

$(BUILD)/bench-%: $(BUILD)/obj/tests/bench/%.o $(BUILD)/libinner.a $(BUILD)/libkvslab.a
	$(CC) $(LDFLAGS) -o $@ $^ $(call pkg,--libs,$(DEPS_TOOL)) -lm

# The replay of traces has the core compiled with hooks of its own.
replay_obj := $(patsubst %.c,$(BUILD)/replay/%.o,tests/bench/replay.c $(wildcard kmod/core/*.c))

$(BUILD)/replay/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) -DKVC_HOOKS='"tests/bench/replay_hooks.h"' $(CFLAGS) $(call pkg,--cflags,jansson) -MMD -MP -c -o $@ $<

$(BUILD)/bench-replay: $(replay_obj) $(BUILD)/libkvslab.a
	$(CC) $(LDFLAGS) -o $@ $^ $(call pkg,--libs,$(DEPS_LIB) jansson)

drivers: $(BUILD)/bench-replay
-include $(replay_obj:.o=.d)
