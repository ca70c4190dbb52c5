# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# Fuzzers, and the test in which memory runs out.

# The test decides which allocation fails; the C library's own are not touched.
$(BUILD)/tests/gguf_memory: LDFLAGS += -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc

FUZZ_SECONDS ?= 60
FUZZ_CC ?= clang
fuzz_names := fuzz_gguf fuzz_shards fuzz_tok fuzz_chat
fuzz_flags := -D_GNU_SOURCE -I. -std=gnu11 -O1 -g $(WARN) -ffp-contract=off -fno-omit-frame-pointer \
	      -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all
fuzz_src := $(wildcard runtime/model/gguf*.c runtime/model/tok*.c runtime/model/chat*.c) runtime/model/error.c \
	    tests/lib/vocab.c tests/lib/gguf_write.c

.PHONY: fuzz fuzzers
fuzzers: $(fuzz_names:%=build-fuzz/%) ## build the fuzzers of model files and text (clang)

fuzz: fuzzers ## run each fuzzer for FUZZ_SECONDS (60), beginning with tests/fuzz/corpus
	@set -e; for f in $(fuzz_names); do \
		mkdir -p build-fuzz/corpus/$$f build-fuzz/found; \
		build-fuzz/$$f -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=512 \
			$$([ ! -f tests/fuzz/$$f.dict ] || echo -dict=tests/fuzz/$$f.dict) \
			-artifact_prefix=build-fuzz/found/$$f- build-fuzz/corpus/$$f \
			$$([ ! -d tests/fuzz/corpus/$$f ] || echo tests/fuzz/corpus/$$f); \
	done

$(fuzz_names:%=build-fuzz/%): build-fuzz/%: tests/fuzz/%.c $(fuzz_src) $(wildcard runtime/model/*.h)
	@mkdir -p $(@D)
	$(FUZZ_CC) $(fuzz_flags) -o $@ $< $(fuzz_src) $(call pkg,--cflags --libs,libsodium libpcre2-8)
