#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""What the page stands on, without a browser: /pool beside /metrics, its cost, pools larger than the map, header lines,
what needs a key."""

import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from serve_common import *

os.chdir(pathlib.Path(__file__).parent.parent.parent)
MODEL = model("q8_0-gqa4")
rng = seed()


def pool(s):
    return json.loads(s.get("/pool")[2])


def sums(p):
    cells = [c for c in p["map"]["cells"] if c]
    return [sum(c[i] for c in cells) for i in range(5)]


with Server(MODEL, "--pool", "embedded:32M", "--max-batch", "4") as s:
    p = pool(s)
    ok(p["map"] == {"extents_a_cell": 1, "cells": [0] * 16} and p["extents"] == {"slabs": 0, "held": 0, "max": 16},
       "a new pool is empty")
    for _ in range(12):
        s.post("/v1/completions", prompt="".join(rng.choice("abcdefgh ") for _ in range(rng.randrange(50, 500))),
               max_tokens=rng.randrange(1, 100), ignore_eos=True)
    m = s.settle()
    time.sleep(0.3)
    p = pool(s)
    state = {k: int(m[f'pages{{state="{k}"}}']) for k in p["pages"]}
    slabs, all_pages, in_use, sealed, cached = sums(p)
    ok(p["pages"] == state and state["cached"] > 0, f"/pool says what /metrics says: {p['pages']}")
    ok(slabs == p["extents"]["slabs"] == m['extents{kind="slabs"}'] > 0 and cached == state["cached"] and
       all_pages == sum(state.values()) and in_use == 0 and sealed == 0, f"and so do its {slabs} slabs")
    ok(p["generated"] == m["generation_tokens_total"] and p["prompted"] == m["prompt_tokens_total"] and p["running"] == 0 and
       p["model"] == "q8_0-gqa4" and p["context"] == 1024 and p["max_batch"] == 4, "as do the other figures")
    s.post("/v1/completions", prompt="x" * 900, max_tokens=5)

    # While requests run, some of it is in use; many who look change nothing about it.
    def work():
        r.append(s.post("/v1/completions", prompt="Once", max_tokens=900, ignore_eos=True, seed=5))

    def watch():
        c = s.connect()
        while not over:
            c.request("GET", "/pool")
            p = json.loads(c.getresponse().read())
            looks.append(p["running"] and sums(p)[2])
        c.close()

    r, looks, over = [], [], False
    t = threading.Thread(target=work)
    t.start()
    t.join()
    alone = r[0]
    before = s.metrics()
    t, watchers = threading.Thread(target=work), [threading.Thread(target=watch) for _ in range(8)]
    for x in [t, *watchers]:
        x.start()
    t.join()
    over = True
    for x in watchers:
        x.join()
    after = s.settle()
    ok(r[1][0] == 200 and r[1][1]["choices"] == alone[1]["choices"], "an answer is the same while eight look on")
    ok(max(looks) > 0 and len(looks) > 20, f"pages in use are seen in {sum(map(bool, looks))} of {len(looks)} looks")
    steps = after["steps_total"] - before["steps_total"]
    between = 1000 * (after["step_between_seconds_total"] - before["step_between_seconds_total"]) / steps
    ok(steps >= 900 and between < 20, f"between steps the loop needs {between:.2f} ms")

    # Small things of HTTP.
    status, h, text = s.ask("DELETE", "/pool", None)
    ok(status == 405 and h["Allow"] == "GET, HEAD" and json.loads(text)["error"]["code"] is None, "DELETE /pool")
    status, h, text = s.ask("GET", "/v1/completions", None)
    ok(status == 405 and h["Allow"] == "POST" and json.loads(text)["error"]["code"] is None, "GET /v1/completions")
    status, h, text = s.ask("HEAD", "/", None)
    page = s.get("/")[2]
    ok(status == 200 and not text and int(h["Content-Length"]) == len(page.encode()), "HEAD / has the page's length")
    ok(s.get("/?from=here")[2] == page, "a query does not hide the page")
    ok(not re.search(r"(src|href)=[\"'](?!data:|metrics)|url\(|@import", page), "the page names nothing outside itself")
    ok(s.get("/pool")[1]["Cache-Control"] == "no-store", "nobody keeps /pool")

with Server(MODEL, "--pool", "embedded:64G", "--max-batch", "4") as s:
    p = pool(s)
    ok(p["map"]["extents_a_cell"] == 16 and len(p["map"]["cells"]) == 2048 and p["extents"]["max"] == 32768,
       "of 32,768 extents sixteen share a square")
    s.post("/v1/completions", prompt="Once", max_tokens=90, ignore_eos=True)
    time.sleep(1)
    p = pool(s)
    ok(sums(p)[0] == p["extents"]["slabs"] > 0 and len(json.dumps(p)) < 20000, "and all slabs are in it")

with Server(MODEL, "--api-key", "sesame") as s:
    found = {path: s.get(path)[0] for path in ("/", "/health", "/version", "/metrics", "/pool", "/v1/models", "/v1/models/x")}
    ok(found == {"/": 200, "/health": 200, "/version": 200, "/metrics": 200, "/pool": 401, "/v1/models": 401,
                 "/v1/models/x": 401}, f"what needs a key: {found}")
    ok(s.get("/pool", {"Authorization": "Bearer sesame"})[0] == 200, "with it, /pool is open")
    ok("sesame" not in s.get("/metrics")[2] + s.get("/")[2] + s.text(), "the key is nowhere to be seen")

for path, words in (("/nonexistent/x", "folder that is there"), ("/etc/passwd", "remove it if nothing uses it")):
    p = subprocess.run([KVSLAB, "serve", "-m", MODEL, "--unix", path], capture_output=True, text=True, timeout=30)
    ok(p.returncode == 1 and path in p.stderr and words in p.stderr, f"--unix {path}: {p.stderr.strip()}")
finish()
