#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""32 clients at once, who come and go as they like: the answers are those of `kvslab run`, and nothing is left behind."""

import pathlib
import struct
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from serve_common import *

os.chdir(pathlib.Path(__file__).parent.parent.parent)
rng = seed()
MODEL = model("f16-gqa3")
CLIENTS = 32
CONNECTIONS = 12000 if LONG else 1200
TOKENS = 24
WORDS = "the of and a to in is you that it he was for on are as with his they I at be this have from".split()


def prompts():
    common = " ".join(rng.choice(WORDS) for _ in range(60))
    for i in range(20):
        head = common if i % 2 else ""
        yield (head + " " + " ".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 40)))).strip()


PROMPTS = list(prompts())
SETTINGS = [({"temperature": 0}, ["--temp", "0"]),
            ({"temperature": 1.3, "top_k": 50, "top_p": 0.9, "seed": 11},
             ["--temp", "1.3", "--top-k", "50", "--top-p", "0.9", "--seed", "11"])]
EXPECTED = [run_answers(MODEL, PROMPTS, "-n", str(TOKENS), "--kv-type", "f32", *args) for _, args in SETTINGS]


class Client(threading.Thread):
    def __init__(self, server, seed, n):
        super().__init__()
        self.server, self.rng, self.n = server, random.Random(seed), n
        self.wrong, self.whole, self.broken = [], 0, 0

    def choose(self):
        k, i = self.rng.randrange(len(SETTINGS)), self.rng.randrange(len(PROMPTS))
        body = {"prompt": PROMPTS[i], "max_tokens": TOKENS, **SETTINGS[k][0]}
        return body, EXPECTED[k][i]

    def check(self, text, finish, want):
        self.whole += 1
        if (text, finish) != (want["text"], want["finish_reason"]):
            self.wrong.append((text, finish, want["text"], want["finish_reason"]))

    def plain(self, c):
        body, want = self.choose()
        c.request("POST", "/v1/completions", json.dumps(body))
        r = json.loads(c.getresponse().read())
        if "error" in r:
            self.wrong.append(r)
        else:
            self.check(r["choices"][0]["text"], r["choices"][0]["finish_reason"], want)

    def stream(self, c):
        body, want = self.choose()
        c.request("POST", "/v1/completions", json.dumps({**body, "stream": True}))
        text, finish = "", None
        for e in events(c.getresponse()):
            if e != "[DONE]":
                text += e["choices"][0]["text"]
                finish = e["choices"][0]["finish_reason"] or finish
        self.check(text, finish, want)

    def leave(self):
        """Sends some of a request, or reads some of an answer, and is gone; now and then with a reset."""
        body, _ = self.choose()
        data = json.dumps({**body, "stream": self.rng.random() < 0.6}).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n".encode()
        s = self.server.socket()
        what = self.rng.randrange(4)
        if what == 0:
            s.sendall((head + data)[:self.rng.randrange(len(head) + len(data))])
        else:
            s.sendall(head + data)
        if what == 2:
            time.sleep(self.rng.random() * 0.1)
        if what == 3:
            s.settimeout(20)
            s.recv(self.rng.randrange(1, 2000))
        if self.rng.random() < 0.3:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
        self.broken += 1

    def run(self):
        try:
            while self.n > 0:
                self.n -= 1
                if self.rng.random() < 0.4:
                    self.leave()
                    continue
                c = self.server.connect()
                for _ in range(self.rng.randrange(1, 4)):
                    (self.plain if self.rng.random() < 0.5 else self.stream)(c)
                c.close()
        except Exception as e:  # a refusal or a broken connection that was not ours
            self.wrong.append(repr(e))


for loop in loops():
    # a pool of a fraction of what 32 sequences want, so that some are preempted
    with Server(MODEL, "--pool", "embedded:2M", "--kv-type", "f32", "--loop", loop) as s:
        before = s.files()
        resident = []
        whole = broken = 0
        wrong = []
        for part in range(4):
            clients = [Client(s, rng.random(), CONNECTIONS // CLIENTS // 4) for _ in range(CLIENTS)]
            for c in clients:
                c.start()
            for c in clients:
                c.join()
            wrong += [w for c in clients for w in c.wrong]
            whole += sum(c.whole for c in clients)
            broken += sum(c.broken for c in clients)
            m = s.settle()
            resident.append(s.resident())
        for w in wrong[:3]:
            print("#", w)
        ok(not wrong, f"{loop}: {whole} answers beside {broken} clients who left: {len(wrong)} wrong")
        ok(m['pages{state="private"}'] == 0 and m['pages{state="sealed"}'] == 0 and m["num_requests_running"] == 0,
           f"{loop}: no page is private or held, nothing runs")
        ok(s.leaked(before) <= 0, f"{loop}: no descriptor is left over {int(m['connections_accepted_total'])} connections")
        flat = f"{loop}: memory is flat: {' '.join(f'{r:.1f}' for r in resident)} MiB"
        if BUILD == "build":
            ok(resident[-1] < resident[0] + 4, flat)
        else:
            skip("a sanitizer keeps what was freed for a while", flat)
        print("# preempted", m["num_preemptions_total"], "hit", m["prefix_cache_hits_total"], "of",
              m["prefix_cache_queries_total"])
finish()
