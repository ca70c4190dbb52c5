#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""kvslab top and kvslab map on recordings made here: JSON and text figure by figure, the live view in tmux with its keys
and sizes, pictures as XML, and what each says when it cannot."""
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
import recording as rec  # noqa: E402

os.chdir(HERE.parent.parent)
KVSLAB = os.path.abspath(os.environ.get("BUILD", "build") + "/kvslab")
SVG = "{http://www.w3.org/2000/svg}"
n = bad = 0


def ok(good, what):
    global n, bad
    n += 1
    bad += not good
    print(f"{'ok' if good else 'not ok'} {n} - {what}", flush=True)
    return good


def equal(got, want, what):
    if not ok(got == want, what):
        print(f"#    got {str(got)[:600]}\n# wanted {str(want)[:600]}")


def run(*words, **more):
    env = dict(os.environ, TZ="UTC", TERM="xterm", **more.pop("env", {}))
    return subprocess.run([KVSLAB, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=env, timeout=60, **more)


def fails(pattern, *words, **more):
    r = run(*words, **more)
    good = r.returncode == 1 and not r.stdout and r.stderr.count("\n") == 1 and re.search(pattern, r.stderr)
    ok(good, f"{' '.join(words)[:60]}: {r.stderr.strip() or r.stdout[:60]}")


def since(now, was):
    return {k: now[k] - was[k] for k in now}


# ---- JSON ----

def wanted_pool(p, before):
    per, cells = rec.cells(p["slabs"])
    names = [k for k in rec.COUNTS if k != "adrift"]
    w = {"name": p["name"], "id": p["id"], "min": p["min"], "max": p["max"], "held": p["held"], "slabs": len(p["slabs"]),
         "cached_extents": max(0, len(p["slabs"]) - p["held"]), "clients": len(p["clients"]), "dead": False,
         "pages": dict({k: rec.total(p, k) for k in rec.STATES}, adrift=p["counts"]["adrift"]),
         "counts": {k: p["counts"][k] for k in names},
         "deltas": since({k: p["counts"][k] for k in names}, before["counts"]) if before else None,
         "client_list": sorted(({"id": c["id"], "pid": c["pid"], "command": c["comm"], "private": c["private"],
                                 "references": c["references"], "slabs": c["slabs"], "held_bytes": c["held_bytes"]}
                                for c in p["clients"]), key=lambda c: (c["command"].encode(), c["id"])),
         "map": {"slabs_per_cell": per, "cells": cells}}
    return w


def wanted_caches(p, before, traced):
    out = []
    for i, c in enumerate(p["caches"]):
        mine = [s for s in p["slabs"] if s["cache"] == c["id"]]
        d = {}
        if traced & 1:
            d.update(since(c["frag"], before["caches"][i]["frag"]) if before else {})
        if traced & 2 and before:
            d.update(since(c["prefix"], before["caches"][i]["prefix"]))
            d["evicted_by_priority"] = [a - b for a, b in zip(c["evicted"], before["caches"][i]["evicted"])]
        w = {"id": c["id"], "page_size": c["page_size"], "pages_per_slab": rec.EXTENT // c["page_size"], "slabs": len(mine),
             "pinned": c["flags"] == 1, "tier": ["host", "device"][c["tier"]], "deltas": d if before and traced else None}
        w.update({k: sum(s[k] for s in mine) for k in rec.STATES})
        out.append(w)
    return out


def check_json(path, film):
    looks = [json.loads(line) for line in run("top", "--from", path, "--json").stdout.splitlines()]
    equal(len(looks), len(film), "a look for each sample")
    good = True
    for i, (look, s) in enumerate(zip(looks, film)):
        old = {p["name"]: p for p in film[i - 1]["pools"]} if i else {}
        pools = sorted(s["pools"], key=lambda p: p["name"])
        good &= look["seconds"] == ((s["mono"] - film[i - 1]["mono"]) / 1e9 if i else None)
        good &= look["time"] == time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(s["time"] // 10**9)) + ".000Z"
        good &= look["lost"] == {"full": s["lost_full"], "unknown": s["lost_unknown"]}
        good &= look["traced"] == [name for bit, name in ((1, "frag"), (2, "prefix")) if s["traced"] & bit]
        for p, got in zip(pools, look["pools"]):
            want = wanted_pool(p, old.get(p["name"]))
            got_caches = got.pop("caches")
            frag = [c.pop("fragmentation") for c in got_caches]
            if {k: got[k] for k in want} != want or got_caches != wanted_caches(p, old.get(p["name"]), s["traced"]):
                if good:
                    for k in want:
                        if got[k] != want[k]:
                            print(f"# look {i}, {p['name']}, {k}: {str(got[k])[:300]}, not {str(want[k])[:300]}")
                good = False
            sizes = [c["page_size"] for c in p["caches"]]
            for c, x in zip(p["caches"], frag):
                mine = [q for q in p["slabs"] if q["cache"] == c["id"]]
                used = sum(rec.pages(q) - q["free"] - q["quarantined"] for q in mine) * sizes[c["id"]]
                good &= abs(x - (1 - used / (len(mine) * rec.EXTENT) if mine else 0)) < 1e-8
    ok(good, f"every figure of {len(film)} looks at {len(film[0]['pools'])} pools")


# ---- text and tmux ----

def number(text):
    """A figure as text has it, about."""
    unit = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}.get(text[-1:])
    return float(text[:-1]) * unit if unit else float(text)


def check_text(path, film):
    text = run("top", "--from", path, "--once").stdout
    equal(run("top", "--from", path).stdout.count("kvslab top "), len(film), "in a pipe: a block of text for each sample")
    for p in film[-1]["pools"]:
        line = next(q for q in text.splitlines() if q.startswith(p["name"][:12] + " "))
        sizes = [number(w) for w in line.split()[1:5]]
        want = [x * rec.EXTENT for x in (p["min"], p["held"], max(0, len(p["slabs"]) - p["held"]), p["max"])]
        ok(all(abs(a - b) <= .01 * b for a, b in zip(sizes, want)), f"text: {line[:44]}")
        ok(all(re.search(rf"^{c['id']} +{c['pid']}  {re.escape(c['comm'])} ", text, re.M) for c in p["clients"]), "its clients")
        block = text[text.index(f"\n{p['name']}: "):]
        rows = re.search(r"MAP:.*\n((?: +\d+ [.\-+*#]+\n)*)", block).group(1)
        shades = "".join(row.split()[1] for row in rows.splitlines())
        equal(shades, "".join(".-+*#"[rec.level(c)] for c in rec.cells(p["slabs"])[1]), f"its map of {len(p['slabs'])} slabs")
    ok(not [c for c in text if c > "~"], "text is ASCII")


class Tmux:
    """A terminal that can be typed into and looked at."""

    def __init__(self, command, w, h, env=""):
        self.socket = tempfile.mktemp(prefix="kvslab-tmux-")
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(w), "-y", str(h),
                  f"env TZ=UTC LC_ALL=C.UTF-8 {env} {command}; echo status $?; exec cat")

    def tmux(self, *words):
        return subprocess.run(["tmux", "-S", self.socket, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True).stdout

    def page(self):
        return self.tmux("capture-pane", "-p")

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def until(self, holds, what):
        """Waits for a state, with a bound that no machine should need."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            page = self.page()
            if holds(page):
                return ok(True, what)
            time.sleep(.05)
        ok(False, what)
        print("".join(f"# {line}\n" for line in page.splitlines()))
        return False

    def size(self, w, h):
        self.tmux("resize-window", "-x", str(w), "-y", str(h))

    def close(self):
        self.tmux("kill-server")


