#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# --help, --version and the man page: the same options, every default, no complaint from mandoc.
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/tap.sh
[ -x "$kvslab" ] || skip_all "$kvslab is not built"

run "$kvslab" --version
[ "$status" -eq 0 ] && [ "$(cat "$tmp/out")" = "kvslab $(sed -n 's/^VERSION := //p' Makefile)" ]
ok $? "--version prints name and version"
run "$kvslab" --help
[ "$status" -eq 0 ] && ! grep -L -e run -e serve -e eval -e tokenize -e inspect -e pool -e top -e map -e trace -e bench "$tmp/out" | grep -q .
ok $? "--help names the commands"

for command in run serve eval tokenize inspect bench "bench serve" pool "pool create" "pool list" "pool stat" "pool set" \
	"pool destroy" "pool policy" trace top map export; do
	# shellcheck disable=SC2086 # one of them is two words
	run "$kvslab" $command --help
	ok "$status" "$command --help exits 0"
	cp "$tmp/out" "$tmp/help.$command"
	run "$kvslab" $command --version
	[ "$status" -eq 0 ] && grep -qx 'kvslab [0-9.]*' "$tmp/out"
	ok $? "$command --version"
done

python3 - "$tmp" >"$tmp/facts" <<'PY'
import re
import subprocess
import sys

tmp = sys.argv[1]
man = subprocess.run(["mandoc", "-Tascii", "docs/kvslab.1"], capture_output=True, text=True) \
    if subprocess.run(["which", "mandoc"], capture_output=True).returncode == 0 else None
page = re.sub(".\x08", "", man.stdout) if man else None


def entries(text):
    """option -> its words, as argp prints them"""
    found, name = {}, None
    for line in text.splitlines():
        m = re.match(r"\s+(?:-\w, |-\?, )?\s*--([a-z-]+)", line)
        if m:
            name = m.group(1)
            found[name] = line.strip()
        elif name and line.startswith("      "):
            found[name] += " " + line.strip()
        else:
            name = None
    return found


def fact(good, what):
    print("good" if good else "bad", what)


standard = {"help", "usage", "version"}
everything = {}
for command in ("run", "serve", "eval", "tokenize", "inspect", "bench", "bench serve", "pool", "pool create", "pool list",
                "pool stat", "pool set", "pool destroy", "pool policy", "trace", "top", "map", "export"):
    for name, words in entries(open(f"{tmp}/help.{command}").read()).items():
        if name in standard:
            continue
        words = re.sub(r"\s+", " ", words)
        everything.setdefault(name, []).append((command, words))
        once = name in ("prompt", "file", "interactive") and command == "run"
        fact(once or "(default: " in words or "(required)" in words, f"{command} --help tells the default of --{name}")
expected = {"model", "prompt", "file", "max-tokens", "temp", "top-k", "top-p", "seed", "ignore-eos", "chat", "json",
            "pool", "max-batch", "step-tokens", "threads", "kv-type", "page-tokens", "kernels", "mlock", "ctx", "ids", "special",
            "alias", "host", "port", "unix", "api-key", "api-key-file", "max-queue", "max-connections", "max-body",
            "grace", "ping", "loop", "log-file", "log-level", "url", "clients", "requests", "prompt-tokens", "tokens",
            "shared-prefix", "chat-template", "system", "interactive", "min-p", "repetition-penalty", "presence-penalty",
            "frequency-penalty", "logit-bias", "stop", "min", "max", "owner", "group", "mode", "numa", "cgroup", "low", "high", "force",
            "interval", "count", "age", "once", "sort", "from", "svg", "record", "pinned", "device-max", "listen"}
fact(set(everything) == expected, f"the options are those of the plan: {sorted(set(everything) ^ expected) or 'all'}")
if page:
    named = set(re.findall(r"--([a-z][a-z-]+)", page)) - standard
    fact(named == set(everything), f"the man page names the same: {sorted(named ^ set(everything)) or 'all'}")
    flat = re.sub(r"\s+", " ", page)
    for name, uses in everything.items():
        for command, words in uses:
            for default in re.findall(r"\(default: ([0-9][0-9.]*|auto|f16)\)", words):
                at = [m.start() for m in re.finditer(rf"--{name}=", flat)]
                fact(any(f"(default: {default})" in flat[a:a + 500] for a in at),
                     f"the man page has {command}'s --{name} default {default}")
PY
while read -r good words; do
	[ "$good" = good ]
	ok $? "$words"
done <"$tmp/facts"

if command -v mandoc >/dev/null; then
	run mandoc -Tlint docs/kvslab.1
	[ "$status" -eq 0 ] && [ ! -s "$tmp/out" ] && [ ! -s "$tmp/err" ]
	ok $? "mandoc finds nothing to say about the man page"
else
	skip "mandoc is missing" "mandoc finds nothing to say about the man page"
fi
finish
