#!/usr/bin/env python3
"""Constructed hangs and waits that `usher top` must name: waiter, kind of object, and the holder wherever a word of the
lock names one; and nothing false.

  hangs.py --build BUILD                      the programs in C: glibc, static, four with musl
  hangs.py --build BUILD --of all             also those of Rust, Go, Java and CPython
  hangs.py --build BUILD --debian trixie      the same with the C library of another Debian release, which is unpacked in
                                              build/look-trixie, without root (tools/debian_root.sh)
  hangs.py --build BUILD --of glibc mutex-pi  these cases only

One line a case:

  named      kind, each waiter, and the holder where a word names it
  incomplete what is said is true, but something is missing
  FALSE      a sentence that is not true
  left out   a compiler or an interpreter is missing; never counts as named

The exit status is 1 if anything is FALSE or FAILED, or if a case is incomplete that is not in INCOMPLETE; 77 if the other
release cannot be loaded.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import look

READY_LIMIT = 120  # seconds until a program is in its state
SKIPPED = 77       # exit status, as CMake's tests have it
UNCHANGED = 13     # seconds of a look that must see that a word does not change for 10 s


# ---- the cases --------------------------------------------------------------------------------------------------------------

def to_holder(_, threads):
    """Each waiter waits for the thread with the role of the holder."""
    return next((t for t in threads if t["role"] == "holder"), None)


def to_next(waiter, threads):
    """Each waiter waits for the next one, the last one for the first."""
    waiters = [t for t in threads if t["role"] == "waiter"]
    return waiters[(waiters.index(waiter) + 1) % len(waiters)]


def along_chain(waiter, threads):
    """holder <- waiter 0 <- waiter 1"""
    at = threads.index(waiter)
    return threads[at - 1]


@dataclass
class Case:
    name: str
    what: tuple                # as in top.json; any of them
    kind: str = ""             # a regular expression for the whole of `kind`; None: not checked
    library: str = "libc"      # "libc": glibc or musl, whichever it is; None: not checked
    holder: str = "none"       # "word": the lock's word names it; "none": it does not; "process": the kernel names its process
    who: object = to_holder
    finding: str = ""          # what must be found
    seconds: float = 0         # of looking, if it must be long
    row: bool = False          # of the 24 of the table
    needs: tuple = ()          # functions besides the program's own that must be on a waiter's stack, any of them
    other_waiters: bool = False  # the process has threads of its own, about which nothing is checked


LARGEST = 56  # bytes of a lock; the address in the report may be that of the futex in it
NOT_SAID = ("futex", "unknown")  # kinds that claim nothing

PROGRAMS_IN_C = [
    Case("mutex-normal", ("mutex",), holder="word", row=True),
    Case("mutex-recursive", ("mutex",), "recursive", holder="word", row=True),
    Case("mutex-errorcheck", ("mutex",), "error-?check(ing)?", holder="word", row=True),
    Case("mutex-adaptive", ("mutex",), "adaptive", holder="word", row=True),
    Case("mutex-pi", ("mutex",), ".*(priority-inherit|PI).*", holder="word", row=True),
    Case("mutex-robust", ("mutex",), "(?=.*robust)(?!.*shared).*", holder="word", row=True),
    Case("mutex-pi-robust", ("mutex",), "(?=.*robust)(?=.*inherit)(?!.*shared).*", holder="word"),
    Case("mutex-shared", ("mutex",), ".*shared.*", holder="word", row=True),
    Case("crowd", ("mutex",), holder="word"),
    Case("deadlock-2", ("mutex",), holder="word", who=to_next, finding="circle"),
    Case("deadlock-3", ("mutex",), holder="word", who=to_next, finding="circle"),
    Case("deadlock-self", ("mutex",), holder="word", who=to_next, finding="circle"),
    Case("chain", ("mutex",), holder="word", who=along_chain),
    Case("lost-wakeup", ("mutex",), finding="lost_wake_up", seconds=UNCHANGED),
    Case("event", NOT_SAID, None, library=None),
    Case("rwlock-writer", ("rwlock",), row=True),
    Case("rwlock-reader", ("rwlock",), holder="word", row=True),
    Case("condition-wait", ("condition",), row=True),
    Case("condition-timedwait", ("condition",)),
    Case("condition-relock", ("mutex",), holder="word"),
    Case("semaphore", ("semaphore",), row=True),
    Case("join", ("join",), None, holder="word", row=True),
    Case("barrier", ("barrier",), row=True),
    Case("once", ("once",), None, row=True),
    Case("event-in-once", NOT_SAID, None, library=None),
    Case("flock", ("file_lock",), None, library=None, holder="process", row=True),
    Case("fcntl", ("file_lock",), None, library=None, holder="process"),
    Case("pipe", ("call",), ".*pipe.*", library=None, row=True),
]
GENERATED = Case("generated", ("mutex",), holder="word", row=True)
STATIC = [Case(f"static-{c.name}", c.what, c.kind, c.library, c.holder, c.who, c.finding, row=c.name == "mutex-normal")
          for c in PROGRAMS_IN_C if c.name in ("mutex-normal", "rwlock-reader", "condition-wait", "semaphore", "join", "deadlock-2")]
RUST = [
    Case("rust-mutex", ("mutex",), None, "Rust std", row=True),
    Case("rust-condvar", ("condition",), None, "Rust std", row=True),
    Case("rust-rwlock", ("rwlock",), None, "Rust std"),
]
PARKING_LOT = [
    Case("parking-lot-mutex", ("mutex",), None, "parking_lot"),
    Case("parking-lot-condvar", ("condition",), None, "parking_lot"),
    Case("parking-lot-rwlock", ("rwlock",), None, "parking_lot"),
]
# Of runtimes `kind` has the object in words; `what` may be that of the C library's object below.
GO = [
    Case("go-channel", ("futex", "call", "condition"), ".*chan.*", "Go", row=True, needs=("runtime.futex", "runtime.futex.abi0"), other_waiters=True),
    Case("go-mutex", ("futex", "mutex", "semaphore"), ".*([Mm]utex|semaphore).*", "Go", row=True, needs=("runtime.futex", "runtime.futex.abi0"), other_waiters=True),
]
JAVA = [Case("java-monitor", ("futex", "mutex", "condition"), "(?=.*monitor)(?!.*Object.wait).*", "Java", row=True, needs=("ObjectMonitor::enter",), other_waiters=True)]
PYTHON = [Case("python-lock", ("futex", "mutex", "semaphore"), ".*(lock|PyMutex|[Pp]ark).*", "CPython", row=True,
               needs=("PyThread_acquire_lock_timed", "_PyMutex_LockTimed", "_PySemaphore_Wait", "_PyParkingLot_Park"), other_waiters=True)]
# musl: the words of a normal mutex, of a read-write lock and of a joined thread do not name their holder.
OF_MUSL = {"mutex-normal": {"holder": "none", "row": True}, "mutex-recursive": {"row": True}, "condition-wait": {"row": True},
           "semaphore": {"row": True}, "mutex-shared": {"holder": "none"}, "rwlock-reader": {"holder": "none"}, "join": {"holder": "none"},
           **{name: {"kind": "recursive"} for name in ("deadlock-2", "deadlock-3", "chain")}}
NOT_OF_MUSL = ("crowd", "mutex-adaptive", "lost-wakeup", "deadlock-self", "condition-relock")
# Not known so far to be possible: (variant, case). The reason stands beside each.
INCOMPLETE = {
    ("go", "go-channel"): "goroutines are not read, only threads",
    ("go", "go-mutex"): "as go-channel",
    ("rust", "rust-condvar"): "the tables of some compilers lose the caller of Condvar::wait",
    ("java_in_root", "java-monitor"): "in another root directory the functions of libjvm.so get no names",
    # musl's library has no unwind tables and no names of its inner functions, and the words lie on the waiters' stacks.
    ("musl", "condition-timedwait"): "the stack ends before pthread_cond_timedwait",
    ("musl", "barrier"): "the stack of some waiters ends before pthread_barrier_wait",
    ("musl", "once"): "the stack ends before pthread_once, and its word is any word of value 3",
}


# ---- the programs -----------------------------------------------------------------------------------------------------------

class LeftOut(Exception):
    """A tool is missing; the text says which."""


class NotMade(Exception):
    """A program could not be compiled."""


@dataclass
class Variant:
    name: str
    cases: list
    command: object  # case name -> the command's words; may raise LeftOut
    env: dict = field(default_factory=dict)
    libc: str = "glibc"
    has_tables: bool = True  # unwind tables of all code: without them functions that are missing on a stack are only mentioned


class Maker:
    """Compiles the programs into a folder, each once."""

    def __init__(self, options, folder):
        self.options, self.folder, self.done, self.mutex = options, Path(folder), {}, threading.Lock()

    def make(self, name, tool, *words, has_own_output=False, env=None):
        """Returns the path of the made program."""
        with self.mutex:
            if name not in self.done:
                self.done[name] = self.compile(tool, words if has_own_output else [*words, "-o", str(self.folder / name)], env)
        if self.done[name]:
            raise self.done[name]
        return str(self.folder / name)

    @staticmethod
    def compile(tool, words, env):
        if not shutil.which(tool):
            return LeftOut(f"no {tool}")
        try:
            done = subprocess.run([tool, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=300, check=False, cwd=look.SOURCES, env={**os.environ, **(env or {})})
        except subprocess.TimeoutExpired as late:
            return NotMade(str(late))
        said = f"{tool}: {' '.join((done.stderr or done.stdout).split())[:200]}"
        # Only cargo may fail for a reason that is not ours: it loads crates.
        return None if done.returncode == 0 else LeftOut(said) if tool == "cargo" else NotMade(said)

    def c(self, name, source, *more, compiler="cc"):
        return self.make(name, compiler, "-std=gnu11", "-O2", "-g", source, *more, "-pthread")

    def parking_lot(self):
        """Cargo gets the crates, and writes a lock file beside a copy of the sources; without a network the cases are left out."""
        folder = self.folder / "parking_lot"
        shutil.copytree(look.SOURCES / "parking_lot", folder / "source", dirs_exist_ok=True)
        shutil.copy(look.SOURCES / "ready.rs", folder)
        self.make("parking_lot/release/waits_parking_lot", "cargo", "build", "--quiet", "--release", "--manifest-path",
                  str(folder / "source/Cargo.toml"), "--target-dir", str(folder), has_own_output=True)
        return str(folder / "release" / "waits_parking_lot")

    def go_program(self):
        return self.make("waits-go", "go", "build", "-o", str(self.folder / "waits-go"), "waits.go",
                         has_own_output=True, env={"GO111MODULE": "off"})


# In a PID namespace of its own, as in a container: the words have the ids of that namespace.
IN_NAMESPACE = ("mutex-recursive", "mutex-pi", "mutex-shared", "deadlock-2", "rwlock-reader", "join")
OTHER_PACKAGES = ["libc6", "libc6-dev", "libgcc-s1", "libstdc++6", "zlib1g", "python3"]
FRAMED = "-fno-omit-frame-pointer"


def of_this_system(maker):
    def in_c(case):
        return [maker.c("waits", "waits.c"), case]

    yield Variant("glibc", PROGRAMS_IN_C, in_c)
    yield Variant("generated", [GENERATED], lambda _: [maker.c("generated", "generated.c", FRAMED)])
    yield Variant("static", STATIC, lambda case: [maker.c("waits-static", "waits.c", "-static"), case.removeprefix("static-")], has_tables=False)
    yield Variant("namespace", [replace(c, row=False) for c in PROGRAMS_IN_C if c.name in IN_NAMESPACE], lambda case: in_namespace([maker.c("waits", "waits.c"), case]))
    yield Variant("musl", musl_cases(), lambda case: [maker.c("waits-musl", "waits.c", compiler="musl-gcc"), case], libc="musl", has_tables=False)
    yield Variant("rust", RUST, lambda case: [rust(maker, "waits-rust"), case], libc="")
    yield Variant("parking_lot", PARKING_LOT, lambda case: [maker.parking_lot(), case], libc="")
    yield Variant("go", GO, lambda case: [maker.go_program(), case], libc="")
    yield Variant("java", JAVA, lambda _: java_program(maker))
    yield Variant("python", PYTHON, lambda _: [sys.executable, str(look.SOURCES / "waits.py")])


def java_program(maker):
    maker.make("Waits.class", "javac", "-d", str(maker.folder), "Waits.java", has_own_output=True)
    java = shutil.which("java")
    if not java:
        raise LeftOut("no java")
    return [str(Path(java).resolve()), "-Xmx64m", "-cp", str(maker.folder), "Waits"]


def in_root(root, command, folder):
    """Returns the command in another root directory, which has this system's Java and the folder at their own paths. Java
    finds its files by the path of its program, so the loader of the other system cannot start it."""
    apart = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    if subprocess.run([*apart, "true"], capture_output=True, timeout=60, check=False).returncode != 0:
        raise LeftOut("no right to give Java another root directory")
    home = str(Path(command[0]).parents[1])
    script = "set -e; root=$1; shift; mkdir -p $root/proc; mount -t proc proc $root/proc\n"
    for mounted in (home, *(p for p in map(str, Path("/etc").glob("java-*"))), str(folder)):
        script += f"mkdir -p $root{mounted}; mount --bind {mounted} $root{mounted}\n"
    return [*apart, "sh", "-c", script + 'exec chroot $root "$@"', "sh", str(root), *command]


def in_namespace(command):
    apart = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    if subprocess.run([*apart, "true"], capture_output=True, timeout=60, check=False).returncode != 0:
        raise LeftOut("no right to make a PID namespace")
    return [*apart, *command]


def rust(maker, name, *more):
    return maker.make(name, "rustc", "--edition", "2021", "-g", "-O", *more, "waits.rs")


def musl_cases():
    return [replace(c, **{"row": False, **OF_MUSL.get(c.name, {})}) for c in PROGRAMS_IN_C if c.name not in NOT_OF_MUSL]


def other_system(release):
    """Returns the folder of another Debian release, unpacked; None: it cannot be loaded."""
    root = look.TREE / "build" / f"look-{release}"
    root.parent.mkdir(exist_ok=True)
    try:
        architecture = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, timeout=60, check=True).stdout.strip()
        done = subprocess.run([look.TREE / "tools" / "debian_root.sh", release, architecture, root, *OTHER_PACKAGES], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=600, check=False)
    except (OSError, subprocess.SubprocessError) as why:
        print(f"left out: Debian {release}: {why}")
        return None
    if done.returncode != 0:
        print(f"left out: Debian {release}: {' '.join((done.stdout + done.stderr).split())[:300]}")
        return None
    return root


def of_other_system(maker, root):
    """The same programs with the C library of another release: its loader is their interpreter. Go has no C library."""
    loaders = sorted(root.glob("lib64/ld-linux*.so.*")) + sorted(root.glob("lib/ld-linux*.so.*"))
    folders = sorted(str(p.parent) for p in root.glob("usr/lib/*/libc.so.6"))
    linked = [f"-Wl,--dynamic-linker={loaders[0]}", f"-Wl,-rpath,{folders[0]}"]
    python = root / "usr" / "bin" / "python3"

    def static(case):
        if not (Path(folders[0]) / "libc.a").exists():
            raise LeftOut(f"no libc.a in {root.name}: libc6-dev")
        return [maker.c("waits-static-other", "waits.c", "-static", f"-B{folders[0]}", f"-L{folders[0]}"), case.removeprefix("static-")]

    def of_python(_):
        if not python.exists():
            raise LeftOut(f"no python3 in {root.name}")
        return [str(loaders[0]), "--library-path", folders[0], str(python), str(look.SOURCES / "waits.py")]

    def java(_):
        return in_root(root, java_program(maker), maker.folder)

    yield Variant("glibc", PROGRAMS_IN_C, lambda case: [maker.c("waits-other", "waits.c", *linked), case])
    yield Variant("generated", [GENERATED], lambda _: [maker.c("generated-other", "generated.c", FRAMED, *linked)])
    yield Variant("static", STATIC, static, has_tables=False)
    yield Variant("rust", RUST, lambda case: [rust(maker, "waits-rust-other", *(f"-Clink-arg={word}" for word in linked)), case], libc="")
    yield Variant("go", GO, lambda case: [maker.go_program(), case], libc="")
    yield Variant("java_in_root", JAVA, java)
    yield Variant("python", PYTHON, of_python, env={"PYTHONHOME": str(root / "usr")})


# ---- running them -----------------------------------------------------------------------------------------------------------

class Running:
    """A program that is in its state, or the reason why it is not."""

    def __init__(self, variant, case, popen, trouble=""):
        self.variant, self.case, self.popen, self.trouble, self.said = variant, case, popen, trouble, None

    @property
    def name(self):
        return f"{self.variant.name}: {self.case.name}"

    def await_ready(self):
        if self.trouble:
            return
        limit = threading.Timer(READY_LIMIT, self.end)
        limit.start()
        line = self.popen.stdout.readline()
        limit.cancel()
        try:
            self.said = json.loads(line)
        except ValueError:
            self.trouble = f"the program does not get into its state: {line.strip()!r}"
            return
        if self.variant.name != "namespace":  # of a namespace only the process knows its own threads' ids
            self.await_sleep()

    def pid(self):
        """The id of the process here: that of unshare's child, if it is in a namespace."""
        if self.variant.name != "namespace":
            return self.said["pid"]
        return int(Path(f"/proc/{self.popen.pid}/task/{self.popen.pid}/children").read_text(encoding="ascii").split()[0])

    def await_sleep(self):
        """Waits until each waiter was found in the same call twice; without /proc/PID/syscall the program's word counts."""
        waiters = [t for t in self.said["threads"] if t["role"] == "waiter"]
        until = time.monotonic() + READY_LIMIT
        while time.monotonic() < until:
            first = [call_of(t) for t in waiters]
            time.sleep(0.05)
            if first == [call_of(t) for t in waiters] and "running" not in first:
                return
        self.trouble = "a waiter does not sleep"

    def end(self):
        if self.popen and self.popen.poll() is None:
            try:
                os.killpg(self.popen.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def close(self):
        self.end()
        if self.popen:
            self.popen.wait(30)
            self.popen.stdout.close()


def call_of(thread):
    try:
        return Path(f"/proc/{thread['pid']}/task/{thread['tid']}/syscall").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def start(variant, case):
    try:
        command = variant.command(case.name)
    except LeftOut as why:
        return Running(variant, case, None, f"left out: {why}")
    except NotMade as why:
        return Running(variant, case, None, f"the program cannot be made: {why}")
    popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True,
                             env={**os.environ, **variant.env})
    return Running(variant, case, popen)


