"""Functions that the demo, the compatibility tests and the measurements share: they run a program under a time limit in
a process group of its own, and describe the origin of a measurement.
"""

import datetime
import os
import platform
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import catalog

TREE = Path(__file__).resolve().parent.parent


def script():
    """Returns the name of the running script."""
    file = Path(sys.argv[0])
    return file.parent.name if file.stem == "__main__" else file.stem


def call():
    """Returns the command of the running script, from the tree's root."""
    file = Path(sys.argv[0]).resolve()
    if not file.is_relative_to(TREE):
        return file.name
    inside = file.relative_to(TREE)
    if inside.parts[0] != "lab":
        return str(inside)
    return "python3 -m " + ".".join(inside.with_suffix("").parts).removesuffix(".__main__")


def die(message, status=2):
    """Prints one line and ends the program."""
    print(f"{script()}: {message}", file=sys.stderr)
    sys.exit(status)


class Build:
    """A build folder and the places of its files."""

    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        self.usher = self.folder / "bin" / "usher"
        self.library = self.folder / "lib" / "libusher.so"
        self.programs = self.folder / "lab" / "programs"

    def program(self, name):
        """Returns the path of a workload program, or None if its libraries were missing at build time."""
        for folder in (self.programs, self.folder / "bin"):
            if (folder / name).is_file():
                return str(folder / name)
        return None

    def need(self, *paths):
        for path in paths:
            if not Path(path).is_file():
                die(f"{path} is missing: build first (make build)")


def plain_locks():
    """Returns the plain names of the locks in the catalogue, so that a new lock is tested without a change of the
    tests."""
    return [lock.name for lock in catalog.locks() if lock.excludes and not lock.is_the_c_librarys]


def pass_through():
    """Returns those names of the catalogue that stand for the C library's own mutexes: for them libusher.so forwards
    every call."""
    return [lock.name for lock in catalog.locks() if lock.is_the_c_librarys]


def clean_environment(extra=None):
    """Returns this environment without the variables that select a lock."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("USHER_") and k != "LD_PRELOAD"}
    env["LC_ALL"] = "C"
    env.update(extra or {})
    return env


@dataclass
class Outcome:
    command: list
    status: int = 0  # as in `subprocess`, a negative status is the number of a signal
    timed_out: bool = False
    seconds: float = 0.0
    stdout: str = ""
    stderr: str = ""
    backtrace: str = ""
    voluntary: int = 0
    involuntary: int = 0
    cpu_seconds: float = 0.0

    @property
    def ok(self):
        return self.status == 0 and not self.timed_out

    def trouble(self):
        """Returns the kind of failure in a few words."""
        if self.timed_out:
            return f"hung: killed after {self.seconds:.0f} s"
        if self.status < 0:
            try:
                name = signal.Signals(-self.status).name
            except ValueError:
                name = f"signal {-self.status}"
            return f"died of {name}"
        last = [line for line in (self.stderr + "\n" + self.stdout).splitlines() if line.strip()]
        said = self.stderr.strip().splitlines()
        return f"exit status {self.status}: " + (said[-1] if said else last[-1] if last else "no output")


def backtraces(pid):
    """Returns all threads' stacks, if a debugger is installed and permitted."""
    if not shutil.which("gdb"):
        return ""
    command = ["gdb", "-p", str(pid), "-batch", "-nx", "-ex", "set pagination off",
               "-ex", "thread apply all backtrace 16"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                              timeout=30, env=clean_environment(), start_new_session=True)
        return done.stdout
    except (subprocess.TimeoutExpired, OSError):
        return ""


class Process:
    """A program in a process group of its own. Its output goes to files, so that no full pipe ever stops it. With
    `own_session`, Linux' scheduler also treats the program as one group (autogroup), which shares the CPUs with
    programs beside it as a whole."""

    def __init__(self, command, env=None, cwd=None, preexec=None, own_session=True):
        self.command = [str(word) for word in command]
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.start = time.monotonic()
        group = {} if own_session else {"process_group": 0}
        if sys.version_info < (3, 11) and group:  # for the older Pythons in the systems of lab/roots
            group, preexec = {}, preexec or os.setpgrp
        self.popen = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.err,
                                      env=clean_environment() if env is None else env, cwd=cwd,
                                      start_new_session=own_session, preexec_fn=preexec, **group)
        self.handle = os.pidfd_open(self.popen.pid)

    def ended_within(self, seconds):
        watch = select.poll()
        watch.register(self.handle, select.POLLIN)
        return bool(watch.poll(max(0, seconds * 1000)))

    def kill_group(self, sig=signal.SIGKILL):
        try:
            os.killpg(self.popen.pid, sig)
        except ProcessLookupError:
            pass

    def finish(self, limit, backtrace=True):
        """Waits until the program ends. Kills the program at the time limit, or if an exception interrupts the wait."""
        outcome = Outcome(self.command)
        try:
            outcome.timed_out = not self.ended_within(limit)
        except BaseException:
            self.kill_group()
            raise
        if outcome.timed_out:
            outcome.seconds = time.monotonic() - self.start
            if backtrace:
                outcome.backtrace = backtraces(self.popen.pid)
        self.kill_group()  # also ends processes that the program left behind
        _, status, usage = os.wait4(self.popen.pid, 0)
        self.popen.returncode = outcome.status = os.waitstatus_to_exitcode(status)
        os.close(self.handle)
        if not outcome.timed_out:
            outcome.seconds = time.monotonic() - self.start
        outcome.voluntary, outcome.involuntary = usage.ru_nvcsw, usage.ru_nivcsw
        outcome.cpu_seconds = usage.ru_utime + usage.ru_stime
        for file, name in ((self.out, "stdout"), (self.err, "stderr")):
            file.seek(0)
            setattr(outcome, name, file.read().decode(errors="replace"))
            file.close()
        return outcome


