#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""`kvslab bench serve` on this server and on others, which write HTTP and streams in other ways; and what it says where it
cannot measure."""

import http.server
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from serve_common import *

os.chdir(pathlib.Path(__file__).parent.parent.parent)
DELAY = 0.03


def bench(url, *args, json_lines=True):
    """Exit status, parsed lines or text, messages."""
    p = subprocess.run([KVSLAB, "bench", "serve", "--url", url, *args, *(["--json"] if json_lines else [])],
                       capture_output=True, text=True, timeout=120)
    return p.returncode, [json.loads(x) for x in p.stdout.splitlines()] if json_lines else p.stdout, p.stderr


class Other(http.server.BaseHTTPRequestHandler):
    """Five pieces a stream, DELAY apart; no length, no chunks: the connection's end is the answer's."""

    usage = True
    refuse = False
    cut = False
    seen = []

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.answer(200, {"data": [{"id": "other"}]})

    def answer(self, status, o):
        data = json.dumps(o).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.seen.append((body, self.headers.get("Authorization")))
        if not body.get("stream"):
            return self.answer(200, {"choices": [{"text": "x"}], "usage": {"prompt_tokens": 400, "completion_tokens": 1}})
        if self.refuse:
            return self.answer(503, {"error": {"message": "no room for 17 more"}})
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for i in range(5):
            time.sleep(DELAY)
            self.wfile.write(b": comment\r\n\r\ndata:" + json.dumps({"choices": [{"text": f"w{i}"}]}).encode() + b"\r\n\r\n")
            self.wfile.flush()
            if self.cut and i == 2:
                return
        if self.usage:
            usage = {"prompt_tokens": 11, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 4}}
            self.wfile.write(b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other)
threading.Thread(target=server.serve_forever, daemon=True).start()
URL = f"http://127.0.0.1:{server.server_port}"

for usage, tokens in ((True, 7), (False, 5)):
    Other.usage, Other.seen = usage, []
    status, lines, _ = bench(URL, "--clients", "3", "--requests", "6", "--prompt-tokens", "40", "--tokens", "9", "--api-key", "k")
    by = {x["name"]: x for x in lines}
    w = by["whole"]
    ok(status == 0 and w["requests"] == 6 and w["failed"] == 0 and w["clients"] == 3 and w["completion_tokens"] == 6 * tokens,
       f"another server, with usage in its streams: {usage}")
    ok(w["prompt_tokens"] == (66 if usage else 0) and w["cached_tokens"] == (24 if usage else 0) and
       abs(w["tokens_per_second"] * w["seconds"] - 6 * tokens) < 1e-6, "its sums")
    ms = DELAY * 1e3
    ok(0.9 * ms < by["ttft"]["p50_ms"] and 0.9 * ms < by["inter_token"]["p50_ms"] and 4.5 * ms < by["whole_request"]["p50_ms"] and
       w["seconds"] > 2 * 5 * DELAY * 0.9,
       f"latencies are those that it makes: {by['ttft']['p50_ms']:.0f}, {by['inter_token']['p50_ms']:.0f} ms")
    ok(all(by[n]["p50_ms"] <= by[n]["p90_ms"] <= by[n]["p99_ms"] for n in ("ttft", "inter_token", "whole_request")), "in order")
    streams = [b for b, key in Other.seen if b.get("stream")]
    ok(len(streams) == 6 and len({b["prompt"] for b in streams}) == 6 and all(b["max_tokens"] == 9 and b["ignore_eos"] and
       b["model"] == "other" and len(b["prompt"].split()) == 20 for b in streams) and all(k == "Bearer k" for _, k in Other.seen),
       "asked for: the model's name, prompts that differ, as long as wanted, with the key")
Other.seen = []
bench(URL, "--clients", "1", "--requests", "3", "--prompt-tokens", "40", "--shared-prefix", "20")
words = [b["prompt"].split() for b, _ in Other.seen if b.get("stream")]
ok(all(w[:10] == words[0][:10] for w in words) and len({tuple(w[10:]) for w in words}) == 3, "--shared-prefix")
Other.cut = True
status, lines, _ = bench(URL, "--clients", "2", "--requests", "4")
ok(status == 1 and lines[0]["failed"] == 4 and lines[-1]["requests"] == 4 and "DONE" in lines[-1]["reason"],
   "streams that end too soon are failures")
Other.cut, Other.refuse = False, True
status, text, _ = bench(URL, "--clients", "2", "--requests", "4", json_lines=False)
ok(status == 1 and "4 failed: 503: no room for" in text, "refusals are counted by reason")
server.shutdown()
server.server_close()

status, _, err = bench(URL, "--requests", "1")
ok(status == 1 and "does not answer" in err and URL in err, "nobody there")
for url in ("ftp://x", "http://", "http://127.0.0.1:99999", "http://pony.invalid:80"):
    status, _, err = bench(url)
    ok(status == 1 and err.startswith("kvslab: ") and err.count("\n") == 1, f"{url}: {err.strip()[:90]}")
status, _, err = bench(URL, "--prompt-tokens", "5", "--shared-prefix", "6")
ok(status == 1 and "--shared-prefix" in err, "a shared prefix longer than the prompt")

for loop in loops():
    with Server(model("q8_0-gqa4"), "--loop", loop, "--api-key", "sesame") as s:
        status, _, err = bench(s.url)
        ok(status == 1 and "--api-key" in err, f"{loop}: without the key it says which option is missing")
        status, lines, _ = bench(s.url, "--api-key", "sesame", "--clients", "16", "--requests", "48", "--prompt-tokens", "64",
                                 "--tokens", "16", "--shared-prefix", "40")
        w = lines[0]
        ok(status == 0 and w["requests"] == 48 and w["completion_tokens"] == 48 * 16 and w["cached_tokens"] > 0.3 * w["prompt_tokens"],
           f"{loop}: {w['tokens_per_second']:.0f} tokens/s, {100 * w['cached_tokens'] / w['prompt_tokens']:.0f}% cached")
        m = s.metrics()
        ok(m["step_between_seconds_total"] > 0 and m["step_executor_seconds_total"] > 0, f"{loop}: the steps' times are told")


def loop_cpu(s):
    """Seconds of the loop's thread, which does everything but the executor's work, tokens and JSON bodies."""
    with open(f"/proc/{s.p.pid}/task/{s.p.pid}/stat") as f:
        words = f.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


# What a step of a real model costs beside the executor.
real = real_model()
for loop in loops() if real and BUILD == "build" else []:
    with Server(real, "--loop", loop) as s:
        before, cpu = s.metrics(), loop_cpu(s)
        status, lines, err = bench(s.url, "--clients", "16", "--requests", "16", "--prompt-tokens", "32", "--tokens", "16")
        after, cpu = s.metrics(), loop_cpu(s) - cpu
        between, executor = (after[f"step_{x}_seconds_total"] - before[f"step_{x}_seconds_total"] for x in ("between", "executor"))
        share, own = between / (between + executor), cpu / (between + executor)
        ok(status == 0 and lines[0]["requests"] == 16 and share < 0.05 and own < 0.05,
           f"{loop}: 16 clients: {100 * share:.2f}% of a step is not the executor's, the loop computes {100 * own:.2f}% of it")
if not real:
    skip("the real model is not here", "what a step costs beside the executor")
finish()
