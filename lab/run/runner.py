"""One run of a program: the place (this system, or the root of another release of Debian), the scratch folder, a server with
its load, the figure in the output."""

import contextlib
import glob
import os
import re
import select
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import catalog
import harness
from harness import TREE, Process, clean_environment

READY_WITHIN = 20  # seconds, for a server
END_WITHIN = 30    # for a server to end
SYSTEM = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"]


class Failed(Exception):
    """A run without a figure; the text is the reason."""


def preloaded(library, lock, extra=None):
    """Returns the environment of a program. Lock None: without the library; "": with the library, no lock selected."""
    env = clean_environment(extra)
    if lock is not None:
        env["LD_PRELOAD"] = ":".join(filter(None, [catalog.library_with(lock, library), env.get("LD_PRELOAD")]))
    if lock:
        env["USHER_RWLOCK" if lock in catalog.read_write_names() else "USHER_LOCK"] = lock
    return env


def figure(pattern, text):
    """Returns the number that a pattern finds in an output."""
    found = re.search(pattern, text, re.M)
    if not found:
        raise Failed("no figure in its output")
    return float(found.group(1))


def pair_ns(build, kind, iterations, batches, env, prefix=()):
    """Returns the nanoseconds of an uncontended lock and unlock, of the fastest batch."""
    outcome = harness.run([*prefix, build.program("pair_cost"), *harness.pair_options(kind), "--iterations", str(iterations),
                           "--batches", str(batches)], 30, env, backtrace=False)
    if not outcome.ok:
        raise Failed(outcome.trouble())
    return figure(r"nanoseconds a pair: ([\d.]+)", outcome.stdout)


# ---- where programs run ----------------------------------------------------------------------------------------------

class Place:
    """This system; or with `root`, another release of Debian in that folder. `folders` of programs and `library` are
    paths inside it."""

    def __init__(self, build, folders=None, root=None, library=None):
        self.build, self.root, self.library = build, root, library or build.library
        # Debian's programs are found before programs of the same name that somebody has installed elsewhere.
        self.path = ":".join(map(str, folders or [build.folder / "bin", build.programs, *SYSTEM,
                                                  *filter(None, [os.environ.get("PATH")])]))
        self.programs = TREE / "lab" / "programs"
        self.carried = None  # a folder of libraries that programs of other packages need

    def outside(self, path):
        return os.path.join(self.root, str(path).lstrip("/")) if self.root else str(path)

    def find(self, program):
        """Returns the program's path inside the place; None if it is missing. Relative paths are not checked."""
        if "/" in program:
            return program if not program.startswith("/") or os.path.isfile(self.outside(program)) else None
        for folder in self.path.split(":"):
            file = self.outside(os.path.join(folder, program))
            if os.access(file, os.X_OK) and os.path.isfile(file):
                return os.path.join(folder, program)
        return None

    def has_library(self, name):
        if self.carried and (self.carried / name).exists():
            return True
        return any(glob.glob(self.outside(f"{folder}/{name}")) for folder in ("/usr/lib/*", "/usr/lib", "/usr/local/lib"))

    def lacks(self, case, hint=""):
        """Returns the first missing part of a case, in words with its package; None if none is missing."""
        for program, package in case.needs:
            if not self.find(program):
                return f"there is no {program}: install the package {package}{hint}"
        if case.built and not self.find(case.built[0]):
            library = f"install the package {case.built[1]}{hint}, then " if case.built[1] else ""
            return f"{case.built[0]} was not built: {library}make build"
        for library, package in case.libraries:
            if not self.has_library(library):
                return f"there is no {library}: install the package {package}{hint}"
        if case.probe and not self.run(["sh", "-c", case.probe[0]], self.environment(), self.outside("/"), 20).ok:
            return f"{case.probe[1]}: install the package {case.probe[2]}{hint}"
        return None

    def versions(self, packages):
        """Returns Debian's versions of the installed packages."""
        found = {}
        words = ["dpkg-query"] + ([f"--admindir={self.root}/var/lib/dpkg"] if self.root else [])
        for package in packages:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                done = subprocess.run([*words, "-W", "-f=${Version}", package], capture_output=True, text=True, timeout=20)
                if done.returncode == 0 and done.stdout:
                    found[package] = done.stdout.splitlines()[0]
        return found

    def environment(self, lock=None, extra=None):
        env = preloaded(self.library, lock, {"PATH": self.path} | (extra or {}))
        if self.carried:
            env["LD_LIBRARY_PATH"] = str(self.carried)
        return env

    def enter(self):
        """Enters the root, in the child between fork and exec; its working directory is in the root already."""
        if self.root:
            here = os.getcwd()
            os.chroot(self.root)
            os.chdir(os.path.join("/", os.path.relpath(here, self.root)))

    def start(self, words, env, cwd, preexec=(), own_session=True):
        program = self.find(words[0])
        if not program:
            raise Failed(f"there is no {words[0]}")

        def before_exec():
            for step in preexec:
                step()
            self.enter()

        return Process([program, *words[1:]], env, str(cwd), before_exec if self.root or preexec else None, own_session)

    def run(self, words, env, cwd, limit):
        return self.start(words, env, cwd).finish(limit, backtrace=False)

    def shell(self, text, folder, limit):
        """Returns the standard output of a shell command."""
        outcome = self.run(["sh", "-c", text], self.environment(), folder, limit)
        if not outcome.ok:
            raise Failed(f"`{text}`: {outcome.trouble()}")
        return outcome.stdout