# ---- checking a report ------------------------------------------------------------------------------------------------------

@dataclass
class Verdict:
    false: list = field(default_factory=list)
    missing: list = field(default_factory=list)
    kind: bool = False     # of each waiter
    holder: bool = None    # None: no word names it
    stack: bool = False
    absent: list = field(default_factory=list)  # functions that are not on a stack
    as_said: str = ""

    def word(self):
        return "FALSE" if self.false else "incomplete" if self.missing else "named"


def own_ids(report):
    """Returns the ids in the process's own PID namespace, by the ids here."""
    return {t["tid"]: t["own_tid"] for t in report.get("threads", []) if "own_tid" in t}


def check(case, libc, said, report, ids):
    """Compares a report with what the program said about itself."""
    v = Verdict()
    threads = {t["tid"]: t for t in said["threads"]}
    waiters = [t for t in said["threads"] if t["role"] == "waiter"]
    found = {}
    for wait in report["waits"]:
        for waiter in wait["waiters"]:
            if look.own(waiter) in threads or not case.other_waiters:
                check_waiter(case, libc, said, threads, wait, waiter, v)
            if threads.get(look.own(waiter), {}).get("role") == "waiter":
                found[look.own(waiter)] = (wait, waiter)
    missing = [str(w["tid"]) for w in waiters if w["tid"] not in found]
    if missing:
        v.missing.append(f"waiter {', '.join(missing)} not found")
    v.kind = not missing and all(is_named(case, libc, found[w["tid"]][0]) for w in waiters)
    if found and not v.kind:
        v.missing.append("kind not named")
    v.as_said = "; ".join(sorted({sentence(wait) for wait, _ in found.values()}))
    check_stacks(case, said, found, v)
    if case.holder == "word":
        v.holder = not missing and all(found[w["tid"]][0]["holder"] is not None for w in waiters)
        if found and not v.holder:
            v.missing.append("holder not named")
    check_findings(case, said, report, ids, v)
    return v


