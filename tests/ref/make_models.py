#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""Writes small random models as GGUF files: every architecture and tensor type, both tokenizer families, odd
shapes. The same seed writes the same bytes.

    make_models.py OUT_DIR                        the fixed set, build/models of `make models`
    make_models.py OUT_DIR --random 3 --seed 7    models of random shape instead
    make_models.py OUT_DIR --large [--size 4b]    a Q8_0 one in the shape of a 1B or a 4B model
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

import encode
import vocab as vocabs

FLOATS = ("F32", "F16", "BF16")
BLOCKS_32 = ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL")
BLOCKS_256 = ("Q4_K", "Q5_K", "Q6_K")
ARCHS = ("llama", "qwen2", "qwen3", "gemma3")
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
    arch: str = "llama"
    bias: tuple = ()  # matrices that have one
    window: int = 0
    pattern: int = 0  # each pattern-th layer sees all keys; 0: as the architecture has it
    factors: bool = False  # rope_freqs.weight
    scaling: str = ""  # of positions: "linear" or "yarn"
    caps: tuple = (0.0, 0.0)  # of attention's scores, of logits


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
        Shape("q5-tied", ("Q5_0", "IQ4_NL", "Q5_1"), embed="Q5_0", layers=2, dim=96, heads=3, kv_heads=1, head_dim=32,
              ffn=160, vocab=277, tokenizer="smollm"),
        Shape("k-tied", ("Q4_K", "Q6_K", "Q5_K"), embed="Q6_K", layers=2, dim=256, heads=4, kv_heads=1, head_dim=64,
              ffn=512, vocab=291, tokenizer="gpt-2"),
        Shape("k-untied", ("Q5_K", "Q5_1"), embed="Q4_K", output="IQ4_NL", layers=1, dim=512, heads=2, kv_heads=2,
              head_dim=128, ffn=256, vocab=265, tokenizer="llama"),
        Shape("f32-llama3", ("F32",), layers=2, dim=144, heads=6, kv_heads=2, head_dim=24, ffn=130, vocab=281,
              tokenizer="smollm", rope_base=500000.0, factors=True, bias=MATRICES),
        Shape("f32-linear-window", ("F32",), output="F32", layers=3, dim=64, heads=4, kv_heads=2, head_dim=16, ffn=96,
              vocab=271, tokenizer="llama", window=37, scaling="linear"),
        Shape("q8_0-yarn", ("Q8_0",), layers=2, dim=64, heads=2, kv_heads=1, head_dim=64, ffn=96, vocab=269,
              tokenizer="gpt-2", scaling="yarn", context=2048, rope_base=5000.0),
        Shape("f32-qwen2", ("F32",), output="F32", arch="qwen2", layers=2, dim=96, heads=6, kv_heads=2, head_dim=16,
              ffn=100, vocab=275, tokenizer="smollm", bias=MATRICES[:3], rope_base=1000000.0, eps=1e-6),
        Shape("q4_k-qwen2", ("Q4_K", "Q6_K"), embed="Q5_K", output="Q5_0", arch="qwen2", layers=2, dim=256, heads=2,
              kv_heads=1, head_dim=128, ffn=256, vocab=283, tokenizer="gpt-2", bias=MATRICES[:3], scaling="yarn"),
        Shape("f32-qwen3", ("F32",), arch="qwen3", layers=2, dim=80, heads=4, kv_heads=2, head_dim=40, ffn=96,
              vocab=287, tokenizer="gpt-2", rope_base=1000000.0, eps=1e-6),
        Shape("q5-qwen3", ("Q5_1", "Q8_0", "IQ4_NL"), embed="Q5_1", arch="qwen3", layers=3, dim=64, heads=4,
              kv_heads=1, head_dim=128, ffn=160, vocab=261, tokenizer="smollm"),
        Shape("f32-gemma3", ("F32",), arch="gemma3", layers=7, dim=48, heads=2, kv_heads=1, head_dim=32, ffn=72,
              vocab=293, tokenizer="llama", window=33, rope_base=1000000.0, eps=1e-6),
        Shape("f32-gemma3-caps", ("F32",), output="F32", arch="gemma3", layers=3, dim=56, heads=3, kv_heads=3,
              head_dim=24, ffn=64, vocab=263, tokenizer="llama", window=20, pattern=2, scaling="linear", caps=(5.0, 3.0)),
        Shape("q4_k_m-gemma3", ("Q5_0", "Q5_0", "Q8_0", "Q4_K", "Q5_0", "Q5_0", "Q6_K"), embed="Q8_0", arch="gemma3",
              layers=6, dim=160, heads=2, kv_heads=1, head_dim=256, ffn=256, vocab=299, tokenizer="llama", window=64,
              rope_base=1000000.0, eps=1e-6),
    ]


