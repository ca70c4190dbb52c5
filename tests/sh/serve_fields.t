#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""Each field of a request does what it says: what is drawn, how long, what is told about it. Greedy answers on a made-up
model; biases of 100 force tokens, so that what must come is known."""

import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from serve_common import *

os.chdir(pathlib.Path(__file__).parent.parent.parent)
rng = seed()
MODEL = model("q8_0-gqa4")


def complete(s, **fields):
    status, r = s.post("/v1/completions", **{"prompt": "A word and", "max_tokens": 8, "temperature": 0, **fields})
    if status != 200:
        raise RuntimeError(r)
    return r


def first(s, **fields):
    return complete(s, **fields)["choices"][0]


def only(*ids, by=100):
    return {str(i): by for i in ids}


def tokens_of(s, text):
    return s.post("/tokenize", prompt=text, add_special_tokens=False)[1]["tokens"]


def lengths(s, end):
    """Stop tokens, and what keeps them away."""
    x = rng.randrange(300, 400)
    for name, wanted in (("its own end", {"logit_bias": only(end)}),
                         ("one of stop_token_ids", {"logit_bias": only(x), "stop_token_ids": [x]})):
        r = complete(s, **wanted)
        ok(r["usage"]["completion_tokens"] == 0 and r["choices"][0]["finish_reason"] == "stop", f"a token that ends it, {name}")
        n = rng.randrange(1, 7)
        r = complete(s, min_tokens=n, logprobs=0, **wanted)
        lp = r["choices"][0]["logprobs"]
        ok(r["usage"]["completion_tokens"] == n and len(lp["tokens"]) == n and r["choices"][0]["finish_reason"] == "stop" and
           r["choices"][0]["text"] == "".join(lp["tokens"]), f"min_tokens = {n}: {n} others come first, {name}")
    r = complete(s, logit_bias=only(end), ignore_eos=True)
    ok(r["usage"]["completion_tokens"] == 8 and r["choices"][0]["finish_reason"] == "length", "ignore_eos goes on behind it")
    r = complete(s, max_tokens=3, ignore_eos=True)
    ok(r["usage"]["completion_tokens"] == 3 and r["choices"][0]["finish_reason"] == "length", "max_tokens")


def draws(s):
    greedy = first(s)["text"]
    for name, fields in (("top_k = 1", {"top_k": 1}), ("min_p = 1", {"min_p": 1}), ("top_p = 0", {"top_p": 0})):
        got = [first(s, **{"temperature": 1.9, "top_k": 0, "top_p": 1, **fields})["text"] for _ in range(3)]
        ok(got == [greedy] * 3, f"{name} at a temperature of 1.9 leaves the likeliest")
    got = {first(s, temperature=1.9, top_k=0, top_p=1)["text"] for _ in range(3)}
    ok(len(got) > 1, "without it, others come")
    lp = first(s, logprobs=1)["logprobs"]
    id = tokens_of(s, "x")[0]
    forced = first(s, logit_bias=only(id), logprobs=1)
    ok(forced["text"] == "x" * 8 and forced["logprobs"]["tokens"] == ["x"] * 8, "a bias of 100 draws one token")
    ok(forced["logprobs"]["token_logprobs"][0] < lp["token_logprobs"][0] - 0.1 and
       forced["logprobs"]["top_logprobs"][0][lp["tokens"][0]] == lp["token_logprobs"][0],
       "whose log probability is the model's, and so is the likeliest's")
    two = tokens_of(s, "xy")
    ok(len(two) == 2 and first(s, logit_bias={**only(two[0]), **only(two[1], by=50)})["text"] == "x" * 8 and
       first(s, logit_bias={**only(two[0], by=-100), **only(two[1], by=50)})["text"] == "y" * 8, "two biases, and a ban")


def score(s, ids, want):
    """Log probability of @want after @ids."""
    return first(s, prompt=ids + [want], max_tokens=0, echo=True, logprobs=0)["logprobs"]["token_logprobs"][-1]


def penalties(s):
    """The draw among six tokens, computed here from the model's log probabilities."""
    letters = rng.sample("bcefghijklmnopqrstuvwxyz", 6)  # none is in the prompt
    pool = [tokens_of(s, c)[0] for c in letters]
    prompt = tokens_of(s, "A word and") + [pool[0]]
    for presence, frequency in ((2, 0), (0, 1.5), (1, 0.75), (-2, 0), (0, -1)):
        want, ids = [], list(prompt)
        for _ in range(8):
            value = {t: score(s, ids, t) - frequency * want.count(t) - presence * (t in want) for t in pool}
            want.append(max(value, key=value.get))
            ids.append(want[-1])
            close = sorted(value.values())[-2:]
            if close[1] - close[0] < 1e-3:
                break  # too close to be told from here
        got = first(s, prompt=prompt, logit_bias=only(*pool), presence_penalty=presence, frequency_penalty=frequency)["text"]
        expected = "".join(letters[pool.index(t)] for t in want)
        ok(got.startswith(expected[:-1] if len(want) < 8 else expected) and got,
           f"presence {presence}, frequency {frequency}: {got}, {expected}")
    got = first(s, prompt=prompt, logit_bias=only(*pool), repetition_penalty=3, max_tokens=5)["text"]
    ok(sorted(got) == sorted(letters[1:]), f"a repetition penalty: each but the prompt's own comes before any comes twice: {got}")
    got = first(s, prompt=prompt, logit_bias=only(*pool), repetition_penalty=1, presence_penalty=0, frequency_penalty=0)["text"]
    ok(got == first(s, prompt=prompt, logit_bias=only(*pool))["text"], "penalties that do nothing")


