#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""The page at / in a headless browser. Screenshots go to build/page-*.png."""

import pathlib
import struct
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from page_browser import *
from serve_common import *

os.chdir(pathlib.Path(__file__).parent.parent.parent)
if not CHROMIUM:
    skip_all("chromium is missing; scripts/setup.sh installs it")
MODEL = real_model()
if not MODEL:
    skip_all("no real model; scripts/get-model.sh fetches it")
rng = seed()
NUMBER = "+document.getElementById('{}').textContent.replaceAll(',', '')"
LIVE = "document.getElementById('state').textContent === 'live'"
IDLE = "!document.getElementById('send').disabled"
LETTER = ("Read this letter. Dear sister, you ask how I live on the rock, so I will tell you. I rise at four, when the lamp "
          "has burned for ten hours and its glass is black with smoke, and climb the one hundred and twelve steps.")
PROMPT = rng.choice(["Why is the sky blue?", "Tell a story of a fox and a raven.", "What does a keeper of bees do all year?"])


def number(b, id):
    return b.js(NUMBER.format(id))


def pool(s):
    return json.loads(s.get("/pool", s.headers)[2])


def begin(b, prompt, limit, heat="0"):
    b.fill("prompt", prompt)
    b.fill("limit", str(limit))
    b.fill("heat", heat)
    b.click("send")


def nothing_runs(s):
    m = s.settle()
    return m["num_requests_running"] == 0 and m['pages{state="private"}'] == 0


def no_complaints(b, url, words):
    outside = [r for r in b.requests if not r.startswith((url, "data:"))]
    ok(b.requests and not outside, f"{words}: of {len(b.requests)} requests none goes elsewhere {outside[:3]}")
    ok(not b.complaints, f"{words}: the browser has no complaints {b.complaints[:3]}")


def figures_move(s, b):
    b.screen(1000, 760)
    b.go(s.url + "/")
    b.reload()  # of a first page the browser does not tell all
    ok(b.wait(LIVE), "the page is live")
    ok(b.text("model") == s.name and s.name in b.js("document.title"), f"and names the model: {b.text('model')}")
    p = pool(s)
    ok(b.js("document.querySelectorAll('#map > i').length") == p["extents"]["max"] == 48 and
       b.js("document.querySelectorAll('#map > .slab').length") == p["extents"]["slabs"] == 0,
       "a square for each extent, none of them a slab")
    begin(b, PROMPT, 200)
    seen = []
    while not b.js(IDLE) or len(seen) < 2:
        seen.append((number(b, "running"), number(b, "rate"), number(b, "generated"), len(b.text("answer")),
                     b.js("[...document.querySelectorAll('#map > i')].map(i => i.style.background).join()")))
        time.sleep(0.05)
    running, rate, generated, length, shades = zip(*seen)
    print("# looked", len(seen), "times; rate", max(rate), "generated", generated[-1])
    ok(1 in running, "a request is seen running")
    ok(len(set(generated)) > 3 and sorted(generated) == list(generated), "tokens are counted as they come")
    ok(max(rate) > 1, f"tokens per second: {max(rate)}")
    ok(len(set(length)) > 5 and sorted(length) == list(length), f"the answer grows: {len(set(length))} lengths")
    ok(len(set(shades)) > 2, f"the map's shades change: {len(set(shades))} pictures")
    status, r = s.post("/v1/chat/completions", messages=[{"role": "user", "content": PROMPT}], max_tokens=200, temperature=0)
    ok(status == 200 and len(r["choices"][0]["message"]["content"]) > 20 and
       b.text("answer") == r["choices"][0]["message"]["content"], f"the answer is the API's: {b.text('answer')[:50]!r}")
    ok(f"{r['usage']['completion_tokens']} tokens for a prompt of {r['usage']['prompt_tokens']}" in b.text("tally"),
       f"and its size: {b.text('tally')}")
    time.sleep(0.5)  # the map is as old as that
    p = pool(s)
    want = f"document.querySelectorAll('#map > .slab').length === {p['extents']['slabs']}"
    ok(p["extents"]["slabs"] >= 1 and b.wait(want), f"{p['extents']['slabs']} squares are slabs")
    cell = next(c for c in p["map"]["cells"] if c and c[4])
    ok(b.wait("[...document.querySelectorAll('#map > .slab')].some(e => e.title.includes("
              f"'{cell[1]} pages: 0 being written, {cell[3]} shared and in use, {cell[4]} kept'))"),
       f"and say what is in them: {b.js('document.querySelector(`#map > .slab`).title')}")
    ok(b.wait(NUMBER.format("running") + " === 0"), "at the end nothing runs")


