#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# Bad input to the command: exit 1, one message that names the thing, the limit and what to do, nothing on stdout.
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/tap.sh
[ -x "$kvslab" ] || skip_all "$kvslab is not built"
[ -f build/models/.made ] || skip_all "no test models; run make models"
spm=build/models/f32-llama.gguf bpe=build/models/f32-gqa8.gguf wide=build/models/q4_0-wide-heads.gguf
broken() { build/venv/bin/python tests/lib/break_model.py "$@"; }
run_it=("$kvslab" run -p hello -n 2 -m)

# the command line
fails 'no command.*give run' "no command" -- "$kvslab"
fails 'no command "rum".*run, .*eval' "an unknown command" -- "$kvslab" rum
fails 'no model is given.*-m MODEL' "no model" -- "$kvslab" run -p x
fails 'no model is given.*-m MODEL' "no model to tokenize with" -- "$kvslab" tokenize x
fails 'no prompt is given.*-p PROMPT' "no prompt" -- "$kvslab" run -m $spm
fails '"x" belongs to no option.*-p PROMPT' "a prompt without -p" -- "$kvslab" run -m $spm -p a x
fails '-m is given twice' "two models" -- "$kvslab" run -m $spm -m $bpe -p x
fails 'no text is given' "eval without a text" -- "$kvslab" eval -m $spm
fails 'no text is given' "tokenize without a text" -- "$kvslab" tokenize -m $spm
fails 'second text' "tokenize with two texts" -- "$kvslab" tokenize -m $spm a b
fails 'give pool or model' "bench of nothing" -- "$kvslab" bench
fails '"pony"; give pool or model' "bench of something else" -- "$kvslab" bench pony
fails 'no model is given' "bench model without one" -- "$kvslab" bench model
fails '--chat-template gemma is given without --chat' "a template without a chat" -- "$kvslab" run -m $spm -p x --chat-template gemma
fails '--system is given without --chat' "a system message without a chat" -- "$kvslab" run -m $spm -p x --system y
fails '-i is a conversation; give --chat' "a conversation without a chat" -- "$kvslab" run -m $spm -i
fails 'give one of -i and --json' "a conversation as JSON" -- "$kvslab" run -m $spm -i --chat --json
fails '-i takes one prompt at most.*2' "two first messages" -- "$kvslab" run -m $spm -i --chat -p x -p y
fails "no chat template 'chatMl'; there are chatml, llama3" "a template of another name" -- \
	"$kvslab" run -m $spm -p x --chat --chat-template chatMl
fails '--stop is empty' "an empty stop string" -- "$kvslab" run -m $spm -p x --stop ''
fails '--logit-bias is "5"; give a token.s id' "a bias of nothing" -- "$kvslab" run -m $spm -p x --logit-bias 5
fails '--logit-bias names token 999999; the model.s are 0 to' "a bias of no token" -- \
	"$kvslab" run -m $spm -p x --logit-bias 999999=1
fails "no chat template .'tokenizer.chat_template' is missing.; chatml.*--chat-template" "a chat without a template" -- \
	"$kvslab" run -m $spm -p x --chat
run "$kvslab" run --no-such-option
[ "$status" -eq 1 ] && grep -q "unrecognized option '--no-such-option'" "$tmp/err"
ok $? "an unknown option"

# option, value, what the message says
while read -r option value pattern; do
	fails "$option is \"$value\"; give $pattern" "$option $value" -- "$kvslab" run -m $spm -p x "$option" "$value"
