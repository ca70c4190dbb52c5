#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""Restates the hash chain of runtime/sched/hash.h with Python's own BLAKE2b and writes vectors of it
for tests/unit/seq_hash.c:  tests/ref/seq_hash_vectors.py > tests/unit/seq_hash.inc"""
import hashlib
import random
import struct


def h(key, *parts):
    return hashlib.blake2b(b"".join(parts), digest_size=32, key=key).digest()


def u32(*v):
    return struct.pack("<%dI" % len(v), *v)


def chain(c):
    g = c["geo"]
    parent = h(c["key"], b"kvslab-page-1", c["digest"], u32(*g), u32(c["kv_type"]),
               struct.pack("<Q", len(c["rope"])), c["rope"],
               struct.pack("<Q", len(c["salt"])), c["salt"])
    out = [parent]
    page_tokens, groups = g[3], g[4]
    for b in range(len(c["tokens"]) // page_tokens):
        ids = c["tokens"][b * page_tokens:(b + 1) * page_tokens]
        for group in range(groups):
            parent = h(c["key"], parent, u32(group), u32(*ids))
            out.append(parent)
    return out


def carray(b):
    return "{ " + ", ".join("0x%02x" % x for x in b) + (" }" if b else "0 }")


def case(r, page_tokens, groups, lpg, kv_type, rope, salt, n):
    heads, dim = r.randint(1, 8), r.choice([8, 64, 128])
    stride = page_tokens * dim * 2 * kv_type
    geo = [groups * lpg, heads, dim, page_tokens, groups, stride, heads * stride, 2 * heads * stride]
    return dict(key=r.randbytes(32), digest=r.randbytes(32), geo=geo, kv_type=kv_type,
                rope=r.randbytes(rope), salt=r.randbytes(salt),
                tokens=[r.getrandbits(32) for _ in range(n)])


def main():
    r = random.Random(20)
    cases = [
        case(r, 16, 1, 3, 1, 0, 0, 40),
        case(r, 15, 1, 30, 1, 16, 0, 61),
        case(r, 25, 4, 2, 1, 16, 7, 75),
        case(r, 1, 3, 1, 2, 1, 1, 4),
        case(r, 100, 2, 2, 2, 200, 300, 199),
        case(r, 64, 1, 1, 1, 5, 0, 128),
        case(r, 129, 1, 1, 1, 0, 33, 129),
    ]
    # the same bytes split otherwise between rope and salt: must not give the same names
    a = dict(cases[1], rope=b"ab", salt=b"c")
    cases += [a, dict(a, rope=b"a", salt=b"bc")]
    print("/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */")
    print("/* Written by tests/ref/seq_hash_vectors.py; do not edit. */")
    print("static const struct vector vectors[] = {")
    for c in cases:
        hashes = chain(c)
        print("\t{")
        print("\t\t.key = %s," % carray(c["key"]))
        print("\t\t.digest = %s," % carray(c["digest"]))
        print("\t\t.geo = { %s }," % ", ".join(map(str, c["geo"])))
        print("\t\t.kv_type = %d," % c["kv_type"])
        print("\t\t.rope = (const uint8_t[])%s, .rope_size = %d," % (carray(c["rope"]), len(c["rope"])))
        print("\t\t.salt = (const uint8_t[])%s, .salt_size = %d," % (carray(c["salt"]), len(c["salt"])))
        print("\t\t.n_tokens = %d," % len(c["tokens"]))
        print("\t\t.tokens = (const uint32_t[]){ %s }," % ", ".join("0x%x" % t for t in c["tokens"]))
        print("\t\t.root = %s," % carray(hashes[0]))
        print("\t\t.n_pages = %d," % (len(hashes) - 1))
        print("\t\t.pages = (const uint8_t[][32]){")
        for x in hashes[1:]:
            print("\t\t\t%s," % carray(x))
        if len(hashes) == 1:
            print("\t\t\t{ 0 },")
        print("\t\t},")
        print("\t},")
    print("};")


if __name__ == "__main__":
    main()
