#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# Repacked weights against gguf's dequantiser; see tests/ref/dequantise.py.
cd "$(dirname "$0")/../.." || exit 1
if [ ! -f build/venv/.made ]; then
	echo "1..0 # SKIP no Python environment: run make models"
	exit 0
fi
exec build/venv/bin/python tests/ref/dequantise.py "$@"
