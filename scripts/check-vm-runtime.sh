#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# usage: scripts/check-vm-runtime.sh [TEST...]
# The runtime on pools of the kernel module: the unit tests of pools, sequences and schedulers, and the warm restart, in a
# guest. Results go to prove.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

BUILD=${BUILD:-build}
results=$BUILD/vm/runtime
export KVSLAB_TEST_POOL=device
[ $# -gt 0 ] || set -- pool_calls pool_event pool_device pool_random pool_threads seq_model sched_calls sched_order \
	sched_batch sched_clients sched_fault sched_score sched_storm sched_events sched_ring model_invariance test_warm_01 test_uapi_01 test_device_01 test_pool_01
programs=() units=() files=(tests/vm/serve.sh build/models/f32-gqa8.gguf)
# The program in docs/$1.md.
program() { # program TEXT PROGRAM
	mkdir -p "$BUILD/vm/example/linux"
	cp kmod/uapi/kvslab.h "$BUILD/vm/example/linux/"
	# shellcheck disable=SC2016 # they are no commands
	sed -n '/^```c$/,/^```$/p' "docs/$1.md" | sed '1d;$d' >"$BUILD/vm/example/$2.c"
	gcc -std=gnu11 -Wall -Wextra -Werror -O1 -static -I "$BUILD/vm/example" -o "$BUILD/vm/example/$2" \
		"$BUILD/vm/example/$2.c" || exit 1
	files+=("$BUILD/vm/example/$2")
	programs+=("tests/vm/$name")
}
for name in "$@"; do
	case $name in
	test_uapi_01) program uapi example ;;
	test_device_01) program device device-example ;;
	test_*) programs+=("tests/vm/$name") ;;
	*)
		units+=("$BUILD/tests/$name")
		programs+=("$BUILD/tests/$name")
		;;
	esac
done
[ -f build/models/.made ] || make --no-print-directory -s models || exit 1
make --no-print-directory -s -j"$(nproc)" tool module-vm "${units[@]}" || exit 1
rm -rf "$results"
options=()
for f in "${files[@]}"; do
	options+=(--file "$f")
done
[ ! -f "$BUILD/kselftest/vm-walk" ] || options+=(--path "$BUILD/kselftest/vm-walk")
tests/vm/guest.py tests --ko "$BUILD/vm/kvslab.ko" --path "$BUILD/kvslab" --logs "$BUILD/vm" --with-module vgem --timeout 1500 "${options[@]}" \
	-- "$results" "${programs[@]}" || exit 1
# shellcheck disable=SC2086 # options are words
prove ${PROVE_ARGS:-} --exec cat "$results"/*.tap && exit
grep -h -B 5 '^not ok' "$results"/*.tap | grep -v '^ok' >&2
exit 1
