# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""The official client against the server, on both event loops."""

import math

import openai
from openai import OpenAI

from serve_common import *

PLAIN = model("q8_0-gqa4")


def refused(call, kind, *words):
    """The call must fail with this exception; returns it."""
    try:
        call()
    except kind as e:
        ok(True, *words)
        return e
    except Exception as e:
        ok(False, *words, repr(e))
        return e
    ok(False, *words, "was not refused")
    return None


def completions(s, c, name):
    r = c.completions.create(model=name, prompt="A word and another", max_tokens=12, temperature=0)
    ok(r.object == "text_completion" and r.model == name and r.choices[0].finish_reason in ("length", "stop") and
       r.usage.total_tokens == r.usage.prompt_tokens + r.usage.completion_tokens, "a completion")
    text, tokens = r.choices[0].text, r.usage.completion_tokens
    parts, usage, finish = [], None, None
    with c.completions.create(model=name, prompt="A word and another", max_tokens=12, temperature=0, stream=True,
                              stream_options={"include_usage": True}) as stream:
        for chunk in stream:
            if chunk.choices:
                parts.append(chunk.choices[0].text)
                finish = chunk.choices[0].finish_reason or finish
            usage = chunk.usage or usage
    ok("".join(parts) == text and finish == r.choices[0].finish_reason and usage.completion_tokens == tokens,
       "the same as a stream, with its usage at the end")
    ids = s.post("/tokenize", prompt="A word and another")[1]["tokens"]
    r2 = c.completions.create(model=name, prompt=ids, max_tokens=12, temperature=0)
    ok(r2.choices[0].text == text and r2.usage.prompt_tokens == len(ids), "the same from token ids")
    r2 = c.completions.create(model=name, prompt=["A word and another", "Other words"], n=2, max_tokens=5, temperature=0)
    ok([x.index for x in r2.choices] == [0, 1, 2, 3] and r2.choices[0].text == r2.choices[1].text and
       text.startswith(r2.choices[0].text) and r2.choices[2].text == r2.choices[3].text, "two prompts with n = 2")
    r2 = c.completions.create(model=name, prompt="A word and another", max_tokens=12, temperature=0, echo=True)
    ok(r2.choices[0].text == "A word and another" + text, "echo")
    r2 = c.completions.create(model=name, prompt="A word and another", max_tokens=12, temperature=0, logprobs=0)
    lp = r2.choices[0].logprobs
    ok(len(lp.tokens) == len(lp.token_logprobs) == len(lp.text_offset) == tokens and
       all(x <= 0 for x in lp.token_logprobs) and lp.text_offset[0] == 0, "log probabilities")
    lp = c.completions.create(model=name, prompt="A word and another", max_tokens=4, temperature=0, logprobs=3,
                              echo=True).choices[0].logprobs
    ok(len(lp.tokens) == len(lp.top_logprobs) == len(ids) + 4 and lp.token_logprobs[0] is None and
       lp.top_logprobs[0] is None and all(lp.tokens[i] in lp.top_logprobs[i] for i in range(1, len(ids) + 4)),
       "echo with log probabilities")
    a = c.completions.create(model=name, prompt="A", max_tokens=20, temperature=1.5, seed=7).choices[0].text
    b = c.completions.create(model=name, prompt="A", max_tokens=20, temperature=1.5, seed=7).choices[0].text
    d = [c.completions.create(model=name, prompt="A", max_tokens=20, temperature=1.5).choices[0].text for _ in range(3)]
    ok(a == b and len(set(d + [a])) > 1, "a seed gives the same again; without one, something else")
    r2 = c.completions.create(model=name, prompt="A", n=4, max_tokens=20, temperature=1.5, seed=7)
    ok(r2.choices[0].text == a and len({x.text for x in r2.choices}) > 1, "choices of one seed differ; the first is its own")
    r2 = c.completions.create(model=name, prompt="A word and another", max_tokens=7, temperature=0,
                              extra_body={"min_tokens": 7, "ignore_eos": True, "cache_salt": "s", "priority": 3,
                                          "top_k": 5, "stop_token_ids": [3]}, user="me")
    ok(r2.usage.completion_tokens == 7, "min_tokens, ignore_eos, cache_salt, priority, top_k, user")


