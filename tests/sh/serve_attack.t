#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""Clients who mean harm. Each gets an error or the end of his connection, and others are served meanwhile."""

import pathlib
import struct
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from serve_common import *

os.chdir(pathlib.Path(__file__).parent.parent.parent)
rng = seed()
MODEL = model("q8_0-gqa4")
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
GET = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"


class Good(threading.Thread):
    """A well-behaved client who asks all the time, and notes how long an answer took at most."""

    def __init__(self, server):
        super().__init__()
        self.server, self.stopped = server, False
        self.answers, self.wrong, self.longest = 0, 0, 0.0

    def run(self):
        while not self.stopped:
            start = time.time()
            try:
                status, r = self.server.post("/v1/completions", prompt="A word", max_tokens=4, temperature=0)
                self.wrong += status != 200 or r["usage"]["completion_tokens"] < 1
            except Exception:
                self.wrong += 1
            self.answers += 1
            self.longest = max(self.longest, time.time() - start)
            time.sleep(0.05)


def hear(sock, seconds=20):
    """Everything until the end; None: it does not end."""
    sock.settimeout(seconds)
    data = b""
    try:
        while True:
            part = sock.recv(65536)
            if not part:
                return data
            data += part
    except socket.timeout:
        return None
    except OSError:
        return data


def throw(server, data, shut=False):
    """Sends @data at once; what came back until the end."""
    with server.socket() as sock:
        try:
            sock.sendall(data)
            if shut:
                sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        return hear(sock)


def statuses(data):
    return [int(x) for x in re.findall(rb"HTTP/1\.1 (\d+) ", data or b"")]


def body(b):
    return HEAD + b"Content-Length: %d\r\n\r\n" % len(b) + b