def scores(s):
    """echo with logprobs: the prompt's tokens, as likely as they were when they were drawn."""
    text = "".join(rng.choice("abcdefghij klmno") for _ in range(40))
    ids = s.post("/tokenize", prompt=text)[1]["tokens"]
    r = complete(s, prompt=text, echo=True, logprobs=2, max_tokens=3)
    c, lp = r["choices"][0], r["choices"][0]["logprobs"]
    n = len(ids)
    ok(c["text"].startswith(text) and len(lp["tokens"]) == len(lp["token_logprobs"]) == len(lp["text_offset"]) == n + 3 and
       lp["token_logprobs"][0] is None and lp["top_logprobs"][0] is None and all(x <= 0 for x in lp["token_logprobs"][1:]),
       "an echoed prompt with its log probabilities")
    ok(all(c["text"][a:].startswith(t) for a, t in zip(lp["text_offset"][:n], lp["tokens"])), "offsets are where tokens are")
    ok(all(1 <= len(top) <= 3 and lp["tokens"][i + 1] in top and lp["token_logprobs"][i + 1] <= max(top.values())
           for i, top in enumerate(lp["top_logprobs"][1:])), "the two likeliest, and the one that stands there")
    ok(r["usage"]["completion_tokens"] == 3 and r["usage"]["prompt_tokens"] == n, "and its usage")
    parts = {"text": "", "tokens": [], "token_logprobs": [], "text_offset": [], "top_logprobs": []}
    c2 = s.connect()
    c2.request("POST", "/v1/completions", json.dumps({"prompt": text, "echo": True, "logprobs": 2, "max_tokens": 3,
                                                       "temperature": 0, "stream": True}))
    for e in events(c2.getresponse()):
        if e != "[DONE]" and e["choices"]:
            parts["text"] += e["choices"][0]["text"]
            for k, v in (e["choices"][0]["logprobs"] or {}).items():
                parts[k] += v
    c2.close()
    ok(parts.pop("text") == c["text"] and parts == lp, "the same as a stream")
    again = first(s, prompt=text, echo=True, logprobs=2, max_tokens=0)
    ok(again["text"] == text and again["finish_reason"] == "length" and
       all(again["logprobs"][k] == lp[k][:n] for k in lp), "with max_tokens = 0 the prompt's alone, equal to the bit")
    forced = tokens_of(s, "xyz")
    drawn = []
    for t in forced:
        drawn += first(s, prompt=ids + forced[:len(drawn)], logit_bias=only(t), max_tokens=1, logprobs=0)["logprobs"]["token_logprobs"]
    scored = first(s, prompt=ids + forced, echo=True, logprobs=0, max_tokens=0)["logprobs"]["token_logprobs"]
    ok(scored[-len(forced):] == drawn, "a token scored is as likely as a token drawn, to the bit")
    r = complete(s, prompt=[text, "A"], n=2, echo=True, logprobs=0, max_tokens=1, temperature=1, seed=5)["choices"]
    ok(len(r) == 4 and all(x["text"].startswith(text if i < 2 else "A") for i, x in enumerate(r)) and
       r[0]["logprobs"]["token_logprobs"][:n] == lp["token_logprobs"][:n] == r[1]["logprobs"]["token_logprobs"][:n],
       "two prompts, two choices each")
    status, r = s.post("/v1/chat/completions", messages=[{"role": "user", "content": "x"}], max_tokens=3, temperature=0,
                       logprobs=True, top_logprobs=20)
    content = r["choices"][0]["logprobs"]["content"]
    ok(len(content) == 3 and all(len(x["top_logprobs"]) == 20 and x["top_logprobs"][0]["logprob"] == x["logprob"] and
                                 [y["logprob"] for y in x["top_logprobs"]] ==
                                 sorted((y["logprob"] for y in x["top_logprobs"]), reverse=True) for x in content),
       "a chat's twenty likeliest, in order")


