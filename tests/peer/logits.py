#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""Holds tests/ref/reference.py against llama-cpp-python: relative L2 of the logits of random ids, at most
1e-4. The peer is given a copy of each model with its weights dequantised to F32, and keeps keys and values
in F32: with other types it rounds activations to 8 bits or to f16, and the difference would be its own.

    logits.py MODEL..."""

import argparse
import pathlib
import sys
import tempfile

import gguf
import llama_cpp
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "ref"))
import reference

BOUND = 1e-4
GELU_BOUND = 5e-3  # the peer looks GELU up in a table of f16 values


def write_f32(path, out):
    reader = gguf.GGUFReader(path)
    w = gguf.GGUFWriter(out, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        kind = field.types[0]
        w.add_key_value(key, field.contents(), kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    for t in reader.tensors:
        shape = [int(n) for n in reversed(t.shape)]
        w.add_tensor(t.name, gguf.dequantize(t.data, t.tensor_type).reshape(shape).astype(np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def peer_logits(path, ids):
    m = llama_cpp.Llama(str(path), n_ctx=len(ids), n_batch=len(ids), logits_all=True, verbose=False, n_threads=2,
                        type_k=llama_cpp.GGML_TYPE_F32, type_v=llama_cpp.GGML_TYPE_F32)
    m.eval(ids)
    logits = np.array(m.scores[: len(ids)], dtype=np.float64)
    m.close()
    return logits


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("models", nargs="+")
    ap.add_argument("--seed", type=int, default=int(np.random.SeedSequence().entropy % 2**32))
    args = ap.parse_args()
    print(f"# seed {args.seed}")
    rng = np.random.default_rng(args.seed)
    failed = 0
    for i, path in enumerate(args.models, 1):
        m = reference.Model(path)
        name = pathlib.Path(path).stem
        why = ("rope over the whole head" if m.rope_dim != m.head_dim else
               "no window in a llama" if m.arch == "llama" and any(m.windows) else
               "no soft caps in a gemma3" if m.attn_cap or m.final_cap else "")
        if why:
            print(f"ok {i} - {name} # SKIP the peer wants {why}")
            continue
        bound = GELU_BOUND if m.arch == "gemma3" else BOUND
        ids = rng.integers(m.vocab, size=min(m.context, 200)).tolist()
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / "f32.gguf"
            write_f32(path, copy)
            theirs = peer_logits(copy, ids)
        worst = reference.relative_l2(theirs, reference.forward(m, ids)).max()
        failed += not worst <= bound
        print(f"{'ok' if worst <= bound else 'not ok'} {i} - {name}: relative L2 {worst:.2e}", flush=True)
    print(f"1..{len(args.models)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