def sentence(wait):
    words = [wait["library"] or "", wait["kind"] or "", wait["what"]]
    text = " ".join(filter(None, words)) + f" ({wait['known_by']})"
    return text + (f", held by {wait['holder']['tid']}" if wait["holder"] else "")


def is_named(case, libc, wait):
    if wait["what"] not in case.what:
        return False
    if case.kind is not None and not re.fullmatch(case.kind, wait["kind"] or ""):
        return False
    return case.library is None or case.library == "libc" or wait["library"] == case.library


def check_waiter(case, libc, said, threads, wait, waiter, v):
    """Adds what is false about one waiter of one wait."""
    tid = look.own(waiter)
    thread = threads.get(tid)
    if thread is None or thread["role"] != "waiter":
        # The main thread and the holders of a program in C sleep in pause or read.
        if not case.other_waiters and wait["what"] not in ("call", "unknown"):
            v.false.append(f"thread {tid} waits for no {wait['what']}")
        return
    if wait["what"] not in case.what and wait["what"] not in NOT_SAID:
        v.false.append(f"{tid} does not wait for a {wait['what']}")
    if case.library == "libc" and wait["library"] and wait["library"] != libc:
        v.false.append(f"the object is not {wait['library']}'s")
    if case.library == "libc" and wait["kind"] and wait["what"] in case.what and case.kind is not None and not re.fullmatch(case.kind, wait["kind"]):
        v.false.append(f"the {wait['what']} is not {wait['kind']}")
    if case.library == "libc" and case.what != ("join",) and wait["address"] and wait["what"] in case.what and case.who is to_holder:
        if said["object"] != "0x0" and not 0 <= int(wait["address"], 16) - int(said["object"], 16) < LARGEST:
            v.false.append(f"the object is at {said['object']}, not {wait['address']}")
    if case.finding != "lost_wake_up" and case.holder == "word" and wait["free"]:
        v.false.append("the lock is not free")
    check_holder(case, said, thread, wait["holder"], v)


