# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""Writes recordings as docs/recording.md says, sharing nothing with the command, and makes random pools for them."""
import struct
import zlib

EXTENT = 2 << 20
STATES = ("free", "private", "moving", "sealed", "cached", "quarantined")
COUNTS = ("allocs", "frees", "seals", "seal_duplicates", "lookups", "lookup_asked", "lookup_hits", "evictions", "takeovers",
          "reclaimed", "adrift", "failed")
FRAG = ("allocs", "frees", "releases", "seals", "duplicates", "evictions", "refused", "slabs_new", "slabs_freed", "slabs_taken")
PREFIX = ("lookups", "asked", "found", "regret")


def header(version=1):
    return struct.pack("<8sII", b"kvslabrc", version, 0)


def record(type, payload):
    head = struct.pack("<II", type, len(payload))
    return head + struct.pack("<II", zlib.crc32(head + payload), 0) + payload


def begin(time, interval):
    return record(1, struct.pack("<QQ", time, interval))


def sample_payload(s):
    out = struct.pack("<QQIIQQ", s["time"], s["mono"], s["traced"], len(s["pools"]), s["lost_full"], s["lost_unknown"])
    for p in s["pools"]:
        out += struct.pack("<32s4IiIII", p["name"].encode(), p["id"], 0, len(p["clients"]), p["dead"], -1, len(p["caches"]),
                           len(p["clients"]), len(p["slabs"]))
        out += struct.pack("<8Q", *(p[k] for k in ("min", "max", "low", "high", "held")), len(p["slabs"]), p["arena"],
                           p["arena_free"])
        out += struct.pack("<6Q", *(total(p, k) for k in STATES))
        out += struct.pack("<3Q", *waste(p))
        out += struct.pack("<12Q", *(p["counts"][k] for k in COUNTS))
        for c in p["caches"]:
            mine = [s for s in p["slabs"] if s["cache"] == c["id"]]
            out += struct.pack("<6I", c["id"], c["page_size"], EXTENT // c["page_size"], c["flags"], c["tier"], 0)
            out += struct.pack("<7Q", len(mine), *(sum(s[k] for s in mine) for k in STATES))
            out += struct.pack("<10Q", *(c["frag"][k] for k in FRAG))
            out += struct.pack("<12Q", *(c["prefix"][k] for k in PREFIX), *c["evicted"])
        for k in p["clients"]:
            out += struct.pack("<Ii16s4Q", k["id"], k["pid"], k["comm"].encode(), k["private"], k["references"], k["slabs"],
                               k["held_bytes"])
        for s in p["slabs"]:
            out += struct.pack("<II8H", s["extent"], s["owner"], s["cache"], pages(s), *(s[k] for k in STATES))
    return out


def sample(s):
    return record(2, sample_payload(s))


def pages(slab):
    return sum(slab[k] for k in STATES)


def total(p, state):
    return sum(s[state] for s in p["slabs"])


def waste(p):
    size = {c["id"]: c["page_size"] for c in p["caches"]}
    return (sum(s["free"] * size[s["cache"]] for s in p["slabs"]),
            sum(EXTENT - EXTENT // size[s["cache"]] * size[s["cache"]] for s in p["slabs"]),
            sum(s["quarantined"] * size[s["cache"]] for s in p["slabs"]))


def level(cell):
    """0: nothing in use; 1, 2, 3: under a third, two thirds, all; 4: all."""
    used = cell["pages"] - cell["free"]
    return 4 if used == cell["pages"] else 0 if not used else 1 if 3 * used < cell["pages"] else 2 if 3 * used < 2 * cell["pages"] else 3


def most(cell):
    if cell["free"] == cell["pages"]:
        return "free"
    kinds = [("private", cell["private"] + cell["moving"]), ("sealed", cell["sealed"]), ("cached", cell["cached"]),
             ("quarantined", cell["quarantined"])]
    return max(kinds, key=lambda k: k[1])[0]


def cells(slabs, room=1024):
    """(slabs to a cell, cells) as top --json has them."""
    per = max(1, -(-len(slabs) // room))
    out = []
    for i in range(0, len(slabs), per):
        part = slabs[i:i + per]
        c = {"first": part[0]["extent"], "last": part[-1]["extent"], "slabs": len(part), "pages": sum(map(pages, part))}
        c.update({k: sum(s[k] for s in part) for k in STATES})
        c.update(level=level(c), most=most(c))
        out.append(c)
    return per, out


def some_slab(rng, extent, cache):
    n = EXTENT // cache["page_size"]
    slab = {"extent": extent, "owner": rng.randrange(4), "cache": cache["id"]}
    left = n
    for k in STATES[1:]:
        slab[k] = rng.choice((0, rng.randint(0, left), left if rng.random() < .3 else 0)) if k != "quarantined" or rng.random() < .1 else 0
        left -= slab[k]
    slab["free"] = left
    return slab


def some_pool(rng, name, id, slabs=None):
    sizes = rng.sample([4096, 65536, 98304, 348160, 2097152], rng.randint(1, 4))
    tiers = [0] * (len(sizes) - 1) + [rng.choice((0, 1))]
    p = {"name": name, "id": id, "dead": 0, "arena": 4096, "arena_free": 100}
    p["caches"] = [{"id": i, "page_size": s, "flags": rng.choice((0, 0, 1)), "tier": t} for i, (s, t) in enumerate(zip(sizes, tiers))]
    extents = sorted(rng.sample(range(4096), rng.randint(0, 200) if slabs is None else slabs))
    p["slabs"] = [some_slab(rng, e, rng.choice(p["caches"])) for e in extents]
    p["max"] = len(extents) + rng.randint(1, 50)
    p["min"] = rng.randint(0, p["max"])
    p["low"], p["high"] = p["max"] // 2, p["max"]
    p["held"] = rng.randint(0, len(extents))
    p["counts"] = {k: rng.randint(0, 10**9) for k in COUNTS}
    p["clients"] = [{"id": i + 1, "pid": rng.randint(1, 4 << 20), "comm": "".join(rng.choice("abcxyz<&\"") for i in range(rng.randint(1, 15))),
                     "private": rng.randint(0, 10**6), "references": rng.randint(0, 10**6), "slabs": rng.randint(0, 99),
                     "held_bytes": rng.randint(0, 1 << 40)} for i in range(rng.randint(0, 9))]
    for c in p["caches"]:
        c["frag"] = {k: rng.randint(0, 10**9) for k in FRAG}
        c["prefix"] = {k: rng.randint(0, 10**9) for k in PREFIX}
        c["evicted"] = [rng.randint(0, 10**6) for i in range(8)]
    return p


def grow(rng, p):
    """The pool somewhat later: counts have grown, other slabs."""
    q = some_pool(rng, p["name"], p["id"])
    q["caches"] = [dict(c) for c in p["caches"]]
    q["slabs"] = [some_slab(rng, s["extent"], rng.choice(q["caches"])) for s in q["slabs"]]
    q["counts"] = {k: v + rng.randint(0, 10**6) for k, v in p["counts"].items()}
    for c in q["caches"]:
        c["frag"] = {k: v + rng.randint(0, 10**6) for k, v in c["frag"].items()}
        c["prefix"] = {k: v + rng.randint(0, 10**6) for k, v in c["prefix"].items()}
        c["evicted"] = [v + rng.randint(0, 1000) for v in c["evicted"]]
    return q


def film(rng, n, names, start=1796144400 * 10**9, step=2 * 10**9, traced=3):
    out, pools = [], [some_pool(rng, name, i + 1) for i, name in enumerate(names)]
    for i in range(n):
        out.append({"time": start + i * step, "mono": 5 * 10**9 + i * step, "traced": traced, "lost_full": 0,
                    "lost_unknown": rng.randint(0, 9), "pools": pools})
        pools = [grow(rng, p) for p in pools]
    return out


def write(path, samples, step=2 * 10**9):
    with open(path, "wb") as f:
        f.write(header() + begin(samples[0]["time"], step) + b"".join(map(sample, samples)))
