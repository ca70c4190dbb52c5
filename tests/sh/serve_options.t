#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""Options, environment, signals, logs, a server that is loading or stopping, what cannot be started."""

import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from serve_common import *

os.chdir(pathlib.Path(__file__).parent.parent.parent)
MODEL = model("q8_0-gqa4")
TMP = tempfile.TemporaryDirectory()


def fails(pattern, words, *args, env=None):
    p = subprocess.run([KVSLAB, "serve", *args], capture_output=True, text=True, timeout=60,
                       env={**os.environ, **(env or {})})
    lines = [line for line in p.stderr.splitlines() if not line.startswith("time=")]
    ok(p.returncode == 1 and len(lines) == 1 and lines[0].startswith("kvslab: ") and re.search(pattern, lines[0]), words)
    if p.returncode != 1 or len(lines) != 1 or not re.search(pattern, lines[0]):
        print("#", p.returncode, p.stderr)


def long_answer(s, n=900):
    """A thread that streams a long answer; .events when it is over."""
    def work():
        c = s.connect()
        c.request("POST", "/v1/completions", json.dumps({"prompt": "x", "max_tokens": n, "ignore_eos": True, "stream": True}))
        r = c.getresponse()
        t.status = r.status
        t.events = []
        for e in events(r):
            t.events.append(e)
        c.close()
    t = threading.Thread(target=work)
    t.events, t.status = [], 0
    t.start()
    return t


def wait(what, seconds=30):
    end = time.time() + seconds
    while not what() and time.time() < end:
        time.sleep(0.01)
    return what()


# What cannot be started.
fails("no model", "no model")
p = subprocess.run(["bash", "-c", f"ulimit -n 5; exec {KVSLAB} serve -m {MODEL} --port 0"], capture_output=True, text=True, timeout=60)
ok(p.returncode == 1 and "open files" in p.stderr and "--loop auto" not in p.stderr, "too few descriptors: what to do is said")
p = subprocess.run([KVSLAB, "serve", "-m", "pony", "--port", "0"], capture_output=True, text=True, timeout=60)
ok(p.returncode == 1 and "listening" not in p.stderr, "nobody is let in before the model's file was looked at")
fails("pony", "a model that is not there", "-m", "pony", "--port", "0")
fails('--port is "99999"; give', "a port out of range", "-m", MODEL, "--port", "99999")
fails("--host pony", "a host that is not there", "-m", MODEL, "--host", "pony.invalid")
fails("belongs to no option", "a word too many", "-m", MODEL, "word")
fails("log-file", "a log that cannot be written", "-m", MODEL, "--port", "0", "--log-file", "/nowhere/x")
fails("nothere", "a key file that is not there", "-m", MODEL, "--api-key-file", "/nothere")
fails("pony.*chatml", "a chat template that is not known", "-m", MODEL, "--port", "0", "--chat-template", "pony")
fails("KVSLAB_GRACE|--grace", "an environment out of range", "-m", MODEL, "--port", "0", env={"KVSLAB_GRACE": "soon"})
with Server(MODEL) as s:
    r = s.ask("POST", "/v1/completions", '{"prompt": "a",\n"seed": 18446744073709551615}', {"Content-Type": "application/json"})
    ok(r[0] == 400 and "line 2" in r[2] and "2^63" in r[2], "an integer that is too large: its place and the limit are said")
# A model without a template of its own chats in the named one; whoever lets everyone in is told.
with Server(MODEL, "--chat-template", "chatml", "--host", "0.0.0.0") as s:
    r = s.post("/v1/chat/completions", messages=[{"role": "user", "content": "x"}], max_tokens=2)
    ok(r[0] == 200 and "give --api-key" in s.text(), "a named chat template, and a warning for an open door")
with Server(MODEL, "--host", "0.0.0.0", "--api-key", "k") as s:
    ok("give --api-key" not in s.text(), "no warning with a key")
