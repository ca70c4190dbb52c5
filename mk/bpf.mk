# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# The BPF programs, and skeletons of them that the command carries. Where clang, bpftool or libbpf is missing, the
# command is built without `kvslab trace` and says so.
bpftool := $(firstword $(wildcard $(addsuffix /bpftool,$(subst :, ,$(PATH)) /usr/sbin)))
bpf_src := $(wildcard bpf/*.bpf.c)
bpf_obj := $(patsubst bpf/%.bpf.c,$(BUILD)/bpf/%.bpf.o,$(bpf_src))
# Policies are not attached but registered, by bpftool.
bpf_policies := $(shell grep -l 'SEC(".struct_ops")' $(bpf_src))
bpf_skel := $(patsubst bpf/%.bpf.c,$(BUILD)/bpf/%.skel.h,$(filter-out $(bpf_policies),$(bpf_src)))
bpf_arch := $(if $(filter aarch64%,$(shell uname -m)),arm64,x86)
bpf_all := $(and $(shell command -v clang 2>/dev/null),$(bpftool),$(shell pkg-config --exists libbpf && echo yes))

.PHONY: bpf
bpf: $(bpf_obj) ## build the BPF programs: build/bpf/*.bpf.o

$(BUILD)/bpf/%.bpf.o: bpf/%.bpf.c $(wildcard bpf/*.h)
	@mkdir -p $(@D)
	clang -target bpf -g -O2 -Wall -Werror -D__TARGET_ARCH_$(bpf_arch) \
		-I/usr/include/$$($(CC) -print-multiarch) -c -o $@ $<
	llvm-strip -g $@ 2>/dev/null || true

# For the guest: the policies, and some that are wrong. Nothing where there is no clang.
.PHONY: bpf-policies
bpf-policies: $(if $(bpf_all),$(patsubst %.bpf.c,$(BUILD)/bpf/%.bpf.o,$(notdir $(bpf_policies) nonsense.bpf.c sleeps.bpf.c)))

$(BUILD)/bpf/%.bpf.o: tests/vm/%.bpf.c $(wildcard bpf/*.h)
	@mkdir -p $(@D)
	clang -target bpf -g -O2 -Wall -Werror -D__TARGET_ARCH_$(bpf_arch) -I. \
		-I/usr/include/$$($(CC) -print-multiarch) -c -o $@ $<
	llvm-strip -g $@ 2>/dev/null || true

$(BUILD)/bpf/%.skel.h: $(BUILD)/bpf/%.bpf.o
	$(bpftool) gen skeleton $< name kvbpf_$* >$@.new && mv $@.new $@

# Of the command: what is another thing with and without.
bpf_users := export_trace snap_counts snap_take trace trace_base trace_bpf trace_frag trace_leaks trace_place \
	     trace_print trace_read trace_record trace_sites
ifneq ($(bpf_all),)
$(addprefix $(BUILD)/obj/tools/,$(addsuffix .o,$(bpf_users))): CPPFLAGS += -DKVSLAB_TRACE -I$(BUILD)/bpf
$(BUILD)/obj/tools/trace_bpf.o: $(bpf_skel)
LIBS_TOOL += -lbpf -lelf
endif
.SECONDARY: $(bpf_obj) $(bpf_skel)

# The guest's side of tests/sh/bpf.t.
.PHONY: bpf-test
bpf-test: bpf tool module-vm $(BUILD)/bpf/bpf_work $(BUILD)/bpf/bpf_attach $(BUILD)/bpf/bpf_as
$(BUILD)/obj/tests/vm/%.o: CPPFLAGS := -D_GNU_SOURCE -Ikmod/uapi -Itests/kselftest
$(BUILD)/obj/tests/vm/%.o: CFLAGS += -fno-omit-frame-pointer -fno-optimize-sibling-calls
$(BUILD)/obj/tests/vm/ks.o: tests/kselftest/ks.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
$(BUILD)/bpf/bpf_work: $(BUILD)/obj/tests/vm/bpf_work.o $(BUILD)/obj/tests/vm/ks.o
	@mkdir -p $(@D)
	$(CC) -static -pthread -o $@ $^ -luring
$(BUILD)/bpf/bpf_attach: $(BUILD)/obj/tests/vm/bpf_attach.o
	@mkdir -p $(@D)
	$(CC) -o $@ $^ -lbpf
$(BUILD)/bpf/bpf_as: $(BUILD)/obj/tests/vm/bpf_as.o
	@mkdir -p $(@D)
	$(CC) -static -o $@ $^
