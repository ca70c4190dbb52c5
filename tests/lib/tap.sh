# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# TAP for shell tests in bash: source it from the repository's root, end with `finish`. $tmp is a folder that goes.
# $kvslab is the command under test, from the folder $BUILD.
# shellcheck shell=bash

BUILD=${BUILD:-build}
# shellcheck disable=SC2034 # for those who source this
kvslab=$BUILD/kvslab
tap_n=0 tap_failed=0
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

ok() { # ok STATUS WORDS...: STATUS 0 is good
	local status=$1
	shift
	tap_n=$((tap_n + 1))
	if [ "$status" -eq 0 ]; then
		echo "ok $tap_n - $*"
	else
		tap_failed=$((tap_failed + 1))
		echo "not ok $tap_n - $*"
		[ ! -f "$tmp/err" ] || sed 's/^/# /' "$tmp/err" | tail -5
	fi
}

skip() { # skip REASON WORDS...
	local reason=$1
	shift
	tap_n=$((tap_n + 1))
	echo "ok $tap_n - $* # SKIP $reason"
}

skip_all() {
	echo "1..0 # SKIP $*"
	exit 0
}

# Runs a command: $status, $tmp/out, $tmp/err.
run() {
	"$@" >"$tmp/out" 2>"$tmp/err" </dev/null
	status=$?
}

# fails PATTERN WORDS... -- COMMAND...: exit 1, one message that matches and begins with "kvslab: ", nothing on stdout.
fails() {
	local pattern=$1 words=()
	shift
	while [ "$1" != -- ]; do
		words+=("$1")
		shift
	done
	shift
	run "$@"
	[ "$status" -eq 1 ] && [ ! -s "$tmp/out" ] && [ "$(wc -l <"$tmp/err")" -eq 1 ] &&
		grep -q '^kvslab: ' "$tmp/err" && grep -qE -- "$pattern" "$tmp/err"
	ok $? "${words[*]}"
}

finish() {
	echo "1..$tap_n"
	[ "$tap_failed" -eq 0 ]
	exit
}
