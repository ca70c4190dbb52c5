# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# One test has the core compiled with hooks, as the kernel module has it.
hooked_obj := $(patsubst %.c,$(BUILD)/hooked/%.o,tests/unit/core_hooks.c $(wildcard kmod/core/*.c tests/lib/core_*.c))

$(BUILD)/hooked/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) -DKVC_HOOKS='"tests/lib/core_hooks.h"' $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/tests/core_hooks: $(hooked_obj)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^

-include $(hooked_obj:.o=.d)
