#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""vLLM's block pool, restated from its behaviour, and what a block costs there.

Free blocks stand in a doubly linked list of block objects between two sentinels: taken from the front, given back
at the end, so that the block freed longest ago is reused first. A block has a reference count, and a hash while its
content can be found; a block that is taken loses its hash and its entry in the table of cached blocks. With
--json one object a line, else the same for people.
"""
import argparse
import json
import statistics
import time


class Block:
    __slots__ = ("id", "refs", "hash", "is_null", "prev", "next")

    def __init__(self, number):
        self.id = number
        self.refs = 0
        self.hash = None
        self.is_null = False
        self.prev = None
        self.next = None


class FreeQueue:
    def __init__(self, blocks):
        self.count = len(blocks)
        self.head = Block(-1)
        self.tail = Block(-1)
        before = self.head
        for block in blocks:
            before.next = block
            block.prev = before
            before = block
        before.next = self.tail
        self.tail.prev = before

    def popleft(self):
        if self.head.next is self.tail or self.head.next is None:
            raise ValueError("no free block")
        first = self.head.next
        if first.next is None:
            raise RuntimeError("a block of the free list has no successor")
        self.head.next = first.next
        first.next.prev = self.head
        first.prev = first.next = None
        self.count -= 1
        return first

    def popleft_n(self, n):
        if n == 0:
            return []
        assert self.count >= n
        self.count -= n
        at = self.head.next
        taken = []
        for _ in range(n):
            assert at is not None
            taken.append(at)
            last = at
            at = at.next
            last.prev = None
            last.next = None
        if at is not None:
            self.head.next = at
            at.prev = self.head
        return taken

    def append_n(self, blocks):
        if not blocks:
            return
        self.count += len(blocks)
        last = self.tail.prev
        assert last is not None
        for block in blocks:
            block.prev = last
            last.next = block
            last = block
        last.next = self.tail
        self.tail.prev = last


class BlockPool:
    def __init__(self, n, caching):
        self.caching = caching
        self.blocks = [Block(i) for i in range(n)]
        self.queue = FreeQueue(self.blocks)
        self.cached = {}
        self.null = self.queue.popleft()
        self.null.is_null = True

    def free_count(self):
        return self.queue.count

    def forget(self, block):
        if block.hash is None:
            return False
        same = self.cached.get(block.hash)
        if same is None:
            return False
        block.hash = None
        same.pop(block.id, None)
        return True

    def take(self, n):
        if n > self.free_count():
            raise ValueError(f"{n} blocks asked for, {self.free_count()} free")
        taken = self.queue.popleft_n(n)
        if self.caching:
            for block in taken:
                self.forget(block)
                assert block.refs == 0
                block.refs += 1
        else:
            for block in taken:
                assert block.refs == 0
                block.refs += 1
        return taken

    def give_back(self, blocks):
        ordered = list(blocks)
        for block in ordered:
            block.refs -= 1
        self.queue.append_n([b for b in ordered if b.refs == 0 and not b.is_null])


def bulk(pool, batch, rounds):
    for _ in range(rounds):
        pool.give_back(reversed(pool.take(batch)))


def single(pool, batch, rounds):
    for _ in range(rounds):
        for block in [pool.take(1)[0] for _ in range(batch)]:
            pool.give_back([block])


def walk(pool, n):
    """Every block but the null one is in the free list once, without references."""
    seen = set()
    at = pool.queue.head.next
    while at is not pool.queue.tail:
        assert at.id not in seen and at.refs == 0 and at.next.prev is at
        seen.add(at.id)
        at = at.next
    assert len(seen) == n - 1 == pool.free_count()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--blocks", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--runs", type=int, default=21)
    args = parser.parse_args()
    for name, fn, rounds in (("vllm-bulk", bulk, 1000), ("vllm-single", single, 250)):
        pool = BlockPool(args.blocks, True)
        fn(pool, args.batch, rounds // 4)
        runs = []
        for _ in range(args.runs):
            # CPU time: what else the machine does must not make this side slower than it is.
            start = time.thread_time_ns()
            fn(pool, args.batch, rounds)
            runs.append((time.thread_time_ns() - start) / rounds / args.batch)
        walk(pool, args.blocks)
        runs.sort()
        figures = {"bench": "pool", "name": name, "batch": args.batch,
                   "ns_per_page": round(statistics.median(runs), 1),
                   "ns_p10": round(runs[len(runs) // 10], 1),
                   "ns_p90": round(runs[len(runs) - 1 - len(runs) // 10], 1)}
        if args.json:
            print(json.dumps(figures))
        else:
            print("{name}, batch {batch}: {ns_per_page} ns a page ({ns_p10} to {ns_p90})".format(**figures))


if __name__ == "__main__":
    main()
