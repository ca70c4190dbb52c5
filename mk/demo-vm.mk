# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
.PHONY: demo-vm check-vm-runtime
demo-vm: models ## two servers on one pool of the kernel module, in the guest; one of them is killed and started again
	@scripts/setup.sh check
	@$(MAKE) --no-print-directory -s -j$$(nproc) tool module-vm
	@scripts/demo-vm.sh

check-vm-runtime: ## the runtime's tests on pools of the kernel module, in the guest; TESTS= as in check-vm
	@scripts/check-vm-runtime.sh $(TESTS)
