#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# usage: scripts/module.sh KDIR OUT.ko [VMLINUX]
# Builds the module against the kernel whose headers lie in KDIR, in a folder of its own beside OUT.ko, so that the
# sources stay clean and two kernels do not meet. VMLINUX, or /sys/kernel/btf/vmlinux where KDIR is of the running
# kernel, is what the module's BTF is based on; Kbuild adds none where the headers come without vmlinux (Debian's 6.1).
# W=1 and other variables of Kbuild pass through the environment.
set -eu

fail() {
	echo "module: $*" >&2
	exit 1
}

kdir=$1 out=$2 vmlinux=${3:-}
[ -f "$kdir/Makefile" ] ||
	fail "no kernel headers in $kdir: install those of the kernel (apt-get install linux-headers-$(uname -r), or linux-headers-amd64), or set KDIR="
top=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -n 's/^#define UTS_RELEASE "\(.*\)"$/\1/p' "$kdir/include/generated/utsrelease.h")
mkdir -p "$(dirname "$out")"
folder=$(cd "$(dirname "$out")" && pwd)/module-$version

# Links, so that make sees what has changed; those of files that are gone go too.
mkdir -p "$folder"
find "$folder" -type l -exec sh -c '[ -e "$1" ] || rm "$1"' sh {} \;
(cd "$top" && find Kbuild kmod -name '*.[chS]' -o -name Kbuild) | while read -r f; do
	[ -e "$folder/$f" ] || { mkdir -p "$folder/$(dirname "$f")" && ln -s "$top/$f" "$folder/$f"; }
done

unset MAKEFLAGS MFLAGS MAKELEVEL
# Kbuild says that it skips the BTF, which is made below.
{ make -s -C "$kdir" M="$folder" -j"$(nproc)" ${W:+W=$W} modules 2>&1 && echo made; } |
	awk '/^Skipping BTF/ { next } /^made$/ { made = 1; next } { print >"/dev/stderr" } END { exit !made }'

if ! readelf -S "$folder/kvslab.ko" | grep -q ' \.BTF '; then
	if [ -z "$vmlinux" ] && [ "$version" = "$(uname -r)" ]; then
		vmlinux=/sys/kernel/btf/vmlinux
	fi
	if [ -n "$vmlinux" ] && [ -r "$vmlinux" ] && command -v pahole >/dev/null; then
		pahole -J --btf_base "$vmlinux" "$folder/kvslab.ko" || fail "pahole could not give the module BTF"
	else
		echo "module: without BTF: that needs pahole, and the kernel's vmlinux or /sys/kernel/btf" >&2
	fi
fi
strip --strip-debug -o "$out.new" "$folder/kvslab.ko"
mv "$out.new" "$out"