def check_holder(case, said, waiter, holder, v):
    if holder is None:
        return
    wanted = case.who(waiter, said["threads"])
    right = [wanted["tid"]] if wanted else []
    if case.holder == "process" and wanted:
        right.append(wanted["pid"])  # the kernel names the process only
    if look.own(holder) not in right:
        v.false.append(f"{look.own(holder)} is not the holder" + (f", {wanted['tid']} is" if wanted else ": there is none"))
    elif (look.own(holder, "pid") or said["pid"]) != wanted["pid"]:
        v.false.append(f"the holder's process is {wanted['pid']}, not {holder['pid']}")


def check_stacks(case, said, found, v):
    for tid, (wait, waiter) in found.items():
        thread = next(t for t in said["threads"] if t["tid"] == tid)
        functions = thread["function"].split() if not case.other_waiters else []
        absent = [f for f in functions if not look.has_function(waiter["stack"], f)]
        if case.needs and not any(look.has_function(waiter["stack"], f) for f in case.needs):
            absent.append(" or ".join(case.needs))
        if absent:
            v.absent.append(f"{', '.join(absent)} not on the stack of waiter {tid}")
        holder = wait["holder"]
        if holder and case.holder == "word" and not case.other_waiters:
            of_holder = next((t for t in said["threads"] if t["tid"] == look.own(holder)), None)
            # Another process's stack is not the process's that is looked at.
            if of_holder and of_holder["pid"] == said["pid"] and not look.has_function(holder["stack"], of_holder["function"]):
                v.absent.append(f"{of_holder['function']} not on the stack of holder {of_holder['tid']}")
    v.absent = list(dict.fromkeys(v.absent))
    v.stack = bool(found) and not v.absent


