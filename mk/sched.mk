# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# sched_fault puts itself between the scheduler and the pool, and between both and malloc.
$(BUILD)/tests/sched_fault: LDFLAGS += $(addprefix -Wl$(comma)--wrap=,kvslab_alloc kvslab_seal pool_calls \
	kvslab_get kvslab_lookup malloc calloc realloc)
comma := ,

# The stand-in for a node takes commands on an io_uring there (tests/lib/wire_ring.h).
$(BUILD)/tests/sched_ring: LDFLAGS += $(addprefix -Wl$(comma)--wrap=,loop_command loop_commands)
