#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# usage: scripts/kernel.sh [FOLDER]
# Finds the kernel that the guest boots and its headers, and prints them as shell variables: VERSION, IMAGE, MODULES
# (of lib/modules), KDIR, VMLINUX (taken out of the image, for module BTF and for a quick start).
#
# KERNEL=IMAGE names another image, whose modules lie in ../lib/modules beside it; KDIR= other headers. Without them:
# the newest linux-headers of the distribution that are installed, with the image of the same version from /boot or,
# where it is not installed, from its package, unpacked into FOLDER (build/kernel) without installing it.
set -eu

say() { echo "kernel: $*" >&2; }
fail() {
	say "$*"
	exit 1
}

folder=${1:-build/kernel}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

modules_of() { # modules_of ROOT VERSION
	for m in "$1/lib/modules/$2" "$1/usr/lib/modules/$2"; do
		[ ! -d "$m/kernel" ] || { echo "$m" && return; }
	done
}

newest_headers() {
	for h in /usr/src/linux-headers-*; do
		[ ! -f "$h/Module.symvers" ] || echo "${h#/usr/src/linux-headers-}"
	done | grep -vE 'cloud|rt' | sort -V | tail -1
}

# The packages of one version: 7.x has the image and the modules in packages of their own.
fetch() {
	command -v apt-get >/dev/null || fail "no image of $1, and no apt-get to fetch it with: set KERNEL=/path/to/vmlinuz-$1"
	# The package client would rather download as another user, who may not write here.
	sandbox=
	[ "$(id -u)" -ne 0 ] || sandbox="-o APT::Sandbox::User=root"
	for p in linux-image-"$1" linux-binary-"$1" linux-modules-"$1"; do
		[ ! -f "$folder/boot/vmlinuz-$1" ] || [ -z "$(modules_of "$folder" "$1")" ] || return 0
		mkdir -p "$folder/deb"
		(cd "$folder/deb" && rm -f ./*.deb && apt-get -qq $sandbox download "$p" >&2) || continue
		dpkg-deb -x "$folder"/deb/*.deb "$folder"
		rm -r "$folder/deb"
	done
	# 7.x has the image among its modules.
	if [ ! -e "$folder/boot/vmlinuz-$1" ] && [ -e "$folder/usr/lib/modules/$1/vmlinuz" ]; then
		mkdir -p "$folder/boot"
		ln "$folder/usr/lib/modules/$1/vmlinuz" "$folder/boot/vmlinuz-$1"
	fi
}

if [ -n "${KERNEL:-}" ]; then
	[ -r "$KERNEL" ] || fail "$KERNEL cannot be read; KERNEL= names the image of a kernel, as /boot/vmlinuz-VERSION"
	image=$(cd "$(dirname "$KERNEL")" && pwd)/$(basename "$KERNEL")
	version=${image##*/vmlinuz-}
	[ "$version" != "$image" ] || fail "$KERNEL is not named vmlinuz-VERSION"
	root=$(dirname "$(dirname "$image")")
	[ "$root" != / ] || root=
	: "${KDIR:=$root/usr/src/linux-headers-$version}"
	[ -d "$KDIR" ] || KDIR=/usr/src/linux-headers-$version
else
	if [ -n "${KDIR:-}" ] && [ -f "$KDIR/include/generated/utsrelease.h" ]; then
		version=$(sed -n 's/^#define UTS_RELEASE "\(.*\)"$/\1/p' "$KDIR/include/generated/utsrelease.h")
	else
		version=$(newest_headers)
		[ -n "$version" ] || fail "no kernel headers in /usr/src: install linux-headers-amd64 (scripts/setup.sh does), or set KDIR="
	fi
	: "${KDIR:=/usr/src/linux-headers-$version}"
	root=
	if ! [ -r "/boot/vmlinuz-$version" ] || [ -z "$(modules_of "" "$version")" ]; then
		root=$folder
		fetch "$version"
	fi
	image=$root/boot/vmlinuz-$version
	[ -r "$image" ] || fail "the package linux-image-$version could not be fetched: bring the package lists up to date (apt-get update), take newer headers (apt-get install linux-headers-amd64), or set KERNEL="
fi
modules=$(modules_of "$root" "$version")
[ -n "$modules" ] || fail "$image is there, but not its modules in $root/lib/modules/$version"

# vmlinux out of the image; Documentation/x86/boot.rst says where the payload lies. 4 bytes after it are its size.
number() { # number FILE OFFSET BYTES
	od -An -tu"$3" -j"$2" -N"$3" "$1" | tr -d ' '
}
vmlinux=$folder/vmlinux-$version
if ! [ -s "$vmlinux" ] || [ "$image" -nt "$vmlinux" ]; then
	from=$((($(number "$image" 497 1) + 1) * 512 + $(number "$image" 584 4)))
	length=$(($(number "$image" 588 4) - 4))
	payload() { tail -c +$((from + 1)) "$image" | head -c "$length"; }
	case $(payload | head -c 4 | od -An -tx1 | tr -d ' ') in
	fd377a58) unpack="xz -dc --single-stream" ;;
	28b52ffd) unpack="zstd -dcq" ;;
	1f8b*) unpack="gzip -dc" ;;
	02214c18) unpack="lz4 -dc" ;;
	*) fail "$image is packed in a way that is not known here" ;;
	esac
	payload | $unpack >"$vmlinux.new" || fail "$image could not be unpacked with $unpack"
	[ "$(head -c 4 "$vmlinux.new" | od -An -tx1 | tr -d ' ')" = 7f454c46 ] || fail "what $image holds is no ELF file"
	touch -r "$image" "$vmlinux.new"
	mv "$vmlinux.new" "$vmlinux"
fi

cat <<END
VERSION='$version'
IMAGE='$image'
MODULES='$modules'
KDIR='$KDIR'
VMLINUX='$vmlinux'
END
