#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# Models in several files, and locked weights; see tests/ref/shards.py.
cd "$(dirname "$0")/../.." || exit 1
if [ ! -f build/models/.made ]; then
	echo "1..0 # SKIP no test models: run make models"
	exit 0
fi
exec build/venv/bin/python tests/ref/shards.py "$@"
