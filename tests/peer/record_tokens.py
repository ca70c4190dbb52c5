#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""Records the ids that llama-cpp-python gives for hard strings, for tests/unit/tok_recorded.c to be compared with.

    record_tokens.py --real SmolLM2-135M-Instruct.Q4_1.gguf --tiny stories260K-f32.gguf --vocabs FOLDER
        [--out tests/data] [--check]

Run by hand, in an environment with llama-cpp-python==0.3.16 and gguf; --check writes nothing and says whether the
files are what the peer gives today. It writes

    tokens-smollm2.txt       the real model (byte-level BPE, pre-tokenizer smollm)
    tokens-stories260k.txt   the tiny one (SentencePiece-style)
    tokens-NAME.txt          the vocabularies of FOLDER (scripts/get-vocabs.sh fetches them): llama-bpe, qwen2,
                             deepseek-r1-qwen, llama-spm, gemma3
    tokens-pairs.txt         a vocabulary of all bytes and all pairs of bytes, which makes every border between
                             words visible, under each pre-tokenizer

A line is one case. "#" begins a comment, "pre NAME" chooses a pre-tokenizer for the lines that follow, and

    t FLAGS "TEXT" ID...         text; bytes outside 20..7e, quotes and backslashes as \\xNN
    w FLAGS SEED N COUNT HASH    a word of N letters that make_word() draws
    c FLAGS FROM TO COUNT HASH   what make_chars() builds of the characters FROM..TO
    m FLAGS SEED N COUNT HASH    make_mixture()
    x FLAGS SEED N COUNT HASH    make_text() of N bytes or a few more, out of the texts of the lines before it