def check_findings(case, said, report, ids, v):
    tids = [t["tid"] for t in said["threads"]]
    circle = sorted(t["tid"] for t in said["threads"] if t["role"] == "waiter")
    for finding in report["findings"]:
        what, named = finding["what"], sorted(ids.get(tid, tid) for tid in finding["threads"])
        if what == "chain":
            if not case.other_waiters and not set(named) <= {*tids, said["pid"]}:
                v.false.append(f"a chain of {named}")
        elif what != case.finding:
            v.false.append(f"there is no {what}: {finding['text']!r}")
        elif what == "circle" and sorted(set(named)) != circle:
            v.false.append(f"the circle is {circle}, not {named}")
    for chain in report["chains"]:
        check_chain(case, said, chain, v)
    if case.finding and case.finding not in [f["what"] for f in report["findings"]]:
        v.missing.append(f"{case.finding} not found")


def check_chain(case, said, chain, v):
    if chain["circle"] and case.finding != "circle":
        v.false.append("there is no circle")
    links = [look.own(link) for link in chain["links"]]
    threads = {t["tid"]: t for t in said["threads"]}
    for tid, following in zip(links, links[1:]):
        if case.other_waiters and tid not in threads:
            continue
        thread = threads.get(tid)
        wanted = case.who(thread, said["threads"]) if thread and thread["role"] == "waiter" else None
        if not wanted or following not in (wanted["tid"], wanted["pid"]):
            v.false.append(f"{tid} does not wait for {following}")


