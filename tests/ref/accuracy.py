#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""TAP: logits of the executor (build/drivers/model_logits) against the float64 reference, on every generated
model, some of random shape, and the real one. Fresh ids at each run; --seed repeats one.

    accuracy.py [--seed N] [--random N] [MODEL...]"""

import argparse
import itertools
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import make_models
import reference

ROOT = pathlib.Path(__file__).parent.parent.parent
BUILD = pathlib.Path(os.environ.get("BUILD", "build"))
REAL = "SmolLM2-135M-Instruct.Q4_1.gguf"

# Relative L2 of a position's logits. KV in f32 adds nothing to what quantised weights cost.
BOUND_FLOAT, BOUND_F16_KV, BOUND_QUANTISED = 1e-5, 2e-3, 5e-3


def real_model():
    """The path, or None."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    for path in (os.environ.get("KVSLAB_TEST_MODEL"), f"{cache}/kvslab/{REAL}"):
        if path and os.path.exists(path):
            return path
    return None


def gemma_model():
    """The path, or None."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    path = f"{cache}/kvslab/gemma-3-270m-q4_k_m.gguf"
    return path if os.path.exists(path) else None


def bound(model, kv_type):
    if model.quantised:
        return BOUND_QUANTISED
    return BOUND_FLOAT if kv_type == "f32" else BOUND_F16_KV


class Run:
    def __init__(self, args):
        self.rng = np.random.default_rng(args.seed)
        self.count = self.failed = 0
        self.tmp = None

    def report(self, good, text):
        self.count += 1
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.count} - {text}", flush=True)

    def driver(self, path, ids, *options):
        """float32 [positions][vocab], or what the driver complained about."""
        (self.tmp / "ids").write_text(" ".join(map(str, ids)))
        out = self.tmp / "logits.f32"
        out.unlink(missing_ok=True)
        command = [BUILD / "drivers" / "model_logits", path, "--ids", self.tmp / "ids", "--logits", out, *options]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        if done.returncode:
            return (done.stdout + done.stderr).strip().replace("\n", "; ") or f"exit {done.returncode}"
        return np.fromfile(out, "<f4").reshape(len(ids), -1)

    def settings(self):
        """Some that the answer may not depend on."""
        pick = self.rng.choice
        options = ["--page-tokens", str(pick([0, 1, 7, 16, 33])), "--threads", str(pick([1, 2]))]
        options += ["--chunk", str(pick([0, 1, 13, 64])), "--batch", str(pick([1, 3, 16])), "--seed", str(pick(1000))]
        return options + (["--prefix"] if pick(2) else [])

    def compare(self, path, model, ids):
        exact = reference.forward(model, ids)
        for kv_type in ("f16", "f32"):
            options = ["--kv-type", kv_type, *self.settings()]
            ours = self.driver(path, ids, *options)
            title = f"{pathlib.Path(path).stem}, {len(ids)} positions, {' '.join(options)}"
            if isinstance(ours, str):
                self.report(False, f"{title}: {ours}")
                continue
            error = reference.relative_l2(ours.astype(np.float64), exact)
            worst, limit = error.max(), bound(model, kv_type)
            good = bool(np.isfinite(error).all() and worst <= limit)
            self.report(good, f"{title}: worst {worst:.2e} at {error.argmax()}, median {np.median(error):.1e}, bound {limit:.0e}")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("models", nargs="*")
    ap.add_argument("--seed", type=int, default=int(os.environ.get("KVSLAB_SEED") or np.random.SeedSequence().entropy % 2**32))
    ap.add_argument("--random", type=int, default=30 if os.environ.get("KVSLAB_LONG") else 3, help="models of random shape")
    args = ap.parse_args()
    os.chdir(ROOT)
    print(f"# seed {args.seed}", flush=True)
    run = Run(args)
    with tempfile.TemporaryDirectory() as folder:
        run.tmp = pathlib.Path(folder)
        shapes = (make_models.random_shape(np.random.default_rng([args.seed, i]), i) for i in itertools.count())
        paths = args.models or sorted(str(p) for p in pathlib.Path("build/models").glob("*.gguf"))
        if not args.models:
            for shape in itertools.islice(shapes, args.random):
                print(f"# {shape}")
                path = run.tmp / f"{shape.name}.gguf"
                make_models.write_model(shape, path, args.seed)
                paths.append(str(path))
        for path in paths:
            model = reference.Model(path)
            n = int(run.rng.integers(70, min(model.context, 250)))
            run.compare(path, model, run.rng.integers(model.vocab, size=n).tolist())
        real = None if args.models else real_model()
        if real:
            # A text, not random ids: those drive a trained model to places where f16 keys alone cost 5e-3.
            ids = [int(word) for word in (ROOT / "tests/data/ppl.ids").read_text().split()]
            start = int(run.rng.integers(len(ids) - 300))
            print(f"# tokens {start} to {start + 300} of the text", flush=True)
            run.compare(real, reference.Model(real), ids[start : start + 300])
        elif not args.models:
            run.report(True, "the real model # SKIP no model file: set KVSLAB_TEST_MODEL or run make demo")
    print(f"1..{run.count}")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