def stops(s):
    """A stop string that ends inside one token and begins inside another."""
    xy = tokens_of(s, " word word")
    ok(len(xy) >= 2, "a text of several tokens")
    lp = first(s, max_tokens=30, logprobs=0, ignore_eos=True)
    tokens, text = lp["logprobs"]["tokens"], lp["text"]
    tried = 0
    for i in range(1, len(tokens) - 1):
        stop = tokens[i - 1][-1:] + tokens[i] + tokens[i + 1][:1]
        if "\ufffd" in stop or stop not in text:
            continue
        tried += 1
        c = first(s, max_tokens=30, stop=[stop, "\x00never"], ignore_eos=True)
        if not (c["text"] == text[:text.index(stop)] and c["finish_reason"] == "stop"):
            ok(False, f"stop {stop!r}: {c['text']!r} of {text!r}")
            return
        if tried == 6:
            break
    ok(tried > 0, f"{tried} stop strings across three tokens")
    x = tokens_of(s, "x")[0]
    c = complete(s, logit_bias=only(x), stop="xx", min_tokens=3, max_tokens=9)
    ok(c["choices"][0]["text"] == "xxx" and c["usage"]["completion_tokens"] == 5, "with min_tokens a stop string counts behind them")


def usage(s):
    words = " ".join(rng.choice("abcdefgh") for _ in range(60))
    a, b = complete(s, prompt=words)["usage"], complete(s, prompt=words)["usage"]
    cached = b["prompt_tokens_details"]["cached_tokens"]
    ok(a["prompt_tokens_details"]["cached_tokens"] == 0 and 0 < cached < b["prompt_tokens"], f"{cached} cached tokens the second time")
    salted = complete(s, prompt=words, cache_salt="mine")["usage"]["prompt_tokens_details"]["cached_tokens"]
    again = complete(s, prompt=words, cache_salt="mine")["usage"]["prompt_tokens_details"]["cached_tokens"]
    ok(salted == 0 and again == cached, "a salt of its own shares with itself alone")
    c = s.connect()
    c.request("POST", "/v1/completions", json.dumps({"prompt": words, "stream": True, "max_tokens": 4, "temperature": 0,
                                                      "ignore_eos": True, "stream_options": {"include_usage": True}}))
    got = list(events(c.getresponse()))
    c.close()
    ok(got[-1] == "[DONE]" and got[-2]["choices"] == [] and got[-2]["usage"]["completion_tokens"] == 4 and
       got[-2]["usage"]["prompt_tokens_details"]["cached_tokens"] == cached and
       all(e["usage"] is None for e in got[:-2]), "include_usage")
    complete(s, user="who-asks")
    ok("user=who-asks" in s.text(), "user is in the log")


