# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
.PHONY: setup model
setup: ## install what is missing on Debian 12 or 13
	@scripts/setup.sh check

model: ## fetch the real model into the cache and print its path
	@scripts/get-model.sh
