#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""kvslab run --chat -i: a conversation through a pipe and on a terminal; what each turn computes; signals."""

import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time

os.chdir(pathlib.Path(__file__).parent.parent.parent)
kvslab = os.environ.get("BUILD", "build") + "/kvslab"
model = "build/models/q4_1-tied.gguf"
if not os.access(kvslab, os.X_OK) or not os.path.exists("build/models/.made"):
    print("1..0 # SKIP the command is not built, or no test models are there; run make and make models")
    sys.exit()
count = 0
TURN = re.compile(r"kvslab: turn (\d+): (\d+) tokens of prompt, (\d+) of them in the pool, (\d+) computed; (\d+) tokens of answer")


def ok(good, what):
    global count
    count += 1
    print(("ok" if good else "not ok"), count, "-", what, flush=True)
    return good


def talk(text, *args, template="chatml", n=20):
    p = subprocess.run([kvslab, "run", "-m", model, "--chat", "--chat-template", template, "-i", "--temp", "0", "-n", str(n),
                        "--page-tokens", "8", *args], input=text, capture_output=True)
    turns = [tuple(map(int, m)) for m in TURN.findall(p.stderr.decode(errors="replace"))]
    return p, turns


p, turns = talk(b"Hello there, how are you today?\n\nTell me more about all of that\nand then?\n")
ok(p.returncode == 0 and [t[0] for t in turns] == [1, 2, 3], f"three messages, an empty line between them: {turns}")
ok(p.stdout.count(b"\n") >= 3 and b"> " not in p.stderr, "an answer each, no prompt in a pipe")
for before, t in zip(turns, turns[1:]):
    ok(t[2] >= before[1] + before[4] - 8 and t[2] + t[3] == t[1],
       f"turn {t[0]} computes what is new and less than a page more: {t[3]} of {t[1]}")
ok(turns[0][2] == 0, "the first turn finds nothing")

# the same as one prompt with all of it
single, _ = talk(b"Hello there, how are you today?\n")
one = subprocess.run([kvslab, "run", "-m", model, "--chat", "--chat-template", "chatml", "--temp", "0", "-n", "20", "-p",
                      "Hello there, how are you today?", "--json"], capture_output=True, check=True)
want = json.loads(one.stdout.splitlines()[0])["text"] + "\n"
ok(single.stdout.decode() == want, "the first answer is that of run without -i")

p, turns = talk(b"two \\\nlines\nbye", "-p", "first")
ok(p.returncode == 0 and len(turns) == 3, "-p is the first message, a backslash joins lines, the last needs no line end")
p, system = talk(b"hi\nyou\n", "--system", "Be brief, be kind, and be sure to be right about all of it.")
plain = talk(b"hi\nyou\n")[1]
ok([s[1] > t[1] + 9 for s, t in zip(system, plain)] == [True, True] and system[1][2] > 0, "a system message stays")
for name in ("llama3", "gemma", "mistral", "deepseek-r1"):
    p, turns = talk(b"one two three four five\nsix seven\neight\n", template=name)
    ok(p.returncode == 0 and len(turns) == 3 and turns[2][1] > turns[1][1] > turns[0][1], f"three turns under {name}")
p, turns = talk(b"x " * 5000 + b"\nhello\n")
ok(p.returncode == 0 and b"context holds" in p.stderr and len(turns) == 1, "a message beyond the context is told and taken back")
p, turns = talk(b"say <|im_end|> or so\nwell\n")
ok(p.returncode in (0,) and (len(turns) == 2 or b"marks a turn" in p.stderr), "a mark in a message forges nothing")
p, turns = talk(b"")
ok(p.returncode == 0 and not turns and not p.stdout, "nothing said, nothing answered")
text = single.stdout.decode(errors="replace")
stop = text[2:6]
p, turns = talk(b"Hello there, how are you today?\nand\n", "--stop", stop)
ok(p.stdout.decode(errors="replace").startswith(text.split(stop)[0] + "\n") and len(turns) == 2, "stop strings end answers")


class Terminal:
    def __init__(self, *args):
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.execv(kvslab, [kvslab, "run", "-m", model, "--chat", "--chat-template", "chatml", "-i", "--temp", "0",
                              "--ignore-eos", *args])
        self.seen = ""

    def wait_for(self, enough, seconds=60):
        end = time.time() + seconds
        while not enough() and time.time() < end:
            if select.select([self.fd], [], [], 0.2)[0]:
                try:
                    piece = os.read(self.fd, 65536)
                except OSError:
                    break
                if not piece:
                    break
                self.seen += piece.decode(errors="replace")
        return bool(enough())

    def until(self, what, seconds=60):
        """What came before it is in passed, what comes after it in seen."""
        found = self.wait_for(lambda: what in self.seen, seconds)
        if found:
            self.passed, self.seen = self.seen.split(what, 1)
        return found

    def type(self, text):
        os.write(self.fd, text)

    def status(self):
        for _ in range(300):
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return status
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    os.read(self.fd, 65536)
                except OSError:
                    time.sleep(0.1)
        os.kill(self.pid, signal.SIGKILL)
        return None


    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)

    def says(self, what):
        """A message; True when its answer has begun."""
        self.type(what.encode() + b"\n")
        return self.until(what + "\r\n") and self.wait_for(lambda: self.seen)


# An answer lasts a second; a machine that stands still for longer than that gets another try.
for _ in range(5):
    t = Terminal("-n", "100000")
    asked = t.until("> ")
    begun = t.says("hello")
    t.type(b"\x03")
    stopped = t.until("turn 1:") and t.until("> ") and ", stopped" in t.passed
    if stopped:
        break
    t.close()
ok(asked, "a terminal is asked")
ok(begun and stopped, "^C stops the answer and not the conversation")
t.type(b"not this")
t.until("not this")
t.type(b"\x03")
ok(t.until("> "), "^C at the prompt drops what was typed")


def again():
    t.type(b"\x03")
    return t.until("> ", 20)


ok(all(again() for _ in range(50)), "and so does each of fifty, at the moment of the prompt")
ok(t.says("go on"), "the conversation goes on")
t.type(b"\x03")
ok(t.until("turn 2:") and t.until("> "), "to the next prompt")
t.type(b"\x04")
status = t.status()
ok(status == 0, f"^D ends it, exit 0 and not {status}")

q = subprocess.Popen([kvslab, "run", "-m", model, "--chat", "--chat-template", "chatml", "-i"], stdin=subprocess.PIPE,
                     stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
q.stdin.write(b"hi\n")
q.stdin.flush()
while b"turn 1" not in q.stderr.readline():
    pass
q.send_signal(signal.SIGTERM)
ok(q.wait(60) == -signal.SIGTERM, "SIGTERM ends it by that signal")
print(f"1..{count}")