def storm(s, loop):
    """Requests of every kind at once, whose clients often leave: nothing fails, and nothing is left."""
    bad, answered = [], []

    def client(r):
        for _ in range(100 if LONG else 25):
            fields = {"prompt": [r.randrange(10, 400) for _ in range(r.randrange(1, 700))], "max_tokens": r.choice([1, 5, 40]),
                      "n": r.choice([1, 1, 3]), "stream": r.random() < 0.5, "min_tokens": r.choice([0, 0, 1]),
                      "logit_bias": {str(r.randrange(400)): r.uniform(-100, 100) for _ in range(r.randrange(5))},
                      "presence_penalty": r.choice([0, 1]), "frequency_penalty": r.choice([0, -1, 1]),
                      "repetition_penalty": r.choice([1, 1.2]), "min_p": r.choice([0, 0.1]), "echo": r.random() < 0.5,
                      "logprobs": r.choice([None, 0, 3, 20]), "stop": r.choice([None, "a", ["\u00e9", "b"]]),
                      "priority": r.randrange(8)}
            if fields["echo"] and r.random() < 0.3:
                fields.update(max_tokens=0, min_tokens=0)
            data = json.dumps(fields).encode()
            sock = s.socket()
            sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
            sock.settimeout(r.choice([0.01, 0.1, 60]))
            got = b""
            try:
                while part := sock.recv(65536):
                    got += part
                    if r.random() < 0.05:
                        break
                else:
                    answered.append(1)
                    if not (b" 200 OK" in got[:20] and (b"[DONE]" in got or b'"usage"' in got)):
                        bad.append((fields, got[:300]))
            except OSError:
                pass
            sock.close()
    threads = [threading.Thread(target=client, args=(random.Random(rng.random()),)) for _ in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for b in bad[:2]:
        print("#", *b)
    m = s.settle(60)
    ok(not bad and answered and m["num_requests_running"] == 0, f"{loop}: a storm: {len(answered)} read to the end, {len(bad)} of them wrong")


def priorities(loop):
    """One runs, others wait; the last of them with the highest priority comes next. And streams that wait are told so."""
    with Server(MODEL, "--loop", loop, "--max-batch", "1", "--ping", "0.05") as s:
        order, pings = [], []

        def ask(name, priority):
            c = s.connect()
            c.request("POST", "/v1/completions", json.dumps({"prompt": "x", "max_tokens": 400, "ignore_eos": True,
                                                              "priority": priority, "stream": True}))
            data = c.getresponse().read()
            order.append(name)
            pings.append(data.count(b": ping\n\n"))
            ok(b"[DONE]" in data, f"{loop}: {name} is answered")
            c.close()
        threads = []
        for name, priority in (("first", 7), ("low", 0), ("middle", 3), ("high", 7)):
            threads.append(threading.Thread(target=ask, args=(name, priority)))
            threads[-1].start()
            end = time.time() + 20
            while time.time() < end:
                m = s.metrics()
                if m["num_requests_running"] + m["num_requests_waiting"] >= len(threads) or len(order):
                    break
        for t in threads:
            t.join()
        ok(order == ["first", "high", "middle", "low"], f"{loop}: by priority: {order}")
        ok(sum(pings[1:]) > 0, f"{loop}: pings to those who waited: {pings}")


for loop in loops():
    with Server(MODEL, "--loop", loop) as s:
        print("#", loop)
        ends = [i for i in range(0, 64) if complete(s, prompt=[300], logit_bias=only(i), max_tokens=1)["usage"]["completion_tokens"] == 0]
        ok(ends, f"tokens that end an answer: {ends}")
        lengths(s, rng.choice(ends))
        draws(s)
        penalties(s)
        scores(s)
        stops(s)
        usage(s)
        storm(s, loop)
        m = s.settle()
        ok(m['pages{state="private"}'] == 0 and m['pages{state="sealed"}'] == 0, f"{loop}: no page is private or held")
    priorities(loop)
finish()
