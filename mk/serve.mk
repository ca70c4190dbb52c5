# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# What the server needs beyond the rules in Makefile.

# Debian 13 has llhttp, 12 its predecessor; the source takes whichever header is there.
LIBS_HTTP := $(if $(shell $(CC) -E -include llhttp.h -x c /dev/null >/dev/null 2>&1 && echo y),-lllhttp,-lhttp_parser)

# Fuzzers of the server, with clang: make fuzz-serve, then build-fuzz/fuzz_http FOLDER
.PHONY: fuzz-serve
fuzz-serve: ## fuzzers of what the server parses, in build-fuzz
	@$(MAKE) --no-print-directory BUILD=build-fuzz CC=clang SAN=fuzzer-no-link,address,undefined \
		build-fuzz/fuzz_http

build-fuzz/fuzz_%: build-fuzz/obj/tests/fuzz/fuzz_%.o build-fuzz/libinner.a build-fuzz/libkvslab.a
	clang -fsanitize=fuzzer,address,undefined -pthread -o $@ $^ $(LIBS_TOOL)

-include $(wildcard build-fuzz/obj/tests/fuzz/*.d)
