#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# usage: scripts/trixie.sh root | kernels | build VERSION OUT.ko | bpftool FOLDER
#
# 6.12 and 7.x for the guest: their headers want a newer compiler and C library than Debian 12 has, so that the module is
# built in a chroot of Debian 13.
#   root      makes the chroot if there is none, and prints where it is
#   kernels   prints a line for each kernel: VERSION IMAGE KDIR
#   build     builds the module for one of them, without warnings, into OUT.ko
#   bpftool   puts trixie's bpftool into FOLDER, with what it needs to run anywhere: FOLDER/bpftool is a script
#
# It is $KVSLAB_TRIXIE, or trixie in ${XDG_CACHE_HOME:-~/.cache}/kvslab (1.4 GB); remove it to have newer kernels. Needs
# root, the network the first time, and mmdebstrap.
set -eu

say() { echo "trixie: $*" >&2; }
fail() {
	say "$*"
	exit 1
}

top=$(cd "$(dirname "$0")/.." && pwd)
root=${KVSLAB_TRIXIE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/kvslab/trixie}
[ "$(id -u)" -eq 0 ] || fail "only root can make and enter a chroot: run this as root, or with sudo"

# Where this machine gets Debian from; a mirror beside it is as good as any.
mirror() {
	for f in /etc/apt/sources.list.d/*.sources /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
		[ ! -r "$f" ] || sed -nE 's/^(URIs:|deb( +\[[^]]*\])?) +([^ ]+).*/\3/p' "$f"
	done | grep -E '/debian/?$' | head -1
}

enter() { # enter COMMAND...: in the chroot, with /proc, which goes with the command
	# shellcheck disable=SC2016 # the inner shell's
	unshare --mount --propagation private sh -c '
		mount -t proc proc "$1/proc" || exit 125
		shift
		exec chroot "$@"' sh "$root" "$root" "$@"
}

# Runs in the chroot: both kernels' headers, images from the packages, unpacked but not installed. The names come from the
# metapackages, since those with an ABI in them vanish from the archive soon. 7.x has image and modules in packages of
# their own. Nobody boots the chroot: no initramfs.
inside='set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
mkdir -p /etc/initramfs-tools
echo update_initramfs=no >/etc/initramfs-tools/update-initramfs.conf
headers=$(apt-cache show linux-headers-amd64 | sed -n "s/^Depends:.*\(linux-headers-[0-9][^ ,]*-amd64\).*/\1/p" | sort -uV)
apt-get -qq -o Dpkg::Options::=--force-confold install --no-install-recommends -y $headers make kmod pahole bpftool xz-utils perl python3 >&2
for h in $headers; do
	v=${h#linux-headers-}
	mkdir -p /kernels/$v
	cd /kernels/$v
	for p in linux-image-$v linux-binary-$v linux-modules-$v; do
		apt-cache show $p >/dev/null 2>&1 || continue
		apt-get -qq -o APT::Sandbox::User=root download $p >&2
		dpkg-deb -x $p*.deb .
		rm $p*.deb
	done
	mkdir -p boot
	test -e boot/vmlinuz-$v || ln usr/lib/modules/$v/vmlinuz boot/vmlinuz-$v
done
apt-get clean
rm -rf /var/lib/apt/lists/*
touch /kernels/complete'

make_root() {
	[ ! -e "$root/kernels/complete" ] || return 0
	[ "$(uname -m)" = x86_64 ] || fail "only for x86_64"
	command -v mmdebstrap >/dev/null || fail "there is no mmdebstrap: apt-get install mmdebstrap"
	from=$(mirror)
	[ -n "$from" ] || fail "no Debian archive stands in /etc/apt/sources.list or sources.list.d; name one there"
	say "making a chroot of Debian 13 in $root, once (2 minutes)"
	rm -rf "$root.new"
	mkdir -p "$(dirname "$root")"
	script=$(mktemp)
	printf '%s\n' "$inside" >"$script"
	mmdebstrap --quiet --variant=apt --mode=root --aptopt='Acquire::Check-Valid-Until "false"' \
		--customize-hook="copy-in $script /tmp" --customize-hook="chroot \"\$1\" sh /tmp/$(basename "$script")" \
		--customize-hook="rm \"\$1\"/tmp/$(basename "$script")" \
		trixie "$root.new" "deb $from trixie main" "deb $from trixie-backports main" >&2 ||
		{ rm -rf "$root.new" "$script" && fail "mmdebstrap failed; its messages are above. The archive is $from"; }
	rm "$script"
	rm -rf "$root"
	mv "$root.new" "$root"
}

case ${1:-} in
root)
	make_root
	echo "$root"
	;;
kernels)
	make_root
	for k in "$root"/kernels/*/boot/vmlinuz-*; do
		version=${k##*/vmlinuz-}
		echo "$version $k $root/usr/src/linux-headers-$version"
	done | sort -V
	;;
build)
	[ $# -eq 3 ] || fail "usage: scripts/trixie.sh build VERSION OUT.ko"
	make_root
	[ -d "$root/usr/src/linux-headers-$2" ] || fail "no headers of $2 in $root; scripts/trixie.sh kernels lists what is there"
	mkdir -p "$root/kvslab/scripts" "$(dirname "$3")"
	rm -rf "$root/kvslab/kmod"
	cp -a "$top/Kbuild" "$top/kmod" "$root/kvslab/"
	cp -a "$top/scripts/module.sh" "$root/kvslab/scripts/"
	said=$(mktemp)
	W=1 enter /kvslab/scripts/module.sh "/usr/src/linux-headers-$2" /kvslab/out/kvslab.ko >"$said" 2>&1 ||
		{ cat "$said" >&2 && rm "$said" && fail "the module could not be built for $2"; }
	[ ! -s "$said" ] || { cat "$said" >&2 && rm "$said" && fail "the build for $2 has warnings"; }
	rm "$said"
	cp "$root/kvslab/out/kvslab.ko" "$3"
	;;
bpftool)
	[ $# -eq 2 ] || fail "usage: scripts/trixie.sh bpftool FOLDER"
	make_root
	mkdir -p "$2"
	cp "$root/usr/sbin/bpftool" "$2/bpftool.bin"
	enter ldd /usr/sbin/bpftool | sed -nE 's/.*[ \t](\/[^ ]+) \(0x.*/\1/p' | while read -r library; do
		cp -L "$root$library" "$2/"
	done
	cat >"$2/bpftool" <<-'END'
		#!/bin/sh
		here=$(cd "$(dirname "$0")" && pwd)
		exec "$here"/ld-linux-x86-64.so.2 --library-path "$here" "$here/bpftool.bin" "$@"
	END
	chmod 755 "$2/bpftool"
	;;
*)
	fail "usage: scripts/trixie.sh root | kernels | build VERSION OUT.ko | bpftool FOLDER"
	;;
esac
