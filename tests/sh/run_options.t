#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""kvslab run: how tokens are chosen, stop strings, chat templates by name."""

import json
import os
import pathlib
import pty
import random
import subprocess
import sys

os.chdir(pathlib.Path(__file__).parent.parent.parent)
kvslab = os.environ.get("BUILD", "build") + "/kvslab"
bpe, spm = "build/models/q4_1-tied.gguf", "build/models/f32-llama.gguf"
if not os.access(kvslab, os.X_OK) or not os.path.exists("build/models/.made"):
    print("1..0 # SKIP the command is not built, or no test models are there; run make and make models")
    sys.exit()
seed = random.randrange(1 << 32)
print(f"# seed {seed}")
r = random.Random(seed)
count = 0


def ok(good, what):
    global count
    count += 1
    print(("ok" if good else "not ok"), count, "-", what, flush=True)


def run(*args, model=bpe):
    p = subprocess.run([kvslab, "run", "-m", model, "--json", *args], capture_output=True, check=True)
    return json.loads(p.stdout.splitlines()[0])


def ids(text, model=bpe):
    p = subprocess.run([kvslab, "tokenize", "-m", model, "--ids", text], capture_output=True, check=True)
    return [int(x) for x in p.stdout.split()]


for model in (bpe, spm):
    whole = run("-p", "once", "--temp", "0", "-n", "40", model=model)
    text = whole["text"]
    for i in range(8):
        at = r.randrange(len(text) - 3)
        stop = text[at : at + r.randint(1, 12)]
        if "\ufffd" in stop or not stop:
            stop = text[0] if text[0] != "\ufffd" else "e"
        got = run("-p", "once", "--temp", "0", "-n", "40", "--stop", stop, "--stop", "never in it", model=model)
        want = text.split(stop)[0] if stop in text else text
        ok(got["text"] == want and got["finish_reason"] == ("stop" if stop in text else whole["finish_reason"]),
           f"an answer ends before {stop!r}")
        ok(got["completion_tokens"] <= whole["completion_tokens"], "and draws no more than it must")

# on a terminal, nothing of a stop string is ever shown
stop = next(text[i : i + 9] for i in range(5, len(text) - 9) if "\ufffd" not in text[i : i + 9])
pid, fd = pty.fork()
if not pid:
    os.execv(kvslab, [kvslab, "run", "-m", spm, "-p", "once", "--temp", "0", "-n", "40", "--stop", stop])
shown = b""
while True:
    try:
        piece = os.read(fd, 4096)
    except OSError:
        break
    if not piece:
        break
    shown += piece
os.waitpid(pid, 0)
ok(shown.decode(errors="replace").replace("\r\n", "\n") == text.split(stop)[0] + "\n", f"shown up to {stop!r}")

first = run("-p", "once", "--temp", "0", "-n", "1")
named = ids(first["text"])
if len(named) == 1:
    other = run("-p", "once", "--temp", "0", "-n", "1", "--logit-bias", f"{named[0]}=-1000")
    ok(other["text"] != first["text"], "a token of which a thousand is taken is not drawn")
else:
    ok(True, "bias # SKIP the first piece is no token of its own")
forced = run("-p", "once", "--temp", "1", "-n", "6", "--logit-bias", "77=1000")
again = ids(forced["text"])
ok(forced["text"] and len(set(again)) == 1, "one to which a thousand is added is drawn each time")
both = run("-p", "once", "--temp", "1", "-n", "8", "--logit-bias", "77=1000", "--logit-bias", "78=1000", "--frequency-penalty", "90")
ok(len(set(ids(both["text"]))) > 1, "a frequency penalty makes it less likely")
once = run("-p", "once", "--temp", "0", "-n", "8", "--logit-bias", "77=50", "--logit-bias", "78=49.5", "--presence-penalty", "60")
ok(len(set(ids(once["text"]))) > 1, "and so does a presence penalty")
word = ids("a", model=spm)
one, piece = (run("-p", "once", "--temp", "0", "-n", n, "--logit-bias", f"{word[0]}=1000", model=spm)["text"] for n in "13")
ok(one.startswith(" ") and piece == 3 * one, f"an answer that goes on from its prompt keeps its first space: {piece!r}")
plain = run("-p", "once once", "--temp", "0", "-n", "30")
punished = run("-p", "once once", "--temp", "0", "-n", "30", "--repetition-penalty", "50")
ok(plain["text"] != punished["text"], "a repetition penalty changes an answer")
greedy = run("-p", "once", "--temp", "0", "-n", "20")
narrow = run("-p", "once", "--temp", "5", "-n", "20", "--min-p", "1", "--top-k", "0", "--top-p", "1")
wide = run("-p", "once", "--temp", "5", "-n", "20", "--top-k", "0", "--top-p", "1")
ok(narrow["text"] == greedy["text"] != wide["text"], "--min-p 1 leaves the likeliest token alone")
chat = {name: run("--chat", "--chat-template", name, "-p", "hi", "-n", "2")["prompt_tokens"]
        for name in ("chatml", "llama3", "gemma", "mistral", "deepseek-r1")}
ok(len(set(chat.values())) > 2, f"templates by name: {chat}")
more = run("--chat", "--chat-template", "llama3", "--system", "Be brief and kind.", "-p", "hi", "-n", "2")
ok(more["prompt_tokens"] > chat["llama3"] + 4, "a system message comes before")
print(f"1..{count}")
