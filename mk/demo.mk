# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
.PHONY: demo
demo: ## install what is missing, build, fetch the model, serve it and stream eight chats; KEEP=1: serve on
	@scripts/setup.sh demo
	@echo "demo: building" >&2
	@$(MAKE) --no-print-directory -s -j$$(nproc) lib tool
	@scripts/demo.sh
