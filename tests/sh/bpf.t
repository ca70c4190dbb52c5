#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""The BPF programs in the guest, with bpftool and behind `kvslab trace`: every figure equals what the workload did, and
what STAT says; a planted leak is named with pid and stack."""
import json
import os
import random
import re
import subprocess
import sys

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.environ.get("BUILD", "build")
PROGRAMS = ["frag", "latency", "lifetime", "leaks", "prefix"]
n = bad = 0


def ok(good, what):
    global n, bad
    n += 1
    bad += not good
    print(f"{'ok' if good else 'not ok'} {n} - {what}", flush=True)


def equal(got, want, what):
    ok(got == want, f"{what}: {got}" + ("" if got == want else f", wanted {want}"))


seed = int(os.environ.get("KVSLAB_SEED") or random.SystemRandom().randrange(1, 1 << 31))
print(f"# KVSLAB_SEED={seed}")
made = subprocess.run(["make", "--no-print-directory", "-s", "bpf-test"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
if made.returncode:
    print("".join(f"# {line}\n" for line in made.stdout.splitlines()[-10:]))
    ok(False, "make bpf-test")
    print(f"1..{n}")
    sys.exit(1)
logs = f"{BUILD}/vm/bpf"
os.makedirs(logs, exist_ok=True)
files = [f"{BUILD}/bpf/{p}.bpf.o" for p in PROGRAMS] + [f"{BUILD}/bpf/bpf_work", f"{BUILD}/bpf/bpf_attach", "tests/vm/bpf"]
command = ["tests/vm/guest.py", "run", "--ko", f"{BUILD}/vm/kvslab.ko", "--path", f"{BUILD}/kvslab", "--logs", logs,
           "--timeout", "240"]
for f in files:
    command += ["--file", f]
if len(sys.argv) > 1:  # what an earlier guest said
    text, status = open(sys.argv[1]).read(), 0
else:
    guest = subprocess.run(command + [f"./bpf {seed}"], stdout=subprocess.PIPE, text=True)
    text, status = guest.stdout, guest.returncode
    with open(f"{logs}/said", "w") as f:
        f.write(text)
print("".join(f"# {line[:200]}\n" for line in text.splitlines() if line.startswith("# ")), end="")
equal(status, 0, "the guest's status")
said = dict(re.match(r"@(\S+) ?(.*)", line).groups() for line in text.splitlines() if re.match(r"@\S", line))


def got(name):
    try:
        return json.loads(said[name])
    except (KeyError, ValueError):
        print(f"# {name}: {said.get(name, 'nothing')[:300]}")
        return {}


def dumped(name):
    """key and value of each element, as BTF names them"""
    table = got(name)
    return [(e["formatted"]["key"], e["formatted"]["value"]) for e in table if "formatted" in e] if isinstance(table, list) else []


for p in PROGRAMS:
    equal(said.get(f"load-{p}"), "0", f"bpftool loads {p}")
    equal(said.get(f"attach-{p}"), "0", f"{p} attaches, beside kvslab trace")
work, stat = got("work"), got("stat")
ok(bool(work) and bool(stat), "the workload ran")
if not work or not stat:
    print(f"1..{n}")
    sys.exit(1)
for name in ("allocs", "duplicates", "lookups", "asked", "found"):
    equal(stat[name], work[name], f"STAT's {name}")
equal(stat["frees"], work["frees"] + work["releases"] + work["duplicates"], "STAT's frees, duplicates of seals among them")
equal(stat["seals"], work["seals"] + work["duplicates"], "STAT's seals")
mine = {"pool": work["pool"], "cache": work["cache"]}
want = {"allocs": work["allocs"], "frees": work["frees"], "releases": work["releases"], "seals": work["seals"],
        "duplicates": work["duplicates"], "evictions": stat["evictions"], "refused": stat["failed"]}


def of(rows):
    return [v for k, v in rows if {name: k.get(name) for name in mine} == mine]


def rows_of(name):
    return [r for r in got(f"trace-{name}").get("rows", []) if r["pool"] == work["pool"]]


for how, rows in (("bpftool", of(dumped("frag"))), ("kvslab trace", rows_of("frag"))):
    equal(len(rows), 1, f"frag, {how}: rows")
    row = rows[0] if rows else {}
    equal({k: row.get(k) for k in want}, want, f"frag, {how}")
    slabs = row.get("slabs_new", 0) - row.get("slabs_freed", 0)
    equal(slabs, stat["slabs"], f"frag, {how}: slabs")
    private = row.get("allocs", 0) - row.get("frees", 0) - row.get("duplicates", 0) - row.get("seals", 0)
    indexed = row.get("seals", 0) - row.get("evictions", 0)
    equal((private, indexed, slabs * 32 - private - indexed), (stat["private"], stat["sealed"] + stat["cached"], stat["free"]),
          f"frag, {how}: pages private, indexed, empty")
for how, rows in (("bpftool", of(dumped("prefix"))), ("kvslab trace", rows_of("prefix"))):
    row = rows[0] if rows else {}
    names = ("lookups", "asked", "found", "seals", "duplicates")
    equal({k: row.get(k) for k in names}, {k: work[k] for k in names}, f"prefix, {how}")
    evicted = row.get("evicted", [])
    equal(sum(map(sum, evicted)), stat["evictions"], f"prefix, {how}: evictions of all classes")
    equal(row.get("whole", 0) + row.get("partly", 0) + row.get("none", 0), work["lookups"], f"prefix, {how}: lookups by outcome")
calls = {2: ("ALLOC", "alloc_calls"), 3: ("FREE", "free_calls"), 5: ("SEAL", "seal_calls"), 6: ("LOOKUP", "lookups")}
for nr, (command_name, key) in calls.items():
    rows = [v["ns"] for k, v in dumped("latency") if k["pool"] == work["pool"] and k["command"] == nr]
    equal(sum(r["count"] for r in rows), work[key], f"latency, bpftool: {command_name}")
    equal(sum(sum(r["slots"]) for r in rows), work[key], f"latency, bpftool: {command_name}, all slots")
    rows = [r["ns"] for r in rows_of("latency") if r["command"] == command_name]
    equal(sum(sum(r["log2"]) for r in rows), work[key], f"latency, kvslab trace: {command_name}")
names = ["private", "duplicate", "evicted", "reclaimed", "with pool"]
ended = {"private": work["frees"], "duplicate": work["duplicates"], "evicted": stat["evictions"]}
rows = {names[k["ended"]]: v["count"] for k, v in dumped("lifetime") if k["pool"] == work["pool"]}
equal(rows, ended, "lifetime, bpftool")
equal({r["ended"]: r["us"]["count"] for r in rows_of("lifetime")}, ended, "lifetime, kvslab trace")
equal({r["ended"]: sum(r["us"]["log2"]) for r in rows_of("lifetime")}, ended, "lifetime, kvslab trace, all slots")

held = [(k, v) for k, v in dumped("held") if k["pool"] == work["pool"]]
private = [(k, v) for k, v in held if v["refs"] == 0]
equal(len(private), 3, "leaks, bpftool: the planted pages, and no other private one")
ok(any(k["page"] == work["leaked"] for k, v in private), "leaks, bpftool: its handle")
equal({v["pid"] for k, v in private}, {work["pid"]}, "leaks, bpftool: its pid")
rows = rows_of("leaks")
leaks = [r for r in rows if r["refs"] == 0]
equal(len(leaks), 3, "leaks, kvslab trace: the planted pages")
equal({r["pid"] for r in leaks}, {work["pid"]}, "leaks, kvslab trace: the pid")
equal({r["comm"] for r in leaks}, {"bpf_work"}, "leaks, kvslab trace: the program's name")


def in_function(row):
    return any(work["from"] <= int(frame.split()[0], 16) < work["to"] for frame in row["stack"])


ok(bool(leaks) and all(in_function(r) for r in leaks), "leaks, kvslab trace: the function that leaked is in the stack: "
   + "; ".join(leaks[0]["stack"] if leaks else []))
ok(not [r for r in rows if r["refs"]], "leaks: what the workload gave back is not named")
equal([k for k, v in dumped("held-after") if k["pool"] == work["pool"]], [], "leaks: nothing is held when the client has ended")
for p in PROGRAMS:
    lost = dumped(f"lost-{p}")
    lost = lost[0][1] if lost else {}
    ok(lost.get("full") == 0 and lost.get("unknown") == 0 and lost.get("stacks") == 0, f"{p}, bpftool: nothing lost: {lost}")
    lost = got(f"trace-{p}").get("lost", {})
    ok(lost.get("full") == 0 and lost.get("unknown") == 0 and lost.get("stacks") == 0, f"{p}, kvslab trace: nothing lost: {lost}")
    equal(said.get(f"trace-status-{p}"), "0", f"kvslab trace {p} ends well on SIGTERM")
    equal(said.get(f"text-status-{p}"), "0", f"kvslab trace {p} prints text")
ok("CAP_BPF and CAP_PERFMON" in said.get("alice", ""), f"without rights: {said.get('alice')}")
ok(said.get("rmmod-attached") != "0", "attached programs keep the module")
equal(said.get("rmmod"), "0", "without them it goes")
ok("is the module loaded" in said.get("no-module", ""), f"without the module: {said.get('no-module')}")
print(f"1..{n}")
sys.exit(bad > 0)
