#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# usage: scripts/demo.sh [build/kvslab]
# Eight chats in one batch on a real model, four of them with the same long beginning: the answers as they come, then
# the batch's figures. Exit 0 only if every chat has an answer, the beginning was computed once and shared, and no
# page is left private.
set -euo pipefail
cd "$(dirname "$0")/.."
kvslab=${1:-build/kvslab}
say() { echo "demo: $*" >&2; }

[ -x "$kvslab" ] || {
	say "$kvslab is not there; run make first"
	exit 1
}
model=$(scripts/get-model.sh)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# One line: a prompt is a line.
letter=$(tr '\n' ' ' <<'TEXT'
Read this letter from the keeper of a lighthouse. Dear sister, you ask how I live on the rock, so I will tell you. I
rise at four, when the lamp has burned for ten hours and its glass is black with smoke. I climb the one hundred and
twelve steps with a bucket of warm water and a soft cloth, and I clean the lens until I can see my own face in every
prism. Then I trim the wicks, fill the tank with oil, and wind the clock that turns the light. By six I am at
breakfast: bread, herring, and coffee with goat's milk, for I keep two goats, Bella and Old Tom, who give me more
trouble than any storm. In the morning I paint. Everything here must be painted twice a year, because the salt eats
it, and the owners pay for white paint and nothing else. In the afternoon I write the log: the wind, the ships, the
height of the sea. Last Tuesday I counted nineteen ships, and one of them, the Marigold, signalled that she had lost
her rudder. I rowed out to her with a rope, and we held her off the reef until the tide turned. Her captain gave me a
barrel of apples and a small brass telescope, which I shall send to your boy on his birthday. The supply boat comes on
the first Monday of the month if the weather allows it, and it brings flour, oil, letters, and the newspaper, which I
read slowly, one page a day, so that it lasts. At night I play chess against myself, and I lose. I am not lonely. The
light goes round, the ships go by, and each of them knows that somebody is awake. Your loving brother, Edmund.
TEXT
)
cat >"$tmp/prompts" <<TEXT
$letter Question: What are the names of the two goats?
What is the capital of France, and what is it known for?
$letter Question: What did the captain of the Marigold give to Edmund?
Write two sentences about the sea.
$letter Question: How many ships did Edmund count last Tuesday?
Explain to a child why the sky is blue.
$letter Question: Summarise the letter in one sentence.
Give me three tips for learning a new language.
TEXT

say "eight chats in one batch; each answer is shown when it is complete"
echo
"$kvslab" run -m "$model" --chat -f "$tmp/prompts" -n 96 --temp 0 --json="$tmp/answers"

python3 - "$tmp/answers" <<'PY'
import json
import statistics
import sys

*chats, batch = [json.loads(line) for line in open(sys.argv[1])]
pool = batch["pool"]
first = [c["ttft_ms"] for c in chats if c["ttft_ms"] is not None]
prompt = sum(c["prompt_tokens"] for c in chats)
cached = sum(c["cached_tokens"] for c in chats)
lost = pool["fragmentation"]
rows = [
    ("chats, steps, preemptions", f"{len(chats)}, {batch['steps']}, {batch['preemptions']}"),
    ("tokens: prompts, answers", f"{prompt}, {sum(c['completion_tokens'] for c in chats)}"),
    ("answer tokens per second", f"{batch['tokens_per_second']:.1f}"),
    ("time to first token, ms", f"{min(first):.0f} least, {statistics.median(first):.0f} median, {max(first):.0f} most"
     if first else "none"),
    ("prefix hit rate", f"{100 * cached / prompt:.1f}% ({cached} of {prompt} prompt tokens were in the pool)"),
    ("pages by state", ", ".join(f"{pool[s]} {s}" for s in ("free", "private", "sealed", "cached", "quarantined"))),
    ("fragmentation", f"{100 * sum(lost.values()):.2f}% of {pool['extents']} extents "
     f"({', '.join(f'{name} {100 * share:.2f}%' for name, share in lost.items())})"),
]
print("\n".join(f"{name:28} {value}" for name, value in rows))

wrong = [f"chat {c['index']} failed: {c['error']}" for c in chats if "error" in c]
wrong += [f"chat {c['index']} has no answer" for c in chats if not c["text"].strip()]
if len(chats) < 8:
    wrong.append(f"{len(chats)} chats were run, not 8")
if sum(c["cached_tokens"] >= 300 for c in chats) < 3:
    wrong.append("the common beginning was not shared")
if pool["private"]:
    wrong.append(f"{pool['private']} pages are still private")
for w in wrong:
    print(f"demo: {w}", file=sys.stderr)
sys.exit(bool(wrong))
PY
say "all of it worked"
