# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# What the server needs beyond the rules in Makefile.

# Debian 13 has llhttp, 12 its predecessor; the source takes whichever header is there.
LIBS_HTTP := $(if $(shell $(CC) -E -include llhttp.h -x c /dev/null >/dev/null 2>&1 && echo y),-lllhttp,-lhttp_parser)

# Fuzzers of what the server parses, with clang and the flags of mk/fuzz.mk.
serve_fuzz_names := fuzz_http fuzz_json
serve_fuzz_src := $(addprefix runtime/serve/,buf.c http_scan.c http_head.c http_body.c error.c json.c params.c prompts.c \
		  tokens.c) runtime/model/stop.c runtime/pool/error.c tests/lib/api_model.c
.PHONY: fuzz-serve
fuzz-serve: $(serve_fuzz_names:%=build-fuzz/%) ## run each fuzzer of the server's parsers for FUZZ_SECONDS
	@set -e; for f in $(serve_fuzz_names); do \
		mkdir -p build-fuzz/corpus/$$f build-fuzz/found; \
		build-fuzz/$$f -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=1024 -max_len=4096 \
			-artifact_prefix=build-fuzz/found/$$f- build-fuzz/corpus/$$f tests/fuzz/corpus/$$f; \
	done

$(serve_fuzz_names:%=build-fuzz/%): build-fuzz/%: tests/fuzz/%.c $(serve_fuzz_src) $(wildcard runtime/serve/*.h)
	@mkdir -p $(@D)
	$(FUZZ_CC) $(fuzz_flags) -Iruntime -Iruntime/include -Ikernels -o $@ $< $(serve_fuzz_src) $(fuzz_src) \
		$(call pkg,--cflags --libs,libsodium libpcre2-8 jansson) $(LIBS_HTTP) -lm

$(BUILD)/obj/runtime/serve/page.o: runtime/serve/page.html

# The official client, for tests/sh/serve_openai.t.
.PHONY: venv-serve
venv-serve: build/venv-serve/.made ## the Python client that the server is tested with
build/venv-serve/.made: tests/sh/serve_requirements.txt
	@rm -rf build/venv-serve
	python3 -m venv build/venv-serve
	build/venv-serve/bin/pip --quiet --disable-pip-version-check install -r $<
	@touch $@
