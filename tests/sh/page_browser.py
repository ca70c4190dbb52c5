# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""A headless Chromium, spoken to over its DevTools pipe: no port, no driver program, standard library alone."""

import atexit
import base64
import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time

CHROMIUM = shutil.which("chromium")


class Browser:
    """One page of one browser. What it asks for and complains about is kept in .requests and .complaints."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="kvslab-chromium-")
        to_read, self.to = os.pipe()
        self.frm, to_write = os.pipe()

        def descriptors():  # the browser reads commands from 3 and writes answers to 4
            a, b = os.dup(to_read), os.dup(to_write)
            os.dup2(a, 3)
            os.dup2(b, 4)

        # Without a sandbox: tests run as root, and in containers. Names of hosts lead nowhere.
        self.p = subprocess.Popen(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--remote-debugging-pipe", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--disable-extensions", "--mute-audio", "--hide-scrollbars", f"--user-data-dir={self.folder}",
             "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False,
            preexec_fn=descriptors, start_new_session=True)
        os.close(to_read)
        os.close(to_write)
        atexit.register(self.close)
        self.ids = itertools.count(1)
        self.answers = {}
        self.changed = threading.Condition()
        self.requests, self.complaints, self.loads = [], [], 0
        self.session = None
        self.ended = False
        threading.Thread(target=self.read, daemon=True).start()
        target = self.command("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.command(domain + ".enable")

    def read(self):
        rest = b""
        while True:
            try:
                data = os.read(self.frm, 1 << 16)
            except OSError:
                data = b""
            if not data:
                break
            *messages, rest = (rest + data).split(b"\0")
            for m in messages:
                self.take(json.loads(m))
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def take(self, m):
        with self.changed:
            what, p = m.get("method"), m.get("params", {})
            if "id" in m:
                self.answers[m["id"]] = m
            elif what == "Network.requestWillBeSent":
                self.requests.append(p["request"]["url"])
            elif what == "Page.loadEventFired":
                self.loads += 1
            elif what == "Runtime.exceptionThrown":
                d = p["exceptionDetails"]
                self.complaints.append(d.get("exception", {}).get("description") or d["text"])
            elif what == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning", "assert"):
                self.complaints.append(" ".join(str(a.get("value", a.get("description"))) for a in p["args"]))
            elif what == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
                self.complaints.append(p["entry"]["text"] + " " + p["entry"].get("url", ""))
            self.changed.notify_all()

    def command(self, method, seconds=60, **params):
        m = {"id": next(self.ids), "method": method, "params": params}
        if self.session:
            m["sessionId"] = self.session
        os.write(self.to, json.dumps(m).encode() + b"\0")
        with self.changed:
            if not self.changed.wait_for(lambda: m["id"] in self.answers or self.ended, seconds) or self.ended:
                raise RuntimeError(f"the browser does not answer {method}")
            answer = self.answers.pop(m["id"])
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def go(self, url, seconds=60):
        before = self.loads
        error = self.command("Page.navigate", url=url).get("errorText")
        if error:
            raise RuntimeError(f"{url}: {error}")
        with self.changed:
            self.changed.wait_for(lambda: self.loads > before, seconds)

    def reload(self, seconds=60):
        before = self.loads
        self.command("Page.reload")
        with self.changed:
            self.changed.wait_for(lambda: self.loads > before, seconds)

    def js(self, text):
        """The value of an expression; promises are awaited."""
        r = self.command("Runtime.evaluate", expression=text, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in r:
            d = r["exceptionDetails"]
            raise RuntimeError(f"{text}: {d.get('exception', {}).get('description') or d['text']}")
        return r["result"].get("value")

    def text(self, id):
        return self.js(f"document.getElementById('{id}').textContent")

    def shown(self, id):
        return self.js(f"document.getElementById('{id}').checkVisibility()")

    def fill(self, id, value):
        """As by hand: with the events that go with it."""
        self.js(f"{{ const e = document.getElementById('{id}'); e.value = {json.dumps(value)};"
                "e.dispatchEvent(new Event('input', { bubbles: true })); }")

    def click(self, id):
        """A real click with the mouse in the middle of it."""
        x, y = self.js(f"{{ const e = document.getElementById('{id}'); e.scrollIntoView({{ block: 'center' }});"
                       "const r = e.getBoundingClientRect(); [r.x + r.width / 2, r.y + r.height / 2]; }")
        for kind in ("mousePressed", "mouseReleased"):
            self.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def wait(self, expression, seconds=30):
        """Until an expression is true; its value then, or at the end."""
        end = time.time() + seconds
        while True:
            v = self.js(expression)
            if v or time.time() > end:
                return v
            time.sleep(0.05)

    def screen(self, width, height, dark=False, phone=False):
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.command("Emulation.setEmulatedMedia",
                     features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def picture(self, path):
        data = base64.b64decode(self.command("Page.captureScreenshot", format="png", captureBeyondViewport=False)["data"])
        with open(path, "wb") as f:
            f.write(data)
        return data

    def close(self):
        if self.p.poll() is None:
            os.killpg(self.p.pid, signal.SIGKILL)
            self.p.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
