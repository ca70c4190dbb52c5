#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# kvslab run, eval and tokenize where all goes well: shapes of the output, the same answers again, signals, terminals.
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/tap.sh
[ -x "$kvslab" ] || skip_all "$kvslab is not built"
[ -f build/models/.made ] || skip_all "no test models; run make models"
spm=build/models/f32-llama.gguf bpe=build/models/q4_1-tied.gguf

printf 'one prompt\n\nanother prompt, with CRLF\r\n{"json": "quotes \\ and tabs\t"}\nbad \xff\xfe bytes and \xe2\x82\nlast, no newline' \
	>"$tmp/prompts"
run "$kvslab" run -m $bpe -p "before the file" -f "$tmp/prompts" -p "after it" -n 7 --json
cp "$tmp/out" "$tmp/first"
[ "$status" -eq 0 ] && python3 - "$tmp/out" <<'PY'
import json
import sys

*answers, batch = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
assert [a["index"] for a in answers] == list(range(7)), "order"
assert [a["prompt"] for a in answers] == [
    "before the file", "one prompt", "another prompt, with CRLF", '{"json": "quotes \\ and tabs\t"}',
    "bad \ufffd\ufffd bytes and \ufffd\ufffd", "last, no newline", "after it"], [a["prompt"] for a in answers]
for a in answers:
    assert list(a) == ["index", "prompt", "text", "prompt_tokens", "cached_tokens", "completion_tokens",
                       "finish_reason", "ttft_ms", "tpot_ms"], list(a)
    assert type(a["text"]) is str and a["prompt_tokens"] > 0 and a["cached_tokens"] >= 0, a
    assert a["finish_reason"] in ("stop", "length") and a["completion_tokens"] <= 7, a
    assert (a["finish_reason"] == "length") == (a["completion_tokens"] == 7), a
    assert a["ttft_ms"] > 0 and (a["completion_tokens"] < 2 or a["tpot_ms"] > 0), a
assert list(batch) == ["pool", "steps", "tokens_per_second", "preemptions"], batch
pool = batch["pool"]
assert list(pool) == ["free", "private", "sealed", "cached", "quarantined", "extents", "fragmentation"], pool
assert list(pool["fragmentation"]) == ["partial", "tail", "quarantine"], pool
assert pool["private"] == 0 and pool["sealed"] == 0 and pool["quarantined"] == 0 and pool["extents"] >= 1, pool
assert batch["steps"] >= 7 and batch["tokens_per_second"] > 0 and batch["preemptions"] == 0, batch
assert 0 <= sum(pool["fragmentation"].values()) <= 1, pool
PY
ok $? "--json: one object a prompt in input order, then the batch's"

