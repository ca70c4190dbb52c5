#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""Forward pass of a GGUF file (llama, qwen2, qwen3, gemma3) in float64, written from the definitions and not from the
C code: the file is read by gguf's own reader, the weights are those that its dequantiser gives, keys and
values are not rounded. All positions of a sequence at once.

    reference.py MODEL --ids FILE --logits OUT.f64      OUT.f32 for float32; raw [positions][vocab]

FILE holds token ids in decimal, separated by white space."""

import argparse
import pathlib

import gguf
import numpy as np
from gguf import quants


NEOX = ("qwen2", "qwen3", "gemma3")  # turn pairs (i, i + rope_dim / 2)


class Model:
    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.tensors = {t.name: t for t in reader.tensors}
        self.fields = reader.fields
        arch = self.arch = self.field("general.architecture")
        if arch not in ("llama", *NEOX):
            raise ValueError(f"{path}: architecture {arch} is not known here")
        own = lambda key, default=None: self.field(f"{arch}.{key}", default)
        self.layers = own("block_count")
        self.dim = own("embedding_length")
        self.heads = own("attention.head_count")
        self.kv_heads = own("attention.head_count_kv", self.heads)
        self.head_dim = own("attention.key_length", self.dim // self.heads)
        self.rope_dim = own("rope.dimension_count", self.head_dim)
        self.eps = own("attention.layer_norm_rms_epsilon")
        self.context = own("context_length")
        self.scale = own("attention.scale", self.head_dim**-0.5)
        self.attn_cap = own("attn_logit_softcapping", 0.0)
        self.final_cap = own("final_logit_softcapping", 0.0)
        self.embed_scale = self.dim**0.5 if arch == "gemma3" else 1.0
        self.vocab = int(self.tensors["token_embd.weight"].shape[1])
        self.types = {t.tensor_type.name for t in reader.tensors if len(t.shape) == 2}
        self.read_windows(own)
        self.read_rotation(own)

    def read_windows(self, own):
        """windows[layer]: keys that it sees, or None; local[layer]: rotates as layers with a window do."""
        window = own("attention.sliding_window", 0) or None
        pattern = own("attention.sliding_window_pattern", 6 if self.arch == "gemma3" else 0)
        if isinstance(pattern, list):
            self.local = [bool(on) for on in pattern]
        elif pattern:
            self.local = [layer % pattern != pattern - 1 for layer in range(self.layers)]
        else:
            self.local = [window is not None] * self.layers
        self.windows = [window if on else None for on in self.local]

    def read_rotation(self, own):
        """(angles of the pairs at position 1, factor of cosines and sines), of global and of local layers."""
        pair = np.arange(self.rope_dim // 2)
        base, factor = own("rope.freq_base", 10000.0), own("rope.scaling.factor", 1.0)
        kind = own("rope.scaling.type", "none" if factor == 1.0 else "linear")
        freq = base ** (-2.0 * pair / self.rope_dim)
        if "rope_freqs.weight" in self.tensors:
            freq = freq / self.tensors["rope_freqs.weight"].data.astype(np.float64)
        scale = 1.0
        if kind == "linear":
            freq = freq / factor
        elif kind == "yarn":
            # arXiv 2309.00071: pairs that turn often keep their angle, those that turn less than once are stretched.
            context = own("rope.scaling.original_context_length", self.context)
            bound = lambda turns: self.rope_dim * np.log(context / (2 * np.pi * turns)) / (2 * np.log(base))
            first = max(np.floor(bound(own("rope.scaling.yarn_beta_fast", 32.0))), 0)
            last = min(np.ceil(bound(own("rope.scaling.yarn_beta_slow", 1.0))), self.rope_dim - 1)
            stretched = np.clip((pair - first) / max(last - first, 0.001), 0, 1)
            freq = freq * (1 - stretched) + freq / factor * stretched
            scale = own("rope.scaling.attn_factor", 1.0) * (0.1 * np.log(factor) + 1)
        self.rotation = (freq, scale)
        self.local_rotation = self.rotation
        if self.arch == "gemma3":
            self.local_rotation = (own("rope.freq_base_swa", 10000.0) ** (-2.0 * pair / self.rope_dim), 1.0)

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

    def vector(self, name):
        """A norm or a bias, or None."""
        return self.tensors[name].data.astype(np.float64) if name in self.tensors else None

    def embedding(self, ids):
        t = self.tensors["token_embd.weight"]
        rows = np.ascontiguousarray(t.data[np.asarray(ids)])
        return quants.dequantize(rows, t.tensor_type).reshape(len(ids), -1).astype(np.float64)

    @property
    def quantised(self):
        return not self.types <= {"F32", "F16", "BF16"}


def rmsnorm(x, w, eps):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * w


def rope(x, positions, rope_dim, rotation, neox):
    """x [positions][heads][head_dim]; turns the pairs (0,1), (2,3), .. of the first rope_dim values, or (0,half), .."""
    freq, scale = rotation
    angle = positions[:, None] * freq
    c, s = np.cos(angle)[:, None, :] * scale, np.sin(angle)[:, None, :] * scale
    out = x.copy()
    one = slice(0, rope_dim // 2) if neox else slice(0, rope_dim, 2)
    other = slice(rope_dim // 2, rope_dim) if neox else slice(1, rope_dim, 2)
    a, b = x[..., one], x[..., other]
    out[..., one] = a * c - b * s
    out[..., other] = a * s + b * c
    return out


def attention(q, k, v, scale, window, cap):
    """q [n][heads][head_dim], k and v [n][kv_heads][head_dim]; causal; heads share keys in groups."""
    n, heads, _ = q.shape
    group = heads // k.shape[1]
    distance = np.arange(n)[:, None] - np.arange(n)
    hidden = (distance < 0) | (distance >= (window or n))
    out = np.empty_like(q)
    for h in range(heads):
        score = q[:, h] @ k[:, h // group].T * scale
        if cap:
            score = np.tanh(score / cap) * cap
        score[hidden] = -np.inf
        p = np.exp(score - score.max(axis=1, keepdims=True))
        out[:, h] = p @ v[:, h // group] / p.sum(axis=1, keepdims=True)
    return out


def silu(x):
    return x / (1 + np.exp(-x))


def gelu(x):
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def forward(m, ids, scored=slice(None)):
    """Logits [positions][vocab], of the positions in the slice @scored."""
    n = len(ids)
    positions = np.arange(n, dtype=np.float64)
    act = gelu if m.arch == "gemma3" else silu
    x = m.embedding(ids) * m.embed_scale
    for layer in range(m.layers):
        name = f"blk.{layer}."

        def product(y, what):
            bias = m.vector(f"{name}{what}.bias")
            return y @ m.weight(name + what).T + (0 if bias is None else bias)

        def norm(y, what):
            """As it is where the file has no such norm."""
            w = m.vector(f"{name}{what}.weight")
            return y if w is None else rmsnorm(y, w, m.eps)

        rotation = m.local_rotation if m.local[layer] else m.rotation
        turn = lambda y: rope(y, positions, m.rope_dim, rotation, m.arch in NEOX)
        y = norm(x, "attn_norm")
        q = norm(product(y, "attn_q").reshape(n, m.heads, m.head_dim), "attn_q_norm")
        k = norm(product(y, "attn_k").reshape(n, m.kv_heads, m.head_dim), "attn_k_norm")
        v = product(y, "attn_v").reshape(n, m.kv_heads, m.head_dim)
        y = attention(turn(q), turn(k), v, m.scale, m.windows[layer], m.attn_cap).reshape(n, -1)
        x = x + norm(product(y, "attn_output"), "post_attention_norm")
        y = norm(x, "ffn_norm")
        y = product(act(product(y, "ffn_gate")) * product(y, "ffn_up"), "ffn_down")
        x = x + norm(y, "post_ffw_norm")
    x = rmsnorm(x[scored], m.vector("output_norm.weight"), m.eps)
    tied = "output.weight" not in m.tensors
    x = x @ m.weight("token_embd" if tied else "output").T
    return np.tanh(x / m.final_cap) * m.final_cap if m.final_cap else x


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