def check_page(case, said, page, ids, v):
    v.false += [f"page: {error}" for error in look.errors_of_page(page)]
    shown = set(re.findall(r"\d+", page))
    here = {own: tid for tid, own in ids.items()}

    def is_shown(tid):
        return str(tid) in shown or str(here.get(tid)) in shown

    absent = [str(t["tid"]) for t in said["threads"] if t["role"] == "waiter" and not is_shown(t["tid"])]
    if absent:
        v.missing.append(f"page: no waiter {', '.join(absent)}")
    if v.holder and not case.other_waiters:
        holders = {case.who(t, said["threads"])["tid"] for t in said["threads"] if t["role"] == "waiter"}
        if lost := [str(h) for h in sorted(holders) if not is_shown(h)]:
            v.missing.append(f"page: no holder {', '.join(lost)}")


# ---- the test ---------------------------------------------------------------------------------------------------------------

def judge(top, running, schema, keep):
    """Returns (word, verdict or None, text) of one case."""
    if running.trouble:
        left_out = running.trouble.startswith("left out")
        return ("left out" if left_out else "FAILED"), None, running.trouble.removeprefix("left out: ")
    done = look.look_at(top, running.pid(), running.case.seconds)
    if keep:
        file = Path(keep) / re.sub(r"[^\w.-]+", "_", running.name)
        Path(f"{file}.json").write_text(json.dumps({"said": running.said, "report": done.report}, indent=1), encoding="utf-8")
        Path(f"{file}.txt").write_text(done.page + done.error, encoding="utf-8")
    if done.trouble or done.status != 0:
        return "FAILED", None, f"{done.trouble} (status {done.status}): {' '.join(done.error.split())[:200]}"
    ids = own_ids(done.report)
    verdict = check(running.case, running.variant.libc, running.said, done.report, ids)
    check_page(running.case, running.said, done.page, ids, verdict)
    if schema:
        verdict.false += [f"schema: {e.json_path}: {e.message[:100]}" for e in list(schema.iter_errors(done.report))[:3]]
    if running.variant.has_tables:
        verdict.missing += verdict.absent
    return verdict.word(), verdict, "; ".join(dict.fromkeys(verdict.false + verdict.missing + verdict.absent))