def random_shape(rng, i):
    pick = lambda *values: values[rng.integers(len(values))]
    arch, family = pick(*ARCHS), pick(FLOATS, BLOCKS_32, BLOCKS_256 + BLOCKS_32)
    step = 1 if family is FLOATS else 32 if family is BLOCKS_32 else 256
    head_dim = pick(8, 16, 24, 32, 40, 64, 80, 96, 128, 256)
    kv_heads = pick(1, 1, 2, 3)
    heads = kv_heads * pick(1, 2, 3, 4, 8)
    while heads * head_dim % step:  # rows of attn_output are whole blocks
        heads += kv_heads
        if heads > 16 * kv_heads:
            head_dim = pick(16, 32, 64, 128)
            heads = kv_heads
    types = tuple(pick(*family, *FLOATS[:1]) for _ in range(rng.integers(1, 5)))
    small = int(rng.integers(1, 2 if step == 256 else 7))
    bias = tuple(m for m in MATRICES if rng.integers(2)) if arch in ("llama", "qwen2") and rng.integers(2) else ()
    window = int(rng.integers(10, 200)) if arch == "gemma3" or (arch == "llama" and rng.integers(2)) else 0
    return Shape(
        f"random-{i}", types, embed=pick("", *family), output=pick("", *family), layers=int(rng.integers(1, 5)),
        dim=step * small if step > 1 else int(rng.integers(30, 200)), heads=heads,
        kv_heads=kv_heads, head_dim=head_dim, rope_dim=pick(0, 0, head_dim // 4 * 2),
        ffn=step * int(rng.integers(1, 3 if step == 256 else 12)) if step > 1 else int(rng.integers(40, 400)),
        vocab=int(rng.integers(260, 500)), tokenizer=pick("gpt-2", "smollm", "llama"),
        context=pick(512, 777, 1024, 2048), rope_base=pick(10000.0, 500000.0, 1234.5),
        eps=pick(1e-5, 1e-6, 1e-4), key_length=True, arch=arch, bias=bias, window=window,
        pattern=pick(0, 1, 2, 3) if arch == "gemma3" else 0, factors=arch == "llama" and bool(rng.integers(2)),
        scaling=pick("", "", "linear", "yarn"), caps=pick((0.0, 0.0), (6.0, 0.0), (0.0, 4.0)))


def large(size):
    if size == "4b":
        return Shape("large-4b-q8_0", ("Q8_0",), arch="qwen3", layers=36, dim=2560, heads=32, kv_heads=8, head_dim=128,
                     ffn=9728, vocab=151936, tokenizer="llama", context=8192, rope_base=1000000.0)
    return Shape("large-q8_0", ("Q8_0",), layers=16, dim=2048, heads=32, kv_heads=8, head_dim=64, ffn=8192,
                 vocab=128256, tokenizer="llama", context=8192, rope_base=500000.0)


def encoded(x, kind):
    """(data, type) as GGUFWriter.add_tensor wants it."""
    if kind == "F32":
        return x.astype(np.float32), None
    if kind == "F16":
        return x.astype(np.float16), None
    if kind in encode.ENCODERS:
        return encode.quantize(x, kind), T[kind]
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
    w = gguf.GGUFWriter(None, s.arch)
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
    if s.window:
        w.add_sliding_window(s.window)
    if s.pattern:
        w.add_uint32(f"{s.arch}.attention.sliding_window_pattern", s.pattern)
    if s.scaling:
        w.add_rope_scaling_type(gguf.RopeScalingType(s.scaling))
        w.add_rope_scaling_factor(4.0)
        w.add_rope_scaling_orig_ctx_len(s.context // 4)
    for key, cap in zip(("attn", "final"), s.caps):
        if cap:
            w.add_float32(f"{s.arch}.{key}_logit_softcapping", cap)
    write_tokenizer(w, s)

    def matrix(name, rows, cols, kind, gain):
        if s.name.startswith("large"):
            w.add_tensor(name + ".weight", random_q8_0(rng, rows, cols), raw_dtype=T.Q8_0)
            return
        data, raw = encoded(rng.standard_normal((rows, cols)) * (gain / cols**0.5), kind)
        w.add_tensor(name + ".weight", data, raw_dtype=raw)

    def norm(name, n=s.dim, gain=1.0):
        # Some channels stand out, as in trained models.
        x = 1 + 0.2 * rng.standard_normal(n)
        x[rng.integers(n, size=2)] *= 2
        w.add_tensor(name + ".weight", (gain * x).astype(np.float32))

    # The embedding enters the residual stream as it is. As the output matrix too it must be smaller, or each
    # token would predict itself.
    embed = s.embed or s.types[0]
    scaled = s.dim**-0.5 if s.arch == "gemma3" else 1
    matrix("token_embd", s.vocab, s.dim, embed, (1 if s.output else 0.25) * s.dim**0.5 * scaled)
    kinds = (s.types[i % len(s.types)] for i in range(s.layers * len(MATRICES)))
    rows = {"attn_q": s.heads * s.head_dim, "attn_k": s.kv_heads * s.head_dim, "attn_v": s.kv_heads * s.head_dim,
            "attn_output": s.dim, "ffn_gate": s.ffn, "ffn_up": s.ffn, "ffn_down": s.dim}
    for layer in range(s.layers):
        blk = f"blk.{layer}."
        norm(blk + "attn_norm")
        norm(blk + "ffn_norm")
        if s.arch in ("qwen3", "gemma3"):
            # Below 1: scores as sharp as norms of 1 make them let f16 keys alone cost what the bound allows.
            norm(blk + "attn_q_norm", s.head_dim, gain=0.5)
            norm(blk + "attn_k_norm", s.head_dim, gain=0.5)
        if s.arch == "gemma3":
            norm(blk + "post_attention_norm", gain=0.5)
            norm(blk + "post_ffw_norm", gain=0.5)
        for m in MATRICES:
            cols = {"attn_output": s.heads * s.head_dim, "ffn_down": s.ffn}.get(m, s.dim)
            matrix(blk + m, rows[m], cols, next(kinds), 1)
            if m in s.bias:
                w.add_tensor(f"{blk}{m}.bias", (0.3 * rng.standard_normal(rows[m])).astype(np.float32))
    norm("output_norm")
    if s.output:
        matrix("output", s.vocab, s.dim, s.output, 2)
    if s.factors:
        # As Llama 3.1's: quick pairs keep their angle, slow ones are stretched eight times.
        factors = np.interp(np.arange((s.rope_dim or s.head_dim) // 2), [2, 6], [1, 8])
        w.add_tensor("rope_freqs.weight", factors.astype(np.float32))

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
    ap.add_argument("--large", action="store_true", help="for benchmarks and limits")
    ap.add_argument("--size", choices=("1b", "4b"), default="1b", help="of --large: 1.3 or 4.3 GB")
    args = ap.parse_args()

    args.out.mkdir(parents=True, exist_ok=True)
    if args.large:
        shapes = [large(args.size)]
    elif args.random:
        rng = np.random.default_rng(args.seed)
        shapes = [random_shape(rng, i) for i in range(args.random)]
    else:
        shapes = fixed_set()
    for shape in shapes:
        write_model(shape, args.out / f"{shape.name}.gguf", args.seed)


if __name__ == "__main__":
    main()
