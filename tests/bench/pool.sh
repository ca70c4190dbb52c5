#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# usage: tests/bench/pool.sh [build/kvslab]
# The pool beside the reference list and beside vLLM's block pool in Python, one table. Marks: within 2x of the list
# in batches of 16 at 6 and 512 pages a slab, and 20 times faster than the other; within 5x of the list at one page a slab.
# Exit 1 where one is missed.
set -eu
cd "$(dirname "$0")/../.."
kvslab=${1:-build/kvslab}
PYTHON=${PYTHON:-python3}
[ -x "$kvslab" ] || { echo "pool.sh: $kvslab is not there; run make first, or name the command" >&2; exit 1; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"$kvslab" bench pool --json >"$out/kvslab"
"$PYTHON" tests/bench/vllm_pool.py --json >"$out/vllm"
"$PYTHON" - "$out/kvslab" "$out/vllm" <<'PY'
import json
import sys

ours = [json.loads(line) for line in open(sys.argv[1])]
vllm = {f["name"]: f["ns_per_page"] for f in map(json.loads, open(sys.argv[2]))}
limits = {(1, 16): (5, 0), (6, 16): (2, 20), (512, 16): (2, 20)}
missed = 0
print("pages  batch threads   pool ns   list ns   x list  mark   vllm ns  faster  mark")
for pool in (f for f in ours if f["name"] == "pool"):
    key = (pool["pages_per_slab"], pool["batch"])
    other = next(f for f in ours if f["name"] == "list" and f["threads"] == pool["threads"]
                 and (f["pages_per_slab"], f["batch"]) == key)
    python = vllm["vllm-bulk" if pool["batch"] > 1 else "vllm-single"]
    faster = python / pool["ns_per_page"]
    limit = limits.get(key) if pool["threads"] == 1 else None
    if limit and (pool["ratio"] > limit[0] or faster < limit[1]):
        missed = 1
    print("%5d %6d %7d %9.1f %9.1f %8.2f %5s %9.1f %7.1f %5s" % (
        *key, pool["threads"], pool["ns_per_page"], other["ns_per_page"], pool["ratio"],
        limit and limit[0] or "-", python, faster, limit and limit[1] or "-"))
sys.exit(missed)
PY