with socket.socket() as taken:
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    fails("Address already in use", "a port that is in use", "-m", MODEL, "--port", str(taken.getsockname()[1]))

# The environment, and the command line before it.
with Server(MODEL, "--alias", "cli", env={"KVSLAB_ALIAS": "env", "KVSLAB_MAX_QUEUE": "0", "KVSLAB_MAX_BATCH": "2",
                                          "KVSLAB_API_KEY": "sesame"}) as s:
    status, _, text = s.get("/v1/models", {"Authorization": "Bearer sesame"})
    ok(status == 200 and json.loads(text)["data"][0]["id"] == "cli", "the command line goes before the environment")
    ok(s.get("/v1/models")[0] == 401, "which counts all the same")
    s.headers = {"Authorization": "Bearer sesame"}
    status, r = s.post("/v1/completions", prompt="x", n=3)
    ok(status == 400 and "2 at most" in r["error"]["message"], "more choices than the server runs and queues")

# A queue that is full.
with Server(MODEL, "--max-queue", "1", "--max-batch", "1") as s:
    running = [long_answer(s), long_answer(s)]
    wait(lambda: s.metrics()["num_requests_waiting"] == 1)
    m = s.metrics()
    ok(m["num_requests_running"] == 1 and m['num_requests_waiting_by_reason{reason="batch"}'] == 1, "one runs, one waits")
    status, headers, text = s.ask("POST", "/v1/completions", '{"prompt":"x"}')
    ok(status == 429 and int(headers["Retry-After"]) >= 1 and json.loads(text)["error"]["type"] == "rate_limit_error",
       "a third is told to come again")
    ok(s.metrics()["requests_refused_full_total"] == 1, "and counted")
    for t in running:
        t.join()
    ok(all(t.events[-1] == "[DONE]" and t.events[-2]["choices"][0]["finish_reason"] == "length" for t in running), "the others get their answers whole")

# A socket in the file system, and key files.
path = os.path.join(TMP.name, "sock")
keys = os.path.join(TMP.name, "keys")
with open(keys, "w") as f:
    f.write("one\r\n\ntwo \n")
with socket.socket(socket.AF_UNIX) as stale:
    stale.bind(path)
with Server(MODEL, "--unix", path, "--api-key-file", keys) as s:
    c = http.client.HTTPConnection("x")
    c.sock = socket.socket(socket.AF_UNIX)
    c.sock.connect(path)
    c.request("GET", "/v1/models", headers={"Authorization": "Bearer two"})
    r = c.getresponse()
    ok(r.status == 200 and r.read(), "over a Unix socket, in the place of a stale one, with a key from a file")
    c.close()
    fails("Address already in use", "a socket that is in use", "-m", MODEL, "--unix", path)
ok(not os.path.exists(path), "the socket is removed at the end")

# Logs.
log = os.path.join(TMP.name, "log")
with Server(MODEL) as s:
    s.get("/health", {"X-Request-Id": "my-id.1"})
    ok("X-Request-Id" in s.get("/health")[1], "every answer has an id")
    wait(lambda: "id=my-id.1" in s.text())
    line = [x for x in s.text().splitlines() if "id=my-id.1" in x][0]
    ok(re.match(r"time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z level=info msg=request id=my-id\.1 peer=127\.0\.0\.1:\d+ "
                r"method=GET path=/health status=200 ms=[\d.]+$", line), "a request's line in the log")
    s.get("/x\"y=%0a", {"X-Request-Id": "bad id"})
    wait(lambda: "404" in s.text())
    line = [x for x in s.text().splitlines() if "404" in x][0]
    ok('path="/x\\"y=%0a"' in line and "bad id" not in line, "what a client writes cannot break it")
