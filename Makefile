# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# kvslab: `make help`. Sources are found by folder; a new .c file needs no line here.

BUILD ?= build
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
CC ?= gcc
# SAN=address,undefined or SAN=thread builds everything under a sanitizer; give BUILD another folder.
SAN ?=
# The AVX2 products take minutes to compile under ASan at -O2, seconds at -O1.
OPT ?= $(if $(SAN),-O1,-O2)

VERSION := 0.1.0
DEPS_LIB := libsodium liburing
DEPS_TOOL := $(DEPS_LIB) libpcre2-8 jansson

WARN := -Wall -Wextra -Werror -Wstrict-prototypes -Wmissing-prototypes -Wshadow
CPPFLAGS += -D_GNU_SOURCE -I. -Iruntime -Iruntime/include -Ikmod/core -Ikernels
CFLAGS += -std=gnu11 $(OPT) -g $(WARN) -fPIC -ffp-contract=off -pthread \
	  $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)
LDFLAGS += -pthread $(if $(SAN),-fsanitize=$(SAN))
pkg = $(shell pkg-config $(1) $(2) 2>/dev/null)
LIBS_TOOL = $(call pkg,--libs,$(DEPS_TOOL)) $(LIBS_HTTP) -lm

lib_src := $(wildcard kmod/core/*.c runtime/pool/*.c runtime/sched/*.c runtime/loop/*.c)
kern_src := $(wildcard kernels/*.c kernels/cpu/*.c)
model_src := $(wildcard runtime/model/*.c)
serve_src := $(wildcard runtime/serve/*.c)
tool_src := $(wildcard tools/*.c)
testlib_src := $(wildcard tests/lib/*.c)
unit_src := $(wildcard tests/unit/*.c)
bench_src := $(wildcard tests/bench/*.c)

obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
lib_obj := $(call obj,$(lib_src))
inner_obj := $(call obj,$(kern_src) $(model_src) $(serve_src))
all_obj := $(lib_obj) $(inner_obj) $(call obj,$(tool_src) $(testlib_src) $(unit_src) $(bench_src))
units := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(unit_src))

.PHONY: all help lib tool units clean install
all: lib tool ## the library and the command

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

-include mk/*.mk

lib: $(BUILD)/libkvslab.so $(BUILD)/libkvslab.a ## libkvslab alone: pool and sched

tool: $(BUILD)/kvslab ## the command

units: $(units) ## build the unit tests

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(call pkg,--cflags,$(DEPS_TOOL)) $(ISA) -MMD -MP -c -o $@ $<

$(BUILD)/obj/kernels/cpu/avx2%.o: ISA := -mavx2 -mfma -mf16c

$(BUILD)/libkvslab.a: $(lib_obj)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/libinner.a: $(inner_obj)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/libkvslab.so: $(lib_obj) runtime/libkvslab.map
	$(CC) $(LDFLAGS) -shared -Wl,-soname,libkvslab.so.0 -Wl,--version-script=runtime/libkvslab.map \
		-Wl,--no-undefined -o $@ $(lib_obj) $(call pkg,--libs,$(DEPS_LIB))

$(BUILD)/kvslab: $(call obj,$(tool_src)) $(BUILD)/libinner.a $(BUILD)/libkvslab.a
	$(CC) $(LDFLAGS) -o $@ $^ $(LIBS_TOOL)

$(BUILD)/libtest.a: $(call obj,$(testlib_src))
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/tests/%: $(BUILD)/obj/tests/unit/%.o $(BUILD)/libtest.a $(BUILD)/libinner.a $(BUILD)/libkvslab.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(LIBS_TOOL)

clean: ## remove what was built
	rm -rf build build-*

-include $(all_obj:.o=.d)
.SECONDARY:
