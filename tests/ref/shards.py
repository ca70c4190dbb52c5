#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""TAP: a model in several files gives the logits of the same in one, whichever part is named; and what is said when
parts are missing, of another model, or renamed; the same for locked weights.

    shards.py"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import gguf

from accuracy import BUILD, ROOT

SOURCE = "build/models/q4_k-qwen2.gguf"


def split(path, out, tensors):
    """The model at @path in files of @tensors tensors: OUT-00001-of-0000N.gguf, .."""
    reader = gguf.GGUFReader(path)
    w = gguf.GGUFWriter(out, reader.fields["general.architecture"].contents(), split_max_tensors=tensors)
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        kind = field.types[0]
        w.add_key_value(key, field.contents(), kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    for t in reader.tensors:
        w.add_tensor(t.name, t.data, raw_dtype=t.tensor_type)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return sorted(out.parent.glob(out.stem + "-*.gguf"))


class Tap:
    def __init__(self, tmp):
        self.count = self.failed = 0
        self.tmp = tmp

    def ok(self, good, text):
        self.count += 1
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.count} - {text}", flush=True)

    def logits(self, path):
        """Their bytes, or what was complained about."""
        out = self.tmp / "logits"
        out.unlink(missing_ok=True)
        (self.tmp / "ids").write_text(" ".join(str(i * 7 % 250) for i in range(40)))
        command = [BUILD / "drivers" / "model_logits", path, "--ids", self.tmp / "ids", "--logits", out]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        return out.read_bytes() if done.returncode == 0 else done.stdout + done.stderr

    def refused(self, path, words, text):
        said = self.logits(path)
        good = isinstance(said, str) and all(word in said for word in words)
        self.ok(good, text)
        if not good:
            print(f"# {said if isinstance(said, str) else 'it was not refused'}")


def main():
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        tmp = pathlib.Path(folder)
        tap = Tap(tmp)
        whole = tap.logits(SOURCE)
        parts = split(SOURCE, tmp / "model.gguf", 9)
        n = len(parts)
        tap.ok(n >= 3 and isinstance(whole, bytes), f"a model in {n} files")
        for part in (parts[0], parts[1], parts[-1]):
            tap.ok(tap.logits(part) == whole, f"named by {part.name}: the same logits")
        other = split("build/models/q5-qwen3.gguf", tmp / "other.gguf", 9)
        (tmp / "alone.gguf").write_bytes(parts[0].read_bytes())
        tap.refused(tmp / "alone.gguf", ["-00001-of-0000", "rename"], "a part without the form of its name")
        (tmp / "b").mkdir()
        for part in parts:
            shutil.copy(part, tmp / "b")
        last = tmp / "b" / parts[-1].name
        last.unlink()
        tap.refused(tmp / "b" / parts[0].name, [parts[-1].name, "no such file"], "a part is missing")
        shutil.copy(parts[1], last)
        tap.refused(tmp / "b" / parts[0].name, [parts[-1].name, f"not part {n} of {n}"], "a part twice")
        last.write_bytes(parts[-1].read_bytes()[:-1000])
        tap.refused(tmp / "b" / parts[0].name, [parts[-1].name, "truncated"], "a part that is cut")
        shutil.copy(SOURCE, last)
        tap.refused(tmp / "b" / parts[0].name, [parts[-1].name, "not part"], "a whole model in place of a part")
        if len(other) == n:
            shutil.copy(other[-1], last)
            tap.refused(tmp / "b" / parts[0].name, ["tensor"], "a part of another model")
        done = subprocess.run([str(BUILD / "kvslab"), "inspect", str(parts[-1])], capture_output=True, text=True)
        tap.ok(done.returncode == 0 and f"{parts[0]}: GGUF" in done.stdout, "inspect names the file that it tells of")
        command = [str(BUILD / "kvslab"), "run", "-m", str(parts[0]), "-p", "x", "-n", "1"]
        done = subprocess.run([*command, "--mlock"], capture_output=True, text=True)
        tap.ok(done.returncode == 0, "locked weights")
        if os.geteuid():
            done = subprocess.run(["bash", "-c", 'ulimit -l 64; exec "$@"', "x", *command, "--mlock"], capture_output=True, text=True)
            tap.ok(done.returncode == 1 and "ulimit -l" in done.stderr, "locked weights beyond the limit")
        else:
            done = subprocess.run(["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock", "--", "bash", "-c",
                                   'ulimit -l 64; exec "$@"', "x", *command, "--mlock"], capture_output=True, text=True)
            tap.ok(done.returncode == 1 and "ulimit -l" in done.stderr, "locked weights beyond the limit")
            if done.returncode != 1:
                print(f"# {done.stderr}")
    print(f"1..{tap.count}")
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
