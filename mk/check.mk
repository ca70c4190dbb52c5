# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
.PHONY: check check-long check-peer
check: ## install what is missing, build, run all tests
	@scripts/check.sh

check-long: ## the same with millions of random operations in place of thousands
	@scripts/check.sh long

check-peer: ## compare with a pinned llama-cpp-python, built once and kept
	@scripts/check-peer.sh
