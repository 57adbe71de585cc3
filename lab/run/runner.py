"""Runs a program once. A place is this system or the root of another release of Debian. The program runs in a scratch folder; a server
runs with its load; the figure is read from the output."""

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

READY_WITHIN = 20  # seconds until a server must be ready
END_WITHIN = 30    # seconds that a server may take to end
SYSTEM = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"]


class Failed(Exception):
    """A run gave no figure; the text is the reason."""


def preloaded(library, lock, extra=None):
    """Returns the environment of a program. If `lock` is None, the library is not preloaded; if it is "", the library is preloaded and
    no lock is selected."""
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
    """Returns the nanoseconds of an uncontended lock and unlock in the fastest batch."""
    outcome = harness.run([*prefix, build.program("pair_cost"), *harness.pair_options(kind), "--iterations", str(iterations),
                           "--batches", str(batches)], 30, env, backtrace=False)
    if not outcome.ok:
        raise Failed(outcome.trouble())
    return figure(r"nanoseconds a pair: ([\d.]+)", outcome.stdout)


# ---- where programs run ----------------------------------------------------------------------------------------------

class Place:
    """This system or, if `root` is given, another release of Debian in that folder. `folders` of programs and `library` are paths inside
    the place."""

    def __init__(self, build, folders=None, root=None, library=None):
        self.build, self.root, self.library = build, root, library or build.library
        # Debian's programs take precedence over programs of the same name that were installed elsewhere.
        self.path = ":".join(map(str, folders or [build.folder / "bin", build.programs, *SYSTEM,
                                                  *filter(None, [os.environ.get("PATH")])]))
        self.programs = TREE / "lab" / "programs"
        self.carried = None  # folder with libraries that programs of other packages need

    def outside(self, path):
        return os.path.join(self.root, str(path).lstrip("/")) if self.root else str(path)

    def find(self, program):
        """Returns the program's path inside the place; None if the program is missing. Relative paths are not checked."""
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
        """Returns the first missing part of a case as text, with its package; None if no part is missing."""
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
        """Changes the root directory, in the child between fork and exec. Its working directory is already inside the root."""
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
    """Prepares a scratch folder: makes the data of a case, and links to the scripts that its commands name."""
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
    """Kills all processes of a session. `usher stat` and `usher try` start programs in process groups of their own, but within their
    session."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader:  # state ppid pgrp session
                os.kill(int(stat.parent.name), signal.SIGKILL)


@contextlib.contextmanager
def ended(process, patience=0):
    """A block at whose end all processes of the program's session are ended. With `patience`, a program that still runs is first asked
    to stop, and has that many seconds to do so."""
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
    """Runs a case whose texts are filled in once, with its command after the words of `prefix`. Returns the output with the figure (for
    a server, the output of its load), and the outcome of the program. The caller must check a server's own exit status. `wait` replaces
    Process.finish."""
    if case.before:
        place.shell(case.before, folder, 60)
    with ended(place.start([*prefix, *case.words()], env or place.environment(None, case.environment), folder, **start)) as process:
        if case.until:
            if case.ready:
                await_ready(place, case, folder, process)
            printed = place.shell(case.until, folder, limit)
            os.kill(process.popen.pid, signal.SIGTERM)  # not to the whole group: `usher stat` passes the signal on
            return printed, process.finish(END_WITHIN, backtrace=False)
        if wait:
            wait(process, limit)
        outcome = process.finish(0.1 if wait else limit, backtrace=False)
    if not outcome.ok:
        raise Failed(outcome.trouble())
    return outcome.stdout, outcome


class Resident:
    """A program that prints "ready" and runs until it is killed. It answers each empty line by a line."""

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
    """Returns a field of a text from the process's folder in /proc, in KiB."""
    return int(re.search(rf"^{field}:\s+(\d+) kB", text, re.M).group(1))
