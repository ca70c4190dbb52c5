#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# usage: scripts/check-vm.sh [TEST...]
# Builds the module for the guest's kernel and the kselftests, runs them in guests, and hands the results to prove
# (with $PROVE_ARGS). Tests named test_cost_* count instructions and have a guest of their own.
# KO=FILE: this module, which somebody else built for KERNEL=; VM_FOLDER=: where logs and results go, in place of
# $BUILD/vm. VM_FILES='...': more files for the guest; VM_SECONDS: when it must be over.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

BUILD=${BUILD:-build}
folder=${VM_FOLDER:-$BUILD/vm}
results=$folder/results
ko=${KO:-$folder/kvslab.ko}
targets=(tool kselftests bpf-policies)
[ -n "${KO:-}" ] || targets+=(module-vm)
make --no-print-directory -s -j"$(nproc)" "${targets[@]}" || exit 1
rm -rf "$results"
mkdir -p "$results"

options=(--path "$BUILD/kvslab" --path "$BUILD/kselftest/vm-walk" --logs "$folder" --parameters extents=160)
for f in "$BUILD"/bpf/{lru,keep_prefixes,nonsense,sleeps}.bpf.o "$folder/exporter.ko" ${VM_FILES:-}; do
	[ ! -e "$f" ] || options+=(--file "$f")
done
[ ! -f "$ko" ] || options+=(--ko "$ko")
most=${VM_SECONDS:-480}
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
	cp "$folder/console.log" "$folder/$name.log"
}
[ ${#tests[@]} -eq 0 ] || guest guest --limit $((most / 2)) -- "$results" "${tests[@]}"
[ ${#costs[@]} -eq 0 ] || guest guest-icount --icount --append slub_debug=- -- "$results" "${costs[@]}"
# shellcheck disable=SC2086 # options are words
prove ${PROVE_ARGS:-} --exec cat "$results"/*.tap && exit
for result in "$results"/*.tap; do
	! grep -q '^not ok' "$result" || { echo "$(basename "$result" .tap):" && grep -B 5 '^not ok' "$result" | grep -v '^ok'; }
done >&2
exit 1
