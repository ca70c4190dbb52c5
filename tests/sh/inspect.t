#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# kvslab inspect: each generated model beside what gguf's own reader says of it; files that do not run here say why.
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/tap.sh
[ -x "$kvslab" ] || skip_all "$kvslab is not built"
[ -f build/models/.made ] || skip_all "no test models; run make models"

for model in build/models/*.gguf; do
	case $model in *-0000[2-9]-of-*) continue ;; esac
	run "$kvslab" inspect "$model" --json --pool 64M
	[ "$status" -eq 0 ] && build/venv/bin/python - "$model" "$tmp/out" <<'PY' 2>"$tmp/err"
import collections
import json
import sys

import gguf

model, out = sys.argv[1:]
got = json.load(open(out))
if got["files"] > 1:
    sys.exit()  # the reader knows one file
r = gguf.GGUFReader(model)
want = collections.Counter(t.tensor_type.name for t in r.tensors)
size = collections.Counter()
for t in r.tensors:
    size[t.tensor_type.name] += int(t.n_bytes)
value = {k: f.contents() for k, f in r.fields.items()}
arch = value["general.architecture"]
assert got["runs"] is True and got["architecture"] == arch, got
assert {t["type"]: t["tensors"] for t in got["types"]} == want and all(t["supported"] for t in got["types"]), got["types"]
assert {t["type"]: t["bytes"] for t in got["types"]} == size and got["bytes"] == sum(size.values()), got
assert got["values"] == sum(int(t.n_elements) for t in r.tensors)
s = got["shape"]
assert s["layers"] == value[f"{arch}.block_count"] and s["width"] == value[f"{arch}.embedding_length"], s
assert s["heads"] == value[f"{arch}.attention.head_count"] and s["context"] == value[f"{arch}.context_length"], s
tok = got["tokenizer"]
assert tok["model"] == value["tokenizer.ggml.model"] and tok["tokens"] == len(value["tokenizer.ggml.tokens"]), tok
p = got["pages"]
assert p["token_bytes"] == 4 * s["layers"] * s["kv_heads"] * s["head_dim"], p
assert p["page_bytes"] * p["pages_per_extent"] <= 2 << 20 and p["page_bytes"] % 4096 == 0, p
assert p["page_bytes"] * p["groups"] >= p["page_tokens"] * p["token_bytes"], p
assert p["pool_tokens"] == 32 * p["pages_per_extent"] // p["groups"] * p["page_tokens"] and p["pool_bytes"] == 64 << 20, p
PY
	ok $? "$(basename "$model") as gguf's reader has it"
done

spm=build/models/f32-llama.gguf bpe=build/models/q4_1-tied.gguf
# patch FROM TO KEY OLD NEW: the value of a text key, replaced by one as long
patch() { python3 - "$@" <<'PY'; }
import struct
import sys

src, dst, key, old, new = sys.argv[1:]
data = open(src, "rb").read()
entry = lambda text: struct.pack("<Q", len(key)) + key.encode() + struct.pack("<IQ", 8, len(text)) + text.encode()
assert data.count(entry(old)) == 1 and len(old) == len(new)
open(dst, "wb").write(data.replace(entry(old), entry(new)))
PY
says() { # says WORDS FILE PATTERN...: exit 0, and all patterns
	local words=$1 file=$2 bad=0
	shift 2
	run "$kvslab" inspect "$file"
	[ "$status" -eq 0 ] || bad=1
	for pattern in "$@"; do
		grep -qE -- "$pattern" "$tmp/out" || { bad=1 && echo "no $pattern" >>"$tmp/err"; }
	done
	ok $bad "$words"
}
says "a model as text" $bpe '^file .*q4_1-tied.gguf: GGUF v3' '^shape +[0-9]+ layers of' ' Q4_1 +[0-9]+ ' \
	'^tokenizer +gpt2 smollm, [0-9]+ tokens, BOS' '^chat template chatml' '^pages +[0-9]+ tokens of' \
	'^pool +1024 MiB hold [0-9]+ tokens' '^runs here +yes'
says "one without a template" $spm "^chat template .*has no chat template" "^runs here +yes, .*--chat-template"
patch $spm "$tmp/arch.gguf" general.architecture llama mamba
says "an architecture that is not run" "$tmp/arch.gguf" 'architecture mamba' "^runs here +no: .*'mamba' is not supported.*llama.*gemma3" \
	'^tokenizer +llama, ' 'F32 +[0-9]+ '
patch $bpe "$tmp/pre.gguf" tokenizer.ggml.pre smollm tekken
says "a pre-tokenizer that is not known" "$tmp/pre.gguf" "^tokenizer .*'tekken' is not supported, 'gpt-2'" "^runs here +no: .*tekken"
patch $spm "$tmp/tok.gguf" tokenizer.ggml.model llama rwkv6
says "a tokenizer that is not known" "$tmp/tok.gguf" "^runs here +no: .*'rwkv6' is not supported, 'gpt2' and 'llama' are"
run "$kvslab" inspect "$tmp/arch.gguf" --json
[ "$status" -eq 0 ] && python3 -c 'import json, sys
o = json.load(open(sys.argv[1]))
assert o["runs"] is False and o["shape"] is None and "mamba" in o["shape_problem"], o
assert o["types_problem"] is None and o["tokenizer"]["problem"] is None and o["pages"]["problem"], o' "$tmp/out" 2>"$tmp/err"
ok $? "as JSON"
for number in 39 77; do
	python3 tests/lib/break_model.py $bpe "$tmp/type.gguf" type blk.0.ffn_up.weight $number
	says "tensor type $number" "$tmp/type.gguf" "^runs here +no: tensor 'blk.0.ffn_up.weight' has type .*supported are: F32" \
		' 1 +[0-9.]+ MiB  not supported' '^tokenizer +gpt2' '^shape +[0-9]+ layers'
done
head -c 5000 $bpe >"$tmp/cut.gguf"
fails 'cut.gguf' "half a file" -- "$kvslab" inspect "$tmp/cut.gguf"
echo "no model" >"$tmp/text"
fails 'text' "a file of another kind" -- "$kvslab" inspect "$tmp/text"
fails 'no model is given; name a GGUF file' "no file" -- "$kvslab" inspect
fails 'two models are given' "two files" -- "$kvslab" inspect a -m b
fails 'pool is "x"' "a pool of no size" -- "$kvslab" inspect $spm --pool x
finish
