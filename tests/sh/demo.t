#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""The demo: what it shows, in a pipe; ports; KEEP; being interrupted; what it does with a command that is no server."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from serve_common import *

os.chdir(pathlib.Path(__file__).parent.parent.parent)
if not real_model():
    skip_all("no real model; scripts/get-model.sh fetches it")


def demo(command=KVSLAB, **env):
    return subprocess.Popen(["scripts/demo.sh", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                            stderr=subprocess.PIPE, env={**os.environ, **env}, start_new_session=True)


def end(p, seconds=300):
    try:
        out, err = p.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        out, err = p.communicate()
    return p.returncode, out, err


def answers(url):
    """Whether somebody listens there."""
    with socket.socket() as s:
        s.settimeout(5)
        return s.connect_ex(("127.0.0.1", int(url.rsplit(":", 1)[1].strip("/")))) == 0


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def look(out):
    lines = out.splitlines()
    for i in range(8):
        mine = [k for k, x in enumerate(lines) if x.startswith(f"[{i}] ")]
        if len(mine) < 2 or not lines[mine[0]].startswith(f"[{i}] ? "):
            return f"chat {i} has {len(mine)} lines"
    spoken = [int(x[1]) for x in lines if x.startswith("[") and not x.startswith(f"{x[:3]} ?")]
    changes = sum(a != b for a, b in zip(spoken, spoken[1:]))
    if changes < 10:
        return f"the chats follow each other, {changes} changes"
    if "Bella and Old Tom" not in out or "19 ships" not in out:
        return "the answers know nothing of the letter"
    rows = dict((x[:28].strip(), x[29:]) for x in lines if re.match(r"[a-z].{27} \S", x))
    found = re.match(r"([\d.]+)% \((\d+) of (\d+) ", rows.get("prefix hit rate", ""))
    tokens = re.match(r"(\d+), (\d+)$", rows.get("tokens: prompts, answers", ""))
    if not (len(rows) == 7 and rows["chats, steps, preemptions"].startswith("8, ") and found and tokens):
        return f"the table is {rows}"
    if tokens[1] != found[3] or abs(100 * int(found[2]) / int(found[3]) - float(found[1])) > 0.1 or float(found[1]) < 50:
        return f"the hit rate is {found[0]} for {tokens[0]}"
    if " 0 private, 0 sealed, " not in rows["pages by state"]:
        return rows["pages by state"]
    return ""


# With options of its own, whatever the environment has for other servers, and though the usual port may be taken.
with socket.socket() as taken:
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind(("127.0.0.1", 8080))
        taken.listen()
    except OSError:
        pass  # by somebody else, then
    status, out, err = end(demo(KVSLAB_API_KEY="sesame", KVSLAB_MAX_BATCH="nonsense", PORT=""))
    wrong = look(out)
    ok(status == 0 and not wrong, f"eight chats at once and their figures: {status} {wrong}")
    if status or wrong:
        print("#", "\n# ".join((out + err).splitlines()))
    url = re.search(r"it is at (http://127.0.0.1:\d+)/", err)
    ok(url and not url[1].endswith(":8080") and "taken" not in err, f"a free port where 8080 is taken: {url and url[1]}")
    ok("the server is stopped" in err and not answers(url[1]), "the server is gone at the end")
    status, out, err = end(demo(PORT="8080"))
    ok(status == 1 and "already in use" in err and "did not start" in err and not out.strip(),
       "a port that was asked for is not exchanged for another")

# Kept.
port = free_port()
status, out, err = end(demo(KEEP="1", PORT=str(port)))
kill = re.search(r"stop it with: kill (\d+)$", err, re.M)
ok(status == 0 and not look(out) and kill and f"http://127.0.0.1:{port}/" in err, f"KEEP=1: {status}")
if kill:
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    c.request("GET", "/")
    ok("<title>kvslab" in c.getresponse().read().decode(), "the server goes on, with its page")
    c.close()
    log = re.search(r"its log is (\S+);", err)[1]
    os.kill(int(kill[1]), signal.SIGTERM)
    limit = time.time() + 30
    # the port is closed first; the model's memory takes longer
    while (answers(f":{port}") or "msg=stopped" not in open(log).read()) and time.time() < limit:
        time.sleep(0.1)
    ok(time.time() < limit and not answers(f":{port}"), "until it is stopped as the demo says")
status, out, err = end(demo(KEEP="maybe"))
ok(status == 1 and "give 1 or 0" in err, "KEEP=maybe")

# Interrupted: by a terminal's ^C, which goes to all of them, and by a signal to the script alone.
for sig, want, whole in ((signal.SIGINT, 130, True), (signal.SIGTERM, 143, False)):
    port = free_port()
    p = demo(PORT=str(port))
    for line in p.stdout:
        if re.match(r"\[\d\] [^?]", line):
            break
    running = answers(f":{port}")
    if whole:
        os.killpg(p.pid, sig)
    else:
        p.send_signal(sig)
    status, out, err = end(p, 60)
    limit = time.time() + 40
    while answers(f":{port}") and time.time() < limit:
        time.sleep(0.1)
    ok(running and status == want and not answers(f":{port}") and "Traceback" not in err,
       f"{sig.name}: it ends with {status}, and so does the server")

# A command that is no server.
status, out, err = end(demo("/bin/false", PORT=str(free_port())))
ok(status == 1 and "did not start" in err, "a server that does not start")
status, out, err = end(demo("/nothing", PORT=str(free_port())))
ok(status == 1 and "run make first" in err, "no command at all")
finish()
