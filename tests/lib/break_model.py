#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""Copies a GGUF file with one thing wrong with it.

    break_model.py MODEL OUT text OLD NEW     every OLD becomes NEW, of the same length
    break_model.py MODEL OUT type NAME N      tensor NAME gets the type number N
    break_model.py MODEL OUT huge             weights of 96 GiB, as a file with holes"""

import pathlib
import struct
import sys


def replace(data, old, new):
    assert len(old) == len(new) and old in data, old
    return data.replace(old, new)


def retype(data, name, number):
    at = data.index(struct.pack("<Q", len(name)) + name) + 8 + len(name)
    (dims,) = struct.unpack_from("<I", data, at)
    at += 4 + 8 * dims
    return data[:at] + struct.pack("<I", number) + data[at + 4:]


def huge(path, out):
    import gguf  # only here, so that the rest runs without it
    import numpy as np

    reader = gguf.GGUFReader(path)
    w = gguf.GGUFWriter(out, "llama")
    ffn, layers = 1 << 17, 1024
    changed = {"llama.feed_forward_length": ffn, "llama.block_count": layers}
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        kind = field.types[0]
        if kind == gguf.GGUFValueType.ARRAY:
            w.add_array(key, field.contents())
        else:
            w.add_key_value(key, changed.get(key, field.contents()), kind)
    size = 0
    for t in reader.tensors:
        shape = [int(n) for n in t.shape]
        if ".ffn_gate" in t.name or ".ffn_up" in t.name:
            shape[1] = ffn
        if ".ffn_down" in t.name:
            shape[0] = ffn
        count = 4
        for n in shape:
            count *= n
        names = [t.name.replace("blk.0.", f"blk.{i}.") for i in range(layers)] if t.name.startswith("blk.") else [t.name]
        for name in names:
            w.add_tensor_info(name, tuple(reversed(shape)), np.dtype("float32"), count)
            size += (count + 31) // 32 * 32
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_ti_data_to_file()
    w.close()
    with open(out, "r+b") as f:
        f.seek(0, 2)
        f.truncate(f.tell() + size + 64)


def main():
    model, out, what, *rest = sys.argv[1:]
    if what == "huge":
        huge(model, out)
        return
    data = pathlib.Path(model).read_bytes()
    if what == "text":
        data = replace(data, rest[0].encode(), rest[1].encode())
    else:
        data = retype(data, rest[0].encode(), int(rest[1]))
    pathlib.Path(out).write_bytes(data)


main()
