#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# usage: scripts/exporter.sh KDIR OUT.ko
# Builds the tests' dma-buf exporter against the kernel whose headers lie in KDIR, in a folder of its own beside OUT.ko.
set -eu
kdir=$1 out=$2
[ -f "$kdir/Makefile" ] || { echo "exporter: no kernel headers in $kdir: scripts/setup.sh installs them, or set KDIR=" >&2 && exit 1; }
top=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -n 's/^#define UTS_RELEASE "\(.*\)"$/\1/p' "$kdir/include/generated/utsrelease.h")
mkdir -p "$(dirname "$out")"
folder=$(cd "$(dirname "$out")" && pwd)/exporter-$version
mkdir -p "$folder"
for f in exporter.c exporter.h Kbuild; do
	ln -sf "$top/tests/kselftest/exporter/$f" "$folder/$f"
done
unset MAKEFLAGS MFLAGS MAKELEVEL
{ make -s -C "$kdir" M="$folder" ${W:+W=$W} modules 2>&1 && echo made; } |
	awk '/^Skipping BTF/ { next } /^made$/ { made = 1; next } { print >"/dev/stderr" } END { exit !made }'
strip --strip-debug -o "$out.new" "$folder/exporter.ko"
mv "$out.new" "$out"
