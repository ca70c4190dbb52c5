#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# usage: scripts/setup.sh [build|demo|check|long|matrix]
# Installs what is missing on Debian 12 or 13, and nothing if nothing is: the means to build, to run the demo, to run
# the tests (the default), the long ones too, or those of other kernels. As root, or with sudo.
set -eu

say() { echo "setup: $*" >&2; }
fail() {
	say "$*"
	exit 1
}

level=${1:-check}
case $level in
build | demo | check | long | matrix) ;;
*) fail "\"$level\" is none of build, demo, check, long and matrix" ;;
esac

missing=
need() { # need PACKAGE COMMAND...: PACKAGE is missing if COMMAND fails
	package=$1
	shift
	"$@" >/dev/null 2>&1 || missing="$missing $package"
}
have() { command -v "$1"; }
header() { echo "#include <$1>" | gcc -E -x c -; }
http_header() { header llhttp.h || header http_parser.h; } # the one has followed the other
fuzzer() { echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | clang -fsanitize=fuzzer -x c -o /dev/null -; }
library() { pkg-config --exists "$1"; }
in_sbin() { command -v "$1" || test -x "/usr/sbin/$1"; } # where a user's PATH does not look
kernel_headers() { test -n "$(echo /usr/src/linux-headers-*/Module.symvers | grep -v '[*]')"; }

look() {
	missing=
	need gcc have gcc
	need libc6-dev header stdio.h
	need make have make
	need pkg-config have pkg-config
	need libsodium-dev library libsodium
	need liburing-dev library liburing
	need libpcre2-dev library libpcre2-8
	need libjansson-dev library jansson
	need libncurses-dev library ncursesw
	if grep -qs 'VERSION_ID="12"' /etc/os-release; then
		need libhttp-parser-dev http_header
	else
		need libllhttp-dev http_header
	fi
	[ "$level" = build ] && return
	need ca-certificates test -s /etc/ssl/certs/ca-certificates.crt
	need python3 have python3
	need python3-venv python3 -c 'import ensurepip, venv'
	[ "$level" = demo ] && return
	need perl have prove
	need git have git
	need g++ have g++
	need mandoc have mandoc
	need tmux have tmux
	need curl have curl
	need chromium have chromium
	# The guest: scripts/kernel.sh takes the kernel's image out of its package without installing it.
	need linux-headers-amd64 kernel_headers
	need qemu-system-x86 have qemu-system-x86_64
	need busybox-static have busybox
	need pahole have pahole
	need bpftool in_sbin bpftool
	need clang have clang
	need llvm have llvm-strip
	need libbpf-dev library libbpf
	need kmod in_sbin depmod
	need xz-utils have xz
	need zstd have zstd
	[ "$level" = check ] && return
	if [ "$level" = matrix ]; then
		need mmdebstrap have mmdebstrap
		return
	fi
	need libclang-rt-dev fuzzer
}

look
if [ -z "$missing" ]; then
	exit 0
fi
# A header or a library cannot be seen before gcc or pkg-config is there: ask once more at the end.
command -v apt-get >/dev/null ||
	fail "these are missing, and there is no apt-get to install them with:$missing; install them (the names are Debian's) and run this again"
if [ "$(id -u)" -eq 0 ]; then
	as_root=
elif ! command -v sudo >/dev/null; then
	fail "these packages are missing, and only root can install them:$missing; run as root: apt-get install$missing"
elif [ -t 0 ]; then
	as_root=sudo
else
	as_root="sudo -n"
fi

apt() {
	# shellcheck disable=SC2086 # as_root is two words, or none
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -y "$@" >&2
}

say "installing with apt-get:$missing"
apt update || say "the package lists could not be brought up to date; going on with those that are here"
# shellcheck disable=SC2086 # one package a word
apt install --no-install-recommends $missing ||
	fail "apt-get could not install:$missing; its messages are above. Check the network, the package sources and the rights, then run this again"
look
[ -z "$missing" ] || fail "still missing after the installation:$missing; install them by hand and run this again"
say "done"
