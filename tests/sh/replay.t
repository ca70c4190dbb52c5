#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""The replay of traces (tests/bench/replay.c) against a plain model of a cache: found and evicted blocks are exactly
equal, under LRU and under keep_prefixes, on traces drawn at random and on Mooncake's where ../shared has it."""
import heapq
import json
import os
import random
import subprocess
import sys
import tempfile

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.environ.get("BUILD", "build")
REPLAY = f"{BUILD}/bench-replay"
MOONCAKE = "../shared/traces/mooncake/conversation_trace.jsonl"
LONG = bool(os.environ.get("KVSLAB_LONG"))
n = bad = 0


def ok(good, what):
    global n, bad
    n += 1
    bad += not good
    print(f"{'ok' if good else 'not ok'} {n} - {what}", flush=True)


def skip(why, what):
    global n
    n += 1
    print(f"ok {n} - {what} # SKIP {why}", flush=True)


def keep_prefixes(depth, hits, priority):
    return max(priority, min(7, (hits // 8 // 2 ** (depth // 64)).bit_length()))


POLICIES = {"lru": lambda depth, hits, priority: 0, "keep_prefixes": keep_prefixes}


def model(requests, room, policy):
    """What a cache of @room blocks does. A request keeps what it found, makes room for the rest, and is over: its blocks
    were used last then, and of those the deepest goes first."""
    cached = {}  # block -> [class, when, depth, hits]
    order = []  # a heap of (class, when, -depth, block); what no longer is so is passed over
    found = evicted = 0
    for when, chain in enumerate(requests):
        k = 0
        while k < len(chain) and chain[k] in cached:
            k += 1
        found += k
        held = set(chain[:k])
        for block in held:
            is_ = cached[block]
            is_[3] += 1
            is_[0] = policy(is_[2], is_[3], is_[0])
        while len(cached) + len(chain) - k > room:
            level, since, _, block = heapq.heappop(order)
            if block in cached and block not in held and cached[block][:2] == [level, since]:
                del cached[block]
                evicted += 1
        for depth, block in enumerate(chain):
            is_ = cached.setdefault(block, [policy(depth, 0, 0), 0, depth, 0])
            is_[1] = when
            heapq.heappush(order, (is_[0], when, -depth, block))
    return found, evicted, len(cached)


def draw(rnd, requests):
    """Conversations that grow, on a few beginnings that many share, between prompts that come once."""
    fresh = iter(range(1, 1 << 30))
    roots = [[next(fresh) for _ in range(rnd.randint(1, 40))] for _ in range(rnd.randint(1, 6))]
    talks, trace = [], []
    once = rnd.random()
    for _ in range(requests):
        if not talks or rnd.random() < 0.2:
            talks.append(list(rnd.choice(roots)))
        if rnd.random() < once:
            chain = list(rnd.choice(roots)) if rnd.random() < 0.3 else []
            chain += [next(fresh) for _ in range(rnd.randint(1, 150))]
        else:
            talk = rnd.choice(talks[-12:])
            talk += [next(fresh) for _ in range(rnd.randint(0, 9))]
            if len(talk) > 400:
                talks.remove(talk)
            # The last block was not full: longer, it is another.
            chain = talk + [next(fresh)] if rnd.random() < 0.5 else list(talk)
        trace.append(chain)
    return trace


def replay(path, *options):
    done = subprocess.run([REPLAY, "--json", *options, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    print("".join(f"# {line}\n" for line in done.stderr.splitlines()), end="")
    return [json.loads(line) for line in done.stdout.splitlines()] if not done.returncode else []


def compare(requests, path, sizes, what, *options):
    rows = replay(path, "--blocks", ",".join(map(str, sizes)), *options)
    wrong = 0
    for row in rows:
        want = model(requests, row["blocks"], POLICIES[row["policy"]])
        if (row["hits"], row["evictions"], row["kept"]) != want:
            print(f"# {row}: the model has {want}")
            wrong += 1
    ok(len(rows) == 2 * len(sizes) and not wrong, f"{what}: as the model in {len(rows)} pools")
    return rows


def refused(options, words, what):
    done = subprocess.run([REPLAY, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ok(done.returncode == 2 and not done.stdout and all(w in done.stderr for w in words), f"{what}: {done.stderr.strip()}")


seed = int(os.environ.get("KVSLAB_SEED") or random.SystemRandom().randrange(1, 1 << 31))
print(f"# KVSLAB_SEED={seed}")
made = subprocess.run(["make", "--no-print-directory", "-s", REPLAY], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
if made.returncode:
    print("".join(f"# {line}\n" for line in made.stdout.splitlines()[-10:]))
    ok(False, f"make {REPLAY}")
    print(f"1..{n}")
    sys.exit(1)
rnd = random.Random(seed)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "trace")
    found = evicted = 0
    for i in range(40 if LONG else 6):
        trace = draw(rnd, rnd.randint(200, 800))
        with open(path, "w") as f:
            for chain in trace:
                f.write(json.dumps({"timestamp": 0, "hash_ids": chain}) + "\n")
        rows = compare(trace, path, [512, 512 * rnd.randint(2, 5), 512 * rnd.randint(6, 20)], f"trace {i}")
        found += sum(row["hits"] for row in rows)
        evicted += sum(row["evictions"] for row in rows)
    ok(found and evicted, f"{found} blocks were found, {evicted} evicted")

    # A beginning that all share every 16th time, in a flood that never comes again.
    begin = list(range(300))
    flood = [[1000 + 100 * i + k for k in range(100)] for i in range(400)]
    trace = [begin] * 20 + [chain for i, one in enumerate(flood) for chain in ([one] if i % 16 else [one, begin])]
    with open(path, "w") as f:
        for chain in trace:
            f.write(json.dumps({"hash_ids": chain}) + "\n")
    rows = compare(trace, path, [1024], "a flood")
    hits = {row["policy"]: row["hits"] for row in rows}
    # LRU has it until the flood has covered it once. After 20 hits the first 128 of it are in classes above 0.
    ok(hits == {"lru": 20 * 300, "keep_prefixes": 20 * 300 + 24 * 128}, f"keep_prefixes keeps what all begin with: {hits}")

    with open(path, "w") as f:
        f.write('{"hash_ids": [1, 2]}\n{"hash_ids": [1, -2]}\n')
    refused([path], [f"{path}:2", "hash_ids[1]"], "a negative block")
    with open(path, "w") as f:
        f.write("{}\n")
    refused([path], [f"{path}:1", "hash_ids"], "no blocks")
    with open(path, "w") as f:
        f.write("timestamp\n")
    refused([path], [f"{path}:1", "JSON"], "not JSON")
    with open(path, "w") as f:
        f.write(json.dumps({"hash_ids": list(range(600))}) + "\n")
    refused(["--blocks", "1000", path], ["512", "600"], "a pool for less than a prompt")
    refused(["--blocks", "1024;2", path], ["--blocks"], "sizes that are none")
    refused(["--policy", "mru", path], ["mru", "keep_prefixes"], "a policy that is none")
    refused([path + "-gone"], ["gone", "No such file"], "no trace")

if os.path.exists(MOONCAKE):
    with open(MOONCAKE) as f:
        trace = [json.loads(line)["hash_ids"] for line in f]
    some = len(trace) if LONG else 3000
    compare(trace[:some], MOONCAKE, [1024, 10240, 51200], f"{some} requests of Mooncake's conversations", "--requests", str(some))
    rows = replay(MOONCAKE, "--blocks", "inf", "--policy", "lru")
    ok(len(rows) == 1 and (rows[0]["hits"], rows[0]["asked"]) == (105710, 288500), "room for all of them finds 36.6%")
else:
    skip(f"{MOONCAKE} is not there", "Mooncake's conversations")
print(f"1..{n}")
sys.exit(bad > 0)
