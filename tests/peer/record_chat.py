#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""Records what jinja2 makes of chat templates, for tests/unit/chat_render.c to be compared with.

    record_chat.py MODEL [--out tests/data/chat.json]

MODEL is SmolLM2-135M-Instruct; its template stands in the file, with the ids that llama-cpp-python==0.3.16 gives for
each rendered text. The other templates are ChatML written in other ways. Needs jinja2, gguf and the peer."""

import argparse
import json
import pathlib

import gguf
import jinja2
import llama_cpp

EACH = "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}"
ASK = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
FIRST = "{% if messages and messages[0]['role'] != 'system' %}"

TEMPLATES = {
    "plain": EACH + ASK,
    "double quotes": (EACH + ASK).replace("'<|im_start|>' +", '"<|im_start|>" +').replace("'<|im_end|>\\n'", '"<|im_end|>\\n"'),
    "outside of braces": FIRST + "<|im_start|>system\nBe brief.\nBe kind.<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}" + ASK,
    "escapes": FIRST
    + "{{ '<|im_start|>system\\nIt\\'s \\\"caf\\u00e9\\\"\\t\\\\ \\x41 \\q \\U0001F600<|im_end|>\\n' }}{% endif %}" + EACH + ASK,
    "joined": FIRST + "{{ '<|im_start|>system\\n' + 'One ' ~ \"two\" +\n 'three' + '<|im_end|>\\n' }}{% endif %}" + EACH + ASK,
    "empty default": FIRST + "{{ '<|im_start|>system\\n<|im_end|>\\n' }}{% endif %}" + EACH + ASK,
    "comments": "{# <|im_start|>system\nnot this<|im_end|> 'nor ' this #}" + EACH + "{# x #}" + ASK,
    "the caller's system only": "{% if messages and messages[0]['role'] == 'system' %}{{ '<|im_start|>system\\n' + messages[0]['content']"
    " + '<|im_end|>\\n' }}{% set rest = messages[1:] %}{% else %}{{ '<|im_start|>system\\nYou answer.<|im_end|>\\n' if messages }}"
    "{% set rest = messages %}{% endif %}" + EACH.replace("in messages", "in rest") + ASK,
}


def conversations():
    u, a, s = (lambda text, role=role: {"role": role, "content": text} for role in ("user", "assistant", "system"))
    return [
        [u("Hello")],
        [s("You are terse."), u("What is 2+2?")],
        [u("What is the capital of France?"), a("Paris."), u("And of Spain?")],
        [s(""), u("")],
        [u("  leading and trailing  \n\n")],
        [u("\n\nnewlines\n"), a("\n"), u("\t")],
        [u("int main(void)\n{\n\treturn 0;\n}\n")],
        [u("naïve 😀 你好 مرحبا 123")],
        [u("{{ braces }} {% and %} {# hashes #} 'quotes' \"double\" \\n")],
        [s("a"), s("b"), u("two systems")],
        [u("first"), s("in the middle"), u("last")],
        [a("the assistant begins")],
        [u(str(i)) if i % 2 == 0 else a(str(i)) for i in range(21)],
        [u("x" * 300)],
        [{"role": "tool", "content": "another role"}, u("go on")],
        [],
    ]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", type=pathlib.Path)
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent / "data" / "chat.json")
    a = p.parse_args()
    real = gguf.GGUFReader(a.model).fields["tokenizer.chat_template"].contents()
    peer = llama_cpp.Llama(str(a.model), vocab_only=True, verbose=False)
    env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    out = []
    for name, text in {"SmolLM2-135M-Instruct": real, **TEMPLATES}.items():
        template = env.from_string(text)
        cases = []
        for c in conversations():
            rendered = template.render(messages=c, add_generation_prompt=True)
            cases.append({"messages": c, "text": rendered})
            if text == real:
                cases[-1]["ids"] = peer.tokenize(rendered.encode(), add_bos=False, special=True)
        out.append({"name": name, "template": text, "cases": cases})
    a.out.write_text(json.dumps(out, ensure_ascii=True, indent=None, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n")


if __name__ == "__main__":
    main()
