# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""A server under test, and TAP. Used by the programs behind tests/sh/serve_*.t; standard library alone."""

import atexit
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("BUILD", "build")
KVSLAB = os.path.join(BUILD, "kvslab")
LONG = bool(os.environ.get("KVSLAB_LONG"))
count = failed = 0


def ok(good, *words):
    global count, failed
    count += 1
    failed += not good
    print("ok" if good else "not ok", count, "-", *words, flush=True)
    return good


def skip(why, *words):
    global count
    count += 1
    print("ok", count, "-", *words, "# SKIP", why, flush=True)


def skip_all(why):
    print("1..0 # SKIP", why)
    sys.exit(0)


def finish():
    print(f"1..{count}")
    sys.exit(failed > 0)


def seed():
    """From --seed or the clock; printed."""
    s = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else time.time_ns() & 0xFFFFFFFF
    print("# seed", s, flush=True)
    return random.Random(s)


def loops():
    """The event loops that this machine has; under a sanitizer one of them, by chance, unless there is time."""
    p = subprocess.run([KVSLAB, "serve", "-m", "/", "--port", "0", "--loop", "io_uring"], capture_output=True, text=True)
    found = ["epoll"] if "the event loop cannot start" in p.stderr else ["io_uring", "epoll"]
    return found if LONG or BUILD == "build" else [random.choice(found)]


def model(name):
    path = f"build/models/{name}.gguf"
    if not os.path.exists(path):
        skip_all(f"{path} is missing; `make models` writes it")
    return path


def real_model():
    """The real model, or None."""
    for path in (os.environ.get("KVSLAB_TEST_MODEL"), os.environ.get("KVSLAB_MODEL")):
        if path and os.path.exists(path):
            return path
    folder = os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "kvslab")
    if os.path.isdir(folder):
        for name in sorted(os.listdir(folder)):
            if name.endswith(".gguf"):
                return os.path.join(folder, name)
    return None


class Server:
    """kvslab serve on a free port; `with` stops it and looks at its exit status."""

    def __init__(self, model, *args, env=None, wait=True, want=0):
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")
        self.want = want
        self.headers = {}  # of each request
        self.p = subprocess.Popen([KVSLAB, "serve", "-m", model, "--port", "0", *args], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=self.log, env={**os.environ, **(env or {})})
        atexit.register(self.kill)
        self.port = int(self.wait_for(r"address=http://\S+:(\d+)"))
        if wait:
            self.wait_for(r"msg=(ready)")

    def text(self):
        with open(self.log.name) as f:
            return f.read()

    def wait_for(self, pattern, seconds=60):
        end = time.time() + seconds
        while time.time() < end:
            m = re.search(pattern, self.text())
            if m:
                return m.group(1)
            if self.p.poll() is not None:
                break
            time.sleep(0.01)
        raise RuntimeError(f"the server's log has no {pattern}:\n{self.text()}")

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def connect(self, timeout=60):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def socket(self, timeout=30):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=timeout)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def get(self, path, headers={}):
        return self.ask("GET", path, None, headers)

    def ask(self, method, path, body, headers={}):
        """Status, headers, text."""
        c = self.connect()
        try:
            c.request(method, path, body, {**self.headers, **headers})
            r = c.getresponse()
            return r.status, r.headers, r.read().decode()
        finally:
            c.close()

    def post(self, path, headers={}, **fields):
        """Status and parsed JSON."""
        status, _, text = self.ask("POST", path, json.dumps(fields), {"Content-Type": "application/json", **headers})
        return status, json.loads(text)

    def metrics(self):
        """Values by name, or by name{label} for the labels beside the model's."""
        out = {}
        for line in self.get("/metrics")[2].splitlines():
            m = re.match(r'kvslab:(\w+)\{model_name="[^"]*",?([^}]*)\} (\S+)$', line)
            if m:
                out[m[1] + ("{" + m[2] + "}" if m[2] else "")] = float(m[3])
        return out

    def settle(self, seconds=20):
        """Waits until nothing runs; returns the metrics of then."""
        end = time.time() + seconds
        while True:
            m = self.metrics()
            if not m["num_requests_running"] and not m["num_requests_waiting"] and m["connections"] <= 1:
                return m
            if time.time() > end:
                return m
            time.sleep(0.05)

    def files(self):
        return len(os.listdir(f"/proc/{self.p.pid}/fd"))

    def leaked(self, before, seconds=10):
        """Descriptors more than @before, when connections have had time to end."""
        end = time.time() + seconds
        while self.files() > before and time.time() < end:
            time.sleep(0.05)
        return self.files() - before

    def resident(self):
        """MiB."""
        with open(f"/proc/{self.p.pid}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read())[1]) / 1024

    def kill(self):
        if self.p.poll() is None:
            self.p.kill()
            self.p.wait()

    def stop(self, sig=signal.SIGTERM, seconds=60):
        """The exit status."""
        if self.p.poll() is None:
            self.p.send_signal(sig)
        try:
            return self.p.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return "it did not end"

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        status = self.stop()
        if exc[0] is None:
            ok(status == self.want, f"the server ends with {self.want} after SIGTERM: {status}")
            if status != self.want:
                print("#", "\n# ".join(self.text().splitlines()[-15:]))
        self.log.close()


def events(response):
    """The data of a stream's events, parsed; the last is [DONE]. Comments are left out."""
    for line in response:
        line = line.decode().rstrip("\n")
        if line.startswith("data: "):
            data = line[6:]
            yield data if data == "[DONE]" else json.loads(data)


def run_answers(model, prompts, *args):
    """What `kvslab run --json` says about each prompt."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
        f.write("".join(p + "\n" for p in prompts))
        f.flush()
        p = subprocess.run([KVSLAB, "run", "-m", model, "-f", f.name, "--json", *args], capture_output=True, text=True)
    if p.returncode:
        raise RuntimeError(p.stderr)
    return [json.loads(line) for line in p.stdout.splitlines()][:-1]
