#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""Boots the distribution's kernel in QEMU with an initramfs made for the occasion, and runs programs in it.

  guest.py run   [OPTIONS] COMMAND         one command; its output, its exit status
  guest.py shell [OPTIONS]                 a prompt
  guest.py tests [OPTIONS] OUT TEST...     test programs; OUT/NAME.tap for each

The kernel is what scripts/kernel.sh finds (KERNEL=, KDIR=). Only one guest runs on a machine at a time: two would break
each other's timers. A run fails if the kernel complains (WARNING, BUG, oops, lockdep, KASAN, OOM kill), whatever the
command says: status 99. Status 124: it ran past --timeout; 125: the guest did not come up.
"""
import argparse
import fcntl
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
FAULT = re.compile(
    r"WARNING: |\bBUG:? |Oops|Kernel panic|general protection fault|INFO: (task|rcu|possible|lockdep)|rcu: INFO"
    r"|possible (circular|recursive|irq)|suspicious RCU|KASAN|KFENCE|UBSAN|KCSAN|kmemleak: [1-9]|Bad page"
    r"|unable to handle|Objects remaining|corruption|use-after-free|refcount_t|Out of memory|out of memory: "
    r"|oom-kill|scheduling while atomic|sleeping function|soft lockup|hard LOCKUP|leaked"
)
MODULES = ["nvme"]
APPEND = (
    "console=ttyS0 loglevel=6 panic=-1 oops=panic slub_debug=FZPU printk.devkmsg=on watchdog_thresh=60 "
    "rcupdate.rcu_cpu_stall_timeout=120 random.trust_cpu=on net.ifnames=0 nokaslr"
)
PASSED_ON = ("KVSLAB_LONG", "KVSLAB_SEED", "KVSLAB_SECONDS", "KVSLAB_TEST_POOL")


def say(text):
    print(f"vm: {text}", file=sys.stderr, flush=True)


def fail(text, status=125):
    say(text)
    sys.exit(status)


def link_or_copy(source, target):
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


class Kernel:
    """What scripts/kernel.sh found."""

    def __init__(self, folder):
        out = subprocess.run([f"{TOP}/scripts/kernel.sh", folder], stdout=subprocess.PIPE, text=True)
        if out.returncode:
            sys.exit(125)
        found = dict(word.split("=", 1) for word in shlex.split(out.stdout))
        self.image, self.modules, self.version = found["IMAGE"], found["MODULES"], found["VERSION"]
        self.vmlinux = found["VMLINUX"]
        self.dep = self.depends(folder)

    def depends(self, folder):
        """modules.dep: a module, then what it needs, deepest last."""
        text = f"{self.modules}/modules.dep"
        if not os.path.exists(text):
            # An image's package that was only unpacked: depmod reads the tree and writes elsewhere.
            out = f"{folder}/dep"
            os.makedirs(f"{out}/lib/modules", exist_ok=True)
            link = f"{out}/lib/modules/{self.version}"
            if not os.path.isdir(link):
                shutil.copytree(self.modules, link, symlinks=True, copy_function=link_or_copy)
            env = dict(os.environ, PATH=os.environ["PATH"] + ":/sbin:/usr/sbin")
            subprocess.run(["depmod", "-b", out, self.version], check=True, env=env)
            text = f"{link}/modules.dep"
        dep = {}
        with open(text) as f:
            for line in f:
                name, _, needs = line.partition(":")
                dep[self.name(name)] = [name] + needs.split()
        return dep

    @staticmethod
    def name(path):
        return re.sub(r"\.ko(\.\w+)?$", "", os.path.basename(path)).replace("-", "_")

    def load_order(self, names):
        """Files of the modules and of what they need, in the order of insmod."""
        order = []
        for name in names:
            for path in reversed(self.dep.get(name.replace("-", "_"), [])):
                if path not in order:
                    order.append(path)
        return order


class Root:
    """The guest's root folder, packed into an initramfs."""

    def __init__(self, folder):
        self.folder = folder
        for d in ("bin", "usr/bin", "w", "vm", "etc", "lib/modules", "proc", "sys", "dev", "tmp"):
            os.makedirs(f"{folder}/{d}")
        busybox = shutil.which("busybox") or "/bin/busybox"
        if not os.path.exists(busybox):
            fail("there is no busybox: apt-get install busybox-static (scripts/setup.sh does)")
        self.program(busybox, "bin/busybox")
        self.copy(f"{HERE}/init", "init")
        self.write("etc/passwd", "root:x:0:0::/w:/bin/sh\nalice:x:1001:1001::/:/bin/sh\nbob:x:1002:1002::/:/bin/sh\n")
        self.write("etc/group", "root:x:0:\nalice:x:1001:\nbob:x:1002:\n")
        for name in ("linux", "screen", "tmux", "vt220", "xterm", "xterm-256color"):  # for what is run at the prompt
            entry = f"lib/terminfo/{name[0]}/{name}"
            if os.path.exists(f"/{entry}"):
                self.copy(f"/{entry}", entry)
        self.write("etc/profile", "PS1='guest:\\w# '\n")

    def path(self, name):
        return f"{self.folder}/{name.lstrip('/')}"

    def write(self, name, text):
        with open(self.path(name), "w") as f:
            f.write(text)

    def copy(self, source, name):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        if not os.path.exists(self.path(name)):
            shutil.copy(source, self.path(name))

    def module(self, source, name):
        """A module, unpacked where the distribution packs them."""
        unpack = {".xz": ["xz", "-dc"], ".zst": ["zstd", "-dcq"], ".gz": ["gzip", "-dc"]}
        target = f"lib/modules/{name}.ko"
        tool = unpack.get(os.path.splitext(source)[1])
        if tool:
            with open(self.path(target), "wb") as f:
                subprocess.run(tool + [source], stdout=f, check=True)
        else:
            self.copy(source, target)
        return "/" + target

    def program(self, source, name):
        """A file or folder; with a program come the shared libraries that it wants."""
        if os.path.isdir(source):
            shutil.copytree(source, self.path(name), symlinks=False)
            return
        self.copy(source, name)
        with open(source, "rb") as f:
            if f.read(4) != b"\x7fELF":
                return
        out = subprocess.run(["ldd", source], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        for line in out.splitlines():
            library = re.search(r"(?:=> )?(/\S+) \(0x", line)
            if library:
                self.copy(library.group(1), library.group(1))
            elif "not found" in line:
                fail(f"{source} wants a library that is not here: {line.strip()}")

    def pack(self, out):
        names = subprocess.run(["find", "."], cwd=self.folder, stdout=subprocess.PIPE, check=True).stdout
        with open(out, "wb") as f:
            subprocess.run([self.path("bin/busybox"), "cpio", "-o", "-H", "newc"], cwd=self.folder, input=names,
                           stdout=f, stderr=subprocess.DEVNULL, check=True)


def kvm_works(tmp):
    """A /dev/kvm may be there and hang: let one sector run on it, for a second."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    code = b"\xb0\x10\xe6\xf4\xf4"  # mov al, 16; out 0xf4, al; hlt
    with open(f"{tmp}/sector", "wb") as f:
        f.write(code + bytes(510 - len(code)) + b"\x55\xaa")
    try:
        done = subprocess.run(
            ["qemu-system-x86_64", "-accel", "kvm", "-cpu", "max", "-display", "none", "-nodefaults", "-no-reboot",
             "-device", "isa-debug-exit,iobase=0xf4,iosize=1", "-drive", f"file={tmp}/sector,format=raw,if=ide"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=1)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 16 * 2 + 1


class Guest:
    def __init__(self, options, kernel, tmp):
        self.options, self.kernel, self.tmp = options, kernel, tmp
        self.console = f"{options.logs}/console.log"
        self.control = f"{tmp}/control"
        self.lines = []

    def root(self, command):
        root = Root(f"{self.tmp}/root")
        o = self.options
        wanted = []
        for path in self.kernel.load_order(MODULES + o.with_module):
            source = path if path.startswith("/") else f"{self.kernel.modules}/{path}"
            wanted.append(root.module(source, Kernel.name(path)))
        if o.ko:
            wanted.append(f"{root.module(o.ko, 'kvslab')} {o.parameters}".strip())
        root.write("vm/modules", "".join(f"{line}\n" for line in wanted))
        env = [f"export {name}={shlex.quote(os.environ[name])}\n" for name in PASSED_ON if name in os.environ]
        root.write("vm/env", "".join(env))
        path = os.environ["PATH"] + ":/sbin:/usr/sbin"
        for program in o.path + ([shutil.which("bpftool", path=path)] if shutil.which("bpftool", path=path) else []):
            root.program(program, f"usr/bin/{os.path.basename(program)}")
        for f in o.file:
            if not os.path.exists(f):
                fail(f"{f} is not there")
            root.program(f, f"w/{os.path.basename(f.rstrip('/'))}")
        if command is None:
            root.write("vm/shell", "")
        else:
            root.write("vm/command", command + "\n")
        root.pack(f"{self.tmp}/initramfs")
        shutil.rmtree(root.folder)

    def arguments(self, serial):
        o = self.options
        for name, size in (("disk", 256 << 20), ("slow", 256 << 20)):
            with open(f"{self.tmp}/{name}", "wb") as f:
                f.truncate(size)
        accel = o.accel or ("kvm" if not o.icount and kvm_works(self.tmp) else "tcg")
        self.accel = accel
        if accel == "tcg":
            accel = f"tcg,thread={'single' if o.icount else 'multi'}"
        # The unpacked kernel spares the guest seconds of unpacking (PVH entry).
        image = self.kernel.image if o.packed else self.kernel.vmlinux
        args = ["qemu-system-x86_64", "-machine", "q35", "-accel", accel, "-cpu", "max", "-m", o.memory,
                "-smp", "1" if o.icount else str(o.cpus), "-nodefaults", "-no-reboot", "-display", "none",
                "-kernel", image, "-initrd", f"{self.tmp}/initramfs", "-append", f"{APPEND} {o.append}".strip(),
                "-serial", f"file:{self.console}", "-serial", serial, "-serial", f"file:{self.control}",
                "-device", "nvme,id=nvme,serial=kvslab",
                "-drive", f"file={self.tmp}/disk,if=none,id=disk,format=raw,cache=unsafe",
                "-device", "nvme-ns,drive=disk,bus=nvme,nsid=1",
                # A disk that takes its time: half a second for each request.
                "-drive", f"file={self.tmp}/slow,if=none,id=slow,format=raw,cache=unsafe,throttling.iops-total=2",
                "-device", "nvme-ns,drive=slow,bus=nvme,nsid=2"]
        if o.icount:
            args += ["-icount", "shift=0,sleep=off"]
        return args

    def read(self, path):
        try:
            with open(path, errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def said(self):
        """What the guest said on its control line: whether it came up, and the command's status."""
        text = self.read(self.control)
        status = re.search(r"^status (\d+)", text, re.M)
        return "ready" in text, int(status.group(1)) if status else None

    def faults(self):
        return [line for line in self.read(self.console).splitlines() if FAULT.search(line)]

    def run(self, command, each_line):
        """Boots; each_line gets the command's output. Returns the status that the run deserves."""
        self.root(command)
        for path in (self.console, self.control):
            open(path, "w").close()
        began = time.monotonic()
        arguments = self.arguments("stdio")
        qemu = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)
        late = threading.Event()
        boot = threading.Timer(20 if self.accel == "kvm" else self.options.boot, lambda: self.said()[0] or (late.set(), qemu.kill()))
        limit = threading.Timer(self.options.timeout, lambda: (late.set(), qemu.kill()))
        boot.daemon = limit.daemon = True
        boot.start()
        limit.start()
        complaints = []
        threading.Thread(target=lambda: complaints.extend(qemu.stderr), daemon=True).start()
        try:
            for line in qemu.stdout:
                each_line(line.decode(errors="replace"))
            qemu.wait()
        finally:
            boot.cancel()
            limit.cancel()
            qemu.kill()
        self.seconds = time.monotonic() - began
        up, status = self.said()
        faults = self.faults()
        for line in complaints:
            say("qemu: " + line.decode(errors="replace").rstrip())
        if not up and self.accel == "kvm" and not self.options.accel:
            say("KVM runs a sector, but no kernel; emulating")
            self.options.accel = "tcg"
            return self.run(command, each_line)
        if not up and status is None:
            log = self.read(self.console).splitlines()[-15:]
            say(f"the guest did not come up within {self.seconds:.0f} s; the end of {self.console}:")
            print("\n".join(log), file=sys.stderr)
            return 125
        if faults:
            say(f"the kernel complained (all of it in {self.console}):")
            print("\n".join(faults[:20]), file=sys.stderr)
        if late.is_set():
            say(f"stopped after {self.options.timeout} s; --timeout gives it longer. The kernel's log: {self.console}")
            return 124
        if status is None:
            say(f"the guest ended before the command did; the kernel's log: {self.console}")
            return 99
        return 99 if faults else status

    def shell(self):
        self.root(None)
        say("booting; C-a x ends it at once")
        return subprocess.run(self.arguments("mon:stdio")).returncode


