#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# scripts/setup.sh on machines that lack something, with a package client and rights of our own making.
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/tap.sh

# A machine that has a few commands; $tmp/log says what its apt-get was asked.
machine() {
	rm -rf "${tmp:?}/bin" "$tmp/log"
	mkdir "$tmp/bin"
	: >"$tmp/log"
	for c in sh env cat grep test true; do
		ln -s "$(type -P $c)" "$tmp/bin/$c"
	done
	command_is id "echo ${1:-0}"
}
command_is() { # command_is NAME SHELL...
	printf '#!/bin/sh\n%s\n' "$2" >"$tmp/bin/$1"
	chmod +x "$tmp/bin/$1"
}
setup() { PATH=$tmp/bin run "$(type -P sh)" scripts/setup.sh "$@"; }
says() { grep -q -- "^setup: .*$1" "$tmp/err"; }
everything='for c in gcc make pkg-config python3 prove git g++ mandoc tmux curl chromium qemu-system-x86_64 busybox pahole bpftool clang llvm-strip depmod xz zstd; do
	printf "#!/bin/sh\nexit 0\n" >'$tmp'/bin/$c; /bin/chmod +x '$tmp'/bin/$c; done'

machine
setup build
[ "$status" -eq 1 ] && says 'missing.*no apt-get.* gcc .* libsodium-dev.*install them'
ok $? "no apt-get: the message names what is missing"

machine 1000
command_is apt-get "echo \"\$@\" >>$tmp/log"
setup build
[ "$status" -eq 1 ] && says 'only root can.*run as root: apt-get install .*gcc' && [ ! -s "$tmp/log" ]
ok $? "neither root nor sudo: the message has the command to run"

command_is sudo "echo sudo \"\$@\" >>$tmp/log; echo 'sudo: a password is required' >&2; exit 1"
setup build
[ "$status" -eq 1 ] && says 'could not install.*rights' && grep -q '^sudo -n env .*apt-get.* install .*gcc' "$tmp/log"
ok $? "sudo that refuses: a message, and sudo was not left waiting for a password"

machine
command_is apt-get "echo \"\$@\" >>$tmp/log; echo 'E: Unable to fetch some archives' >&2; exit 100"
setup demo
[ "$status" -eq 1 ] && says 'could not install:.*python3-venv.*network' && grep -q 'Unable to fetch' "$tmp/err"
ok $? "no network: apt-get's words and ours"

machine
command_is apt-get "echo \"\$@\" >>$tmp/log"
setup build
[ "$status" -eq 1 ] && says 'still missing after the installation: gcc'
ok $? "an installation that brings nothing is noticed"

machine
command_is apt-get "echo \"\$@\" >>$tmp/log; $everything"
setup check
[ "$status" -eq 0 ] && says 'installing with apt-get: gcc' && says done &&
	grep -q 'update' "$tmp/log" && grep -q -- '--no-install-recommends gcc libc6-dev make .*mandoc' "$tmp/log"
ok $? "what is missing is installed, and it says so"
: >"$tmp/log"
setup check
[ "$status" -eq 0 ] && [ ! -s "$tmp/err" ] && [ ! -s "$tmp/log" ]
ok $? "the second time it does nothing and says nothing"
rm "$tmp/bin/mandoc"
setup build
[ "$status" -eq 0 ] && [ ! -s "$tmp/log" ]
ok $? "building needs no mandoc"
setup check
[ "$status" -eq 0 ] && grep -qx -- '.*install --no-install-recommends mandoc' "$tmp/log"
ok $? "only what is missing is asked for"
setup nonsense
[ "$status" -eq 1 ] && says 'nonsense.*none of build, demo, check, long and matrix'
ok $? "an unknown word"
finish
