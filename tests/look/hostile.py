#!/usr/bin/env python3
"""Looks many times at processes that are hostile to whoever looks at them (programs/hostile.c). Each look must end in
time and without a crash; the report must be JSON; no character of the page may act on a terminal; and no thread may be
called the holder of a lock whose word did not name it at any moment of the look.

  hostile.py --build BUILD --programs FOLDER [--looks 200] [--seed 1] [--jobs 4]

The process writes a log of what each word may have named, and when; it is compared with the report. The attacker is the
process: also the log is copied once, and an event that is not complete yet is left out.
"""

import argparse
import collections
import concurrent.futures
import itertools
import mmap
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

import look

EVENT = struct.Struct("<QQIIII")  # ns, address, tid, named, what, pid
HEAD = 64
CAPACITY = 1 << 19
NAMES, NAMED, BEGINS, ENDS, EXECUTES = range(1, 6)
READY_LIMIT = 50
LOOKS_PER_PROCESS = 6
DURATIONS = (0.05, 0.1, 0.2, 0.4, 0.8)  # of looks, seconds


@dataclass
class Truth:
    """Which ids a word may have named, and which threads there were, as intervals of CLOCK_MONOTONIC in ns."""

    named: dict = field(default_factory=lambda: collections.defaultdict(list))    # (address, id) -> [(begin, end)]
    threads: dict = field(default_factory=lambda: collections.defaultdict(list))  # id -> [(begin, end)]

    @staticmethod
    def of(events):
        truth, open_names, open_threads = Truth(), {}, {}
        for ns, address, tid, named, what, _ in sorted(events):
            if what == NAMES:
                open_names.setdefault((address, named), []).append(ns)
            elif what == NAMED and open_names.get((address, named)):
                truth.named[address, named].append((open_names[address, named].pop(), ns))
            elif what == BEGINS:
                open_threads[tid] = ns
            elif what == ENDS and tid in open_threads:
                truth.threads[tid].append((open_threads.pop(tid), ns))
            elif what == EXECUTES:
                truth.close(open_names, open_threads, ns)
        truth.close(open_names, open_threads, float("inf"))
        return truth

    def close(self, open_names, open_threads, ns):
        for key, begins in open_names.items():
            self.named[key] += [(begin, ns) for begin in begins]
        for tid, begin in open_threads.items():
            self.threads[tid].append((begin, ns))
        open_names.clear()
        open_threads.clear()

    @staticmethod
    def during(intervals, begin, end):
        return any(b <= end and e >= begin for b, e in intervals)


def read_log(file):
    """Returns the complete events of a copy of the log."""
    with open(file, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as memory:
        count = min(struct.unpack_from("<Q", memory, 16)[0], CAPACITY)
        data = memory[HEAD:HEAD + count * EVENT.size]
    events = [EVENT.unpack_from(data, at) for at in range(0, len(data) - EVENT.size + 1, EVENT.size)]
    return [e for e in events if e[4] != 0]


# ---- checking one look ------------------------------------------------------------------------------------------------------

def holders(report):
    """(address, the holder) of each sentence that says that a lock is held."""
    for wait in report["waits"]:
        if wait["holder"] is not None and wait["address"] and wait["what"] != "join":
            yield int(wait["address"], 16), wait["holder"]


def false_holders(report, truth, began, ended):
    """Returns what the log contradicts."""
    found = []
    for address, holder in holders(report):
        tid = holder["tid"]
        if not Truth.during(truth.named.get((address, tid), []), began, ended):
            found.append(f"{tid} holds {address:#x}: the word did not name it")
        elif holder["pid"]:
            found.append(f"a thread of process {holder['pid']} holds {address:#x}: the memory is not shared")
        elif not Truth.during(truth.threads.get(tid, []), began, ended):
            found.append(f"{tid} holds {address:#x}: the process has no such thread")
    return found


def errors_of(done, is_alive, truth):
    """Returns what is wrong with one look. `is_alive`: the process lived after it."""
    if done.trouble and not (done.trouble == "no report" and done.status > 0):
        return [done.trouble]
    found = [f"page: {e}" for e in look.errors_of_page(done.page)]
    if bad := look.hostile_characters(done.error):
        found.append(f"errors: characters that are not escaped: {' '.join(bad)}")
    if done.status != 0:
        # A process may end before it is looked at: one line that says so is right.
        if done.status not in (1, 2) or len(done.error.strip().splitlines()) != 1:
            found.append(f"status {done.status}, not with one line: {done.error[:200]!r}")
        elif is_alive and "ended" in done.error:
            found.append(f"the process has not ended: {done.error.strip()!r}")
    if done.report is not None:
        found += false_holders(done.report, truth, done.began, done.ended)
    return found


# ---- the processes ----------------------------------------------------------------------------------------------------------

class Hostile:
    """A hostile process and its log."""

    def __init__(self, program, seed):
        self.folder = Path(tempfile.mkdtemp(prefix="usher-hostile-"))
        self.log = self.folder / "log"
        self.log.touch()
        (self.folder / "files").mkdir()
        self.popen = subprocess.Popen([program, str(seed), str(self.log), str(self.folder / "files")], stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        limit = threading.Timer(READY_LIMIT, self.kill)
        limit.start()
        self.is_ready = self.popen.stdout.readline() == b"ready\n"
        limit.cancel()

    def is_alive(self):
        return self.popen.poll() is None

    def kill(self):
        try:
            os.killpg(self.popen.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def close(self):
        self.kill()
        self.popen.wait(30)
        self.popen.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def look_at_one(top, program, seed, looks, schema):
    """Looks at one process; returns [(errors, number of holders said)]."""
    process = Hostile(program, seed)
    try:
        if not process.is_ready:
            return [([f"seed {seed}: the program does not start"], 0)]
        done = []
        for i in itertools.takewhile(lambda _: process.is_alive(), range(looks)):
            one = look.look_at(top, process.popen.pid, DURATIONS[(seed + i) % len(DURATIONS)])
            done.append((i, one, process.is_alive()))
        process.kill()
        truth = Truth.of(read_log(process.log))
    finally:
        process.close()
    results = []
    for i, one, is_alive in done:
        errors = errors_of(one, is_alive, truth)
        if one.report is not None and schema and i == 0:
            errors += [f"schema: {e.json_path}: {e.message[:100]}" for e in list(schema.iter_errors(one.report))[:2]]
        results.append(([f"seed {seed}, look {i}: {e}" for e in errors], len(list(holders(one.report))) if one.report else 0))
    return results


def run(options):
    top, schema = look.top_command(options.build), look.schema()
    program = str(Path(options.programs) / "hostile")
    seeds, looked, said, errors = itertools.count(options.seed), 0, 0, []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        while looked < options.looks and len(errors) < options.most_errors:
            batch = [pool.submit(look_at_one, top, program, next(seeds), min(LOOKS_PER_PROCESS, options.looks), schema)
                     for _ in range(options.jobs)]
            for future in batch:
                for found, holders_said in future.result():
                    looked, said = looked + 1, said + holders_said
                    errors += found
                    for line in found:
                        print(line, flush=True)
    print(f"{looked} looks, {said} holders said, {len(errors)} errors; seeds {options.seed} to {next(seeds) - 1}")
    return 1 if errors or not said and options.needs_holders else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=look.TREE / "build" / "release")
    parser.add_argument("--programs", required=True, help="the folder of the program hostile")
    parser.add_argument("--looks", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--most-errors", type=int, default=50, help="end after so many")
    parser.add_argument("--needs-holders", action="store_true", help="fail if no look said a holder")
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
