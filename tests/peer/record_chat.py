#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""Records what jinja2 makes of chat templates, for tests/unit/chat_render.c to be compared with.

    record_chat.py MODEL VOCABS [--out tests/data/chat.json]

MODEL is SmolLM2-135M-Instruct, VOCABS the folder that scripts/get-vocabs.sh prints. Their own templates stand in the
file, with the ids that llama-cpp-python==0.3.16 gives for each rendered text. Of the forms of which no file is at hand,
templates of the same effect are written here; what the peer's built-in renderer makes of a form is compared as well,
where it has it. Texts are rendered without BOS, ids with it. A conversation that a template refuses has an "error".
Needs jinja2, gguf and the peer."""

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


LLAMA3 = (
    "{% for m in messages %}{% set text = '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' + m['content'] | trim"
    " + '<|eot_id|>' %}{{ bos_token + text if loop.first else text }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
LLAMA31 = (
    '{{- bos_token }}{%- if not date_string is defined %}{%- set date_string = "26 Jul 2024" %}{%- endif %}'
    "{%- if messages and messages[0]['role'] == 'system' %}{%- set first = messages[0]['content']|trim %}{%- set rest = messages[1:] %}"
    '{%- else %}{%- set first = "" %}{%- set rest = messages %}{%- endif %}'
    '{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}{{- "Cutting Knowledge Date: December 2023\n" }}'
    '{{- "Today Date: " + date_string + "\n\n" }}{{- first }}{{- "<|eot_id|>" }}'
    "{%- for m in rest %}{{- '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n'+ m['content'] | trim + '<|eot_id|>' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}"
)
TURNS = (
    "{%- if messages and messages[0]['role'] == 'system' %}{%- set first = messages[0]['content'] %}{%- set rest = messages[1:] %}"
    "{%- if not rest %}{{ raise_exception('alone') }}{%- endif %}{%- else %}{%- set rest = messages %}{%- endif %}"
    "{%- for m in rest %}{%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) or m['role'] not in ['user', 'assistant'] %}"
    "{{ raise_exception('in turn') }}{%- endif %}{%- endfor %}"
)
GEMMA = (
    "{{ bos_token }}" + TURNS + "{%- for m in rest -%}{%- set role = 'model' if m['role'] == 'assistant' else 'user' -%}"
    "{{ '<start_of_turn>' + role + '\n' + (first + '\n\n' if loop.first and first is defined else '') }}{{ m['content'] | trim }}"
    "{{ '<end_of_turn>\n' }}{%- endfor -%}{%- if add_generation_prompt -%}{{'<start_of_turn>model\n'}}{%- endif -%}"
)
ENDS = "{%- if rest and rest[-1]['role'] != 'user' %}{{ raise_exception('last') }}{%- endif %}"


def mistral(open_, close, system, answer):
    return (
        "{{ bos_token }}" + TURNS + ENDS + "{%- for m in rest %}{%- if m['role'] == 'user' %}{%- if " + system
        + " and first is defined %}{{- '" + open_ + "' + first + '\n\n' + m['content'] + '" + close + "' }}{%- else %}"
        "{{- '" + open_ + "' + m['content'] + '" + close + "' }}{%- endif %}{%- else %}{{- " + answer + " }}{%- endif %}{%- endfor %}"
    )


MISTRAL7 = (
    "{{ bos_token }}" + TURNS + ENDS + "{%- if first is defined %}{{- '[SYSTEM_PROMPT] ' + first + '[/SYSTEM_PROMPT]' }}{%- endif %}"
    "{%- for m in rest %}{%- if m['role'] == 'user' %}{{- '[INST] ' + m['content'] + '[/INST]' }}{%- else %}"
    "{{- ' ' + m['content'] + eos_token }}{%- endif %}{%- endfor %}"
)
THOUGHTS = (
    "{%- set ns = namespace(last=-1) %}{%- for m in messages %}{%- if m.role == 'user' %}{%- set ns.last = loop.index0 %}{%- endif %}"
    "{%- endfor %}{%- for m in messages %}{%- set content = m.content %}{%- if m.role == 'assistant' and loop.index0 < ns.last and "
    "'</think>' in content %}{%- set content = content.split('</think>')[-1].lstrip('\n') %}{%- endif %}"
    "{{- '<|im_start|>' + m.role + '\n' + content + '<|im_end|>' + '\n' }}{%- endfor %}"
)

# name: template, vocabulary for the ids, the peer's name for its own renderer
OTHERS = {
    "llama3": (LLAMA3, "llama-bpe", "llama3"),
    "llama3 with dates": (LLAMA31, "llama-bpe", None),
    "gemma": (GEMMA, "gemma3", "gemma"),
    "mistral v1": (mistral("[INST] ", " [/INST]", "loop.first", "m['content'] + eos_token"), "llama-spm", None),
    "mistral v1, spaced": (mistral("[INST] ", " [/INST]", "loop.first", "' ' + m['content'] + eos_token"), None, None),
    "mistral v1, space behind": (mistral("[INST] ", " [/INST]", "loop.first", "m['content'] + eos_token + ' '"), None, None),
    "mistral v3": (mistral("[INST] ", "[/INST]", "loop.last", "' ' + m['content']|trim + eos_token"), None, None),
    "mistral v3, tekken": (mistral("[INST]", "[/INST]", "loop.last", "m['content'] + eos_token"), None, None),
    "mistral v7": (MISTRAL7, None, "mistral-v7"),
    "thoughts": (THOUGHTS + ASK, None, None),
    "thoughts, open": (THOUGHTS + ASK.replace("assistant\\n", "assistant\\n<think>\\n"), None, None),
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
        [s("You are terse."), u("One?"), a(" Two. "), u("\u3000Three?\u00a0"), a("Four.\n"), u("Five?")],
        [u("Why?"), a("<think>\nHm.\n</think>\n\nSo."), u("And then?"), a("no <b>thoughts</b>"), u("Then?")],
        [u("a"), u("b")],
        [s("alone")],
    ]


def builtin(name, messages):
    """What the peer's own renderer makes of messages."""
    n = len(messages)
    list_ = (llama_cpp.llama_chat_message * n)()
    for i, m in enumerate(messages):
        list_[i].role, list_[i].content = m["role"].encode(), m["content"].encode()
    buf = llama_cpp.ctypes.create_string_buffer(1 << 16)
    size = llama_cpp.llama_chat_apply_template(name.encode(), list_, n, True, buf, 1 << 16)
    return buf.raw[:size].decode()