# ---- one run ---------------------------------------------------------------------------------------------------------

def prepare(place, case, folder):
    """Puts into a scratch folder the data of a case and links to the scripts that its commands name."""
    (folder / "lab").mkdir()
    (folder / "lab" / "programs").symlink_to(place.programs)
    if not place.root:
        (folder / "tools").symlink_to(TREE / "tools")
    for text in case.at(1, 1).prepare:
        try:
            place.shell(text, folder, 120)
        except Failed as error:
            raise Failed(f"preparing it by {error}") from error


@contextlib.contextmanager
def prepared(place, case, prefix):
    """Yields a scratch folder with the data of a case."""
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as scratch:
        prepare(place, case, Path(scratch))
        yield Path(scratch)


def kill_session(leader):
    """Kills the processes of a session. `usher stat` and `usher try` start their programs in process groups of their own,
    but in their session."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader:  # state ppid pgrp session
                os.kill(int(stat.parent.name), signal.SIGKILL)


@contextlib.contextmanager
def ended(process, patience=0):
    """Ends all processes of the program's session at the end of the block. With `patience`, a program that still runs is
    first asked to stop, and has so many seconds for that."""
    try:
        yield process
    finally:
        if process.popen.returncode is None:
            if patience:
                process.kill_group(signal.SIGTERM)
            process.finish(patience, backtrace=False)
        kill_session(process.popen.pid)


def await_ready(place, case, folder, process):
    deadline = time.monotonic() + READY_WITHIN
    while place.run(["sh", "-c", case.ready], place.environment(), folder, 10).status != 0:
        if process.ended_within(0.02):
            raise Failed("the server did not stay up")
        if time.monotonic() > deadline:
            raise Failed(f"not ready after {READY_WITHIN} s: `{case.ready}`")


def run_case(place, case, folder, limit, prefix=(), env=None, wait=None, **start):
    """Runs a case whose texts are filled in once, after the words of `prefix`. Returns the output that has the figure (of
    a server its load's), and the outcome of the program. A server's own exit status is left to the caller. `wait`
    replaces Process.finish."""
    if case.before:
        place.shell(case.before, folder, 60)
    with ended(place.start([*prefix, *case.words()], env or place.environment(None, case.environment), folder, **start)) as process:
        if case.until:
            if case.ready:
                await_ready(place, case, folder, process)
            printed = place.shell(case.until, folder, limit)
            os.kill(process.popen.pid, signal.SIGTERM)  # not to its group: `usher stat` passes the signal on
            return printed, process.finish(END_WITHIN, backtrace=False)
        if wait:
            wait(process, limit)
        outcome = process.finish(0.1 if wait else limit, backtrace=False)
    if not outcome.ok:
        raise Failed(outcome.trouble())
    return outcome.stdout, outcome


class Resident:
    """A program that prints "ready", runs until it is killed, and answers each empty line by a line."""

    def __init__(self, words, env):
        self.popen = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        self.pid = self.popen.pid
        if not select.select([self.popen.stdout], [], [], 3 * READY_WITHIN)[0] or self.popen.stdout.readline() != "ready\n":
            self.popen.kill()
            raise Failed(f"the program did not get ready: {' '.join(map(str, words))}")

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.popen.kill()
        self.popen.communicate()

    def ask(self):
        self.popen.stdin.write("\n")
        self.popen.stdin.flush()
        return self.popen.stdout.readline()

    def proc(self, file):
        return Path(f"/proc/{self.pid}/{file}").read_text()


def kib(text, field):
    """Returns a field, in KiB, of the text of one of a process's files in /proc."""
    return int(re.search(rf"^{field}:\s+(\d+) kB", text, re.M).group(1))
