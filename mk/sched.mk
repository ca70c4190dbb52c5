# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# sched_fault puts itself between the scheduler and the pool, and between both and malloc.
$(BUILD)/tests/sched_fault: LDFLAGS += $(addprefix -Wl$(comma)--wrap=,kvslab_alloc kvslab_seal \
	kvslab_get kvslab_lookup malloc calloc realloc)
comma := ,
