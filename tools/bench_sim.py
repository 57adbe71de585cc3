#!/usr/bin/env python3
"""Measures the simulator's speed: CPU time of whole figures against their limits, events per second, instructions per
event. The number of instructions is exact to about a per cent, whatever else runs, so a test can compare it with the
recorded number (--instructions).
"""

import argparse
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

import harness
from harness import TREE, Build, die

MACHINES = TREE / "lab" / "sim" / "machines"
RECORD = TREE / "tests" / "cost" / "simulator.json"
BAND = 0.03  # permitted difference between processors, for which the C library has different functions to move memory

# Each row has a name, a description, a limit and a goal in seconds of CPU time, and a flag: True if limit and goal are
# for each lock, False if they are for the whole figure.
GROUPS = [
    ("figure-3", "MutexBench, x5-2, 17 thread counts × 4 locks × 5 seeds × 2 ms", 8, 4, False),
    ("sixteen-sockets", "mcsg-loop, e7-4890, 224 threads, 8 ms", 1, 0.25, True),
    ("randarray", "RandArray, t5, 17 thread counts × 5 locks × 20 ms", 90, None, False),
]

# Each program runs twice; the last two columns are the simulated times of the two runs, in µs. The cost of an event is
# the difference between the runs' instructions, divided by the difference between their events.
COUNTED = [
    ("x5-2", "mutexbench", "ticket-spin", 72, 100, 200),
    ("x5-2", "mutexbench", "mcs-spin", 72, 100, 300),
    ("t5", "randarray", "mcs-spin", 16, 200, 600),
]


def points(program, arguments, limit):
    """Returns rows: group, lock, threads, seed, seconds, events, looks."""
    outcome = harness.run([program, MACHINES, *arguments], limit=limit)
    if not outcome.ok:
        die(f"sim_speed: {outcome.trouble()}", 1)
    rows = []
    for line in outcome.stdout.splitlines():
        group, lock, threads, seed, seconds, events, looks = line.split()
        rows.append((group, lock, int(threads), int(seed), float(seconds), int(events), int(looks)))
    return rows


def measure_groups(program, rounds):
    """Returns each group's results in the fastest of several rounds, because other load only adds time."""
    figures = []
    for group, what, limit, aim, by_lock in GROUPS:
        best = {}
        for _ in range(rounds):
            sums = {}
            for _, lock, _, _, seconds, events, _ in points(program, [group], limit * 10):
                name = lock if by_lock else ""
                before = sums.get(name, (0, 0))
                sums[name] = before[0] + seconds, before[1] + events
            for name, sum_ in sums.items():
                best[name] = min(best.get(name, sum_), sum_)
        for name, (seconds, events) in best.items():
            figures.append({"figure": f"{what}, {name}" if name else what, "seconds": round(seconds, 3), "limit": limit,
                            "aim": aim, "events": events})
    return figures


def instructions(program, machine, workload, lock, threads, short, long):
    counts = []
    with tempfile.TemporaryDirectory(prefix="usher-sim-") as folder:
        for us in (short, long):
            outcome = harness.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", program, MACHINES,
                                   machine, workload, lock, str(threads), str(us)], limit=600)
            executed = re.search(r"Collected : (\d+)", outcome.stderr)
            if not outcome.ok or executed is None:
                die(f"valgrind on sim_speed: {outcome.trouble()}", 1)
            counts.append((int(executed.group(1)), int(outcome.stdout.split()[5])))
    (few, few_events), (many, many_events) = counts
    return (many - few) / (many_events - few_events)


def measure_instructions(program):
    return {f"{machine} {workload} {lock} {threads}": round(instructions(program, machine, workload, lock, threads, a, b), 1)
            for machine, workload, lock, threads, a, b in COUNTED}


def check_instructions(measured, update, build):
    recorded = {}
    if RECORD.is_file():
        recorded = json.loads(RECORD.read_text())["instructions"]
    print(harness.table([[name, f"{now:.1f}", f"{recorded.get(name, 0):.1f}"] for name, now in measured.items()],
                        ["instructions an event", "now", "recorded"], right=(1, 2)))
    if update:
        RECORD.write_text(json.dumps({
            "what": f"instructions of the simulator an event, within {BAND:.0%}; written by tools/bench_sim.py --update",
            "compiler": harness.compiler(build), "instructions": measured}, indent=1) + "\n")
        return 0
    status = 0
    for name, now in measured.items():
        before = recorded.get(name)
        if before is None:
            print(f"{name}: not recorded yet: run with --update")
            status = 1
        elif abs(now - before) > BAND * before:
            print(f"{name}: {'DEARER' if now > before else 'cheaper'} (record it, if it is meant to be: --update)")
            status = 1
    return status


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", metavar="DIR")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the fastest counts (3)")
    parser.add_argument("--instructions", action="store_true", help="only count instructions, and compare with the record")
    parser.add_argument("--update", action="store_true", help="record the present counts")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    options = parser.parse_args()
    build = Build(options.build)
    program = build.folder / "bin" / "sim_speed"
    build.need(program)
    if not shutil.which("valgrind"):
        die("valgrind is not installed")
    if options.instructions or options.update:
        return check_instructions(measure_instructions(program), options.update, build)

    others = harness.OthersShare()
    figures = measure_groups(program, options.rounds)
    counted = measure_instructions(program)
    heading = ["figure", "CPU seconds", "limit", "aim", "million events", "million events a second"]
    rows = [[f["figure"], f"{f['seconds']:.2f}", str(f["limit"]), str(f["aim"] or "–"), f"{f['events'] / 1e6:.1f}",
             f"{f['events'] / 1e6 / f['seconds']:.1f}"] for f in figures]
    counted_rows = [[name, f"{now:.0f}"] for name, now in counted.items()]
    print(harness.table(rows, heading, right=(1, 2, 3, 4, 5)))
    print()
    print(harness.table(counted_rows, ["instructions an event", ""], right=(1,)))
    provenance = harness.provenance(build, others)
    if options.json:
        options.json.write_text(json.dumps({"provenance": provenance, "rounds": options.rounds, "figures": figures,
                                            "instructions": counted}, indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text(
            "# How fast the simulator is\n\n"
            f"A figure is the CPU time of the fastest of {options.rounds} rounds on one core. `make bench-sim` repeats the measurement and "
            f"fails if "
            "a figure is above its limit. Other programs, which share the caches, increase the CPU time by up to a quarter.\n\n"
            f"{harness.markdown(rows, heading)}\n\n"
            "The next table has the instructions that the simulator needs for a simulated event, counted by callgrind: the additional "
            "instructions "
            f"of a longer run, divided by its additional events. A test keeps them within {BAND:.0%} of "
            "[stored values](../../tests/cost/simulator.json).\n\n"
            f"{harness.markdown(counted_rows, ['point', 'instructions an event'])}\n\n"
            f"{harness.provenance_line(provenance)}\n")
    beyond = [f for f in figures if f["seconds"] > f["limit"]]
    for f in beyond:
        print(f"TOO SLOW: {f['figure']}: {f['seconds']:.2f} s, limit {f['limit']} s")
    return 1 if beyond else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
