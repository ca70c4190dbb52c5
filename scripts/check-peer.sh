#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# usage: scripts/check-peer.sh
# Compares with llama-cpp-python 0.3.16: its perplexity with the recorded one and with ours, its token ids with the
# recorded ones, its logits with the float64 reference's. The peer is built from source once (about 13 minutes on two
# cores) and kept in ${XDG_CACHE_HOME:-~/.cache}/kvslab/peer; PEER_PYTHON names a Python that has it already.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

say() { echo "check-peer: $*" >&2; }
fail() {
	say "$*"
	exit 1
}
passed=0 failed=0
ok() { # ok STATUS WORDS...
	if [ "$1" -eq 0 ]; then
		passed=$((passed + 1))
		echo "ok $((passed + failed)) - ${*:2}"
	else
		failed=$((failed + 1))
		echo "not ok $((passed + failed)) - ${*:2}"
	fi
}

scripts/setup.sh check || exit 1
make --no-print-directory -s -j"$(nproc)" all drivers models || fail "the build failed"
model=$(scripts/get-model.sh) || exit 1
gemma=$(scripts/get-gemma.sh) || exit 1
cache=$(dirname "$model")/peer

python=${PEER_PYTHON:-$cache/bin/python}
if [ -z "${PEER_PYTHON:-}" ] && [ ! -e "$cache/.made" ]; then
	say "building llama-cpp-python 0.3.16 in $cache; this takes a quarter of an hour, once"
	rm -rf "$cache"
	python3 -m venv "$cache" || fail "no Python environment in $cache"
	"$cache/bin/pip" --disable-pip-version-check install -r tests/ref/requirements.txt llama-cpp-python==0.3.16 >&2 ||
		fail "pip could not build llama-cpp-python; its messages are above"
	touch "$cache/.made"
fi
"$python" -c 'import gguf, llama_cpp; assert llama_cpp.__version__ == "0.3.16", llama_cpp.__version__' ||
	fail "$python has no gguf and llama-cpp-python 0.3.16"
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

vocabs=$(scripts/get-vocabs.sh) || exit 1
tiny=${KVSLAB_TEST_TINY:-../shared/models/stories260K-f32.gguf}
if [ -f "$tiny" ]; then
	"$python" tests/peer/record_tokens.py --real "$model" --tiny "$tiny" --vocabs "$vocabs" --check
else
	"$python" tests/peer/record_tokens.py --real "$model" --vocabs "$vocabs" --check
fi
ok $? "the recorded token ids are the peer's"

"$python" tests/peer/logits.py build/models/*.gguf
ok $? "the float64 reference has the peer's logits"

same_perplexity() { # same_perplexity MODEL RECORD
	"$python" tests/peer/ppl.py "$1" --out "$tmp/ppl.json" >/dev/null &&
		build/kvslab eval -m "$1" -f tests/data/text.txt --json >"$tmp/ours.json" &&
		"$python" - "$tmp/ppl.json" "$2" "$tmp/ours.json" <<'PY'
import json
import os
import sys

peer, recorded, ours = (json.load(open(path)) if os.path.exists(path) else None for path in sys.argv[1:])
recorded = recorded or peer  # none yet: the peer itself is what counts
print(f"# perplexity: peer {peer['perplexity']}, recorded {recorded['perplexity']}, ours {ours['perplexity']}")
assert abs(peer["perplexity"] / recorded["perplexity"] - 1) < 1e-3, "the record is not what the peer gives"
assert ours["scored_tokens"] == peer["scored"] >= 2000 // 2, "not the same tokens were scored"
assert abs(ours["perplexity"] / peer["perplexity"] - 1) < 0.01, "more than 1% from the peer"
PY
}
same_perplexity "$model" tests/data/ppl.json
ok $? "perplexity within 1% of the peer's, which is the recorded one"
same_perplexity "$gemma" tests/data/ppl-gemma3.json
ok $? "the same of Gemma 3, Q4_K_M"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