for loop in loops():
    p = subprocess.Popen([KVSLAB, "serve", "-m", MODEL, "--port", "0", "--log-file", log, "--loop", loop], stderr=subprocess.PIPE)
    wait(lambda: os.path.exists(log) and "msg=ready" in open(log).read())
    os.rename(log, log + ".1")
    p.send_signal(signal.SIGHUP)
    ok(wait(lambda: os.path.exists(log) and "reopened" in open(log).read()), f"{loop}: SIGHUP opens the log anew")
    p.send_signal(signal.SIGINT)
    ok(p.wait(30) == 0 and "msg=stopped" in open(log).read() and not p.stderr.read(), f"{loop}: SIGINT ends it too")
    os.unlink(log)
for level in ("error", "warning", "info", "debug"):
    # at error and warning there is no line of the address either, so the port is given
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    p = subprocess.Popen([KVSLAB, "serve", "-m", MODEL, "--port", str(port), "--log-file", log, "--log-level", level])

    def healthy():
        try:
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            c.request("GET", "/health")
            return c.getresponse().status == 200
        except OSError:
            return False
    good = wait(healthy)
    p.send_signal(signal.SIGTERM)
    ended = p.wait(30)
    text = open(log).read()
    ok(good and ended == 0 and ("status=200" in text) == (level in ("info", "debug")) and
       all(re.search("level=(error|warning|info|debug) ", line) for line in text.splitlines()), f"--log-level {level}")
    os.unlink(log)
fails("--log-level", "a level that is not there", "-m", MODEL, "--log-level", "loud")

# Stopping: who runs ends, who comes is refused, the grace has an end.
for loop in loops():
    with Server(MODEL, "--loop", loop, "--max-batch", "4", "--step-tokens", "4") as s:
        t = long_answer(s)
        wait(lambda: len(t.events) > 5)
        idle = s.connect()
        idle.request("GET", "/health")
        ok(idle.getresponse().read(), f"{loop}: a connection that stays open")
        s.p.send_signal(signal.SIGTERM)
        wait(lambda: "msg=stopping" in s.text())
        health, refused = s.get("/health")[0], s.ask("POST", "/v1/completions", '{"prompt":"x"}')
        ok(health == 503 and refused[0] == 503 and "stopping" in refused[2] and "Retry-After" in refused[1],
           f"{loop}: while it stops, new requests are refused: {health}, {refused[0]}")
        t.join()
        ok(t.events[-1] == "[DONE]" and t.events[-2]["choices"][0]["finish_reason"] == "length",
           f"{loop}: the one that runs is answered to its end")
        ok(s.stop(seconds=5) == 0, f"{loop}: and then it ends, though a connection is open")
        idle.close()
    with Server(MODEL, "--loop", loop, "--grace", "0", "--max-batch", "1") as s:
        both = [long_answer(s), long_answer(s)]
        wait(lambda: any(len(t.events) > 2 for t in both))
        ok(s.stop() == 0, f"{loop}: without grace it ends at once")
        for t in both:
            t.join()
        ok(all(t.events[-1] == "[DONE]" and "stopping" in t.events[-2]["error"]["message"] for t in both),
           f"{loop}: and both, running and waiting, are told why")

# Loading: the port answers before the model is there.
real = real_model()
if real:
    s = Server(real, wait=False)
    early = [s.get("/health")[0], s.get("/v1/models")[0], s.get("/version")[0], s.get("/metrics")[0]]
    s.wait_for("msg=(ready)", 120)
    ok(early == [503, 503, 200, 200], f"while the model is loaded: {early}")
    ok(s.get("/health")[0] == 200, "and then")
    s.stop()
    s = Server(real, wait=False)
    ok(s.stop() == 0, "stopped while it is loaded")
else:
    skip("the real model is not here", "while a model is loaded")
p = subprocess.run([KVSLAB, "serve", "-m", "Makefile", "--port", "0"], capture_output=True, text=True)
ok(p.returncode == 1 and "Makefile" in p.stderr, "a model that cannot be read ends the server")
finish()