FLAGS are digits: 1 special tokens in the text, 2 BOS (and EOS) as the file says. HASH is FNV-1a-64 over the ids as
32-bit little-endian words. Left out are overlong forms, surrogates and what lies beyond U+10FFFF, written as UTF-8:
the peer decodes the first two and ends the process at the third; here each of their bytes is U+FFFD."""

import argparse
import hashlib
import pathlib
import random
import sys
import tempfile

import gguf
import llama_cpp

PEER = "0.3.16"
MASK = (1 << 64) - 1


def splitmix(state):
    state = (state + 0x9E3779B97F4A7C15) & MASK
    z = state
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
    return state, z ^ z >> 31


def make_word(seed, n):
    """n lower-case letters"""
    out = bytearray()
    while len(out) < n:
        seed, z = splitmix(seed)
        for i in range(8):
            out.append(ord("a") + (z >> 8 * i & 0xFF) % 26)
    return bytes(out[:n])


def make_chars(first, last):
    """Each character between neighbours of every class."""
    out = []
    for c in range(first, last + 1):
        if not 0xD800 <= c < 0xE000:
            c = chr(c)
            out.append(f"a{c}1{c}!{c} {c}a {c}1\n{c}  {c}{c}s")
    return "".join(out).encode()


def make_mixture(seed, n):
    """n characters of all kinds in random runs, with some bytes that are no UTF-8 between them"""
    spans = (
        (0x20, 0x7E), (0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A), (0x09, 0x0D), (0x20, 0x20), (0xA0, 0xFF), (0x300, 0x36F),
        (0x370, 0x5FF), (0x600, 0x6FF), (0x900, 0xDFF), (0xE00, 0xE7F), (0x1100, 0x11FF), (0x1680, 0x180F),
        (0x2000, 0x206F), (0x2150, 0x218F), (0x2460, 0x24FF), (0x3000, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3),
        (0xFE00, 0xFFFD), (0x1F000, 0x1FAFF), (0x1D400, 0x1D7FF), (0x20000, 0x2A6DF), (0xE0000, 0xE01FF),
    )
    broken = (b"\x80", b"\xff", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xfe\xfe", b"\xbf\xbf")
    out = bytearray()
    while n > 0:
        seed, z = splitmix(seed)
        kind, run = z % (len(spans) + 1), 1 + (z >> 32) % 7
        n -= run
        for _ in range(run):
            seed, z = splitmix(seed)
            if kind == len(spans):
                out += broken[z % len(broken)]
            else:
                first, last = spans[kind]
                out += chr(first + z % (last - first + 1)).encode()
    return bytes(out)


STATIC = ("LICENSES/GPL-2.0.txt", "LICENSES/LGPL-2.1.txt", "tests/data/text.txt")


def make_text(seed, n, texts):
    """About n bytes of prose, hard strings and random characters, in drawn order"""
    root = pathlib.Path(__file__).parent.parent.parent
    prose = b"".join((root / name).read_bytes() for name in STATIC).split(b"\n")
    between = (b" ", b"\n", b"", b"\n\n", b"  ", b"\t", b" ", b"\r\n")
    out = bytearray()
    while len(out) < n:
        seed, z = splitmix(seed)
        if z % 8 < 4:
            out += prose[(z >> 8) % len(prose)]
        elif z % 8 < 7:
            out += texts[(z >> 8) % len(texts)]
        else:
            out += make_mixture(z, 20)
        out += between[(z >> 40) % 8]
    return bytes(out)


def hard_strings():
    """Text in every shape that is known to go wrong somewhere."""
    s = [
        "", " ", "  ", "   ", "\t", "\n", "\r", "\r\n", "\n\n", "\n\n\n\n", "\t\t\t", " \n ", "\n \n", "  \n\n  ", " \t \t",
        "\r\n\r\n\r\n", "a", "A", " a", "a ", " a ", "  a", "a  ", "   a   b   ", "a\nb", "a\n\nb", "a \n b", "a\r\nb\r\n",
        "Hello", "Hello world", "Hello, world!", " Hello,  world !", "hello\tworld", "HELLO WORLD", "hElLo WoRlD",
        "The quick brown fox jumps over the lazy dog.", "Once upon a time, there was a little girl named Lily.",
        "x" * 40, "ab" * 100, " " * 17, " " * 100, "\n" * 100, "\t" * 33, "a" + " " * 50 + "b", " \n" * 20, "." * 80,
        "-" * 64 + "\n" + "=" * 64, "!?!?!?!?", "...", "…", "--", "—", "–", "‘single’ “double” «guillemets»",
    ]
    for tail in ("s", "t", "re", "ve", "m", "ll", "d", "S", "T", "RE", "VE", "M", "LL", "D", "Re", "Ve", "lL", "x", "", "sa"):
        s += ["it'" + tail, "I'" + tail + " go", "'" + tail]
    s += ["it’s", "don’t", "'''", "''s", " 's", "a's's's", "they'll've", "o'clock", "rock 'n' roll", "'s's", "1's", "'S 's"]
    s += [
        "0", "1", "12", "123", "1234", "12345", "1234567890", "3.14159", "1,000,000", "1e-10", "0x1F", "2024-05-17",
        "12:34:56", "v1.2.3", " 1", "  1", "   12", "1 2 3", "a1b2c3", "1a", "٠١٢٣٤٥٦٧٨٩", "०१२३४५६७८९", "０１２３",
        "๐๑๒๓", "ⅠⅡⅢⅣ", "½¼¾", "²³¹", "①②③", "𝟎𝟏𝟐𝟗", "一二三", "𐄇𐄈", "1٢３", "x²+y²=z²", " ½", "߀߁߂", "᠐᠑", "႐႑",
    ]
    s += [
        "😀", "😀😀", " 😀", "😀 ", "a😀b", "👍🏽", "👨‍👩‍👧‍👦", "👩🏿‍🚀", "🏳️‍🌈", "🇩🇪🇫🇷", "🇩", "❤️", "❤", "☺️☺︎", "1️⃣2️⃣", "🧑🏻‍🤝‍🧑🏿",
        "🫠🫡🩷", "©®™", "→←↑↓", "♠♥♦♣", "∀x∈ℝ: x²≥0", "∑∏∫√∞≠≤≥", "€£¥₹₿", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "🎉🎉🎉!!!",
    ]
    s += [
        "é", "é", "ñ", "ñ", "Å", "Å", "ệ", "ệ", "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘!͖̬̰̙̗̿̋ͥͥ̂ͣ̐́́͜͞", "́", "á́́", " ̈", "a⃝",
        "naïve café résumé", "Straße", "ß ẞ", "İstanbul ıI", "Ǆ ǅ ǆ", "ﬁ ﬂ ﬀ", "ΑΒΓ αβγ ς σ", "Привет, мир!", "ЁЖИК ёжик",
        "Ўзбекча", "Հայաստան", "ქართული", "Ꭰ ꭰ", "ᏣᎳᎩ", "Türkçe ğüşıöç", "Tiếng Việt có dấu", "Ḥāfiẓ", "ŁÓDŹ łódź",
    ]
    s += [
        "你好，世界！", "今天天气很好。", "漢字かな交じり文", "カタカナ ﾊﾝｶｸ", "ひらがな", "안녕하세요 세계", "한국어", "한국", "「引用」『二重』",
        "　全角　スペース　", "𠀀𠀁𪛖", "中文English混合123", "，。；：？！", "〇一二", "㈠㊀㌀", "ㄅㄆㄇ", "々ー〜", "𛀁", "𰻞", "蓁",
        "مرحبا بالعالم", "السلام عليكم", "لا إله", "بِسْمِ ٱللَّٰهِ", "فارسی‌نویسی", "١٢٣ عدد", "ﷺ", "اردو", "العربية 123 English",
        "שלום עולם", "בְּרֵאשִׁית", "עברית 123", "\u202eright to left\u202c", "\u200fRLM\u200e", "สวัสดีชาวโลก", "ภาษาไทย", "ลาว ລາວ",
        "नमस्ते दुनिया", "क्षत्रिय", "தமிழ்", "తెలుగు", "മലയാളം", "বাংলা", "ਪੰਜਾਬੀ", "සිංහල", "မြန်မာ", "ខ្មែរ", "བོད་ཡིག", "አማርኛ",
        "ᠮᠣᠩᠭᠣᠯ", "ᚠᚢᚦᚨᚱᚲ", "𐎀𐎁", "𓀀𓀁", "🄰🅱", "𝓱𝓮𝓵𝓵𝓸", "𝐇𝐞𝐥𝐥𝐨", "ｈｅｌｌｏ", "Ⓗⓔⓛⓛⓞ", "ʇxǝʇ", "ₐₑ ᵃᵇ",
    ]
    s += [
        "a\u180eb", "\u180e", " \u180e ", "a\u0085b", "\u0085", "\u0085\u0085\n", "a\u00a0b", "\u00a0\u00a0", " \u00a0 ", "\u00a0a",
        "a\u200bb", "\u200b", "a\u200cb\u200dc", "\ufeffBOM", "a\ufeffb", "a\u2060b", "a\u00adb", "\u034f", "a\u2028b\u2029c", "\u2028",
        "\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", "a\u3000b", "\u3000\u3000a", "\u2007" * 3,
        "\x00", "a\x00b", "\x01\x02\x03", "\x07\x08\x0b\x0c", "\x1b[31mred\x1b[0m", "\x1c\x1d\x1e\x1f", "\x7f", "\x80\x9f".encode("latin1"),
        "\u0080\u009f", "\ufffd", "\ufffe\uffff", "\U0010ffff", "\ue000\uf8ff", "\U000f0000", "\u0378\u0379", "\U0001f9ff\U0001fae0",
        "\U00011f02\U0001e030\U00031350", "\U00010d40\U000105c0", "\U0001e4f0\U0001d2c0\U0002ebf0", "\u1c89\ua7cb", "\v\v a", "a\fb",
    ]
    s += [
        "def f(x):\n\treturn x + 1\n", "for (int i = 0; i < n; i++) {\n    a[i] = 0;\n}\n", "if __name__ == '__main__':\n    main()",
        "#include <stdio.h>\n\nint main(void)\n{\n\treturn 0;\n}\n", "SELECT * FROM t WHERE a = 'b' AND c <> 1;", "<html>\n  <p>x</p>\n</html>",
        "{\"key\": [1, 2, {\"a\": null}]}", "x = y if z else w  # comment", "a->b.c::d", "$HOME/.config/*.json", "C:\\path\\to\\file.txt",
        "https://example.org/a?b=c&d=%20#frag", "user@example.org", "git commit -m 'msg' && git push", "\\n\\t\\\\", "`code` ``` ```c",
        "    indented\n        more\n\tand a tab\n", "\t\tif (a)\n\t\t\tb();", "1+1=2", "(a+b)*c/d%e^f|g&h~i", "&&||!==", "/* c */ // d",
        "@#$%^&*()_+-=[]{}|;':\",./<>?`~", "snake_case camelCase PascalCase kebab-case", "__init__", "a_b_c", "SHOUT_CASE_1", "f\"{x!r:>10}\"",
        "| a | b |\n|---|---|\n| 1 | 2 |\n", "# Title\n\n- item\n  - sub\n\n1. one\n", "**bold** _it_ ~~no~~", "\\frac{a}{b} $x^2$",
    ]
    s += [
        b"\x80", b"\xff", b"\xfe\xff", b"\xc3", b"a\xc3", b"\xc3a", b"\xe2\x82", b"\xe2\x82a", b"\xf0\x9f\x98", b"\xf0\x9f\x98 ", b"\xf0\x9fabc",
        b"\xbf\xbf\xbf", b"abc\xffdef", b"\xff" * 10, b" \xff \xff", b"\xe4\xbd\xa0\xe5\xa5", b"\xf8\x88\x80\x80\x80", b"\xfc\x84",
        b"ok \xe2\x28\xa1 no", b"\xc3\x28", b"1\xff2", b"\xffs'\xffs", b"\xe2\x96", b"\xe2\x96\x81", b"a\xe2\x96\x81b", b"\xf0", b"\xe2\xf0\xc3",
    ]
    s += [
        "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "a<|im_end|>b", "a <|im_end|> b",
        "<|im_start|><|im_start|>", "<|im_start|> <|im_end|>", "<|im_start", "<|im_start|", "|im_start|>", "<|<|im_start|>|>", "<|IM_START|>",
        "<|endoftext|>\n\n<|endoftext|>", "<repo_name>x<file_sep>y", "<reponame>", "<filename>a.c<gh_stars>5", "<issue_start><issue_comment>",
        "<jupyter_start>", "<empty_output>", "<s>", "</s>", "<unk>", "<s>Hello</s>", " <s> a </s> ", "<s", "s>", "<0x0A>", "<0x41>", "<0xZZ>",
        "<0x", "▁", "▁a", "a▁b", "▁▁▁", " ▁ ", "<s>  two", "x</s> y", "</s></s>", "<unk><unk>", "a<unk>b", "Ġ", "Ġhello", "Ċ", "ĠĠ", "âĤ¬", "Ã©",
    ]
    s += ["supercalifragilisticexpialidocious" * 20, "Donaudampfschifffahrtsgesellschaftskapitän", "a" * 3000, "é" * 500, "漢" * 400, "😀" * 200]
    s += ["http" + "s" * 200, "0" * 300, "ab1" * 200, "a b " * 200, "\n\t" * 100, "aA" * 200, "'s" * 100, "lll'll" * 50, "\u00a0" * 60, "Z" * 1000]
    return [x if isinstance(x, bytes) else x.encode() for x in s]


def random_strings(seed, n):
    """Words, spaces and symbols of the strings above, shuffled together."""
    r = random.Random(seed)
    pool = [x for x in hard_strings() if 0 < len(x) < 40]
    return [b"".join(r.choice(pool) for _ in range(r.randint(2, 6))) for _ in range(n)]


def quoted(text):
    return '"' + "".join(chr(b) if 0x20 <= b <= 0x7E and b not in (0x22, 0x5C) else f"\\x{b:02x}" for b in text) + '"'


def fnv(ids):
    h = 0xCBF29CE484222325
    for i in ids:
        for b in i.to_bytes(4, "little"):
            h = ((h ^ b) * 0x100000001B3) & MASK
    return h


class Peer:
    def __init__(self, path):
        self.model = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
        self.texts = []

    def ids(self, text, flags):
        return self.model.tokenize(text, add_bos=bool(flags & 2), special=bool(flags & 1))

    def text(self, text, flags):
        self.texts.append(text)
        return f"t {flags} {quoted(text)} {' '.join(map(str, self.ids(text, flags)))}".rstrip()

    def made(self, kind, flags, a, b):
        make = {"w": make_word, "c": make_chars, "m": make_mixture}.get(kind)
        ids = self.ids(make(a, b) if make else make_text(a, b, self.texts), flags)
        return f"{kind} {flags} {a} {b} {len(ids)} {fnv(ids):016x}"


# Blocks of 4,096 characters: those that hold many classes, and all that hold anything.
MIXED = [b << 12 for b in (0, 1, 2, 3, 0xA, 0xD, 0xF, 0x10, 0x11, 0x16, 0x1B, 0x1D, 0x1E, 0x1F)]
ALL = [b << 12 for b in (*range(0x34), 0x3D, 0x3F, 0xE0, 0xF0, 0x10F)]


def record(path, seed, big, mixed=0):
    peer = Peer(path)
    lines = []
    for i, text in enumerate(hard_strings()):
        lines.append(peer.text(text, 0))
        if b"<" in text or i % 5 == 0:
            lines.append(peer.text(text, 1))
        if i % 10 == 0:
            lines += [peer.text(text, 2), peer.text(text, 3)]
    lines += [peer.text(text, i % 4) for i, text in enumerate(random_strings(seed, 150))]
    lines += [peer.made("m", i % 2, seed + i, 400) for i in range(60)]
    lines += [peer.made("c", 0, block, block + 0xFFF) for block in MIXED[:6]]
    lines += [peer.made("w", 0, seed, n) for n in (100, 10000, big)]
    if mixed:
        lines += [peer.made("x", flags, seed + flags, mixed) for flags in (0, 1)]
    return lines


def write_pairs(path, pre):
    """All bytes, then all pairs of bytes, as tokens; the pair of bytes a, b has rank (a * 40503 + b * 9973) mod 65536."""
    byte = [chr(b) if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or 0xAE <= b else None for b in range(256)]
    extra = iter(range(0x100, 0x200))
    byte = [c or chr(next(extra)) for c in byte]
    pairs = sorted(range(65536), key=lambda p: ((p >> 8) * 40503 + (p & 255) * 9973) % 65536 * 65536 + p)
    w = gguf.GGUFWriter(path, "llama")
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre(pre)
    w.add_token_list(byte + [byte[p >> 8] + byte[p & 255] for p in pairs])
    w.add_token_merges([byte[p >> 8] + " " + byte[p & 255] for p in pairs])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


def record_pairs(seed):
    lines = []
    with tempfile.TemporaryDirectory() as tmp:
        for pre in ("gpt-2", "smollm", "default", "llama-bpe", "qwen2", "deepseek-r1-qwen"):
            path = pathlib.Path(tmp) / f"{pre}.gguf"
            write_pairs(path, pre)
            peer = Peer(path)
            lines.append(f"pre {pre}")
            lines += [peer.text(x, 0) for x in hard_strings() if len(x) < 100]
            lines += [peer.made("m", 0, seed + i, 400) for i in range(60)]
            lines += [peer.made("c", 0, block, block + 0xFFF) for block in (ALL if pre in ("smollm", "llama-bpe", "qwen2") else MIXED)]
            # under these patterns the peer's own matcher overflows its stack at a long word
            lines.append(peer.made("w", 0, seed, 10000 if "qwen" in pre else 1 << 20))
    return lines


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--real", type=pathlib.Path)
    p.add_argument("--tiny", type=pathlib.Path)
    p.add_argument("--vocabs", type=pathlib.Path)
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent / "data")
    p.add_argument("--seed", type=int, default=20240517)
    p.add_argument("--check", action="store_true")
    a = p.parse_args()
    if llama_cpp.__version__ != PEER:
        sys.exit(f"llama-cpp-python {llama_cpp.__version__} is installed, {PEER} is wanted")
    jobs = [("tokens-pairs.txt", None, lambda: record_pairs(a.seed))]
    if a.real:
        jobs.append(("tokens-smollm2.txt", a.real, lambda: record(a.real, a.seed, 1 << 20)))
    if a.tiny:
        jobs.append(("tokens-stories260k.txt", a.tiny, lambda: record(a.tiny, a.seed, 1 << 20)))
    for path in sorted(a.vocabs.glob("*.gguf")) if a.vocabs else []:
        jobs.append((f"tokens-{path.stem}.txt", path, lambda path=path: record(path, a.seed, 3000, 1 << 19)))
    wrong = 0
    for name, model, run in jobs:
        head = [f"# llama-cpp-python {PEER}, seed {a.seed}; written by tests/peer/record_tokens.py"]
        if model:
            head.append(f"# {model.name} sha256 {hashlib.sha256(model.read_bytes()).hexdigest()}")
        text = "\n".join(head + run()) + "\n"
        path = a.out / name
        if a.check:
            same = path.exists() and path.read_text() == text
            print(f"{name}: {'as recorded' if same else 'DIFFERS'}")
            wrong += not same
        else:
            path.write_text(text)
            print(f"{name}: {text.count(chr(10))} lines")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