def crowd(s, b):
    """A picture of the page while seven requests run."""
    def chat(i):
        s.post("/v1/chat/completions", messages=[{"role": "user", "content": f"{LETTER} Write {i + 3} sentences about it."}],
               max_tokens=220, temperature=0.8, ignore_eos=True)
    chats = [threading.Thread(target=chat, args=(i,)) for i in range(6)]
    for t in chats:
        t.start()
    begin(b, "Explain to a child why the sky is blue.", 150)
    most = b.wait(NUMBER.format("running") + " >= 7", 60)
    b.wait("document.getElementById('answer').textContent.length > 250")
    b.wait(NUMBER.format("rate") + " > 5")
    b.js("scrollTo(0, 0)")
    data = b.picture("build/page-light.png")
    ok(most and len(data) > 10000, f"seven requests are seen running: {number(b, 'running')} in the picture")
    used = [c for c in pool(s)["map"]["cells"] if c and c[2] + c[3]]
    ok(len(used) > 1, f"{len(used)} slabs hold pages of theirs")
    b.wait(IDLE, 60)
    for t in chats:
        t.join()


def errors_show(s, b):
    _, r = s.post("/v1/chat/completions", messages=[{"role": "user", "content": "x"}], max_tokens=10 ** 6)
    begin(b, "x", 10 ** 6)
    ok(b.wait("document.getElementById('error').checkVisibility()") and
       b.text("error").lower() == r["error"]["message"].lower(), f"a refusal is shown: {b.text('error')}")
    ok(b.js(IDLE) and not b.text("answer"), "and one can go on")
    begin(b, "Say yes.", 2)
    ok(b.wait("document.getElementById('answer').textContent") and not b.shown("error"), "which takes the message away")
    b.wait(IDLE)
    b.complaints.clear()  # the browser itself tells of each 400


def stops(s, b):
    begin(b, PROMPT + " Be long.", 2000, "1")
    b.wait("document.getElementById('answer').textContent")
    b.click("stop")
    ok(b.wait(IDLE, 5) and b.text("tally") == "stopped" and nothing_runs(s), "Stop ends it, here and in the server")
    begin(b, PROMPT + " Be long.", 2000, "1")
    b.wait("document.getElementById('answer').textContent")
    b.reload()
    ok(nothing_runs(s) and b.wait(LIVE) and not b.text("answer"), "so does loading the page anew")


def harmless(b):
    """Whatever would come to stand in the page could run and load nothing."""
    b.js("document.getElementById('answer').innerHTML = '<img src=https://outside.invalid/x onerror=\"window.ran = 1\">"
         "<iframe src=https://outside.invalid></iframe><a style=\"background: url(https://outside.invalid/y)\">x</a>'")
    b.js("{ const e = document.createElement('script'); e.textContent = 'window.ran = 1'; document.body.append(e); }")
    reached = b.js("fetch('https://outside.invalid/z').then(() => 1, () => 0)")
    ok(b.js("window.ran") is None and not reached and any("Content Security Policy" in c for c in b.complaints),
       f"foreign script and addresses are kept out: {len(b.complaints)} complaints")
    b.complaints.clear()
    b.requests.clear()


