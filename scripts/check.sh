#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# usage: scripts/check.sh [long]
# Installs what is missing, builds (plain; with ASan and UBSan; with TSan), runs all tests with prove, and ends with
# the names of the tests that failed and the line "N passed, N failed, N skipped". Exit 0 only if nothing failed. "long"
# sets KVSLAB_LONG=1 for the tests.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

say() { echo "check: $*"; }
TALLY=$(mktemp) || exit 1
FAILURES=$(mktemp) || exit 1
BESIDE=$(mktemp -d) || exit 1
export TALLY FAILURES
beside=
# Interrupted, the guests end with the rest.
trap '[ -z "$beside" ] || kill -- -"$beside" 2>/dev/null; rm -rf "$TALLY" "$FAILURES" "$BESIDE"' EXIT
finish() {
	[ ! -s "$FAILURES" ] || { say "these failed:" && cat "$FAILURES"; }
	awk '{ p += $1; f += $2; s += $3 }
	     END { printf "%d passed, %d failed, %d skipped\n", p, f, s; exit f > 0 || p == 0 }' "$TALLY"
	exit
}
fails() { # fails WHAT: a failure that no test told
	echo "0 1 0" >>"$TALLY"
	echo "$*" >>"$FAILURES"
}
broken() { # what could not even start is a failure
	say "$*"
	fails "$*"
	finish
}

most=900 # seconds that a test program may take; one that hangs fails
case ${1:-} in
"") ;;
long)
	export KVSLAB_LONG=1
	most=14400
	;;
*) broken "\"$1\" is not long" ;;
esac

scripts/setup.sh "${1:-check}" || broken "the machine lacks what the tests need"
jobs=$(nproc)
compile() { make --no-print-directory -s -j"$jobs" "$@"; }
run() { PERL5LIB=tests/lib prove --harness Tally --timer --exec "timeout $most" "$@"; }
units() { # units BUILD: its programs, those of sources that are gone left out
	for source in tests/unit/*.c; do
		echo "$1/tests/$(basename "$source" .c)"
	done
}

# The programs that have threads worth watching.
threads=()
for source in tests/unit/{core_threads,pool,sched,kern_workers}*.c; do
	[ ! -f "$source" ] || threads+=("build-tsan/tests/$(basename "$source" .c)")
done

say "building"
compile all units drivers || broken "the build failed"
# Nothing is left to build when the guests run beside other tests.
compile kselftests module-vm bpf-test view-test || broken "the build of what runs in the guest failed"
# The sanitizers check the same code at -O1, which gcc builds in a quarter of the time.
compile BUILD=build-asan SAN=address,undefined OPT=-O1 all units || broken "the build with ASan and UBSan failed"
compile BUILD=build-tsan SAN=thread OPT=-O1 "${threads[@]}" || broken "the build with TSan failed"
say "making the test models"
compile models || broken "the test models could not be made; is PyPI within reach?"
say "looking for the real model"
KVSLAB_TEST_MODEL=$(scripts/get-model.sh) || broken "the real model could not be fetched"
export KVSLAB_TEST_MODEL
[ -z "${KVSLAB_LONG:-}" ] || scripts/get-gemma.sh >/dev/null || broken "Gemma 3 could not be fetched"
say "looking for the vocabularies"
# Without them the tests that want them skip.
KVSLAB_TEST_VOCABS=$(scripts/get-vocabs.sh) && export KVSLAB_TEST_VOCABS
export UBSAN_OPTIONS=print_stacktrace=1

say "unit tests"
mapfile -t programs < <(units build)
run -j"$jobs" "${programs[@]}"
say "unit tests under ASan and UBSan"
mapfile -t programs < <(units build-asan)
run -j"$jobs" "${programs[@]}"
say "the tests of pools on the stand-in for a node, under ASan and UBSan"
mapfile -t programs < <(units build-asan | grep -E '/(pool|seq|sched)_')
KVSLAB_TEST_POOL=wire run "${programs[@]}"
say "threads under TSan"
# TSan needs the address space as it knows it; where that cannot be had, it may still work.
fixed=()
! setarch "$(uname -m)" -R true 2>/dev/null || fixed=(setarch "$(uname -m)" -R)
PERL5LIB=tests/lib "${fixed[@]}" prove --harness Tally --timer --exec "timeout $most" "${threads[@]}"
# A guest keeps one core busy for minutes: they go one after the other beside the shell tests, which mostly wait.
mapfile -t booting < <(grep -lE 'guest\.py|vm-run|check-vm' tests/sh/*.t)
mapfile -t hosted < <(grep -LE 'guest\.py|vm-run|check-vm' tests/sh/*.t)
guest() { # guest SCRIPT: one that cannot even start is a failure
	local before
	before=$(wc -l <"$TALLY")
	PERL5LIB=tests/lib PROVE_ARGS="--harness Tally" "$1"
	[ "$(wc -l <"$TALLY")" -gt "$before" ] || fails "$1 did not come to its tests"
}
guests() {
	say "shell tests that boot a guest"
	run "${booting[@]}"
	say "the kernel module, in the guest"
	guest scripts/check-vm.sh
	say "the runtime on the kernel module, in the guest"
	guest scripts/check-vm-runtime.sh
}
say "the guests begin; what they say follows below"
set -m # a process group of its own, to be ended as one
(TALLY=$BESIDE/tally FAILURES=$BESIDE/failures && : >"$TALLY" && guests) >"$BESIDE/log" 2>&1 &
beside=$!
set +m
say "shell tests"
run "${hosted[@]}"
say "the command under ASan and UBSan"
BUILD=build-asan run tests/sh/command*.t tests/sh/run_*.t tests/sh/inspect.t tests/sh/serve_attack.t tests/sh/serve_fields.t tests/sh/serve_same.t
say "waiting for the guests"
wait "$beside"
beside=
cat "$BESIDE/log"
cat "$BESIDE/tally" >>"$TALLY"
[ ! -f "$BESIDE/failures" ] || cat "$BESIDE/failures" >>"$FAILURES"
if [ -n "${KVSLAB_LONG:-}" ]; then
	say "fuzzers"
	for target in fuzz-serve fuzz-views fuzz; do
		if make --no-print-directory -s "$target" FUZZ_SECONDS=600; then
			echo "1 0 0" >>"$TALLY"
		else
			fails "make $target"
		fi
	done
fi
finish
