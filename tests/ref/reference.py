#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""Forward pass of a llama-architecture GGUF file in float64, written from the definitions and not from the
C code: the file is read by gguf's own reader, the weights are those that its dequantiser gives, keys and
values are not rounded. All positions of a sequence at once.

    reference.py MODEL --ids FILE --logits OUT.f64      OUT.f32 for float32; raw [positions][vocab]

FILE holds token ids in decimal, separated by white space."""

import argparse
import pathlib

import gguf
import numpy as np
from gguf import quants


class Model:
    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.tensors = {t.name: t for t in reader.tensors}
        self.fields = reader.fields
        arch = self.field("general.architecture")
        if arch != "llama":
            raise ValueError(f"{path}: architecture {arch}, not llama")
        self.layers = self.field("llama.block_count")
        self.dim = self.field("llama.embedding_length")
        self.heads = self.field("llama.attention.head_count")
        self.kv_heads = self.field("llama.attention.head_count_kv", self.heads)
        self.head_dim = self.field("llama.attention.key_length", self.dim // self.heads)
        self.rope_dim = self.field("llama.rope.dimension_count", self.head_dim)
        self.rope_base = self.field("llama.rope.freq_base", 10000.0)
        self.eps = self.field("llama.attention.layer_norm_rms_epsilon")
        self.context = self.field("llama.context_length")
        self.vocab = int(self.tensors["token_embd.weight"].shape[1])
        self.types = {t.tensor_type.name for t in reader.tensors if len(t.shape) == 2}

    def field(self, key, default=None):
        if key in self.fields:
            return self.fields[key].contents()
        if default is None:
            raise ValueError(f"no {key}")
        return default

    def weight(self, name):
        t = self.tensors[name + ".weight"]
        shape = [int(n) for n in reversed(t.shape)]
        return quants.dequantize(t.data, t.tensor_type).reshape(shape).astype(np.float64)

    def embedding(self, ids):
        t = self.tensors["token_embd.weight"]
        rows = np.ascontiguousarray(t.data[np.asarray(ids)])
        return quants.dequantize(rows, t.tensor_type).reshape(len(ids), -1).astype(np.float64)

    @property
    def quantised(self):
        return not self.types <= {"F32", "F16", "BF16"}


def rmsnorm(x, w, eps):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * w


def rope(x, positions, rope_dim, base):
    """x [positions][heads][head_dim]; turns the pairs (0,1), (2,3), .. of the first rope_dim values."""
    pair = np.arange(rope_dim // 2)
    angle = positions[:, None] * base ** (-2.0 * pair / rope_dim)
    c, s = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
    out = x.copy()
    even, odd = x[..., 0:rope_dim:2], x[..., 1:rope_dim:2]
    out[..., 0:rope_dim:2] = even * c - odd * s
    out[..., 1:rope_dim:2] = even * s + odd * c
    return out


def attention(q, k, v):
    """q [n][heads][head_dim], k and v [n][kv_heads][head_dim]; causal; heads share keys in groups."""
    n, heads, head_dim = q.shape
    group = heads // k.shape[1]
    hidden = np.triu(np.ones((n, n), bool), 1)
    out = np.empty_like(q)
    for h in range(heads):
        score = q[:, h] @ k[:, h // group].T / np.sqrt(head_dim)
        score[hidden] = -np.inf
        p = np.exp(score - score.max(axis=1, keepdims=True))
        out[:, h] = p @ v[:, h // group] / p.sum(axis=1, keepdims=True)
    return out


def silu(x):
    return x / (1 + np.exp(-x))


def forward(m, ids):
    """Logits [positions][vocab]."""
    n = len(ids)
    positions = np.arange(n, dtype=np.float64)
    x = m.embedding(ids)
    for layer in range(m.layers):
        w = lambda name: m.weight(f"blk.{layer}.{name}")
        y = rmsnorm(x, w("attn_norm"), m.eps)
        q = (y @ w("attn_q").T).reshape(n, m.heads, m.head_dim)
        k = (y @ w("attn_k").T).reshape(n, m.kv_heads, m.head_dim)
        v = (y @ w("attn_v").T).reshape(n, m.kv_heads, m.head_dim)
        q = rope(q, positions, m.rope_dim, m.rope_base)
        k = rope(k, positions, m.rope_dim, m.rope_base)
        x = x + attention(q, k, v).reshape(n, -1) @ w("attn_output").T
        y = rmsnorm(x, w("ffn_norm"), m.eps)
        x = x + (silu(y @ w("ffn_gate").T) * (y @ w("ffn_up").T)) @ w("ffn_down").T
    x = rmsnorm(x, m.weight("output_norm"), m.eps)
    tied = "output.weight" not in m.tensors
    return x @ m.weight("token_embd" if tied else "output").T


def relative_l2(a, b):
    """Of each position of a against b."""
    return np.linalg.norm(a - b, axis=1) / np.linalg.norm(b, axis=1)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model")
    ap.add_argument("--ids", required=True, type=pathlib.Path)
    ap.add_argument("--logits", required=True, type=pathlib.Path)
    args = ap.parse_args()
    ids = [int(word) for word in args.ids.read_text().split()]
    logits = forward(Model(args.model), ids)
    logits.astype("<f4" if args.logits.suffix == ".f32" else "<f8").tofile(args.logits)


if __name__ == "__main__":
    main()