def looks(b):
    b.reload()
    b.wait(LIVE)
    b.screen(360, 740, phone=True)
    begin(b, "Name " + "a" * 300, 40)
    b.wait(IDLE)
    wide = b.js("[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1)"
                ".map(e => e.tagName + '#' + e.id)")
    ok(b.js("document.scrollingElement.scrollWidth") <= 360 and not wide, f"on a phone nothing sticks out {wide}")
    ok(b.js("[...document.querySelectorAll('button')].every(e => e.getBoundingClientRect().height >= 44)"),
       "and buttons are as large as fingers")
    b.picture("build/page-phone.png")
    contrast = """{
        const light = c => { const v = c.match(/[\\d.]+/g).slice(0, 3).map(x => x / 255)
            .map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
            return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
        const ground = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
            if (!c.endsWith(', 0)')) return c; } return 'rgb(255, 255, 255)'; };
        Math.min(...[...document.querySelectorAll('h1, h2, dt, dd, label, button, #state, #answer, #tally, #error')].map(e => {
            const a = light(getComputedStyle(e).color), b = light(ground(e));
            return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); }));
    }"""
    b.js("document.getElementById('stop').disabled = false")
    for dark in (False, True):
        b.screen(1000, 760, dark=dark)
        ground = b.js("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        ok(max(ground) < 60 if dark else min(ground) > 200, f"{'dark' if dark else 'light'}: the ground is {ground}")
        least = b.js(contrast)
        ok(least >= 4.5, f"{'dark' if dark else 'light'}: text stands out by {least:.1f} at least")
    b.picture("build/page-dark.png")
    b.js("document.getElementById('stop').disabled = true")


def keys(s, b):
    b.go(s.url + "/")
    ok(b.wait("document.getElementById('door').checkVisibility()") and b.text("running") == "–",
       "where a key is wanted, the page asks for it and knows nothing")
    open_paths = {path: s.get(path)[0] for path in ("/", "/health", "/version", "/metrics", "/pool", "/v1/models")}
    ok(open_paths == {"/": 200, "/health": 200, "/version": 200, "/metrics": 200, "/pool": 401, "/v1/models": 401},
       f"what is open without: {open_paths}")
    begin(b, "x", 2)
    ok(b.wait("document.getElementById('error').checkVisibility()") and "key" in b.text("error"),
       f"a prompt without it: {b.text('error')}")
    b.fill("key", "wrong")
    ok(b.wait("document.getElementById('trouble').checkVisibility()") and "not know this key" in b.text("trouble"),
       f"a wrong one: {b.text('trouble')}")
    b.fill("key", "k\u00e9y\n")
    ok(b.wait(IDLE) and b.text("state") == "locked", "one that no header can carry")
    b.fill("key", "open sesame".replace(" ", "-"))
    ok(b.wait(LIVE) and not b.shown("trouble") and not b.shown("door"), "the right one opens it")
    begin(b, "Say yes.", 4)
    ok(b.wait("document.getElementById('answer').textContent") and b.wait(IDLE), "and answers come")
    b.reload()
    ok(b.wait(LIVE), "it is kept while the tab lives")
    ok("sesame" not in s.text() and all("sesame" not in r for r in b.requests), "and stands in no address and no log")


def broken(b):
    with Server(MODEL, "--pool", "embedded:48M") as s:
        port = s.port
        b.go(s.url + "/")
        b.wait(LIVE)
        begin(b, PROMPT + " Be long.", 2000, "1")
        b.wait("document.getElementById('answer').textContent.length > 20")
        s.p.kill()
        s.p.wait()
        ok(b.wait("document.getElementById('error').checkVisibility()") and "broke" in b.text("error") and
           len(b.text("answer")) > 20, f"the server is killed while it answers: {b.text('error')}")
        ok(b.wait("document.getElementById('trouble').checkVisibility()") and "cannot be reached" in b.text("trouble") and
           b.text("state") == "offline", f"and the page says so: {b.text('trouble')}")
        begin(b, "x", 2)
        ok(b.wait("document.getElementById('error').textContent.includes('cannot be reached')"), "a prompt then")
        s.want = -signal.SIGKILL
    with Server(MODEL, "--port", str(port)) as s:
        ok(b.wait(LIVE) and not b.shown("trouble"), "when there is one again, the page goes on by itself")
        begin(b, "Say yes.", 4)
        ok(b.wait("document.getElementById('answer').textContent"), "and so does the prompt")
        b.wait(IDLE)


browser = Browser()
with Server(MODEL, "--pool", "embedded:96M") as server:
    server.name = os.path.basename(MODEL).removesuffix(".gguf")
    head = server.ask("HEAD", "/", None)[1]
    ok("unsafe" not in head["Content-Security-Policy"] and head["X-Content-Type-Options"] == "nosniff" and
       head["X-Frame-Options"] == "DENY", f"header lines: {head['Content-Security-Policy'][:60]}...")
    figures_move(server, browser)
    crowd(server, browser)
    no_complaints(browser, server.url, "all that")
    errors_show(server, browser)
    stops(server, browser)
    no_complaints(browser, server.url, "and that")
    harmless(browser)
    looks(browser)
    no_complaints(browser, server.url, "in all forms")
    for name in ("light", "phone", "dark"):
        data = open(f"build/page-{name}.png", "rb").read()
        size = struct.unpack(">II", data[16:24])
        ok(data[:8] == b"\x89PNG\r\n\x1a\n" and size[0] in (360, 1000) and len(data) > 10000, f"build/page-{name}.png: {size}")
    ok(not [x for x in server.text().splitlines() if "path=/pool" in x], "an open page does not fill the log")
with Server(MODEL, "--pool", "embedded:48M", "--api-key", "open-sesame") as server:
    server.headers = {}
    keys(server, browser)
broken(browser)
browser.close()
finish()
