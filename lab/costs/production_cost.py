"""Measures the cost of Usher for a server that does not wait for locks: memory, time to start, instructions of an uncontended
lock and unlock. The tables of docs/production.md.

  python3 -m lab.costs.production_cost                 measures, and writes lab/results/production-cost.json: about half a minute
  python3 -m lab.costs.production_cost --write-doc     sets the result into the page; measures nothing

Memory is the process's proportional share (PSS, /proc/PID/smaps_rollup) beside that of the same program without the library. Time to
start is that of /bin/true, ways interleaved: the fastest start and the CPU time, which other programs change least. Instructions are
counted by valgrind and do not depend on the machine's load."""

import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import count_instructions
import harness
from harness import TREE, Build, clean_environment, die
from lab.run import packed, rounds, script
from lab.run.runner import Resident, kib, preloaded

SOURCE = TREE / "tests/production/memory.c"
RESULT = TREE / "lab/results/production-cost.json"
PAGE = TREE / "docs/production.md"
LIMIT = 60       # seconds, for each program that is started
MUTEXES, THREADS = 100_000, 1_000
# The values of USHER_LOCK with which a program is started. None stands for a start without libusher.so.
WAYS = {"without": None, "no lock selected": "", "steady": "steady", "mcscr": "mcscr"}


# ---- memory ----------------------------------------------------------------------------------------------------------

def of_library(smaps):
    """Returns the PSS of the library's file and of its zero-initialised data, in KiB."""
    total, ours = 0, False
    for line in smaps.splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            ours = line.endswith("/libusher.so")
        elif ours and line.startswith("Pss:"):
            total += int(line.split()[1])
    return total


def settled(process):
    """Returns the process's smaps_rollup once it has not changed for 0.1 s: by then threads sleep, and their stacks have been touched."""
    last, deadline = "", time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        text = process.proc("smaps_rollup")
        if text == last:
            return text
        last = text
        time.sleep(0.1)
    die("the memory of the program does not settle", 1)


def memory_of(program, build, way, mutexes, threads):
    with Resident([program, str(mutexes), str(threads)], preloaded(build.library, WAYS[way])) as process:
        rolled = settled(process)
        return {"pss": kib(rolled, "Pss"), "private": kib(rolled, "Private_Dirty"), "library": of_library(process.proc("smaps"))}


def measure_memory(build, folder):
    program = f"{folder}/memory"
    subprocess.run(["gcc", "-O2", "-pthread", "-o", program, str(SOURCE)], check=True, timeout=LIMIT)
    shapes = {"asleep": (0, 0), "mutexes": (MUTEXES, 0), "threads": (0, THREADS)}
    return {shape: {way: memory_of(program, build, way, *size) for way in WAYS} for shape, size in shapes.items()}


# ---- start -----------------------------------------------------------------------------------------------------------

def start_once(command, env):
    """Returns elapsed seconds and seconds of CPU time."""
    before = time.perf_counter()
    pid = os.posix_spawn(command[0], command, env)
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        die(f"{command[0]} ended with status {status}", 1)
    return time.perf_counter() - before, usage.ru_utime + usage.ru_stime


def measure_start(build, runs):
    true = shutil.which("true")
    ways = {way: ([true], preloaded(build.library, lock)) for way, lock in WAYS.items()}
    ways["usher run --lock steady"] = ([str(build.usher), "run", "--lock", "steady", "--", true], clean_environment())
    found = {}
    for way, pairs in rounds.sampled(ways, runs, lambda way: start_once(*ways[way]), warm_up=5).items():
        clock, cpu = zip(*pairs)
        found[way] = {"runs": runs, "median_ms": 1e3 * statistics.median(clock), "fastest_ms": 1e3 * min(clock),
                      "cpu_ms": 1e3 * statistics.mean(cpu)}
    return found


# ---- instructions ----------------------------------------------------------------------------------------------------

def measure_pairs(build, folder):
    return {kind: {lock: count_instructions.pair(build, lock, kind, folder)
                   for lock in (count_instructions.NATIVE, "steady", "mcscr")}
            for kind in ("normal", "normal alone")}


# ---- the page --------------------------------------------------------------------------------------------------------

def memory_table(memory):
    rows = []
    for way in WAYS:
        if way == "without":
            continue
        base, here = ({shape: sizes[of]["pss"] for shape, sizes in memory.items()} for of in ("without", way))
        more = {shape: here[shape] - base[shape] for shape in memory}
        rows.append([way, f"{memory['asleep'][way]['library']:,} KiB", f"{more['asleep']:,} KiB",
                     f"{round(1024 * (more['mutexes'] - more['asleep']) / MUTEXES)} bytes",
                     f"{round(1024 * (more['threads'] - more['asleep']) / THREADS)} bytes"])
    return harness.markdown(rows, ["`USHER_LOCK`", "library, PSS", "whole process, more", "each mutex, more",
                                   "each waiting thread, more"])


def start_table(start):
    base = start["without"]
    rows = [[way, f"{r['fastest_ms']:.2f} ms", f"{r['fastest_ms'] - base['fastest_ms']:+.2f} ms",
             f"{r['cpu_ms'] - base['cpu_ms']:+.2f} ms"] for way, r in start.items()]
    return harness.markdown(rows, ["start of `/bin/true`", "fastest", "more", "CPU time, mean, more"])


def pair_table(pairs):
    rows = [[lock, *(f"{pairs[kind][lock][what]:g}" for kind in pairs for what in ("instructions", "locked"))]
            for lock in pairs["normal"]]
    return harness.markdown(rows, ["lock and unlock", "instructions", "locked", "one thread: instructions", "locked"])


def write_doc(page):
    if not packed.is_there(RESULT):
        die(f"{RESULT} is missing: measure first")
    document = packed.document(RESULT)
    content = "\n\n".join([memory_table(document["memory"]), start_table(document["start"]), pair_table(document["pairs"]),
                           harness.provenance_line(document)])
    page.write_text(harness.between_markers(page.read_text(), "cost", content))
    return 0


def main():
    parser = script.parser(__doc__)
    parser.add_argument("--runs", type=int, default=1000, metavar="N", help="starts of each (1000)")
    parser.add_argument("--write-doc", action="store_true", help="set the result into the page; measures nothing")
    parser.add_argument("--doc", type=Path, default=PAGE, metavar="FILE", help="(docs/production.md)")
    options = parser.parse_args()
    if options.write_doc:
        return write_doc(options.doc)
    build = Build(options.build)
    build.need(build.usher, build.library, build.programs / "pair_cost")
    others = harness.OthersShare()
    with tempfile.TemporaryDirectory(prefix="usher-cost-") as folder:
        document = {"measurement": "cost of production", "memory": measure_memory(build, folder),
                    "start": measure_start(build, options.runs), "pairs": measure_pairs(build, folder)}
    document |= harness.provenance(build, others)
    rounds.put(RESULT, document)
    print("\n\n".join([memory_table(document["memory"]), start_table(document["start"]), pair_table(document["pairs"])]))
    return 0


if __name__ == "__main__":
    script.entry(main)