def shades_of(page):
    rows = re.findall(r"^ *\d+ ([·░▒▓█]+)$", page, re.M)
    return "".join(rows)


def check_live(path, film):
    last = film[-1]
    pools = sorted(last["pools"], key=lambda p: p["name"])
    t = Tmux(f"{KVSLAB} top --from {path} --interval 0.1", 80, 24)
    t.until(lambda p: "recording, its end" in p and "q quit" in p, "live: the recording to its end, and the keys")

    def shows(pool):
        wanted = "".join("·░▒▓█"[rec.level(c)] for c in rec.cells(pool["slabs"])[1])
        return lambda p: f"\n{pool['name']}: frag" in p and (shades_of(p) == wanted or not wanted)

    t.size(110, 60)
    t.until(shows(pools[0]), "the first pool, its map")
    for key, pool in (("Down", pools[1]), ("j", pools[2]), ("Down", pools[2]), ("k", pools[1]), ("Up", pools[0])):
        t.keys(key)
        t.until(shows(pool), f"{key}: {pool['name']}")
    for by in ("held", "cached", "private", "name"):
        t.keys("s")
        t.until(lambda p: f" by {by} " in p, f"s: by {by}")
    t.keys("s")
    t.until(lambda p: " by held " in p, "s: by held")
    held = [p["name"] for p in sorted(last["pools"], key=lambda p: (-p["held"], p["name"]))]

    def order(page):
        return [line.split()[0] for line in page.splitlines()[2:2 + len(pools)]]

    t.until(lambda p: order(p) == [name[:12] for name in held], "pools by what they hold")
    t.keys("r")
    t.until(lambda p: order(p) == [name[:12] for name in reversed(held)], "r: the other way round")
    t.keys("r", "s", "s", "s")
    for tier in ("host", "device"):
        t.keys("t")
        t.until(lambda p: f"tier {tier}" in p, f"t: tier {tier}")
        wanted = [c["id"] for c in pools[0]["caches"] if ["host", "device"][c["tier"]] == tier]
        slabs = [s for s in pools[0]["slabs"] if s["cache"] in wanted]
        cells = "".join("·░▒▓█"[rec.level(c)] for c in rec.cells(slabs)[1])
        t.until(lambda p: shades_of(p) == cells, f"the map of {len(slabs)} slabs there")
    t.keys("t", "h")
    t.until(lambda p: "choose a pool; what stands" in p and "MAP" not in p, "h: help")
    t.keys("x")
    t.until(lambda p: "MAP" in p and "all tiers" in p, "a key leaves it")
    t.keys("Space")
    t.until(lambda p: " paused" in p, "space: pause")
    t.keys("p")
    t.until(lambda p: " paused" not in p, "p: go on")
    for w, h in ((40, 10), (12, 3), (1, 1), (200, 50), (80, 24)):
        t.size(w, h)
        t.until(lambda p: w < 60 or (pools[0]["name"] + ": frag") in p, f"{w}x{h}")
    t.keys("q")
    t.until(lambda p: "status 0" in p and "MAP" not in p, "q: the end, and the terminal as it was")
    t.close()
    t = Tmux(f"{KVSLAB} top --from {path} --interval 30", 80, 24)
    t.until(lambda p: "  recording\n" in p, "live: the first sample")
    t.keys("-")
    for i in range(10):
        t.keys("-")
    t.until(lambda p: "recording, its end" in p, "-: sooner")
    t.keys("C-c")
    t.until(lambda p: "status 0" in p, "Ctrl-C ends it")
    t.close()
    t = Tmux(f"{KVSLAB} top --from {path} --interval 0.1 --count 2", 80, 24)
    t.until(lambda p: "status 0" in p, "--count 2 ends by itself")
    t.close()
    t = Tmux(f"{KVSLAB} top --from {path} --interval 0.1", 80, 24, env="LC_ALL=C")
    t.until(lambda p: "free .-+*# full" in p, "a terminal of ASCII alone")
    t.close()
    for name, says in (("dumb", '"dumb" .TERM. is unknown here or cannot place its cursor; set TERM'), ("", "TERM is not set"),
                       ("no-such-terminal", "no-such-terminal")):
        t = Tmux(f"{KVSLAB} top --from {path}", 250, 24, env=f"TERM={name}")
        t.until(lambda p: re.search(says, p) and "--once or --json" in p and "status 1" in p, f"TERM={name}: a message")
        t.close()