class Suite:
    """Makes a TAP file of each test out of what the guest's `suite` says."""

    def __init__(self, out):
        self.out, self.name, self.done = out, None, {}

    def line(self, line):
        line = line.rstrip("\r\n")
        word, _, rest = line.partition(" ")
        if word == "@begin":
            self.name, self.text, self.walk, self.left, self.status = rest, [], [], "", None
            self.began = time.monotonic()
        elif self.name is None:
            if word == "@rmmod":
                self.done["rmmod"] = (["# rmmod was refused at the end"], [], "", 1, 0)
            elif line:
                say(line)
        elif word == "@walk":
            self.walk.append(rest)
        elif word == "@left":
            self.left = rest
        elif word == "@end":
            seconds = time.monotonic() - self.began
            self.done[self.name] = (self.text, self.walk, self.left, int(rest.split()[-1]), seconds)
            bad = any(t.startswith("not ok") for t in self.text) or self.done[self.name][3]
            say(f"{self.name} {'FAILED' if bad else 'passed'} {seconds:.0f} s")
            for i, t in enumerate(self.text):
                if t.startswith("not ok"):
                    before = self.text[max(0, i - 5):i]
                    say("  " + "\n      ".join([w for w in before if w.startswith("#")] + [t]))
            self.name = None
        else:
            self.text.append(line)

    def write(self, tests, console):
        """The host has the last word: how the program ended, the debug walk, the kernel's log."""
        if self.name is not None:
            self.done[self.name] = (self.text, [], "", None, 0)
        for test in list(tests) + [t for t in self.done if t not in tests]:
            with open(f"{self.out}/{test}.tap", "w") as f:
                f.write(self.tap(test, console))

    def tap(self, test, console):
        if test not in self.done:
            return "not ok 1 - the guest did not get as far as this test\n1..1\n"
        text, walk, left, status, seconds = self.done[test]
        log = re.search(rf"kvslab-vm: begin {test}\n(.*?)(kvslab-vm: end {test}\n|\Z)", console, re.S)
        lines = [t for t in text if not re.match(r"1\.\.\d", t)]
        skip = next((t for t in text if t.startswith("1..0")), None)
        n = sum(1 for t in lines if re.match(r"(not )?ok\b", t))

        def point(good, what, why=()):
            nonlocal n
            n += 1
            lines.extend(f"# {w}" for w in why if not good)
            lines.append(f"{'' if good else 'not '}ok {n} - {what}")

        plan = next((int(t[3:]) for t in text if re.match(r"1\.\.\d+$", t)), None)
        if not skip:
            ended = "it did not end before the guest did" if status is None else f"status {status}"
            point(status == 0 or (status == 1 and any(t.startswith("not ok") for t in lines)),
                  "the program comes to its end", [ended])
            point(plan == n - 1, "and has made all its checks", [f"planned {plan}, made {n - 1}"])
        if walk:
            point(walk == ["ok"], "the debug walk finds nothing", walk)
        if not skip or left:
            point(not left, "no pool is left", [left])
        faults = [t for t in (log.group(1).splitlines() if log else []) if FAULT.search(t)]
        if not skip or faults:
            point(not faults, "the kernel has not complained", faults)
        if skip and n == 0:
            return skip + "\n"
        return "\n".join(lines + [f"1..{n}"]) + "\n"


