#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""Writes small random models of architecture llama as GGUF files: every tensor type, both tokenizer
families, odd shapes. The same seed writes the same bytes.

    make_models.py OUT_DIR                        the fixed set, build/models of `make models`
    make_models.py OUT_DIR --random 3 --seed 7    models of random shape instead
    make_models.py OUT_DIR --large                a Q8_0 one in the shape of a 1B model, for benchmarks
"""

import argparse
import dataclasses
import os
import pathlib
import zlib

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import quants

import vocab as vocabs

FLOATS = ("F32", "F16", "BF16")
QUANTISED = ("Q8_0", "Q4_0", "Q4_1")
MATRICES = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")


@dataclasses.dataclass
class Shape:
    name: str
    types: tuple  # of the matrices, in turn over layers and matrices
    embed: str = ""  # type of the embedding; "": types[0]
    output: str = ""  # type of the output matrix; "": tied to the embedding
    layers: int = 2
    dim: int = 64
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    rope_dim: int = 0  # 0: head_dim
    ffn: int = 128
    vocab: int = 320
    tokenizer: str = "gpt2"  # its pre-tokenizer, or "llama"
    context: int = 1024
    rope_base: float = 10000.0
    eps: float = 1e-5
    key_length: bool = False  # written even where dim / heads says the same


def fixed_set():
    """Between them: GQA ratios 1, 2, 3, 4, 8; 1 to 5 layers; head_dim 8 to 128; tied and not."""
    return [
        Shape("f32-llama", ("F32",), output="F32", layers=3, dim=64, heads=4, kv_heads=4, head_dim=16,
              ffn=172, vocab=263, tokenizer="llama", context=512),
        Shape("f32-gqa8", ("F32",), layers=1, dim=64, heads=8, kv_heads=1, head_dim=8, ffn=100, vocab=301,
              tokenizer="gpt-2", context=2048, rope_base=500000.0, eps=1e-6),
        Shape("f32-partial-rope", ("F32",), output="F32", layers=2, dim=96, heads=4, kv_heads=2,
              head_dim=24, rope_dim=16, ffn=172, vocab=333, tokenizer="smollm"),
        Shape("f16-gqa3", ("F16",), layers=4, dim=144, heads=6, kv_heads=2, head_dim=24, ffn=172,
              vocab=307, tokenizer="llama", rope_base=100000.0),
        Shape("bf16-odd", ("BF16",), output="F16", layers=2, dim=100, heads=3, kv_heads=3, head_dim=40,
              ffn=130, vocab=319, tokenizer="smollm", eps=1e-4),
        Shape("q8_0-gqa4", ("Q8_0",), output="Q8_0", layers=5, dim=128, heads=8, kv_heads=2, head_dim=16,
              ffn=224, vocab=409, tokenizer="gpt-2"),
        Shape("q8_0-narrow", ("Q8_0",), layers=1, dim=64, heads=8, kv_heads=1, head_dim=8, rope_dim=4,
              ffn=96, vocab=263, tokenizer="llama", context=512),
        Shape("q4_0-gqa3", ("Q4_0",), embed="F16", layers=3, dim=96, heads=3, kv_heads=1, head_dim=32,
              ffn=160, vocab=329, tokenizer="smollm", rope_base=20000.0),
        Shape("q4_0-wide-heads", ("Q4_0",), output="Q4_0", layers=2, dim=96, heads=4, kv_heads=2,
              head_dim=64, ffn=224, vocab=345, tokenizer="llama", context=2048),
        Shape("q4_1-tied", ("Q4_1",), embed="Q8_0", layers=4, dim=192, heads=3, kv_heads=1, head_dim=64,
              ffn=512, vocab=515, tokenizer="smollm", context=2048, rope_base=100000.0),
        Shape("q4_1-untied", ("Q4_1",), embed="Q4_1", output="Q8_0", layers=2, dim=256, heads=2,
              kv_heads=1, head_dim=128, ffn=352, vocab=403, tokenizer="gpt-2", eps=1e-6),
        Shape("mixed", ("Q4_1", "Q8_0", "F32", "Q4_0", "F16", "BF16"), embed="BF16", output="Q4_1",
              layers=5, dim=160, heads=5, kv_heads=5, head_dim=32, ffn=288, vocab=273,
              tokenizer="llama", key_length=True),
    ]


def random_shape(rng, i):
    quantised = bool(rng.integers(2))
    pick = lambda *values: values[rng.integers(len(values))]
    step = 32 if quantised else 1
    head_dim = pick(8, 16, 24, 32, 40, 64, 80, 96, 128)
    kv_heads = pick(1, 1, 2, 3)
    heads = kv_heads * pick(1, 2, 3, 4, 8)
    if quantised:  # rows of attn_output are blocks of 32 columns
        while heads * head_dim % 32:
            heads += kv_heads
    types = tuple(pick(*(QUANTISED + FLOATS if quantised else FLOATS)) for _ in range(pick(1, 1, 2, 5)))
    any_type = QUANTISED + FLOATS if quantised else FLOATS
    return Shape(
        f"random-{i}", types, embed=pick(*any_type), output=pick("", *any_type), layers=pick(1, 2, 3, 4, 5),
        dim=step * (int(rng.integers(1, 7)) if quantised else int(rng.integers(30, 200))), heads=heads,
        kv_heads=kv_heads, head_dim=head_dim, rope_dim=pick(0, 0, head_dim // 4 * 2),
        ffn=step * (int(rng.integers(1, 12)) if quantised else int(rng.integers(40, 400))),
        vocab=int(rng.integers(260, 500)), tokenizer=pick("gpt-2", "smollm", "llama"),
        context=pick(512, 777, 1024, 2048), rope_base=pick(10000.0, 500000.0, 1234.5),
        eps=pick(1e-5, 1e-6, 1e-4), key_length=True)


def large():
    return Shape("large-q8_0", ("Q8_0",), layers=16, dim=2048, heads=32, kv_heads=8, head_dim=64, ffn=8192,
                 vocab=128256, tokenizer="llama", context=8192, rope_base=500000.0)


def encoded(x, kind):
    """(data, type) as GGUFWriter.add_tensor wants it."""
    if kind == "F32":
        return x.astype(np.float32), None
    if kind == "F16":
        return x.astype(np.float16), None
    return quants.quantize(x.astype(np.float32), T[kind]), T[kind]


def random_q8_0(rng, rows, cols):
    """Q8_0 blocks drawn directly: quantising a billion floats would take minutes."""
    blocks = np.empty((rows, cols // 32, 34), np.uint8)
    scale = (rng.random((rows, cols // 32), np.float32) + 0.5) / (70 * cols**0.5)
    blocks[..., :2] = scale.astype(np.float16)[..., None].view(np.uint8)
    blocks[..., 2:] = np.frombuffer(rng.bytes(rows * cols), np.uint8).reshape(rows, -1, 32)
    return blocks.reshape(rows, -1)


def write_tokenizer(w, shape):
    if shape.tokenizer == "llama":
        tokens, scores, types = vocabs.llama(min(shape.vocab, 4096))
        pad = shape.vocab - len(tokens)
        tokens += [f"<reserved_{len(tokens) + i}>" for i in range(pad)]
        w.add_tokenizer_model("llama")
        w.add_token_list(tokens)
        w.add_token_scores(scores + [0.0] * pad)
        w.add_token_types(types + [vocabs.CONTROL] * pad)
        w.add_unk_token_id(0)
        w.add_bos_token_id(1)
        w.add_eos_token_id(2)
        w.add_add_bos_token(True)
    else:
        tokens, types, merges = vocabs.gpt2(shape.vocab)
        w.add_tokenizer_model("gpt2")
        w.add_tokenizer_pre(shape.tokenizer)
        w.add_token_list(tokens)
        w.add_token_types(types)
        w.add_token_merges(merges)
        w.add_bos_token_id(1)
        w.add_eos_token_id(2)
        w.add_add_bos_token(False)
        w.add_chat_template(vocabs.CHATML)


def write_model(shape, path, seed):
    rng = np.random.default_rng([seed, zlib.crc32(shape.name.encode())])
    s = shape
    w = gguf.GGUFWriter(None, "llama")
    w.add_name(s.name)
    w.add_block_count(s.layers)
    w.add_context_length(s.context)
    w.add_embedding_length(s.dim)
    w.add_feed_forward_length(s.ffn)
    w.add_head_count(s.heads)
    w.add_head_count_kv(s.kv_heads)
    if s.key_length or s.heads * s.head_dim != s.dim:
        w.add_key_length(s.head_dim)
        w.add_value_length(s.head_dim)
    w.add_rope_dimension_count(s.rope_dim or s.head_dim)
    w.add_rope_freq_base(s.rope_base)
    w.add_layer_norm_rms_eps(s.eps)
    w.add_vocab_size(s.vocab)
    write_tokenizer(w, s)

    def matrix(name, rows, cols, kind, gain):
        if s.name.startswith("large"):
            w.add_tensor(name + ".weight", random_q8_0(rng, rows, cols), raw_dtype=T.Q8_0)
            return
        data, raw = encoded(rng.standard_normal((rows, cols)) * (gain / cols**0.5), kind)
        w.add_tensor(name + ".weight", data, raw_dtype=raw)

    def norm(name):
        # Some channels stand out, as in trained models.
        x = 1 + 0.2 * rng.standard_normal(s.dim)
        x[rng.integers(s.dim, size=2)] *= 2
        w.add_tensor(name + ".weight", x.astype(np.float32))

    # The embedding enters the residual stream as it is. As the output matrix too it must be smaller, or each
    # token would predict itself.
    embed = s.embed or s.types[0]
    matrix("token_embd", s.vocab, s.dim, embed, (1 if s.output else 0.25) * s.dim**0.5)
    kinds = (s.types[i % len(s.types)] for i in range(s.layers * len(MATRICES)))
    for layer in range(s.layers):
        kind = {m: next(kinds) for m in MATRICES}
        blk = f"blk.{layer}."
        norm(blk + "attn_norm")
        matrix(blk + "attn_q", s.heads * s.head_dim, s.dim, kind["attn_q"], 1)
        matrix(blk + "attn_k", s.kv_heads * s.head_dim, s.dim, kind["attn_k"], 1)
        matrix(blk + "attn_v", s.kv_heads * s.head_dim, s.dim, kind["attn_v"], 1)
        matrix(blk + "attn_output", s.dim, s.heads * s.head_dim, kind["attn_output"], 1)
        norm(blk + "ffn_norm")
        matrix(blk + "ffn_gate", s.ffn, s.dim, kind["ffn_gate"], 1)
        matrix(blk + "ffn_up", s.ffn, s.dim, kind["ffn_up"], 1)
        matrix(blk + "ffn_down", s.dim, s.ffn, kind["ffn_down"], 1)
    norm("output_norm")
    if s.output:
        matrix("output", s.vocab, s.dim, s.output, 2)

    part = path.with_suffix(".part")
    w.write_header_to_file(part)
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    os.replace(part, path)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("out", type=pathlib.Path)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--random", type=int, metavar="N", help="N models of random shape")
    ap.add_argument("--large", action="store_true", help="1.3 GB")
    args = ap.parse_args()

    args.out.mkdir(parents=True, exist_ok=True)
    if args.large:
        shapes = [large()]
    elif args.random:
        rng = np.random.default_rng(args.seed)
        shapes = [random_shape(rng, i) for i in range(args.random)]
    else:
        shapes = fixed_set()
    for shape in shapes:
        write_model(shape, args.out / f"{shape.name}.gguf", args.seed)


if __name__ == "__main__":
    main()