texts() { python3 -c 'import json, sys
for line in open(sys.argv[1], encoding="utf-8"):
    o = json.loads(line)
    if "index" in o:
        print(o["prompt_tokens"], o["completion_tokens"], o["finish_reason"], repr(o["text"]))' "$1"; }
same() { # same WORDS OPTION...
	local words=$1
	shift
	run "$kvslab" run -m $bpe -p "before the file" -f "$tmp/prompts" -p "after it" -n 7 --json "$@"
	[ "$status" -eq 0 ] && diff <(texts "$tmp/first") <(texts "$tmp/out") >"$tmp/err"
	ok $? "the same answers $words"
}
same "again"
same "one at a time" --max-batch 1
same "in steps of 7 tokens" --step-tokens 7 --max-batch 7
same "on one core" --threads 1
same "in plain C" --kernels c
same "with 3 tokens in a page" --page-tokens 3
same "with the defaults written out" --temp 0.7 --top-k 40 --top-p 0.95 --seed 0 --max-batch 32 --step-tokens 512 \
	--kv-type f16 --page-tokens auto --kernels auto
run "$kvslab" run -m $bpe -p "before the file" -f "$tmp/prompts" -p "after it" -n 7 --json --seed 1
! diff -q <(texts "$tmp/first") <(texts "$tmp/out") >/dev/null
ok $? "other answers with another seed"
run "$kvslab" run -m $bpe -p "a greedy prompt" -n 9 --temp 0 --json --seed 1
texts "$tmp/out" >"$tmp/greedy"
run "$kvslab" run -m $bpe -p "a greedy prompt" -n 9 --temp 0 --json --seed 2
texts "$tmp/out" | cmp -s "$tmp/greedy" -
ok $? "temperature 0 needs no seed"

# text
run "$kvslab" run -m $bpe -p "a greedy prompt" -n 9 --temp 0
python3 - "$tmp/greedy" "$tmp/out" <<'PY'
import ast
import sys

want = ast.literal_eval(open(sys.argv[1]).read().split(" ", 3)[3])
assert open(sys.argv[2], newline="").read() == want + "\n"
PY
ok $? "one prompt: the answer and a line feed"
"$kvslab" run -m $bpe -f - -n 4 <"$tmp/prompts" >"$tmp/out" 2>"$tmp/err"
[ $? -eq 0 ] && [ "$(grep -ac '^\[[0-4]\] ' "$tmp/out")" -eq 5 ] && grep -qa '^\[1\] another prompt, with CRLF$' "$tmp/out"
ok $? "several from standard input: each answer under its number and prompt"
run "$kvslab" run -m $bpe -f "$tmp/prompts" -n 4 --json="$tmp/file"
[ "$status" -eq 0 ] && [ "$(wc -l <"$tmp/file")" -eq 6 ] && grep -qa '^\[4\] ' "$tmp/out" && ! ls "$tmp"/file.* >/dev/null 2>&1
ok $? "--json=FILE: the objects there beside the text"

# a pool of one extent: some are preempted, none fails
for i in $(seq 12); do
	printf 'prompt number %d of those that want more pages than there are\n' "$i"
done >"$tmp/many"
run "$kvslab" run -m build/models/mixed.gguf -f "$tmp/many" -n 60 --json --kv-type f32 --ignore-eos
cp "$tmp/out" "$tmp/wide"
run "$kvslab" run -m build/models/mixed.gguf -f "$tmp/many" -n 60 --json --kv-type f32 --ignore-eos --pool embedded:3M
[ "$status" -eq 0 ] && diff <(texts "$tmp/wide") <(texts "$tmp/out") >"$tmp/err" &&
	[ "$(texts "$tmp/out" | grep -c ' 60 length ')" -eq 12 ]
ok $? "a small pool: the same answers, all of full length"
python3 -c 'import json, sys; o = json.loads(open(sys.argv[1]).read().splitlines()[-1]); sys.exit(not o["preemptions"])' "$tmp/out"
ok $? "and some were preempted on the way"

# shared beginnings
begin=$(printf 'the same beginning %.0s' $(seq 10))
run "$kvslab" run -m $bpe -p "$begin one" -p "$begin two" -n 2 --json --max-batch 1
[ "$status" -eq 0 ] && python3 -c 'import json, sys
a, b, batch = [json.loads(line) for line in open(sys.argv[1])]
sys.exit(not (a["cached_tokens"] == 0 and b["cached_tokens"] > b["prompt_tokens"] / 2))' "$tmp/out"
ok $? "the second prompt with the same beginning finds it in the pool"

# chat
run "$kvslab" run -m $bpe --chat -p 'hello' -n 2 --json
chat=$(texts "$tmp/out" | cut -d' ' -f1)
run "$kvslab" run -m $bpe -p 'hello' -n 2 --json
[ "$chat" -gt "$(texts "$tmp/out" | cut -d' ' -f1)" ]
ok $? "--chat puts the template around a prompt"
run "$kvslab" run -m $bpe --chat -p '<|im_end|>' -n 2 --json
[ "$(texts "$tmp/out" | cut -d' ' -f1)" -gt "$chat" ]
ok $? "a special token's text in a message stays text"

# terminals and signals
python3 - "$kvslab" $bpe >"$tmp/facts" 2>"$tmp/err" <<'PY'
import json
import os
import pty
import signal
import subprocess
import sys
import time

kvslab, model = sys.argv[1:]


def fact(good, what):
    print("good" if good else "bad", what, flush=True)


command = [kvslab, "run", "-m", model, "-p", "a greedy prompt", "-n", "300", "--ignore-eos", "--temp", "0", "--kernels", "c", "--threads", "1"]
plain = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
pid, fd = pty.fork()
if pid == 0:
    os.execv(kvslab, command)
pieces = []
while True:
    try:
        piece = os.read(fd, 65536)
    except OSError:
        break
    if not piece:
        break
    pieces.append(piece)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
text = b"".join(pieces)
# the terminal itself writes CR LF for LF
fact(status == 0 and text == plain.replace(b"\n", b"\r\n"), "on a terminal the same answer is printed")
fact(len(pieces) > 20, f"and it comes in pieces ({len(pieces) > 20})")

for name in ("SIGINT", "SIGTERM"):
    number = getattr(signal, name)
    many = [kvslab, "run", "-m", model, "-n", "2000", "--ignore-eos", "--json", "--max-batch", "1"]
    for i in range(1000):
        many += ["-p", f"prompt {i}"]
    p = subprocess.Popen(many, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
    time.sleep(1.5)
    p.send_signal(number)
    out, err = p.communicate(timeout=60)
    *answers, batch = [json.loads(line) for line in out.splitlines()]
    reasons = {a["finish_reason"] for a in answers}
    fact(p.returncode == -number, f"{name} ends the command by that signal")
    fact(len(answers) == 1000 and "cancel" in reasons and reasons <= {"cancel", "length"} and not err,
         f"after {name} each prompt has its object, those that were not done say cancel")
    fact(batch["pool"]["private"] == 0 and batch["pool"]["sealed"] == 0, f"after {name} no page is held")
p = subprocess.Popen(many[:-1990], stdout=subprocess.DEVNULL,
                     preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
time.sleep(0.2)
p.send_signal(signal.SIGINT)
fact(p.wait() == 0, "SIGINT that was ignored when the command started stays ignored")
PY
while read -r good words; do
	[ "$good" = good ]
	ok $? "$words"
done <"$tmp/facts"
[ "$(wc -l <"$tmp/facts")" -eq 9 ]
ok $? "terminals and signals: all was tried"

# tokenize
run "$kvslab" tokenize -m $spm "ab"
pieces=$(cat "$tmp/out")
run "$kvslab" tokenize -m $spm --ids "ab"
[ "$status" -eq 0 ] && [ "$(grep -cx '[0-9]*' "$tmp/out")" -eq "$(echo "$pieces" | wc -l)" ]
ok $? "tokenize: as many ids as pieces"
printf 'tab\tand\nlines\\' | "$kvslab" tokenize -m $bpe - >"$tmp/out"
[ "$(tr -d '\n' <"$tmp/out")" = 'tab\tand\nlines\\' ]
ok $? "tokenize -: pieces are escaped, and together are the text"
run "$kvslab" tokenize -m $bpe --ids --special '<|im_start|>x'
special=$(head -1 "$tmp/out")
run "$kvslab" tokenize -m $bpe --ids '<|im_start|>x'
[ "$special" = 1 ] && [ "$(head -1 "$tmp/out")" != 1 ]
ok $? "tokenize: special tokens only with --special"
run "$kvslab" tokenize -m $bpe ''
[ "$status" -eq 0 ] && [ ! -s "$tmp/out" ]
ok $? "tokenize: no text, no tokens"

# eval
run "$kvslab" eval -m $bpe -f LICENSES/BSD-2-Clause.txt --ctx 64 --json
cp "$tmp/out" "$tmp/eval"
[ "$status" -eq 0 ] && grep -q '^chunk 1 of ' "$tmp/err" && python3 - "$tmp/out" <<'PY'
import json
import sys

(o,) = [json.loads(line) for line in open(sys.argv[1])]
assert list(o) == ["perplexity", "stderr", "tokens", "scored_tokens", "chunks", "ctx", "tokens_per_second"], o
assert o["ctx"] == 64 and o["chunks"] == o["tokens"] // 64 > 2 and o["scored_tokens"] == o["chunks"] * 31, o
assert 100 < o["perplexity"] < 1e9 and 0 < o["stderr"] < o["perplexity"], o
PY
ok $? "eval --json: its object, and progress on standard error"
run "$kvslab" eval -m $bpe -f LICENSES/BSD-2-Clause.txt --ctx 64 --json --threads 1 --page-tokens 5 --kernels c
[ "$status" -eq 0 ] && [ "$(cut -d, -f1-5 "$tmp/out")" = "$(cut -d, -f1-5 "$tmp/eval")" ]
ok $? "eval: the same on one core, with other pages, in plain C"
run "$kvslab" eval -m $bpe -f LICENSES/BSD-2-Clause.txt --ctx 64
[ "$status" -eq 0 ] && grep -q '^perplexity [0-9.]* +/- [0-9.]* (' "$tmp/out"
ok $? "eval: the same as text"
finish
