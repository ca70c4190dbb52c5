# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""Quantisers that gguf's Python package lacks, as simple as will do for test models: Q4_K, Q5_K, Q6_K, IQ4_NL."""

import numpy as np
from gguf import quants

NL = np.array(quants.IQ4_NL.kvalues, np.float32)


def f16_bytes(x):
    return x.astype(np.float16)[:, None].view(np.uint8)


def inverse(x):
    with np.errstate(divide="ignore"):
        return np.where(x > 0, 1 / x, 0)


def k_blocks(x, bits):
    """[n][256] to blocks of Q4_K or Q5_K."""
    n, top = len(x), 2**bits - 1
    sub = x.reshape(n, 8, 32)
    low = np.minimum(sub.min(axis=2), 0)
    scale, low = (sub.max(axis=2).clip(0) - low) / top, -low
    d = (scale.max(axis=1) / 63).astype(np.float16).astype(np.float32)
    dmin = (low.max(axis=1) / 63).astype(np.float16).astype(np.float32)
    sc = np.rint(scale * inverse(d)[:, None]).clip(0, 63)
    mn = np.rint(low * inverse(dmin)[:, None]).clip(0, 63)
    step, base = (d[:, None] * sc)[..., None], (dmin[:, None] * mn)[..., None]
    q = np.rint((sub + base) * inverse(step)).clip(0, top).astype(np.uint8)
    sc, mn = sc.astype(np.uint8), mn.astype(np.uint8)
    factors = np.empty((n, 12), np.uint8)
    factors[:, :4] = sc[:, :4] | sc[:, 4:] >> 4 << 6
    factors[:, 4:8] = mn[:, :4] | mn[:, 4:] >> 4 << 6
    factors[:, 8:] = (sc[:, 4:] & 15) | (mn[:, 4:] & 15) << 4
    parts = [f16_bytes(d), f16_bytes(dmin), factors]
    if bits == 5:
        parts.append(((q >> 4) << np.arange(8, dtype=np.uint8)[:, None]).sum(axis=1).astype(np.uint8))
    pairs = (q & 15).reshape(n, 4, 2, 32)
    parts.append((pairs[:, :, 0] | pairs[:, :, 1] << 4).reshape(n, 128))
    return np.concatenate(parts, axis=1)


def q6_k_blocks(x):
    n = len(x)
    sub = x.reshape(n, 16, 16)
    at = np.abs(sub).argmax(axis=2)[..., None]
    scale = np.take_along_axis(sub, at, 2)[..., 0] / -32
    d = (np.abs(scale).max(axis=1) / 127).astype(np.float16).astype(np.float32)
    sc = np.rint(scale * inverse(d)[:, None]).clip(-127, 127)
    step = (d[:, None] * sc)[..., None]
    with np.errstate(divide="ignore"):
        q = np.rint(sub * np.where(step == 0, 0, 1 / step)).clip(-32, 31)
    q = (q + 32).astype(np.uint8).reshape(n, 2, 4, 32)  # half, block of the half, column
    low = (q[:, :, :2] & 15) | (q[:, :, 2:] & 15) << 4
    high = ((q >> 4) << np.array([0, 2, 4, 6], np.uint8)[:, None]).sum(axis=2).astype(np.uint8)
    return np.concatenate([low.reshape(n, 128), high.reshape(n, 64), sc.astype(np.int8).view(np.uint8), f16_bytes(d)], axis=1)


def iq4_nl_blocks(x):
    at = np.abs(x).argmax(axis=1)[:, None]
    d = (np.take_along_axis(x, at, 1)[:, 0] / -127).astype(np.float16).astype(np.float32)
    with np.errstate(divide="ignore"):
        v = x * np.where(d == 0, 0, 1 / d)[:, None]
    q = np.abs(v[..., None] - NL).argmin(axis=2).astype(np.uint8)
    return np.concatenate([f16_bytes(d), q[:, :16] | q[:, 16:] << 4], axis=1)


ENCODERS = {
    "Q4_K": (256, lambda x: k_blocks(x, 4)),
    "Q5_K": (256, lambda x: k_blocks(x, 5)),
    "Q6_K": (256, q6_k_blocks),
    "IQ4_NL": (32, iq4_nl_blocks),
}


def quantize(x, kind):
    """Rows of @x in blocks of type @kind."""
    block, encode = ENCODERS[kind]
    return encode(np.ascontiguousarray(x, np.float32).reshape(-1, block)).reshape(len(x), -1)


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    from gguf import GGMLQuantizationType as T

    for kind in ENCODERS:
        x = rng.standard_normal((8, 512)).astype(np.float32)
        error = quants.dequantize(quantize(x, kind), T[kind]).reshape(x.shape) - x
        print(kind, np.sqrt((error**2).mean()))
