#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""Ids of a text, ours beside those of llama-cpp-python, and where they first differ.

    compare_text.py VOCAB FILE... [--chunk BYTES] [--kvslab build/kvslab]

VOCAB is a GGUF file. All files together are cut into chunks (of 4,096 bytes, between lines where there are any), each
one text, with special tokens as text. Catalogues of translations (*.mo) are read as the texts they hold."""

import argparse
import gettext
import pathlib
import subprocess
import sys

import llama_cpp


def text_of(path):
    if path.suffix != ".mo":
        return path.read_bytes()
    with path.open("rb") as f:
        catalogue = gettext.GNUTranslations(f)._catalog
    return "\n".join(v for v in catalogue.values() if isinstance(v, str)).encode()


def chunks(data, size):
    at = 0
    while at < len(data):
        end = data.rfind(b"\n", at, at + size) + 1 or at + size
        yield data[at : max(end, at + size // 2)]
        at = max(end, at + size // 2)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("vocab", type=pathlib.Path)
    p.add_argument("files", type=pathlib.Path, nargs="+")
    p.add_argument("--chunk", type=int, default=4096)
    p.add_argument("--kvslab", default="build/kvslab")
    a = p.parse_args()
    peer = llama_cpp.Llama(str(a.vocab), vocab_only=True, verbose=False)
    data = b"\n".join(map(text_of, a.files))
    done = ids = 0
    for chunk in chunks(data, a.chunk):
        if b"\0" in chunk:
            continue
        want = peer.tokenize(chunk, add_bos=False, special=False)
        run = subprocess.run([a.kvslab, "tokenize", "-m", a.vocab, "--ids", "-"], input=chunk, stdout=subprocess.PIPE, check=True)
        got = list(map(int, run.stdout.split()))
        if got != want:
            at = next(i for i, (x, y) in enumerate(zip(got + [-1], want + [-1])) if x != y)
            sys.exit(f"after {done} bytes, in {chunk!r}: id {at} is {got[at : at + 8]}, the peer's {want[at : at + 8]}")
        done += len(chunk)
        ids += len(want)
    print(f"{a.vocab.name}: {done} bytes, {ids} ids, all the same")


if __name__ == "__main__":
    main()
