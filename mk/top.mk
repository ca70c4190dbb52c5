# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# The views. Where ncurses is missing, the command is built without the live one and says so.
curses_libs := $(shell pkg-config --libs ncursesw 2>/dev/null)
ifneq ($(curses_libs),)
$(BUILD)/obj/tools/top_term.o: CPPFLAGS += -DKVSLAB_CURSES $(shell pkg-config --cflags ncursesw)
$(BUILD)/kvslab: LIBS_TOOL += $(curses_libs)
endif

# What they are made of, without the module, BPF and terminals: their tests are linked with these alone.
view_src := $(addprefix tools/,map_cells.c map_film.c map_svg.c msg.c outfile.c pool_print.c record.c record_codec.c \
	    record_write.c screen.c snap.c svg.c top_json.c top_view.c)
$(BUILD)/tests/view_corpus $(BUILD)/tests/view_draw $(BUILD)/tests/view_record: $(call obj,$(view_src))

# The fuzzer of recordings, with clang and the flags of mk/fuzz.mk.
.PHONY: fuzz-views
fuzz-views: build-fuzz/fuzz_record ## run the fuzzer of recordings for FUZZ_SECONDS
	@mkdir -p build-fuzz/corpus/fuzz_record build-fuzz/found
	build-fuzz/fuzz_record -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=1024 -max_len=8192 \
		-artifact_prefix=build-fuzz/found/fuzz_record- build-fuzz/corpus/fuzz_record tests/fuzz/corpus/fuzz_record

build-fuzz/fuzz_record: tests/fuzz/fuzz_record.c $(view_src) $(wildcard tools/*.h)
	@mkdir -p $(@D)
	$(FUZZ_CC) $(fuzz_flags) -Iruntime -Iruntime/include -Ikmod/core -o $@ $< $(view_src) $(call pkg,--cflags --libs,jansson)

# The guest's side of tests/sh/top_vm.t.
.PHONY: view-test
view-test: tool module-vm $(BUILD)/vm/view_work
$(BUILD)/vm/view_work: $(BUILD)/obj/tests/vm/view_work.o $(BUILD)/obj/tests/vm/ks.o
	@mkdir -p $(@D)
	$(CC) -static -pthread -o $@ $^ -luring
