#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# usage: scripts/get-cuda.sh [--look]
# Prints the folder of NVIDIA's CUDA compiler 13.0 (its bin/nvcc), having fetched it if it is not in the cache: four Python
# wheels, 97 MiB, from PyPI. --look: only if it is there already, else exit 1. No GPU and no driver is needed to compile.
# An installed toolkit is used instead if KVSLAB_CUDA_HOME names it.
# Kept in ${XDG_CACHE_HOME:-~/.cache}/kvslab/cuda-13.0.88, where it appears whole or not at all.
set -euo pipefail

say() { echo "get-cuda: $*" >&2; }
fail() {
	say "$*"
	exit 1
}

if [ -n "${KVSLAB_CUDA_HOME:-}" ]; then
	[ -x "$KVSLAB_CUDA_HOME/bin/nvcc" ] || fail "KVSLAB_CUDA_HOME is $KVSLAB_CUDA_HOME, and there is no bin/nvcc in it"
	echo "$KVSLAB_CUDA_HOME"
	exit 0
fi
[ "$(uname -m)" = x86_64 ] || fail "the pinned compiler is for x86-64; name an installed toolkit with KVSLAB_CUDA_HOME"

version=13.0.88
need_mib=500 # wheels and what is in them side by side
packages="nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96"
sums="2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4 nvidia_cuda_crt
56fe502eb77625a12f25172caa3cdddb4e4c8ba2c8c17dba44b164761b380f03 nvidia_cuda_nvcc
7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548 nvidia_cuda_runtime
c5f41ffeb6466944a026dfa5317d7d85355c119bbec279205d22f1869d1054e0 nvidia_nvvm"

[ -n "${XDG_CACHE_HOME:-}${HOME:-}" ] || fail "neither XDG_CACHE_HOME nor HOME is set; set one of them"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/kvslab
home=$cache/cuda-$version
if [ -x "$home/bin/nvcc" ]; then
	echo "$home"
	exit 0
fi
[ "${1:-}" != --look ] || exit 1

mkdir -p "$cache" 2>/dev/null || fail "the folder $cache cannot be made; set XDG_CACHE_HOME to one that can"
exec 8>"$cache/lock-cuda"
flock -n 8 || {
	say "another get-cuda is at work; waiting for it"
	flock 8
	[ ! -x "$home/bin/nvcc" ] || exec "$0"
}
free_mib=$(df -Pm "$cache" | awk 'NR == 2 { print $4 }')
[ "$free_mib" -ge $need_mib ] ||
	fail "the compiler needs $need_mib MiB and $cache has $free_mib MiB left; make room, or set XDG_CACHE_HOME to another folder"
rm -rf "$cache"/cuda-tmp.* # a killed run's: this one has the lock
tmp=$(mktemp -d "$cache/cuda-tmp.XXXXXX") || fail "no temporary folder in $cache; make room there"
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

if python3 -m pip --version >/dev/null 2>&1; then
	pip=(python3 -m pip)
else
	say "making a Python environment for pip"
	python3 -m venv "$tmp/venv" >&2 || fail "python3 could not make an environment; run scripts/setup.sh"
	pip=("$tmp/venv/bin/pip")
fi
say "fetching the CUDA compiler $version (97 MiB)"
# shellcheck disable=SC2086 # one package a word
"${pip[@]}" download --quiet --no-deps --no-cache-dir --disable-pip-version-check --only-binary :all: --dest "$tmp" $packages >&2 ||
	fail "pip could not fetch $packages; its message is above. Check the network, then run this again"
echo "$sums" | while read -r sum name; do
	[ "$(cat "$tmp/$name"-*.whl | sha256sum | cut -d' ' -f1)" = "$sum" ] ||
		fail "$name has another checksum than expected; it was damaged on the way, run this again"
done

say "unpacking"
for wheel in "$tmp"/*.whl; do
	python3 -m zipfile -e "$wheel" "$tmp/out"
done
chmod +x "$tmp"/out/nvidia/cu13/bin/* "$tmp"/out/nvidia/cu13/nvvm/bin/* 2>/dev/null || true
[ -x "$tmp/out/nvidia/cu13/bin/nvcc" ] || fail "the wheels hold no bin/nvcc; the packages have changed, pin others"
mv "$tmp/out/nvidia/cu13" "$home"
say "kept as $home"
echo "$home"
