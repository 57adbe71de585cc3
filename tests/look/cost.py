#!/usr/bin/env python3
"""What `usher top` costs: the throughput of a program with many threads, looked at 20 times a second and not, in turns.

  cost.py --build BUILD --programs FOLDER [--threads 200,2000] [--turns 10] [--seconds 3] [--json FILE]

For each number of threads: the ratio of the throughputs of each pair of turns, median and range; the share of a CPU that
the command and its children used; their memory (VmHWM, all processes together); the time from the start of the command to
its first sentence; the longest time that a computing thread stood still, with and without; whether a thread of the program
was ever seen stopped or traced. It is no test: a busy machine changes the figures. The origin stands below them.
"""

import argparse
import json
import mmap
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import harness  # noqa: E402
import look  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")
LIMIT = 60


class Target:
    """The program busy and its counters."""

    def __init__(self, program, threads):
        self.file = tempfile.NamedTemporaryFile(prefix="usher-busy-")
        self.popen = subprocess.Popen([program, str(threads), self.file.name], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        if self.popen.stdout.readline() != b"ready\n":
            raise SystemExit("cost.py: the program does not start")
        self.memory = mmap.mmap(self.file.fileno(), 16)

    def operations(self):
        return struct.unpack_from("<Q", self.memory, 0)[0]

    def turn(self, seconds):
        """Returns operations a second, and the longest gap in ms."""
        struct.pack_into("<Q", self.memory, 8, 0)
        begin, before = time.monotonic(), self.operations()
        time.sleep(seconds)
        rate = (self.operations() - before) / (time.monotonic() - begin)
        return rate, struct.unpack_from("<Q", self.memory, 8)[0] / 1e6

    def close(self):
        self.popen.kill()
        self.popen.wait(30)
        self.memory.close()


def descendants(pid):
    """Returns the living processes below a process, with itself."""
    parents = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            parents.setdefault(int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1]), []).append(int(entry))
        except OSError:
            pass
    found = [pid]
    for p in found:
        found += parents.get(p, [])
    return found


def cpu_seconds(pid):
    """CPU time of a process, of its descendants, and of their ended children."""
    total = 0
    for p in descendants(pid):
        try:
            total += sum(map(int, Path(f"/proc/{p}/stat").read_text().rpartition(")")[2].split()[11:15]))
        except OSError:
            pass
    return total / TICKS


def memory_kib(pid):
    total = 0
    for p in descendants(pid):
        try:
            total += int(re.search(r"^VmHWM:\s+(\d+)", Path(f"/proc/{p}/status").read_text(), re.M)[1])
        except (OSError, TypeError):
            pass
    return total


class StopWatch(threading.Thread):
    """Looks, while it runs, whether a thread of a process is stopped or traced. Rare stops may be missed: the longest gap
    and a trace of the command's system calls tell more."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.looks, self.stopped, self.is_over = pid, 0, 0, threading.Event()
        self.start()

    def run(self):
        while not self.is_over.wait(0.02):
            try:
                text = Path(f"/proc/{self.pid}/status").read_text()
                self.looks += 1
                self.stopped += bool(re.search(r"^State:\s+[tT]|^TracerPid:\s+[1-9]", text, re.M))
            except OSError:
                pass

    def end(self):
        self.is_over.set()
        self.join()


def watched_turn(top, target, seconds):
    """One turn in which the command looks; returns rate, gap, its CPU share, its memory in KiB."""
    live = subprocess.Popen([*top, *look.live_options(target.popen.pid)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, start_new_session=True)
    try:
        time.sleep(0.5)  # its start is measured apart
        before, begin = cpu_seconds(live.pid), time.monotonic()
        rate, gap = target.turn(seconds)
        share = (cpu_seconds(live.pid) - before) / (time.monotonic() - begin)
        memory = memory_kib(live.pid)
        if live.poll() is not None:
            raise SystemExit(f"cost.py: the command ended: {live.stderr.read().decode(errors='replace')[:300]}")
        return rate, gap, share, memory
    finally:
        try:
            os.killpg(live.pid, signal.SIGTERM)
        except ProcessLookupError:
            pass
        live.communicate(timeout=LIMIT)


def first_sentence(top, pid):
    """Seconds until the command, looking live, has written its first line, and until --once has its page."""
    began = time.monotonic()
    live = subprocess.Popen([*top, *look.live_options(pid)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            start_new_session=True)
    limit = threading.Timer(LIMIT, live.kill)
    limit.start()
    while (line := live.stdout.readline()) and not re.search(rb"\w", line):
        pass
    first = time.monotonic() - began
    limit.cancel()
    live.kill()
    live.communicate()
    once = look.look_at(top, pid)
    return first, (once.ended - once.began) / 1e9, once.trouble


def measure(top, program, threads, turns, seconds):
    target = Target(program, threads)
    watch = StopWatch(target.popen.pid)
    rows = []
    try:
        target.turn(1)
        for i in range(turns):
            # Which of the two comes first changes, so that a drift of the machine helps neither.
            without = target.turn(seconds) if i % 2 == 0 else None
            watched = watched_turn(top, target, seconds)
            rows.append((without or target.turn(seconds), watched))
        times = [first_sentence(top, target.popen.pid) for _ in range(min(turns, 5))]
    finally:
        watch.end()
        target.close()
    return {"threads": threads, "turns": turns, "seconds": seconds,
            "ratio": [w[0] / u[0] for u, w in rows], "gap_ms_without": [u[1] for u, _ in rows], "gap_ms": [w[1] for _, w in rows],
            "cpu_share": [w[2] for _, w in rows], "memory_kib": max(w[3] for _, w in rows),
            "first_line_s": [t[0] for t in times], "once_s": [t[1] for t in times], "trouble": [t[2] for t in times if t[2]],
            "stopped": watch.stopped, "stop_looks": watch.looks}


def show(result):
    r = result
    print(f"{r['threads']} threads, {r['turns']} pairs of turns of {r['seconds']} s")
    print(f"  throughput, ratio      {harness.median_range(r['ratio'], '{:.3f}')}")
    print(f"  share of a CPU, %      {harness.median_range([100 * s for s in r['cpu_share']], '{:.1f}')}")
    print(f"  memory, MiB            {r['memory_kib'] / 1024:.1f}")
    print(f"  first line after, s    {harness.median_range(r['first_line_s'])}")
    print(f"  --once takes, s        {harness.median_range(r['once_s'])}{'; ' + r['trouble'][0] if r['trouble'] else ''}")
    print(f"  longest gap, ms        {harness.median_range(r['gap_ms'], '{:.1f}')}; without {harness.median_range(r['gap_ms_without'], '{:.1f}')}")
    print(f"  stopped or traced      in {r['stopped']} of {r['stop_looks']} looks", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=look.TREE / "build" / "release")
    parser.add_argument("--programs", required=True, help="the folder of the program busy")
    parser.add_argument("--threads", default="200,2000")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    others, results = harness.OthersShare(), []
    for threads in map(int, options.threads.split(",")):
        results.append(measure(look.top_command(options.build), str(Path(options.programs) / "busy"), threads, options.turns, options.seconds))
        show(results[-1])
    origin = harness.provenance(harness.Build(options.build), others)
    print(harness.provenance_line(origin))
    if options.json:
        Path(options.json).write_text(json.dumps({"origin": origin, "results": results}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