def wire(s, loop):
    for words, data, want in (
            ("garbage sent ahead", GET + b"\x00\x01garbage\r\n\r\n", [200, 400]),
            ("a TLS greeting", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200), [400]),
            ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [505]),
            ("a header bomb", b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 10000, [431]),
            ("a long header", b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 100000, [431]),
            ("a long target", b"GET /" + b"a" * 100000, [414]),
            ("a body longer than announced", body(b"{}")[:-2] + b"{}{}{}\r\n\r\n", [400, 400]),
            ("a body too long", HEAD + b"Content-Length: 99999999999\r\n\r\n" + b"x" * 1000000, [413]),
            ("chunks too long", HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"fffffff\r\n" + b"x" * 100000, [413]),
            ("two lengths", HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", [400]),
            ("a folded line", b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", [400]),
            ("space before a colon", b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", [400]),
            ("an unknown method", b"BREW / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", [501])):
        got = throw(s, data)
        ok(statuses(got) == want, f"{loop}: {words}: {statuses(got)}")
    bad = [b"", b"{", b"[" * 100000, b'{"prompt":' + b"[" * 1500000, b'{"prompt":"\xff\xfe"}', b'{"prompt":"\\ud800"}',
           b'{"prompt":"x","n":1e400}', b'{"prompt":"x","seed":123456789012345678901}', b'{"prompt":"x","max_tokens":-1}',
           b'{"prompt":"x","temperature":-1e308}', b'{"prompt":[99999999]}', b'{"prompt":[1e3]}', b"\x00" * 1000,
           b'{"prompt":"x","prompt":"y"}', b'{"prompt":"' + b"a" * 3000000 + b'"}', b'{"prompt":[' + b"1," * 1000000 + b"1]}"]
    got = [statuses(ask(s, b)) for b in bad]
    ok(all(g == [400] for g in got), f"{loop}: {len(bad)} bodies that are no requests: {got}")


def ask(s, b):
    return throw(s, HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(b) + b)


def half_closed(s, loop):
    got = throw(s, GET + GET, shut=True)
    ok(statuses(got) == [200, 200], f"{loop}: half-closed after two requests: {statuses(got)}")
    m = s.settle()
    before, ended = (m[f'request_success_total{{finished_reason="{x}"}}'] for x in ("abort", "length"))
    got = throw(s, body(b'{"prompt":"x","max_tokens":900,"ignore_eos":true}'), shut=True)
    m = s.settle()
    aborted = m["request_success_total{finished_reason=\"abort\"}"] - before  # 0: before it was a request
    ok(got is not None and aborted <= 1 and m["request_success_total{finished_reason=\"length\"}"] == ended and
       m['pages{state="private"}'] == 0, f"{loop}: half-closed while it waits: given up, its pages free")


def slow(s, loop):
    """Slowloris: heads and bodies in drops, from many at once."""
    socks = [s.socket() for _ in range(150)]
    drops = GET[:-2] + b"".join(b"X-%d: y\r\n" % i for i in range(1000)), body(b"{" + b" " * 2000)
    start = time.time()
    open_ones = set(range(len(socks)))
    answers = {}
    k = 0
    while open_ones and time.time() - start < 40:
        for i in list(open_ones):
            sock = socks[i]
            try:
                sock.sendall(drops[i % 2][k:k + 1])
                sock.settimeout(0.0005)
                data = sock.recv(1000)
                answers[i] = statuses(data)
                open_ones.discard(i)
            except socket.timeout:
                pass
            except OSError:
                open_ones.discard(i)
        k += 1
        time.sleep(0.3)
    took = time.time() - start
    said = sum(a == [408] for a in answers.values())
    ok(not open_ones and 8 < took < 35 and said > 100,
       f"{loop}: 150 slow ones are told and cut off after {took:.0f} s: {said} were told")
    for sock in socks:
        sock.close()


def idle(s, loop, good):
    socks = []
    for _ in range(2000):
        socks.append(s.socket())
    before = good.answers
    good.longest = 0
    time.sleep(2)
    m = s.metrics()
    ok(m["connections"] >= 2000 and good.answers > before, f"{loop}: {int(m['connections'])} idle connections, and others are "
       f"served meanwhile: {good.answers - before} in two seconds, {good.longest:.2f} s at most")
    for sock in socks:
        if rng.random() < 0.5:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()


def slow_readers(s, loop):
    """Twenty who ask for much and read nothing; the memory that this costs is theirs to fill, and little."""
    before = s.resident()
    socks = []
    for _ in range(20):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", s.port))
        sock.sendall(body(b'{"prompt":"x","max_tokens":900,"ignore_eos":true,"stream":true,"logprobs":0,"n":2}'))
        socks.append(sock)
    for sock in socks[:5]:
        sock.sendall(GET * 2000)  # and sends much ahead
    m = s.metrics()
    end = time.time() + 120
    while (m["num_requests_running"] or m["num_requests_waiting"]) and time.time() < end:
        time.sleep(0.2)
        m = s.metrics()
    grown = s.resident() - before
    ok(m["num_requests_running"] == 0 and m['pages{state="private"}'] == 0 and grown < 30,
       f"{loop}: 20 who do not read: all run to their end, {grown:.1f} MiB more")
    socks[0].settimeout(20)
    data = b""
    try:
        while b"[DONE]" not in data and len(data) < 1 << 24:
            part = socks[0].recv(65536)
            if not part:
                break
            data += part
    except OSError:
        pass
    finishes = re.findall(rb'"finish_reason":"length"', data)
    ok(b"[DONE]" in data and len(finishes) == 2, f"{loop}: and who reads later gets all of it: {len(data)} bytes")
    for sock in socks:
        sock.close()


def mutants(s, loop, n):
    """Good requests with bytes changed, doubled, cut out."""
    good = [GET, body(b'{"prompt":"x","max_tokens":2}'), HEAD + b"Transfer-Encoding: chunked\r\n\r\n1d\r\n"
            b'{"prompt":"x","max_tokens":2}\r\n0\r\n\r\n']
    silent = 0
    for _ in range(n):
        data = bytearray(b"".join(rng.choice(good) for _ in range(rng.randrange(1, 4))))
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(data))
            what = rng.randrange(3)
            if what == 0:
                data[at] = rng.randrange(256)
            elif what == 1:
                data[at:at] = data[at:at + rng.randrange(20)]
            else:
                del data[at:at + rng.randrange(10)]
        silent += throw(s, bytes(data), shut=True) is None
    ok(silent == 0, f"{loop}: {n} requests with bytes changed: {silent} hang")


for loop in loops():
    with Server(MODEL, "--loop", loop, "--max-batch", "64") as s:
        before = s.files()
        good = Good(s)
        good.start()
        wire(s, loop)
        slow(s, loop)
        mutants(s, loop, 3000 if LONG else 300)
        idle(s, loop, good)
        slow_readers(s, loop)
        good.stopped = True
        good.join()
        half_closed(s, loop)
        ok(good.wrong == 0 and good.answers > 50 and good.longest < 10, f"{loop}: a good client had {good.answers} answers meanwhile, {good.wrong} "
           f"wrong, {good.longest:.2f} s at most")
        m = s.settle()
        ok(m['pages{state="private"}'] == 0 and m['pages{state="sealed"}'] == 0, f"{loop}: no page is private or held")
        ok(s.leaked(before) <= 0, f"{loop}: no descriptor is left over {int(m['connections_accepted_total'])} connections")
finish()
