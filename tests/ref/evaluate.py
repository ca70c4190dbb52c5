#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""TAP: `kvslab eval` against the recorded peer on the real model, and against the float64 reference on generated
models with both kinds of tokenizer (one wants BOS, the other does not).

    evaluate.py [--seed N]"""

import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import reference
from accuracy import BUILD, ROOT, gemma_model, real_model

PEER_WITHIN = 0.01
# The peer's own rounding left out, ours is what the logits' bounds allow.
FLOAT64_WITHIN = {"real": 1e-3, "generated": 1e-3, "f32": 1e-5}


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def ok(self, good, text):
        self.count += 1
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.count} - {text}", flush=True)

    def skip(self, text, why):
        self.count += 1
        print(f"ok {self.count} - {text} # SKIP {why}", flush=True)


def command(*words, stdin=subprocess.DEVNULL):
    """The output, or None; what it complained about goes to the log."""
    done = subprocess.run([str(BUILD / "kvslab"), *map(str, words)], stdin=stdin, capture_output=True, text=True)
    if done.returncode:
        print("# " + done.stderr.strip().replace("\n", "\n# "))
        return None
    return done.stdout


def evaluate(model, text, *options):
    out = command("eval", "-m", model, "-f", text, "--json", *options)
    return json.loads(out) if out else None


def recorded(tap, path, name):
    record = json.loads((ROOT / "tests/data" / name).read_text())
    if hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest() != record["model_sha256"]:
        return tap.skip("perplexity of the real model", "another model than the recorded one")
    got = evaluate(path, ROOT / "tests/data" / record["text"], "--ctx", record["ctx"])
    if not got:
        return tap.ok(False, "eval of the real model")
    tap.ok(got["tokens"] == record["tokens"], f"{got['tokens']} tokens of text, as the peer's")
    tap.ok(got["scored_tokens"] == record["scored"], f"{got['scored_tokens']} of them scored, as the peer's")
    for what, want, within in (("the peer's", record["perplexity"], PEER_WITHIN),
                               ("float64's", record["float64"], FLOAT64_WITHIN["real"])):
        off = abs(got["perplexity"] / want - 1)
        tap.ok(off < within, f"perplexity {got['perplexity']:.4f}, {what} {want:.4f}: {off:.1e} apart, at most {within:.0e}")


def exact_perplexity(model, ids, ctx, bos):
    total, scored = 0.0, 0
    for start in range(0, len(ids) - ctx + 1, ctx):
        chunk = ids[start : start + ctx]
        if bos is not None:
            chunk = [bos] + chunk[1:]
        logits = reference.forward(model, chunk)[ctx // 2 : ctx - 1]
        logits -= logits.max(axis=1, keepdims=True)
        targets = chunk[ctx // 2 + 1 :]
        total += (np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(targets)), targets]).sum()
        scored += len(targets)
    return np.exp(total / scored), scored


def generated(tap, name, rng):
    path = ROOT / "build/models" / f"{name}.gguf"
    model = reference.Model(path)
    text = (ROOT / "tests/data/text.txt").read_text(encoding="utf-8")
    start, ctx = int(rng.integers(len(text) - 3000)), int(rng.integers(20, 200))
    float32 = model.types == {"F32"}
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as part:
        part.write(text[start : start + 2000])
        part.flush()
        with open(part.name, encoding="utf-8") as f:
            ids = command("tokenize", "-m", path, "--ids", "-", stdin=f)
        got = evaluate(path, part.name, "--ctx", ctx, *(["--kv-type", "f32"] if float32 else []))
    title = f"{name}, chunks of {ctx}"
    if not ids or not got:
        return tap.ok(False, f"{title}: the command failed")
    ids = [int(word) for word in ids.split()]
    bos = model.field("tokenizer.ggml.bos_token_id") if model.field("tokenizer.ggml.add_bos_token") else None
    if bos is not None and ids[0] != bos:
        ids.insert(0, bos)
    want, scored = exact_perplexity(model, ids, ctx, bos)
    tap.ok((got["tokens"], got["scored_tokens"]) == (len(ids), scored), f"{title}: {len(ids)} tokens, {scored} scored")
    off, within = abs(got["perplexity"] / want - 1), FLOAT64_WITHIN["f32" if float32 else "generated"]
    tap.ok(off < within, f"{title}: perplexity {got['perplexity']:.4f}, float64's {want:.4f}: {off:.1e} apart, at most {within:.0e}")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--seed", type=int, default=int(os.environ.get("KVSLAB_SEED") or np.random.SeedSequence().entropy % 2**32))
    args = ap.parse_args()
    os.chdir(ROOT)
    print(f"# seed {args.seed}", flush=True)
    rng = np.random.default_rng(args.seed)
    tap = Tap()
    real, gemma = real_model(), gemma_model()
    if real:
        recorded(tap, real, "ppl.json")
    else:
        tap.skip("perplexity of the real model", "no model file: set KVSLAB_TEST_MODEL or run make demo")
    if gemma and (ROOT / "tests/data/ppl-gemma3.json").exists():
        recorded(tap, gemma, "ppl-gemma3.json")
    else:
        tap.skip("perplexity of Gemma 3", "no model file (make check-peer and make check-long fetch it), or no record of it (tests/peer/ppl.py)")
    for name in ("f32-llama", "f32-gqa8", "q4_1-tied", "mixed", "k-untied", "f32-qwen2", "q5-qwen3", "f32-gemma3"):
        generated(tap, name, rng)
    print(f"1..{tap.count}")
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
