#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""README's section on serving, run as it stands there, but for the port; each example's answer is looked at for its
meaning, and an example that nobody looks at fails. The unit in docs."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from serve_common import *

os.chdir(pathlib.Path(__file__).parent.parent.parent)
MODEL = real_model()
if not MODEL:
    skip_all("no real model; scripts/get-model.sh fetches it")
if subprocess.run(["make", "--no-print-directory", "-s", "venv-serve"], stdout=sys.stderr).returncode:
    skip_all("the openai package could not be installed")
NAME = os.path.basename(MODEL).removesuffix(".gguf")
TMP = tempfile.TemporaryDirectory()
os.environ["XDG_CACHE_HOME"] = os.path.dirname(os.path.dirname(MODEL))
for name in [n for n in os.environ if n.startswith("KVSLAB_")]:
    del os.environ[name]

with open("README.md") as f:
    section = re.search(r"^## Serve\n(.*?)^## ", f.read(), re.S | re.M)[1]
blocks = re.findall(r"^```(\w+)\n(.*?)^```$", section, re.S | re.M)
start = [line.split("#")[0].strip() for line in re.findall(r"^    (\S.*)$", section.split("```")[0], re.M)]


class Running:
    """A server started by a line of README."""

    def __init__(self, line, *more):
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")
        line = line.replace("build/kvslab", KVSLAB).replace("/tmp/", TMP.name + "/")
        self.p = subprocess.Popen(["bash", "-c", start[0] + "\n" + re.sub(r"(\S*kvslab serve)", r"exec env \1", line, count=1)
                                   .replace("KVSLAB_API_KEY=sesame exec env", "exec env KVSLAB_API_KEY=sesame") + " " +
                                   " ".join(more)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.log)
        atexit.register(self.end)
        limit = time.time() + 60
        while "msg=ready" not in self.text() and self.p.poll() is None and time.time() < limit:
            time.sleep(0.02)
        m = re.search(r"address=http://\S+:(\d+)", self.text())
        self.port = int(m[1]) if m else 0

    def text(self):
        with open(self.log.name) as f:
            return f.read()

    def end(self):
        if self.p.poll() is None:
            self.p.terminate()
        return self.p.wait(60)

    def run(self, lines, program=("bash",)):
        lines = lines.replace("127.0.0.1:8080", f"127.0.0.1:{self.port}").replace("/tmp/", TMP.name + "/")
        p = subprocess.run([*program, "-c", lines.replace("build/kvslab", KVSLAB)], capture_output=True, text=True, timeout=300)
        if p.returncode:
            print("#", p.returncode, p.stderr)
        return p.stdout if p.returncode == 0 else ""

    def ask(self, path, body):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        c.request("POST", path, json.dumps(body))
        return json.load(c.getresponse())


def parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        return {}


def answer_of(prompt, n=64):
    return run_answers(MODEL, [prompt], "--chat", "--temp", "0", "-n", str(n))[0]["text"]


def models(s, text, block):
    r = parsed(text)
    return r.get("object") == "list" and [m["id"] for m in r["data"]] == [NAME]


def question(s, text, block):
    r = parsed(text)
    said = r["choices"][0]["message"]["content"] if "choices" in r else ""
    return "Paris" in said and said == answer_of("What is the capital of France?")


def stream(s, text, block):
    data = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    if len(data) < 10 or data[-1] != "[DONE]":
        return False
    parts = [json.loads(d) for d in data[:-1]]
    said = "".join(p["choices"][0]["delta"].get("content") or "" for p in parts if p["choices"])
    body = json.loads(re.search(r"-d '(.*)'", block, re.S)[1])
    body.pop("stream_options")
    whole = s.ask("/v1/chat/completions", {**body, "stream": False})
    return (len(said) > 40 and said == whole["choices"][0]["message"]["content"] and
            parts[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"])


def completion(s, text, block):
    r = parsed(text)
    if len(r.get("choices", [])) != 2:
        return False
    again = s.ask("/v1/completions", json.loads(re.search(r"-d '(.*)'", block, re.S)[1]))
    same = [c["text"] for c in r["choices"]] == [c["text"] for c in again["choices"]]
    lp = r["choices"][0]["logprobs"]
    return (same and len({c["text"] for c in r["choices"]}) == 2 and "".join(lp["tokens"]) == r["choices"][0]["text"] and
            len(lp["token_logprobs"]) == len(lp["tokens"]) > 0 and max(lp["token_logprobs"]) <= 0)


def tokens(s, text, block):
    want = subprocess.run([KVSLAB, "tokenize", "-m", MODEL, "--ids", "Hello, world"], capture_output=True, text=True).stdout
    return parsed(text).get("tokens") == [int(x) for x in want.split()] != []


def pages(s, text, block):
    found = dict(re.findall(r'^kvslab:pages\{model_name="[^"]*",state="(\w+)"\} (\d+)$', text, re.M))
    return {"free", "private", "sealed", "cached", "quarantined"} <= set(found) and int(found["cached"]) > 0


def bench(s, text, block):
    rate = re.search(r"^generated +([\d.]+) tokens/s", text, re.M)
    return "8 requests of 4 clients" in text and " 0 failed" in text and rate and float(rate[1]) > 0 and "p99" in text


def package(s, text, block):
    said = answer_of("What is the capital of France?")
    return text == f"{said}\n{said}\n" and "Paris" in said


LOOKS = [  # what marks an example, what it is called, who looks at its answer
    ("/v1/chat/completions -d '{\n  \"messages\": [{\"role\": \"user\", \"content\": \"What", "a question", question),
    ('"stream": true', "a stream", stream),
    ("/v1/completions -d", "completions with log probabilities", completion),
    ("/tokenize", "tokens", tokens),
    ("/metrics", "figures", pages),
    ("bench serve", "the benchmark", bench),
    ("from openai import OpenAI", "the Python package", package),
    ("/v1/models", "the models", models),
]

ok(len(start) == 2 and "make -s model" in start[0] and "kvslab serve" in start[1], "README starts a server")
server = Running(start[1], "--port", "0")
seen = set()
for kind, block in blocks:
    if "kvslab serve" in block:
        line, rest = block.split("\n", 1)
        with_key = "API_KEY" in line
        own = Running(line, *(["--port", "0"] if with_key else []))
        what = "a key, for all the network" if with_key else "a Unix socket"
        good = models(own, own.run(rest), rest)
        ok(good, f"{what}: {line}")
        if with_key:
            refused = parsed(own.run(re.sub(r"-H '[^']*'", "", rest)))
            ok(refused.get("error", {}).get("code") == "invalid_api_key" and "address=http://0.0.0.0:" in own.text(),
               "and without the key nothing")
        ok(own.end() == 0, "it ends as it should")
        seen.add(what)
        continue
    for mark, what, look in LOOKS:
        if mark in block:
            program = ["build/venv-serve/bin/python"] if kind == "python" else ["bash"]
            text = server.run(block, program)
            good = look(server, text, block)
            ok(good, f"{what}: {block.splitlines()[0]}")
            if not good:
                print("#", "\n# ".join(text.splitlines()[-10:]))
            seen.add(what)
            break
    else:
        ok(False, f"nobody looks at this example: {block}")
missing = {what for _, what, _ in LOOKS} - seen
ok(not missing and len(seen) == len(LOOKS) + 2, f"README has all that should be shown {missing or ''}")
ok(server.end() == 0, "the server ends as README says")

# The unit names the command and options that there are.
unit = pathlib.Path("docs/kvslab.service").read_text()
help = subprocess.run([KVSLAB, "serve", "--help"], capture_output=True, text=True).stdout
options = [x.lower().replace("_", "-") for x in re.findall(r"Environment=KVSLAB_(\w+)=", unit)]
ok(options and all(f"--{x}=" in help for x in options), f"the unit's options: {options}")
grace = int(re.search(r"--grace.*?default: (\d+)", help, re.S)[1])
ok(int(re.search(r"TimeoutStopSec=(\d+)", unit)[1]) > grace, "and it waits longer than answers have to end")
verify = subprocess.run(["sh", "-c", "command -v systemd-analyze"], capture_output=True).returncode == 0
if verify:
    path = os.path.join(TMP.name, "kvslab.service")
    pathlib.Path(path).write_text(unit.replace("/usr/local/bin/kvslab", os.path.abspath(KVSLAB)))
    p = subprocess.run(["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True)
    mine = [x for x in p.stderr.splitlines() if "kvslab" in x]
    ok(not mine, f"systemd has nothing to say about it {mine[:2]}")
else:
    skip("no systemd-analyze", "systemd has nothing to say about it")
finish()
