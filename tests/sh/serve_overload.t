#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""A thousand requests at once on a pool of a twentieth of what they need: each is answered, or refused with a reason; memory
is bounded; the steps are no slower than without the crowd. Also what `kvslab bench serve` says."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from serve_common import *

os.chdir(pathlib.Path(__file__).parent.parent.parent)
MODEL = model("f16-gqa3")
PROMPT, TOKENS, CROWD = 100, 60, 1000
# 4 layers, 2 heads of 24, keys and values in f32
NEED = CROWD * (PROMPT + TOKENS) * 4 * 2 * 2 * 24 * 4
POOL = NEED // 20 // (2 << 20) * 2


def bench(s, clients, requests):
    # the clients run on the server's own processors: what they take from it is not its slowness
    p = subprocess.run([KVSLAB, "bench", "serve", "--url", s.url, "--clients", str(clients), "--requests", str(requests),
                        "--prompt-tokens", str(PROMPT), "--tokens", str(TOKENS), "--json"], capture_output=True, text=True,
                       timeout=300, preexec_fn=lambda: os.nice(19))
    if p.returncode:
        raise RuntimeError(p.stderr)
    return [json.loads(line) for line in p.stdout.splitlines()]


def steps(s):
    """Counts of steps by their time's upper bound."""
    out = {}
    for line in s.get("/metrics")[2].splitlines():
        m = re.match(r'kvslab:step_seconds_bucket\{.*le="([^"]+)"\} (\d+)', line)
        if m:
            out[float(m[1].replace("+", ""))] = int(m[2])
    return out


def p99(before, after):
    n = {k: after[k] - before[k] for k in after}
    total = n[float("inf")]
    return min(k for k in n if n[k] >= 0.99 * total), total


for loop in loops():
    with Server(MODEL, "--pool", f"embedded:{POOL}M", "--kv-type", "f32", "--max-queue", "700", "--max-batch", "96",
                "--step-tokens", "128", "--loop", loop,
                "--log-level", "info") as s:
        before = s.files()
        bench(s, 8, 16)  # what memory it has once it has run
        # without a crowd: as many as the pool lets run at once
        zero = steps(s)
        whole = bench(s, 32, 200)
        ok(whole[0]["requests"] == 200 and whole[0]["failed"] == 0 and
           whole[0]["completion_tokens"] == 200 * TOKENS and abs(whole[0]["prompt_tokens"] / 200 - PROMPT) < PROMPT / 4,
           f"{loop}: a benchmark of 32 clients: {whole[0]['tokens_per_second']:.0f} tokens/s")
        ok([w["name"] for w in whole] == ["whole", "ttft", "inter_token", "whole_request"] and
           all(0 < w["p50_ms"] <= w["p90_ms"] <= w["p99_ms"] and w["mean_ms"] > 0 for w in whole[1:]),
           f"{loop}: its latencies are in order")
        one = steps(s)
        resident = s.resident()
        m = s.metrics()
        crowd = bench(s, CROWD, CROWD)
        two = steps(s)
        good, bad = crowd[0]["requests"], crowd[0]["failed"]
        reasons = [(c["reason"], c["requests"]) for c in crowd if c["name"] == "failed"]
        ok(good + bad == CROWD and good >= 700 and all(r.startswith("429: the queue is full") for r, _ in reasons) and
           crowd[0]["completion_tokens"] == good * TOKENS, f"{loop}: of {CROWD} at once, {good} are answered, {reasons}")
        grown = s.resident() - resident
        ok(grown < POOL + 64, f"{loop}: {grown:.1f} MiB more for it, of a pool of {POOL} MiB")
        # Bounds of the histogram are a quarter apart. Others use this machine too: a slow moment of theirs is measured again.
        for attempt in range(6):
            if attempt:
                zero = steps(s)
                bench(s, 32, 200)
                one = steps(s)
                bench(s, CROWD, CROWD)
                two = steps(s)
            (alone, n), (crowded, k) = p99(zero, one), p99(one, two)
            print(f"# {loop}: p99 of a step {crowded * 1e3:.2f} ms in {k} steps, without a crowd {alone * 1e3:.2f} in {n}")
            if crowded <= 2 * alone:
                break
        ok(crowded <= 2 * alone, f"{loop}: the crowd makes p99 of a step {crowded / alone:.2f} times as long")
        print("# preempted", s.metrics()["num_preemptions_total"] - m["num_preemptions_total"])
        m = s.settle()
        ok(m['pages{state="private"}'] == 0 and m['pages{state="sealed"}'] == 0 and s.leaked(before) <= 0,
           f"{loop}: no page is private or held, no descriptor is left")
        share = m["step_between_seconds_total"] / (m["step_between_seconds_total"] + m["step_executor_seconds_total"])
        print(f"# {loop}: {100 * share:.1f}% of the steps' time is not the executor's")
finish()