def lock():
    """One guest at a time on this machine, whoever runs it."""
    old = os.umask(0)
    fd = os.open("/tmp/kvslab-guest.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    os.umask(old)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("waiting for another guest on this machine to end")
        fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("run", "shell", "tests"))
    p.add_argument("words", nargs="*", metavar="COMMAND | OUT TEST...")
    p.add_argument("--ko", help="the module; it is loaded")
    p.add_argument("--parameters", default="", help="of the module")
    p.add_argument("--file", action="append", default=[], help="a file or folder for the guest's working folder")
    p.add_argument("--path", action="append", default=[], help="a program for the guest's PATH")
    p.add_argument("--with-module", action="append", default=[], help="a module of the distribution's, by name")
    p.add_argument("--memory", default="1G")
    p.add_argument("--cpus", type=int, default=2)
    p.add_argument("--icount", action="store_true", help="one CPU, time is the count of its instructions")
    p.add_argument("--packed", action="store_true", help="boot the image as it is, not the vmlinux in it")
    p.add_argument("--accel", choices=("kvm", "tcg"), default=os.environ.get("VM_ACCEL") or None)
    p.add_argument("--append", default="", help="to the kernel's command line")
    p.add_argument("--boot", type=float, default=120, help="seconds until the guest must be up")
    p.add_argument("--timeout", type=float, default=600, help="seconds for all of it")
    p.add_argument("--limit", type=int, default=300, help="seconds for one test")
    p.add_argument("--logs", default=f"{TOP}/build/vm", help="where console.log goes")
    o = p.parse_intermixed_args()
    if not shutil.which("qemu-system-x86_64"):
        fail("there is no qemu-system-x86_64: apt-get install qemu-system-x86 (scripts/setup.sh does)")
    os.makedirs(o.logs, exist_ok=True)
    kernel = Kernel(f"{TOP}/build/kernel")
    # A stop by make or by timeout takes QEMU along.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="kvslab-vm-") as tmp:
        held = lock()
        guest = Guest(o, kernel, tmp)
        if o.what == "shell":
            return guest.shell()
        if o.what == "run":
            if len(o.words) != 1:
                fail("run takes one command, quoted", 2)
            return guest.run(o.words[0], lambda line: (sys.stdout.write(line), sys.stdout.flush()))
        out, tests = o.words[0], o.words[1:]
        os.makedirs(out, exist_ok=True)
        o.file += tests + [f"{HERE}/suite"]
        names = [os.path.basename(t) for t in tests]
        suite = Suite(out)
        status = guest.run(f"./suite {o.limit} {' '.join(names)}", suite.line)
        suite.write(names, guest.read(guest.console))
        outside = re.sub(r"kvslab-vm: begin (\S+)\n.*?(kvslab-vm: end \1\n|\Z)", "", guest.read(guest.console),
                         flags=re.S)
        faults = [line for line in outside.splitlines() if FAULT.search(line)]
        with open(f"{out}/guest.tap", "w") as f:
            f.writelines(f"# {line}\n" for line in faults)
            f.write(f"{'not ' if status in (124, 125) else ''}ok 1 - the guest came up and powered off by itself\n")
            f.write(f"{'not ' if faults else ''}ok 2 - the kernel has not complained before, between or after the tests\n")
            f.write("1..2\n")
        say(f"{guest.accel}, {guest.seconds:.0f} s from start to power-off")
        os.close(held)
        return 0


if __name__ == "__main__":
    sys.exit(main())
