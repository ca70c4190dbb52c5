#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# The guest itself: what comes out of it, and that no way of ending badly looks like a success.
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/tap.sh

guest() { run tests/vm/guest.py "$1" --logs "$tmp" "${@:2}"; }

mkdir "$tmp/folder"
echo inner >"$tmp/folder/file"
echo outer >"$tmp/a file"
guest run --file "$tmp/folder" --file "$tmp/a file" 'cat "a file" folder/file && bpftool version | head -1 &&
	grep -q memory /sys/fs/cgroup/cgroup.subtree_control && [ -d /sys/kernel/debug/tracing ] && mount | grep -c "type bpf" &&
	dd if=/dev/urandom of=/dev/nvme0n1 bs=1M count=1 2>/dev/null && [ -b /dev/nvme0n2 ]; echo "$?"; exit 42'
[ "$status" -eq 42 ] && [ "$(grep -v bpftool "$tmp/out")" = "$(printf 'outer\ninner\n1\n0')" ] && grep -q '^bpftool' "$tmp/out"
ok $? "files go in, output and status come out, the house is furnished"

guest run 'echo c >/proc/sysrq-trigger'
[ "$status" -eq 99 ] && grep -q 'vm: the kernel complained' "$tmp/err" && grep -q 'Kernel panic' "$tmp/err"
ok $? "a panic fails the run"
guest run 'echo "WARNING: CPU: 0 at here" >/dev/kmsg; exit 0'
[ "$status" -eq 99 ] && grep -q 'WARNING: CPU: 0 at here' "$tmp/err"
ok $? "a warning fails it, whatever the command says"
guest run --timeout 12 'sleep 1000'
[ "$status" -eq 124 ] && grep -q 'stopped after 12' "$tmp/err"
ok $? "a command that hangs is stopped"
guest run --append 'init=/nonsense rdinit=/nonsense' true
[ "$status" -eq 125 ] && grep -q 'did not come up' "$tmp/err"
ok $? "a guest that does not come up"
run env KERNEL=/nonsense/vmlinuz-1 tests/vm/guest.py run --logs "$tmp" true
[ "$status" -eq 125 ] && grep -q '/nonsense/vmlinuz-1 cannot be read' "$tmp/err"
ok $? "an image that is not there"

# Tests of all sorts; each gets what it deserves.
program() { printf '#!/bin/sh\n%s\n' "$2" >"$tmp/$1" && chmod +x "$tmp/$1" && tests+=("$tmp/$1"); }
tests=()
program test_good 'echo "ok 1 - one"; echo "ok 2 - two"; echo "1..2"'
program test_bad 'echo "ok 1 - one"; echo "not ok 2 - two"; echo "1..2"; exit 1'
program test_short 'echo "ok 1 - one"; echo "1..2"'
program test_dies 'echo "ok 1 - one"; kill -KILL $$'
program test_hangs 'echo "ok 1 - one"; sleep 100'
program test_skipped 'echo "1..0 # SKIP no reason"'
program test_warns 'echo "ok 1 - one"; echo "BUG: here" >/dev/kmsg; echo "1..1"'
guest tests --limit 3 "$tmp/results" "${tests[@]}"
[ "$status" -eq 0 ]
ok $? "the suite comes to its end"
as() { # as TEST PASSED FAILED PATTERN
	[ "$(grep -c '^ok' "$tmp/results/$1.tap")" -eq "$2" ] && [ "$(grep -c '^not ok' "$tmp/results/$1.tap")" -eq "$3" ] &&
		grep -q -- "$4" "$tmp/results/$1.tap"
	ok $? "$1"
}
as test_good 6 0 '^1..6$'
as test_bad 5 1 '^not ok 2 - two'
as test_short 4 1 '^not ok 3 - and has made all its checks'
as test_dies 3 2 '^# status 137'
as test_hangs 3 2 '^# status 137'
as test_skipped 0 0 '^1..0 # SKIP no reason'
as test_warns 4 1 '^not ok . - the kernel has not complained'
as guest 2 0 '^1..2$'
finish
