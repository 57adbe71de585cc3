#!/usr/bin/env python3
"""Runs commands whose results do not depend on the machine in two builds: one for AArch64, under emulation, and one for this machine. Their
output must be equal. The commands are usher check, also of mutants, usher sim, and usher predict. Each build makes a recording, and both
builds read each recording.

  tests/aarch64/same_results.py [--build build/aarch64] [--here build/release]     after make build and make arm
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
EMULATED = TREE / "tests/aarch64/emulated.sh"
COMPILERS = {"aarch64": "aarch64-linux-gnu-gcc-12", "here": "cc"}
MUTANTS = ("mcs-relaxed-hand-over-spin", "mcscr-drops-passive", "clh-gives-own-node")
COMMANDS = {
    "check: locks": ["check", "steady", "mcs", "clh", "ticket", "twa", "mcscr", "loiter", "lifo-cr", "fairlock", "futex", "--executions", "100"],
    "check: read-write locks": ["check", "phase-fair", "bravo", "--executions", "100"],
    "check: conditions, semaphores": ["check", "wait-queue", "condition-variable", "semaphore", "--executions", "100"],
    "check: all programs of two threads": ["check", "ticket", "--threads", "2", "--scheduler", "bound", "--programs", "2", "--executions", "2000"],
    "sim: mutexbench": ["sim", "mutexbench", "--locks", "steady,mcs,mcscr", "--threads", "2,8", "--seeds", "2"],
    "sim: every lock": ["sim", "mutexbench", "--locks", "all", "--threads", "6", "--ms", "1", "--seeds", "1"],
    "sim: more threads than CPUs": ["sim", "mutexbench", "--locks", "steady,mcs", "--threads", "8", "--machine", "epyc-zen4-vm-2", "--seeds", "1"],
}
# Keys of results that depend on the machine or on the time of a run. `code` has lines of source files, which only one
# of the builds finds.
MACHINES = {"commit", "date", "seconds", "cpu_s", "jobs", "code"}


def without(value):
    if isinstance(value, dict):
        return {k: without(v) for k, v in value.items() if k not in MACHINES}
    return [without(v) for v in value] if isinstance(value, list) else value


def run(command, folder, limit=550):
    try:
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=limit, check=False, cwd=folder)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"ran longer than {limit} s")


class Test:
    def __init__(self, arm, here, work):
        self.ways = {"aarch64": [EMULATED, arm / "bin/usher"], "here": [here / "bin/usher"]}
        self.work, self.passed, self.failed = work, 0, 0

    def count(self, what, ok, why=""):
        print(f"{'ok  ' if ok else 'FAIL'}  {what}{'' if ok else f': {why}'}", flush=True)
        self.passed, self.failed = self.passed + ok, self.failed + (not ok)

    def same(self, what, words, status=0):
        """Compares the exit status, the text without times, and the file of --json of both builds. The file's name is
        relative to the folder, because the emulator looks for absolute paths in the folder with the libraries."""
        found = {}
        for name, usher in self.ways.items():
            file = self.work / "result.json"
            file.unlink(missing_ok=True)
            done = run([*usher, *words, "--json", file.name], self.work)
            if done.returncode != status:
                self.count(what, False, f"{name}: exit status {done.returncode}: {done.stderr[-500:]}{done.stdout[-500:]}")
                return
            # Cuts off the end of a line: seconds, or a line of a source file, which only one of the builds finds.
            text = re.sub(r"( +\d+\.\d|(\w\.[ch]pp:\d+)  .*)$", r"\2", done.stdout, flags=re.M)
            found[name] = [text, without(json.loads(file.read_text(encoding="utf-8")))]
        size = len(json.dumps(found["here"]))
        self.count(f"{what}: the same {size} characters", found["aarch64"] == found["here"] and size > 100, difference(*found.values()))

    def predictions(self):
        """Makes a recording with each build, and compares the predictions of both builds from each. A recording depends
        on time, the predictions from it do not."""
        for name, usher in self.ways.items():
            program, recording = self.work / f"{name}.program", f"{name}.recording"
            compiled = run([COMPILERS[name], "-O1", "-pthread", TREE / "tests/add_a_lock/uses_mutexes.c", "-o", program], self.work)
            self.count(f"compile: {name}", compiled.returncode == 0, compiled.stderr[-500:])
            done = run([*usher, "record", "--lock", "steady", "--every", "60", "--output", recording, "--", program, "60000"], self.work)
            made = done.returncode == 0 and (self.work / recording).is_file()
            self.count(f"record: {name}", made, done.stderr[-500:])
            if made:
                self.same(f"predict: recorded {'on ' * (name == 'aarch64')}{name}",
                          ["predict", recording, "--locks", "steady,mcs,mcscr", "--threads", "2,6", "--seeds", "1", "--ms", "2", "--no-unknowns"])


def difference(one, other, at=""):
    """Returns the first place at which two values differ."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return next((d for k in one if (d := difference(one[k], other[k], f"{at}.{k}"))), "")
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return next((d for i, (a, b) in enumerate(zip(one, other)) if (d := difference(a, b, f"{at}[{i}]"))), "")
    if isinstance(one, str) and isinstance(other, str):
        lines = zip(one.splitlines(), other.splitlines())
        return next((f"{at}: {a!r} and {b!r}" for a, b in lines if a != b), "" if one == other else f"{at}: more lines")
    return "" if one == other else f"{at}: {json.dumps(one)[:200]} and {json.dumps(other)[:200]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=TREE / "build/aarch64")
    parser.add_argument("--here", type=Path, default=TREE / "build/release")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="usher-same-") as temporary:
        test = Test(options.build.resolve(), options.here.resolve(), Path(temporary))
        for what, words in COMMANDS.items():
            test.same(what, words)
        for mutant in MUTANTS:  # the failing interleavings of mutants, step by step
            test.same(f"check: how {mutant} fails", ["check", mutant, "--executions", "300"], 1)
        test.predictions()
    print(f"{test.passed} passed, {test.failed} failed")
    return 1 if test.failed else 0


if __name__ == "__main__":
    sys.exit(main())
