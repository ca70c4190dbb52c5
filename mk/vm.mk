# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# The kernel module, and the guest in which it is tested. KERNEL= (an image) and KDIR= (headers) choose another kernel.
export KERNEL KDIR

# Before there is a module, the guest boots without.
vm_ko := $(if $(wildcard kmod/*.c),$(BUILD)/vm/kvslab.ko)
vm_options = $(addprefix --ko ,$(vm_ko)) --path $(BUILD)/kvslab
kselftests := $(patsubst tests/kselftest/%.c,$(BUILD)/kselftest/%,$(wildcard tests/kselftest/test_*.c))
kselftests += $(BUILD)/kselftest/vm-walk
kselftest_lib := $(call obj,tests/kselftest/ks.c tests/kselftest/dev.c)

.PHONY: module module-vm kselftests check-vm vm-run vm-shell
module: ## build/kvslab.ko for the running kernel, or KDIR=/path/to/headers
	@set -e; kdir='$(KDIR)'; vmlinux=; \
	[ -n "$$kdir" ] || kdir=/lib/modules/$$(uname -r)/build; \
	if [ ! -e "$$kdir/Makefile" ] || [ -z "$$(find /sys/kernel/btf/vmlinux 2>/dev/null)" ]; then \
		if found=$$(scripts/kernel.sh 2>/dev/null); then \
			eval "$$found"; [ -e "$$kdir/Makefile" ] || kdir=$$KDIR; \
			[ "$$(readlink -f "$$kdir")" != "$$(readlink -f "$$KDIR")" ] || vmlinux=$$VMLINUX; \
		fi; \
	fi; \
	scripts/module.sh "$$kdir" $(BUILD)/kvslab.ko $$vmlinux; \
	echo "$(BUILD)/kvslab.ko for $$(modinfo -F vermagic $(BUILD)/kvslab.ko 2>/dev/null || echo "$$kdir")"

module-vm: # always asks Kbuild, which knows what is old
	@[ -z '$(vm_ko)' ] || { found=$$(scripts/kernel.sh) && eval "$$found" && \
		scripts/module.sh "$$KDIR" $(BUILD)/vm/kvslab.ko "$$VMLINUX" && \
		scripts/exporter.sh "$$KDIR" $(BUILD)/vm/exporter.ko; }

kselftests: $(kselftests) ## build the tests that run in the guest

check-vm: ## boot the guest and run the kselftests in it; TESTS='test_a_01 ...' runs some of them
	@scripts/check-vm.sh $(TESTS)

vm-run: module-vm tool ## boot the guest, run CMD='...' there with FILES='...' in its working folder
	@[ -n '$(value CMD)' ] || { echo "vm-run: say what to run: make vm-run CMD='kvslab --help'" >&2; exit 2; }
	@tests/vm/guest.py run $(vm_options) $(addprefix --file ,$(FILES)) $(VM) -- "$$CMD"
vm-run: override export CMD := $(value CMD)

vm-shell: module-vm tool ## a prompt in the guest with the module loaded
	@tests/vm/guest.py shell $(vm_options) $(addprefix --file ,$(FILES)) $(VM)

# Linked statically: in the guest lies nothing that they would need.
$(BUILD)/kselftest/%: $(BUILD)/obj/tests/kselftest/%.o $(kselftest_lib)
	@mkdir -p $(@D)
	$(CC) -static -pthread -o $@ $^ -luring

$(BUILD)/kselftest/vm-walk: $(BUILD)/obj/tests/kselftest/walk.o $(kselftest_lib)
	@mkdir -p $(@D)
	$(CC) -static -pthread -o $@ $^ -luring

$(BUILD)/obj/tests/kselftest/%.o: CPPFLAGS := -D_GNU_SOURCE -Ikmod/uapi -Itests/kselftest
-include $(wildcard $(BUILD)/obj/tests/kselftest/*.d)

# Of the other width, without a C library of that width.
$(BUILD)/kselftest/test_abi_03: tests/kselftest/test_abi_03.c kmod/uapi/kvslab.h
	@mkdir -p $(@D)
	$(CC) -m32 -std=gnu11 -O1 -ffreestanding -fno-pic -fno-stack-protector -nostdlib -static $(WARN) \
		-Wno-missing-prototypes -I/usr/include/$$($(CC) -print-multiarch) -Ikmod/uapi -o $@ $<

.PHONY: check-matrix
check-matrix: ## the kselftests on Debian's 6.12 and 7.x, in guests; KERNELS='6.12', TESTS='test_a_01 ...' choose
	@scripts/setup.sh matrix
	@scripts/check-matrix.sh $(TESTS)
