# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""Small vocabularies for the test models: a byte-level BPE with merges ("gpt2") and a SentencePiece-style
one with scores and byte tokens ("llama"), both trained on tests/data/text.txt."""

import pathlib
import re
from collections import Counter

TEXT = pathlib.Path(__file__).parent.parent / "data" / "text.txt"

NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6  # GGUF's token types

CHATML = (
    "{% for message in messages %}"
    "{% if loop.first and message['role'] != 'system' %}"
    "{{ '<|im_start|>system\\nYou answer in few words.<|im_end|>\\n' }}"
    "{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def byte_letters():
    """The printable character that stands for each byte in a byte-level vocabulary."""
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {b: chr(b) for b in own}
    for b in range(256):
        if b not in letters:
            letters[b] = chr(256 + len(letters) - len(own))
    return [letters[b] for b in range(256)]


def train(words, n):
    """BPE by counting: the n most frequent pairs, one after the other; ties in order of the pair's text.
    words: Counter of tuples of symbols. Yields (left, right)."""
    words = dict(words)
    for _ in range(n):
        pairs = Counter()
        for word, count in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += count
        if not pairs:
            return
        best = min(pairs, key=lambda p: (-pairs[p], p))
        yield best
        merged = Counter()
        for word, count in words.items():
            out, i = [], 0
            while i < len(word):
                if word[i : i + 2] == best:
                    out.append(word[i] + word[i + 1])
                    i += 2
                else:
                    out.append(word[i])
                    i += 1
            merged[tuple(out)] += count
        words = dict(merged)


def gpt2(size):
    """tokens, types, merges of a byte-level vocabulary of `size` tokens (at least 259)."""
    letters = byte_letters()
    words = Counter()
    for word in re.findall(r" ?\w+| ?[^\w\s]+|\s+", TEXT.read_text(encoding="utf-8")):
        words[tuple(letters[b] for b in word.encode())] += 1
    tokens = SPECIALS + letters
    types = [CONTROL] * len(SPECIALS) + [NORMAL] * 256
    merges = []
    for left, right in train(words, 4 * size):
        if len(tokens) >= size:
            break
        merges.append(f"{left} {right}")
        if left + right not in tokens:
            tokens.append(left + right)
            types.append(NORMAL)
    while len(tokens) < size:
        tokens.append(f"<|reserved_{len(tokens)}|>")
        types.append(CONTROL)
    return tokens, types, merges


def llama(size):
    """tokens, scores, types of a SentencePiece-style vocabulary of `size` tokens (at least 260)."""
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256
    scores = [0.0] * len(tokens)
    text = "\u2581" + TEXT.read_text(encoding="utf-8").replace("\n", " ").replace(" ", "\u2581")
    words = Counter(tuple(w) for w in re.findall("\u2581*[^\u2581]+", text))
    room = size - len(tokens)
    letters = Counter(c for c in text)
    ordered = sorted(letters, key=lambda c: (-letters[c], c))[: room if room < 8 else room // 2]
    merges = []
    for left, right in train(words, 4 * size):
        if len(merges) >= room - len(ordered):
            break
        if left + right not in merges and all(c in ordered for c in left + right):
            merges.append(left + right)
    # As SentencePiece writes them: merges first, by rank, then the letters, below them all.
    for rank, piece in enumerate(merges + ordered):
        tokens.append(piece)
        scores.append(-float(rank))
        types.append(NORMAL)
    while len(tokens) < size:
        tokens.append(f"<reserved_{len(tokens)}>")
        scores.append(0.0)
        types.append(CONTROL)
    return tokens, scores, types
