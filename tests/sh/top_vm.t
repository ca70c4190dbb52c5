#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""kvslab top, map and trace frag --record in the guest, beside clients whose pages are known: every figure is what they
did, every cell of the map what they hold."""
import base64
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
import recording as rec  # noqa: E402

os.chdir(HERE.parent.parent)
BUILD = os.environ.get("BUILD", "build")
SIZES = {"chat": 65536, "batch": 348160, "full": 65536}
CLIENTS = {"one": "chat", "two": "chat", "three": "batch", "four": "full"}
n = bad = 0


def ok(good, what):
    global n, bad
    n += 1
    bad += not good
    print(f"{'ok' if good else 'not ok'} {n} - {what}", flush=True)
    return good


def equal(got, want, what):
    if not ok(got == want, what):
        print(f"#    got {str(got)[:800]}\n# wanted {str(want)[:800]}")


seed = int(os.environ.get("KVSLAB_SEED") or random.SystemRandom().randrange(1, 1 << 31))
print(f"# KVSLAB_SEED={seed}")
made = subprocess.run(["make", "--no-print-directory", "-s", "view-test"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
if made.returncode:
    print("".join(f"# {line}\n" for line in made.stdout.splitlines()[-10:]))
    ok(False, "make view-test")
    print(f"1..{n}")
    sys.exit(1)
logs = f"{BUILD}/vm/views"
os.makedirs(logs, exist_ok=True)
if len(sys.argv) > 1:  # what an earlier guest said
    text, status = open(sys.argv[1]).read(), 0
else:
    guest = subprocess.run(["tests/vm/guest.py", "run", "--ko", f"{BUILD}/vm/kvslab.ko", "--path", f"{BUILD}/kvslab", "--logs", logs,
                            "--timeout", "300", "--file", f"{BUILD}/vm/view_work", "--file", "tests/vm/views", f"./views {seed}"],
                           stdout=subprocess.PIPE, text=True)
    text, status = guest.stdout, guest.returncode
    with open(f"{logs}/said", "w") as f:
        f.write(text)
equal(status, 0, "the guest's status")
said = dict(re.match(r"@(\S+) ?(.*)", line.rstrip("\r")).groups() for line in text.splitlines() if re.match(r"@\S", line))


def got(name):
    try:
        return json.loads(said[name])
    except (KeyError, ValueError):
        ok(False, f"{name}: {said.get(name, 'nothing')[:300]}")
        return {}


work = {t: {w: got(f"{w}-{t}") for w in CLIENTS} for t in (1, 2)}
if not all(work[t][w] for t in work for w in CLIENTS):
    print("".join(f"# {line[:200]}\n" for line in text.splitlines()[-40:]))
    print(f"1..{n}")
    sys.exit(1)


def pages_of(time, pool):
    """(extent, index) -> state, as the clients left it"""
    mine = [work[time][w] for w in CLIENTS if CLIENTS[w] == pool]
    state = {tuple(p): "cached" for w in mine for p in w["sealed"]}
    for w in mine:
        state.update({tuple(p): "sealed" for p in w["refs"]})
        state.update({tuple(p): "private" for p in w["private"]})
    return state


def total(time, pool, *names):
    return sum(work[time][w][k] for w in CLIENTS if CLIENTS[w] == pool for k in names)


def counts(time, pool):
    return {"allocs": total(time, pool, "allocs"), "frees": total(time, pool, "frees", "releases", "duplicates"),
            "seals": total(time, pool, "seals", "duplicates"), "seal_duplicates": total(time, pool, "duplicates"),
            "lookups": total(time, pool, "lookups"), "lookup_asked": total(time, pool, "asked"),
            "lookup_hits": total(time, pool, "found"), "evictions": total(time, pool, "evictions"), "reclaimed": 0,
            "failed": total(time, pool, "refused")}


def check_pool(what, look, time, name):
    p = next((p for p in look.get("pools", []) if p["name"] == name), None)
    if not ok(p is not None, f"{what}: {name} is there"):
        return None
    state, size = pages_of(time, name), SIZES[name]
    per = rec.EXTENT // size
    by_state = {s: sum(v == s for v in state.values()) for s in ("private", "sealed", "cached")}
    slabs = p["slabs"]
    by_state.update(free=slabs * per - len(state), moving=0, quarantined=0)
    equal({k: p["pages"][k] for k in by_state}, by_state, f"{what}, {name}: pages by state: {by_state}")
    equal({k: p["counts"][k] for k in counts(time, name)}, counts(time, name), f"{what}, {name}: what happened since it was made")
    equal(p["cached_extents"], slabs - p["held"], f"{what}, {name}: occupied and not held: {slabs} - {p['held']}")
    c = p["caches"]
    equal([(c[0]["page_size"], c[0]["pages_per_slab"], c[0]["slabs"])] + [{k: c[0][k] for k in by_state}], [(size, per, slabs), by_state],
          f"{what}, {name}: its one cache")
    waste = (slabs * rec.EXTENT - size * len(state)) / (slabs * rec.EXTENT) if slabs else 0
    tail = (rec.EXTENT - per * size) / rec.EXTENT if slabs else 0
    f = p["fragmentation"]
    ok(abs(f["tail"] - tail) < 1e-8 and abs(f["partial"] - (waste - tail)) < 1e-8 and f["quarantine"] == 0 and
       abs(c[0]["fragmentation"] - waste) < 1e-8, f"{what}, {name}: fragmentation {f}")
    cells = p["map"]["cells"]
    equal((p["map"]["slabs_per_cell"], len(cells)), (1, slabs), f"{what}, {name}: a cell for each slab")
    want = []
    for cell in cells:
        here = [v for (extent, index), v in state.items() if extent == cell["first"]]
        w = {"first": cell["first"], "last": cell["first"], "slabs": 1, "pages": per, "moving": 0, "quarantined": 0,
             "private": here.count("private"), "sealed": here.count("sealed"), "cached": here.count("cached"), "free": per - len(here)}
        w.update(level=rec.level(w), most=rec.most(w))
        want.append(w)
    equal(cells, want, f"{what}, {name}: every cell")
    equal(sum(c["pages"] - c["free"] for c in cells), len(state), f"{what}, {name}: no page lies outside the cells")
    held = sum(any(v in ("private", "sealed") for (e, i), v in state.items() if e == c["first"]) for c in cells)
    ok(held <= p["held"] <= slabs, f"{what}, {name}: held {p['held']}: {held} with a page that is held, and those that are owned")
    mine = {work[time][w]["client"]: {"pid": work[time][w]["pid"], "command": "view_work", "private": len(work[time][w]["private"]),
                                      "references": len(work[time][w]["refs"]), "held_bytes": len(work[time][w]["private"]) * size}
            for w in CLIENTS if CLIENTS[w] == name}
    equal({c["id"]: {k: c[k] for k in ("pid", "command", "private", "references", "held_bytes")} for c in p["client_list"]}, mine,
          f"{what}, {name}: its clients and what each holds")
    return p


def check_deltas(what, p, name, traced):
    if not p:
        return
    was, now = counts(1, name), counts(2, name)
    equal({k: p["deltas"][k] for k in now}, {k: now[k] - was[k] for k in now}, f"{what}, {name}: what happened meanwhile")
    d = p["caches"][0]["deltas"]
    names = {"allocs": "allocs", "frees": "frees", "releases": "releases", "seals": "seals", "duplicates": "duplicates",
             "evictions": "evictions", "refused": "refused"}
    if traced > 1:
        names.update(lookups="lookups", asked="asked", found="found")
    want = {k: total(2, name, v) - total(1, name, v) for k, v in names.items()}
    if traced > 1:  # all of them are of priority 0, and all were asked for again
        want.update(evicted_by_priority=[want["evictions"]] + [0] * 7, regret=want["evictions"])
    equal({k: (d or {}).get(k) for k in want}, want, f"{what}, {name}: its cache, by eBPF: {want}")


once, live1, live2, kept = got("once"), got("live-1"), got("live-2"), got("kept")
for name in SIZES:
    check_pool("top --once", once, 2, name)
    check_pool("top, first look", live1, 1, name)
    check_deltas("top, last look", check_pool("top, last look", live2, 2, name), name, 2)
    check_deltas("the recording", check_pool("the recording", kept, 2, name), name, 1)
equal([p["name"] for p in once["pools"]], ["batch", "chat", "full", "idle"], "all pools, by name")
idle = once["pools"][3]
equal((idle["min"], idle["max"], idle["held"], idle["slabs"], idle["map"]["cells"], idle["client_list"]), (2, 2, 0, 0, [], []),
      "one with nothing in it")
equal([p["name"] for p in live2["pools"]], ["batch", "chat", "full"], "a pool that was destroyed meanwhile is not there")
equal([p["name"] for p in got("only")["pools"]], ["batch"], "--pool")
equal((once["traced"], live2["traced"], kept["traced"]), ([], ["frag", "prefix"], ["frag"]), "what is counted")
equal((live2["missing"], live2["lost"]["full"], kept["lost"]["full"]), (None, 0, 0), "nothing is missing, nothing lost")
equal(said.get("live-status"), "0 ", "top ends well on SIGTERM")
ok(said.get("record-status", "").startswith("0 kvslab: 2 samples are in kept"), f"so does the recorder: {said.get('record-status')}")
page = base64.b64decode(said.get("text", "")).decode()
for name in SIZES:
    cells = next(p for p in once["pools"] if p["name"] == name)["map"]["cells"]
    shades = "".join(".-+*#"[c["level"]] for c in cells)
    block = page[page.index(f"\n{name}: "):] if f"\n{name}: " in page else ""
    rows = re.search(r"MAP:.*\n((?: +\d+ [.\-+*#]+\n)*)", block)
    equal("".join(r.split()[1] for r in rows.group(1).splitlines()) if rows else None, shades, f"the text's map of {name}: {shades}")
print("".join(f"# {line}\n" for line in page.splitlines()), end="")
equal((said.get("map"), said.get("film")), ("0 ", "0 "), "kvslab map draws, now and over the recording")
root = xml.etree.ElementTree.fromstring(base64.b64decode(said.get("svg", "")))
svg = "{http://www.w3.org/2000/svg}"
titles = [t.text for r in root.iter(svg + "rect") for t in r.iter(svg + "title")]
want = [f"extents {c['first']} to {c['last']}, 1 slabs: {c['pages'] - c['free']} of {c['pages']} pages in use; {c['private']} private, "
        f"{c['sealed']} sealed, {c['cached']} cached, 0 quarantined" for p in once["pools"] for c in p["map"]["cells"]]
equal(titles, want, f"the picture's {len(want)} cells")
equal(said.get("links"), "0", "a recorder that is killed leaves no link")
ok(int(said.get("killed", 0)) >= 2, f"what it wrote is there: {said.get('killed')} samples")
before, after = int(said.get("cut-before", -9)), int(said.get("cut-after", -9))
ok(before == int(said["killed"]) - 1 and after == before + 1 and said["cut-status"].startswith("0 ") and "cut short" in said["cut-status"],
   f"a file that was cut is gone on with: {before}, {after}, {said.get('cut-status')}")
alice = got("alice")
equal([p["name"] for p in alice.get("pools", [])], ["batch"], "without rights: the pools that may be opened")
ok("chat: permission denied" in str(alice.get("missing")) and "CAP_BPF and CAP_PERFMON" in str(alice.get("missing")),
   f"and what is missing: {alice.get('missing')}")
ok(said["alice-chat"].startswith("1 ") and "permission denied" in said["alice-chat"], f"a pool of others: {said['alice-chat']}")
ok(said["alice-record"].startswith("1 ") and "CAP_BPF and CAP_PERFMON" in said["alice-record"], f"recording: {said['alice-record']}")
ok(said["nothing"].startswith("1 ") and "there are batch, chat, full" in said["nothing"], f"no such pool: {said['nothing']}")
for p in got("after").get("pools", []):
    state = pages_of(2, p["name"])
    sealed = sum(v != "private" for v in state.values())
    equal((p["client_list"], p["pages"]["private"], p["pages"]["sealed"], p["pages"]["cached"]), ([], 0, 0, sealed),
          f"when its clients have ended {p['name']} has {sealed} cached pages")
ok("no pools; make one with kvslab pool create" in said.get("none", ""), f"without a pool: {said.get('none')}")
ok(said["gone"].startswith("1 ") and "is the module loaded" in said["gone"], f"without the module: {said['gone']}")
print(f"1..{n}")
sys.exit(bad > 0)