def stops(c, name):
    whole = c.completions.create(model=name, prompt="xyz", max_tokens=40, temperature=0).choices[0].text
    for at in (1, len(whole) // 2, len(whole) - 2):
        stop = whole[at:at + 2]
        first = whole.index(stop)
        r = c.completions.create(model=name, prompt="xyz", max_tokens=40, temperature=0, stop=["never there", stop])
        parts = "".join(x.choices[0].text for x in c.completions.create(model=name, prompt="xyz", max_tokens=40,
                                                                         temperature=0, stop=stop, stream=True))
        ok(r.choices[0].text == parts == whole[:first] and r.choices[0].finish_reason == "stop",
           f"a stop string at character {first}, whole and as a stream")


def chats(c, name):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"},
                {"role": "assistant", "content": "Yes."},
                {"role": "user", "content": [{"type": "text", "text": "What "}, {"type": "text", "text": "now?"}]}]
    r = c.chat.completions.create(model=name, messages=messages, max_tokens=10, temperature=0, logprobs=True)
    m = r.choices[0].message
    ok(r.object == "chat.completion" and m.role == "assistant" and isinstance(m.content, str), "a chat")
    lp = r.choices[0].logprobs.content
    ok(len(lp) <= r.usage.completion_tokens and all(x.logprob <= 0 and isinstance(x.bytes, list) for x in lp),
       "its log probabilities")
    top = c.chat.completions.create(model=name, messages=messages, max_tokens=10, temperature=0, logprobs=True, top_logprobs=4)
    ok([x.token for x in top.choices[0].logprobs.content] == [x.token for x in lp] and
       all(len(x.top_logprobs) == 4 and x.top_logprobs[0].logprob == x.logprob for x in top.choices[0].logprobs.content),
       "and the likeliest beside each")
    first, parts, finish = None, [], None
    for chunk in c.chat.completions.create(model=name, messages=messages, max_completion_tokens=10, temperature=0,
                                           stream=True):
        first = first or chunk
        parts.append(chunk.choices[0].delta.content or "")
        finish = chunk.choices[0].finish_reason or finish
    ok(first.choices[0].delta.role == "assistant" and "".join(parts) == m.content and
       finish == r.choices[0].finish_reason, "the same as a stream")
    again = c.chat.completions.create(model=name, messages=messages, max_tokens=10, temperature=0)
    ok(again.choices[0].message.content == m.content and again.usage.prompt_tokens_details.cached_tokens > 0,
       "again, with cached tokens:", again.usage.prompt_tokens_details.cached_tokens)
    salted = c.chat.completions.create(model=name, messages=messages, max_tokens=10, temperature=0,
                                       extra_body={"cache_salt": "mine"})
    ok(salted.choices[0].message.content == m.content and salted.usage.prompt_tokens_details.cached_tokens == 0,
       "with a salt of its own, the same without them")


def errors(s, c, name):
    e = refused(lambda: c.completions.create(model="pony", prompt="x"), openai.NotFoundError, "a model that is not there")
    ok(e.body["code"] == "model_not_found" and e.body["param"] == "model", "is named")
    for field, value, need in (("temperature", -1, "from 0"), ("n", 0, "from 1"), ("top_p", 2, "from 0 to 1"),
                               ("max_tokens", -5, "from 1"), ("stop", 5, "string"), ("logit_bias", {"5": 101}, "-100 to 100"),
                               ("presence_penalty", 3, "from -2 to 2"), ("best_of", 3, "not supported"),
                               ("suffix", "x", "not supported"), ("max_tokens", 10**6, "context"), ("n", 1000, "128")):
        e = refused(lambda: c.completions.create(model=name, prompt="x", **{field: value}), openai.BadRequestError,
                    f"{field} = {value}")
        ok(need in str(e) and e.body["type"] == "invalid_request_error", "says why:", str(e.body.get("message"))[:90])
    ask = [{"role": "user", "content": "x"}]
    for field, value in (("tools", [{"type": "function", "function": {"name": "f", "parameters": {}}}]),
                         ("response_format", {"type": "json_object"}), ("top_logprobs", 3), ("top_logprobs", 21)):
        e = refused(lambda: c.chat.completions.create(model=name, messages=ask, **{field: value}), openai.BadRequestError,
                    f"{field} is refused")
        ok(e.body["param"] == field, "by its name")
    refused(lambda: c.chat.completions.create(model=name, messages=[{"role": "tool", "content": "x", "tool_call_id": "1"}]),
            openai.BadRequestError, "a role that is not known")
    refused(lambda: c.completions.create(model=name, prompt="w " * 3000, max_tokens=1), openai.BadRequestError,
            "a prompt longer than the context")
    refused(lambda: c.embeddings.create(model=name, input="x"), openai.NotFoundError, "an endpoint that is not there")
    with OpenAI(base_url=c.base_url, api_key="wrong", max_retries=0) as wrong:
        refused(lambda: wrong.models.list(), openai.AuthenticationError, "a wrong key")


def models(s, c, name):
    ok([m.id for m in c.models.list()] == [name] and c.models.retrieve(name).id == name, "the list of models")
    refused(lambda: c.models.retrieve("pony"), openai.NotFoundError, "a model that is not there, by name")
    status, _, text = s.get("/health")
    ok(status == 200 and json.loads(text)["status"] == "ok", "/health, without a key")
    version = subprocess.run([KVSLAB, "--version"], capture_output=True, text=True).stdout.split()[1]
    ok(json.loads(s.get("/version")[2])["version"] == version, "/version")
    s.headers = {"Authorization": "bearer secret two"}
    status, r = s.post("/tokenize", prompt="A ü 漢 \n", return_token_strs=True)
    ok(status == 200 and r["count"] == len(r["tokens"]) == len(r["token_strs"]), "/tokenize")
    ok(s.post("/detokenize", tokens=r["tokens"])[1]["prompt"].endswith("A ü 漢 \n"), "/detokenize")
    status, r = s.post("/tokenize", {"Authorization": "Bearer secret tw"}, prompt="A")
    ok(status == 401 and r["error"]["code"] == "invalid_api_key", "they need a key")


for loop in loops():
    with Server(PLAIN, "--alias", "a/b c", "--api-key", "secret", "--api-key", "secret two", "--loop", loop) as s:
        client = OpenAI(base_url=s.url + "/v1", api_key="secret", max_retries=0)
        before = s.files()
        print("#", loop)
        models(s, client, "a/b c")
        completions(s, client, "a/b c")
        stops(client, "a/b c")
        chats(client, "a/b c")
        errors(s, client, "a/b c")
        client.close()
        m = s.settle()
        ok(m['pages{state="private"}'] == 0 and m['pages{state="sealed"}'] == 0, f"{loop}: no page is private or held")
        ok(s.leaked(before) <= 0, f"{loop}: no descriptor is left")
finish()