def run(options, variants):
    top, schema = look.top_command(options.build), look.schema()
    wanted = [(v, c) for v in variants for c in v.cases
              if (not options.cases or c.name in options.cases) and (options.of == "all" or v.name in options.of.split(","))
              and not (options.short and c.seconds)]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        return list(pool.map(lambda vc: one_case(top, vc, schema, options.keep), wanted))


def one_case(top, variant_and_case, schema, keep):
    """Each program runs for its own look only, so that a slow machine neither has them all at once nor ends them too early."""
    running = start(*variant_and_case)
    try:
        running.await_ready()
        return running, judge(top, running, schema, keep)
    finally:
        running.close()


def expected(running, word):
    return word in ("named", "left out") or (word == "incomplete" and (running.variant.name, running.case.name) in INCOMPLETE)


def print_lines(lines, quiet):
    for running, (word, verdict, text) in lines:
        said = f"   {verdict.as_said}" if verdict and not quiet else ""
        print(f"{word:10} {running.name:28} {text}{said}".rstrip())


def print_counts(lines, heading):
    rows = [(r, word, v) for r, (word, v, _) in lines if r.case.row and r.variant.name != "musl"]
    if rows:
        print(f"{heading}: {counts(rows)}")
    if musl := [(r, word, v) for r, (word, v, _) in lines if r.case.row and r.variant.name == "musl"]:
        print(f"musl: {counts(musl)}")
    words = collections.Counter(word for _, (word, _, _) in lines)
    print("all cases: " + ", ".join(f"{n} {word}" for word, n in words.most_common()))


