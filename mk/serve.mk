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

$(BUILD)/obj/runtime/serve/page.o: runtime/serve/page.html

# The official client, for tests/sh/serve_openai.t.
.PHONY: venv-serve
venv-serve: build/venv-serve/.made ## the Python client that the server is tested with
build/venv-serve/.made: tests/sh/serve_requirements.txt
	@rm -rf build/venv-serve
	python3 -m venv build/venv-serve
	build/venv-serve/bin/pip --quiet --disable-pip-version-check install -r $<
	@touch $@
