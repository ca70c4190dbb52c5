#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# The official Python client drives every endpoint.
cd "$(dirname "$0")/../.." || exit 1
make --no-print-directory -s venv-serve >&2 || { echo "1..0 # SKIP the client could not be installed"; exit 0; }
exec build/venv-serve/bin/python tests/sh/serve_openai.py "$@"