def own(path):
    return gguf.GGUFReader(path).fields["tokenizer.chat_template"].contents()


def refuse(why):
    raise jinja2.TemplateError(why)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", type=pathlib.Path)
    p.add_argument("vocabs", type=pathlib.Path)
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent / "data" / "chat.json")
    a = p.parse_args()
    env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    env.globals["raise_exception"] = refuse
    jobs = [("SmolLM2-135M-Instruct", own(a.model), "real", None)]
    jobs += [(name, text, None, None) for name, text in TEMPLATES.items()]
    jobs += [(name, own(a.vocabs / f"{name}.gguf"), name, None) for name in ("qwen2", "deepseek-r1-qwen")]
    jobs += [(name, *rest) for name, rest in OTHERS.items()]
    out = []
    for name, text, vocab, built in jobs:
        template = env.from_string(text)
        peer = None
        bos = eos = ""
        if vocab:
            peer = llama_cpp.Llama(str(a.model if vocab == "real" else a.vocabs / f"{vocab}.gguf"), vocab_only=True, verbose=False)
            bos = peer._model.token_get_text(peer.token_bos())
        cases = []
        for c in conversations():
            case = {"messages": c}
            cases.append(case)
            if name.startswith("deepseek") and any(m["role"] == "tool" for m in c):
                case["error"] = True  # the template has such a role, the library does not
                continue
            try:
                case["text"] = template.render(messages=c, add_generation_prompt=True, bos_token="", eos_token="</s>")
            except jinja2.TemplateError:
                case["error"] = True
                continue
            if built and c and c[0]["role"] != "tool" and not any(m["content"] != (m["content"].strip() or "-") for m in c):
                made = builtin(built, c)
                assert made == case["text"], f"{name}: the peer makes {made!r} of what is {case['text']!r}"
            if peer and c:
                full = template.render(messages=c, add_generation_prompt=True, bos_token=bos, eos_token="</s>")
                case["ids"] = peer.tokenize(full.encode(), add_bos=False, special=True)
        out.append({"name": name, "template": text, "cases": cases})
        if vocab:
            out[-1]["vocab"] = vocab
    a.out.write_text(json.dumps(out, ensure_ascii=True, indent=None, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n")


if __name__ == "__main__":
    main()
