# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""usage: demo.py URL FILE: a chat for each line of FILE, all at once, shown line by line as they come; then the server's
figures. Exit 1 if a chat has no answer, the common beginning was not shared, or a page is left private."""

import http.client
import json
import re
import statistics
import sys
import threading
import time
import urllib.parse

WIDTH = 88
out = threading.Lock()


def say(i, text):
    with out:
        print(f"[{i}] {text}", flush=True)


class Chat(threading.Thread):
    def __init__(self, i, host, prompt):
        super().__init__(daemon=True)
        self.i, self.host, self.prompt = i, host, prompt
        self.text = self.shown = ""
        self.usage, self.first, self.error = None, None, None

    def show(self, text, end=False):
        """Prints what makes whole lines."""
        self.shown += text
        while self.shown:
            line, newline, rest = self.shown.partition("\n")
            if len(line) > WIDTH:
                cut = line.rfind(" ", 1, WIDTH + 1)
                cut = cut if cut > 0 else WIDTH
                line, rest = self.shown[:cut], self.shown[cut:].lstrip(" ")
            elif not newline and not end:
                return
            if line.strip():
                say(self.i, line.strip())
            self.shown = rest

    def run(self):
        try:
            self.chat()
        except (OSError, http.client.HTTPException, ValueError) as e:
            self.error = self.error or f"{type(e).__name__}: {e}"
        self.show("", end=True)

    def chat(self):
        body = {"messages": [{"role": "user", "content": self.prompt}], "max_tokens": 96, "temperature": 0, "stream": True,
                "stream_options": {"include_usage": True}}
        start = time.monotonic()
        c = http.client.HTTPConnection(self.host, timeout=600)
        c.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        r = c.getresponse()
        if r.status != 200:
            self.error = json.load(r)["error"]["message"]
            return
        for line in r:
            if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                continue
            e = json.loads(line[6:])
            if "error" in e:
                self.error = e["error"]["message"]
                return
            self.usage = e.get("usage") or self.usage
            text = e["choices"][0]["delta"].get("content") if e["choices"] else None
            if text:
                self.first = self.first or time.monotonic() - start
                self.text += text
                self.show(text)
        c.close()


def get_metrics(host):
    """Values by name, or by name{label} for the labels beside the model's."""
    c = http.client.HTTPConnection(host, timeout=60)
    c.request("GET", "/metrics")
    found = re.findall(r'^kvslab:(\w+)\{model_name="[^"]*",?([^}]*)\} (\S+)$', c.getresponse().read().decode(), re.M)
    c.close()
    return {name + ("{" + label + "}" if label else ""): float(value) for name, label, value in found}


def settled(host):
    """The figures when the last request has left the batch."""
    for _ in range(200):
        m = get_metrics(host)
        if not m["num_requests_running"] and not m["num_requests_waiting"] and not m['pages{state="sealed"}']:
            break
        time.sleep(0.05)
    return m


def table(m, chats):
    first = [1000 * c.first for c in chats if c.first]
    busy = m["step_executor_seconds_total"] + m["step_between_seconds_total"]
    asked, hit = m["prefix_cache_queries_total"], m["prefix_cache_hits_total"]
    lost = {kind: m[f'fragmentation{{kind="{kind}"}}'] for kind in ("partial", "tail", "quarantine")}
    finished = sum(v for k, v in m.items() if k.startswith("request_success_total"))
    pages = {s: m['pages{state="%s"}' % s] for s in ("free", "private", "sealed", "cached", "quarantined")}
    slabs = m['extents{kind="slabs"}']
    ttft = m["time_to_first_token_seconds_sum"] / max(1, m["time_to_first_token_seconds_count"])
    rows = [
        ("chats, steps, preemptions", f"{finished:.0f}, {m['steps_total']:.0f}, {m['num_preemptions_total']:.0f}"),
        ("tokens: prompts, answers", f"{m['prompt_tokens_total']:.0f}, {m['generation_tokens_total']:.0f}"),
        ("answer tokens per second", f"{m['generation_tokens_total'] / busy:.1f}" if busy else "none"),
        ("time to first token, ms", f"{1000 * ttft:.0f} mean; as the chats saw it {min(first):.0f} least, "
         f"{statistics.median(first):.0f} median, {max(first):.0f} most" if first else "none"),
        ("prefix hit rate", f"{100 * hit / max(1, asked):.1f}% ({hit:.0f} of {asked:.0f} prompt tokens were in the pool)"),
        ("pages by state", ", ".join(f"{pages[state]:.0f} {state}" for state in pages)),
        ("fragmentation", f"{100 * sum(lost.values()):.2f}% of {slabs:.0f} extents "
         f"({', '.join(f'{name} {100 * share:.2f}%' for name, share in lost.items())})"),
    ]
    print("\n".join(f"{name:28} {value}" for name, value in rows), flush=True)


def main():
    host = urllib.parse.urlsplit(sys.argv[1]).netloc
    with open(sys.argv[2]) as f:
        prompts = f.read().splitlines()
    chats = [Chat(i, host, prompt) for i, prompt in enumerate(prompts)]
    for c in chats:
        p = c.prompt
        say(c.i, "? " + (p if len(p) < 120 else p[:25].rstrip() + " ... " + p[p.index("Question:"):]))
    for c in chats:
        c.start()
    for c in chats:
        c.join()
    print()
    m = settled(host)
    table(m, chats)

    wrong = [f"chat {c.i} failed: {c.error}" for c in chats if c.error]
    wrong += [f"chat {c.i} has no answer" for c in chats if not c.error and not c.text.strip()]
    if len(chats) != 8:
        wrong.append(f"{len(chats)} chats were asked for, not 8")
    shared = [c for c in chats if c.usage and c.usage["prompt_tokens_details"]["cached_tokens"] >= 300]
    if len(shared) < 3:
        wrong.append("the common beginning was not shared")
    private = m['pages{state="private"}']
    if private:
        wrong.append(f"{private:.0f} pages are still private")
    for w in wrong:
        print(f"demo: {w}", file=sys.stderr)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    try:
        main()
    except (OSError, http.client.HTTPException, KeyError) as e:
        sys.exit(f"demo: the server does not answer as it should: {type(e).__name__}: {e}")
