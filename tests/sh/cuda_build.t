#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# The CUDA kernels compile for every GPU that we name, without one; no kernel spills registers; nothing is left on the
# stack. Skips where the compiler is not in the cache already and PyPI is out of reach.
cd "$(dirname "$0")/../.." || exit 1
if ! scripts/get-cuda.sh >/dev/null 2>&1; then
	echo "1..0 # SKIP the CUDA compiler could not be fetched: run scripts/get-cuda.sh and see why"
	exit 0
fi
n=0
ok() { # ok STATUS NAME
	n=$((n + 1))
	[ "$1" -eq 0 ] && echo "ok $n - $2" || echo "not ok $n - $2"
}
out=$(make --no-print-directory -s cuda 2>&1)
ok $? "make cuda" || echo "$out" | sed 's/^/# /'
archs="75 80 86 89 90 100"
for source in kernels/cuda/*.cu; do
	name=$(basename "$source" .cu)
	report=build/cuda/$name.report
	kernels=$(grep -cE '^(KERNEL|BOTH|EACH)\(' "$source")
	for arch in $archs; do
		seen=$(grep -c "Compiling entry function .* for 'sm_$arch'" "$report")
		[ "$seen" -ge "$kernels" ] && [ "$seen" -gt 0 ]
		ok $? "$name: $seen kernels for sm_$arch"
	done
	spills=$(grep -A1 'Function properties' "$report" | grep 'bytes stack' | grep -vc ' 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads')
	[ "$spills" -eq 0 ]
	ok $? "$name: no kernel spills or has a stack"
	most=$(grep -oE '[0-9]+ bytes smem' "$report" | sort -n | tail -1 | cut -d' ' -f1)
	[ "${most:-0}" -le 49152 ]
	ok $? "$name: at most 48 KiB of shared memory (${most:-0} bytes)"
done
echo "1..$n"
