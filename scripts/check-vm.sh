#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# usage: scripts/check-vm.sh [TEST...]
# Builds the module for the guest's kernel and the kselftests, runs them in guests, and hands the results to prove
# (with $PROVE_ARGS). Tests named test_cost_* count instructions and have a guest of their own.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

BUILD=${BUILD:-build}
results=$BUILD/vm/results
make --no-print-directory -s -j"$(nproc)" tool kselftests module-vm || exit 1
rm -rf "$results"
mkdir -p "$results"

options=(--path "$BUILD/kvslab" --path "$BUILD/kselftest/vm-walk" --logs "$BUILD/vm" --parameters extents=160)
[ ! -f "$BUILD/vm/kvslab.ko" ] || options+=(--ko "$BUILD/vm/kvslab.ko")
most=480
[ -z "${KVSLAB_LONG:-}" ] || most=12000

tests=() costs=()
if [ $# -eq 0 ]; then
	for source in tests/kselftest/test_smoke_*.c $(ls tests/kselftest/test_*.c | grep -v smoke); do
		set -- "$@" "$(basename "$source" .c)"
	done
fi
for name in "$@"; do
	case $name in
	test_cost_*) costs+=("$BUILD/kselftest/$name") ;;
	*) tests+=("$BUILD/kselftest/$name") ;;
	esac
done

guest() { # guest NAME OPTION... -- TEST...
	local name=$1
	shift
	tests/vm/guest.py tests "${options[@]}" --timeout "$most" "$@" || exit 1
	[ "$name" = guest ] || mv "$results/guest.tap" "$results/$name.tap"
	cp "$BUILD/vm/console.log" "$BUILD/vm/$name.log"
}
[ ${#tests[@]} -eq 0 ] || guest guest --limit $((most / 2)) -- "$results" "${tests[@]}"
[ ${#costs[@]} -eq 0 ] || guest guest-icount --icount --append slub_debug=- -- "$results" "${costs[@]}"
# shellcheck disable=SC2086 # options are words
prove ${PROVE_ARGS:-} --exec cat "$results"/*.tap && exit
for result in "$results"/*.tap; do
	! grep -q '^not ok' "$result" || { echo "$(basename "$result" .tap):" && grep -B 5 '^not ok' "$result" | grep -v '^ok'; }
done >&2
exit 1
