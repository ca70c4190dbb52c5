#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# usage: scripts/check-matrix.sh [TEST...]
# The kselftests (all, or those named) in guests with Debian's 6.12 and 7.x: the module is built for each in a chroot of
# Debian 13 (scripts/trixie.sh), without warnings. KERNELS='6.12 7' says which. Logs: build/vm-VERSION.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

BUILD=${BUILD:-build}
kernels=$(scripts/trixie.sh kernels) || exit 1
scripts/trixie.sh bpftool "$BUILD/vm-trixie/bpftool" || exit 1
failed=0 ran=0
while read -r version image kdir <&3; do
	wanted=
	for k in ${KERNELS:-6 7}; do
		[[ $version != "$k".* ]] || wanted=1
	done
	[ -n "$wanted" ] || continue
	ran=1
	folder=$BUILD/vm-$version
	mkdir -p "$folder"
	echo "check-matrix: $version"
	if ! scripts/trixie.sh build "$version" "$folder/kvslab.ko"; then
		failed=1
		continue
	fi
	VM_SECONDS=${VM_SECONDS:-1200} VM_FILES=$BUILD/vm-trixie/bpftool KERNEL=$image KDIR=$kdir KO=$folder/kvslab.ko VM_FOLDER=$folder scripts/check-vm.sh "$@" || failed=1
done 3<<<"$kernels"
[ $ran -eq 1 ] || { echo "check-matrix: KERNELS='$KERNELS' names none of: $(cut -d' ' -f1 <<<"$kernels" | xargs)" >&2 && exit 1; }
exit $failed
