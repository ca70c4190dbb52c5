#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""TAP: rows of repacked matrices (build/drivers/dequantise) against gguf's own dequantiser, to the bit, on random bytes
for every tensor type; where the scale is not finite, that the result is not.

    dequantise.py [--seed N]"""

import argparse
import os
import subprocess
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import quants

from accuracy import BUILD, ROOT

TYPES = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--seed", type=int, default=int(os.environ.get("KVSLAB_SEED") or np.random.SeedSequence().entropy % 2**32))
    args = ap.parse_args()
    os.chdir(ROOT)
    print(f"# seed {args.seed}", flush=True)
    rng = np.random.default_rng(args.seed)
    failed = 0
    for i, name in enumerate(TYPES, 1):
        block, size = gguf.GGML_QUANT_SIZES[T[name]]
        rows, blocks = int(rng.integers(30, 70)), int(rng.integers(1, 9))
        data = np.frombuffer(rng.bytes(rows * blocks * size), np.uint8).reshape(rows, blocks * size)
        command = [str(BUILD / "drivers" / "dequantise"), str(int(T[name])), str(rows), str(blocks * block)]
        done = subprocess.run(command, input=data.tobytes(), capture_output=True)
        with np.errstate(all="ignore"):
            want = quants.dequantize(data, T[name]).reshape(rows, -1).astype(np.float32)
        got = np.frombuffer(done.stdout, np.float32)
        good = done.returncode == 0 and got.size == want.size
        if good:
            got = got.reshape(want.shape)
            good = bool(((got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))).all())
        failed += not good
        print(f"{'ok' if good else 'not ok'} {i} - {name}, {rows} x {blocks * block}: the bits of gguf's dequantiser", flush=True)
    print(f"1..{len(TYPES)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
