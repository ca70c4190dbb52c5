#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""The BPF programs in the guest, with bpftool and behind `kvslab trace`: every figure equals what the workload did, and
what STAT says; a planted leak is named with pid and stack."""
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.environ.get("BUILD", "build")
SUM = 41  # bpf/maps.h
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
# The long mode: more than two million pages that come and go.
runs, calls_wanted, seconds = (1000, 700000, 1200) if os.environ.get("KVSLAB_LONG") else (150, 3000, 30)
logs = f"{BUILD}/vm/bpf"
os.makedirs(logs, exist_ok=True)
files = [f"{BUILD}/bpf/{p}.bpf.o" for p in PROGRAMS] + [f"{BUILD}/bpf/bpf_work", f"{BUILD}/bpf/bpf_attach", f"{BUILD}/bpf/bpf_as", "tests/vm/bpf"]
command = ["tests/vm/guest.py", "run", "--ko", f"{BUILD}/vm/kvslab.ko", "--path", f"{BUILD}/kvslab", "--logs", logs,
           "--timeout", str(200 + 3 * seconds)]
for f in files:
    command += ["--file", f]
if len(sys.argv) > 1:  # what an earlier guest said
    text, status = open(sys.argv[1]).read(), 0
else:
    guest = subprocess.run(command + [f"./bpf {seed} {runs} {calls_wanted} {seconds}"], stdout=subprocess.PIPE, text=True)
    text, status = guest.stdout, guest.returncode
    with open(f"{logs}/said", "w") as f:
        f.write(text)
    # Time is a count of instructions there, so one more boot tells what the programs cost.
    files = [f for f in files if not f.endswith(("/bpf", "/bpf_as"))] + ["tests/vm/bpf-cost"]
    command = command[:command.index("--file")] + ["--icount", "--append", "slub_debug=-"]
    for f in files:
        command += ["--file", f]
    guest = subprocess.run(command + ["./bpf-cost"], stdout=subprocess.PIPE, text=True)
    text += guest.stdout
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


def label(value):
    """bpftool prints an enum by name"""
    return value.removeprefix("KVB_").lower() if isinstance(value, str) else value


def dumped(name):
    """key and value of each element, as BTF names them"""
    table = got(name)
    return [(e["formatted"]["key"], e["formatted"]["value"]) for e in table if "formatted" in e] if isinstance(table, list) else []


def counts(name, pool):
    """a flat map of one pool: {labels: value}"""
    return {tuple(label(v) for k, v in key.items() if k != "pool"): value for key, value in dumped(name) if key["pool"] == pool}


def hists(name, pool):
    """a flat map of histograms: {labels: count}"""
    found = {}
    for (*labels, slot), value in counts(name, pool).items():
        if slot != SUM:
            found[tuple(labels)] = found.get(tuple(labels), 0) + value
    return found


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
pool = work["pool"]
want = {"allocated": work["allocs"], "freed": work["frees"], "released": work["releases"], "sealed": work["seals"],
        "duplicates": work["duplicates"], "evicted": stat["evictions"], "refused": stat["failed"]}
HOWS = {"kvslab trace": "trace", "pinned maps": "pinned"}


def rows_of(what, how="trace", of=None):
    return [r for r in got(f"{how}-{what}").get("rows", []) if r["pool_id"] == (of or pool)]


def here(row):
    """what there is, by a row of frag"""
    return {"slabs": row["slabs"], "private": row["private"], "indexed": row["indexed"], "free": row["free"],
            "quarantined": row["quarantined"]}


def by_stat(s):
    return {"slabs": s["slabs"], "private": s["private"], "indexed": s["sealed"] + s["cached"], "free": s["free"],
            "quarantined": s["quarantined"]}


flat = {what: n for (_, what), n in counts("frag", pool).items()}
flat["duplicates"] = flat.get("duplicate", 0)
equal({k: flat.get(k, 0) for k in want}, want, "frag, bpftool")
equal(flat.get("slabs_new", 0) - flat.get("slabs_freed", 0), stat["slabs"], "frag, bpftool: slabs")
for how, name in HOWS.items():
    rows = rows_of("frag", name)
    equal(len(rows), 1, f"frag, {how}: rows")
    equal({k: rows[0].get(k) for k in want}, want, f"frag, {how}")
    equal((here(rows[0]), rows[0]["stat"], rows[0]["since"]), (by_stat(stat), "same", "pool"), f"frag, {how}: what there is")

# Of all pools: one that was there before, one built to have known shares.
before = [r for r in got("trace-all")["rows"] if r["pool"] == "before"]
equal([r["since"] for r in before], ["pool"], "frag: a pool that was there before is known whole")
equal((before[0]["allocated"], before[0]["freed"], before[0]["stat"]), (0, 50, "same"), "frag: and counted from then on")
shares, row = got("shares"), [r for r in got("trace-all")["rows"] if r["pool"] == "shares"][0]
equal(here(row), by_stat(got("shares-stat")), "frag: the shares, as STAT says")
equal({k: row[k] for k in ("private", "free", "quarantined")}, {k: shares[k] for k in ("private", "free", "quarantined")},
      "frag: the shares, as they were built")
extent = 2 << 20
for part, size in (("partial", shares["free"] * shares["page_size"]), ("tail", shares["tail_bytes"]),
                   ("quarantine", shares["quarantined"] * shares["page_size"])):
    off = abs(row["fragmentation"][part] * extent - size)
    ok(off < 1, f"frag: {part} of the fragmentation, off by {off:.3f} bytes")

flat = {what: n for (_, what), n in counts("prefix", pool).items()}
names = ("asked", "found", "seals", "duplicates")
equal({k: flat.get(k, 0) for k in names}, {k: work[k] for k in names}, "prefix, bpftool")
equal(sum(flat.get(k, 0) for k in ("whole", "partly", "none")), work["lookups"], "prefix, bpftool: lookups by outcome")
equal(sum(counts("evicted", pool).values()), stat["evictions"], "prefix, bpftool: evictions of all classes")
equal(sum(counts("sealed", pool).values()), work["seals"], "prefix, bpftool: seals of all classes")
equal(sum(hists("found", pool).values()), work["lookups"], "prefix, bpftool: histogram of pages found")
for how, name in HOWS.items():
    row = rows_of("prefix", name)[0]
    equal({k: row.get(k) for k in ("lookups", *names)}, {k: work[k] for k in ("lookups", *names)}, f"prefix, {how}")
    equal(sum(map(sum, row["evicted"])), stat["evictions"], f"prefix, {how}: evictions of all classes")
    equal((row["run"]["count"], row["run"]["sum"]), (work["lookups"], work["found"]), f"prefix, {how}: histogram of pages found")

calls = {2: ("ALLOC", "alloc_calls"), 3: ("FREE", "free_calls"), 4: ("GET", "get_calls"), 5: ("SEAL", "seal_calls"),
         6: ("LOOKUP", "lookups")}
found, errors = hists("latency", pool), counts("errors", pool)
for nr, (command_name, key) in calls.items():
    equal(found.get((nr,), 0), work[key], f"latency, bpftool: {command_name}")
    for how, name in HOWS.items():
        rows = [r for r in rows_of("latency", name) if r["command"] == command_name]
        equal([(sum(r["ns"]["log2"]), r["ns"]["count"], r["errors"]) for r in rows], [(work[key], work[key], errors.get((nr, 0), 0))],
              f"latency, {how}: {command_name}")

ended = {"private": work["frees"], "duplicate": work["duplicates"], "evicted": stat["evictions"]}
equal({e.removeprefix("ended_"): n for (_, e), n in hists("lifetime", pool).items()}, ended, "lifetime, bpftool")
for how, name in HOWS.items():
    equal({r["ended"]: r["us"]["count"] for r in rows_of("lifetime", name)}, ended, f"lifetime, {how}")
    equal({r["ended"]: sum(r["us"]["log2"]) for r in rows_of("lifetime", name)}, ended, f"lifetime, {how}, all slots")


def held(name, of):
    return [p for _, w in dumped(name) if w["pool"] == of for p in w["page"] if p["since"]]


private = held("privates", pool)
equal(len(private), 3, "leaks, bpftool: the planted pages, and no other private one")
equal({p["pid"] for p in private}, {work["pid"]}, "leaks, bpftool: their pid")
references = {k["page"]: v for k, v in dumped("references") if k["pool"] == pool}
equal(sorted(references), sorted(h >> 28 for h in (work["looked_up"], work["got"])), "leaks, bpftool: the planted references")
for how, name in HOWS.items():
    rows = rows_of("leaks", name)
    equal(sorted((r["how"], r["pages"]) for r in rows), [("allocated", 3), ("looked up", 1), ("sealed", 1)],
          f"leaks, {how}: the planted ones and no other")
    equal({(r["pid"], r["comm"]) for r in rows}, {(work["pid"], "bpf_work")}, f"leaks, {how}: the pid and the program's name")
    for manner, function in (("allocated", "leak_privates"), ("looked up", "leak_looked_up")):
        stacks = [r["stack"] for r in rows if r["how"] == manner]
        ok(len(stacks) == 1 and any(re.search(rf" {function}\+0x", frame) for frame in stacks[0]),
           f"leaks, {how}: {function} is in the stack of what was {manner}: {stacks[:1]}")
ok(re.search(r"leak_privates\+0x", text[text.find("@text-leaks-line"):]), "leaks, in text: the function")
clean = got("clean")
ok(clean and clean["stay"] + clean["ended"] == runs and min(clean["stay"], clean["ended"]) > 0, f"runs without a leak: {clean}")
equal(got("trace-clean").get("rows"), [], f"leaks: {runs} runs without a leak, and none is named")
equal((held("privates-after", pool), counts("references-after", pool)), ([], {}), "leaks: nothing is held when the client has ended")
equal([k for k, v in dumped("clients-after") if k["pool"] == pool and not v["ending"]], [], "leaks: nor is there a client")
# leaks, and lifetime, saw the end of what a pool had before: 50 private pages, and 5 references.
begun = {"leaks": 55, "lifetime": 50}
for p in PROGRAMS:
    lost, told = dict(dumped(f"lost-{p}")), got(f"trace-{p}").get("lost", {})
    if p == "leaks":
        # Two stacks may want one place in the map, twice: by chance, so it is told but not held against it.
        print(f"# leaks: stacks lost: {lost.pop(2, None)}, {told.pop('stacks', None)}")
    equal(lost, {k: n for k, n in {0: 0, 1: begun.get(p, 0), 2: 0}.items() if k in lost}, f"{p}, bpftool: lost")
    equal(told, {k: n for k, n in {"full": 0, "unknown": begun.get(p, 0), "stacks": 0}.items() if k in told},
          f"{p}, kvslab trace: lost")
    ok(len(lost) >= 2 and len(told) >= 2, f"{p}: what was lost is told")
    equal(said.get(f"trace-status-{p}"), "0", f"kvslab trace {p} ends well on SIGTERM")
    equal(said.get(f"pinned-status-{p}", "").strip(), "0", f"kvslab trace {p} reads pinned maps")
    equal(said.get(f"text-status-{p}"), "0", f"kvslab trace {p} prints text")
    ok(said.get(f"capable-{p}", "").startswith(f'0 {{"trace":"{p}"'), f"{p}: CAP_BPF and CAP_PERFMON are enough")

# The exporter: the text is what Prometheus reads, its figures are STAT's and the workload's.
def exported(name):
    """{(sample, labels): value} of a page, which is held against the format on the way"""
    page = [line for line in re.findall(rf"^@{name}: (.*)$", text, re.M) if line]
    samples, families, family, kind, faults = {}, set(), None, None, []
    for line in page:
        head = re.fullmatch(r"# (HELP|TYPE) (\w+) (.+)", line)
        if head:
            if head[1] == "HELP":
                faults += [line] if head[2] in families else []
                family, kind = head[2], None
                families.add(family)
            else:
                kind = head[3]
                faults += [line] if head[2] != family or kind not in ("gauge", "counter", "histogram") else []
                faults += [line] if (kind == "counter") != family.endswith("_total") else []
            continue
        m = re.fullmatch(r'(\w+)(?:\{((?:\w+="(?:[^"\\\n]|\\[\\"n])*",?)+)\})? (-?[0-9.e+-]+)', line)
        if not m or not kind or not m[1].startswith(family) or \
                m[1][len(family):] not in (("_bucket", "_sum", "_count") if kind == "histogram" else ("",)):
            faults.append(line)
            continue
        key = (m[1], frozenset(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', m[2] or "")))
        faults += [line] if key in samples else []
        samples[key] = float(m[3])
    for (sample, labels), value in samples.items():
        if sample.endswith("_count") and (sample[:-6] + "_sum", labels) in samples:
            buckets = [(float(dict(of)["le"]), n) for (s, of), n in samples.items()
                       if s == sample[:-6] + "_bucket" and {x for x in of if x[0] != "le"} == labels]
            rising = all(a[0] < b[0] and a[1] <= b[1] for a, b in zip(buckets, buckets[1:]))
            faults += [] if rising and buckets[-1] == (float("inf"), value) else [f"{sample} {sorted(labels)}: {buckets}"]
    ok(len(samples) > 20 and not faults, f"{name}: {len(samples)} samples in {len(families)} families, as the format wants them: "
       f"{faults[:3]}")
    return samples


def one(samples, sample, **labels):
    return [v for (s, of), v in samples.items() if s == sample and set(labels.items()) <= of]


samples, made, of_stat = exported("export"), got("export-work"), got("export-pool")
equal((said.get("export-status"), said.get("export-end")), ("0", "0"), "kvslab export serves, and ends well on SIGTERM")
ok(said.get("export-nothing-status") not in ("0", None), "another path is refused")
for state, n_pages in of_stat["pages"].items():
    if state != "adrift":
        equal(sum(one(samples, "kvslab_pages", pool="clean", state=state)), n_pages, f"export: pages {state}")
for sample, key in (("kvslab_page_allocations_total", "allocs"), ("kvslab_page_evictions_total", "evictions"),
                    ("kvslab_lookup_hit_pages_total", "lookup_hits"), ("kvslab_allocations_refused_total", "failed")):
    equal(one(samples, sample, pool="clean"), [of_stat["counts"][key]], f"export: {key}")
for sample, key in (("kvslab_pool_held_bytes", "held"), ("kvslab_pool_limit_bytes", "max"), ("kvslab_pool_guaranteed_bytes", "min")):
    equal(one(samples, sample, pool="clean"), [of_stat[key] * extent], f"export: {key}")
for event, key in (("allocated", "allocs"), ("freed", "frees"), ("sealed", "seals"), ("duplicates", "duplicates")):
    equal(one(samples, "kvslab_page_events_total", pool="clean", event=event), [made[key]] if made[key] else [],
          f"export, counted by BPF: {event}")
for command_name, key in calls.values():
    equal(one(samples, "kvslab_command_seconds_count", pool="clean", command=command_name), [made[key]],
          f"export, counted by BPF: {command_name}")
equal(one(samples, "kvslab_prefix_events_total", pool="clean", event="page_asked"), [made["asked"]], "export: pages asked for")
equal({how: n for (s, of), n in samples.items() if s == "kvslab_long_held_pages" for k, how in of if k == "how"},
      {"allocated": 3, "looked up": 1, "sealed": 1}, "export: pages held for long, by how they were taken")
equal(one(samples, "kvslab_trace_loaded"), [1], "export: programs are loaded")
alice = exported("export-alice")
equal(one(alice, "kvslab_trace_loaded"), [0], "export of a user: no programs")
equal((len(one(alice, "kvslab_pool_held_bytes")), one(alice, "kvslab_pools", readable="no")), (1, [3]),
      "the one pool that it may open, and three that it may not")
ok("without CAP_BPF and CAP_PERFMON" in said.get("export-alice-err", ""), f"and it says why: {said.get('export-alice-err')}")
ok(said.get("export-bad", "").startswith("1 ") and "--listen's port" in said["export-bad"], f"a bad port: {said.get('export-bad')}")
promtool = shutil.which("promtool")
if promtool:
    page = "\n".join(re.findall(r"^@export: (.*)$", text, re.M)) + "\n"
    checked = subprocess.run([promtool, "check", "metrics"], input=page, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    ok(checked.returncode == 0, f"promtool finds no fault: {checked.stdout[:300]}")
    checked = subprocess.run([promtool, "check", "rules", "monitoring/alerts.yml"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    ok(checked.returncode == 0, f"nor in the alert rules: {checked.stdout[:300]}")
else:
    ok(True, "promtool finds no fault # SKIP there is no promtool")
rules = open("monitoring/alerts.yml").read() + open("monitoring/dashboard.json").read()
known = {re.sub(r"_(bucket|sum|count)$", "", s) for s, _ in samples}
asked = {re.sub(r"_(bucket|sum|count)$", "", s) for s in re.findall(r"\bkvslab_\w+", rules)}
equal(sorted(asked - known), [], "alert rules and dashboard ask for figures that are there")
maps = set(re.findall(r"COUNTS\((\w+),", "".join(open(f"bpf/{p}.bpf.c").read() for p in PROGRAMS))) | {"lost_total"}
asked = set(re.findall(r"^    - name: (\w+)$", "".join(open(f"monitoring/ebpf_exporter/{p}.yaml").read() for p in PROGRAMS
                                                      if p != "leaks"), re.M))
equal(sorted(asked ^ maps), ["page_bytes"], "ebpf_exporter is told of all flat maps, and of no others but what needs no series")
ok(len(json.load(open("monitoring/dashboard.json"))["panels"]) >= 6, "the dashboard is JSON")

# A program that grew is looked at by somebody: tests/vm/verified.
size = dict(line.split() for line in open("tests/vm/verified") if line[0] != "#")
now = dict(re.findall(r"^@verified-(\S+) (\d+)$", text, re.M))
equal(sorted(now), sorted(size), "the verifier saw the programs of tests/vm/verified")
for program, instructions in now.items():
    ok(int(instructions) <= 1.2 * int(size.get(program, 0)), f"{program}: {instructions} instructions verified, {size.get(program)} recorded")

cost = {name: int(n) for name, n in re.findall(r"^@cost-(\S+) (\d+)$", text, re.M)}
for name, most in (("frag", 1.35), ("all", 2.5)):
    times = cost.get(name, 0) / cost.get("none", 1)
    ok(1 < times <= most, f"ALLOC and FREE of 64 pages with {name}: {times:.2f} times the instructions, {most} at most")

# The kernel that this runs on may be another one than the guest's: it is asked to load them, not to attach them.
bpftool = shutil.which("bpftool") or "/usr/sbin/bpftool"
host = tempfile.mkdtemp(prefix="kvslab-", dir="/sys/fs/bpf") if os.geteuid() == 0 and os.path.ismount("/sys/fs/bpf") else None
for p in PROGRAMS:
    what = f"{p} loads on this machine's own kernel, {os.uname().release}"
    if not host or not os.access(bpftool, os.X_OK):
        ok(True, f"{what} # SKIP needs root, bpftool and a BPF file system")
        continue
    loaded = subprocess.run([bpftool, "prog", "loadall", f"{BUILD}/bpf/{p}.bpf.o", f"{host}/{p}"], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)
    if "Operation not permitted" in loaded.stdout:
        ok(True, f"{what} # SKIP it lets nobody load programs")
    else:
        ok(loaded.returncode == 0, f"{what}: {loaded.stdout.strip()[-200:]}")
if host:
    shutil.rmtree(host)

for caps, lacks in (("none", "CAP_BPF and CAP_PERFMON"), ("38", "CAP_BPF"), ("39", "CAP_PERFMON")):
    ok(f"needs {lacks};" in said.get(f"incapable-{caps}", ""), f"without rights: {said.get(f'incapable-{caps}')}")
ok("are of version 99, this command reads" in said.get("newer", ""), f"newer maps: {said.get('newer')}")
ok("give a folder in which the maps of frag.bpf.o are pinned" in said.get("nothing", ""), f"no maps: {said.get('nothing')}")
links, during = map(int, said.get("killed-links", "0 0").split())
ok(during > links, f"a trace has links: {links}, then {during}")
equal(said.get("killed-links-after"), f"{links} {links}", "killed by SIGKILL it leaves none")
equal(said.get("killed-pins", "").split(), sorted(PROGRAMS), "and pins nothing")
ok(said.get("rmmod-attached") != "0", "attached programs keep the module")
equal(said.get("rmmod"), "1", "without them it goes")
ok("is the module loaded" in said.get("no-module", ""), f"without the module: {said.get('no-module')}")
print(f"1..{n}")
sys.exit(bad > 0)