def counts(rows):
    with_holder = [v for _, _, v in rows if v and v.holder is not None]
    return (f"{sum(bool(v and v.kind and not v.false) for _, _, v in rows)} of {len(rows)} kinds and waiters named, "
            f"{sum(v.holder for v in with_holder)} of {len(with_holder)} holders that a word names, "
            f"{sum(bool(v and v.stack) for _, _, v in rows)} of {len(rows)} stacks, "
            f"{sum(len(v.false) for _, _, v in rows if v)} false sentences, {sum(word == 'left out' for _, word, _ in rows)} left out")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=look.TREE / "build" / "release")
    parser.add_argument("--of", default="glibc,generated,static,namespace,musl", help="variants, or all")
    parser.add_argument("--debian", metavar="RELEASE", help="with the C library of another release")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--short", action="store_true", help="without the cases that are looked at for long")
    parser.add_argument("--keep", metavar="FOLDER", help="write each report and page there")
    parser.add_argument("--quiet", action="store_true", help="without what was said")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    if options.keep:
        Path(options.keep).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="usher-waits-") as folder:
        maker = Maker(options, folder)
        root = other_system(options.debian) if options.debian else None
        if options.debian and not root:
            return SKIPPED
        lines = run(options, list(of_other_system(maker, root) if root else of_this_system(maker)))
    print_lines(lines, options.quiet)
    print_counts(lines, f"glibc of {options.debian}" if options.debian else " ".join(platform.libc_ver()))
    bad = [running.name for running, (word, _, _) in lines if not expected(running, word)]
    if not lines:
        print("no case of this name", file=sys.stderr)
    return 1 if bad or not lines else 0


if __name__ == "__main__":
    sys.exit(main())
