#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""Records the perplexity that llama-cpp-python gives, for `kvslab eval` to be compared with.

The text is one string of tokens, with BOS in front where the file asks for it. It is cut into chunks of
--ctx tokens; what is left at the end is not scored. Each chunk is computed by itself from position 0, its
first token replaced by BOS where the file asks for it. The second half of each chunk is scored: what the rows
ctx/2 .. ctx-2 say about the tokens ctx/2+1 .. ctx-1. The perplexity is exp(-sum of log p / tokens scored). Beside the peer's value stands that of the float64 reference,
for a narrower comparison: the peer rounds activations to 8 bits. The text's token ids go beside it (.ids).

    ppl.py MODEL [--text tests/data/text.txt] [--ctx 512] [--out tests/data/ppl.json]"""

import argparse
import hashlib
import json
import pathlib
import sys

import llama_cpp
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "ref"))
import reference

VERSION = 1  # of this script's definition
DATA = pathlib.Path(__file__).parent.parent / "data"


def chunks(m, text, ctx):
    """(ids of the text, [ids of each chunk])"""
    bos = m.metadata.get("tokenizer.ggml.add_bos_token", "true") == "true"
    ids = m.tokenize(text, add_bos=bos, special=False)
    cut = [ids[start : start + ctx] for start in range(0, len(ids) - ctx + 1, ctx)]
    for chunk in cut:
        if bos:
            chunk[0] = m.token_bos()
    return ids, cut


def perplexity(cut, forward):
    """forward(chunk, slice of its positions) -> logits [positions][vocab]"""
    total, scored = 0.0, 0
    for chunk in cut:
        half, n = len(chunk) // 2, len(chunk)
        # Row by row: a vocabulary may have 262144 tokens.
        for row, target in zip(forward(chunk, slice(half, n - 1)), chunk[half + 1 :]):
            row = row.astype(np.float64) - row.max()
            total += np.log(np.exp(row).sum()) - row[target]
            scored += 1
    return float(np.exp(total / scored)), scored


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model", type=pathlib.Path)
    ap.add_argument("--text", type=pathlib.Path, default=DATA / "text.txt")
    ap.add_argument("--ctx", type=int, default=512)
    ap.add_argument("--out", type=pathlib.Path, default=DATA / "ppl.json")
    args = ap.parse_args()
    text = args.text.read_bytes()
    peer = llama_cpp.Llama(str(args.model), n_ctx=args.ctx, n_batch=args.ctx, logits_all=True, verbose=False,
                           n_threads=2, type_k=llama_cpp.GGML_TYPE_F32, type_v=llama_cpp.GGML_TYPE_F32)
    exact = reference.Model(args.model)

    def peer_forward(chunk, part):
        peer.reset()
        peer.eval(chunk)
        return peer.scores[part]

    ids, cut = chunks(peer, text, args.ctx)
    value, scored = perplexity(cut, peer_forward)
    float64, _ = perplexity(cut, lambda chunk, part: reference.forward(exact, chunk, part))
    record = {
        "model_sha256": hashlib.sha256(args.model.read_bytes()).hexdigest(),
        "text": args.text.name,
        "text_sha256": hashlib.sha256(text).hexdigest(),
        "ctx": args.ctx,
        "tokens": len(ids),
        "scored": scored,
        "perplexity": round(value, 5),
        "float64": round(float64, 5),
        "peer": f"llama-cpp-python {llama_cpp.__version__}",
        "script": f"tests/peer/ppl.py {VERSION}",
    }
    args.out.write_text(json.dumps(record, indent=1) + "\n")
    lines = [" ".join(map(str, ids[i : i + 20])) for i in range(0, len(ids), 20)]
    args.out.with_suffix(".ids").write_text("\n".join(lines) + "\n")
    print(json.dumps(record))


if __name__ == "__main__":
    sys.exit(main())