done <<'LIST'
-n 0 a whole number from 1 to
-n -5 a whole number from 1 to
-n many a whole number from 1 to
-n 99999999999999999999 a whole number from 1 to
-n 12x a whole number from 1 to
--temp -1 a number from 0 to 100
--min-p 1.5 a number from 0 to 1
--repetition-penalty 0 a number from 0.001 to 100
--presence-penalty x a number from -100 to 100
--frequency-penalty inf a number from -100 to 100
--temp nan a number from 0 to 100
--temp hot a number from 0 to 100
--top-k -1 a whole number from 0 to
--top-p 0 a number from
--top-p 1.5 a number from
--seed 18446744073709551616 a whole number from 0 to 18446744073709551615
--max-batch 0 a whole number from 1 to
--max-batch 100000 a whole number from 1 to
--step-tokens 0 a whole number from 1 to
--threads 0 a whole number from 1 to
--threads 5000 a whole number from 1 to
--kv-type f8 f16 or f32
--page-tokens 0 a whole number from 1 to
--page-tokens some a whole number from 1 to
--kernels sse auto, c, avx2, avxvnni or avx512
--pool 512M embedded:SIZE
--pool chat embedded:SIZE
LIST
fails '"12Q"; give a size' "--pool embedded:12Q" -- "$kvslab" run -m $spm -p x --pool embedded:12Q
fails '"0"; give a size' "--pool embedded:0" -- "$kvslab" run -m $spm -p x --pool embedded:0
fails "less than one extent; give embedded:2M" "a pool of half an extent" -- "$kvslab" run -m $spm -p x --pool embedded:1M
fails '"99999999999T"; give a size' "a pool beyond counting" -- "$kvslab" run -m $spm -p x --pool embedded:99999999999T
fails 'pool of .* MiB cannot be opened' "a pool that no address space holds" -- \
	"$kvslab" run -m $spm -p x --pool embedded:1000000T
fails '--page-tokens 60000.*give fewer' "a page beyond an extent" -- "$kvslab" run -m $spm -p x --page-tokens 60000
fails '--ctx is "3"; give a whole number from 4' "eval --ctx 3" -- "$kvslab" eval -m $spm -f README.md --ctx 3
fails '--ctx is 4096 and the model.s context holds 512' "eval --ctx beyond the context" -- \
	"$kvslab" eval -m $spm -f LICENSES/GPL-2.0.txt --ctx 4096
echo short >"$tmp/short"
fails 'fewer than one chunk of 512.*smaller --ctx' "eval of a text that is too short" -- \
	"$kvslab" eval -m $spm -f "$tmp/short"

# files
fails 'no-such-file.*No such file.*check' "a prompt file that is not there" -- "$kvslab" run -m $spm -f no-such-file
fails 'tests.*directory.*check' "a prompt file that is a folder" -- "$kvslab" run -m $spm -f tests
: >"$tmp/empty"
fails 'has no prompt in it.*each line' "an empty prompt file" -- "$kvslab" run -m $spm -f "$tmp/empty"
fails 'no-such-file.*No such file' "eval of a file that is not there" -- "$kvslab" eval -m $spm -f no-such-file
fails 'no-such-model' "a model that is not there" -- "${run_it[@]}" no-such-model
fails 'tests' "a model that is a folder" -- "${run_it[@]}" tests
fails 'README' "a model that is no GGUF file" -- "${run_it[@]}" README.md
fails 'empty' "an empty model" -- "${run_it[@]}" "$tmp/empty"
if [ "$(id -u)" -ne 0 ]; then
	install -m 000 "$tmp/short" "$tmp/secret"
	fails 'secret.*Permission denied' "a prompt file without permission" -- "$kvslab" run -m $spm -f "$tmp/secret"
fi

# models
size=$(stat -c %s $bpe)
for part in 3 20 1000 $((size / 3)) $((size - 1)); do
	head -c "$part" $bpe >"$tmp/cut.gguf"
	fails 'cut.gguf' "a model cut to $part of $size bytes" -- "${run_it[@]}" "$tmp/cut.gguf"
