#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""TAP: the resident size of `kvslab run` on the real model, at its peak: at most the repacked weights, the extents that
its pool holds, and 64 MiB. While it loads, too: what has been repacked is not kept twice. With KVSLAB_LONG=1 also on a
made model of 4.3 GB, which may take a twentieth of its size more, since a step's rows are as wide as its vocabulary."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import gguf

from accuracy import BUILD, ROOT, real_model

MIB = 1 << 20
EXTENT = 2 * MIB
SLACK = 64 * MIB
TILE_ROWS = 16


def repacked(path):
    """Bytes: as in the file, rows of quantised matrices padded to whole tiles."""
    total = 0
    for t in gguf.GGUFReader(path).tensors:
        size = int(t.n_bytes)
        if len(t.shape) == 2 and t.tensor_type not in (gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16,
                                                       gguf.GGMLQuantizationType.BF16):
            rows = int(t.shape[1])
            size = size // rows * ((rows + TILE_ROWS - 1) // TILE_ROWS * TILE_ROWS)
        total += size
    return total


def status(pid):
    """VmHWM and VmRSS in bytes; {} when it is gone."""
    try:
        with open(f"/proc/{pid}/status") as f:
            rows = [line.split() for line in f if line.startswith(("VmHWM", "VmRSS"))]
    except OSError:
        return {}
    return {row[0][:-1]: int(row[1]) * 1024 for row in rows}


def run(path, pool_mib, prompts, tokens):
    """(peak bytes, last object of the output)"""
    command = [str(BUILD / "kvslab"), "run", "-m", path, "--json", "--ignore-eos", "--temp", "0", "-n", str(tokens),
               "--pool", f"embedded:{pool_mib}M", "-f", "-"]
    peak = 0
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, text=True)
        child.stdin.write("\n".join(prompts) + "\n")
        child.stdin.close()
        while child.poll() is None:
            peak = max(peak, status(child.pid).get("VmHWM", 0))
            time.sleep(0.005)
        if child.returncode:
            return None
        out.seek(0)
        return peak, json.loads(out.readlines()[-1])


def main():
    os.chdir(ROOT)
    path = real_model()
    if not path:
        print("1..0 # SKIP no model file: set KVSLAB_TEST_MODEL or run make demo")
        return 0
    text = (ROOT / "tests/data/text.txt").read_text(encoding="utf-8").split("\n\n")
    # Paragraphs as prompts, one a line; in the second run more than the pool holds at once.
    prompts = [" ".join(p.split()) for p in text if len(p) > 200]
    cases = [(path, "two short answers", 64, ["What is a tide?", "Why is the sky dark?"], 16),
             (path, "16 prompts that fill the pool", 16, prompts[:16], 8)]
    with tempfile.TemporaryDirectory(dir=BUILD) as tmp:
        if os.environ.get("KVSLAB_LONG"):
            subprocess.run([sys.executable, "tests/ref/make_models.py", tmp, "--large", "--size", "4b"], check=True)
            cases.append((str(next(pathlib.Path(tmp).glob("*.gguf"))), "a file of 4.3 GB", 320, ["Hello"], 2))
        return 1 if check(cases) else 0


def check(cases):
    """How many of @cases fail."""
    failed = 0
    print(f"1..{len(cases)}", flush=True)
    for i, (path, name, pool_mib, questions, tokens) in enumerate(cases, 1):
        done = run(path, pool_mib, questions, tokens)
        if not done:
            failed += 1
            print(f"not ok {i} - {name}: the command failed")
            continue
        peak, last = done
        held, weights = last["pool"]["extents"] * EXTENT, repacked(path)
        slack = SLACK + (weights // 20 if weights > 1 << 30 else 0)
        good = weights <= peak <= weights + held + slack
        failed += not good
        print(f"{'ok' if good else 'not ok'} {i} - {name}: {peak / MIB:.0f} MiB at most, weights {weights / MIB:.0f}, "
              f"pool {held / MIB:.0f}: {(peak - weights - held) / MIB:.1f} MiB beyond, {slack / MIB:.0f} allowed", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