def run(command, limit, env=None, cwd=None, backtrace=True):
    return Process(command, env, cwd).finish(limit, backtrace)


# ---- the origin of a measurement --------------------------------------------------------------------------------------

MUTEX_KINDS = ["normal", "recursive", "errorcheck", "adaptive"]


def pair_options(kind):
    """Returns the options of the program pair_cost for a kind of mutex; "alone" and "trylock" may follow the kind."""
    name, *words = kind.split()
    if name not in MUTEX_KINDS or set(words) - {"alone", "trylock"}:
        die(f"unknown kind '{kind}': {', '.join(MUTEX_KINDS)}; then alone, trylock or both")
    return ["--kind", name, *(f"--{word}" for word in words)]


def first_line(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20, cwd=TREE).stdout.splitlines()[0]
    except (OSError, subprocess.TimeoutExpired, IndexError):
        return "unknown"


def commit():
    """Returns the name of the checked-out commit, with "-dirty" if files other than pages and results have uncommitted
    changes."""
    name = first_line(["git", "describe", "--always", "--abbrev=12"])
    status = subprocess.run(["git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs", ":!lab/results", ":!lab/pages"], capture_output=True,
                            timeout=20, cwd=TREE)
    return name if status.returncode == 0 and not status.stdout else name + "-dirty"


def compiler(build):
    """Returns the compiler for which the build folder was configured."""
    try:
        cache = (build.folder / "CMakeCache.txt").read_text()
        path = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.+)$", cache, re.M).group(1)
        return first_line([path, "--version"])
    except (OSError, AttributeError):
        return "unknown"


def machine():
    cpu = "unknown"
    try:
        cpu = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.M).group(1)
    except (OSError, AttributeError):
        pass
    return {"cpu": cpu, "cpus": os.cpu_count(), "kernel": f"{platform.system()} {platform.release()}",
            "architecture": platform.machine(), "libc": " ".join(platform.libc_ver())}


def today():
    """Returns date and time, in UTC: "2031-01-02T03:04:05Z"."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def day():
    return today()[:10]


class OthersShare:
    """Measures the share of all CPU time, since the object's creation, that was neither idle nor used by this process
    and its children."""

    def __init__(self):
        self.start = self._read()

    @staticmethod
    def _read():
        ticks = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        total = sum(ticks)  # user nice system idle iowait irq softirq steal
        own = os.times()
        rate = os.sysconf("SC_CLK_TCK")
        return total / rate, (total - ticks[3] - ticks[4]) / rate, sum(own[:4])

    def share(self):
        now = self._read()
        total, busy, ours = (b - a for a, b in zip(self.start, now))
        return min(1.0, max(0.0, (busy - ours) / total)) if total > 0 else 0.0


def provenance(build, others):
    return {"date": today(), "machine": machine(), "compiler": compiler(build), "commit": commit(),
            "command": " ".join([call(), *sys.argv[1:]]), "others_cpu_share": round(others.share(), 4)}


def provenance_line(p):
    m = p["machine"]
    return (f"Measured on {m['cpu']}, {m['cpus']} CPUs, {m['kernel']}, {m['libc']}; the build is of commit {p['commit']}, by "
            f"{p['compiler']}; {p['date']}; command `{p['command']}`. Other programs took {100 * p['others_cpu_share']:.1f} % of the CPU "
            f"time.")


# ---- tables and pages ------------------------------------------------------------------------------------------------

def median_range(values, form="{:.2f}"):
    if not values:
        return "–"
    return f"{form.format(statistics.median(values))} ({form.format(min(values))}–{form.format(max(values))})"


def counted(counts, most=6):
    """Returns the {name: count} as text, the largest counts first."""
    names = sorted(counts, key=lambda name: -counts[name])
    words = [name + (f" {counts[name]} times" if counts[name] > 1 else "") for name in names[:most]]
    rest = sum(counts[name] for name in names[most:])
    return "; ".join(words + ([f"{rest} others"] if rest else []))


def table(rows, heading, right=()):
    """Returns rows of strings as an aligned text table. The columns in `right` are set flush right."""
    everything = [heading] + rows
    widths = [max(len(row[i]) for row in everything) for i in range(len(heading))]

    def line(row):
        cells = [c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths))]
        return "  ".join(cells).rstrip()

    return "\n".join([line(heading), "  ".join("-" * w for w in widths)] + [line(row) for row in rows])


def markdown(rows, heading):
    lines = ["| " + " | ".join(heading) + " |", "|" + "---|" * len(heading)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def between_markers(text, name, content):
    """Returns `text`, the text of a page, with `content` between the two markers of this name."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        die(f"the page must have one {begin} and, after it, one {end}", 1)
    head, rest = text.split(begin)
    return f"{head}{begin}\n{content}\n{end}{rest.split(end)[1]}"