done
bad=$tmp/bad.gguf
broken $bpe "$bad" text llama mamba
fails 'mamba.*llama' "an unknown architecture" -- "${run_it[@]}" "$bad"
broken $bpe "$bad" text gpt2 rwkv
fails 'rwkv' "an unknown tokenizer" -- "${run_it[@]}" "$bad"
broken $bpe "$bad" text gpt-2 gpt-9
fails 'gpt-9' "an unknown pre-tokenizer" -- "${run_it[@]}" "$bad"
broken $bpe "$bad" type blk.0.ffn_up.weight 39
fails 'blk.0.ffn_up.weight.*MXFP4.*supported are: F32,.*IQ4_NL' "a tensor type that is not run" -- "${run_it[@]}" "$bad"
broken $bpe "$bad" type blk.0.ffn_up.weight 77
fails 'blk.0.ffn_up.weight' "a tensor type that nobody knows" -- "${run_it[@]}" "$bad"
fails 'template' "a chat without a template in the file" -- "$kvslab" run --chat -p x -m $spm
broken $bpe "$bad" text '<|im_start|>' '<|turn_now|>'
fails 'template' "a chat template that is not known" -- "$kvslab" run --chat -p x -m "$bad"
if broken $bpe "$bad" huge 2>/dev/null; then
	fails 'memory' "a model larger than memory" -- timeout 20 "${run_it[@]}" "$bad"
else
	skip "no files with holes here" "a model larger than memory"
fi
rm -f "$bad"

# prompts
long=$(printf 'word %.0s' $(seq 2000))
fails 'prompt 0: .* tokens and the model.s context holds 512; shorten' "a prompt longer than the context" -- \
	"$kvslab" run -m $spm -p "$long"
fails 'prompt 0: .* tokens and the pool of 2 MiB holds 1[0-9]* at most; give --pool embedded:[0-9]*M or more' \
	"a prompt that the pool can never hold" -- \
	"$kvslab" run -m $wide -p "${long:0:2500}" --kv-type f32 --pool embedded:2M
fails 'prompt 0: the prompt is empty' "an empty prompt" -- "$kvslab" run -m $bpe -p ''
run "$kvslab" run -m $spm -p "$long" -p fine -n 3 --json
[ "$status" -eq 1 ] && python3 - "$tmp/out" <<'PY'
import json
import sys

failed, fine, batch = [json.loads(line) for line in open(sys.argv[1])]
assert failed["finish_reason"] == "error" and "context holds 512" in failed["error"], failed
assert failed["text"] == "" and failed["ttft_ms"] is None, failed
assert "error" not in fine and fine["completion_tokens"] == 3, fine
assert batch["pool"]["private"] == 0, batch
PY
ok $? "a prompt that fails has an error in its object, the others run, exit 1"
# the pool that the message asks for is enough
pool=$("$kvslab" run -m $wide -p "${long:0:2500}" --kv-type f32 --pool embedded:2M 2>&1 | grep -o 'embedded:[0-9]*M')
run "$kvslab" run -m $wide -p "${long:0:2500}" --kv-type f32 --pool "${pool:-none}" -n 1
ok "$status" "with the pool that the message names (${pool:-none}) it runs"

# output that cannot be written
full() { # full WORDS -- COMMAND...
	local words=$1
	shift 2
	"$@" >/dev/full 2>"$tmp/err" </dev/null
	[ $? -eq 1 ] && [ "$(grep -c '^kvslab: standard output cannot be written: No space left' "$tmp/err")" -eq 1 ]
	ok $? "a full disk: $words"
}
full "run" -- "$kvslab" run -m $spm -p x -n 3
full "run --json" -- "$kvslab" run -m $spm -p x -p y -n 3 --json
full "tokenize" -- "$kvslab" tokenize -m $spm "some words"
full "eval" -- "$kvslab" eval -m $spm -f README.md --ctx 64
full "--help" -- "$kvslab" run --help
full "--version" -- "$kvslab" --version
fails 'nowhere/out cannot be written: No such file.*check' "--json=FILE in a folder that is not there" -- \
	"$kvslab" run -m $spm -p x --json="$tmp/nowhere/out"
"$kvslab" run -m $spm -p x -n 3 --json=/dev/full >"$tmp/out" 2>"$tmp/err"
[ $? -eq 1 ] && grep -q '^kvslab: /dev/full cannot be written: No space left' "$tmp/err"
ok $? "--json=FILE on a full disk"
mkdir "$tmp/o"
echo kept >"$tmp/o/out"
run "$kvslab" run -m no-such-model -p x --json="$tmp/o/out"
[ "$status" -eq 1 ] && [ "$(cat "$tmp/o/out")" = kept ] && [ "$(ls "$tmp/o")" = out ]
ok $? "--json=FILE: the old file stays where the run fails"
finish