# ---- pictures ----

def check_svg(path, film, folder):
    out = f"{folder}/map.svg"
    r = run("map", "--svg", out, "--from", path)
    ok(r.returncode == 0 and not r.stderr, f"a picture of a recording {r.stderr}")
    root = xml.etree.ElementTree.parse(out).getroot()
    texts = [t.text for t in root.iter(SVG + "text")]
    ok(root.tag == SVG + "svg" and root.find(SVG + "title").text and root.find(SVG + "desc").text, "it is SVG, with title and description")
    start = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(film[0]["time"] // 10**9))
    names = {p["name"] for s in film for p in s["pools"]}
    ok(all(any(t.startswith(name + ": at the end ") for t in texts) for name in names), "a panel for each pool")
    equal((texts.count("extent"), texts.count(f"seconds since {start}")), (len(names),) * 2, "axes with what they count, and since when")
    ok({"private", "sealed", "cached", "quarantined", "all free"} <= set(texts), "a legend")
    style = root.find(SVG + "style").text
    ok("prefers-color-scheme:dark" in style and "http" not in open(out).read().replace("http://www.w3.org/2000/svg", ""),
       "light and dark, and nothing from elsewhere")
    one = sorted(names)[0]
    r = run("map", "--svg", out, "--from", path, "--pool", one)
    texts = [t.text for t in xml.etree.ElementTree.parse(out).getroot().iter(SVG + "text")]
    equal([t.split(":")[0] for t in texts if ": at the end " in t], [one], "--pool: one panel")


def check_film_cells(rng, folder):
    """One slab whose state is known at each moment: the runs of its row, in place and width."""
    cache = {"id": 0, "page_size": 65536, "flags": 0, "tier": 0, "frag": dict.fromkeys(rec.FRAG, 0),
             "prefix": dict.fromkeys(rec.PREFIX, 0), "evicted": [0] * 8}
    steps = [rng.choice(["private", "sealed", "cached", "free"]) for i in range(20)]
    film, times = [], [0]
    for i in range(1, 20):  # a little late is no gap; much is one
        times.append(times[-1] + rng.choice((1, 1, 1, 2, 3, 4, 9)))
    ends = [b if b - a <= 3 else a + 1 for a, b in zip(times, times[1:])] + [times[-1] + 1]
    for i, state in enumerate(steps):
        slab = dict.fromkeys(rec.STATES, 0)
        slab.update({state: 32, "extent": 7, "owner": 0, "cache": 0})
        film.append({"time": 10**18 + times[i] * 10**9, "mono": times[i] * 10**9, "traced": 0, "lost_full": 0, "lost_unknown": 0,
                     "pools": [{"name": "one", "id": 1, "dead": 0, "arena": 64, "arena_free": 63, "min": 0, "max": 8, "low": 1,
                                "high": 2, "held": 1, "clients": [], "caches": [cache], "slabs": [slab],
                                "counts": dict.fromkeys(rec.COUNTS, 0)}]})
    rec.write(f"{folder}/one.rec", film, 10**9)
    r = run("map", "--svg", f"{folder}/one.svg", "--from", f"{folder}/one.rec")
    root = xml.etree.ElementTree.parse(f"{folder}/one.svg").getroot()
    plot = next(e for e in root.iter(SVG + "rect") if e.get("class") == "plot")
    left, width = float(plot.get("x")), float(plot.get("width"))
    cells = [e for e in root.iter(SVG + "rect") if float(e.get("y") or 0) >= float(plot.get("y")) and e.get("class") != "plot"]
    kinds = {"private": "k0", "sealed": "k1", "cached": "k2", "free": "e"}
    runs, i = [], 0
    while i < len(steps):
        j = i
        while j < len(steps) and steps[j] == steps[i] and (j == i or ends[j - 1] == times[j]):
            j += 1
        runs.append((kinds[steps[i]], left + width * times[i] / ends[-1], width * (ends[j - 1] - times[i]) / ends[-1]))
        i = j
    got = [(e.get("class"), float(e.get("x")), float(e.get("width"))) for e in cells]
    ok(r.returncode == 0 and len(got) == len(runs) and all(a[0] == b[0] and abs(a[1] - b[1]) < .11 and abs(a[2] - b[2]) < .21
                                                          for a, b in zip(got, runs)), f"a slab over time: {len(runs)} runs")


# ---- what cannot be ----

def check_messages(path, film, folder):
    fails('"chat" is one word too many', "top", "chat")
    fails("give either --once or --count", "top", "--once", "--count", "3")
    fails("--interval is \"0\"; give a number from 0.1", "top", "--interval", "0")
    fails("--sort is \"size\"; give name, held, cached or private", "top", "--sort", "size")
    fails("pool's name", "top", "--pool", "x" * 40)
    fails("no file is named; give --svg FILE", "map")
    fails("one word too many", "map", "--svg", "x", "y")
    fails("/no/such cannot be read", "top", "--from", "/no/such")
    fails("/no/such cannot be read", "map", "--svg", f"{folder}/x.svg", "--from", "/no/such")
    fails("/etc/passwd cannot be read: it is no recording", "top", "--from", "/etc/passwd")
    fails("/etc/passwd cannot be read: it is no recording", "map", "--svg", f"{folder}/x.svg", "--from", "/etc/passwd")
    fails("/no/such/x.svg cannot be written", "map", "--svg", "/no/such/x.svg", "--from", path)
    fails("has no sample of pool other", "map", "--svg", f"{folder}/x.svg", "--from", path, "--pool", "other")
    fails("--record goes with frag alone", "trace", "prefix", "--record", "x")
    fails("give either --record or --json", "trace", "frag", "--json", "--record", "x")
    with open(f"{folder}/empty.rec", "wb") as f:
        f.write(rec.header())
    fails("empty.rec has no sample", "top", "--from", f"{folder}/empty.rec")
    fails("empty.rec has no sample", "top", "--once", "--from", f"{folder}/empty.rec")
    fails("empty.rec has no sample", "map", "--svg", f"{folder}/x.svg", "--from", f"{folder}/empty.rec")
    with open(f"{folder}/new.rec", "wb") as f:
        f.write(rec.header(2) + rec.sample(film[0]))
    fails("version 2 and this command reads version 1", "top", "--from", f"{folder}/new.rec")
    ok(not [f for f in os.listdir(folder) if f.startswith("x.svg")], "a picture that failed leaves nothing")
    whole = open(path, "rb").read()
    with open(f"{folder}/cut.rec", "wb") as f:
        f.write(whole[:-5])
    r = run("top", "--from", f"{folder}/cut.rec", "--json")
    ok(r.returncode == 0 and r.stdout.count("\n") == len(film) - 1 and f"the {len(film) - 1} samples before it are whole" in r.stderr,
       f"a recording that was cut: {r.stderr.strip()[-90:]}")
    r = run("map", "--svg", f"{folder}/cut.svg", "--from", f"{folder}/cut.rec")
    ok(r.returncode == 0 and "bytes are left out" in r.stderr and os.path.exists(f"{folder}/cut.svg"), "is drawn as far as it is whole")
    with open(f"{folder}/more.rec", "wb") as f:
        f.write(whole + rec.record(99, b"of a later release") + rec.begin(film[-1]["time"], 1))
    r = run("top", "--from", f"{folder}/more.rec", "--json")
    ok(r.returncode == 0 and r.stdout.count("\n") == len(film) and not r.stderr, "records of unknown types are left out")
    r = run("top", "--from", path, "--json", "--pool", film[0]["pools"][0]["name"])
    equal({p["name"] for line in r.stdout.splitlines() for p in json.loads(line)["pools"]}, {film[0]["pools"][0]["name"]}, "--pool")
    equal(run("top", "--from", path, "--json", "--count", "2").stdout.count("\n"), 2, "--count")
    if not os.path.exists("/dev/kvslab/control"):
        for words in (["top"], ["top", "--once"], ["top", "--json"], ["map", "--svg", f"{folder}/x.svg"], ["trace", "frag", "--record", "x"]):
            fails("is the module loaded\\? insmod kvslab.ko", *words)
    full = subprocess.run(f"{KVSLAB} top --from {path} --json >/dev/full", shell=True, stderr=subprocess.PIPE, text=True)
    ok(full.returncode == 1 and full.stderr.count("\n") == 1, f"a full disk: {full.stderr.strip()}")
    head = subprocess.run(f"{KVSLAB} top --from {path} | head -1", shell=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ok(head.stdout.startswith("kvslab top "), "into head")


def main():
    seed = int(os.environ.get("KVSLAB_SEED") or random.SystemRandom().randrange(1, 1 << 31))
    print(f"# KVSLAB_SEED={seed}")
    rng = random.Random(seed)
    if not os.access(KVSLAB, os.X_OK):
        print(f"1..0 # SKIP {KVSLAB} is not built")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/a.rec"
        for traced in (0, 1, 3):
            film = rec.film(rng, rng.randint(2, 6), ["chat", "batch", "a-pool-of-a-long-name-31-charact"[:31]], traced=traced)
            rec.write(path, film)
            check_json(path, film)
        check_text(path, film)
        check_svg(path, film, folder)
        for i in range(3):
            check_film_cells(rng, folder)
        check_messages(path, film, folder)
        if shutil.which("tmux"):
            check_live(path, film)
        else:
            ok(True, "the live view # SKIP tmux is missing; scripts/setup.sh installs it")
    print(f"1..{n}")
    return bad > 0


sys.exit(main())
